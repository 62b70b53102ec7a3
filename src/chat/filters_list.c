/* Filters that work on lists, dicts and defaults. */
#include <string.h>

#include "runtime.h"

static val count(rt *r, val v, const args *a) {
  (void)a;
  return val_int((int64_t)val_length(r, v), val_origin(v));
}

static val default_filter(rt *r, val v, const args *a) {
  bool falsy_too = arg_bool(r, a, 1, "boolean", false);
  bool use = v.kind == V_UNDEF || (falsy_too && !val_truth(r, v));
  return use ? arg_or(a, 0, "default_value", val_cstr(r, "")) : v;
}

static val list_filter(rt *r, val v, const args *a) {
  (void)a;
  const list *l = val_items(r, v);
  return val_list(r, l->v, l->n, LIST_LIST, v.kind == V_STR ? val_origin(v) : v.origin);
}

static val first(rt *r, val v, const args *a) {
  (void)a;
  const list *l = val_items(r, v);
  return l->n ? l->v[0] : val_undef(r, "there is no first item, the sequence is empty");
}

static val last(rt *r, val v, const args *a) {
  (void)a;
  const list *l = val_items(r, v);
  return l->n ? l->v[l->n - 1] : val_undef(r, "there is no last item, the sequence is empty");
}

static val items(rt *r, val v, const args *a) {
  (void)a;
  if (v.kind == V_UNDEF) return val_list(r, NULL, 0, LIST_LIST, MT_SPAN_TEMPLATE);
  if (v.kind != V_DICT) fail(r, "items needs a mapping, not %s", val_type_name(v));
  val *out = val_array(r, v.u.d->n);
  for (size_t i = 0; i < v.u.d->n; i++)
    out[i] = val_list(r, &v.u.d->kv[2 * i], 2, LIST_TUPLE, v.origin);
  return val_list(r, out, v.u.d->n, LIST_LIST, v.origin);
}

static val reverse(rt *r, val v, const args *a) {
  (void)a;
  const list *l = val_items(r, v);
  val *out = val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++) out[i] = l->v[l->n - 1 - i];
  val reversed = val_list(r, out, l->n, LIST_LIST, v.origin);
  if (v.kind != V_STR) return reversed;
  val text = text_join(r, reversed.u.l, val_cstr(r, "").u.s, true);
  text.markup = v.markup;
  return text;
}

static val attr(rt *r, val v, const args *a) {
  const str *name = arg_str(r, a, 0, "name");
  if (!name) fail(r, "attr needs a name");
  if (v.kind == V_DICT && !method_find(V_DICT, name->p, name->len)) /* attributes only, not items */
    return val_undef(r, "'dict object' has no attribute '%.*s'",
                     (int)(name->len < 100 ? name->len : 100), name->p);
  const sym *s = sym_find(r->t, name->p, name->len);
  return v.kind == V_DICT && s ? get_attr(r, v, s) : get_attr_named(r, v, name);
}

/* ---- keys: attribute and case -------------------------------------------------------------- */

static val fold(rt *r, val v, bool case_sensitive) {
  return v.kind == V_STR && !case_sensitive ? text_map_case(r, v.u.s, UNI_TO_LOWER) : v;
}

static val item_key(rt *r, val v, val attribute, bool case_sensitive) {
  bool has = attribute.kind != V_MISSING && attribute.kind != V_NONE;
  return fold(r, has ? get_path(r, v, attribute, (val){.kind = V_MISSING}) : v, case_sensitive);
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
    vec_push(&parts, item_key(r, v, val_slice(r, s, from, to), case_sensitive));
    from = to + 1;
  }
  return vec_list(&parts, LIST_TUPLE, MT_SPAN_TEMPLATE);
}

static val sort(rt *r, val v, const args *a) {
  const list *l = val_items(r, v);
  val *out = val_array(r, l->n), *keys = val_array(r, l->n);
  val attribute = arg_get(a, 2, "attribute");
  bool case_sensitive = arg_bool(r, a, 1, "case_sensitive", false);
  for (size_t i = 0; i < l->n; i++) {
    out[i] = l->v[i];
    keys[i] = sort_key(r, l->v[i], attribute, case_sensitive);
  }
  sort_by_keys(r, keys, out, l->n, arg_bool(r, a, 0, "reverse", false));
  return val_list(r, out, l->n, LIST_LIST, v.origin);
}

