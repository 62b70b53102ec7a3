/* Expressions, by recursive descent over Jinja's grammar: conditional, or, and, not, comparison,
 * sum, ~, product, power, unary, then postfixes and filters. */
#include <string.h>

#include "ast.h"

static bool at(const parser *p, int kind) {
  return p->at->kind == kind;
}

static node *binary(parser *p, node_kind kind, int op, node *a, node *b) {
  node *n = mt_node_new(p, kind);
  n->op = op;
  n->a = a;
  n->b = b;
  return mt_node_close(p, n);
}

/* ---- calls and subscripts ------------------------------------------------------------------ */

static node *argument(parser *p, bool *keywords) {
  node *n;
  if (mt_chat_parse_accept(p, '*')) {
    n = mt_node_new(p, N_STAR);
    n->a = mt_chat_parse_expression(p, 0);
    return mt_node_close(p, n);
  }
  if (mt_chat_parse_accept(p, TOK_POW)) {
    n = mt_node_new(p, N_STAR_STAR);
    n->a = mt_chat_parse_expression(p, 0);
    *keywords = true;
    return mt_node_close(p, n);
  }
  if (at(p, TOK_NAME) && p->at[1].kind == '=') {
    n = mt_node_new(p, N_KWARG);
    n->name = mt_sym_intern(p->t, p->at->p, p->at->len);
    p->at += 2;
    n->a = mt_chat_parse_expression(p, 0);
    *keywords = true;
    return mt_node_close(p, n);
  }
  if (*keywords) mt_chat_parse_fail(p, "a positional argument after a keyword argument");
  return mt_chat_parse_expression(p, 0);
}

/* "( … )": the opening parenthesis is current. */
static void arguments(parser *p, node *call) {
  bool keywords = false;
  mt_chat_parse_expect(p, '(', "(");
  while (!at(p, ')')) {
    if (call->kids.n) {
      mt_chat_parse_expect(p, ',', "a comma");
      if (at(p, ')')) break;
    }
    mt_node_push(p, &call->kids, argument(p, &keywords));
  }
  mt_chat_parse_expect(p, ')', ")");
}

static node *postfix_call(parser *p, node *a) {
  node *n = mt_node_new(p, N_CALL);
  n->a = a;
  arguments(p, n);
  return mt_node_close(p, n);
}

static bool ends_subscript(const parser *p) {
  return at(p, ']') || at(p, ',');
}

static node *subscript(parser *p) {
  node *first = at(p, ':') ? NULL : mt_chat_parse_expression(p, 0);
  if (!at(p, ':')) return first;
  node *n = mt_node_new(p, N_SLICE);
  n->a = first;
  p->at++;
  if (!at(p, ':') && !ends_subscript(p)) n->b = mt_chat_parse_expression(p, 0);
  if (mt_chat_parse_accept(p, ':') && !ends_subscript(p)) n->c = mt_chat_parse_expression(p, 0);
  return mt_node_close(p, n);
}

static node *postfix_item(parser *p, node *a) {
  node *n = mt_node_new(p, N_ITEM);
  n->a = a;
  mt_chat_parse_expect(p, '[', "[");
  if (at(p, ']')) mt_chat_parse_fail(p, "an empty subscript");
  n->b = subscript(p);
  if (at(p, ',')) {
    node *tuple = mt_node_new(p, N_TUPLE);
    mt_node_push(p, &tuple->kids, n->b);
    while (mt_chat_parse_accept(p, ',')) mt_node_push(p, &tuple->kids, subscript(p));
    n->b = mt_node_close(p, tuple);
  }
  mt_chat_parse_expect(p, ']', "]");
  return mt_node_close(p, n);
}

