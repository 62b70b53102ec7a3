/* Expressions, by recursive descent over Jinja's grammar: conditional, or, and, not, comparison,
 * sum, ~, product, power, unary, then postfixes and filters. */
#include <string.h>

#include "ast.h"

static bool at(const parser *p, int kind) {
  return p->at->kind == kind;
}

static node *binary(parser *p, node_kind kind, int op, node *a, node *b) {
  node *n = node_new(p, kind);
  n->op = op;
  n->a = a;
  n->b = b;
  return node_close(p, n);
}

/* ---- calls and subscripts ------------------------------------------------------------------ */

static node *argument(parser *p, bool *keywords) {
  node *n;
  if (parse_accept(p, '*')) {
    n = node_new(p, N_STAR);
    n->a = parse_expression(p, 0);
    return node_close(p, n);
  }
  if (parse_accept(p, TOK_POW)) {
    n = node_new(p, N_STAR_STAR);
    n->a = parse_expression(p, 0);
    *keywords = true;
    return node_close(p, n);
  }
  if (at(p, TOK_NAME) && p->at[1].kind == '=') {
    n = node_new(p, N_KWARG);
    n->name = sym_intern(p->t, p->at->p, p->at->len);
    p->at += 2;
    n->a = parse_expression(p, 0);
    *keywords = true;
    return node_close(p, n);
  }
  if (*keywords) parse_fail(p, "a positional argument after a keyword argument");
  return parse_expression(p, 0);
}

/* "( … )": the opening parenthesis is current. */
static void arguments(parser *p, node *call) {
  bool keywords = false;
  parse_expect(p, '(', "(");
  while (!at(p, ')')) {
    if (call->kids.n) {
      parse_expect(p, ',', "a comma");
      if (at(p, ')')) break;
    }
    node_push(p, &call->kids, argument(p, &keywords));
  }
  parse_expect(p, ')', ")");
}

static node *postfix_call(parser *p, node *a) {
  node *n = node_new(p, N_CALL);
  n->a = a;
  arguments(p, n);
  return node_close(p, n);
}

static bool ends_subscript(const parser *p) {
  return at(p, ']') || at(p, ',');
}

static node *subscript(parser *p) {
  node *first = at(p, ':') ? NULL : parse_expression(p, 0);
  if (!at(p, ':')) return first;
  node *n = node_new(p, N_SLICE);
  n->a = first;
  p->at++;
  if (!at(p, ':') && !ends_subscript(p)) n->b = parse_expression(p, 0);
  if (parse_accept(p, ':') && !ends_subscript(p)) n->c = parse_expression(p, 0);
  return node_close(p, n);
}

static node *postfix_item(parser *p, node *a) {
  node *n = node_new(p, N_ITEM);
  n->a = a;
  parse_expect(p, '[', "[");
  if (at(p, ']')) parse_fail(p, "an empty subscript");
  n->b = subscript(p);
  if (at(p, ',')) {
    node *tuple = node_new(p, N_TUPLE);
    node_push(p, &tuple->kids, n->b);
    while (parse_accept(p, ',')) node_push(p, &tuple->kids, subscript(p));
    n->b = node_close(p, tuple);
  }
  parse_expect(p, ']', "]");
  return node_close(p, n);
}

static node *postfix_attr(parser *p, node *a) {
  parse_expect(p, '.', ".");
  if (at(p, TOK_INT)) {
    node *index = node_new(p, N_CONST_INT);
    index->num.i = p->at->num.i;
    p->at++;
    return binary(p, N_ITEM, 0, a, node_close(p, index));
  }
  node *n = node_new(p, N_ATTR);
  const token *k = parse_expect(p, TOK_NAME, "a name or number after the dot");
  n->name = sym_intern(p->t, k->p, k->len);
  n->a = a;
  return node_close(p, n);
}

static node *postfixes(parser *p, node *a) {
  for (;;) {
    if (at(p, '.'))
      a = postfix_attr(p, a);
    else if (at(p, '['))
      a = postfix_item(p, a);
    else if (at(p, '('))
      a = postfix_call(p, a);
    else
      return a;
  }
}

