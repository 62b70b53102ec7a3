/* Laws of the sharding plan: shards tile exactly, KV heads follow their queries, owners agree. */
#include "mt_test.h"
#include "mutirao/shard.h"

enum { MAX_RANKS = 20 };

static uint32_t pick(unsigned long long seed, uint32_t i, uint32_t what, uint32_t n) {
  return (uint32_t)(mt_uniform(seed, what, i, 0) * n);
}

static void check_follow(mt_range got, uint32_t *at) {
  CU_ASSERT_EQUAL(got.begin, *at);
  CU_ASSERT(got.end >= got.begin);
  *at = got.end;
}

static void check_kv(const mt_shard_dims *d, const mt_shard *s) {
  uint32_t per = d->n_heads / d->n_kv_heads;
  CU_ASSERT(s->kv_heads.end <= d->n_kv_heads);
  if (s->heads.begin == s->heads.end) {
    CU_ASSERT_EQUAL(s->kv_heads.begin, s->kv_heads.end);
    return;
  }
  CU_ASSERT_EQUAL(s->kv_heads.begin, s->heads.begin / per); /* the first and the last are needed: */
  CU_ASSERT_EQUAL(s->kv_heads.end, (s->heads.end - 1) / per + 1); /* none is held in vain */
  for (uint32_t h = s->heads.begin; h < s->heads.end; h++)
    CU_ASSERT(h / per >= s->kv_heads.begin && h / per < s->kv_heads.end);
}

static uint32_t length(mt_range r) {
  return r.end - r.begin;
}

/* All the laws for one model and one number of ranks. */
static void check_plan(const mt_shard_dims *d, uint32_t n_ranks) {
  uint32_t heads = 0, units = 0, ffn = 0, vocab = 0, unit = mt_shard_ffn_unit(d->ffn);
  uint32_t least = UINT32_MAX, most = 0;
  for (uint32_t r = 0; r < n_ranks; r++) {
    mt_shard s;
    CU_ASSERT_EQUAL_FATAL(mt_shard_plan(d, n_ranks, r, &s, NULL), MT_OK);
    check_follow(s.heads, &heads);
    check_follow(s.ffn_units, &units);
    check_follow(s.ffn, &ffn);
    check_follow(s.vocab, &vocab);
    check_kv(d, &s);
    least = length(s.ffn_units) < least ? length(s.ffn_units) : least;
    most = length(s.ffn_units) > most ? length(s.ffn_units) : most;
    CU_ASSERT(s.ffn.begin % unit == 0 || s.ffn.begin == d->ffn);
    CU_ASSERT(s.vocab.begin % MT_VOCAB_BLOCK == 0 || s.vocab.begin == d->vocab);
    for (uint32_t row = s.vocab.begin; row < s.vocab.end; row++)
      CU_ASSERT_EQUAL(mt_shard_vocab_owner(d, n_ranks, row), r);
  }
  CU_ASSERT_EQUAL(heads, d->n_heads);
  CU_ASSERT_EQUAL(units, (d->ffn + unit - 1) / unit);
  CU_ASSERT_EQUAL(ffn, d->ffn);
  CU_ASSERT_EQUAL(vocab, d->vocab);
  CU_ASSERT(most - least <= 1);
}

static void test_tiles(void) {
  static const mt_shard_dims real[] = {
      {9, 3, 64, 1536, 49152},
      {32, 8, 128, 14336, 128256},
      {4, 1, 256, 2048, 262144},
      {64, 8, 128, 28672, 151936},
      {1, 1, 1, 1, 1},
      {7, 7, 80, 127, 65},
      {12, 12, 64, 129, 64},
      {16, 2, 128, 4096, 63},
      {40, 40, 128, 17920, 32064},
  };
  for (size_t i = 0; i < sizeof real / sizeof real[0]; i++)
    for (uint32_t n = 1; n <= MAX_RANKS; n++) check_plan(&real[i], n);
  unsigned long long seed = mt_test_seed();
  for (uint32_t i = 0; i < 60; i++) {
    uint32_t kv = 1 + pick(seed, i, 0, 12);
    mt_shard_dims d = {kv * (1 + pick(seed, i, 1, 9)), kv, 64, 1 + pick(seed, i, 2, 9000),
                       1 + pick(seed, i, 3, 3000)};
    for (uint32_t n = 1; n <= MAX_RANKS; n++) check_plan(&d, n);
  }
}

static void test_deal(void) {
  static const uint32_t want[5][2] = {{0, 3}, {3, 6}, {6, 8}, {8, 10}, {10, 12}};
  for (uint32_t r = 0; r < 5; r++) { /* 12 over 5: 3 3 2 2 2 */
    mt_range got = mt_shard_deal(12, 5, r);
    CU_ASSERT_EQUAL(got.begin, want[r][0]);
    CU_ASSERT_EQUAL(got.end, want[r][1]);
  }
  mt_range big = mt_shard_deal(UINT32_MAX, 3, 2);
  CU_ASSERT_EQUAL(big.end, UINT32_MAX);
  CU_ASSERT_EQUAL(length(big), UINT32_MAX / 3);
  CU_ASSERT_EQUAL(length(mt_shard_deal(2, 8, 7)), 0);
}

static void test_units(void) {
  CU_ASSERT_EQUAL(mt_shard_ffn_unit(4096), 256);
  CU_ASSERT_EQUAL(mt_shard_ffn_unit(14336), 256);
  CU_ASSERT_EQUAL(mt_shard_ffn_unit(3840), 128); /* 15 units of 256 are too few */
  CU_ASSERT_EQUAL(mt_shard_ffn_unit(1536), 128);
  CU_ASSERT_EQUAL(mt_shard_ffn_unit(8960 + 128), 128); /* no multiple of 256 */
  CU_ASSERT_EQUAL(mt_shard_ffn_unit(1), 128);
}

static void test_shared_kv(void) {
  mt_shard_dims d = {32, 4, 128, 8192,
                     1000}; /* 8 queries a KV head, 8 ranks: two ranks hold each */
  for (uint32_t r = 0; r < 8; r++) {
    mt_shard s;
    CU_ASSERT_EQUAL(mt_shard_plan(&d, 8, r, &s, NULL), MT_OK);
    CU_ASSERT_EQUAL(s.kv_heads.begin, r / 2);
    CU_ASSERT_EQUAL(s.kv_heads.end, r / 2 + 1);
  }
}

static void test_refuses(void) {
  mt_shard s;
  mt_err e;
  mt_shard_dims ok = {8, 2, 64, 100, 100};
  CU_ASSERT_EQUAL(mt_shard_plan(&ok, 2, 2, &s, &e), MT_ERANGE);
  CU_ASSERT_EQUAL(mt_shard_plan(&ok, 0, 0, &s, &e), MT_ERANGE);
  mt_shard_dims odd = {9, 2, 64, 100, 100};
  CU_ASSERT_EQUAL(mt_shard_plan(&odd, 1, 0, &s, &e), MT_ERANGE);
  CU_ASSERT(strstr(e.msg, "9 query heads") != NULL);
  for (int field = 0; field < 5; field++) {
    mt_shard_dims zero = ok;
    uint32_t *f[] = {&zero.n_heads, &zero.n_kv_heads, &zero.head_dim, &zero.ffn, &zero.vocab};
    *f[field] = 0;
    CU_ASSERT_EQUAL(mt_shard_plan(&zero, 1, 0, &s, &e), MT_ERANGE);
  }
}

MT_TEST_MAIN("shard", {"deal", test_deal}, {"units", test_units}, {"tiles", test_tiles},
             {"shared KV heads", test_shared_kv}, {"refuses", test_refuses})
