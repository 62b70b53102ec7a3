/* Hand-written scanners for the patterns that most byte-level tokenizers use. Each gives, for every
 * text, the very pieces that the regular expression gives (the tests compare them); it is chosen
 * only where the file's pattern is that expression, letter by letter. */
#include <string.h>

#include "internal.h"

enum { OTHER_IS_NOT = MT_UC_SPACE | MT_UC_LETTER | MT_UC_NUMBER };

static inline unsigned class_step(const char *s, size_t *i) {
  return mt_unicode_class(mt_unicode_step(s, i));
}

static inline bool is_newline(char c) {
  return c == '\r' || c == '\n';
}

/* End of the longest run from i of characters that have one of the classes. */
static inline size_t run_of(const char *s, size_t n, size_t i, unsigned classes) {
  for (size_t next = i; i < n && (class_step(s, &next) & classes); i = next) {
  }
  return i;
}

/* [^\s\p{L}\p{N}]* */
static inline size_t run_of_other(const char *s, size_t n, size_t i) {
  for (size_t next = i; i < n && !(class_step(s, &next) & OTHER_IS_NOT); i = next) {
  }
  return i;
}

/* \s+(?!\S)|\s+ where a run of white space begins: all of it at the end of the text; else all but
 * its last character, which goes with what follows, unless it is the only one. */
static size_t spaces(const char *s, size_t n) {
  size_t end = run_of(s, n, 0, MT_UC_SPACE), last = end;
  if (end == n) return end;
  do last--;
  while (last && ((unsigned char)s[last] & 0xC0) == 0x80);
  return last ? last : end;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+: with a line break in the run, up to the last one. */
static size_t spaces_by_line(const char *s, size_t n) {
  size_t end = run_of(s, n, 0, MT_UC_SPACE);
  for (size_t i = end; i-- > 0;)
    if (is_newline(s[i])) return i + 1;
  return spaces(s, n);
}

/* The English endings 's 't 're 've 'm 'll 'd at i, or 0; without regard to case also 'ſ. */
static size_t ending(const char *s, size_t n, size_t i, bool any_case) {
  if (n - i < 2 || s[i] != '\'') return 0;
  int fold = any_case ? 32 : 0;
  int a = s[i + 1] | fold, b = n - i > 2 ? s[i + 2] | fold : 0;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return any_case && n - i > 2 && !memcmp(s + i + 1, "\xC5\xBF", 2) ? 3 : 0;
}

static size_t scan_gpt2(const char *s, size_t n) {
  size_t end = ending(s, n, 0, false);
  if (end) return end;
  size_t start = s[0] == ' ', next = start;
  if (start == n) return n;
  unsigned c = class_step(s, &next);
  if (c & MT_UC_LETTER) return run_of(s, n, next, MT_UC_LETTER);
  if (c & MT_UC_NUMBER) return run_of(s, n, next, MT_UC_NUMBER);
  if (!(c & MT_UC_SPACE)) return run_of_other(s, n, next);
  return spaces(s, n);
}

static size_t up_to_three_numbers(const char *s, size_t n, size_t at_most) {
  size_t i = 0;
  for (size_t next = 0; at_most && i < n && (class_step(s, &next) & MT_UC_NUMBER); at_most--)
    i = next;
  return i;
}

/* From " ?[^\s\p{L}\p{N}]+[\r\n]*" on (slash: [\r\n/]*), where no letters or numbers begin. */
static size_t symbols_or_spaces(const char *s, size_t n, bool slash) {
  size_t start = s[0] == ' ', end = run_of_other(s, n, start);
  if (end == start) return spaces_by_line(s, n);
  while (end < n && (is_newline(s[end]) || (slash && s[end] == '/'))) end++;
  return end;
}

static inline size_t scan_cl100k(const char *s, size_t n, size_t digits) {
  size_t end = ending(s, n, 0, true), next = 0;
  if (end) return end;
  unsigned c = class_step(s, &next);
  if (c & MT_UC_LETTER) return run_of(s, n, next, MT_UC_LETTER);
  if (c & MT_UC_NUMBER) return up_to_three_numbers(s, n, digits);
  if (!is_newline(s[0])) {
    end = run_of(s, n, next, MT_UC_LETTER);
    if (end > next) return end;
  }
  return symbols_or_spaces(s, n, false);
}

static size_t scan_llama3(const char *s, size_t n) {
  return scan_cl100k(s, n, 3);
}
static size_t scan_qwen2(const char *s, size_t n) {
  return scan_cl100k(s, n, 1);
}

/* [upper]*[lower]+ from i on, or 0: the run of upper gives characters back until one is lower too.
 */
static size_t upper_lower(const char *s, size_t n, size_t i) {
  size_t end = run_of(s, n, i, MT_UC_UPPER), next = end;
  if (end < n && (class_step(s, &next) & MT_UC_LOWER)) return run_of(s, n, next, MT_UC_LOWER);
  while (end > i) {
    size_t last = end;
    do last--;
    while (((unsigned char)s[last] & 0xC0) == 0x80);
    next = last;
    if (class_step(s, &next) & MT_UC_LOWER) return end;
    end = last;
  }
  return 0;
}

static size_t scan_o200k(const char *s, size_t n) {
  size_t next = 0, end = 0;
  unsigned c = class_step(s, &next);
  bool prefix = !(c & (MT_UC_LETTER | MT_UC_NUMBER)) && !is_newline(s[0]);
  if (prefix && next < n) end = upper_lower(s, n, next);
  if (!end) end = upper_lower(s, n, 0);
  if (!end) { /* [upper]+[lower]*: no lower can follow, or it would have matched above */
    size_t start = prefix ? next : 0;
    end = run_of(s, n, start, MT_UC_UPPER);
    if (end == start) end = 0;
  }
  if (end) return end + ending(s, n, end, true);
  if (c & MT_UC_NUMBER) return up_to_three_numbers(s, n, 3);
  return symbols_or_spaces(s, n, true);
}

#define CL100K(digits)                                                 \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define O200K                                                                                 \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"                                                            \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "                                               \
  "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

mt_scan_fn *mt_scan_find(const char *pattern, size_t len) {
  const struct {
    const char *pattern;
    mt_scan_fn *scan;
  } known[] = {{mt_pattern_gpt2, scan_gpt2},
               {CL100K("\\p{N}{1,3}"), scan_llama3},
               {CL100K("\\p{N}"), scan_qwen2},
               {O200K, scan_o200k}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strlen(known[i].pattern) == len && !memcmp(known[i].pattern, pattern, len))
      return known[i].scan;
  return NULL;
}
