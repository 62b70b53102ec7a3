/* The paged cache: bytes, growth, truncation, forks; a plain model of what every sequence must
 * read; no rank differs. */
#include "mt_test.h"
#include "mutirao/kv.h"

static mt_kv *cache(const mt_kv_dims *d, size_t n_blocks, size_t max_seqs) {
  mt_kv *kv = NULL;
  mt_err e = {0};
  int rc = mt_kv_new(&kv, d, n_blocks, max_seqs, &e);
  if (rc) printf("%s\n", e.msg);
  CU_ASSERT_FATAL(rc == MT_OK);
  return kv;
}

/* The KV law: bytes per token = 2 · layers · KV heads · head size · bytes, and that is what is
 * allocated. */
static void test_law(void) {
  static const struct {
    mt_kv_dims d;
    size_t bytes_per_token;
  } table[] = {
      {{30, 3, 64, MT_KV_F16}, 23040},   /* SmolLM2-135M */
      {{32, 8, 128, MT_KV_F16}, 131072}, /* Llama 3.1 8B: 128 KiB a token, 16 GiB at 131,072 */
      {{28, 8, 128, MT_KV_F32}, 229376}, {{1, 1, 1, MT_KV_F16}, 4}, {{5, 7, 20, MT_KV_F32}, 5600},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    const mt_kv_dims *d = &table[i].d;
    size_t law = (size_t)2 * d->n_layers * d->n_kv_heads_local * d->head_dim *
                 (d->type == MT_KV_F32 ? 4 : 2);
    CU_ASSERT(law == table[i].bytes_per_token);
    CU_ASSERT(mt_kv_block_bytes(d) == MT_KV_BLOCK * law);
    mt_kv *kv = cache(d, 3, 1);
    CU_ASSERT(mt_kv_bytes(kv) == 3 * MT_KV_BLOCK * law);
    mt_kv_free(kv);
  }
  const mt_kv_dims q8 = {2, 3, 64, MT_KV_Q8}; /* a scale for each token and head beside the bytes */
  CU_ASSERT(mt_kv_block_bytes(&q8) == (size_t)MT_KV_BLOCK * 2 * 2 * 3 * (64 + 4));
  const mt_kv_dims none = {30, 0, 64, MT_KV_F16};
  CU_ASSERT(mt_kv_block_bytes(&none) == 0);
  CU_ASSERT(mt_kv_blocks_for(0) == 0 && mt_kv_blocks_for(1) == 1 &&
            mt_kv_blocks_for(MT_KV_BLOCK) == 1);
  CU_ASSERT(mt_kv_blocks_for(MT_KV_BLOCK + 1) == 2 &&
            mt_kv_blocks_for(SIZE_MAX) == SIZE_MAX / MT_KV_BLOCK + 1);
}

static void test_refused(void) {
  mt_kv *kv = NULL;
  mt_err e = {0};
  const mt_kv_dims d = {2, 2, 16, MT_KV_F16},
                   absurd = {UINT32_MAX, UINT32_MAX, UINT32_MAX, MT_KV_F32};
  CU_ASSERT(mt_kv_block_bytes(&absurd) == SIZE_MAX);
  CU_ASSERT(mt_kv_new(&kv, &absurd, 1, 1, &e) == MT_ERANGE && kv == NULL);
  CU_ASSERT(mt_kv_new(&kv, &d, SIZE_MAX, 1, &e) == MT_ERANGE && kv == NULL);
  CU_ASSERT(mt_kv_new(&kv, &(mt_kv_dims){1000, 1000, 4096, MT_KV_F32}, 1 << 16, 1, &e) ==
                MT_ENOMEM &&
            kv == NULL);
  CU_ASSERT(strstr(e.msg, "bytes") != NULL);
  mt_kv_free(NULL);
  kv = cache(&d, 2, 2);
  CU_ASSERT(mt_kv_grow(kv, 2, 1, &e) == MT_EINVAL);
  CU_ASSERT(mt_kv_fork(kv, 0, 2, 0, &e) == MT_EINVAL && mt_kv_fork(kv, 2, 0, 0, &e) == MT_EINVAL);
  CU_ASSERT(mt_kv_fork(kv, 0, 1, 1, &e) == MT_EINVAL); /* longer than its source */
  CU_ASSERT(mt_kv_grow(kv, 0, 10, &e) == MT_OK && mt_kv_grow(kv, 1, 10, &e) == MT_OK);
  CU_ASSERT(mt_kv_fork(kv, 0, 1, 5, &e) == MT_EINVAL); /* not empty */
  CU_ASSERT(mt_kv_fork(kv, 0, 0, 5, &e) == MT_EINVAL);
  mt_kv_truncate(kv, 2, 0);
  CU_ASSERT(mt_kv_length(kv, 2) == 0);
  mt_kv_free(kv);
}