/* ---- primaries ----------------------------------------------------------------------------- */

static node *string_constant(parser *p) {
  node *n = node_new(p, N_CONST_STR);
  n->text = p->at->p;
  n->len = p->at->len;
  p->at++;
  while (at(p, TOK_STRING)) { /* neighbours join, as in C */
    char *joined = arena_alloc(&p->t->mem, n->len + p->at->len + 1, 1);
    memcpy(joined, n->text, n->len);
    memcpy(joined + n->len, p->at->p, p->at->len);
    n->text = joined;
    n->len += p->at->len;
    p->at++;
  }
  node_push(p, &p->t->constants, n);
  return node_close(p, n);
}

static node *name_or_constant(parser *p) {
  const token *k = p->at++;
  static const struct {
    const char *word;
    node_kind kind;
    int value;
  } words[] = {{"true", N_CONST_BOOL, 1},  {"True", N_CONST_BOOL, 1}, {"false", N_CONST_BOOL, 0},
               {"False", N_CONST_BOOL, 0}, {"none", N_CONST_NONE, 0}, {"None", N_CONST_NONE, 0}};
  node *n = node_new(p, N_NAME);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (k->len == strlen(words[i].word) && !memcmp(k->p, words[i].word, k->len)) {
      n->kind = words[i].kind;
      n->op = words[i].value;
      return node_close(p, n);
    }
  n->name = sym_intern(p->t, k->p, k->len);
  return node_close(p, n);
}

static node *list_display(parser *p) {
  node *n = node_new(p, N_LIST);
  parse_expect(p, '[', "[");
  while (!at(p, ']')) {
    if (n->kids.n) {
      parse_expect(p, ',', "a comma");
      if (at(p, ']')) break;
    }
    node_push(p, &n->kids, parse_expression(p, 0));
  }
  parse_expect(p, ']', "]");
  return node_close(p, n);
}

static node *dict_display(parser *p) {
  node *n = node_new(p, N_DICT);
  parse_expect(p, '{', "{");
  while (!at(p, '}')) {
    if (n->kids.n) {
      parse_expect(p, ',', "a comma");
      if (at(p, '}')) break;
    }
    node_push(p, &n->kids, parse_expression(p, 0));
    parse_expect(p, ':', "a colon");
    node_push(p, &n->kids, parse_expression(p, 0));
  }
  parse_expect(p, '}', "}");
  return node_close(p, n);
}

static node *primary(parser *p) {
  node *n;
  switch (p->at->kind) {
    case TOK_NAME: return name_or_constant(p);
    case TOK_STRING: return string_constant(p);
    case TOK_INT:
      n = node_new(p, N_CONST_INT);
      n->num.i = p->at++->num.i;
      return node_close(p, n);
    case TOK_FLOAT:
      n = node_new(p, N_CONST_FLOAT);
      n->num.f = p->at++->num.f;
      return node_close(p, n);
    case '(':
      p->at++;
      n = parse_tuple(p, PARSE_PARENS);
      parse_expect(p, ')', ")");
      return n;
    case '[': return list_display(p);
    case '{': return dict_display(p);
    default: parse_fail(p, "an expression was expected");
  }
}

/* ---- filters and tests --------------------------------------------------------------------- */

static const sym *dotted_name(parser *p) {
  const token *k = parse_expect(p, TOK_NAME, "a name");
  const char *end = k->p + k->len;
  while (at(p, '.')) {
    p->at++;
    const token *part = parse_expect(p, TOK_NAME, "a name");
    end = part->p + part->len;
  }
  return sym_intern(p->t, k->p, (size_t)(end - k->p));
}

node *parse_filters(parser *p, node *a, bool first_has_no_pipe) {
  while (first_has_no_pipe || at(p, '|')) {
    if (!first_has_no_pipe) p->at++;
    first_has_no_pipe = false;
    node *n = node_new(p, N_FILTER);
    n->name = dotted_name(p);
    n->a = a;
    if (at(p, '(')) arguments(p, n);
    a = node_close(p, n);
  }
  return a;
}