static val dictsort(rt *r, val v, const args *a) {
  if (v.kind != V_DICT) fail(r, "dictsort needs a dict, not %s", val_type_name(v));
  const str *by = arg_str(r, a, 1, "by");
  if (by && !str_is(by, "key") && !str_is(by, "value"))
    fail(r, "dictsort: by must be key or value");
  val pairs = items(r, v, a);
  val *keys = val_array(r, pairs.u.l->n), *out = val_array(r, pairs.u.l->n);
  for (size_t i = 0; i < pairs.u.l->n; i++) {
    out[i] = pairs.u.l->v[i];
    keys[i] = fold(r, out[i].u.l->v[by && str_is(by, "value")],
                   arg_bool(r, a, 0, "case_sensitive", false));
  }
  sort_by_keys(r, keys, out, pairs.u.l->n, arg_bool(r, a, 2, "reverse", false));
  return val_list(r, out, pairs.u.l->n, LIST_LIST, v.origin);
}

static val unique(rt *r, val v, const args *a) {
  const list *l = val_items(r, v);
  val attribute = arg_get(a, 1, "attribute");
  bool case_sensitive = arg_bool(r, a, 0, "case_sensitive", false);
  vec out = {.r = r}, seen = {.r = r};
  for (size_t i = 0; i < l->n; i++) {
    val key = item_key(r, l->v[i], attribute, case_sensitive);
    size_t k = 0;
    while (k < seen.n && !val_eq(r, seen.v[k], key)) k++;
    if (k < seen.n) continue;
    vec_push(&seen, key);
    vec_push(&out, l->v[i]);
  }
  return vec_list(&out, LIST_LIST, v.origin);
}

static val extreme(rt *r, val v, const args *a, int wanted) {
  const list *l = val_items(r, v);
  if (!l->n) return val_undef(r, "there is no extreme, the sequence is empty");
  val attribute = arg_get(a, 1, "attribute");
  bool case_sensitive = arg_bool(r, a, 0, "case_sensitive", false);
  val best = l->v[0], best_key = item_key(r, best, attribute, case_sensitive);
  for (size_t i = 1; i < l->n; i++) {
    val key = item_key(r, l->v[i], attribute, case_sensitive);
    if (val_cmp(r, key, best_key, wanted < 0 ? "<" : ">") != wanted) continue;
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
  const list *l = val_items(r, v);
  val attribute = arg_get(a, 0, "attribute"),
      total = arg_or(a, 1, "start", val_int(0, MT_SPAN_TEMPLATE));
  for (size_t i = 0; i < l->n; i++)
    total = arith(r, '+', total, item_key(r, l->v[i], attribute, true));
  return total;
}

static val join(rt *r, val v, const args *a) {
  const list *l = val_items(r, v);
  val attribute = arg_get(a, 1, "attribute");
  const str *sep = val_to_str(r, arg_or(a, 0, "d", val_cstr(r, "")));
  if (attribute.kind == V_MISSING || attribute.kind == V_NONE) return text_join(r, l, sep, false);
  val *parts = val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++)
    parts[i] = get_path(r, l->v[i], attribute, (val){.kind = V_MISSING});
  return text_join(r, val_list(r, parts, l->n, LIST_LIST, v.origin).u.l, sep, false);
}

/* ---- cutting ------------------------------------------------------------------------------- */

static void pad_with(rt *r, vec *row, size_t upto, val fill) {
  (void)r;
  while (fill.kind != V_NONE && row->n < upto) vec_push(row, fill);
}

