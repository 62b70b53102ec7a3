/* Filters that give text or numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static val upper(rt *r, val v, const args *a) {
  (void)a;
  return mt_chat_text_map_case(r, mt_val_to_str(r, v), UNI_TO_UPPER);
}
static val lower(rt *r, val v, const args *a) {
  (void)a;
  return mt_chat_text_map_case(r, mt_val_to_str(r, v), UNI_TO_LOWER);
}
static val capitalize(rt *r, val v, const args *a) {
  (void)a;
  return mt_chat_text_capitalize(r, mt_val_to_str(r, v));
}
static val string(rt *r, val v, const args *a) {
  (void)a;
  return (val){.kind = V_STR, .u.s = mt_val_to_str(r, v)};
}

/* Jinja's title: words begin after white space and any of -({[<, whatever else they hold. */
static val title(rt *r, val v, const args *a) {
  (void)a;
  const str *s = mt_val_to_str(r, v);
  sb b = mt_sb_new(r);
  bool begins = true;
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next), to[3];
    bool splits = mt_uni_is_space(cp) || (cp && cp < 0x80 && strchr("-({[<", (int)cp));
    int n = mt_uni_map_case(cp, begins ? UNI_TO_UPPER : UNI_TO_LOWER, to),
        origin = mt_str_origin(s, i);
    for (int k = 0; k < n; k++) mt_sb_cp(&b, to[k], origin);
    begins = splits;
  }
  return mt_sb_val(&b);
}

static val trim(rt *r, val v, const args *a) {
  return mt_chat_text_strip(r, mt_val_to_str(r, v), mt_arg_str(r, a, 0, "chars"),
                            STRIP_LEFT | STRIP_RIGHT);
}

static val replace(rt *r, val v, const args *a) {
  val count = mt_arg_or(a, 2, "count", mt_val_none());
  return mt_chat_text_replace(r, mt_val_to_str(r, v), mt_val_to_str(r, mt_arg_get(a, 0, "old")),
                              mt_val_to_str(r, mt_arg_get(a, 1, "new")),
                              count.kind == V_NONE ? -1 : mt_val_to_index(r, count, "count"));
}

static val center(rt *r, val v, const args *a) {
  const str *s = mt_val_to_str(r, v), *space = mt_val_cstr(r, " ").u.s;
  int64_t width =
      mt_val_to_index(r, mt_arg_or(a, 0, "width", mt_val_int(80, MT_SPAN_TEMPLATE)), "width");
  int64_t n = (int64_t)mt_str_chars(r, s), pad = width > n ? width - n : 0,
          left = pad / 2 + (pad & width & 1);
  return mt_chat_text_pad(r, s, left, pad - left, space);
}

static val escape(rt *r, val v, const args *a) {
  (void)a;
  return mt_markup_escape(r, v);
}

static val force_escape(rt *r, val v, const args *a) {
  (void)a;
  v.markup = false;
  return mt_markup_escape(r, v);
}

static val safe(rt *r, val v, const args *a) {
  (void)a;
  return mt_markup_mark(r, (val){.kind = V_STR, .u.s = mt_val_to_str(r, v)});
}

static val indent(rt *r, val v, const args *a) {
  const str *s = mt_val_to_str(r, v), *by;
  val width = mt_arg_or(a, 0, "width", mt_val_int(4, MT_SPAN_TEMPLATE));
  bool first = mt_arg_bool(r, a, 1, "first", false), blank = mt_arg_bool(r, a, 2, "blank", false);
  by = width.kind == V_STR
           ? width.u.s
           : mt_chat_text_pad(r, mt_val_cstr(r, "").u.s, mt_val_to_index(r, width, "width"), 0,
                              mt_val_cstr(r, " ").u.s)
                 .u.s;
  sb whole = mt_sb_new(r), b = mt_sb_new(r);
  mt_sb_str(&whole, s);
  mt_sb_puts(
      &whole, "\n",
      mt_str_worst_origin(s)); /* so that a newline at the end makes one more line, as in Jinja */
  const list *lines = mt_chat_text_splitlines(r, mt_sb_val(&whole).u.s, false).u.l;
  if (first) mt_sb_str(&b, by);
  for (size_t i = 0; i < lines->n; i++) {
    const str *line = lines->v[i].u.s;
    if (i) {
      mt_sb_puts(&b, "\n", mt_str_worst_origin(s));
      if (line->len || blank) mt_sb_str(&b, by);
    }
    mt_sb_str(&b, line);
  }
  return mt_sb_val(&b);
}

