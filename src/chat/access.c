/* Attributes, items and slices. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static val method_of(rt *r, val v, const char *name, size_t len) {
  const method_def *def = mt_chat_method_find((val_kind)v.kind, name, len);
  if (!def) return (val){.kind = V_MISSING};
  method *m = mt_arena_alloc(&r->mem, 1, sizeof *m);
  *m = (method){v, def};
  return (val){.kind = V_METHOD, .u.method = m};
}

static val no_attribute(rt *r, val v, const char *name, size_t len) {
  int shown = (int)(len < 100 ? len : 100);
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  if (v.kind == V_NONE) return mt_val_undef(r, "None has no attribute '%.*s'", shown, name);
  return mt_val_undef(r, "'%s object' has no attribute '%.*s'", mt_val_type_name(v), shown, name);
}

static val ns_get(rt *r, val v, const sym *name) {
  for (size_t i = 0; name && i < v.u.ns->n; i++)
    if (v.u.ns->v[i].name == name) return v.u.ns->v[i].v;
  return mt_val_undef(r, "the namespace has no attribute '%.100s'", name ? name->p : "");
}

static val dict_item(rt *r, val v, const char *name, size_t len) {
  str key = {.p = name, .len = len};
  const val *found = mt_dict_get(r, v.u.d, (val){.kind = V_STR, .u.s = &key});
  return found ? *found : (val){.kind = V_MISSING};
}

val mt_chat_get_attr(rt *r, val v, const sym *name) {
  if (v.kind == V_NS) return ns_get(r, v, name);
  if (v.kind == V_LOOP) return mt_loop_attr(r, v.u.loop, name);
  val m = method_of(r, v, name->p, name->len);
  if (m.kind == V_MISSING && v.kind == V_DICT) m = dict_item(r, v, name->p, name->len);
  return m.kind == V_MISSING ? no_attribute(r, v, name->p, name->len) : m;
}

val mt_chat_get_attr_named(rt *r, val v, const str *name) {
  if (v.kind == V_NS) return ns_get(r, v, mt_sym_find(r->t, name->p, name->len));
  if (v.kind == V_LOOP) {
    const sym *s = mt_sym_find(r->t, name->p, name->len);
    return s ? mt_loop_attr(r, v.u.loop, s) : no_attribute(r, v, name->p, name->len);
  }
  val m = v.kind == V_DICT ? dict_item(r, v, name->p, name->len) : (val){.kind = V_MISSING};
  if (m.kind == V_MISSING) m = method_of(r, v, name->p, name->len);
  return m.kind == V_MISSING ? no_attribute(r, v, name->p, name->len) : m;
}

static val list_item(rt *r, val v, int64_t i) {
  int64_t n = (int64_t)v.u.l->n;
  if (i < 0) i += n;
  if (i < 0 || i >= n)
    return mt_val_undef(r, "%s has no element %lld", mt_val_type_name(v), (long long)i);
  return v.u.l->v[i];
}

static val str_item(rt *r, const str *s, int64_t i) {
  int64_t n = (int64_t)mt_str_chars(r, s);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return mt_val_undef(r, "str has no element %lld", (long long)i);
  size_t from = mt_str_offset(r, s, (size_t)i), to;
  mt_uni_at(s->p, s->len, from, &to);
  return mt_val_slice(r, s, from, to);
}

val mt_chat_get_item(rt *r, val v, val key) {
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  if (v.kind == V_DICT) {
    const val *found = mt_dict_get(r, v.u.d, key);
    if (found) return *found;
  } else if (key.kind == V_INT || key.kind == V_BOOL) {
    int64_t i = mt_val_to_index(r, key, "an index");
    if (v.kind == V_LIST) return list_item(r, v, i);
    if (v.kind == V_STR)
      return v.markup ? mt_markup_mark(r, str_item(r, v.u.s, i)) : str_item(r, v.u.s, i);
  }
  if (key.kind == V_STR) return mt_chat_get_attr_named(r, v, key.u.s);
  sb b = mt_sb_new(r);
  mt_chat_put_repr(&b, key);
  const str *shown = mt_sb_val(&b).u.s;
  return mt_val_undef(r, "'%s object' has no element %.*s", mt_val_type_name(v),
                      (int)(shown->len < 100 ? shown->len : 100), shown->p);
}

/* A bound of a slice over n elements, clamped as Python does; `otherwise` where it is absent. */
static int64_t bound(rt *r, val v, int64_t n, int64_t lowest, int64_t highest, int64_t otherwise) {
  if (v.kind == V_MISSING || v.kind == V_NONE) return otherwise;
  int64_t i = mt_val_to_index(r, v, "a slice bound");
  if (i < 0) i = i < -n ? lowest : i + n;
  return i < lowest ? lowest : i > highest ? highest : i;
}

