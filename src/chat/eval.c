/* Expressions. */
#include <string.h>

#include "runtime.h"

static val eval_node(rt *r, env *e, const node *n);

val mt_chat_eval(rt *r, env *e, const node *n) {
  mt_chat_enter(r);
  r->trap.line = n->line;
  val v = eval_node(r, e, n);
  mt_chat_leave(r);
  return v;
}

static val name_value(rt *r, const env *e, const sym *name) {
  const val *v = mt_env_get(e, name);
  if (v) return *v;
  int fn = mt_chat_function_find(name->p, name->len);
  if (fn >= 0) return (val){.kind = V_FUNC, .u.fn = fn};
  return mt_val_undef(r, "'%.100s' is undefined", name->p);
}

static val list_value(rt *r, env *e, const node *n) {
  val *v = mt_val_array(r, n->kids.n);
  for (size_t i = 0; i < n->kids.n; i++) v[i] = mt_chat_eval(r, e, n->kids.v[i]);
  return mt_val_list(r, v, n->kids.n, n->kind == N_TUPLE ? LIST_TUPLE : LIST_LIST,
                     MT_SPAN_TEMPLATE);
}

static val dict_value(rt *r, env *e, const node *n) {
  vec kv = {.r = r};
  for (size_t i = 0; i + 1 < n->kids.n; i += 2) {
    val key = mt_chat_eval(r, e, n->kids.v[i]), v = mt_chat_eval(r, e, n->kids.v[i + 1]);
    mt_val_need_key(r, key);
    size_t k = 0;
    while (k < kv.n && !mt_val_eq(r, kv.v[k], key)) k += 2;
    if (k < kv.n) {
      kv.v[k + 1] = v;
    } else {
      mt_vec_push(&kv, key);
      mt_vec_push(&kv, v);
    }
  }
  return mt_val_dict(r, kv.v, kv.n / 2, MT_SPAN_TEMPLATE);
}

static val concat(rt *r, env *e, const node *n) {
  sb b = mt_sb_new(r);
  for (size_t i = 0; i < n->kids.n; i++) mt_chat_put_str(&b, mt_chat_eval(r, e, n->kids.v[i]));
  return mt_sb_val(&b);
}

/* a < b < c: each operand is evaluated once, up to the first comparison that fails. */
static val comparison(rt *r, env *e, const node *n) {
  val a = mt_chat_eval(r, e, n->a);
  int origin = MT_SPAN_TEMPLATE;
  for (size_t i = 0; i < n->kids.n; i++) {
    val b = mt_chat_eval(r, e, n->kids.v[i]->a);
    if (mt_val_origin(a) == MT_SPAN_USER || mt_val_origin(b) == MT_SPAN_USER) origin = MT_SPAN_USER;
    if (!mt_chat_compare(r, n->kids.v[i]->op, a, b)) return mt_val_bool(false, origin);
    a = b;
  }
  return mt_val_bool(true, origin);
}

static val conditional(rt *r, env *e, const node *n) {
  if (mt_val_truth(r, mt_chat_eval(r, e, n->b))) return mt_chat_eval(r, e, n->a);
  if (n->c) return mt_chat_eval(r, e, n->c);
  return mt_val_undef(r, "the inline if without else is undefined here");
}

static val maybe(rt *r, env *e, const node *n) {
  return n ? mt_chat_eval(r, e, n) : (val){.kind = V_MISSING};
}

static val item(rt *r, env *e, const node *n) {
  val a = mt_chat_eval(r, e, n->a);
  if (n->b->kind != N_SLICE) return mt_chat_get_item(r, a, mt_chat_eval(r, e, n->b));
  val from = maybe(r, e, n->b->a), to = maybe(r, e, n->b->b), step = maybe(r, e, n->b->c);
  return mt_chat_get_slice(r, a, from, to, step);
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
    if (!mt_str_cmp(l->kw[i].name, name))
      mt_chat_fail(r, "the keyword argument '%.*s' is repeated",
                   (int)(name->len < 100 ? name->len : 100), name->p);
  if (l->n_kw == l->cap_kw) {
    size_t cap = l->cap_kw ? 2 * l->cap_kw : 4;
    l->kw = mt_arena_grow(&r->mem, l->kw, l->cap_kw * sizeof(kwarg), cap * sizeof(kwarg));
    l->cap_kw = cap;
  }
  mt_chat_charge(r, l->n_kw * 8);
  l->kw[l->n_kw++] = (kwarg){name, v};
}

