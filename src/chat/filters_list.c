/* Filters that work on lists, dicts and defaults. */
#include <string.h>

#include "runtime.h"

static val count(rt *r, val v, const args *a) {
  (void)a;
  return mt_val_int((int64_t)mt_val_length(r, v), mt_val_origin(v));
}

static val default_filter(rt *r, val v, const args *a) {
  bool falsy_too = mt_arg_bool(r, a, 1, "boolean", false);
  bool use = v.kind == V_UNDEF || (falsy_too && !mt_val_truth(r, v));
  return use ? mt_arg_or(a, 0, "default_value", mt_val_cstr(r, "")) : v;
}

static val list_filter(rt *r, val v, const args *a) {
  (void)a;
  const list *l = mt_val_items(r, v);
  return mt_val_list(r, l->v, l->n, LIST_LIST, v.kind == V_STR ? mt_val_origin(v) : v.origin);
}

static val first(rt *r, val v, const args *a) {
  (void)a;
  const list *l = mt_val_items(r, v);
  return l->n ? l->v[0] : mt_val_undef(r, "there is no first item, the sequence is empty");
}

static val last(rt *r, val v, const args *a) {
  (void)a;
  const list *l = mt_val_items(r, v);
  return l->n ? l->v[l->n - 1] : mt_val_undef(r, "there is no last item, the sequence is empty");
}

static val items(rt *r, val v, const args *a) {
  (void)a;
  if (v.kind == V_UNDEF) return mt_val_list(r, NULL, 0, LIST_LIST, MT_SPAN_TEMPLATE);
  if (v.kind != V_DICT) mt_chat_fail(r, "items needs a mapping, not %s", mt_val_type_name(v));
  val *out = mt_val_array(r, v.u.d->n);
  for (size_t i = 0; i < v.u.d->n; i++)
    out[i] = mt_val_list(r, &v.u.d->kv[2 * i], 2, LIST_TUPLE, v.origin);
  return mt_val_list(r, out, v.u.d->n, LIST_LIST, v.origin);
}

static val reverse(rt *r, val v, const args *a) {
  (void)a;
  const list *l = mt_val_items(r, v);
  val *out = mt_val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++) out[i] = l->v[l->n - 1 - i];
  val reversed = mt_val_list(r, out, l->n, LIST_LIST, v.origin);
  if (v.kind != V_STR) return reversed;
  val text = mt_chat_text_join(r, reversed.u.l, mt_val_cstr(r, "").u.s, true);
  text.markup = v.markup;
  return text;
}

static val attr(rt *r, val v, const args *a) {
  const str *name = mt_arg_str(r, a, 0, "name");
  if (!name) mt_chat_fail(r, "attr needs a name");
  if (v.kind == V_DICT &&
      !mt_chat_method_find(V_DICT, name->p, name->len)) /* attributes only, not items */
    return mt_val_undef(r, "'dict object' has no attribute '%.*s'",
                        (int)(name->len < 100 ? name->len : 100), name->p);
  const sym *s = mt_sym_find(r->t, name->p, name->len);
  return v.kind == V_DICT && s ? mt_chat_get_attr(r, v, s) : mt_chat_get_attr_named(r, v, name);
}

/* ---- keys: attribute and case -------------------------------------------------------------- */

static val fold(rt *r, val v, bool case_sensitive) {
  return v.kind == V_STR && !case_sensitive ? mt_chat_text_map_case(r, v.u.s, UNI_TO_LOWER) : v;
}

static val item_key(rt *r, val v, val attribute, bool case_sensitive) {
  bool has = attribute.kind != V_MISSING && attribute.kind != V_NONE;
  return fold(r, has ? mt_chat_get_path(r, v, attribute, (val){.kind = V_MISSING}) : v,
              case_sensitive);
}

