/* Strings marked as safe (the filters safe and escape), after MarkupSafe: nothing is escaped on
 * output, but text added to such a string is, and what is cut from it stays marked. */
#include <string.h>

#include "runtime.h"

val mt_markup_escape(rt *r, val v) {
  if (v.kind == V_STR && v.markup) return v;
  const str *s = mt_val_to_str(r, v);
  sb b = mt_sb_new(r);
  size_t plain = 0;
  for (size_t i = 0; i < s->len; i++) {
    char c = s->p[i];
    const char *entity = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '"'  ? "&#34;"
                         : c == '\'' ? "&#39;"
                                     : NULL;
    if (!entity) continue;
    mt_sb_part(&b, s, plain, i);
    mt_sb_puts(&b, entity, mt_str_origin(s, i));
    plain = i + 1;
  }
  mt_sb_part(&b, s, plain, s->len);
  val out = mt_sb_val(&b);
  out.markup = true;
  return out;
}

val mt_markup_mark(rt *r, val v) {
  if (v.kind == V_STR) v.markup = true;
  if (v.kind != V_LIST) return v;
  val *marked = mt_val_array(r, v.u.l->n);
  for (size_t i = 0; i < v.u.l->n; i++) {
    marked[i] = v.u.l->v[i];
    if (marked[i].kind == V_STR) marked[i].markup = true;
  }
  return mt_val_list(r, marked, v.u.l->n, v.u.l->form, v.origin);
}

static val escape_strings(rt *r, val v) {
  if (v.kind == V_STR) return mt_markup_escape(r, v);
  if (v.kind != V_LIST) return v;
  val *escaped = mt_val_array(r, v.u.l->n);
  for (size_t i = 0; i < v.u.l->n; i++) escaped[i] = mt_markup_escape(r, v.u.l->v[i]);
  return mt_val_list(r, escaped, v.u.l->n, v.u.l->form, v.origin);
}

/* Methods that compare and search take their arguments as they are, as do those that split. */
static bool takes_as_is(const char *name) {
  static const char *const names[] = {"split", "rsplit", "splitlines", "startswith", "endswith",
                                      "find",  "rfind",  "index",      "rindex",     "count"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

val mt_markup_call(rt *r, const method_def *m, val self, const args *a) {
  args escaped = *a;
  if (!takes_as_is(m->sig.name)) {
    val *pos = mt_val_array(r, a->n_pos);
    kwarg *kw = mt_arena_alloc(&r->mem, a->n_kw, sizeof *kw);
    for (size_t i = 0; i < a->n_pos; i++) pos[i] = escape_strings(r, a->pos[i]);
    for (size_t i = 0; i < a->n_kw; i++)
      kw[i] = (kwarg){a->kw[i].name, escape_strings(r, a->kw[i].v)};
    escaped.pos = pos;
    escaped.kw = kw;
  }
  return mt_markup_mark(r, m->fn(r, self, &escaped));
}