static bool starts_test_argument(const parser *p) {
  switch (p->at->kind) {
    case TOK_NAME:
      return !parse_is_name(p, "else") && !parse_is_name(p, "or") && !parse_is_name(p, "and") &&
             !parse_is_name(p, "if") && !parse_is_name(p, "in") && !parse_is_name(p, "not");
    case TOK_STRING:
    case TOK_INT:
    case TOK_FLOAT:
    case '[':
    case '{': return true;
    default: return false;
  }
}

static node *test(parser *p, node *a) {
  node *n = node_new(p, N_TEST);
  p->at++;
  n->op = parse_accept_name(p, "not");
  n->name = dotted_name(p);
  n->a = a;
  if (at(p, '(')) {
    arguments(p, n);
  } else if (starts_test_argument(p)) {
    if (parse_is_name(p, "is")) parse_fail(p, "tests cannot be chained with is");
    node_push(p, &n->kids, postfixes(p, primary(p)));
  }
  if (a->kind == N_NAME && (!strcmp(n->name->p, "defined") || !strcmp(n->name->p, "undefined")))
    sym_intern(p->t, a->name->p, a->name->len)->probed = true;
  return node_close(p, n);
}

static node *filters_and_tests(parser *p, node *a) {
  for (;;) {
    if (at(p, '|'))
      a = parse_filters(p, a, false);
    else if (parse_is_name(p, "is"))
      a = test(p, a);
    else if (at(p, '('))
      a = postfix_call(p, a);
    else
      return a;
  }
}

/* ---- operators ----------------------------------------------------------------------------- */

static node *unary(parser *p, bool with_filters) {
  node *n;
  parse_enter(p);
  if (at(p, '-') || at(p, '+')) {
    n = node_new(p, at(p, '-') ? N_NEG : N_POS);
    p->at++;
    n->a = unary(p, false);
    n = node_close(p, n);
  } else {
    n = primary(p);
  }
  n = postfixes(p, n);
  if (with_filters) n = filters_and_tests(p, n);
  parse_leave(p);
  return n;
}

node *parse_unary_expression(parser *p) {
  return unary(p, true);
}

static node *power(parser *p) {
  node *a = unary(p, true);
  while (parse_accept(p, TOK_POW)) a = binary(p, N_ARITH, TOK_POW, a, unary(p, true));
  return a;
}

static node *product(parser *p) {
  node *a = power(p);
  while (at(p, '*') || at(p, '/') || at(p, TOK_FLOORDIV) || at(p, '%')) {
    int op = p->at++->kind;
    a = binary(p, N_ARITH, op, a, power(p));
  }
  return a;
}

static node *concatenation(parser *p) {
  node *a = product(p);
  if (!at(p, '~')) return a;
  node *n = node_new(p, N_CONCAT);
  node_push(p, &n->kids, a);
  while (parse_accept(p, '~')) node_push(p, &n->kids, product(p));
  return node_close(p, n);
}

static node *sum(parser *p) {
  node *a = concatenation(p);
  while (at(p, '+') || at(p, '-')) {
    int op = p->at++->kind;
    a = binary(p, N_ARITH, op, a, concatenation(p));
  }
  return a;
}

/* The comparison operator here, consumed, or 0. */
static int comparison_operator(parser *p) {
  int k = p->at->kind;
  if (k == TOK_EQ || k == TOK_NE || k == '<' || k == '>' || k == TOK_LE || k == TOK_GE) {
    p->at++;
    return k;
  }
  if (parse_accept_name(p, "in")) return OP_IN;
  if (parse_is_name(p, "not") && p->at[1].kind == TOK_NAME && p->at[1].len == 2 &&
      !memcmp(p->at[1].p, "in", 2)) {
    p->at += 2;
    return OP_NOT_IN;
  }
  return 0;
}

