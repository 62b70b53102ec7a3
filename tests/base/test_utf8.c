/* UTF-8: well-formed and malformed sequences (Unicode 3.9), all code points, and lossy decoding as
 * Python does it. */
#include "mt_test.h"
#include "mutirao/base.h"

typedef struct sequence {
  const char *bytes;
  size_t len;
  int want; /* of mt_utf8_decode */
  uint32_t cp;
} sequence;
#define SEQ(s, want, cp) \
  { s, sizeof(s) - 1, want, cp }

static void test_decode(void) {
  static const sequence table[] = {
      SEQ("a", 1, 'a'),
      SEQ("\0", 1, 0),
      SEQ("\x7f", 1, 0x7f),
      SEQ("\xc2\x80", 2, 0x80),
      SEQ("\xdf\xbf", 2, 0x7ff),
      SEQ("\xe0\xa0\x80", 3, 0x800),
      SEQ("\xed\x9f\xbf", 3, 0xd7ff),
      SEQ("\xee\x80\x80", 3, 0xe000),
      SEQ("\xef\xbf\xbf", 3, 0xffff),
      SEQ("\xf0\x90\x80\x80", 4, 0x10000),
      SEQ("\xf4\x8f\xbf\xbf", 4, 0x10ffff),
      SEQ("\xc3\xa9x", 2, 0xe9),
      /* never a lead byte */
      SEQ("\x80", -1, 0),
      SEQ("\xbf", -1, 0),
      SEQ("\xc0\x80", -1, 0),
      SEQ("\xc1\xbf", -1, 0),
      SEQ("\xf5\x80\x80\x80", -1, 0),
      SEQ("\xfe", -1, 0),
      SEQ("\xff", -1, 0),
      /* overlong, surrogate, too large: the lead byte alone is the malformed part */
      SEQ("\xe0\x80\x80", -1, 0),
      SEQ("\xe0\x9f\xbf", -1, 0),
      SEQ("\xed\xa0\x80", -1, 0),
      SEQ("\xed\xbf\xbf", -1, 0),
      SEQ("\xf0\x80\x80\x80", -1, 0),
      SEQ("\xf0\x8f\xbf\xbf", -1, 0),
      SEQ("\xf4\x90\x80\x80", -1, 0),
      /* broken off by another byte */
      SEQ("\xc3x", -1, 0),
      SEQ("\xe2\x82x", -2, 0),
      SEQ("\xf0\x9f\x98x", -3, 0),
      SEQ("\xf0\x9fx", -2, 0),
      SEQ("\xe2\xe2\x82\xac", -1, 0),
      SEQ("\xf0\x9f\x98\xc3", -3, 0),
      /* cut off: may still become well-formed */
      SEQ("\xc3", 0, 0),
      SEQ("\xe2", 0, 0),
      SEQ("\xe2\x82", 0, 0),
      SEQ("\xf0", 0, 0),
      SEQ("\xf0\x9f", 0, 0),
      SEQ("\xf0\x9f\x98", 0, 0),
      SEQ("\xed\x9f", 0, 0),
      SEQ("\xf4\x8f\xbf", 0, 0),
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    uint32_t cp = 0xdeadbeef;
    int got = mt_utf8_decode(table[i].bytes, table[i].len, &cp);
    if (got != table[i].want) printf("row %zu: %d, want %d\n", i, got, table[i].want);
    CU_ASSERT(got == table[i].want);
    if (table[i].want > 0) CU_ASSERT(cp == table[i].cp);
  }
}

/* Encode then decode, for every number up to past the last code point. */
static void test_round_trip(void) {
  for (uint32_t cp = 0; cp <= 0x110010; cp++) {
    char s[MT_UTF8_MAX];
    uint32_t back;
    int n = mt_utf8_encode(cp, s);
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
      if (n != 0) CU_FAIL("encoded what is no code point");
      continue;
    }
    int want = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    bool ok = n == want && mt_utf8_decode(s, (size_t)n, &back) == n && back == cp &&
              mt_utf8_valid(s, (size_t)n, NULL);
    for (int k = 1; k < n; k++) ok = ok && mt_utf8_decode(s, (size_t)k, &back) == 0;
    if (!ok) printf("U+%04X\n", cp);
    CU_ASSERT_FATAL(ok);
  }
  CU_ASSERT(mt_utf8_encode(0xffffffff, (char[MT_UTF8_MAX]){0}) == 0);
}

