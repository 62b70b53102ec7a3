/* Statements, and the parser's small change. */
#include <string.h>

#include "ast.h"

/* ---- small change -------------------------------------------------------------------------- */

noreturn void mt_chat_parse_fail(parser *p, const char *what) {
  const token *k = p->at;
  p->t->trap.line = k->line;
  if (k->kind == TOK_EOF)
    mt_trap_throw(&p->t->trap, MT_EFORMAT, "%s, not the end of the template", what);
  int shown = (int)(k->len < 40 ? k->len : 40);
  mt_trap_throw(&p->t->trap, MT_EFORMAT, "%s%s%.*s", what, shown ? ", at " : "", shown, k->p);
}

static noreturn void unsupported(parser *p, const token *k) {
  p->t->trap.line = k->line;
  mt_trap_throw(&p->t->trap, MT_EUNSUPPORTED, "the statement '%.*s' is not supported",
                (int)(k->len < 40 ? k->len : 40), k->p);
}

void mt_chat_parse_enter(parser *p) {
  p->t->trap.line = p->at->line;
  if (++p->nesting > MAX_NESTING)
    mt_trap_throw(&p->t->trap, MT_ELIMIT, "the template nests deeper than %d levels", MAX_NESTING);
}
void mt_chat_parse_leave(parser *p) {
  p->nesting--;
}

node *mt_node_new(parser *p, node_kind kind) {
  node *n = mt_arena_alloc(&p->t->mem, 1, sizeof *n);
  n->kind = kind;
  n->line = p->at->line;
  return n;
}

void mt_node_push(parser *p, node_list *l, node *n) {
  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 4;
    l->v = mt_arena_grow(&p->t->mem, l->v, l->cap * sizeof *l->v, cap * sizeof *l->v);
    l->cap = cap;
  }
  l->v[l->n++] = n;
}

static void deepen(unsigned *d, const node *n) {
  if (n && n->depth > *d) *d = n->depth;
}

node *mt_node_close(parser *p, node *n) {
  unsigned d = 0;
  deepen(&d, n->a);
  deepen(&d, n->b);
  deepen(&d, n->c);
  const node_list *lists[] = {&n->kids, &n->params, &n->alt};
  for (size_t k = 0; k < 3; k++)
    for (size_t i = 0; i < lists[k]->n; i++) deepen(&d, lists[k]->v[i]);
  n->depth = d + 1;
  if (n->depth > MAX_TREE_DEPTH) {
    p->t->trap.line = n->line;
    mt_trap_throw(&p->t->trap, MT_ELIMIT, "an expression or statement nests deeper than %d levels",
                  MAX_TREE_DEPTH);
  }
  return n;
}

bool mt_chat_parse_accept(parser *p, int kind) {
  if (p->at->kind != kind) return false;
  p->at++;
  return true;
}

bool mt_chat_parse_is_name(const parser *p, const char *name) {
  return p->at->kind == TOK_NAME && p->at->len == strlen(name) &&
         !memcmp(p->at->p, name, p->at->len);
}

bool mt_chat_parse_accept_name(parser *p, const char *name) {
  if (!mt_chat_parse_is_name(p, name)) return false;
  p->at++;
  return true;
}

const token *mt_chat_parse_expect(parser *p, int kind, const char *what) {
  if (p->at->kind != kind) {
    char text[80] = "expected ";
    strncat(text, what, sizeof text - strlen(text) - 1);
    mt_chat_parse_fail(p, text);
  }
  return p->at++;
}

sym *mt_sym_intern(mt_chat_template *t, const char *p, size_t len) {
  sym **bucket = &t->syms[mt_hash64(MT_HASH_INIT, p, len) % N_SYM_BUCKETS];
  for (sym *s = *bucket; s; s = s->next)
    if (s->len == len && !memcmp(s->p, p, len)) return s;
  sym *s = mt_arena_alloc(&t->mem, 1, sizeof *s);
  char *text = mt_arena_alloc(&t->mem, len + 1, 1);
  memcpy(text, p, len);
  *s = (sym){.p = text, .len = len, .next = *bucket};
  *bucket = s;
  return s;
}

const sym *mt_sym_find(const mt_chat_template *t, const char *p, size_t len) {
  const sym *s = t->syms[mt_hash64(MT_HASH_INIT, p, len) % N_SYM_BUCKETS];
  while (s && !(s->len == len && !memcmp(s->p, p, len))) s = s->next;
  return s;
}

/* ---- bodies -------------------------------------------------------------------------------- */

static void statements(parser *p, node_list *out, const char *const *ends);

static bool is_one_of(const parser *p, const char *const *words) {
  for (; words && *words; words++)
    if (mt_chat_parse_is_name(p, *words)) return true;
  return false;
}

static void end_of_tag(parser *p) {
  mt_chat_parse_expect(p, TOK_BLOCK_END, "the end of the tag");
}

