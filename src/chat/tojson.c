/* The tojson filter: Python's json.dumps with ensure_ascii=False. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"

typedef struct writer {
  sb b;
  bool ascii, sort;
  const str *indent;             /* NULL: one line */
  const str *item_sep, *key_sep; /* ", " and ": " unless asked otherwise */
} writer;

static void put_ascii(sb *b, uint32_t cp, int origin) {
  char e[16];
  if (cp < 0x10000)
    snprintf(e, sizeof e, "\\u%04x", (unsigned)cp);
  else
    snprintf(e, sizeof e, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((cp - 0x10000) >> 10)),
             (unsigned)(0xDC00 + ((cp - 0x10000) & 0x3FF)));
  mt_sb_puts(b, e, origin);
}

static void put_char(writer *w, const str *s, size_t i, size_t next, uint32_t cp) {
  static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
  const char *q = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
  if (q) {
    char e[2] = {'\\', to[q - from]};
    mt_sb_add(&w->b, e, 2, mt_str_origin(s, i));
  } else if (cp < 0x20 || (w->ascii && cp > 0x7E)) {
    put_ascii(&w->b, cp, mt_str_origin(s, i));
  } else {
    mt_sb_part(&w->b, s, i, next);
  }
}

static void put_string(writer *w, const str *s) {
  int around = mt_str_worst_origin(s);
  mt_sb_puts(&w->b, "\"", around);
  size_t plain = 0, i = 0; /* [plain, i) needs no escape */
  while (i < s->len) {
    unsigned char c = (unsigned char)s->p[i];
    if (c >= 0x20 && c != '"' && c != '\\' && !(w->ascii && c > 0x7E)) {
      i++;
      continue;
    }
    size_t next;
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next);
    mt_sb_part(&w->b, s, plain, i);
    put_char(w, s, i, next, cp);
    plain = i = next;
  }
  mt_sb_part(&w->b, s, plain, s->len);
  mt_sb_puts(&w->b, "\"", around);
}

static void put_line(writer *w, unsigned depth, int origin) {
  if (!w->indent) return;
  mt_sb_puts(&w->b, "\n", origin);
  for (unsigned i = 0; i < depth; i++) mt_sb_str(&w->b, w->indent);
}

static void put_value(writer *w, val v, unsigned depth);

static void put_list(writer *w, val v, unsigned depth) {
  const list *l = v.u.l;
  mt_sb_puts(&w->b, "[", v.origin);
  for (size_t i = 0; i < l->n; i++) {
    if (i) mt_sb_add(&w->b, w->item_sep->p, w->item_sep->len, v.origin);
    put_line(w, depth + 1, v.origin);
    put_value(w, l->v[i], depth + 1);
  }
  if (l->n) put_line(w, depth, v.origin);
  mt_sb_puts(&w->b, "]", v.origin);
}

/* Keys as json.dumps makes them strings: true, null, 1, 1.5. */
static void put_key(writer *w, val k) {
  if (k.kind == V_STR) {
    put_string(w, k.u.s);
    return;
  }
  if (!mt_val_is_number(k) && k.kind != V_NONE)
    mt_chat_fail(w->b.r, "tojson: keys must be str, int, float, bool or None, not %s",
                 mt_val_type_name(k));
  mt_sb_puts(&w->b, "\"", k.origin);
  put_value(w, k, 0);
  mt_sb_puts(&w->b, "\"", k.origin);
}

static const val *sorted_members(writer *w, const dict *d) {
  rt *r = w->b.r;
  val *keys = mt_val_array(r, d->n), *order = mt_val_array(r, d->n),
      *kv = mt_val_array(r, 2 * d->n);
  for (size_t i = 0; i < d->n; i++) {
    keys[i] = d->kv[2 * i];
    order[i] = mt_val_int((int64_t)i, MT_SPAN_TEMPLATE);
  }
  mt_chat_sort_by_keys(r, keys, order, d->n, false);
  for (size_t i = 0; i < d->n; i++) memcpy(&kv[2 * i], &d->kv[2 * order[i].u.i], 2 * sizeof *kv);
  return kv;
}