static void test_valid(void) {
  size_t bad = 99;
  CU_ASSERT(mt_utf8_valid("", 0, &bad) && bad == 99);
  CU_ASSERT(mt_utf8_valid("mutir\xc3\xa3o \xf0\x9f\x98\x80", 13, &bad) && bad == 99);
  CU_ASSERT(!mt_utf8_valid("ab\xff", 3, &bad) && bad == 2);
  CU_ASSERT(!mt_utf8_valid("ab\xe2\x82", 4, &bad) && bad == 2);
  CU_ASSERT(!mt_utf8_valid("\xed\xa0\x80", 3, &bad) && bad == 0);
  CU_ASSERT(!mt_utf8_valid("\xed\xa0\x80", 3, NULL));
}

static void test_lossy(void) {
  static const struct {
    const char *bytes;
    size_t len;
    const char *want; /* of Python's bytes.decode("utf-8", "replace") */
  } table[] = {
      {"", 0, ""},
      {"abc", 3, "abc"},
      {"mutir\xc3\xa3o \xf0\x9f\x98\x80", 13, "mutir\xc3\xa3o \xf0\x9f\x98\x80"},
      {"\xff", 1, "\xef\xbf\xbd"},
      {"a\xff"
       "b",
       3,
       "a\xef\xbf\xbd"
       "b"},
      {"\xe2\x82", 2, "\xef\xbf\xbd"},
      {"a\xe2\x82"
       "b",
       4,
       "a\xef\xbf\xbd"
       "b"},
      {"\xf0\x9f\x98", 3, "\xef\xbf\xbd"},
      {"\xf0\x9f\x98\xf0\x9f\x98\x80", 7, "\xef\xbf\xbd\xf0\x9f\x98\x80"},
      {"\xc0\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xe0\x80\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xe0\x80\xaf", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xed\xbf\xbf\xed\xa0\x80", 6,
       "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf0\x80\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf0\x8f\xbf\xbf", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf5\x80\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\x80\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xc3", 1, "\xef\xbf\xbd"},
      {"\xc3\xc3\xa9", 3, "\xef\xbf\xbd\xc3\xa9"},
      {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
       "A",
       9,
       "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
       "A"},
      {"\xf0\x90\x80\xe0\xa0\xc3x", 7, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx"},
      {"\xfe\xff", 2, "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf8\x88\x80\x80\x80", 5, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    mt_buf b = {0};
    CU_ASSERT(mt_buf_puts(&b, "<") == MT_OK);
    CU_ASSERT(mt_utf8_append_lossy(&b, table[i].bytes, table[i].len) == MT_OK);
    if (strcmp(b.data + 1, table[i].want))
      printf("row %zu: %s, want %s\n", i, b.data + 1, table[i].want);
    CU_ASSERT_STRING_EQUAL(b.data + 1, table[i].want);
    CU_ASSERT(mt_utf8_valid(b.data, b.len, NULL));
    mt_buf_free(&b);
  }
}

/* Random bytes from a mean alphabet: lossy text is always well-formed, and well-formed text passes
 * unchanged. */
static void test_lossy_random(void) {
  unsigned long long seed = mt_test_seed();
  static const unsigned char alphabet[] = {'a',  0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xa0,
                                           0xed, 0xf0, 0x90, 0xf4, 0x8f, 0xff};
  for (int i = 0; i < 20000; i++) {
    char s[24];
    size_t n = (size_t)(mt_uniform(seed, 0, (uint64_t)i, 0) * sizeof s);
    for (size_t k = 0; k < n; k++)
      s[k] =
          (char)alphabet[(size_t)(mt_uniform(seed, 1, (uint64_t)i, (uint32_t)k) * sizeof alphabet)];
    mt_buf b = {0}, again = {0};
    CU_ASSERT_FATAL(mt_utf8_append_lossy(&b, s, n) == MT_OK &&
                    mt_utf8_append_lossy(&again, b.data, b.len) == MT_OK);
    CU_ASSERT(mt_utf8_valid(b.data, b.len, NULL));
    CU_ASSERT(again.len == b.len && !memcmp(again.data, b.data, b.len));
    CU_ASSERT(!mt_utf8_valid(s, n, NULL) || (b.len == n && !memcmp(b.data, s, n)));
    mt_buf_free(&b);
    mt_buf_free(&again);
  }
}

MT_TEST_MAIN("base: utf8", {"decode", test_decode}, {"round trip", test_round_trip},
             {"valid", test_valid}, {"lossy", test_lossy}, {"lossy, random", test_lossy_random})