/* After a statement's head: its body, up to a tag that starts with one of `ends`; that word is then
 * current. */
static void body(parser *p, node_list *out, const char *const *ends) {
  mt_chat_parse_accept(p, ':');
  end_of_tag(p);
  statements(p, out, ends);
}

/* A body with a single end word, which is consumed. */
static void body_until(parser *p, node_list *out, const char *end) {
  const char *ends[] = {end, NULL};
  body(p, out, ends);
  p->at++;
}

/* ---- one statement each: the word itself is consumed --------------------------------------- */

static node *if_statement(parser *p) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  node *n = mt_node_new(p, N_IF);
  bool last = false;
  for (bool otherwise = false; !last;) {
    node *b = mt_node_new(p, N_BRANCH);
    if (!otherwise) b->a = mt_chat_parse_tuple(p, PARSE_NO_IF);
    body(p, &b->kids, otherwise ? ends + 2 : ends);
    mt_node_push(p, &n->kids, mt_node_close(p, b));
    last = mt_chat_parse_is_name(p, "endif");
    otherwise = mt_chat_parse_is_name(p, "else");
    p->at++;
  }
  return mt_node_close(p, n);
}

static node *for_statement(parser *p) {
  static const char *const ends[] = {"endfor", "else", NULL};
  node *n = mt_node_new(p, N_FOR);
  n->a = mt_chat_parse_target(p, PARSE_STOP_IN);
  if (!mt_chat_parse_accept_name(p, "in")) mt_chat_parse_fail(p, "expected in");
  n->b = mt_chat_parse_tuple(p, PARSE_NO_IF | PARSE_STOP_RECURSIVE);
  if (mt_chat_parse_accept_name(p, "if")) n->c = mt_chat_parse_expression(p, 0);
  n->op = mt_chat_parse_accept_name(p, "recursive");
  p->loops++;
  body(p, &n->kids, ends);
  p->loops--;
  if (mt_chat_parse_accept_name(p, "else"))
    body_until(p, &n->alt, "endfor");
  else
    p->at++;
  return mt_node_close(p, n);
}

/* A body that is run apart: no loop around it can be left from within. */
static void captured_body(parser *p, node *n, const char *end) {
  unsigned loops = p->loops;
  p->loops = 0;
  body_until(p, &n->kids, end);
  p->loops = loops;
}

static node *set_statement(parser *p) {
  node *n = mt_node_new(p, N_SET);
  n->a = mt_chat_parse_target(p, 0);
  if (mt_chat_parse_accept(p, '=')) {
    n->b = mt_chat_parse_tuple(p, 0);
    return mt_node_close(p, n);
  }
  n->kind = N_SET_BLOCK;
  n->b = mt_chat_parse_filters(p, NULL, false);
  captured_body(p, n, "endset");
  return mt_node_close(p, n);
}

/* "(a, b=1)" */
static void signature(parser *p, node_list *params) {
  mt_chat_parse_expect(p, '(', "(");
  while (p->at->kind != ')') {
    if (params->n) mt_chat_parse_expect(p, ',', "a comma");
    if (p->at->kind == ')') break;
    const token *k = mt_chat_parse_expect(p, TOK_NAME, "a parameter name");
    node *n = mt_node_new(p, N_KWARG);
    sym *s = mt_sym_intern(p->t, k->p, k->len);
    s->bound = true;
    n->name = s;
    if (mt_chat_parse_accept(p, '='))
      n->a = mt_chat_parse_expression(p, 0);
    else if (params->n && params->v[params->n - 1]->a)
      mt_chat_parse_fail(p, "a parameter without default after one with");
    mt_node_push(p, params, mt_node_close(p, n));
  }
  mt_chat_parse_expect(p, ')', ")");
}

static node *macro_statement(parser *p) {
  node *n = mt_node_new(p, N_MACRO);
  const token *k = mt_chat_parse_expect(p, TOK_NAME, "a macro's name");
  sym *s = mt_sym_intern(p->t, k->p, k->len);
  s->bound = true;
  n->name = s;
  signature(p, &n->params);
  captured_body(p, n, "endmacro");
  return mt_node_close(p, n);
}

static node *call_statement(parser *p) {
  node *n = mt_node_new(p, N_CALL_BLOCK);
  if (p->at->kind == '(') signature(p, &n->params);
  n->a = mt_chat_parse_expression(p, 0);
  if (n->a->kind != N_CALL) mt_chat_parse_fail(p, "a call block needs a call");
  captured_body(p, n, "endcall");
  return mt_node_close(p, n);
}

static node *filter_statement(parser *p) {
  node *n = mt_node_new(p, N_FILTER_BLOCK);
  n->b = mt_chat_parse_filters(p, NULL, true);
  captured_body(p, n, "endfilter");
  return mt_node_close(p, n);
}

