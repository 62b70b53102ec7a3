/* Unicode: classes of code points as of Unicode 16 (the reference's version), normal forms over
 * utf8proc. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "internal.h"

/* Code points whose general category PCRE2 10.42 (Unicode 14) gives otherwise than Unicode 16, or
 * whose white space it counts otherwise than Oniguruma (U+180E); each range with a stand-in of the
 * same length in UTF-8, the same category and, for ideographs, the same script. A newer PCRE2 sees
 * the same stand-ins. */
static const struct newer {
  uint32_t lo, hi, stand_in;
} newer[] = {
    {0x897, 0x897, 0x900},       {0xCF3, 0xCF3, 0x903},       {0xECE, 0xECE, 0x900},
    {0x180E, 0x180E, 0x2060},    {0x1B4E, 0x1B4F, 0x964},     {0x1B7F, 0x1B7F, 0x964},
    {0x1C89, 0x1C89, 0x10A0},    {0x1C8A, 0x1C8A, 0x1D00},    {0x2427, 0x2429, 0x2600},
    {0x2FFC, 0x2FFF, 0x2600},    {0x31E4, 0x31E5, 0x2600},    {0x31EF, 0x31EF, 0x2600},
    {0xA7CB, 0xA7CC, 0x10A0},    {0xA7CD, 0xA7CD, 0x1D00},    {0xA7DA, 0xA7DA, 0x10A0},
    {0xA7DB, 0xA7DB, 0x1D00},    {0xA7DC, 0xA7DC, 0x10A0},    {0x105C0, 0x105F3, 0x10000},
    {0x10D40, 0x10D49, 0x104A0}, {0x10D4A, 0x10D4D, 0x10000}, {0x10D4E, 0x10D4E, 0x16B40},
    {0x10D4F, 0x10D4F, 0x10000}, {0x10D50, 0x10D65, 0x10400}, {0x10D69, 0x10D6D, 0x101FD},
    {0x10D6E, 0x10D6E, 0x10EAD}, {0x10D6F, 0x10D6F, 0x16B40}, {0x10D70, 0x10D85, 0x10428},
    {0x10D8E, 0x10D8F, 0x1D6C1}, {0x10EC2, 0x10EC4, 0x10000}, {0x10EFC, 0x10EFF, 0x101FD},
    {0x1123F, 0x11240, 0x10000}, {0x11241, 0x11241, 0x101FD}, {0x11380, 0x11389, 0x10000},
    {0x1138B, 0x1138B, 0x10000}, {0x1138E, 0x1138E, 0x10000}, {0x11390, 0x113B5, 0x10000},
    {0x113B7, 0x113B7, 0x10000}, {0x113B8, 0x113BA, 0x11000}, {0x113BB, 0x113C0, 0x101FD},
    {0x113C2, 0x113C2, 0x11000}, {0x113C5, 0x113C5, 0x11000}, {0x113C7, 0x113CA, 0x11000},
    {0x113CC, 0x113CD, 0x11000}, {0x113CE, 0x113CE, 0x101FD}, {0x113CF, 0x113CF, 0x11000},
    {0x113D0, 0x113D0, 0x101FD}, {0x113D1, 0x113D1, 0x10000}, {0x113D2, 0x113D2, 0x101FD},
    {0x113D3, 0x113D3, 0x10000}, {0x113D4, 0x113D5, 0x10100}, {0x113D7, 0x113D8, 0x10100},
    {0x113E1, 0x113E2, 0x101FD}, {0x116D0, 0x116E3, 0x104A0}, {0x1171E, 0x1171E, 0x11000},
    {0x11B00, 0x11B09, 0x10100}, {0x11BC0, 0x11BE0, 0x10000}, {0x11BE1, 0x11BE1, 0x10100},
    {0x11BF0, 0x11BF9, 0x104A0}, {0x11F00, 0x11F01, 0x101FD}, {0x11F02, 0x11F02, 0x10000},
    {0x11F03, 0x11F03, 0x11000}, {0x11F04, 0x11F10, 0x10000}, {0x11F12, 0x11F33, 0x10000},
    {0x11F34, 0x11F35, 0x11000}, {0x11F36, 0x11F3A, 0x101FD}, {0x11F3E, 0x11F3F, 0x11000},
    {0x11F40, 0x11F40, 0x101FD}, {0x11F41, 0x11F41, 0x11000}, {0x11F42, 0x11F42, 0x101FD},
    {0x11F43, 0x11F4F, 0x10100}, {0x11F50, 0x11F59, 0x104A0}, {0x11F5A, 0x11F5A, 0x101FD},
    {0x1342F, 0x1342F, 0x10000}, {0x13439, 0x1343F, 0x110BD}, {0x13440, 0x13440, 0x101FD},
    {0x13441, 0x13446, 0x10000}, {0x13447, 0x13455, 0x101FD}, {0x13460, 0x143FA, 0x10000},
    {0x16100, 0x1611D, 0x10000}, {0x1611E, 0x16129, 0x101FD}, {0x1612A, 0x1612C, 0x11000},
    {0x1612D, 0x1612F, 0x101FD}, {0x16130, 0x16139, 0x104A0}, {0x16D40, 0x16D42, 0x16B40},
    {0x16D43, 0x16D6A, 0x10000}, {0x16D6B, 0x16D6C, 0x16B40}, {0x16D6D, 0x16D6F, 0x10100},
    {0x16D70, 0x16D79, 0x104A0}, {0x18CFF, 0x18CFF, 0x10000}, {0x1B132, 0x1B132, 0x10000},
    {0x1B155, 0x1B155, 0x10000}, {0x1CC00, 0x1CCEF, 0x1F300}, {0x1CCF0, 0x1CCF9, 0x104A0},
    {0x1CD00, 0x1CEB3, 0x1F300}, {0x1D2C0, 0x1D2D3, 0x10107}, {0x1DF25, 0x1DF2A, 0x10428},
    {0x1E030, 0x1E06D, 0x16B40}, {0x1E08F, 0x1E08F, 0x101FD}, {0x1E4D0, 0x1E4EA, 0x10000},
    {0x1E4EB, 0x1E4EB, 0x16B40}, {0x1E4EC, 0x1E4EF, 0x101FD}, {0x1E4F0, 0x1E4F9, 0x104A0},
    {0x1E5D0, 0x1E5ED, 0x10000}, {0x1E5EE, 0x1E5EF, 0x101FD}, {0x1E5F0, 0x1E5F0, 0x10000},
    {0x1E5F1, 0x1E5FA, 0x104A0}, {0x1E5FF, 0x1E5FF, 0x10100}, {0x1F6DC, 0x1F6DC, 0x1F300},
    {0x1F774, 0x1F776, 0x1F300}, {0x1F77B, 0x1F77F, 0x1F300}, {0x1F7D9, 0x1F7D9, 0x1F300},
    {0x1F8B2, 0x1F8BB, 0x1F300}, {0x1F8C0, 0x1F8C1, 0x1F300}, {0x1FA75, 0x1FA77, 0x1F300},
    {0x1FA87, 0x1FA89, 0x1F300}, {0x1FA8F, 0x1FA8F, 0x1F300}, {0x1FAAD, 0x1FAAF, 0x1F300},
    {0x1FABB, 0x1FABF, 0x1F300}, {0x1FAC6, 0x1FAC6, 0x1F300}, {0x1FACE, 0x1FACF, 0x1F300},
    {0x1FADA, 0x1FADC, 0x1F300}, {0x1FADF, 0x1FADF, 0x1F300}, {0x1FAE8, 0x1FAE9, 0x1F300},
    {0x1FAF7, 0x1FAF8, 0x1F300}, {0x1FBCB, 0x1FBEF, 0x1F300}, {0x2B739, 0x2B739, 0x20000},
    {0x2EBF0, 0x2EE5D, 0x20000}, {0x31350, 0x323AF, 0x20000},
};
enum { N_NEWER = sizeof newer / sizeof newer[0], FIRST_NEWER = 0x897 };

