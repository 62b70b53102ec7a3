/* Cuts the source into tokens, with the whitespace rules of trim_blocks and lstrip_blocks (Jinja's
 * documentation, "Whitespace Control"). Text between tags becomes TOK_DATA. */
#include <stdlib.h>
#include <string.h>

#include "ast.h"
#include "unicode.h"

typedef struct lexer {
  mt_chat_template *t;
  const char *s;
  size_t n, pos;
  unsigned line;
  bool line_starting; /* the last tag ended with a newline that it swallowed (or: nothing came
                         before) */
} lexer;

static token *push(lexer *x, int kind, size_t from, size_t to) {
  mt_chat_template *t = x->t;
  if (t->n_tok == t->cap_tok) {
    size_t cap = t->cap_tok ? 2 * t->cap_tok : 256;
    t->tok = mt_arena_grow(&t->mem, t->tok, t->cap_tok * sizeof *t->tok, cap * sizeof *t->tok);
    t->cap_tok = cap;
  }
  token *k = &t->tok[t->n_tok++];
  *k = (token){.kind = kind, .line = x->line, .p = x->s + from, .len = to - from};
  return k;
}

/* Moves on to `to`, counting lines. */
static void advance(lexer *x, size_t to) {
  for (; x->pos < to; x->pos++)
    if (x->s[x->pos] == '\n') x->line++;
}

static noreturn void fail(lexer *x, const char *what) {
  x->t->trap.line = x->line;
  mt_trap_throw(&x->t->trap, MT_EFORMAT, "%s", what);
}

static bool looking_at(const lexer *x, size_t i, const char *lit) {
  size_t n = strlen(lit);
  return i <= x->n && n <= x->n - i && !memcmp(x->s + i, lit, n);
}

/* "{%- raw -%}" and "{%- endraw -%}" from their start: the offset after the word and spaces, or 0.
 */
static size_t match_word(const lexer *x, size_t i, const char *word) {
  if (!looking_at(x, i, "{%")) return 0;
  i += 2;
  if (i < x->n && (x->s[i] == '-' || x->s[i] == '+')) i++;
  i = mt_uni_skip_space(x->s, x->n, i);
  if (!looking_at(x, i, word)) return 0;
  return mt_uni_skip_space(x->s, x->n, i + strlen(word));
}

/* The end of a tag at i ("-" sign, then close): the offset after it and what it swallows; 0 if
 * there is none. */
static size_t match_end(const lexer *x, size_t i, const char *close, bool plus_and_trim) {
  if (x->s[i] == '-' && looking_at(x, i + 1, close)) return mt_uni_skip_space(x->s, x->n, i + 3);
  if (plus_and_trim && x->s[i] == '+' && looking_at(x, i + 1, close)) return i + 3;
  if (!looking_at(x, i, close)) return 0;
  i += 2;
  if (plus_and_trim && i < x->n && x->s[i] == '\n') i++;
  return i;
}

static void end_tag(lexer *x, size_t to) {
  advance(x, to);
  x->line_starting = x->s[to - 1] == '\n';
}

/* Text from x->pos up to the tag at `tag`, stripped as the tag's sign and kind demand. */
static void lex_text(lexer *x, size_t tag, char sign, bool is_variable) {
  size_t from = x->pos, to = tag;
  if (sign == '-') {
    to = mt_uni_trim_end(x->s, from, to);
  } else if (sign != '+' && !is_variable) {
    size_t line_start = to;
    while (line_start > from && x->s[line_start - 1] != '\n') line_start--;
    if ((line_start > from || x->line_starting) && mt_uni_skip_space(x->s, tag, line_start) == tag)
      to = line_start;
  }
  if (to > from) push(x, TOK_DATA, from, to);
  advance(x, tag);
}

static void lex_comment(lexer *x, size_t from) {
  for (size_t i = from; i < x->n; i++) {
    size_t end = match_end(x, i, "#}", true);
    if (!end) continue;
    end_tag(x, end);
    return;
  }
  fail(x, "a comment {# has no end");
}

static void lex_raw(lexer *x, size_t from) {
  advance(x, from);
  x->line_starting = x->s[from - 1] == '\n';
  for (size_t i = from; i < x->n; i++) {
    size_t word = x->s[i] == '{' ? match_word(x, i, "endraw") : 0;
    size_t end = word && word < x->n ? match_end(x, word, "%}", true) : 0;
    if (!end) continue;
    char sign = x->s[i + 2];
    lex_text(x, i, sign, false);
    end_tag(x, end);
    return;
  }
  fail(x, "a {% raw %} block has no end");
}