static node *postfix_attr(parser *p, node *a) {
  mt_chat_parse_expect(p, '.', ".");
  if (at(p, TOK_INT)) {
    node *index = mt_node_new(p, N_CONST_INT);
    index->num.i = p->at->num.i;
    p->at++;
    return binary(p, N_ITEM, 0, a, mt_node_close(p, index));
  }
  node *n = mt_node_new(p, N_ATTR);
  const token *k = mt_chat_parse_expect(p, TOK_NAME, "a name or number after the dot");
  n->name = mt_sym_intern(p->t, k->p, k->len);
  n->a = a;
  return mt_node_close(p, n);
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
  node *n = mt_node_new(p, N_CONST_STR);
  n->text = p->at->p;
  n->len = p->at->len;
  p->at++;
  while (at(p, TOK_STRING)) { /* neighbours join, as in C */
    char *joined = mt_arena_alloc(&p->t->mem, n->len + p->at->len + 1, 1);
    memcpy(joined, n->text, n->len);
    memcpy(joined + n->len, p->at->p, p->at->len);
    n->text = joined;
    n->len += p->at->len;
    p->at++;
  }
  mt_node_push(p, &p->t->constants, n);
  return mt_node_close(p, n);
}

static node *name_or_constant(parser *p) {
  const token *k = p->at++;
  static const struct {
    const char *word;
    node_kind kind;
    int value;
  } words[] = {{"true", N_CONST_BOOL, 1},  {"True", N_CONST_BOOL, 1}, {"false", N_CONST_BOOL, 0},
               {"False", N_CONST_BOOL, 0}, {"none", N_CONST_NONE, 0}, {"None", N_CONST_NONE, 0}};
  node *n = mt_node_new(p, N_NAME);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (k->len == strlen(words[i].word) && !memcmp(k->p, words[i].word, k->len)) {
      n->kind = words[i].kind;
      n->op = words[i].value;
      return mt_node_close(p, n);
    }
  n->name = mt_sym_intern(p->t, k->p, k->len);
  return mt_node_close(p, n);
}

static node *list_display(parser *p) {
  node *n = mt_node_new(p, N_LIST);
  mt_chat_parse_expect(p, '[', "[");
  while (!at(p, ']')) {
    if (n->kids.n) {
      mt_chat_parse_expect(p, ',', "a comma");
      if (at(p, ']')) break;
    }
    mt_node_push(p, &n->kids, mt_chat_parse_expression(p, 0));
  }
  mt_chat_parse_expect(p, ']', "]");
  return mt_node_close(p, n);
}

static node *dict_display(parser *p) {
  node *n = mt_node_new(p, N_DICT);
  mt_chat_parse_expect(p, '{', "{");
  while (!at(p, '}')) {
    if (n->kids.n) {
      mt_chat_parse_expect(p, ',', "a comma");
      if (at(p, '}')) break;
    }
    mt_node_push(p, &n->kids, mt_chat_parse_expression(p, 0));
    mt_chat_parse_expect(p, ':', "a colon");
    mt_node_push(p, &n->kids, mt_chat_parse_expression(p, 0));
  }
  mt_chat_parse_expect(p, '}', "}");
  return mt_node_close(p, n);
}

static node *primary(parser *p) {
  node *n;
  switch (p->at->kind) {
    case TOK_NAME: return name_or_constant(p);
    case TOK_STRING: return string_constant(p);
    case TOK_INT:
      n = mt_node_new(p, N_CONST_INT);
      n->num.i = p->at++->num.i;
      return mt_node_close(p, n);
    case TOK_FLOAT:
      n = mt_node_new(p, N_CONST_FLOAT);
      n->num.f = p->at++->num.f;
      return mt_node_close(p, n);
    case '(':
      p->at++;
      n = mt_chat_parse_tuple(p, PARSE_PARENS);
      mt_chat_parse_expect(p, ')', ")");
      return n;
    case '[': return list_display(p);
    case '{': return dict_display(p);
    default: mt_chat_parse_fail(p, "an expression was expected");
  }
}

/* ---- filters and tests --------------------------------------------------------------------- */

static const sym *dotted_name(parser *p) {
  const token *k = mt_chat_parse_expect(p, TOK_NAME, "a name");
  const char *end = k->p + k->len;
  while (at(p, '.')) {
    p->at++;
    const token *part = mt_chat_parse_expect(p, TOK_NAME, "a name");
    end = part->p + part->len;
  }
  return mt_sym_intern(p->t, k->p, (size_t)(end - k->p));
}

