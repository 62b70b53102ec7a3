/* Statements, loops and macros. */
#include <string.h>

#include "runtime.h"

static void assign(rt *r, env *e, const node *target, val v) {
  if (target->kind == N_NAME) {
    mt_env_set(r, e, target->name, v);
  } else if (target->kind == N_NS_ATTR) {
    const val *ns = mt_env_get(e, target->a->name);
    if (!ns || ns->kind != V_NS)
      mt_chat_fail(r, "'%.100s' is not a namespace, its attributes cannot be set",
                   target->a->name->p);
    mt_ns_set(r, ns->u.ns, target->name, v);
  } else {
    if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
    const list *l = mt_val_items(r, v);
    if (l->n != target->kids.n)
      mt_chat_fail(r, "cannot unpack %zu values into %zu names", l->n, target->kids.n);
    for (size_t i = 0; i < l->n; i++) assign(r, e, target->kids.v[i], l->v[i]);
  }
}

val mt_chat_exec_capture(rt *r, env *e, const node_list *l) {
  sb *outer = r->out, b = mt_sb_new(r);
  r->out = &b;
  mt_chat_exec_list(r, e, l);
  r->out = outer;
  return mt_sb_val(&b);
}

/* ---- loops --------------------------------------------------------------------------------- */

/* The next item that passes the loop's filter. The filter runs as late as Jinja runs it: it may see
 * what the body set. */
static bool fetch(rt *r, loop *l, val *out) {
  while (l->next < l->total) {
    val v = l->v[l->next++];
    mt_chat_charge(r, 0);
    if (l->filter) {
      env *e = mt_env_new(r, l->outer);
      assign(r, e, l->n->a, v);
      if (!mt_val_truth(r, mt_chat_eval(r, e, l->filter))) continue;
    }
    *out = v;
    return true;
  }
  return false;
}

static bool peek(rt *r, loop *l) {
  if (!l->has_after) l->has_after = fetch(r, l, &l->after);
  return l->has_after;
}

static bool advance(rt *r, loop *l) {
  val v;
  if (l->has_after)
    v = l->after;
  else if (!fetch(r, l, &v))
    return false;
  l->has_after = false;
  if (l->index0 >= 0) {
    l->before = l->current;
    l->has_before = true;
  }
  l->current = v;
  l->index0++;
  return true;
}

static int64_t length(rt *r, loop *l) {
  if (l->known_length >= 0) return l->known_length;
  if (!l->filter) return l->known_length = (int64_t)l->total;
  vec rest = {.r = r}; /* runs the filter over all that is left, and keeps what passes */
  if (l->has_after) mt_vec_push(&rest, l->after);
  for (val v; fetch(r, l, &v);) mt_vec_push(&rest, v);
  l->known_length = l->index0 + 1 + (int64_t)rest.n;
  l->filter = NULL;
  l->v = rest.v;
  l->total = rest.n;
  l->next = 0;
  l->has_after = false;
  return l->known_length;
}

static val edge(rt *r, bool there, val v, const char *what) {
  return there ? v : mt_val_undef(r, "there is no %s item", what);
}

val mt_loop_attr(rt *r, loop *l, const sym *name) {
  const str s = {.p = name->p, .len = name->len};
  const int o = MT_SPAN_TEMPLATE;
  if (mt_str_is(&s, "index0")) return mt_val_int(l->index0, o);
  if (mt_str_is(&s, "index")) return mt_val_int(l->index0 + 1, o);
  if (mt_str_is(&s, "first")) return mt_val_bool(l->index0 == 0, o);
  if (mt_str_is(&s, "last")) return mt_val_bool(!peek(r, l), o);
  if (mt_str_is(&s, "length")) return mt_val_int(length(r, l), o);
  if (mt_str_is(&s, "revindex")) return mt_val_int(length(r, l) - l->index0, o);
  if (mt_str_is(&s, "revindex0")) return mt_val_int(length(r, l) - l->index0 - 1, o);
  if (mt_str_is(&s, "depth")) return mt_val_int((int64_t)l->depth0 + 1, o);
  if (mt_str_is(&s, "depth0")) return mt_val_int(l->depth0, o);
  if (mt_str_is(&s, "previtem")) return edge(r, l->has_before, l->before, "previous");
  if (mt_str_is(&s, "nextitem")) return edge(r, peek(r, l), l->after, "next");
  return mt_val_undef(r, "loop has no attribute '%.100s'", name->p);
}