static node *with_statement(parser *p) {
  node *n = mt_node_new(p, N_WITH);
  while (p->at->kind != TOK_BLOCK_END) {
    if (n->params.n) mt_chat_parse_expect(p, ',', "a comma");
    node *b = mt_node_new(p, N_SET);
    b->a = mt_chat_parse_target(p, PARSE_STOP_IN);
    mt_chat_parse_expect(p, '=', "=");
    b->b = mt_chat_parse_expression(p, 0);
    mt_node_push(p, &n->params, mt_node_close(p, b));
  }
  body_until(p, &n->kids, "endwith");
  return mt_node_close(p, n);
}

static node *generation_statement(parser *p) {
  node *n = mt_node_new(p, N_SCOPE);
  captured_body(p, n, "endgeneration");
  return mt_node_close(p, n);
}

static node *loop_control(parser *p, node_kind kind) {
  if (!p->loops) {
    p->at--;
    mt_chat_parse_fail(p, "break or continue outside a loop");
  }
  return mt_node_close(p, mt_node_new(p, kind));
}

/* {% print a, b %} */
static void print_statement(parser *p, node_list *out) {
  do {
    node *n = mt_node_new(p, N_OUTPUT);
    n->a = mt_chat_parse_expression(p, 0);
    mt_node_push(p, out, mt_node_close(p, n));
  } while (mt_chat_parse_accept(p, ','));
}

static void statement(parser *p, node_list *out) {
  const token *word = mt_chat_parse_expect(p, TOK_NAME, "a statement");
  p->at--;
  node *n = NULL;
  if (mt_chat_parse_accept_name(p, "if"))
    n = if_statement(p);
  else if (mt_chat_parse_accept_name(p, "for"))
    n = for_statement(p);
  else if (mt_chat_parse_accept_name(p, "set"))
    n = set_statement(p);
  else if (mt_chat_parse_accept_name(p, "macro"))
    n = macro_statement(p);
  else if (mt_chat_parse_accept_name(p, "call"))
    n = call_statement(p);
  else if (mt_chat_parse_accept_name(p, "filter"))
    n = filter_statement(p);
  else if (mt_chat_parse_accept_name(p, "with"))
    n = with_statement(p);
  else if (mt_chat_parse_accept_name(p, "generation"))
    n = generation_statement(p);
  else if (mt_chat_parse_accept_name(p, "break"))
    n = loop_control(p, N_BREAK);
  else if (mt_chat_parse_accept_name(p, "continue"))
    n = loop_control(p, N_CONTINUE);
  else if (mt_chat_parse_accept_name(p, "print"))
    print_statement(p, out);
  else if (word->len > 3 && !memcmp(word->p, "end", 3))
    mt_chat_parse_fail(p, "this ends nothing that is open");
  else if (mt_chat_parse_is_name(p, "else") || mt_chat_parse_is_name(p, "elif"))
    mt_chat_parse_fail(p, "this belongs to no open if");
  else
    unsupported(p, word);
  if (n) mt_node_push(p, out, n);
  end_of_tag(p);
}

static void text(parser *p, node_list *out) {
  node *n = mt_node_new(p, N_DATA);
  n->text = p->at->p;
  n->len = p->at->len;
  p->at++;
  mt_node_push(p, out, mt_node_close(p, n));
  mt_node_push(p, &p->t->texts, n);
}

static void output(parser *p, node_list *out) {
  p->at++;
  node *n = mt_node_new(p, N_OUTPUT);
  n->a = mt_chat_parse_tuple(p, 0);
  mt_node_push(p, out, mt_node_close(p, n));
  mt_chat_parse_expect(p, TOK_VAR_END, "}}");
}

/* Up to the end of the template, or (ends not NULL) to a tag that starts with one of the words,
 * which is then current. */
static void statements(parser *p, node_list *out, const char *const *ends) {
  const token *opened = p->at;
  mt_chat_parse_enter(p);
  for (;;) {
    int kind = p->at->kind;
    if (kind == TOK_DATA) {
      text(p, out);
    } else if (kind == TOK_VAR_BEGIN) {
      output(p, out);
    } else if (kind == TOK_BLOCK_BEGIN) {
      p->at++;
      if (is_one_of(p, ends)) break;
      statement(p, out);
    } else if (ends) {
      p->t->trap.line = opened[-1].line; /* of the tag that opened it */
      const char *last = *ends;
      for (const char *const *e = ends; *e; e++)
        if (!strncmp(*e, "end", 3)) last = *e;
      mt_trap_throw(&p->t->trap, MT_EFORMAT, "the block that starts here has no %s", last);
    } else {
      break;
    }
  }
  mt_chat_parse_leave(p);
}

void mt_chat_parse(mt_chat_template *t) {
  parser p = {.t = t, .at = t->tok};
  statements(&p, &t->body, NULL);
  if (p.at->kind != TOK_EOF) mt_chat_parse_fail(&p, "unexpected input");
}