node *mt_chat_parse_filters(parser *p, node *a, bool first_has_no_pipe) {
  while (first_has_no_pipe || at(p, '|')) {
    if (!first_has_no_pipe) p->at++;
    first_has_no_pipe = false;
    node *n = mt_node_new(p, N_FILTER);
    n->name = dotted_name(p);
    n->a = a;
    if (at(p, '(')) arguments(p, n);
    a = mt_node_close(p, n);
  }
  return a;
}

static bool starts_test_argument(const parser *p) {
  switch (p->at->kind) {
    case TOK_NAME:
      return !mt_chat_parse_is_name(p, "else") && !mt_chat_parse_is_name(p, "or") &&
             !mt_chat_parse_is_name(p, "and") && !mt_chat_parse_is_name(p, "if") &&
             !mt_chat_parse_is_name(p, "in") && !mt_chat_parse_is_name(p, "not");
    case TOK_STRING:
    case TOK_INT:
    case TOK_FLOAT:
    case '[':
    case '{': return true;
    default: return false;
  }
}

static node *test(parser *p, node *a) {
  node *n = mt_node_new(p, N_TEST);
  p->at++;
  n->op = mt_chat_parse_accept_name(p, "not");
  n->name = dotted_name(p);
  n->a = a;
  if (at(p, '(')) {
    arguments(p, n);
  } else if (starts_test_argument(p)) {
    if (mt_chat_parse_is_name(p, "is")) mt_chat_parse_fail(p, "tests cannot be chained with is");
    mt_node_push(p, &n->kids, postfixes(p, primary(p)));
  }
  if (a->kind == N_NAME && (!strcmp(n->name->p, "defined") || !strcmp(n->name->p, "undefined")))
    mt_sym_intern(p->t, a->name->p, a->name->len)->probed = true;
  return mt_node_close(p, n);
}

static node *filters_and_tests(parser *p, node *a) {
  for (;;) {
    if (at(p, '|'))
      a = mt_chat_parse_filters(p, a, false);
    else if (mt_chat_parse_is_name(p, "is"))
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
  mt_chat_parse_enter(p);
  if (at(p, '-') || at(p, '+')) {
    n = mt_node_new(p, at(p, '-') ? N_NEG : N_POS);
    p->at++;
    n->a = unary(p, false);
    n = mt_node_close(p, n);
  } else {
    n = primary(p);
  }
  n = postfixes(p, n);
  if (with_filters) n = filters_and_tests(p, n);
  mt_chat_parse_leave(p);
  return n;
}

node *mt_chat_parse_unary_expression(parser *p) {
  return unary(p, true);
}

static node *power(parser *p) {
  node *a = unary(p, true);
  while (mt_chat_parse_accept(p, TOK_POW)) a = binary(p, N_ARITH, TOK_POW, a, unary(p, true));
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
  node *n = mt_node_new(p, N_CONCAT);
  mt_node_push(p, &n->kids, a);
  while (mt_chat_parse_accept(p, '~')) mt_node_push(p, &n->kids, product(p));
  return mt_node_close(p, n);
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
  if (mt_chat_parse_accept_name(p, "in")) return OP_IN;
  if (mt_chat_parse_is_name(p, "not") && p->at[1].kind == TOK_NAME && p->at[1].len == 2 &&
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
      n = mt_node_new(p, N_COMPARE);
      n->a = a;
    }
    node *operand = mt_node_new(p, N_OPERAND);
    operand->op = op;
    operand->a = sum(p);
    mt_node_push(p, &n->kids, mt_node_close(p, operand));
  }
  return n ? mt_node_close(p, n) : a;
}

static node *negation(parser *p) {
  if (!mt_chat_parse_is_name(p, "not")) return comparison(p);
  node *n = mt_node_new(p, N_NOT);
  p->at++;
  mt_chat_parse_enter(p);
  n->a = negation(p);
  mt_chat_parse_leave(p);
  return mt_node_close(p, n);
}