/* Growth over the edge changes nothing, and says how many blocks there are. */
static void test_exhaustion(void) {
  const mt_kv_dims d = {1, 1, 16, MT_KV_F16};
  mt_kv *kv = cache(&d, 5, 3);
  mt_err e = {0};
  CU_ASSERT(mt_kv_free_blocks(kv) == 5 && mt_kv_used_blocks(kv) == 0);
  CU_ASSERT(mt_kv_grow(kv, 0, 2 * MT_KV_BLOCK + 1, &e) == MT_OK && mt_kv_used_blocks(kv) == 3);
  CU_ASSERT(mt_kv_grow(kv, 1, 3 * MT_KV_BLOCK, &e) == MT_ERANGE && strstr(e.msg, "2 of 5") != NULL);
  CU_ASSERT(mt_kv_length(kv, 1) == 0 && mt_kv_free_blocks(kv) == 2);
  CU_ASSERT(mt_kv_grow(kv, 0, SIZE_MAX, &e) == MT_ERANGE &&
            mt_kv_length(kv, 0) == 2 * MT_KV_BLOCK + 1);
  CU_ASSERT(mt_kv_grow(kv, 1, 2 * MT_KV_BLOCK, &e) == MT_OK && mt_kv_free_blocks(kv) == 0);
  CU_ASSERT(mt_kv_grow(kv, 0, 3 * MT_KV_BLOCK, &e) == MT_OK); /* room in its last block */
  CU_ASSERT(mt_kv_fork(kv, 0, 2, 1, &e) == MT_ERANGE && mt_kv_length(kv, 2) == 0);
  CU_ASSERT(mt_kv_fork(kv, 0, 2, MT_KV_BLOCK, &e) == MT_OK); /* shared: no block needed */
  CU_ASSERT(mt_kv_used_blocks(kv) == 5);
  mt_kv_truncate(kv, 2, 10);
  CU_ASSERT(mt_kv_grow(kv, 2, 11, &e) == MT_ERANGE &&
            mt_kv_length(kv, 2) == 10); /* would need a copy */
  mt_kv_drop(kv, 1);
  CU_ASSERT(mt_kv_grow(kv, 2, 11, &e) == MT_OK && mt_kv_used_blocks(kv) == 4);
  mt_kv_drop(kv, 0);
  mt_kv_drop(kv, 2);
  CU_ASSERT(mt_kv_free_blocks(kv) == 5);
  mt_kv_free(kv);
}

/* K and V of all blocks, layers and heads lie apart, aligned, inside the pool. */
static void test_pointers(void) {
  static const mt_kv_dims dims[] = {
      {3, 2, 64, MT_KV_F16}, {2, 3, 20, MT_KV_F32}, {2, 2, 32, MT_KV_Q8}};
  for (size_t c = 0; c < 3; c++) {
    const mt_kv_dims *d = &dims[c];
    enum { N = 4 };
    mt_kv *kv = cache(d, N, 2);
    CU_ASSERT(mt_kv_grow(kv, 0, 2 * MT_KV_BLOCK, NULL) == MT_OK &&
              mt_kv_grow(kv, 1, 2 * MT_KV_BLOCK, NULL) == MT_OK);
    size_t kb = mt_kv_k_bytes(d->type, d->head_dim), vb = mt_kv_v_bytes(d->type, d->head_dim),
           tag = 0, bad = 0;
    for (int pass = 0; pass < 2; pass++, tag = 0)
      for (size_t seq = 0; seq < 2; seq++)
        for (size_t b = 0; b < 2; b++)
          for (uint32_t l = 0; l < d->n_layers; l++)
            for (uint32_t h = 0; h < d->n_kv_heads_local; h++) {
              unsigned char *k = mt_kv_k(kv, seq, b, l, h), *v = mt_kv_v(kv, seq, b, l, h);
              tag++;
              bad += (uintptr_t)k % 64 != 0 || (uintptr_t)v % 64 != 0;
              if (pass == 0) {
                memset(k, (int)(2 * tag), kb);
                memset(v, (int)(2 * tag + 1), vb);
                continue;
              }
              for (size_t i = 0; i < kb; i++) bad += k[i] != (unsigned char)(2 * tag);
              for (size_t i = 0; i < vb; i++) bad += v[i] != (unsigned char)(2 * tag + 1);
            }
    CU_ASSERT(bad == 0);
    mt_kv_free(kv);
  }
}