static node *comparison(parser *p) {
  node *a = sum(p), *n = NULL;
  for (int op; (op = comparison_operator(p));) {
    if (!n) {
      n = node_new(p, N_COMPARE);
      n->a = a;
    }
    node *operand = node_new(p, N_OPERAND);
    operand->op = op;
    operand->a = sum(p);
    node_push(p, &n->kids, node_close(p, operand));
  }
  return n ? node_close(p, n) : a;
}

static node *negation(parser *p) {
  if (!parse_is_name(p, "not")) return comparison(p);
  node *n = node_new(p, N_NOT);
  p->at++;
  parse_enter(p);
  n->a = negation(p);
  parse_leave(p);
  return node_close(p, n);
}

static node *conjunction(parser *p) {
  node *a = negation(p);
  while (parse_accept_name(p, "and")) a = binary(p, N_AND, 0, a, negation(p));
  return a;
}

static node *disjunction(parser *p) {
  node *a = conjunction(p);
  while (parse_accept_name(p, "or")) a = binary(p, N_OR, 0, a, conjunction(p));
  return a;
}

node *parse_expression(parser *p, int flags) {
  parse_enter(p);
  node *a = disjunction(p);
  while (!(flags & PARSE_NO_IF) && parse_accept_name(p, "if")) {
    node *n = node_new(p, N_IF_EXPR);
    n->a = a;
    n->b = disjunction(p);
    if (parse_accept_name(p, "else")) n->c = parse_expression(p, 0);
    a = node_close(p, n);
  }
  parse_leave(p);
  return a;
}

/* ---- tuples and targets -------------------------------------------------------------------- */

static bool ends_tuple(const parser *p, int flags) {
  return at(p, TOK_VAR_END) || at(p, TOK_BLOCK_END) || at(p, ')') ||
         ((flags & PARSE_STOP_IN) && parse_is_name(p, "in")) ||
         ((flags & PARSE_STOP_RECURSIVE) && parse_is_name(p, "recursive"));
}

node *parse_tuple(parser *p, int flags) {
  node *n = NULL, *first = NULL;
  if (ends_tuple(p, flags)) {
    if (!(flags & PARSE_PARENS)) parse_fail(p, "an expression was expected");
    return node_close(p, node_new(p, N_TUPLE));
  }
  first = parse_expression(p, flags & PARSE_NO_IF);
  while (parse_accept(p, ',')) {
    if (!n) {
      n = node_new(p, N_TUPLE);
      node_push(p, &n->kids, first);
    }
    if (ends_tuple(p, flags)) break;
    node_push(p, &n->kids, parse_expression(p, flags & PARSE_NO_IF));
  }
  return n ? node_close(p, n) : first;
}

static node *one_target(parser *p, int flags) {
  if (parse_accept(p, '(')) {
    node *n = parse_target(p, PARSE_PARENS);
    parse_expect(p, ')', ")");
    return n;
  }
  const token *k = parse_expect(p, TOK_NAME, "a name to assign to");
  node *n = node_new(p, N_NAME);
  sym *s = sym_intern(p->t, k->p, k->len);
  n->name = s;
  if (at(p, '.') && !(flags & PARSE_STOP_IN)) { /* a namespace's attribute */
    p->at++;
    node *ns = node_new(p, N_NS_ATTR);
    ns->a = n;
    const token *attr = parse_expect(p, TOK_NAME, "a name");
    sym *name = sym_intern(p->t, attr->p, attr->len);
    name->attr_set = true;
    ns->name = name;
    return node_close(p, ns);
  }
  s->bound = true;
  return node_close(p, n);
}

node *parse_target(parser *p, int flags) {
  parse_enter(p);
  node *first = one_target(p, flags), *n = NULL;
  while (parse_accept(p, ',')) {
    if (!n) {
      n = node_new(p, N_TUPLE);
      node_push(p, &n->kids, first);
    }
    if (at(p, '=') || ends_tuple(p, flags)) break;
    node_push(p, &n->kids, one_target(p, flags));
  }
  parse_leave(p);
  return n ? node_close(p, n) : first;
}