static val truncate_text(rt *r, val v, const args *a) {
  const str *s = mt_val_to_str(r, v),
            *end = mt_val_to_str(r, mt_arg_or(a, 2, "end", mt_val_cstr(r, "...")));
  int64_t length =
      mt_val_to_index(r, mt_arg_or(a, 0, "length", mt_val_int(255, MT_SPAN_TEMPLATE)), "length");
  val given = mt_arg_or(a, 3, "leeway", mt_val_none());
  int64_t leeway = given.kind == V_NONE ? 5 : mt_val_to_index(r, given, "leeway");
  int64_t tail = (int64_t)mt_str_chars(r, end), over;
  if (length < tail || leeway < 0)
    mt_chat_fail(r, "truncate: the length must hold the end, and leeway not be negative");
  if (!__builtin_add_overflow(length, leeway, &over) && (int64_t)mt_str_chars(r, s) <= over)
    return (val){.kind = V_STR, .u.s = s};
  size_t cut = mt_str_offset(r, s, (size_t)(length - tail));
  if (!mt_arg_bool(r, a, 1, "killwords", false)) {
    size_t space = mt_str_rfind(r, s, mt_val_cstr(r, " ").u.s, cut);
    if (space != SIZE_MAX) cut = space;
  }
  sb b = mt_sb_new(r);
  mt_sb_part(&b, s, 0, cut);
  mt_sb_str(&b, end);
  return mt_sb_val(&b);
}

static val wordcount(rt *r, val v, const args *a) {
  (void)a;
  const str *s = mt_val_to_str(r, v);
  int64_t n = 0;
  bool within = false;
  mt_chat_charge(r, s->len * 4);
  for (size_t i = 0; i < s->len;) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &i);
    bool word =
        cp == '_' || (mt_uni_flags(cp) & (UNI_ALPHA | UNI_DECIMAL | UNI_DIGIT | UNI_NUMERIC));
    n += word && !within;
    within = word;
  }
  return mt_val_int(n, mt_str_worst_origin(s));
}

static void put_url(sb *b, const str *s, bool query) {
  for (size_t i = 0; i < s->len; i++) {
    unsigned char c = (unsigned char)s->p[i];
    char hex[4];
    bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                 (c && strchr("_.-~", c)) || (c == '/' && !query);
    if (plain) {
      mt_sb_part(b, s, i, i + 1);
    } else if (c == ' ' && query) {
      mt_sb_puts(b, "+", mt_str_origin(s, i));
    } else {
      snprintf(hex, sizeof hex, "%%%02X", c);
      mt_sb_puts(b, hex, mt_str_origin(s, i));
    }
  }
}

static val urlencode(rt *r, val v, const args *a) {
  (void)a;
  sb b = mt_sb_new(r);
  if (v.kind != V_DICT && v.kind != V_LIST) {
    put_url(&b, mt_val_to_str(r, v), false);
    return mt_sb_val(&b);
  }
  const list *l = v.kind == V_LIST ? v.u.l : NULL;
  for (size_t i = 0; i < (l ? l->n : v.u.d->n); i++) {
    const list *pair = l ? mt_val_items(r, l->v[i]) : NULL;
    if (pair && pair->n != 2) mt_chat_fail(r, "urlencode needs pairs");
    if (i) mt_sb_puts(&b, "&", v.origin);
    put_url(&b, mt_val_to_str(r, pair ? pair->v[0] : v.u.d->kv[2 * i]), true);
    mt_sb_puts(&b, "=", v.origin);
    put_url(&b, mt_val_to_str(r, pair ? pair->v[1] : v.u.d->kv[2 * i + 1]), true);
  }
  return mt_sb_val(&b);
}

