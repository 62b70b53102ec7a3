/* Values: construction, truth, equality, order, iteration; failures; the scopes that hold them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"

/* ---- budget and failures ------------------------------------------------------------------- */

void mt_chat_charge(rt *r, size_t bytes) {
  size_t n = 1 + bytes / 64;
  if (n > r->max_steps - r->steps)
    mt_trap_throw(&r->trap, MT_ELIMIT, "the template takes more than %zu steps", r->max_steps);
  r->steps += n;
}

void mt_chat_fail(rt *r, const char *fmt, ...) {
  char text[600];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  mt_trap_throw(&r->trap, MT_EINVAL, "%s", text);
}

void mt_chat_enter(rt *r) {
  mt_chat_charge(r, 0);
  if (++r->depth > MAX_EVAL_DEPTH)
    mt_trap_throw(&r->trap, MT_ELIMIT, "the template recurses too deeply");
}
void mt_chat_leave(rt *r) {
  r->depth--;
}

void mt_chat_fail_undefined(rt *r, val v) {
  if (v.u.s) mt_chat_fail(r, "%.*s", (int)(v.u.s->len < 300 ? v.u.s->len : 300), v.u.s->p);
  mt_chat_fail(r, "an undefined value is used");
}

/* ---- construction -------------------------------------------------------------------------- */

val mt_val_undef(rt *r, const char *what, ...) {
  char text[300];
  va_list ap;
  va_start(ap, what);
  int n = vsnprintf(text, sizeof text, what, ap);
  va_end(ap);
  size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
  char *p = mt_arena_alloc(&r->mem, len + 1, 1);
  memcpy(p, text, len);
  val s = mt_val_str(r, p, len, MT_SPAN_USER);
  return (val){.kind = V_UNDEF, .u.s = s.u.s};
}

val mt_val_none(void) {
  return (val){.kind = V_NONE};
}
val mt_val_bool(bool b, int origin) {
  return (val){.kind = V_BOOL, .origin = (uint8_t)origin, .u.b = b};
}
val mt_val_int(int64_t i, int origin) {
  return (val){.kind = V_INT, .origin = (uint8_t)origin, .u.i = i};
}
val mt_val_float(double f, int origin) {
  return (val){.kind = V_FLOAT, .origin = (uint8_t)origin, .u.f = f};
}

val *mt_val_array(rt *r, size_t n) {
  mt_chat_charge(r, n * 4);
  return mt_arena_alloc(&r->mem, n, sizeof(val));
}

val mt_val_list(rt *r, const val *v, size_t n, int form, int origin) {
  list *l = mt_arena_alloc(&r->mem, 1, sizeof *l);
  *l = (list){.form = form, .n = n, .v = v};
  return (val){.kind = V_LIST, .origin = (uint8_t)origin, .u.l = l};
}

val mt_val_dict(rt *r, const val *kv, size_t n, int origin) {
  dict *d = mt_arena_alloc(&r->mem, 1, sizeof *d);
  *d = (dict){n, kv};
  return (val){.kind = V_DICT, .origin = (uint8_t)origin, .u.d = d};
}

void mt_vec_push(vec *a, val v) {
  mt_chat_charge(a->r, 0);
  if (a->n == a->cap) {
    size_t cap = a->cap ? 2 * a->cap : 8;
    a->v = mt_arena_grow(&a->r->mem, a->v, a->cap * sizeof(val), cap * sizeof(val));
    a->cap = cap;
  }
  a->v[a->n++] = v;
}

val mt_vec_list(vec *a, int form, int origin) {
  return mt_val_list(a->r, a->v, a->n, form, origin);
}

/* ---- properties ---------------------------------------------------------------------------- */

int mt_val_origin(val v) {
  return v.kind == V_STR ? mt_str_worst_origin(v.u.s) : v.origin;
}
bool mt_val_is_number(val v) {
  return v.kind == V_BOOL || v.kind == V_INT || v.kind == V_FLOAT;
}
double mt_val_number(val v) {
  return v.kind == V_FLOAT ? v.u.f : v.kind == V_BOOL ? (double)v.u.b : (double)v.u.i;
}

