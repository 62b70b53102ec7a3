/* Patterns over PCRE2. Files are written for Oniguruma (Ruby syntax); the few constructs that mean
 * something else in PCRE2 are rewritten or refused. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A pattern from a file may backtrack without end: beyond this many steps within one match it is an
 * error. */
enum { MATCH_LIMIT = 100000000, JIT_STACK_BYTES = 1 << 20, JIT_STACK_START = 32 << 10 };

struct mt_regex {
  pcre2_code *code;
  mt_buf pattern; /* as in the file, for messages */
  bool jit;
};
struct mt_regex_scratch {
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
};

static int refuse(mt_err *e, const char *pattern, const char *what) {
  return mt_err_set(e, MT_EUNSUPPORTED, "pattern %.200s: %s", pattern, what);
}

/* What an escape becomes where PCRE2 reads it otherwise; NULL: as it stands. */
static const char *rewrite_escape(char c, bool in_class) {
  if (c == 'w') return in_class ? "\\p{L}\\p{M}\\p{N}\\p{Pc}" : "[\\p{L}\\p{M}\\p{N}\\p{Pc}]";
  if (c == 'W' && !in_class) return "[^\\p{L}\\p{M}\\p{N}\\p{Pc}]";
  if (c == 'h') return in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
  if (c == 'H' && !in_class) return "[^0-9a-fA-F]";
  return NULL;
}

static int translate(const char *p, size_t n, mt_buf *out, mt_err *e) {
  bool in_class = false;
  size_t class_start = 0;
  for (size_t i = 0; i < n; i++) {
    const char *instead = NULL;
    if (p[i] == '\\' && i + 1 < n) {
      instead = rewrite_escape(p[i + 1], in_class);
      if (in_class && (p[i + 1] == 'W' || p[i + 1] == 'H'))
        return refuse(e, p, "\\W or \\H inside a class is not supported");
      if (!strchr("wWhHsSdDpPrntfveaxbBAzZGuk0123456789", p[i + 1]) &&
          ((p[i + 1] | 32) >= 'a' && (p[i + 1] | 32) <= 'z'))
        return refuse(e, p, "an escape that is not supported");
      size_t len = 2; /* \p{…} and \x{…} are one thing, their brace is no repetition */
      const char *brace = i + 2 < n && p[i + 2] == '{' && strchr("pPx", p[i + 1])
                              ? memchr(p + i, '}', n - i)
                              : NULL;
      if (brace) len = (size_t)(brace - (p + i)) + 1;
      if (instead ? mt_buf_puts(out, instead) : mt_buf_append(out, p + i, len)) return MT_ENOMEM;
      i += len - 1;
      continue;
    }
    if (in_class) {
      if (p[i] == '[') return refuse(e, p, "a class inside a class is not supported");
      if (p[i] == '&' && i + 1 < n && p[i + 1] == '&')
        return refuse(e, p, "&& inside a class is not supported");
      if (p[i] == ']' && i > class_start) in_class = false;
    } else if (p[i] == '[') {
      in_class = true;
      class_start = i + 1 + (i + 1 < n && p[i + 1] == '^');
    } else if (p[i] == '}' && i + 1 < n && p[i + 1] == '+') {
      return refuse(e, p, "+ after {n,m} is not supported: Oniguruma and others disagree about it");
    } else if (p[i] == '(' && i + 2 < n && p[i + 1] == '?' && p[i + 2] == 'm') {
      return refuse(e, p, "(?m is not supported: Oniguruma and others disagree about it");
    }
    if (mt_buf_putc(out, p[i])) return MT_ENOMEM;
  }
  return MT_OK;
}

int mt_regex_new(mt_regex **out, const char *pattern, size_t len, mt_err *e) {
  *out = NULL;
  mt_buf text = {0};
  pcre2_compile_context *context = NULL;
  mt_regex *r = mt_calloc(1, sizeof *r);
  int rc = r && !mt_buf_append(&r->pattern, pattern, len) ? MT_OK : MT_ENOMEM;
  if (!rc) rc = translate(r->pattern.data, len, &text, e);
  if (rc) goto out;
  context = pcre2_compile_context_create(NULL);
  if (!context) {
    rc = MT_ENOMEM;
    goto out;
  }
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int code;
  size_t at;
  r->code = pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.len,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                          &at, context);
  if (!r->code) {
    char why[200];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    rc = mt_err_set(e, MT_EUNSUPPORTED, "pattern %.200s: %s, at %zu", r->pattern.data, why, at);
    goto out;
  }
  r->jit = !pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
  *out = r;
  r = NULL;
out:
  if (rc == MT_ENOMEM) mt_err_set(e, rc, "no memory for a pattern");
  pcre2_compile_context_free(context);
  mt_buf_free(&text);
  mt_regex_free(r);
  return rc;
}

void mt_regex_free(mt_regex *r) {
  if (!r) return;
  pcre2_code_free(r->code);
  mt_buf_free(&r->pattern);
  free(r);
}

mt_regex_scratch *mt_regex_scratch_new(void) {
  mt_regex_scratch *s = mt_calloc(1, sizeof *s);
  if (!s) return NULL;
  s->data = pcre2_match_data_create(1, NULL);
  s->context = pcre2_match_context_create(NULL);
  s->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_BYTES, NULL);
  if (!s->data || !s->context) {
    mt_regex_scratch_free(s);
    return NULL;
  }
  pcre2_set_match_limit(s->context, MATCH_LIMIT);
  if (s->stack) pcre2_jit_stack_assign(s->context, NULL, s->stack);
  return s;
}

void mt_regex_scratch_free(mt_regex_scratch *s) {
  if (!s) return;
  pcre2_match_data_free(s->data);
  pcre2_match_context_free(s->context);
  pcre2_jit_stack_free(s->stack);
  free(s);
}

static int search(const mt_regex *r, mt_regex_scratch *scratch, const char *s, size_t n,
                  size_t from, mt_err *e) {
  int got = PCRE2_ERROR_JIT_STACKLIMIT;
  if (r->jit)
    got = pcre2_jit_match(r->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, scratch->data,
                          scratch->context);
  if (got == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter keeps its stack on the heap */
    got = pcre2_match(r->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                      scratch->data, scratch->context);
  if (got == PCRE2_ERROR_NOMATCH) return 0;
  if (got >= 0) return 1;
  char why[200];
  pcre2_get_error_message(got, (PCRE2_UCHAR *)why, sizeof why);
  return mt_err_set(e, got == PCRE2_ERROR_NOMEMORY ? MT_ENOMEM : MT_ELIMIT, "pattern %.200s: %s",
                    r->pattern.data, why);
}

int mt_regex_next(const mt_regex *r, mt_regex_scratch *scratch, const char *s, size_t n,
                  mt_matches *it, size_t *b, size_t *end, mt_err *e) {
  while (it->from <= n) {
    int got = search(r, scratch, s, n, it->from, e);
    if (got <= 0) return got;
    const size_t *v = pcre2_get_ovector_pointer(scratch->data);
    *b = v[0];
    *end = v[1];
    /* \K in a lookaround may turn the borders round or set the start back */
    if (*b < it->from || *end < *b)
      return mt_err_set(e, MT_EUNSUPPORTED, "pattern %.200s: \\K", r->pattern.data);
    if (*b < *end || *end != it->last_end) {
      it->from = it->last_end = *end;
      return 1;
    }
    uint32_t cp;
    int len = it->from < n ? mt_utf8_decode(s + it->from, n - it->from, &cp) : 1;
    it->from += (size_t)(len > 0 ? len : 1);
  }
  return 0;
}
