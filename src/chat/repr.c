/* Values as Python prints them: str() and repr(). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

/* The shortest decimal that reads back as f, laid out as Python's float.__repr__. */
size_t mt_chat_format_float_repr(double f, char out[40]) {
  if (isnan(f)) return (size_t)snprintf(out, 40, "nan");
  if (isinf(f)) return (size_t)snprintf(out, 40, f < 0 ? "-inf" : "inf");
  char e[40];
  for (int digits = 0; digits < 17; digits++) {
    snprintf(e, sizeof e, "%.*e", digits, f);
    if (strtod(e, NULL) == f) break;
  }
  char *mark = strchr(e, 'e');
  int exp = (int)strtol(mark + 1, NULL, 10);
  *mark = 0;
  char digits[24];
  size_t n = 0;
  const char *sign = e[0] == '-' ? "-" : "";
  for (const char *c = e; *c; c++)
    if (*c >= '0' && *c <= '9') digits[n++] = *c;
  digits[n] = 0;
  if (exp < -4 || exp >= 16)
    return (size_t)snprintf(out, 40, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "",
                            digits + 1, exp < 0 ? '-' : '+', abs(exp));
  if (exp < 0) return (size_t)snprintf(out, 40, "%s0.%.*s%s", sign, -exp - 1, "0000", digits);
  if ((size_t)exp + 1 >= n)
    return (size_t)snprintf(out, 40, "%s%s%.*s.0", sign, digits, exp + 1 - (int)n,
                            "0000000000000000");
  return (size_t)snprintf(out, 40, "%s%.*s.%s", sign, exp + 1, digits, digits + exp + 1);
}

static void put_escape(sb *b, uint32_t cp, int origin) {
  char e[12];
  if (cp == '\n' || cp == '\r' || cp == '\t')
    snprintf(e, sizeof e, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
  else if (cp < 0x100)
    snprintf(e, sizeof e, "\\x%02x", (unsigned)cp);
  else if (cp < 0x10000)
    snprintf(e, sizeof e, "\\u%04x", (unsigned)cp);
  else
    snprintf(e, sizeof e, "\\U%08x", (unsigned)cp);
  mt_sb_puts(b, e, origin);
}

static void put_quoted(sb *b, const str *s) {
  int around = mt_str_worst_origin(s);
  char quote = memchr(s->p, '\'', s->len) && !memchr(s->p, '"', s->len) ? '"' : '\'';
  mt_sb_add(b, &quote, 1, around);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next);
    int origin = mt_str_origin(s, i);
    if (cp == (uint32_t)quote || cp == '\\') {
      char e[2] = {'\\', (char)cp};
      mt_sb_add(b, e, 2, origin);
    } else if (mt_uni_flags(cp) & UNI_PRINTABLE) {
      mt_sb_part(b, s, i, next);
    } else {
      put_escape(b, cp, origin);
    }
  }
  mt_sb_add(b, &quote, 1, around);
}

static void put_list(sb *b, val v) {
  static const char *const open[] = {"[",           "(", "range(", "dict_keys([", "dict_values([",
                                     "dict_items(["};
  static const char *const close[] = {"]", ")", ")", "])", "])", "])"};
  const list *l = v.u.l;
  mt_sb_puts(b, open[l->form], v.origin);
  if (l->form == LIST_RANGE) {
    char text[80];
    snprintf(text, sizeof text, "%lld, %lld", (long long)l->start, (long long)l->stop);
    mt_sb_puts(b, text, v.origin);
    if (l->step != 1) {
      snprintf(text, sizeof text, ", %lld", (long long)l->step);
      mt_sb_puts(b, text, v.origin);
    }
  } else {
    for (size_t i = 0; i < l->n; i++) {
      if (i) mt_sb_puts(b, ", ", v.origin);
      mt_chat_put_repr(b, l->v[i]);
    }
    if (l->form == LIST_TUPLE && l->n == 1) mt_sb_puts(b, ",", v.origin);
  }
  mt_sb_puts(b, close[l->form], v.origin);
}

static void put_dict(sb *b, val v) {
  mt_sb_puts(b, "{", v.origin);
  for (size_t i = 0; i < v.u.d->n; i++) {
    if (i) mt_sb_puts(b, ", ", v.origin);
    mt_chat_put_repr(b, v.u.d->kv[2 * i]);
    mt_sb_puts(b, ": ", v.origin);
    mt_chat_put_repr(b, v.u.d->kv[2 * i + 1]);
  }
  mt_sb_puts(b, "}", v.origin);
}

static void put_scalar(sb *b, val v) {
  char text[40];
  switch ((val_kind)v.kind) {
    case V_NONE: mt_sb_puts(b, "None", MT_SPAN_TEMPLATE); return;
    case V_BOOL: mt_sb_puts(b, v.u.b ? "True" : "False", v.origin); return;
    case V_INT:
      snprintf(text, sizeof text, "%lld", (long long)v.u.i);
      mt_sb_puts(b, text, v.origin);
      return;
    case V_FLOAT: mt_sb_add(b, text, mt_chat_format_float_repr(v.u.f, text), v.origin); return;
    case V_UNDEF: return;
    case V_NS: mt_chat_fail(b->r, "a namespace cannot be printed");
    default: mt_chat_fail(b->r, "a %s cannot be printed", mt_val_type_name(v));
  }
}

void mt_chat_put_repr(sb *b, val v) {
  mt_chat_enter(b->r);
  if (v.kind == V_STR && v.markup) {
    mt_sb_puts(b, "Markup(", MT_SPAN_TEMPLATE);
    put_quoted(b, v.u.s);
    mt_sb_puts(b, ")", MT_SPAN_TEMPLATE);
  } else if (v.kind == V_STR)
    put_quoted(b, v.u.s);
  else if (v.kind == V_LIST)
    put_list(b, v);
  else if (v.kind == V_DICT)
    put_dict(b, v);
  else if (v.kind == V_UNDEF)
    mt_sb_puts(b, "Undefined", MT_SPAN_TEMPLATE);
  else
    put_scalar(b, v);
  mt_chat_leave(b->r);
}

void mt_chat_put_str(sb *b, val v) {
  if (v.kind == V_STR)
    mt_sb_str(b, v.u.s);
  else if (v.kind == V_LIST || v.kind == V_DICT)
    mt_chat_put_repr(b, v);
  else
    put_scalar(b, v);
}
