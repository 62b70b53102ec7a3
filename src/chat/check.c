/* Refuses at compile time what could not run: unknown filters, tests, functions and methods,
 * arguments that a built-in does not take. Resolves filters and tests to their table entries. */
#include <string.h>

#include "runtime.h"

static void check_node(mt_chat_template *t, node *n);

static void check_list(mt_chat_template *t, const node_list *l) {
  for (size_t i = 0; i < l->n; i++) check_node(t, l->v[i]);
}

static noreturn void unknown(mt_chat_template *t, const node *n, const char *what, const char *name,
                             size_t len) {
  t->trap.line = n->line;
  mt_trap_throw(&t->trap, MT_EUNSUPPORTED, "the %s '%.*s' is not supported", what,
                (int)(len < 100 ? len : 100), name);
}

static void check_signature(mt_chat_template *t, const node *call, const signature *s) {
  const char **names = mt_arena_alloc(&t->mem, call->kids.n + 1, sizeof *names);
  size_t n_pos = 0, n_names = 0;
  bool open = false;
  for (size_t i = 0; i < call->kids.n; i++) {
    const node *k = call->kids.v[i];
    if (k->kind == N_STAR || k->kind == N_STAR_STAR)
      open = true;
    else if (k->kind == N_KWARG)
      names[n_names++] = k->name->p;
    else
      n_pos++;
  }
  t->trap.line = call->line;
  mt_signature_check(&t->trap, s, n_pos, names, n_names,
                     open ? SIGNATURE_COMPILE_OPEN : SIGNATURE_COMPILE);
}

/* map('upper'), select('equalto', …), selectattr('role', 'equalto', …): the name of the filter or
 * test, if constant. */
static void check_inner(mt_chat_template *t, const node *n) {
  const char *name = n->name->p;
  bool by_attr = !strcmp(name, "selectattr") || !strcmp(name, "rejectattr");
  bool is_map = !strcmp(name, "map");
  if (!by_attr && !is_map && strcmp(name, "select") && strcmp(name, "reject")) return;
  const node *inner = n->kids.n > by_attr ? n->kids.v[by_attr] : NULL;
  if (!inner || inner->kind != N_CONST_STR) return;
  if (is_map && !mt_chat_filter_find(inner->text, inner->len))
    unknown(t, inner, "filter", inner->text, inner->len);
  if (!is_map && !mt_chat_test_find(inner->text, inner->len))
    unknown(t, inner, "test", inner->text, inner->len);
}

static void check_filter(mt_chat_template *t, node *n) {
  const filter_def *f = mt_chat_filter_find(n->name->p, n->name->len);
  if (!f) unknown(t, n, "filter", n->name->p, n->name->len);
  n->def = f;
  check_signature(t, n, &f->sig);
  check_inner(t, n);
}

static void check_test(mt_chat_template *t, node *n) {
  const test_def *d = mt_chat_test_find(n->name->p, n->name->len);
  if (!d) unknown(t, n, "test", n->name->p, n->name->len);
  n->def = d;
  /* `x is eq y` and `x is eq(y)` both came as kids */
  check_signature(t, n, &d->sig);
}

static bool is_loop_call(const node *f) {
  return f->a->kind == N_NAME && !strcmp(f->a->name->p, "loop") &&
         mt_chat_is_loop_method(f->name->p);
}

static void check_call(mt_chat_template *t, const node *n) {
  const node *f = n->a;
  if (f->kind == N_NAME && !f->name->bound) {
    int fn = mt_chat_function_find(f->name->p, f->name->len);
    bool special = !strcmp(f->name->p, "caller") || !strcmp(f->name->p, "loop");
    if (fn < 0 && !special && !f->name->probed) unknown(t, n, "function", f->name->p, f->name->len);
    if (fn >= 0) check_signature(t, n, &mt_chat_function_at(fn)->sig);
  } else if (f->kind == N_ATTR && !f->name->attr_set && !is_loop_call(f)) {
    if (!mt_chat_method_find(V_MISSING, f->name->p, f->name->len))
      unknown(t, n, "method", f->name->p, f->name->len);
  } else if (f->kind == N_CONST_STR || f->kind == N_CONST_INT || f->kind == N_CONST_FLOAT ||
             f->kind == N_CONST_BOOL || f->kind == N_CONST_NONE) {
    t->trap.line = n->line;
    mt_trap_throw(&t->trap, MT_EFORMAT, "a constant cannot be called");
  }
}

static void check_node(mt_chat_template *t, node *n) {
  if (!n) return;
  check_node(t, n->a);
  check_node(t, n->b);
  check_node(t, n->c);
  check_list(t, &n->kids);
  check_list(t, &n->params);
  check_list(t, &n->alt);
  if (n->kind == N_FILTER)
    check_filter(t, n);
  else if (n->kind == N_TEST)
    check_test(t, n);
  else if (n->kind == N_CALL)
    check_call(t, n);
}

void mt_chat_check(mt_chat_template *t) {
  check_list(t, &t->body);
}