static void put_dict(writer *w, val v, unsigned depth) {
  size_t n = v.u.d->n;
  const val *kv = w->sort ? sorted_members(w, v.u.d) : v.u.d->kv;
  mt_sb_puts(&w->b, "{", v.origin);
  for (size_t i = 0; i < n; i++) {
    if (i) mt_sb_add(&w->b, w->item_sep->p, w->item_sep->len, v.origin);
    put_line(w, depth + 1, v.origin);
    put_key(w, kv[2 * i]);
    mt_sb_add(&w->b, w->key_sep->p, w->key_sep->len, v.origin);
    put_value(w, kv[2 * i + 1], depth + 1);
  }
  if (n) put_line(w, depth, v.origin);
  mt_sb_puts(&w->b, "}", v.origin);
}

static void put_number(writer *w, val v) {
  char text[40];
  if (v.kind == V_INT)
    snprintf(text, sizeof text, "%lld", (long long)v.u.i);
  else if (isnan(v.u.f) || isinf(v.u.f))
    snprintf(text, sizeof text, "%s", isnan(v.u.f) ? "NaN" : v.u.f > 0 ? "Infinity" : "-Infinity");
  else
    mt_chat_format_float_repr(v.u.f, text);
  mt_sb_puts(&w->b, text, v.origin);
}

static void put_value(writer *w, val v, unsigned depth) {
  rt *r = w->b.r;
  mt_chat_enter(r);
  if (depth > MAX_DATA_DEPTH)
    mt_trap_throw(&r->trap, MT_ELIMIT, "tojson: a value nests deeper than %d", MAX_DATA_DEPTH);
  switch ((val_kind)v.kind) {
    case V_NONE: mt_sb_puts(&w->b, "null", v.origin); break;
    case V_BOOL: mt_sb_puts(&w->b, v.u.b ? "true" : "false", v.origin); break;
    case V_INT:
    case V_FLOAT: put_number(w, v); break;
    case V_STR: put_string(w, v.u.s); break;
    case V_LIST: put_list(w, v, depth); break;
    case V_DICT: put_dict(w, v, depth); break;
    case V_UNDEF: mt_chat_fail_undefined(r, v);
    default: mt_chat_fail(r, "tojson: a %s is not JSON serializable", mt_val_type_name(v));
  }
  mt_chat_leave(r);
}

static const str *indent_unit(rt *r, val indent) {
  if (indent.kind == V_MISSING || indent.kind == V_NONE) return NULL;
  if (indent.kind == V_STR) return indent.u.s;
  int64_t n = mt_val_to_index(r, indent, "tojson: indent");
  if (n > 64) mt_chat_fail(r, "tojson: an indent of more than 64");
  static const char spaces[] = "                                                                ";
  return mt_val_str(r, spaces, n < 0 ? 0 : (size_t)n, mt_val_origin(indent)).u.s;
}

val mt_chat_to_json(rt *r, val v, val ensure_ascii, val indent, val separators, val sort_keys) {
  writer w = {.b = mt_sb_new(r),
              .ascii = mt_val_truth(r, ensure_ascii),
              .sort = mt_val_truth(r, sort_keys)};
  w.indent = indent_unit(r, indent);
  w.item_sep = mt_val_cstr(r, w.indent ? "," : ", ").u.s;
  w.key_sep = mt_val_cstr(r, ": ").u.s;
  if (separators.kind != V_MISSING && separators.kind != V_NONE) {
    const list *l = mt_val_items(r, separators);
    if (l->n != 2 || l->v[0].kind != V_STR || l->v[1].kind != V_STR)
      mt_chat_fail(r, "tojson: separators must be two strings");
    w.item_sep = l->v[0].u.s;
    w.key_sep = l->v[1].u.s;
  }
  put_value(&w, v, 0);
  return mt_sb_val(&w.b);
}
