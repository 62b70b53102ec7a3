/* Methods of dicts, lists, cyclers; finding a method. */
#include <string.h>

#include "runtime.h"

enum { PART_KEYS, PART_VALUES, PART_ITEMS };

static val dict_part(rt *r, val v, int part, int form) {
  const dict *d = v.u.d;
  val *out = mt_val_array(r, d->n);
  for (size_t i = 0; i < d->n; i++)
    out[i] = part == PART_ITEMS ? mt_val_list(r, &d->kv[2 * i], 2, LIST_TUPLE, v.origin)
                                : d->kv[2 * i + (part == PART_VALUES)];
  return mt_val_list(r, out, d->n, form, v.origin);
}

static val keys(rt *r, val v, const args *a) {
  (void)a;
  return dict_part(r, v, PART_KEYS, LIST_KEYS);
}
static val values(rt *r, val v, const args *a) {
  (void)a;
  return dict_part(r, v, PART_VALUES, LIST_VALUES);
}
static val items(rt *r, val v, const args *a) {
  (void)a;
  return dict_part(r, v, PART_ITEMS, LIST_ITEMS);
}

static val get(rt *r, val v, const args *a) {
  const val *found = mt_dict_get(r, v.u.d, mt_arg_get(a, 0, "key"));
  return found ? *found : mt_arg_or(a, 1, "default", mt_val_none());
}

static val copy(rt *r, val v,
                const args *a) { /* values never change, so the copy may be the thing itself */
  (void)r;
  (void)a;
  return v;
}

static val list_index(rt *r, val v, const args *a) {
  val what = mt_arg_get(a, 0, "value");
  for (size_t i = 0; i < v.u.l->n; i++)
    if (mt_val_eq(r, v.u.l->v[i], what)) return mt_val_int((int64_t)i, v.origin);
  mt_chat_fail(r, "the value is not in the list");
}

static val list_count(rt *r, val v, const args *a) {
  int64_t n = 0;
  for (size_t i = 0; i < v.u.l->n; i++) n += mt_val_eq(r, v.u.l->v[i], mt_arg_get(a, 0, "value"));
  return mt_val_int(n, v.origin);
}

static val cycler_next(rt *r, val v, const args *a) {
  (void)r;
  (void)a;
  cycler *c = v.u.cycler;
  val now = c->v[c->at];
  c->at = (c->at + 1) % c->n;
  return now;
}

static val cycler_reset(rt *r, val v, const args *a) {
  (void)r;
  (void)a;
  v.u.cycler->at = 0;
  return mt_val_none();
}

const method_def mt_chat_other_methods[] = {
    {{"method", "keys", ""}, V_DICT, keys},
    {{"method", "values", ""}, V_DICT, values},
    {{"method", "items", ""}, V_DICT, items},
    {{"method", "get", "key,default?"}, V_DICT, get},
    {{"method", "copy", ""}, V_DICT, copy},
    {{"method", "copy", ""}, V_LIST, copy},
    {{"method", "index", "value"}, V_LIST, list_index},
    {{"method", "count", "value"}, V_LIST, list_count},
    {{"method", "next", ""}, V_CYCLER, cycler_next},
    {{"method", "reset", ""}, V_CYCLER, cycler_reset},
    {{NULL, NULL, NULL}, 0, NULL},
};

const method_def *mt_chat_method_find(val_kind kind, const char *name, size_t len) {
  const method_def *tables[] = {mt_chat_str_methods, mt_chat_other_methods};
  for (size_t t = 0; t < 2; t++)
    for (const method_def *m = tables[t]; m->sig.name; m++)
      if ((kind == V_MISSING || m->kind == kind) && strlen(m->sig.name) == len &&
          !memcmp(m->sig.name, name, len))
        return m;
  return NULL;
}

bool mt_chat_is_loop_method(const char *name) {
  return !strcmp(name, "cycle") || !strcmp(name, "changed");
}