/* ---- against a plain model ------------------------------------------------------------------ */

enum { SEQS = 6, BLOCKS = 14, LONGEST = 400 };

/* What each sequence should hold: a number for each token. The cache keeps it as token t's first K
 * element (f32). */
typedef struct model {
  size_t len[SEQS];
  float token[SEQS][LONGEST];
} model;

static float *slot(const mt_kv *kv, size_t seq, size_t t, uint32_t layer, uint32_t head, bool v) {
  char *at = v ? mt_kv_v(kv, seq, t / MT_KV_BLOCK, layer, head)
               : mt_kv_k(kv, seq, t / MT_KV_BLOCK, layer, head);
  return (float *)(void *)at + t % MT_KV_BLOCK;
}

static size_t count_wrong(const mt_kv *kv, const model *m, const mt_kv_dims *d) {
  size_t wrong = 0;
  for (size_t s = 0; s < SEQS; s++) {
    wrong += mt_kv_length(kv, s) != m->len[s];
    for (size_t t = 0; t < m->len[s]; t++)
      for (uint32_t l = 0; l < d->n_layers; l++)
        for (uint32_t h = 0; h < d->n_kv_heads_local; h++)
          wrong += *slot(kv, s, t, l, h, false) != m->token[s][t] ||
                   *slot(kv, s, t, l, h, true) != -m->token[s][t];
  }
  return wrong;
}

static void grow(mt_kv *kv, model *m, const mt_kv_dims *d, size_t s, size_t n, float *next) {
  size_t free_blocks = mt_kv_free_blocks(kv);
  int rc = mt_kv_grow(kv, s, n, NULL);
  CU_ASSERT(rc == MT_OK || (rc == MT_ERANGE && mt_kv_free_blocks(kv) == free_blocks));
  if (rc || n <= m->len[s]) return;
  for (size_t t = m->len[s]; t < n; t++) {
    m->token[s][t] = *next += 1;
    for (uint32_t l = 0; l < d->n_layers; l++)
      for (uint32_t h = 0; h < d->n_kv_heads_local; h++) {
        *slot(kv, s, t, l, h, false) = *next;
        *slot(kv, s, t, l, h, true) = -*next;
      }
  }
  m->len[s] = n;
}

/* The same random calls on ranks with 2, 1 and 0 heads: equal outcomes, lengths and counts of
 * blocks at each step. */