const char *mt_val_type_name(val v) {
  static const char *const list_names[] = {"list",      "tuple",       "range",
                                           "dict_keys", "dict_values", "dict_items"};
  switch ((val_kind)v.kind) {
    case V_NONE: return "NoneType";
    case V_BOOL: return "bool";
    case V_INT: return "int";
    case V_FLOAT: return "float";
    case V_STR: return "str";
    case V_LIST: return list_names[v.u.l->form];
    case V_DICT: return "dict";
    case V_NS: return "namespace";
    case V_MACRO: return "macro";
    case V_FUNC: return "function";
    case V_METHOD: return "method";
    case V_LOOP: return "loop";
    case V_CYCLER: return "cycler";
    case V_JOINER: return "joiner";
    default: return "undefined";
  }
}

bool mt_val_truth(rt *r, val v) {
  (void)r;
  switch ((val_kind)v.kind) {
    case V_MISSING:
    case V_UNDEF:
    case V_NONE: return false;
    case V_BOOL: return v.u.b;
    case V_INT: return v.u.i != 0;
    case V_FLOAT: return v.u.f != 0;
    case V_STR: return v.u.s->len != 0;
    case V_LIST: return v.u.l->n != 0;
    case V_DICT: return v.u.d->n != 0;
    default: return true;
  }
}

static bool list_eq(rt *r, const list *a, const list *b) {
  if (a->n != b->n || a->form != b->form) return false;
  for (size_t i = 0; i < a->n; i++)
    if (!mt_val_eq(r, a->v[i], b->v[i])) return false;
  return true;
}

static bool dict_eq(rt *r, const dict *a, const dict *b) {
  if (a->n != b->n) return false;
  for (size_t i = 0; i < a->n; i++) {
    const val *other = mt_dict_get(r, b, a->kv[2 * i]);
    if (!other || !mt_val_eq(r, a->kv[2 * i + 1], *other)) return false;
  }
  return true;
}

static bool same_object(val a, val b) {
  switch ((val_kind)a.kind) {
    case V_UNDEF:
    case V_NONE: return true;
    case V_LIST: return a.u.l == b.u.l;
    case V_DICT: return a.u.d == b.u.d;
    case V_STR: return a.u.s == b.u.s;
    case V_FUNC: return a.u.fn == b.u.fn;
    case V_METHOD: return a.u.method == b.u.method;
    default: return a.u.ns == b.u.ns; /* all others are pointers of one size */
  }
}

bool mt_val_eq(rt *r, val a, val b) {
  if (mt_val_is_number(a) && mt_val_is_number(b)) {
    mt_chat_charge(r, 0);
    if (a.kind != V_FLOAT && b.kind != V_FLOAT)
      return (a.kind == V_BOOL ? a.u.b : a.u.i) == (b.kind == V_BOOL ? b.u.b : b.u.i);
    return mt_val_number(a) == mt_val_number(b);
  }
  if (a.kind != b.kind) return false;
  mt_chat_enter(r);
  bool eq = same_object(a, b);
  if (!eq && a.kind == V_STR) {
    mt_chat_charge(r, a.u.s->len == b.u.s->len ? a.u.s->len : 0);
    eq = a.u.s->len == b.u.s->len && !memcmp(a.u.s->p, b.u.s->p, a.u.s->len);
  } else if (!eq && a.kind == V_LIST) {
    eq = list_eq(r, a.u.l, b.u.l);
  } else if (!eq && a.kind == V_DICT) {
    eq = dict_eq(r, a.u.d, b.u.d);
  }
  mt_chat_leave(r);
  return eq;
}