static node *conjunction(parser *p) {
  node *a = negation(p);
  while (mt_chat_parse_accept_name(p, "and")) a = binary(p, N_AND, 0, a, negation(p));
  return a;
}

static node *disjunction(parser *p) {
  node *a = conjunction(p);
  while (mt_chat_parse_accept_name(p, "or")) a = binary(p, N_OR, 0, a, conjunction(p));
  return a;
}

node *mt_chat_parse_expression(parser *p, int flags) {
  mt_chat_parse_enter(p);
  node *a = disjunction(p);
  while (!(flags & PARSE_NO_IF) && mt_chat_parse_accept_name(p, "if")) {
    node *n = mt_node_new(p, N_IF_EXPR);
    n->a = a;
    n->b = disjunction(p);
    if (mt_chat_parse_accept_name(p, "else")) n->c = mt_chat_parse_expression(p, 0);
    a = mt_node_close(p, n);
  }
  mt_chat_parse_leave(p);
  return a;
}

/* ---- tuples and targets -------------------------------------------------------------------- */

static bool ends_tuple(const parser *p, int flags) {
  return at(p, TOK_VAR_END) || at(p, TOK_BLOCK_END) || at(p, ')') ||
         ((flags & PARSE_STOP_IN) && mt_chat_parse_is_name(p, "in")) ||
         ((flags & PARSE_STOP_RECURSIVE) && mt_chat_parse_is_name(p, "recursive"));
}

node *mt_chat_parse_tuple(parser *p, int flags) {
  node *n = NULL, *first = NULL;
  if (ends_tuple(p, flags)) {
    if (!(flags & PARSE_PARENS)) mt_chat_parse_fail(p, "an expression was expected");
    return mt_node_close(p, mt_node_new(p, N_TUPLE));
  }
  first = mt_chat_parse_expression(p, flags & PARSE_NO_IF);
  while (mt_chat_parse_accept(p, ',')) {
    if (!n) {
      n = mt_node_new(p, N_TUPLE);
      mt_node_push(p, &n->kids, first);
    }
    if (ends_tuple(p, flags)) break;
    mt_node_push(p, &n->kids, mt_chat_parse_expression(p, flags & PARSE_NO_IF));
  }
  return n ? mt_node_close(p, n) : first;
}

static node *one_target(parser *p, int flags) {
  if (mt_chat_parse_accept(p, '(')) {
    node *n = mt_chat_parse_target(p, PARSE_PARENS);
    mt_chat_parse_expect(p, ')', ")");
    return n;
  }
  const token *k = mt_chat_parse_expect(p, TOK_NAME, "a name to assign to");
  node *n = mt_node_new(p, N_NAME);
  sym *s = mt_sym_intern(p->t, k->p, k->len);
  n->name = s;
  if (at(p, '.') && !(flags & PARSE_STOP_IN)) { /* a namespace's attribute */
    p->at++;
    node *ns = mt_node_new(p, N_NS_ATTR);
    ns->a = n;
    const token *attr = mt_chat_parse_expect(p, TOK_NAME, "a name");
    sym *name = mt_sym_intern(p->t, attr->p, attr->len);
    name->attr_set = true;
    ns->name = name;
    return mt_node_close(p, ns);
  }
  s->bound = true;
  return mt_node_close(p, n);
}

node *mt_chat_parse_target(parser *p, int flags) {
  mt_chat_parse_enter(p);
  node *first = one_target(p, flags), *n = NULL;
  while (mt_chat_parse_accept(p, ',')) {
    if (!n) {
      n = mt_node_new(p, N_TUPLE);
      mt_node_push(p, &n->kids, first);
    }
    if (at(p, '=') || ends_tuple(p, flags)) break;
    mt_node_push(p, &n->kids, one_target(p, flags));
  }
  mt_chat_parse_leave(p);
  return n ? mt_node_close(p, n) : first;
}
