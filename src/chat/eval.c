/* Expressions. */
#include <string.h>

#include "runtime.h"

static val eval_node(rt *r, env *e, const node *n);

val eval(rt *r, env *e, const node *n) {
  enter(r);
  r->trap.line = n->line;
  val v = eval_node(r, e, n);
  leave(r);
  return v;
}

static val name_value(rt *r, const env *e, const sym *name) {
  const val *v = env_get(e, name);
  if (v) return *v;
  int fn = function_find(name->p, name->len);
  if (fn >= 0) return (val){.kind = V_FUNC, .u.fn = fn};
  return val_undef(r, "'%.100s' is undefined", name->p);
}

static val list_value(rt *r, env *e, const node *n) {
  val *v = val_array(r, n->kids.n);
  for (size_t i = 0; i < n->kids.n; i++) v[i] = eval(r, e, n->kids.v[i]);
  return val_list(r, v, n->kids.n, n->kind == N_TUPLE ? LIST_TUPLE : LIST_LIST, MT_SPAN_TEMPLATE);
}

static val dict_value(rt *r, env *e, const node *n) {
  vec kv = {.r = r};
  for (size_t i = 0; i + 1 < n->kids.n; i += 2) {
    val key = eval(r, e, n->kids.v[i]), v = eval(r, e, n->kids.v[i + 1]);
    if (key.kind == V_DICT || (key.kind == V_LIST && key.u.l->form != LIST_TUPLE))
      fail(r, "a %s cannot be a key", val_type_name(key));
    size_t k = 0;
    while (k < kv.n && !val_eq(r, kv.v[k], key)) k += 2;
    if (k < kv.n) {
      kv.v[k + 1] = v;
    } else {
      vec_push(&kv, key);
      vec_push(&kv, v);
    }
  }
  return val_dict(r, kv.v, kv.n / 2, MT_SPAN_TEMPLATE);
}

static val concat(rt *r, env *e, const node *n) {
  sb b = sb_new(r);
  for (size_t i = 0; i < n->kids.n; i++) put_str(&b, eval(r, e, n->kids.v[i]));
  return sb_val(&b);
}

/* a < b < c: each operand is evaluated once, up to the first comparison that fails. */
static val comparison(rt *r, env *e, const node *n) {
  val a = eval(r, e, n->a);
  int origin = MT_SPAN_TEMPLATE;
  for (size_t i = 0; i < n->kids.n; i++) {
    val b = eval(r, e, n->kids.v[i]->a);
    if (val_origin(a) == MT_SPAN_USER || val_origin(b) == MT_SPAN_USER) origin = MT_SPAN_USER;
    if (!compare(r, n->kids.v[i]->op, a, b)) return val_bool(false, origin);
    a = b;
  }
  return val_bool(true, origin);
}

static val conditional(rt *r, env *e, const node *n) {
  if (val_truth(r, eval(r, e, n->b))) return eval(r, e, n->a);
  if (n->c) return eval(r, e, n->c);
  return val_undef(r, "the inline if without else is undefined here");
}

static val maybe(rt *r, env *e, const node *n) {
  return n ? eval(r, e, n) : (val){.kind = V_MISSING};
}

static val item(rt *r, env *e, const node *n) {
  val a = eval(r, e, n->a);
  if (n->b->kind != N_SLICE) return get_item(r, a, eval(r, e, n->b));
  val from = maybe(r, e, n->b->a), to = maybe(r, e, n->b->b), step = maybe(r, e, n->b->c);
  return get_slice(r, a, from, to, step);
}

/* ---- calls --------------------------------------------------------------------------------- */

typedef struct arg_list {
  vec pos;
  kwarg *kw;
  size_t n_kw, cap_kw;
} arg_list;

static void push_kwarg(arg_list *l, const str *name, val v) {
  rt *r = l->pos.r;
  for (size_t i = 0; i < l->n_kw; i++)
    if (!str_cmp(l->kw[i].name, name))
      fail(r, "the keyword argument '%.*s' is repeated", (int)(name->len < 100 ? name->len : 100),
           name->p);
  if (l->n_kw == l->cap_kw) {
    size_t cap = l->cap_kw ? 2 * l->cap_kw : 4;
    l->kw = arena_grow(&r->mem, l->kw, l->cap_kw * sizeof(kwarg), cap * sizeof(kwarg));
    l->cap_kw = cap;
  }
  charge(r, l->n_kw * 8);
  l->kw[l->n_kw++] = (kwarg){name, v};
}