val mt_loop_call_method(rt *r, loop *l, const char *name, const args *a) {
  if (a->n_kw) mt_chat_fail(r, "loop.%s takes no keyword arguments", name);
  if (!strcmp(name, "cycle")) {
    if (!a->n_pos) mt_chat_fail(r, "loop.cycle needs items");
    return a->pos[(size_t)l->index0 % a->n_pos];
  }
  if (strcmp(name, "changed")) mt_chat_fail(r, "loop has no method '%s'", name);
  val now = mt_val_list(r, a->pos, a->n_pos, LIST_TUPLE, MT_SPAN_TEMPLATE);
  bool changed = !l->has_changed || !mt_val_eq(r, l->changed, now);
  l->has_changed = true;
  l->changed = now;
  return mt_val_bool(changed, MT_SPAN_USER);
}

static void run_loop(rt *r, const node *n, env *outer, val items, unsigned depth0) {
  const list *l = mt_val_items(r, items);
  loop *lp = mt_arena_alloc(&r->mem, 1, sizeof *lp);
  *lp = (loop){.n = n,
               .filter = n->c,
               .outer = outer,
               .v = l->v,
               .total = l->n,
               .index0 = -1,
               .known_length = -1,
               .depth0 = depth0};
  const sym *name = mt_sym_find(r->t, "loop", 4);
  env *e = NULL;
  bool any = false;
  while (advance(r, lp)) {
    any = true;
    if (!e || e->kept) e = mt_env_new(r, outer);
    e->n = 0;
    if (name) mt_env_set(r, e, name, (val){.kind = V_LOOP, .u.loop = lp});
    assign(r, e, n->a, lp->current);
    if (mt_chat_exec_list(r, e, &n->kids) == FLOW_BREAK) break;
  }
  if (!any) mt_chat_exec_list(r, mt_env_new(r, outer), &n->alt);
}

val mt_chat_exec_loop(rt *r, const node *n, env *outer, val items, unsigned depth0) {
  sb *out = r->out, b = mt_sb_new(r);
  if (!n->op) mt_chat_fail(r, "loop() needs a recursive loop");
  if (++r->macros > MAX_MACRO_DEPTH)
    mt_trap_throw(&r->trap, MT_ELIMIT, "a loop recurses more than %d deep", MAX_MACRO_DEPTH);
  r->out = &b;
  run_loop(r, n, outer, items, depth0);
  r->out = out;
  r->macros--;
  return mt_sb_val(&b);
}

/* ---- macros -------------------------------------------------------------------------------- */

static env *keep(env *e) {
  for (env *up = e; up && !up->kept; up = up->up) up->kept = true;
  return e;
}

static val make_macro(rt *r, env *e, const node *n) {
  macro *m = mt_arena_alloc(&r->mem, 1, sizeof *m);
  *m = (macro){n, keep(e)};
  return (val){.kind = V_MACRO, .u.m = m};
}

static const kwarg *find_kwarg(const args *a, const sym *name) {
  for (size_t i = 0; i < a->n_kw; i++)
    if (a->kw[i].name->len == name->len && !memcmp(a->kw[i].name->p, name->p, name->len))
      return &a->kw[i];
  return NULL;
}

static bool is_param(const node *n, const str *name) {
  for (size_t i = 0; i < n->params.n; i++)
    if (mt_str_is(name, n->params.v[i]->name->p)) return true;
  return false;
}

/* What the parameters leave over goes to varargs, kwargs and caller where the macro names them;
 * else it is an error. */
static void bind_rest(rt *r, const node *n, env *e, const args *a) {
  const sym *varargs = mt_sym_find(r->t, "varargs", 7), *kwargs = mt_sym_find(r->t, "kwargs", 6),
            *caller = mt_sym_find(r->t, "caller", 6);
  size_t n_params = n->params.n;
  const char *name = n->kind == N_MACRO ? n->name->p : "caller";
  if (a->n_pos > n_params && !varargs)
    mt_chat_fail(r, "macro '%s' takes not more than %zu arguments", name, n_params);
  size_t more = a->n_pos > n_params ? a->n_pos - n_params : 0;
  if (varargs)
    mt_env_set(r, e, varargs,
               mt_val_list(r, more ? a->pos + n_params : NULL, more, LIST_TUPLE, MT_SPAN_TEMPLATE));
  vec kv = {.r = r};
  for (size_t i = 0; i < a->n_kw; i++) {
    const str *key = a->kw[i].name;
    if (is_param(n, key)) continue;
    if (caller && mt_str_is(key, "caller")) {
      mt_env_set(r, e, caller, a->kw[i].v);
      continue;
    }
    if (!kwargs)
      mt_chat_fail(r, "macro '%s' takes no keyword argument '%.*s'", name,
                   (int)(key->len < 100 ? key->len : 100), key->p);
    mt_vec_push(&kv, (val){.kind = V_STR, .u.s = key});
    mt_vec_push(&kv, a->kw[i].v);
  }
  if (kwargs) mt_env_set(r, e, kwargs, mt_val_dict(r, kv.v, kv.n / 2, MT_SPAN_TEMPLATE));
}