static void test_model(void) {
  unsigned long long seed = mt_test_seed();
  static const mt_kv_dims dims[] = {
      {2, 2, 4, MT_KV_F32}, {2, 1, 4, MT_KV_F32}, {2, 0, 4, MT_KV_F32}};
  mt_kv *kv[3];
  static model m[3];
  float next[3] = {0};
  for (int r = 0; r < 3; r++) kv[r] = cache(&dims[r], BLOCKS, SEQS);
  size_t forks = 0, refused = 0;
  for (uint64_t step = 0; step < 3000; step++) {
    size_t what = (size_t)(mt_uniform(seed, 0, step, 0) * 10),
           s = (size_t)(mt_uniform(seed, 0, step, 1) * SEQS);
    size_t to = (size_t)(mt_uniform(seed, 0, step, 2) * SEQS);
    for (int r = 0; r < 3; r++) {
      size_t len = m[r].len[s], n = (size_t)(mt_uniform(seed, 0, step, 3) * (double)(len + 1));
      if (what < 5) {
        size_t more = len + (size_t)(mt_uniform(seed, 0, step, 3) * 90);
        grow(kv[r], &m[r], &dims[r], s, more < LONGEST ? more : LONGEST, &next[r]);
      } else if (what < 7) {
        mt_kv_truncate(kv[r], s, n);
        m[r].len[s] = n;
      } else if (what < 8) {
        mt_kv_drop(kv[r], s);
        m[r].len[s] = 0;
      } else {
        int rc = mt_kv_fork(kv[r], s, to, n, NULL);
        CU_ASSERT(rc == MT_OK || rc == MT_EINVAL || rc == MT_ERANGE);
        CU_ASSERT((rc == MT_EINVAL) == (m[r].len[to] > 0 || n > len));
        forks += rc == MT_OK && n > 0;
        refused += rc == MT_ERANGE;
        if (rc == MT_OK) memmove(m[r].token[to], m[r].token[s], n * sizeof(float));
        if (rc == MT_OK) m[r].len[to] = n;
      }
      CU_ASSERT(mt_kv_free_blocks(kv[r]) + mt_kv_used_blocks(kv[r]) == BLOCKS);
      CU_ASSERT(mt_kv_free_blocks(kv[r]) == mt_kv_free_blocks(kv[0]));
      for (size_t i = 0; i < SEQS; i++) CU_ASSERT(mt_kv_length(kv[r], i) == mt_kv_length(kv[0], i));
    }
    if (step % 10 == 0)
      for (int r = 0; r < 3; r++) CU_ASSERT_FATAL(count_wrong(kv[r], &m[r], &dims[r]) == 0);
  }
  printf("%zu forks, %zu refused\n", forks, refused);
  CU_ASSERT(forks > 50 && refused > 5);
  for (int r = 0; r < 3; r++) {
    for (size_t s = 0; s < SEQS; s++) mt_kv_drop(kv[r], s);
    CU_ASSERT(mt_kv_free_blocks(kv[r]) == BLOCKS);
    mt_kv_free(kv[r]);
  }
}

/* Forks share their full blocks: the memory of one. */
static void test_sharing(void) {
  const mt_kv_dims d = {1, 1, 8, MT_KV_F16};
  mt_kv *kv = cache(&d, 10, 4);
  CU_ASSERT(mt_kv_grow(kv, 0, 3 * MT_KV_BLOCK + 5, NULL) == MT_OK && mt_kv_used_blocks(kv) == 4);
  CU_ASSERT(mt_kv_fork(kv, 0, 1, 3 * MT_KV_BLOCK + 5, NULL) == MT_OK && mt_kv_used_blocks(kv) == 5);
  CU_ASSERT(mt_kv_fork(kv, 1, 2, 3 * MT_KV_BLOCK, NULL) == MT_OK && mt_kv_used_blocks(kv) == 5);
  for (size_t b = 0; b < 3; b++) CU_ASSERT(mt_kv_k(kv, 0, b, 0, 0) == mt_kv_k(kv, 2, b, 0, 0));
  CU_ASSERT(mt_kv_k(kv, 0, 3, 0, 0) != mt_kv_k(kv, 1, 3, 0, 0));
  mt_kv_drop(kv, 0);
  CU_ASSERT(mt_kv_used_blocks(kv) == 4);
  mt_kv_truncate(kv, 2, 2 * MT_KV_BLOCK + 1); /* now partial and shared: copied when it grows */
  void *shared = mt_kv_k(kv, 2, 2, 0, 0);
  CU_ASSERT(mt_kv_grow(kv, 2, 2 * MT_KV_BLOCK + 2, NULL) == MT_OK && mt_kv_used_blocks(kv) == 5);
  CU_ASSERT(mt_kv_k(kv, 2, 2, 0, 0) != shared && mt_kv_k(kv, 1, 2, 0, 0) == shared);
  CU_ASSERT(mt_kv_fork(kv, 1, 3, 0, NULL) == MT_OK && mt_kv_length(kv, 3) == 0);
  mt_kv_free(kv);
}

MT_TEST_MAIN("kv", {"law", test_law}, {"refused", test_refused}, {"exhaustion", test_exhaustion},
             {"pointers", test_pointers}, {"model", test_model}, {"sharing", test_sharing})