args mt_chat_eval_args(rt *r, env *e, const node_list *kids) {
  arg_list l = {.pos = {.r = r}};
  for (size_t i = 0; i < kids->n; i++) {
    const node *k = kids->v[i];
    if (k->kind == N_KWARG) {
      push_kwarg(&l, mt_val_str(r, k->name->p, k->name->len, MT_SPAN_TEMPLATE).u.s,
                 mt_chat_eval(r, e, k->a));
    } else if (k->kind == N_STAR) {
      const list *more = mt_val_items(r, mt_chat_eval(r, e, k->a));
      for (size_t j = 0; j < more->n; j++) mt_vec_push(&l.pos, more->v[j]);
    } else if (k->kind == N_STAR_STAR) {
      val d = mt_chat_eval(r, e, k->a);
      if (d.kind != V_DICT) mt_chat_fail(r, "** needs a dict, not %s", mt_val_type_name(d));
      for (size_t j = 0; j < d.u.d->n; j++) {
        if (d.u.d->kv[2 * j].kind != V_STR) mt_chat_fail(r, "** needs string keys");
        push_kwarg(&l, d.u.d->kv[2 * j].u.s, d.u.d->kv[2 * j + 1]);
      }
    } else {
      mt_vec_push(&l.pos, mt_chat_eval(r, e, k));
    }
  }
  return (args){l.pos.v, l.kw, l.pos.n, l.n_kw};
}

static val call(rt *r, env *e, const node *n) {
  if (n->a->kind == N_ATTR) {
    val self = mt_chat_eval(r, e, n->a->a);
    const sym *name = n->a->name;
    r->trap.line = n->line;
    val fn = self.kind == V_LOOP ? self : mt_chat_get_attr(r, self, name);
    args a = mt_chat_eval_args(r, e, &n->kids);
    return self.kind == V_LOOP ? mt_loop_call_method(r, self.u.loop, name->p, &a)
                               : mt_chat_call_value(r, fn, &a, n);
  }
  val fn = mt_chat_eval(r, e, n->a);
  args a = mt_chat_eval_args(r, e, &n->kids);
  return mt_chat_call_value(r, fn, &a, n);
}

val mt_chat_eval_filter_chain(rt *r, env *e, const node *n, val in) {
  mt_chat_enter(r);
  if (n->a)
    in = n->a->kind == N_FILTER ? mt_chat_eval_filter_chain(r, e, n->a, in)
                                : mt_chat_eval(r, e, n->a);
  args a = mt_chat_eval_args(r, e, &n->kids);
  r->trap.line = n->line;
  val v = mt_chat_call_filter(r, n->def, in, &a);
  mt_chat_leave(r);
  return v;
}

static val test(rt *r, env *e, const node *n) {
  val in = mt_chat_eval(r, e, n->a);
  args a = mt_chat_eval_args(r, e, &n->kids);
  r->trap.line = n->line;
  return mt_val_bool(mt_chat_call_test(r, n->def, in, &a) != (bool)n->op, mt_val_origin(in));
}

static val eval_node(rt *r, env *e, const node *n) {
  val a;
  switch (n->kind) {
    case N_CONST_NONE: return mt_val_none();
    case N_CONST_BOOL: return mt_val_bool(n->op, MT_SPAN_TEMPLATE);
    case N_CONST_INT: return mt_val_int(n->num.i, MT_SPAN_TEMPLATE);
    case N_CONST_FLOAT: return mt_val_float(n->num.f, MT_SPAN_TEMPLATE);
    case N_CONST_STR: return mt_val_str(r, n->text, n->len, MT_SPAN_TEMPLATE);
    case N_NAME: return name_value(r, e, n->name);
    case N_LIST:
    case N_TUPLE: return list_value(r, e, n);
    case N_DICT: return dict_value(r, e, n);
    case N_NOT:
      a = mt_chat_eval(r, e, n->a);
      return mt_val_bool(!mt_val_truth(r, a), mt_val_origin(a));
    case N_NEG: return mt_chat_negate(r, mt_chat_eval(r, e, n->a));
    case N_POS:
      return mt_chat_arith(r, '+', mt_val_int(0, MT_SPAN_TEMPLATE), mt_chat_eval(r, e, n->a));
    case N_AND:
      a = mt_chat_eval(r, e, n->a);
      return mt_val_truth(r, a) ? mt_chat_eval(r, e, n->b) : a;
    case N_OR:
      a = mt_chat_eval(r, e, n->a);
      return mt_val_truth(r, a) ? a : mt_chat_eval(r, e, n->b);
    case N_ARITH:
      a = mt_chat_eval(r, e, n->a);
      return mt_chat_arith(r, n->op, a, mt_chat_eval(r, e, n->b));
    case N_CONCAT: return concat(r, e, n);
    case N_COMPARE: return comparison(r, e, n);
    case N_IF_EXPR: return conditional(r, e, n);
    case N_ATTR: return mt_chat_get_attr(r, mt_chat_eval(r, e, n->a), n->name);
    case N_ITEM: return item(r, e, n);
    case N_CALL: return call(r, e, n);
    case N_FILTER: return mt_chat_eval_filter_chain(r, e, n, mt_val_none());
    case N_TEST: return test(r, e, n);
    default:
      mt_chat_fail(r, "an expression is malformed"); /* a slice outside a subscript's own place */
  }
}
