/* Python's two ways to format: "%s" % value, and "{}".format(value), as far as templates use them.
 */
#include <stdio.h>
#include <string.h>

#include "runtime.h"

enum { MAX_WIDTH = 4096, MAX_PRECISION = 100 };

typedef struct spec {
  char fill[MT_UTF8_MAX];
  size_t fill_len;
  char align; /* < > ^ =, or 0 */
  char sign;  /* + - space */
  bool alternate, comma;
  int64_t width, precision; /* -1: not given */
  char type;
} spec;

static int64_t read_number(rt *r, const str *f, size_t *i, int64_t max) {
  int64_t n = 0;
  while (*i < f->len && f->p[*i] >= '0' && f->p[*i] <= '9') {
    n = n * 10 + (f->p[(*i)++] - '0');
    if (n > max)
      mt_chat_fail(r, "a format asks for a width or precision beyond %lld", (long long)max);
  }
  return n;
}

/* Appends text (its sign and radix prefix, if any, being its first `head` bytes) aligned in the
 * width. */
static void put_aligned(sb *b, const spec *s, const str *text, size_t head, char default_align,
                        int origin) {
  int64_t n = (int64_t)mt_str_chars(b->r, text), pad = s->width > n ? s->width - n : 0;
  char align = s->align ? s->align : default_align;
  int64_t left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
  if (align == '=') mt_sb_part(b, text, 0, head);
  for (int64_t i = 0; i < left; i++) mt_sb_add(b, s->fill, s->fill_len, origin);
  mt_sb_part(b, text, align == '=' ? head : 0, text->len);
  for (int64_t i = left; i < pad; i++) mt_sb_add(b, s->fill, s->fill_len, origin);
}

static size_t digits_of(uint64_t v, unsigned radix, bool upper, char out[70]) {
  char reversed[70];
  size_t n = 0;
  do reversed[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % radix];
  while (v /= radix);
  for (size_t i = 0; i < n; i++) out[i] = reversed[n - 1 - i];
  return n;
}

static size_t put_sign(char *out, const spec *s, bool negative) {
  if (negative) return (size_t)(*out = '-', 1);
  if (s->sign == '+' || s->sign == ' ') return (size_t)(*out = s->sign, 1);
  return 0;
}

static void put_int(sb *b, const spec *s, int64_t v, int origin, bool precision_pads) {
  char digits[70], text[256];
  unsigned radix = s->type == 'x' || s->type == 'X' ? 16
                   : s->type == 'o'                 ? 8
                   : s->type == 'b'                 ? 2
                                                    : 10;
  uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  size_t n_digits = digits_of(size, radix, s->type == 'X', digits), n = put_sign(text, s, v < 0);
  if (s->alternate && radix != 10) {
    text[n++] = '0';
    text[n++] = s->type;
  }
  size_t head = n;
  for (int64_t pad = precision_pads ? s->precision - (int64_t)n_digits : 0; pad > 0; pad--)
    text[n++] = '0';
  for (size_t i = 0; i < n_digits; i++) {
    if (s->comma && i && (n_digits - i) % 3 == 0) text[n++] = ',';
    text[n++] = digits[i];
  }
  put_aligned(b, s, mt_val_str(b->r, text, n, origin).u.s, head, '>', origin);
}

/* Inserts thousands separators into the digits before the point. */
static size_t with_commas(const char *from, size_t n, char *to) {
  size_t whole = 0, o = 0;
  while (whole < n && from[whole] >= '0' && from[whole] <= '9') whole++;
  for (size_t i = 0; i < n; i++) {
    if (i && i < whole && (whole - i) % 3 == 0) to[o++] = ',';
    to[o++] = from[i];
  }
  return o;
}