/* sort takes several attributes, "a,b": the key is then a tuple. */
static val sort_key(rt *r, val v, val attribute, bool case_sensitive) {
  if (attribute.kind != V_STR || !memchr(attribute.u.s->p, ',', attribute.u.s->len))
    return item_key(r, v, attribute, case_sensitive);
  vec parts = {.r = r};
  const str *s = attribute.u.s;
  for (size_t from = 0; from <= s->len;) {
    const char *comma = memchr(s->p + from, ',', s->len - from);
    size_t to = comma ? (size_t)(comma - s->p) : s->len;
    mt_vec_push(&parts, item_key(r, v, mt_val_slice(r, s, from, to), case_sensitive));
    from = to + 1;
  }
  return mt_vec_list(&parts, LIST_TUPLE, MT_SPAN_TEMPLATE);
}

static val sort(rt *r, val v, const args *a) {
  const list *l = mt_val_items(r, v);
  val *out = mt_val_array(r, l->n), *keys = mt_val_array(r, l->n);
  val attribute = mt_arg_get(a, 2, "attribute");
  bool case_sensitive = mt_arg_bool(r, a, 1, "case_sensitive", false);
  for (size_t i = 0; i < l->n; i++) {
    out[i] = l->v[i];
    keys[i] = sort_key(r, l->v[i], attribute, case_sensitive);
  }
  mt_chat_sort_by_keys(r, keys, out, l->n, mt_arg_bool(r, a, 0, "reverse", false));
  return mt_val_list(r, out, l->n, LIST_LIST, v.origin);
}

static val dictsort(rt *r, val v, const args *a) {
  if (v.kind != V_DICT) mt_chat_fail(r, "dictsort needs a dict, not %s", mt_val_type_name(v));
  const str *by = mt_arg_str(r, a, 1, "by");
  if (by && !mt_str_is(by, "key") && !mt_str_is(by, "value"))
    mt_chat_fail(r, "dictsort: by must be key or value");
  val pairs = items(r, v, a);
  val *keys = mt_val_array(r, pairs.u.l->n), *out = mt_val_array(r, pairs.u.l->n);
  for (size_t i = 0; i < pairs.u.l->n; i++) {
    out[i] = pairs.u.l->v[i];
    keys[i] = fold(r, out[i].u.l->v[by && mt_str_is(by, "value")],
                   mt_arg_bool(r, a, 0, "case_sensitive", false));
  }
  mt_chat_sort_by_keys(r, keys, out, pairs.u.l->n, mt_arg_bool(r, a, 2, "reverse", false));
  return mt_val_list(r, out, pairs.u.l->n, LIST_LIST, v.origin);
}

static val unique(rt *r, val v, const args *a) {
  const list *l = mt_val_items(r, v);
  val attribute = mt_arg_get(a, 1, "attribute");
  bool case_sensitive = mt_arg_bool(r, a, 0, "case_sensitive", false);
  vec out = {.r = r}, seen = {.r = r};
  for (size_t i = 0; i < l->n; i++) {
    val key = item_key(r, l->v[i], attribute, case_sensitive);
    size_t k = 0;
    while (k < seen.n && !mt_val_eq(r, seen.v[k], key)) k++;
    if (k < seen.n) continue;
    mt_vec_push(&seen, key);
    mt_vec_push(&out, l->v[i]);
  }
  return mt_vec_list(&out, LIST_LIST, v.origin);
}

static val extreme(rt *r, val v, const args *a, int wanted) {
  const list *l = mt_val_items(r, v);
  if (!l->n) return mt_val_undef(r, "there is no extreme, the sequence is empty");
  val attribute = mt_arg_get(a, 1, "attribute");
  bool case_sensitive = mt_arg_bool(r, a, 0, "case_sensitive", false);
  val best = l->v[0], best_key = item_key(r, best, attribute, case_sensitive);
  for (size_t i = 1; i < l->n; i++) {
    val key = item_key(r, l->v[i], attribute, case_sensitive);
    if (mt_val_cmp(r, key, best_key, wanted < 0 ? "<" : ">") != wanted) continue;
    best = l->v[i];
    best_key = key;
  }
  return best;
}
static val min_filter(rt *r, val v, const args *a) {
  return extreme(r, v, a, -1);
}
static val max_filter(rt *r, val v, const args *a) {
  return extreme(r, v, a, 1);
}