static val format(rt *r, val v, const args *a) {
  const str *f = mt_val_to_str(r, v);
  if (a->n_pos && a->n_kw)
    mt_chat_fail(r, "format takes positional or keyword arguments, not both");
  val whole = {.kind = V_STR, .u.s = f, .markup = v.kind == V_STR && v.markup};
  if (!a->n_kw)
    return mt_chat_arith(r, '%', whole,
                         mt_val_list(r, a->pos, a->n_pos, LIST_TUPLE, MT_SPAN_TEMPLATE));
  val *kv = mt_val_array(r, 2 * a->n_kw);
  for (size_t i = 0; i < a->n_kw; i++) {
    kv[2 * i] = (val){.kind = V_STR, .u.s = a->kw[i].name};
    kv[2 * i + 1] = a->kw[i].v;
  }
  return mt_chat_arith(r, '%', whole, mt_val_dict(r, kv, a->n_kw, MT_SPAN_TEMPLATE));
}

static val tojson(rt *r, val v, const args *a) {
  const val missing = {.kind = V_MISSING};
  return mt_chat_to_json(r, v, mt_arg_or(a, 1, "ensure_ascii", missing),
                         mt_arg_or(a, 0, "indent", missing), mt_arg_or(a, 2, "separators", missing),
                         mt_arg_or(a, 3, "sort_keys", missing));
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A Python numeric literal in the text: white space around and single underscores within are
 * allowed. */
static bool clean_number(const str *s, char *out, size_t cap) {
  size_t from = mt_uni_skip_space(s->p, s->len, 0), to = mt_uni_trim_end(s->p, from, s->len), n = 0;
  for (size_t i = from; i < to; i++) {
    bool inside = i > from && i + 1 < to && s->p[i - 1] != '_' && s->p[i + 1] != '_';
    if (s->p[i] == '_' && inside) continue;
    if (n + 1 >= cap || s->p[i] == '_') return false;
    out[n++] = s->p[i];
  }
  out[n] = 0;
  return n > 0 && strlen(out) == n;
}

static bool parse_int(const str *s, int base, int64_t *out) {
  char text[80], *end;
  if (base < 2 || base > 36 || !clean_number(s, text, sizeof text)) return false;
  char *p = text + (*text == '+' || *text == '-');
  bool negative = *text == '-';
  if (base == 16 && p[0] == '0' && (p[1] | 32) == 'x') p += 2;
  if ((base == 2 || base == 8) && p[0] == '0' && (p[1] | 32) == (base == 2 ? 'b' : 'o')) p += 2;
  if (!strchr("0123456789abcdefghijklmnopqrstuvwxyz", *p | (*p >= 'A' && *p <= 'Z' ? 32 : 0)) ||
      !*p)
    return false;
  unsigned long long v = strtoull(p, &end, base);
  if (*end || v > (unsigned long long)INT64_MAX) return false;
  *out = negative ? -(int64_t)v : (int64_t)v;
  return true;
}

static bool parse_float(const str *s, double *out) {
  char text[400], *end;
  if (!clean_number(s, text, sizeof text) || strpbrk(text, "xXpP(")) return false;
  *out = strtod(text, &end);
  return !*end;
}

static val int_filter(rt *r, val v, const args *a) {
  int64_t i,
      base = mt_val_to_index(r, mt_arg_or(a, 1, "base", mt_val_int(10, MT_SPAN_TEMPLATE)), "base");
  double f;
  if (v.kind == V_INT || v.kind == V_BOOL)
    return mt_val_int(v.kind == V_INT ? v.u.i : v.u.b, v.origin);
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  if (v.kind == V_STR && parse_int(v.u.s, base > 36 ? 0 : (int)base, &i))
    return mt_val_int(i, mt_val_origin(v));
  bool number = v.kind == V_FLOAT || (v.kind == V_STR && parse_float(v.u.s, &f));
  if (v.kind == V_FLOAT) f = v.u.f;
  if (number && f > -0x1p63 && f < 0x1p63) return mt_val_int((int64_t)f, mt_val_origin(v));
  return mt_arg_or(a, 0, "default", mt_val_int(0, MT_SPAN_TEMPLATE));
}

static val float_filter(rt *r, val v, const args *a) {
  double f;
  if (mt_val_is_number(v)) return mt_val_float(mt_val_number(v), v.origin);
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  if (v.kind == V_STR && parse_float(v.u.s, &f)) return mt_val_float(f, mt_val_origin(v));
  return mt_arg_or(a, 0, "default", mt_val_float(0, MT_SPAN_TEMPLATE));
}

static val abs_filter(rt *r, val v, const args *a) {
  (void)a;
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  if (!mt_val_is_number(v)) mt_chat_fail(r, "abs needs a number, not %s", mt_val_type_name(v));
  bool negative = v.kind == V_FLOAT ? v.u.f < 0 : v.kind == V_INT && v.u.i < 0;
  if (v.kind == V_BOOL) return mt_val_int(v.u.b, v.origin);
  return negative ? mt_chat_negate(r, v) : v;
}

/* Rounded to the nearest with the given decimals, ties of the exact value to even, as Python's
 * round. */
static double round_decimal(rt *r, double f, int64_t precision) {
  char text[512];
  if (precision < 0) mt_chat_fail(r, "round: a negative precision is not supported");
  if (precision > 100 || !(fabs(f) < 1e300)) return f;
  snprintf(text, sizeof text, "%.*f", (int)precision, f);
  return strtod(text, NULL);
}

static double whole(double f, bool up) {
  if (!(fabs(f) < 0x1p52)) return f;
  double t = (double)(int64_t)f;
  return up ? (t < f ? t + 1 : t) : (t > f ? t - 1 : t);
}

static val round_filter(rt *r, val v, const args *a) {
  int64_t precision = mt_val_to_index(
      r, mt_arg_or(a, 0, "precision", mt_val_int(0, MT_SPAN_TEMPLATE)), "precision");
  const str *how = mt_arg_str(r, a, 1, "method");
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  if (!mt_val_is_number(v)) mt_chat_fail(r, "round needs a number, not %s", mt_val_type_name(v));
  if (!how || mt_str_is(how, "common")) {
    if (v.kind == V_FLOAT) return mt_val_float(round_decimal(r, v.u.f, precision), v.origin);
    if (precision < 0) mt_chat_fail(r, "round: a negative precision is not supported");
    return mt_val_int(v.kind == V_BOOL ? v.u.b : v.u.i, v.origin);
  }
  if (!mt_str_is(how, "ceil") && !mt_str_is(how, "floor"))
    mt_chat_fail(r, "round: method must be common, ceil or floor");
  if (precision < 0 || precision > 22)
    mt_chat_fail(r, "round: a precision outside 0 to 22 is not supported");
  double scale = 1;
  for (int64_t i = 0; i < precision; i++) scale *= 10;
  return mt_val_float(whole(mt_val_number(v) * scale, mt_str_is(how, "ceil")) / scale, v.origin);
}

#define FILTER(name, params, fn) \
  { {"filter", name, params}, fn, false }
#define KEEPING_FILTER(name, params, fn) \
  { {"filter", name, params}, fn, true }
const filter_def mt_chat_text_filters[] = {
    FILTER("tojson", "indent?,ensure_ascii?,separators?,sort_keys?", tojson),
    KEEPING_FILTER("trim", "chars?", trim),
    KEEPING_FILTER("upper", "", upper),
    KEEPING_FILTER("lower", "", lower),
    FILTER("title", "", title),
    KEEPING_FILTER("capitalize", "", capitalize),
    KEEPING_FILTER("string", "", string),
    FILTER("safe", "", safe),
    FILTER("replace", "old,new,count?", replace),
    KEEPING_FILTER("indent", "width?,first?,blank?", indent),
    KEEPING_FILTER("center", "width?", center),
    KEEPING_FILTER("truncate", "length?,killwords?,end?,leeway?", truncate_text),
    FILTER("wordcount", "", wordcount),
    FILTER("escape", "", escape),
    FILTER("e", "", escape),
    FILTER("forceescape", "", force_escape),
    FILTER("urlencode", "", urlencode),
    FILTER("format", "*", format),
    FILTER("int", "default?,base?", int_filter),
    FILTER("float", "default?", float_filter),
    FILTER("abs", "", abs_filter),
    FILTER("round", "precision?,method?", round_filter),
    {{NULL, NULL, NULL}, NULL, false},
};