static void put_float(sb *b, const spec *s, double v, int origin) {
  char number[512], text[1024], fmt[8];
  bool percent = s->type == '%', negative = v < 0 || (v == 0 && 1 / v < 0);
  int precision = s->precision < 0 ? 6 : (int)s->precision;
  double size = negative ? -v : v;
  size_t n = put_sign(text, s, negative), head = n, len;
  if (!s->type && s->precision < 0) {
    len = mt_chat_format_float_repr(size, number);
  } else {
    char type = percent ? 'f' : s->type ? s->type : 'g';
    snprintf(fmt, sizeof fmt, s->alternate ? "%%#.*%c" : "%%.*%c", type);
    len = (size_t)snprintf(number, sizeof number, fmt, precision, percent ? size * 100 : size);
  }
  if (len >= sizeof number) mt_chat_fail(b->r, "a formatted number is too long");
  if (s->comma) {
    n += with_commas(number, len, text + n);
  } else {
    memcpy(text + n, number, len);
    n += len;
  }
  if (percent) text[n++] = '%';
  put_aligned(b, s, mt_val_str(b->r, text, n, origin).u.s, head, '>', origin);
}

/* ---- "%s" % value -------------------------------------------------------------------------- */

static void put_percent_text(sb *b, const spec *s, val v) {
  rt *r = b->r;
  sb text = mt_sb_new(r);
  if (s->type == 's')
    mt_chat_put_str(&text, v);
  else
    mt_chat_put_repr(&text, v);
  const str *t = mt_sb_val(&text).u.s;
  if (s->precision >= 0) t = mt_str_slice(r, t, 0, mt_str_offset(r, t, (size_t)s->precision));
  put_aligned(b, s, t, 0, '>', MT_SPAN_TEMPLATE);
}

static int64_t whole_number(rt *r, val v) {
  if (v.kind != V_FLOAT) return mt_val_to_index(r, v, "%d");
  if (!(v.u.f > -0x1p63 && v.u.f < 0x1p63)) mt_chat_fail(r, "a number exceeds 64 bits");
  return (int64_t)v.u.f;
}

static void put_percent(sb *b, const spec *s, val v) {
  rt *r = b->r;
  if (s->type == 's' || s->type == 'r' || s->type == 'a') {
    put_percent_text(b, s, v);
  } else if (strchr("diuxXo", s->type)) {
    put_int(b, s, whole_number(r, v), mt_val_origin(v), true);
  } else if (strchr("eEfFgG", s->type)) {
    if (!mt_val_is_number(v))
      mt_chat_fail(r, "%%%c needs a number, not %s", s->type, mt_val_type_name(v));
    put_float(b, s, mt_val_number(v), mt_val_origin(v));
  } else if (s->type == 'c' && v.kind == V_STR && mt_str_chars(r, v.u.s) == 1) {
    put_aligned(b, s, v.u.s, 0, '>', MT_SPAN_TEMPLATE);
  } else {
    mt_chat_fail(r, "the format %%%c is not supported here", s->type);
  }
}

/* Flags, width, precision and type after the % (and key) at *i. */
static spec percent_spec(rt *r, const str *f, size_t *i) {
  spec s = {.fill = " ", .fill_len = 1, .precision = -1, .width = -1};
  bool zero = false;
  for (; *i < f->len && f->p[*i] && strchr("-+ #0", f->p[*i]); (*i)++) {
    char c = f->p[*i];
    if (c == '-')
      s.align = '<';
    else if (c == '0')
      zero = true;
    else if (c == '#')
      s.alternate = true;
    else if (c == '+' || !s.sign)
      s.sign = c;
  }
  s.width = read_number(r, f, i, MAX_WIDTH);
  if (*i < f->len && f->p[*i] == '.') {
    ++*i;
    s.precision = read_number(r, f, i, MAX_PRECISION);
  }
  while (*i < f->len && f->p[*i] && strchr("hlL", f->p[*i])) ++*i;
  if (*i >= f->len || (unsigned char)f->p[*i] < ' ' || (unsigned char)f->p[*i] > '~')
    mt_chat_fail(r, "incomplete format");
  s.type = f->p[(*i)++];
  if (zero && !s.align && strchr("diuxXoeEfFgG", s.type)) {
    s.align = '=';
    s.fill[0] = '0';
  }
  return s;
}