int mt_val_cmp(rt *r, val a, val b, const char *op) {
  mt_chat_charge(r, 0);
  if (mt_val_is_number(a) && mt_val_is_number(b)) {
    if (a.kind == V_INT && b.kind == V_INT) return a.u.i < b.u.i ? -1 : a.u.i > b.u.i;
    double x = mt_val_number(a), y = mt_val_number(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; /* 2: unordered */
  }
  if (a.kind == V_STR && b.kind == V_STR) return mt_str_cmp(a.u.s, b.u.s);
  if (a.kind == V_UNDEF) mt_chat_fail_undefined(r, a);
  if (b.kind == V_UNDEF) mt_chat_fail_undefined(r, b);
  if (a.kind == V_LIST && b.kind == V_LIST) {
    mt_chat_enter(r);
    int c = 0;
    size_t n = a.u.l->n < b.u.l->n ? a.u.l->n : b.u.l->n;
    for (size_t i = 0; i < n && !c; i++)
      if (!mt_val_eq(r, a.u.l->v[i], b.u.l->v[i])) c = mt_val_cmp(r, a.u.l->v[i], b.u.l->v[i], op);
    mt_chat_leave(r);
    return c ? c : a.u.l->n < b.u.l->n ? -1 : a.u.l->n > b.u.l->n;
  }
  mt_chat_fail(r, "'%s' is not supported between %s and %s", op, mt_val_type_name(a),
               mt_val_type_name(b));
}

const val *mt_dict_get(rt *r, const dict *d, val key) {
  for (size_t i = 0; i < d->n; i++) {
    val k = d->kv[2 * i];
    if (k.kind == V_STR && key.kind == V_STR) {
      if (k.u.s->len == key.u.s->len && !memcmp(k.u.s->p, key.u.s->p, k.u.s->len))
        return &d->kv[2 * i + 1];
      if (i % 8 == 7) mt_chat_charge(r, key.u.s->len);
    } else if (mt_val_eq(r, k, key)) {
      return &d->kv[2 * i + 1];
    }
  }
  return NULL;
}

/* ---- iteration ----------------------------------------------------------------------------- */

bool mt_val_iterable(val v) {
  return v.kind == V_STR || v.kind == V_LIST || v.kind == V_DICT || v.kind == V_UNDEF;
}

static const list *characters(rt *r, const str *s) {
  size_t n = mt_str_chars(r, s), i = 0, k = 0;
  val *v = mt_val_array(r, n);
  while (i < s->len) {
    size_t next;
    mt_uni_at(s->p, s->len, i, &next);
    v[k++] = mt_val_slice(r, s, i, next);
    i = next;
  }
  return mt_val_list(r, v, n, LIST_LIST, MT_SPAN_USER).u.l;
}

const list *mt_val_items(rt *r, val v) {
  static const list nothing = {.form = LIST_LIST};
  if (v.kind == V_LIST) return v.u.l;
  if (v.kind == V_UNDEF) return &nothing;
  if (v.kind == V_STR) return characters(r, v.u.s);
  if (v.kind != V_DICT) mt_chat_fail(r, "%s is not iterable", mt_val_type_name(v));
  val *keys = mt_val_array(r, v.u.d->n);
  for (size_t i = 0; i < v.u.d->n; i++) keys[i] = v.u.d->kv[2 * i];
  return mt_val_list(r, keys, v.u.d->n, LIST_LIST, v.origin).u.l;
}

size_t mt_val_length(rt *r, val v) {
  switch ((val_kind)v.kind) {
    case V_UNDEF: return 0;
    case V_STR: return mt_str_chars(r, v.u.s);
    case V_LIST: return v.u.l->n;
    case V_DICT: return v.u.d->n;
    default: mt_chat_fail(r, "%s has no length", mt_val_type_name(v));
  }
}

bool mt_val_contains(rt *r, val container, val item) {
  if (container.kind == V_STR) {
    if (item.kind == V_UNDEF) mt_chat_fail_undefined(r, item);
    if (item.kind != V_STR)
      mt_chat_fail(r, "'in <string>' needs a string, not %s", mt_val_type_name(item));
    return mt_str_find(r, container.u.s, item.u.s, 0) != SIZE_MAX;
  }
  if (container.kind == V_DICT) mt_val_need_key(r, item);
  if (container.kind == V_DICT) return mt_dict_get(r, container.u.d, item) != NULL;
  const list *l = mt_val_items(r, container);
  for (size_t i = 0; i < l->n; i++)
    if (mt_val_eq(r, l->v[i], item)) return true;
  return false;
}

void mt_val_need_key(rt *r, val v) {
  bool fits = v.kind != V_DICT && (v.kind != V_LIST || v.u.l->form == LIST_TUPLE);
  if (!fits) mt_chat_fail(r, "a %s cannot be a key", mt_val_type_name(v));
}

int64_t mt_val_to_index(rt *r, val v, const char *what) {
  if (v.kind == V_INT) return v.u.i;
  if (v.kind == V_BOOL) return v.u.b;
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  mt_chat_fail(r, "%s must be an integer, not %s", what, mt_val_type_name(v));
}

const str *mt_val_to_str(rt *r, val v) {
  if (v.kind == V_STR) return v.u.s;
  sb b = mt_sb_new(r);
  mt_chat_put_str(&b, v);
  return mt_sb_val(&b).u.s;
}

/* ---- sorting ------------------------------------------------------------------------------- */

/* Merges the sorted halves [a, m) and [m, z) of k and v by way of tk and tv. */
static void merge(rt *r, val *k, val *v, val *tk, val *tv, size_t a, size_t m, size_t z,
                  bool reverse) {
  size_t i = a, j = m;
  for (size_t o = a; o < z; o++) {
    int c = i == m ? 1 : j == z ? -1 : mt_val_cmp(r, k[i], k[j], "<");
    bool right = i == m || (j < z && c == (reverse ? -1 : 1));
    size_t from = right ? j++ : i++;
    tk[o] = k[from];
    tv[o] = v[from];
  }
  memcpy(k + a, tk + a, (z - a) * sizeof *k);
  memcpy(v + a, tv + a, (z - a) * sizeof *v);
}

void mt_chat_sort_by_keys(rt *r, val *keys, val *items, size_t n, bool reverse) {
  val *tk = mt_val_array(r, n), *tv = mt_val_array(r, n);
  for (size_t half = 1; half < n; half *= 2)
    for (size_t a = 0; a + half < n; a += 2 * half)
      merge(r, keys, items, tk, tv, a, a + half, a + 2 * half < n ? a + 2 * half : n, reverse);
}

/* ---- scopes -------------------------------------------------------------------------------- */

env *mt_env_new(rt *r, env *up) {
  env *e = mt_arena_alloc(&r->mem, 1, sizeof *e);
  e->up = up;
  return e;
}

static void slot_set(rt *r, ns_slot **v, size_t *n, size_t *cap, const sym *name, val x) {
  for (size_t i = 0; i < *n; i++)
    if ((*v)[i].name == name) {
      (*v)[i].v = x;
      return;
    }
  if (*n == *cap) {
    size_t bigger = *cap ? 2 * *cap : 4;
    *v = mt_arena_grow(&r->mem, *v, *cap * sizeof(ns_slot), bigger * sizeof(ns_slot));
    *cap = bigger;
  }
  (*v)[(*n)++] = (ns_slot){name, x};
}

void mt_env_set(rt *r, env *e, const sym *name, val v) {
  slot_set(r, &e->v, &e->n, &e->cap, name, v);
}
void mt_ns_set(rt *r, namespace *ns, const sym *name, val v) {
  slot_set(r, &ns->v, &ns->n, &ns->cap, name, v);
}

const val *mt_env_get(const env *e, const sym *name) {
  for (; e; e = e->up)
    for (size_t i = 0; i < e->n; i++)
      if (e->v[i].name == name) return &e->v[i].v;
  return NULL;
}