/* ---- inside a tag -------------------------------------------------------------------------- */

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
static bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Digits with single underscores between them, from i: the offset after them (i if none). */
static size_t skip_digits(const lexer *x, size_t i) {
  while (i < x->n && (is_digit(x->s[i]) || (x->s[i] == '_' && i + 1 < x->n &&
                                            is_digit(x->s[i + 1]) && is_digit(x->s[i - 1]))))
    i++;
  return i;
}

static size_t copy_number(const lexer *x, size_t from, size_t to, char *out, size_t cap) {
  size_t n = 0;
  for (size_t i = from; i < to && n + 1 < cap; i++)
    if (x->s[i] != '_') out[n++] = x->s[i];
  out[n] = 0;
  return n;
}

static void lex_radix(lexer *x, int radix) {
  size_t i = x->pos + 2, end = i;
  while (end < x->n && is_name_char(x->s[end])) end++;
  int64_t v = 0;
  bool any = false;
  for (; i < end; i++) {
    char c = x->s[i];
    if (c == '_') continue;
    int d = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
    if (d >= radix) fail(x, "a number has a wrong digit");
    if (__builtin_mul_overflow(v, radix, &v) || __builtin_add_overflow(v, d, &v))
      fail(x, "a number is too large");
    any = true;
  }
  if (!any) fail(x, "a number has no digits");
  push(x, TOK_INT, x->pos, end)->num.i = v;
  advance(x, end);
}

static void lex_number(lexer *x) {
  const char *s = x->s;
  size_t from = x->pos;
  if (s[from] == '0' && from + 1 < x->n) {
    int c = s[from + 1] | 32;
    if (c == 'x' || c == 'o' || c == 'b') {
      lex_radix(x, c == 'x' ? 16 : c == 'o' ? 8 : 2);
      return;
    }
  }
  size_t end = skip_digits(x, from), whole = end;
  bool after_dot = from > 0 && s[from - 1] == '.';
  if (!after_dot && end + 1 < x->n && s[end] == '.' && is_digit(s[end + 1]))
    end = skip_digits(x, end + 1);
  if (!after_dot && end < x->n && (s[end] | 32) == 'e') {
    size_t exp = end + 1;
    if (exp < x->n && (s[exp] == '+' || s[exp] == '-')) exp++;
    if (exp < x->n && is_digit(s[exp])) end = skip_digits(x, exp);
  }
  char digits[512];
  if (end - from >= sizeof digits) fail(x, "a number is too long");
  copy_number(x, from, end, digits, sizeof digits);
  if (end > whole) {
    push(x, TOK_FLOAT, from, end)->num.f = strtod(digits, NULL);
  } else {
    if (digits[0] == '0' && strspn(digits, "0") != strlen(digits))
      fail(x, "a decimal number starts with 0");
    int64_t v = 0;
    for (const char *d = digits; *d; d++)
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *d - '0', &v))
        fail(x, "a number is too large");
    push(x, TOK_INT, from, end)->num.i = v;
  }
  advance(x, end);
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \x41, \u0041, \U00000041 with `digits` digits from i. */
static size_t unescape_hex(lexer *x, size_t i, size_t end, int digits, char *out, size_t *n) {
  uint32_t cp = 0;
  for (int k = 0; k < digits; k++, i++) {
    int d = i < end ? hex_digit(x->s[i]) : -1;
    if (d < 0) fail(x, "a string has a broken \\x, \\u or \\U escape");
    cp = cp << 4 | (uint32_t)d;
  }
  int len = mt_utf8_encode(cp, out + *n);
  if (!len) fail(x, "a string has an escape for a surrogate or beyond U+10FFFF");
  *n += (size_t)len;
  return i;
}

static size_t unescape_octal(const lexer *x, size_t i, size_t end, char *out, size_t *n) {
  uint32_t cp = 0;
  for (int k = 0; k < 3 && i < end && x->s[i] >= '0' && x->s[i] <= '7'; k++, i++)
    cp = cp * 8 + (uint32_t)(x->s[i] - '0');
  *n += (size_t)mt_utf8_encode(cp, out + *n);
  return i;
}

/* Resolves the escapes of Python's string literals in source bytes [i, end) into out (at least as
 * large). */
static size_t unescape(lexer *x, size_t i, size_t end, char *out) {
  static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
  size_t n = 0;
  while (i < end) {
    char c = x->s[i++];
    if (c != '\\' || i >= end) {
      out[n++] = c;
      continue;
    }
    c = x->s[i];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
      out[n++] = to[simple - from];
      i++;
    } else if (c == '\n') {
      i++;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      i = unescape_hex(x, i + 1, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, out, &n);
    } else if (c >= '0' && c <= '7') {
      i = unescape_octal(x, i, end, out, &n);
    } else if (c == 'N') {
      x->t->trap.line = x->line;
      mt_trap_throw(&x->t->trap, MT_EUNSUPPORTED,
                    "the escape \\N{...} in a string is not supported");
    } else {
      out[n++] = '\\';
    }
  }
  return n;
}