static val sum(rt *r, val v, const args *a) {
  const list *l = mt_val_items(r, v);
  val attribute = mt_arg_get(a, 0, "attribute"),
      total = mt_arg_or(a, 1, "start", mt_val_int(0, MT_SPAN_TEMPLATE));
  for (size_t i = 0; i < l->n; i++)
    total = mt_chat_arith(r, '+', total, item_key(r, l->v[i], attribute, true));
  return total;
}

static val join(rt *r, val v, const args *a) {
  const list *l = mt_val_items(r, v);
  val attribute = mt_arg_get(a, 1, "attribute");
  const str *sep = mt_val_to_str(r, mt_arg_or(a, 0, "d", mt_val_cstr(r, "")));
  if (attribute.kind == V_MISSING || attribute.kind == V_NONE)
    return mt_chat_text_join(r, l, sep, false);
  val *parts = mt_val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++)
    parts[i] = mt_chat_get_path(r, l->v[i], attribute, (val){.kind = V_MISSING});
  return mt_chat_text_join(r, mt_val_list(r, parts, l->n, LIST_LIST, v.origin).u.l, sep, false);
}

/* ---- cutting ------------------------------------------------------------------------------- */

static void pad_with(rt *r, vec *row, size_t upto, val fill) {
  (void)r;
  while (fill.kind != V_NONE && row->n < upto) mt_vec_push(row, fill);
}

static val batch(rt *r, val v, const args *a) {
  const list *l = mt_val_items(r, v);
  int64_t n = mt_val_to_index(r, mt_arg_get(a, 0, "linecount"), "linecount");
  val fill = mt_arg_or(a, 1, "fill_with", mt_val_none());
  vec rows = {.r = r};
  if (n < 1) mt_chat_fail(r, "batch: linecount must be positive");
  for (size_t i = 0; i < l->n;) {
    vec row = {.r = r};
    for (; i < l->n && row.n < (size_t)n; i++) mt_vec_push(&row, l->v[i]);
    pad_with(r, &row, (size_t)n, fill);
    mt_vec_push(&rows, mt_vec_list(&row, LIST_LIST, v.origin));
  }
  return mt_vec_list(&rows, LIST_LIST, v.origin);
}

static val slice(rt *r, val v, const args *a) {
  const list *l = mt_val_items(r, v);
  int64_t n = mt_val_to_index(r, mt_arg_get(a, 0, "slices"), "slices");
  val fill = mt_arg_or(a, 1, "fill_with", mt_val_none());
  if (n < 1) mt_chat_fail(r, "slice: slices must be positive");
  size_t slices = (size_t)n, each = l->n / slices, longer = l->n % slices, at = 0;
  vec rows = {.r = r};
  for (size_t i = 0; i < slices; i++) {
    vec row = {.r = r};
    for (size_t k = 0; k < each + (i < longer); k++) mt_vec_push(&row, l->v[at++]);
    if (i >= longer && longer) pad_with(r, &row, each + 1, fill);
    if (!longer) pad_with(r, &row, each + 1, fill);
    mt_vec_push(&rows, mt_vec_list(&row, LIST_LIST, v.origin));
  }
  return mt_vec_list(&rows, LIST_LIST, v.origin);
}

/* ---- map, select and relatives ------------------------------------------------------------- */

static args rest_of(const args *a, size_t from) {
  args b = *a;
  b.pos = from < a->n_pos ? a->pos + from : NULL;
  b.n_pos = from < a->n_pos ? a->n_pos - from : 0;
  return b;
}

static val map_attribute(rt *r, const list *l, const args *a, int origin) {
  val attribute = mt_arg_get(a, SIZE_MAX, "attribute"),
      otherwise = mt_arg_get(a, SIZE_MAX, "default");
  val *out = mt_val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++) out[i] = mt_chat_get_path(r, l->v[i], attribute, otherwise);
  return mt_val_list(r, out, l->n, LIST_LIST, origin);
}

