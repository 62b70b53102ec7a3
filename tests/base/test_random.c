/* Philox against Random123's known answers; the uniform numbers made from it; hash; clock. */
#include "mt_test.h"
#include "mutirao/base.h"

static void test_philox(void) {
  static const struct {
    uint32_t counter[4], key[2], want[4];
  } kat[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
    uint32_t out[4];
    mt_philox4x32(kat[i].counter, kat[i].key, out);
    for (int k = 0; k < 4; k++) CU_ASSERT(out[k] == kat[i].want[k]);
  }
}

static void test_uniform(void) {
  unsigned long long seed = mt_test_seed();
  enum { N = 200000, BINS = 64 };
  int bin[BINS] = {0};
  double sum = 0;
  for (int i = 0; i < N; i++) {
    double u = mt_uniform(seed, 1, (uint64_t)i, 2);
    CU_ASSERT_FATAL(u >= 0 && u < 1);
    CU_ASSERT(u * 0x1p53 == (double)(uint64_t)(u * 0x1p53));
    sum += u;
    bin[(int)(u * BINS)]++;
  }
  CU_ASSERT(sum / N > 0.495 && sum / N < 0.505);
  double chi = 0, want = (double)N / BINS;
  for (int i = 0; i < BINS; i++) chi += (bin[i] - want) * (bin[i] - want) / want;
  CU_ASSERT(chi < 130); /* 63 degrees of freedom: exceeded with probability 1e-6 */
}

/* A pure function, and each argument matters, in all of its bits. */
static void test_keys(void) {
  double u = mt_uniform(1, 2, 3, 4);
  CU_ASSERT(u == mt_uniform(1, 2, 3, 4));
  for (int b = 0; b < 64; b++) {
    CU_ASSERT(u != mt_uniform(1 ^ 1ull << b, 2, 3, 4));
    CU_ASSERT(u != mt_uniform(1, 2, 3 ^ 1ull << b, 4));
    if (b >= 32) continue;
    CU_ASSERT(u != mt_uniform(1, 2 ^ 1u << b, 3, 4));
    CU_ASSERT(u != mt_uniform(1, 2, 3, 4 ^ 1u << b));
  }
  uint32_t zero[4] = {0, 0, 0, 0}, out[4]; /* 53 bits of the first two words */
  mt_philox4x32(zero, zero, out);
  CU_ASSERT(mt_uniform(0, 0, 0, 0) == (double)(0xe169c58d6627e8d5ull >> 11) / 0x1p53);
}

static void test_hash(void) {
  CU_ASSERT(mt_hash64(MT_HASH_INIT, "", 0) == MT_HASH_INIT);
  CU_ASSERT(mt_hash64(MT_HASH_INIT, "a", 1) ==
            0xaf63dc4c8601ec8cull); /* published FNV-1a vectors */
  CU_ASSERT(mt_hash64(MT_HASH_INIT, "foobar", 6) == 0x85944171f73967e8ull);
  CU_ASSERT(mt_hash64(mt_hash64(MT_HASH_INIT, "foo", 3), "bar", 3) == 0x85944171f73967e8ull);
}

static void test_clock(void) {
  uint64_t before = mt_clock_ns();
  for (int i = 0; i < 1000; i++) {
    uint64_t now = mt_clock_ns();
    CU_ASSERT(now >= before);
    before = now;
  }
  CU_ASSERT(before > 0);
}

MT_TEST_MAIN("base: random", {"philox", test_philox}, {"uniform", test_uniform},
             {"keys", test_keys}, {"hash", test_hash}, {"clock", test_clock})