val mt_chat_call_macro(rt *r, const macro *m, const args *a) {
  const node *n = m->n;
  mt_chat_enter(r);
  if (++r->macros > MAX_MACRO_DEPTH)
    mt_trap_throw(&r->trap, MT_ELIMIT, "macro calls recurse more than %d deep", MAX_MACRO_DEPTH);
  unsigned line = r->trap.line;
  env *e = mt_env_new(r, m->closure);
  bind_rest(r, n, e, a);
  for (size_t i = 0; i < n->params.n; i++) {
    const node *p = n->params.v[i];
    const kwarg *k = find_kwarg(a, p->name);
    if (k && i < a->n_pos) mt_chat_fail(r, "the macro's argument '%s' is given twice", p->name->p);
    val v = k              ? k->v
            : i < a->n_pos ? a->pos[i]
            : p->a         ? mt_chat_eval(r, e, p->a)
                           : mt_val_undef(r, "parameter '%.100s' was not provided", p->name->p);
    mt_env_set(r, e, p->name, v);
  }
  val out = mt_chat_exec_capture(r, e, &n->kids);
  r->trap.line = line;
  r->macros--;
  mt_chat_leave(r);
  return out;
}

static void call_block(rt *r, env *e, const node *n) {
  args a = mt_chat_eval_args(r, e, &n->a->kids);
  kwarg *kw = mt_arena_alloc(&r->mem, a.n_kw + 1, sizeof *kw);
  if (a.n_kw) memcpy(kw, a.kw, a.n_kw * sizeof *kw);
  kw[a.n_kw] = (kwarg){mt_val_cstr(r, "caller").u.s, make_macro(r, e, n)};
  a.kw = kw;
  a.n_kw++;
  mt_chat_put_str(r->out, mt_chat_call_value(r, mt_chat_eval(r, e, n->a->a), &a, n));
}

/* ---- statements ---------------------------------------------------------------------------- */

static enum flow if_statement(rt *r, env *e, const node *n) {
  for (size_t i = 0; i < n->kids.n; i++) {
    const node *b = n->kids.v[i];
    if (!b->a || mt_val_truth(r, mt_chat_eval(r, e, b->a)))
      return mt_chat_exec_list(r, e, &b->kids);
  }
  return FLOW_NEXT;
}

static enum flow with_statement(rt *r, env *e, const node *n) {
  env *inner = mt_env_new(r, e);
  val *v = mt_val_array(r, n->params.n);
  for (size_t i = 0; i < n->params.n; i++) v[i] = mt_chat_eval(r, e, n->params.v[i]->b);
  for (size_t i = 0; i < n->params.n; i++) assign(r, inner, n->params.v[i]->a, v[i]);
  return mt_chat_exec_list(r, inner, &n->kids);
}

static void set_block(rt *r, env *e, const node *n) {
  val v = mt_chat_exec_capture(r, mt_env_new(r, e), &n->kids);
  if (n->b) v = mt_chat_eval_filter_chain(r, e, n->b, v);
  assign(r, e, n->a, v);
}

static enum flow exec(rt *r, env *e, const node *n) {
  r->trap.line = n->line;
  switch (n->kind) {
    case N_DATA: mt_sb_add(r->out, n->text, n->len, MT_SPAN_TEMPLATE); break;
    case N_OUTPUT: mt_chat_put_str(r->out, mt_chat_eval(r, e, n->a)); break;
    case N_IF: return if_statement(r, e, n);
    case N_FOR: run_loop(r, n, e, mt_chat_eval(r, e, n->b), 0); break;
    case N_SET: assign(r, e, n->a, mt_chat_eval(r, e, n->b)); break;
    case N_SET_BLOCK: set_block(r, e, n); break;
    case N_MACRO: mt_env_set(r, e, n->name, make_macro(r, e, n)); break;
    case N_CALL_BLOCK: call_block(r, e, n); break;
    case N_FILTER_BLOCK:
      mt_chat_put_str(r->out, mt_chat_eval_filter_chain(
                                  r, e, n->b, mt_chat_exec_capture(r, mt_env_new(r, e), &n->kids)));
      break;
    case N_WITH: return with_statement(r, e, n);
    case N_SCOPE: mt_chat_exec_list(r, mt_env_new(r, e), &n->kids); break;
    case N_BREAK: return FLOW_BREAK;
    default: return FLOW_CONTINUE;
  }
  return FLOW_NEXT;
}

enum flow mt_chat_exec_list(rt *r, env *e, const node_list *l) {
  enum flow f = FLOW_NEXT;
  mt_chat_enter(r);
  for (size_t i = 0; i < l->n && f == FLOW_NEXT; i++) f = exec(r, e, l->v[i]);
  mt_chat_leave(r);
  return f;
}