/* map, select and their relatives take anything false for an empty list. */
static const list *items_or_none(rt *r, val v) {
  return mt_val_truth(r, v) ? mt_val_items(r, v)
                            : mt_val_list(r, NULL, 0, LIST_LIST, MT_SPAN_TEMPLATE).u.l;
}

static val map(rt *r, val v, const args *a) {
  const list *l = items_or_none(r, v);
  if (!a->n_pos) {
    if (mt_arg_get(a, SIZE_MAX, "attribute").kind == V_MISSING)
      mt_chat_fail(r, "map needs a filter or an attribute");
    return map_attribute(r, l, a, v.origin);
  }
  const str *name = mt_arg_str(r, a, 0, "filter");
  const filter_def *f = name ? mt_chat_filter_find(name->p, name->len) : NULL;
  if (!f) mt_chat_fail(r, "map: there is no such filter");
  args rest = rest_of(a, 1);
  val *out = mt_val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++) out[i] = mt_chat_call_filter(r, f, l->v[i], &rest);
  return mt_val_list(r, out, l->n, LIST_LIST, v.origin);
}

/* Keeps the items for which the test (argument `at`, with the rest as its arguments; absent: truth)
 * gives `wanted`. */
static val keep_if(rt *r, val v, const args *a, size_t at, bool wanted) {
  const list *l = items_or_none(r, v);
  const test_def *t = NULL;
  if (at > 0 && !a->n_pos) mt_chat_fail(r, "an attribute is needed");
  if (a->n_pos > at) {
    const str *name = mt_arg_str(r, a, at, "test");
    t = name ? mt_chat_test_find(name->p, name->len) : NULL;
    if (!t) mt_chat_fail(r, "there is no such test");
  }
  args rest = rest_of(a, at + 1);
  vec out = {.r = r};
  for (size_t i = 0; i < l->n; i++) {
    val x = at ? mt_chat_get_path(r, l->v[i], a->pos[0], (val){.kind = V_MISSING}) : l->v[i];
    if ((t ? mt_chat_call_test(r, t, x, &rest) : mt_val_truth(r, x)) == wanted)
      mt_vec_push(&out, l->v[i]);
  }
  return mt_vec_list(&out, LIST_LIST, v.origin);
}
static val select_filter(rt *r, val v, const args *a) {
  return keep_if(r, v, a, 0, true);
}
static val reject(rt *r, val v, const args *a) {
  return keep_if(r, v, a, 0, false);
}
static val selectattr(rt *r, val v, const args *a) {
  return keep_if(r, v, a, 1, true);
}
static val rejectattr(rt *r, val v, const args *a) {
  return keep_if(r, v, a, 1, false);
}

#define FILTER(name, params, fn) \
  { {"filter", name, params}, fn, false }
const filter_def mt_chat_list_filters[] = {
    FILTER("length", "", count),
    FILTER("count", "", count),
    FILTER("default", "default_value?,boolean?", default_filter),
    FILTER("d", "default_value?,boolean?", default_filter),
    FILTER("list", "", list_filter),
    FILTER("first", "", first),
    FILTER("last", "", last),
    FILTER("items", "", items),
    FILTER("reverse", "", reverse),
    FILTER("attr", "name", attr),
    FILTER("join", "d?,attribute?", join),
    FILTER("sort", "reverse?,case_sensitive?,attribute?", sort),
    FILTER("dictsort", "case_sensitive?,by?,reverse?", dictsort),
    FILTER("unique", "case_sensitive?,attribute?", unique),
    FILTER("min", "case_sensitive?,attribute?", min_filter),
    FILTER("max", "case_sensitive?,attribute?", max_filter),
    FILTER("sum", "attribute?,start?", sum),
    FILTER("batch", "linecount,fill_with?", batch),
    FILTER("slice", "slices,fill_with?", slice),
    FILTER("map", "*", map),
    FILTER("select", "*", select_filter),
    FILTER("reject", "*", reject),
    FILTER("selectattr", "*", selectattr),
    FILTER("rejectattr", "*", rejectattr),
    {{NULL, NULL, NULL}, NULL, false},
};