static val batch(rt *r, val v, const args *a) {
  const list *l = val_items(r, v);
  int64_t n = val_to_index(r, arg_get(a, 0, "linecount"), "linecount");
  val fill = arg_or(a, 1, "fill_with", val_none());
  vec rows = {.r = r};
  if (n < 1) fail(r, "batch: linecount must be positive");
  for (size_t i = 0; i < l->n;) {
    vec row = {.r = r};
    for (; i < l->n && row.n < (size_t)n; i++) vec_push(&row, l->v[i]);
    pad_with(r, &row, (size_t)n, fill);
    vec_push(&rows, vec_list(&row, LIST_LIST, v.origin));
  }
  return vec_list(&rows, LIST_LIST, v.origin);
}

static val slice(rt *r, val v, const args *a) {
  const list *l = val_items(r, v);
  int64_t n = val_to_index(r, arg_get(a, 0, "slices"), "slices");
  val fill = arg_or(a, 1, "fill_with", val_none());
  if (n < 1) fail(r, "slice: slices must be positive");
  size_t slices = (size_t)n, each = l->n / slices, longer = l->n % slices, at = 0;
  vec rows = {.r = r};
  for (size_t i = 0; i < slices; i++) {
    vec row = {.r = r};
    for (size_t k = 0; k < each + (i < longer); k++) vec_push(&row, l->v[at++]);
    if (i >= longer && longer) pad_with(r, &row, each + 1, fill);
    if (!longer) pad_with(r, &row, each + 1, fill);
    vec_push(&rows, vec_list(&row, LIST_LIST, v.origin));
  }
  return vec_list(&rows, LIST_LIST, v.origin);
}

/* ---- map, select and relatives ------------------------------------------------------------- */

static args rest_of(const args *a, size_t from) {
  args b = *a;
  b.pos = from < a->n_pos ? a->pos + from : NULL;
  b.n_pos = from < a->n_pos ? a->n_pos - from : 0;
  return b;
}

static val map_attribute(rt *r, const list *l, const args *a, int origin) {
  val attribute = arg_get(a, SIZE_MAX, "attribute"), otherwise = arg_get(a, SIZE_MAX, "default");
  val *out = val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++) out[i] = get_path(r, l->v[i], attribute, otherwise);
  return val_list(r, out, l->n, LIST_LIST, origin);
}

/* map, select and their relatives take anything false for an empty list. */
static const list *items_or_none(rt *r, val v) {
  return val_truth(r, v) ? val_items(r, v) : val_list(r, NULL, 0, LIST_LIST, MT_SPAN_TEMPLATE).u.l;
}

static val map(rt *r, val v, const args *a) {
  const list *l = items_or_none(r, v);
  if (!a->n_pos) {
    if (arg_get(a, SIZE_MAX, "attribute").kind == V_MISSING)
      fail(r, "map needs a filter or an attribute");
    return map_attribute(r, l, a, v.origin);
  }
  const str *name = arg_str(r, a, 0, "filter");
  const filter_def *f = name ? filter_find(name->p, name->len) : NULL;
  if (!f) fail(r, "map: there is no such filter");
  args rest = rest_of(a, 1);
  val *out = val_array(r, l->n);
  for (size_t i = 0; i < l->n; i++) out[i] = call_filter(r, f, l->v[i], &rest);
  return val_list(r, out, l->n, LIST_LIST, v.origin);
}

/* Keeps the items for which the test (argument `at`, with the rest as its arguments; absent: truth)
 * gives `wanted`. */
static val keep_if(rt *r, val v, const args *a, size_t at, bool wanted) {
  const list *l = items_or_none(r, v);
  const test_def *t = NULL;
  if (at > 0 && !a->n_pos) fail(r, "an attribute is needed");
  if (a->n_pos > at) {
    const str *name = arg_str(r, a, at, "test");
    t = name ? test_find(name->p, name->len) : NULL;
    if (!t) fail(r, "there is no such test");
  }
  args rest = rest_of(a, at + 1);
  vec out = {.r = r};
  for (size_t i = 0; i < l->n; i++) {
    val x = at ? get_path(r, l->v[i], a->pos[0], (val){.kind = V_MISSING}) : l->v[i];
    if ((t ? call_test(r, t, x, &rest) : val_truth(r, x)) == wanted) vec_push(&out, l->v[i]);
  }
  return vec_list(&out, LIST_LIST, v.origin);
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
const filter_def chat_list_filters[] = {
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