args eval_args(rt *r, env *e, const node_list *kids) {
  arg_list l = {.pos = {.r = r}};
  for (size_t i = 0; i < kids->n; i++) {
    const node *k = kids->v[i];
    if (k->kind == N_KWARG) {
      push_kwarg(&l, val_str(r, k->name->p, k->name->len, MT_SPAN_TEMPLATE).u.s, eval(r, e, k->a));
    } else if (k->kind == N_STAR) {
      const list *more = val_items(r, eval(r, e, k->a));
      for (size_t j = 0; j < more->n; j++) vec_push(&l.pos, more->v[j]);
    } else if (k->kind == N_STAR_STAR) {
      val d = eval(r, e, k->a);
      if (d.kind != V_DICT) fail(r, "** needs a dict, not %s", val_type_name(d));
      for (size_t j = 0; j < d.u.d->n; j++) {
        if (d.u.d->kv[2 * j].kind != V_STR) fail(r, "** needs string keys");
        push_kwarg(&l, d.u.d->kv[2 * j].u.s, d.u.d->kv[2 * j + 1]);
      }
    } else {
      vec_push(&l.pos, eval(r, e, k));
    }
  }
  return (args){l.pos.v, l.kw, l.pos.n, l.n_kw};
}

static val call(rt *r, env *e, const node *n) {
  if (n->a->kind == N_ATTR) {
    val self = eval(r, e, n->a->a);
    const sym *name = n->a->name;
    r->trap.line = n->line;
    val fn = self.kind == V_LOOP ? self : get_attr(r, self, name);
    args a = eval_args(r, e, &n->kids);
    return self.kind == V_LOOP ? loop_call_method(r, self.u.loop, name->p, &a)
                               : call_value(r, fn, &a, n);
  }
  val fn = eval(r, e, n->a);
  args a = eval_args(r, e, &n->kids);
  return call_value(r, fn, &a, n);
}

val eval_filter_chain(rt *r, env *e, const node *n, val in) {
  enter(r);
  if (n->a) in = n->a->kind == N_FILTER ? eval_filter_chain(r, e, n->a, in) : eval(r, e, n->a);
  args a = eval_args(r, e, &n->kids);
  r->trap.line = n->line;
  val v = call_filter(r, n->def, in, &a);
  leave(r);
  return v;
}

static val test(rt *r, env *e, const node *n) {
  val in = eval(r, e, n->a);
  args a = eval_args(r, e, &n->kids);
  r->trap.line = n->line;
  return val_bool(call_test(r, n->def, in, &a) != (bool)n->op, val_origin(in));
}

static val eval_node(rt *r, env *e, const node *n) {
  val a;
  switch (n->kind) {
    case N_CONST_NONE: return val_none();
    case N_CONST_BOOL: return val_bool(n->op, MT_SPAN_TEMPLATE);
    case N_CONST_INT: return val_int(n->num.i, MT_SPAN_TEMPLATE);
    case N_CONST_FLOAT: return val_float(n->num.f, MT_SPAN_TEMPLATE);
    case N_CONST_STR: return val_str(r, n->text, n->len, MT_SPAN_TEMPLATE);
    case N_NAME: return name_value(r, e, n->name);
    case N_LIST:
    case N_TUPLE: return list_value(r, e, n);
    case N_DICT: return dict_value(r, e, n);
    case N_NOT: a = eval(r, e, n->a); return val_bool(!val_truth(r, a), val_origin(a));
    case N_NEG: return negate(r, eval(r, e, n->a));
    case N_POS: return arith(r, '+', val_int(0, MT_SPAN_TEMPLATE), eval(r, e, n->a));
    case N_AND: a = eval(r, e, n->a); return val_truth(r, a) ? eval(r, e, n->b) : a;
    case N_OR: a = eval(r, e, n->a); return val_truth(r, a) ? a : eval(r, e, n->b);
    case N_ARITH: a = eval(r, e, n->a); return arith(r, n->op, a, eval(r, e, n->b));
    case N_CONCAT: return concat(r, e, n);
    case N_COMPARE: return comparison(r, e, n);
    case N_IF_EXPR: return conditional(r, e, n);
    case N_ATTR: return get_attr(r, eval(r, e, n->a), n->name);
    case N_ITEM: return item(r, e, n);
    case N_CALL: return call(r, e, n);
    case N_FILTER: return eval_filter_chain(r, e, n, val_none());
    case N_TEST: return test(r, e, n);
    default: fail(r, "an expression is malformed"); /* a slice outside a subscript's own place */
  }
}
