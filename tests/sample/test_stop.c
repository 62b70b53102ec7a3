/* Stop strings: the same output however the bytes are cut; nothing leaks, nothing is lost. And
 * verbatim repetition. */
#include "mt_test.h"
#include "mutirao/sample.h"

/* Pushes text in pieces of `piece` bytes; the shown text into out. Returns the index of the stop
 * found, or −1. */
static int run(const char *const *stop, size_t n, const char *text, size_t len, size_t piece,
               bool flush, mt_buf *out) {
  size_t lens[8];
  for (size_t i = 0; i < n; i++) lens[i] = strlen(stop[i]);
  mt_stop *m = NULL;
  CU_ASSERT_FATAL(mt_stop_new(&m, stop, lens, n, NULL) == MT_OK);
  for (size_t i = 0; i < len; i += piece)
    CU_ASSERT(mt_stop_push(m, text + i, len - i < piece ? len - i : piece, out) == MT_OK);
  size_t which = 0;
  int found = mt_stop_found(m, &which) ? (int)which : -1;
  if (flush) CU_ASSERT(mt_stop_flush(m, out) == MT_OK);
  mt_stop_free(m);
  return found;
}

static void check(const char *const *stop, size_t n, const char *text, const char *want,
                  int want_found) {
  for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
    mt_buf out = {0};
    int found = run(stop, n, text, strlen(text), piece, true, &out);
    const char *got = out.len ? out.data : "";
    if (strcmp(got, want) || found != want_found)
      printf("'%s' in pieces of %zu: '%s' (%d), want '%s' (%d)\n", text, piece, got, found, want,
             want_found);
    CU_ASSERT(!strcmp(got, want) && found == want_found);
    mt_buf_free(&out);
  }
}
#define STOPS(...) \
  (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static void test_table(void) {
  check(STOPS("own fox"), "The quick brown fox", "The quick br", 0); /* S1 */
  check(STOPS("own fox"), "The quick brown fog", "The quick brown fog", -1);
  check(STOPS("fox", "own fox"), "a brown fox", "a br",
        1); /* complete at the same byte: the longest */
  check(STOPS("own fox", "fox"), "a brown fox", "a br", 0);
  check(STOPS("quick brown fox", "brown"), "The quick brown fox", "The quick ",
        1); /* complete first */
  check(STOPS("\n\n"), "a\nb\n\nc", "a\nb", 0);
  check(STOPS("aab"), "aaab", "a", 0); /* falls back to a border */
  check(STOPS("abab"), "abacabab", "abac", 0);
  check(STOPS("ababc"), "abababc", "ab", 0);
  check(STOPS("x"), "x", "", 0);
  check(STOPS("xy"), "x", "x", -1); /* held back, then flushed */
  check(STOPS("\xf0\x9f\x98\x80"), "ol\xc3\xa1 \xf0\x9f\x98\x80!", "ol\xc3\xa1 ", 0);
  check(STOPS("same", "same"), "the same", "the ", 0);
  check(STOPS("</s>", "<|end|>"), "a < b </ <|end <|end|> c", "a < b </ <|end ", 1);
  check(NULL, 0, "anything", "anything", -1);
}

/* What is held back is exactly what may begin a stop. */
static void test_held(void) {
  const char *const stop[] = {"own fox"};
  const size_t len[] = {7};
  mt_stop *m = NULL;
  mt_buf out = {0};
  CU_ASSERT_FATAL(mt_stop_new(&m, stop, len, 1, NULL) == MT_OK);
  static const struct {
    const char *piece, *shown;
  } step[] = {{"The quick", "The quick"},
              {" br", " br"},
              {"own", ""},
              {" f", ""},
              {"og", "own fog"},
              {"", ""},
              {" o", " "},
              {"o", "o"},
              {"wn ", ""},
              {"fox jumps", "o"}};
  for (size_t i = 0; i < 9; i++) {
    mt_buf_clear(&out);
    CU_ASSERT(mt_stop_push(m, step[i].piece, strlen(step[i].piece), &out) == MT_OK);
    CU_ASSERT_STRING_EQUAL(out.len ? out.data : "", step[i].shown);
    CU_ASSERT(!mt_stop_found(m, NULL));
  }
  mt_buf_clear(&out);
  CU_ASSERT(mt_stop_push(m, "fox jumps", 9, &out) == MT_OK && out.len == 0 &&
            mt_stop_found(m, NULL));
  CU_ASSERT(mt_stop_push(m, "more", 4, &out) == MT_OK && mt_stop_flush(m, &out) == MT_OK &&
            out.len == 0);
  mt_stop_reset(m);
  CU_ASSERT(!mt_stop_found(m, NULL));
  CU_ASSERT(mt_stop_push(m, "fox", 3, &out) == MT_OK && out.len == 3);
  mt_buf_free(&out);
  mt_stop_free(m);
}

static void test_bad(void) {
  mt_stop *m = NULL;
  mt_err e = {0};
  const char *const stop[] = {"a", ""};
  const size_t len[] = {1, 0};
  CU_ASSERT(mt_stop_new(&m, stop, len, 2, &e) == MT_EINVAL && m == NULL &&
            strstr(e.msg, "2") != NULL);
  mt_stop_free(NULL);
}

/* Bytes with NUL, random stops over a small alphabet: against a search of the whole text. */
static void test_random(void) {
  unsigned long long seed = mt_test_seed();
  uint64_t at = 0;
#define PICK(n) ((size_t)(mt_uniform(seed, 3, at++, 0) * (double)(n)))
  for (int round = 0; round < 3000; round++) {
    char text[40], pattern[3][8];
    const char *stop[3] = {pattern[0], pattern[1], pattern[2]};
    size_t len[3], n_stops = 1 + PICK(3), n = PICK(sizeof text + 1);
    for (size_t i = 0; i < n; i++) text[i] = (char)PICK(2);
    for (size_t k = 0; k < n_stops; k++) {
      len[k] = 1 + PICK(sizeof pattern[k]);
      for (size_t i = 0; i < len[k]; i++) pattern[k][i] = (char)PICK(2);
    }
    size_t want = n, want_which = n_stops; /* naive: the first end at which some stop is complete */
    for (size_t end = 1; end <= n && want_which == n_stops; end++)
      for (size_t k = 0; k < n_stops; k++)
        if (len[k] <= end && !memcmp(text + end - len[k], stop[k], len[k]) &&
            (want_which == n_stops || len[k] > len[want_which])) {
          want_which = k;
          want = end - len[k];
        }
    mt_stop *m = NULL;
    mt_buf out = {0};
    CU_ASSERT_FATAL(mt_stop_new(&m, stop, len, n_stops, NULL) == MT_OK);
    for (size_t i = 0; i < n;) {
      size_t piece = 1 + PICK(5);
      if (piece > n - i) piece = n - i;
      CU_ASSERT(mt_stop_push(m, text + i, piece, &out) == MT_OK);
      i += piece;
      CU_ASSERT(out.len <= want);
    }
    size_t which = n_stops;
    CU_ASSERT(mt_stop_found(m, &which) == (want_which < n_stops) && which == want_which);
    CU_ASSERT(mt_stop_flush(m, &out) == MT_OK);
    CU_ASSERT(out.len == want && (!want || !memcmp(out.data, text, want)));
    mt_buf_free(&out);
    mt_stop_free(m);
  }
}

static void test_repeat(void) {
  uint32_t ids[3000];
  size_t period = 0, times = 0;
  for (uint32_t i = 0; i < 3000; i++) ids[i] = i;
  CU_ASSERT(!mt_repeat_find(ids, 3000, &period, &times));
  CU_ASSERT(!mt_repeat_find(ids, 0, &period, &times));
  static const size_t periods[] = {1, 2, 3, 7, 8, 9, 31, 256};
  for (size_t c = 0; c < sizeof periods / sizeof periods[0]; c++) {
    size_t p = periods[c], least = 4 * p;
    if (least < 32) least = (32 + p - 1) / p * p;
    for (size_t n = least - 1; n <= least + p; n++) {
      for (size_t i = 0; i < 1000 + n; i++)
        ids[i] = i < 1000 ? 5000 + (uint32_t)i : (uint32_t)((i - 1000) % p);
      CU_ASSERT(mt_repeat_find(ids, 1000 + n, &period, &times) == (n >= least));
      if (n >= least) CU_ASSERT(period == p && times == n / p);
    }
    ids[1000 + least - 2 < 3000 ? 1000 + least - 2 : 0] = 99999; /* one other id near the end */
    CU_ASSERT(!mt_repeat_find(ids, 1000 + least, &period, &times));
  }
  for (size_t i = 0; i < 2000; i++)
    ids[i] = (uint32_t)(i % 257); /* longer than what is looked for */
  CU_ASSERT(!mt_repeat_find(ids, 2000, NULL, NULL));
  for (size_t i = 0; i < 40; i++) ids[i] = 1;
  CU_ASSERT(mt_repeat_find(ids, 40, NULL, NULL));
}

MT_TEST_MAIN("sample: stop strings and repetition", {"table", test_table}, {"held back", test_held},
             {"bad", test_bad}, {"random", test_random}, {"repetition", test_repeat})