val mt_chat_format_percent(rt *r, const str *f, val arg) {
  val one[1] = {arg};
  list single = {.form = LIST_TUPLE, .n = 1, .v = one};
  const list *l = arg.kind == V_LIST && arg.u.l->form == LIST_TUPLE ? arg.u.l : &single;
  size_t used = 0;
  bool by_key = false;
  sb b = mt_sb_new(r);
  for (size_t i = 0; i < f->len;) {
    const char *q = memchr(f->p + i, '%', f->len - i);
    size_t at = q ? (size_t)(q - f->p) : f->len;
    mt_sb_part(&b, f, i, at);
    if (!q) break;
    i = at + 1;
    val v = (val){.kind = V_MISSING};
    if (i < f->len && f->p[i] == '(') {
      const char *close = memchr(f->p + i, ')', f->len - i);
      if (!close || arg.kind != V_DICT) mt_chat_fail(r, "a format with (key) needs a dict");
      v = mt_chat_get_item(r, arg, mt_val_slice(r, f, i + 1, (size_t)(close - f->p)));
      i = (size_t)(close - f->p) + 1;
      by_key = true;
    }
    spec s = percent_spec(r, f, &i);
    if (s.type == '%') {
      mt_sb_puts(&b, "%", mt_str_origin(f, at));
      continue;
    }
    if (v.kind == V_MISSING) {
      if (used >= l->n) mt_chat_fail(r, "not enough arguments for format string");
      v = l->v[used++];
    }
    put_percent(&b, &s, v);
  }
  if (!by_key && used < l->n && arg.kind != V_DICT)
    mt_chat_fail(r, "not all arguments converted during string formatting");
  return mt_sb_val(&b);
}

/* ---- "{}".format(value) -------------------------------------------------------------------- */

/* [[fill]align][sign][#][0][width][,][.precision][type] in bytes [i, end) */
static spec brace_spec(rt *r, const str *f, size_t i, size_t end) {
  spec s = {.fill = " ", .fill_len = 1, .precision = -1, .width = -1};
  const str part = {.p = f->p, .len = end};
  size_t next = i;
  if (i < end) mt_uni_at(f->p, end, i, &next);
  if (next < end && strchr("<>^=", f->p[next]) && f->p[next]) {
    memcpy(s.fill, f->p + i, next - i);
    s.fill_len = next - i;
    s.align = f->p[next];
    i = next + 1;
  } else if (i < end && f->p[i] && strchr("<>^=", f->p[i])) {
    s.align = f->p[i++];
  }
  if (i < end && f->p[i] && strchr("+- ", f->p[i])) s.sign = f->p[i++];
  if (i < end && f->p[i] == '#') s.alternate = f->p[i++];
  if (i < end && f->p[i] == '0') {
    i++;
    if (!s.align) {
      s.align = '=';
      s.fill[0] = '0';
    }
  }
  s.width = read_number(r, &part, &i, MAX_WIDTH);
  if (i < end && f->p[i] == ',') s.comma = f->p[i++];
  if (i < end && f->p[i] == '.') {
    i++;
    s.precision = read_number(r, &part, &i, MAX_PRECISION);
  }
  if (i < end) s.type = f->p[i++];
  if (i < end || (s.type && !strchr("sdxXobeEfFgG%", s.type)))
    mt_chat_fail(r, "a format specification is not supported");
  return s;
}

static void put_brace(sb *b, const spec *s, val v, char conversion, int origin) {
  rt *r = b->r;
  bool is_int = v.kind == V_INT || (v.kind == V_BOOL && s->type);
  if (!conversion && (is_int || v.kind == V_FLOAT) && s->type != 's') {
    if (is_int && (!s->type || strchr("dxXob", s->type))) {
      put_int(b, s, mt_val_to_index(r, v, "a number"), mt_val_origin(v), false);
      return;
    }
    if (s->type && strchr("dxXob", s->type))
      mt_chat_fail(r, "the format '%c' needs an integer", s->type);
    put_float(b, s, mt_val_number(v), mt_val_origin(v));
    return;
  }
  if (s->type && s->type != 's')
    mt_chat_fail(r, "the format '%c' does not fit %s", s->type, mt_val_type_name(v));
  sb text = mt_sb_new(r);
  if (conversion == 'r')
    mt_chat_put_repr(&text, v);
  else
    mt_chat_put_str(&text, v);
  const str *t = mt_sb_val(&text).u.s;
  if (s->precision >= 0) t = mt_str_slice(r, t, 0, mt_str_offset(r, t, (size_t)s->precision));
  put_aligned(b, s, t, 0, '<', origin);
}