static void lex_string(lexer *x) {
  char quote = x->s[x->pos];
  size_t from = x->pos + 1, i = from;
  bool escapes = false;
  for (; i < x->n && x->s[i] != quote; i++)
    if (x->s[i] == '\\') {
      escapes = true;
      i++;
    }
  if (i >= x->n) fail(x, "a string has no end");
  token *k = push(x, TOK_STRING, from, i);
  if (escapes) {
    char *out = mt_arena_alloc(&x->t->mem, i - from + 4, 1);
    k->len = unescape(x, from, i, out);
    k->p = out;
  }
  advance(x, i + 1);
}

static bool lex_operator(lexer *x, char *open, size_t *depth) {
  static const struct {
    const char text[3];
    int kind;
  } two[] = {{"==", TOK_EQ}, {"!=", TOK_NE},       {"<=", TOK_LE},
             {">=", TOK_GE}, {"//", TOK_FLOORDIV}, {"**", TOK_POW}};
  size_t i = x->pos;
  for (size_t k = 0; k < sizeof two / sizeof two[0]; k++)
    if (looking_at(x, i, two[k].text)) {
      push(x, two[k].kind, i, i + 2);
      x->pos += 2;
      return true;
    }
  char c = x->s[i];
  if (!c || !strchr("+-/*%~[](){}><=.:|,;", c)) return false;
  if (strchr("([{", c)) {
    if (*depth >= MAX_NESTING)
      mt_trap_throw(&x->t->trap, MT_ELIMIT, "brackets nest deeper than %d levels", MAX_NESTING);
    open[(*depth)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
  }
  if (strchr(")]}", c) && (!*depth || open[--*depth] != c))
    fail(x, "a closing bracket does not match");
  push(x, c, i, i + 1);
  x->pos++;
  return true;
}

/* Tokens of {{ … }} or {% … %} up to and with its end; an end inside brackets does not count. */
static void lex_tag(lexer *x, bool is_variable) {
  char open[MAX_NESTING];
  size_t depth = 0;
  const char *close = is_variable ? "}}" : "%}";
  while (x->pos < x->n) {
    size_t end = depth ? 0 : match_end(x, x->pos, close, !is_variable);
    if (end) {
      push(x, is_variable ? TOK_VAR_END : TOK_BLOCK_END, x->pos, x->pos);
      end_tag(x, end);
      return;
    }
    char c = x->s[x->pos];
    size_t after = mt_uni_skip_space(x->s, x->n, x->pos);
    x->t->trap.line = x->line;
    if (after > x->pos) {
      advance(x, after);
    } else if (is_digit(c)) {
      lex_number(x);
    } else if (is_name_char(c)) {
      size_t i = x->pos;
      while (i < x->n && is_name_char(x->s[i])) i++;
      push(x, TOK_NAME, x->pos, i);
      advance(x, i);
    } else if (c == '"' || c == '\'') {
      lex_string(x);
    } else if (!lex_operator(x, open, &depth)) {
      fail(x, "an unexpected character in a tag");
    }
  }
  fail(x, is_variable ? "{{ has no end" : "{% has no end");
}

/* The first tag from i on: offset of its "{", or n. */
static size_t find_tag(const lexer *x, size_t i) {
  for (; i + 1 < x->n; i++) {
    const char *q = memchr(x->s + i, '{', x->n - 1 - i);
    if (!q) break;
    i = (size_t)(q - x->s);
    if (q[1] == '{' || q[1] == '%' || q[1] == '#') return i;
  }
  return x->n;
}

void mt_chat_lex(mt_chat_template *t) {
  lexer x = {.t = t, .s = t->source, .n = t->source_len, .line = 1, .line_starting = true};
  while (x.pos < x.n) {
    size_t tag = find_tag(&x, x.pos);
    if (tag == x.n) {
      push(&x, TOK_DATA, x.pos, x.n);
      advance(&x, x.n);
      break;
    }
    size_t after = tag + 2;
    char kind = x.s[tag + 1], sign = 0;
    if (after < x.n && (x.s[after] == '-' || x.s[after] == '+')) sign = x.s[after++];
    lex_text(&x, tag, sign, kind == '{');
    size_t raw = kind == '%' ? match_word(&x, tag, "raw") : 0;
    size_t raw_end = raw && raw < x.n ? match_end(&x, raw, "%}", false) : 0;
    if (raw_end) {
      lex_raw(&x, raw_end);
    } else if (kind == '#') {
      lex_comment(&x, after);
    } else {
      push(&x, kind == '{' ? TOK_VAR_BEGIN : TOK_BLOCK_BEGIN, tag, after);
      advance(&x, after);
      lex_tag(&x, kind == '{');
    }
  }
  push(&x, TOK_EOF, x.n, x.n);
}