static uint32_t stand_in(uint32_t cp) {
  size_t lo = 0, hi = N_NEWER;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (newer[mid].hi < cp)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < N_NEWER && cp >= newer[lo].lo ? newer[lo].stand_in : cp;
}

bool mt_unicode_has_newer(const char *s, size_t n) {
  for (size_t i = 0; i < n;) {
    if ((unsigned char)s[i] < 0xE0) { /* below U+0800 there are none */
      i++;
      continue;
    }
    uint32_t cp = 0;
    int len = mt_utf8_decode(s + i, n - i, &cp);
    if (stand_in(cp) != cp) return true;
    i += (size_t)len;
  }
  return false;
}

const char *mt_unicode_for_regex(const mt_encoder *x, const char *s, size_t n, char **copy) {
  if (!x->has_newer || !mt_unicode_has_newer(s, n)) return s;
  char *dst = *copy = mt_malloc(n, 1);
  if (!dst) return NULL;
  memcpy(dst, s, n);
  for (size_t i = 0, next = 0; i < n; i = next) {
    uint32_t cp = mt_unicode_step(s, &next);
    if (cp >= FIRST_NEWER) mt_utf8_encode(stand_in(cp), dst + i);
  }
  return dst;
}

static bool is_space(uint32_t cp) {
  return (cp >= 9 && cp <= 13) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
         (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
         cp == 0x205F || cp == 0x3000;
}

/* Alphabetic symbols (circled letters), which are words though not letters. */
static bool is_alphabetic_symbol(uint32_t cp) {
  return (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
         (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

static unsigned class_of(uint32_t cp) {
  unsigned c = is_space(cp) ? MT_UC_SPACE : 0u;
  switch (utf8proc_category((utf8proc_int32_t)stand_in(cp))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return c | MT_UC_LETTER | MT_UC_WORD | MT_UC_UPPER;
    case UTF8PROC_CATEGORY_LL: return c | MT_UC_LETTER | MT_UC_WORD | MT_UC_LOWER;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return c | MT_UC_LETTER | MT_UC_WORD | MT_UC_UPPER | MT_UC_LOWER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return c | MT_UC_MARK | MT_UC_WORD | MT_UC_UPPER | MT_UC_LOWER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL: return c | MT_UC_NUMBER | MT_UC_WORD;
    case UTF8PROC_CATEGORY_NO: return c | MT_UC_NUMBER;
    case UTF8PROC_CATEGORY_PC: return c | MT_UC_WORD;
    default:
      return c | (is_alphabetic_symbol(cp) || cp == 0x200C || cp == 0x200D ? MT_UC_WORD : 0u);
  }
}

unsigned char mt_unicode_classes[0x110000];
static pthread_once_t classes_once = PTHREAD_ONCE_INIT;

static void fill_classes(void) {
  for (uint32_t cp = 0; cp < 0x110000; cp++) mt_unicode_classes[cp] = (unsigned char)class_of(cp);
}

void mt_unicode_init(void) {
  pthread_once(&classes_once, fill_classes);
}

/* Characters that NFC leaves alone whatever stands beside them: no decomposition, combining class
 * 0, never the second of a composition. Not all of them, only the ranges that texts are mostly made
 * of. */
static bool nfc_inert(uint32_t cp) {
  return cp < 0x300 || (cp >= 0x0400 && cp <= 0x0482) || (cp >= 0x3041 && cp <= 0x3096) ||
         (cp >= 0x30A1 && cp <= 0x30FA) || (cp >= 0x3400 && cp <= 0x4DBF) ||
         (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0xAC00 && cp <= 0xD7A3) ||
         (cp >= 0x2010 && cp <= 0x2027) || (cp >= 0x3001 && cp <= 0x3029);
}

static int map_form(int form, const char *s, size_t n, mt_buf *out, mt_err *e) {
  static const int options[] = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE,
                                UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  utf8proc_uint8_t *mapped = NULL;
  utf8proc_ssize_t got = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &mapped,
                                      (utf8proc_option_t)(options[form] | UTF8PROC_STABLE));
  if (got < 0)
    return mt_err_set(e, got == UTF8PROC_ERROR_NOMEM ? MT_ENOMEM : MT_EFORMAT,
                      "normalizing the text: %s", utf8proc_errmsg(got));
  int rc = mt_buf_append(out, mapped, (size_t)got);
  free(mapped);
  return rc ? mt_err_set(e, MT_ENOMEM, "no memory for the normalized text") : MT_OK;
}

/* Copies stretches of inert characters; only what lies between goes through utf8proc, each time
 * with the inert character before it, with which it may compose. */
static int compose(const char *s, size_t n, mt_buf *out, mt_err *e) {
  size_t done = 0, last = 0, i = 0; /* s[last..i) is the latest inert character */
  while (i < n) {
    uint32_t cp = 0;
    int len = mt_utf8_decode(s + i, n - i, &cp);
    if (nfc_inert(cp)) {
      last = i;
      i += (size_t)len;
      continue;
    }
    size_t end = i;
    while (end < n && !nfc_inert(cp)) {
      end += (size_t)len;
      if (end < n) len = mt_utf8_decode(s + end, n - end, &cp);
    }
    size_t from = last < done ? done : last;
    if (mt_buf_append(out, s + done, from - done))
      return mt_err_set(e, MT_ENOMEM, "no memory for the normalized text");
    int rc = map_form(MT_FORM_NFC, s + from, end - from, out, e);
    if (rc) return rc;
    done = last = i = end;
  }
  return mt_buf_append(out, s + done, n - done)
             ? mt_err_set(e, MT_ENOMEM, "no memory for the normalized text")
             : MT_OK;
}

int mt_unicode_normalize(int form, const char *s, size_t n, mt_buf *out, mt_err *e) {
  return form == MT_FORM_NFC ? compose(s, n, out, e) : map_form(form, s, n, out, e);
}

int mt_unicode_lowercase(const char *s, size_t n, mt_buf *out) {
  for (size_t i = 0; i < n;) {
    uint32_t cp = 0;
    i += (size_t)mt_utf8_decode(s + i, n - i, &cp);
    char b[MT_UTF8_MAX];
    if (cp == 0x130) { /* the only one whose lower case has two code points */
      if (mt_buf_append(out, "i\xCC\x87", 3)) return MT_ENOMEM;
      continue;
    }
    int len = mt_utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), b);
    if (mt_buf_append(out, b, (size_t)len)) return MT_ENOMEM;
  }
  return MT_OK;
}

int mt_unicode_strip_accents(const char *s, size_t n, mt_buf *out) {
  for (size_t i = 0; i < n;) {
    uint32_t cp = 0;
    size_t len = (size_t)mt_utf8_decode(s + i, n - i, &cp);
    if (!(mt_unicode_class(cp) & MT_UC_MARK) && mt_buf_append(out, s + i, len)) return MT_ENOMEM;
    i += len;
  }
  return MT_OK;
}

void mt_text_count(const char *text, size_t len, size_t *chars, size_t *words) {
  size_t c = 0, w = 0;
  bool in_word = false;
  mt_unicode_init();
  for (size_t i = 0; i < len;) {
    uint32_t cp = 0xFFFD;
    int k = mt_utf8_decode(text + i, len - i, &cp);
    i += k > 0 ? (size_t)k : k < 0 ? (size_t)-k : len - i;
    c++;
    bool space = mt_unicode_class(cp) & MT_UC_SPACE;
    if (!space && !in_word) w++;
    in_word = !space;
  }
  if (chars) *chars = c;
  if (words) *words = w;
}