/* The value that a field names: "", "0", "name", then .attribute and [item] steps. */
static val field_value(rt *r, const str *f, size_t i, size_t end, const args *a,
                       size_t *automatic) {
  size_t from = i;
  while (i < end && f->p[i] != '.' && f->p[i] != '[') i++;
  const str part = {.p = f->p, .len = i};
  val v = {.kind = V_MISSING};
  size_t digits = from;
  int64_t index = i > from ? read_number(r, &part, &digits, 1000000) : (int64_t)(*automatic)++;
  if (digits == i) {
    if ((size_t)index < a->n_pos) v = a->pos[index];
  } else {
    for (size_t k = 0; k < a->n_kw; k++)
      if (a->kw[k].name->len == i - from && !memcmp(a->kw[k].name->p, f->p + from, i - from))
        v = a->kw[k].v;
  }
  if (v.kind == V_MISSING)
    mt_chat_fail(r, "format: the field '%.*s' is not given", (int)(i - from < 100 ? i - from : 100),
                 f->p + from);
  while (i < end) {
    bool is_item = f->p[i++] == '[';
    size_t start = i;
    while (i < end && f->p[i] != ']' && (is_item || (f->p[i] != '.' && f->p[i] != '['))) i++;
    if (i == start || (is_item && i >= end)) mt_chat_fail(r, "format: a field is malformed");
    v = mt_chat_get_path(r, v, mt_val_slice(r, f, start, i), (val){.kind = V_MISSING});
    i += is_item;
  }
  return v;
}

static size_t put_field(sb *b, const str *f, size_t i, const args *a, size_t *automatic) {
  rt *r = b->r;
  size_t end = i, name_end;
  while (end < f->len && f->p[end] != '}' && f->p[end] != '{') end++;
  if (end >= f->len || f->p[end] == '{')
    mt_chat_fail(r, "format: a field is not closed, or holds another field");
  int origin = mt_str_origin(f, i - 1);
  for (name_end = i; name_end < end && f->p[name_end] != ':' && f->p[name_end] != '!';) name_end++;
  val v = field_value(r, f, i, name_end, a, automatic);
  char conversion = 0;
  i = name_end;
  if (i < end && f->p[i] == '!') {
    conversion = i + 1 < end ? f->p[i + 1] : 0;
    if (conversion != 'r' && conversion != 's')
      mt_chat_fail(r, "format: only !r and !s are supported");
    i += 2;
  }
  if (i < end && f->p[i] != ':') mt_chat_fail(r, "format: a field is malformed");
  spec s = brace_spec(r, f, i < end ? i + 1 : end, end);
  put_brace(b, &s, v, conversion, origin);
  return end + 1;
}

val mt_chat_format_braces(rt *r, const str *f, const args *a) {
  sb b = mt_sb_new(r);
  size_t automatic = 0;
  for (size_t i = 0; i < f->len;) {
    size_t plain = i;
    while (i < f->len && f->p[i] != '{' && f->p[i] != '}') i++;
    mt_sb_part(&b, f, plain, i);
    if (i >= f->len) break;
    if (i + 1 < f->len && f->p[i + 1] == f->p[i]) {
      mt_sb_part(&b, f, i, i + 1);
      i += 2;
    } else if (f->p[i] == '}') {
      mt_chat_fail(r, "format: a single '}'");
    } else {
      i = put_field(&b, f, i + 1, a, &automatic);
    }
  }
  return mt_sb_val(&b);
}