static val slice_str(rt *r, const str *s, int64_t from, int64_t to, int64_t step) {
  if (step == 1) {
    if (from >= to) return mt_val_cstr(r, "");
    size_t a = mt_str_offset(r, s, (size_t)from);
    const str *rest = mt_str_slice(r, s, a, s->len);
    return mt_val_slice(r, rest, 0, mt_str_offset(r, rest, (size_t)(to - from)));
  }
  const list *l = mt_val_items(r, (val){.kind = V_STR, .u.s = s});
  sb b = mt_sb_new(r);
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) mt_sb_str(&b, l->v[i].u.s);
  return mt_sb_val(&b);
}

/* from + n·step for printing a range, which never overflows as long as it matters. */
static int64_t walk(int64_t from, int64_t n, int64_t step) {
  return (int64_t)((uint64_t)from + (uint64_t)n * (uint64_t)step);
}

static val slice_list(rt *r, val v, int64_t from, int64_t to, int64_t step) {
  const list *l = v.u.l;
  list *out = mt_arena_alloc(&r->mem, 1, sizeof *out);
  *out = (list){
      .form = l->form, .start = walk(l->start, from, l->step), .stop = walk(l->start, to, l->step)};
  out->step = walk(0, l->step, step);
  if (step == 1) { /* shares the elements */
    out->n = from < to ? (size_t)(to - from) : 0;
    out->v = out->n ? l->v + from : NULL;
  } else {
    vec some = {.r = r};
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) mt_vec_push(&some, l->v[i]);
    out->n = some.n;
    out->v = some.v;
  }
  return (val){.kind = V_LIST, .origin = v.origin, .u.l = out};
}

val mt_chat_get_slice(rt *r, val v, val from, val to, val step) {
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  bool sliceable = v.kind == V_STR || (v.kind == V_LIST && v.u.l->form <= LIST_RANGE);
  if (!sliceable) return mt_val_undef(r, "'%s object' cannot be sliced", mt_val_type_name(v));
  int64_t n = (int64_t)mt_val_length(r, v), by = step.kind == V_MISSING || step.kind == V_NONE
                                                     ? 1
                                                     : mt_val_to_index(r, step, "a slice step");
  if (by == 0) mt_chat_fail(r, "slice step cannot be zero");
  if (by > n + 1) by = n + 1; /* the same elements, and i + by cannot overflow */
  if (by < -n - 1) by = -n - 1;
  int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? n : n - 1;
  int64_t a = bound(r, from, n, lowest, highest, by > 0 ? 0 : n - 1),
          z = bound(r, to, n, lowest, highest, by > 0 ? n : -1);
  if (v.kind == V_STR)
    return v.markup ? mt_markup_mark(r, slice_str(r, v.u.s, a, z, by))
                    : slice_str(r, v.u.s, a, z, by);
  return slice_list(r, v, a, z, by);
}

/* One step of a path: a number is an index. */
static val path_step(rt *r, val v, const str *part) {
  bool digits = part->len > 0 && part->len < 18;
  int64_t i = 0;
  for (size_t k = 0; digits && k < part->len; k++) {
    digits = part->p[k] >= '0' && part->p[k] <= '9';
    i = i * 10 + (part->p[k] - '0');
  }
  if (digits) return mt_chat_get_item(r, v, mt_val_int(i, MT_SPAN_TEMPLATE));
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  return mt_chat_get_attr_named(r, v, part);
}

static val or_default(val v, val otherwise) {
  return v.kind == V_UNDEF && otherwise.kind != V_MISSING && otherwise.kind != V_NONE ? otherwise
                                                                                      : v;
}

val mt_chat_get_path(rt *r, val v, val path, val otherwise) {
  if (path.kind == V_INT) return or_default(mt_chat_get_item(r, v, path), otherwise);
  if (path.kind != V_STR)
    mt_chat_fail(r, "an attribute's name must be a string or integer, not %s",
                 mt_val_type_name(path));
  const str *s = path.u.s;
  for (size_t from = 0; from <= s->len;) {
    const char *dot = memchr(s->p + from, '.', s->len - from);
    size_t to = dot ? (size_t)(dot - s->p) : s->len;
    str part = {.p = s->p + from, .len = to - from};
    v = or_default(path_step(r, v, &part), otherwise);
    from = to + 1;
  }
  return v;
}
