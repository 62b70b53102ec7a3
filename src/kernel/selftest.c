/* The numeric self-test: every kernel of a table on fixed inputs, hashed. Ranks compare the hash
 * at start-up. */
#include <stdlib.h>

#include "impl.h"

enum { ROWS = 21, COLS = 544, N_TOKENS = 5, HEAD_DIM = 40, N_KEYS = 150, SEED = 20261130 };

typedef struct state {
  const mt_kernels *kn;
  uint64_t hash;
  uint64_t position; /* of the next random number */
} state;

static float random_f32(state *s) {
  return (float)(mt_uniform(SEED, 0, s->position++, 0) * 4 - 2);
}

static void random_row(state *s, float *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = random_f32(s);
}

/* A NaN would be hashed with bits that no recipe fixes; the inputs give none. */
static void add_hash(state *s, const void *p, size_t n) {
  s->hash = mt_hash64(s->hash, p, n);
}

/* The f16 at p becomes an ordinary number: exponent 8 … 11 of 31. */
static void tame_f16(uint8_t *p) {
  p[1] = (uint8_t)((p[1] & 0x8f) | 0x20);
}

/* Any bytes are a valid block, except that scales must be ordinary numbers. */
static void random_weights(state *s, mt_dtype type, uint8_t *w, size_t bytes) {
  if (type == MT_F32) {
    random_row(s, (float *)(void *)w, bytes / 4);
    return;
  }
  for (size_t i = 0; i < bytes; i++) w[i] = (uint8_t)(mt_uniform(SEED, 0, s->position++, 0) * 256);
  const mt_qinfo *qi = mt_qinfo_get(type);
  size_t step = mt_dtype_get(type)->block_bytes;
  for (size_t at = 0; at < bytes; at += step)
    if (qi && qi->scale == MT_SCALE_E8M0) {
      w[at + qi->d_at] = (uint8_t)(118 + (w[at + qi->d_at] & 7));
    } else {
      tame_f16(w + at + (qi ? qi->d_at : 0));
      if (qi) tame_f16(w + at + qi->m_at);
    }
}

/* One row, two, and all: kernels have a way of their own for few. */
static void test_products(state *s, const mt_matrix *m, const mt_act *a) {
  static const size_t share[][2] = {{0, 1}, {1, 3}, {0, N_TOKENS}};
  static const int exp[N_TOKENS] = {-30, -31, -32, -20, -40};
  float out[N_TOKENS * ROWS] = {0};
  int64_t acc[N_TOKENS * ROWS] = {0};
  for (size_t i = 0; i < sizeof share / sizeof share[0]; i++) {
    const size_t r0 = share[i][0], r1 = share[i][1];
    s->kn->gemm(m, 0, m->n_panels, a, r0, r1, out, ROWS);
    int failed = s->kn->gemm_units(m, 0, m->n_panels, a, r0, r1, exp, acc, ROWS);
    add_hash(s, &failed, sizeof failed);
    add_hash(s, out, sizeof out);
    add_hash(s, acc, sizeof acc);
  }
}

static void test_gemm(state *s, mt_dtype type, bool int8, const float *x) {
  static const uint32_t unit[] = {0, 272, 290, COLS - 32};
  const mt_dtype_info *t = mt_dtype_get(type);
  size_t file_cols = 768, row_bytes = mt_dtype_row_bytes(type, file_cols), cols = COLS - 32;
  mt_matrix m = {0};
  mt_act a = {.int8 = int8};
  uint8_t *file = mt_malloc(ROWS, row_bytes);
  size_t begin = t->quantized ? 24 : 0;
  bool ok = file && !mt_matrix_init(&m, s->kn, type, ROWS, cols, begin, unit, 3, NULL);
  m.data = ok ? mt_pages_alloc(m.data_bytes) : NULL;
  ok = m.data && !mt_act_reserve(&a, &m, x, cols, N_TOKENS, NULL);
  if (ok) {
    random_weights(s, type, file, ROWS * row_bytes);
    mt_matrix_pack(&m, 0, ROWS, file, row_bytes, begin);
    s->kn->quantize(&a, &m, 0, N_TOKENS);
    test_products(s, &m, &a);
  }
  mt_pages_free(m.data, m.data_bytes);
  mt_act_free(&a);
  mt_matrix_fini(&m);
  free(file);
}

static void test_rows(state *s, const float *x) {
  enum { N = 77 };
  float w[N], y[N], mean = s->kn->sum_squares(x, N);
  random_row(s, w, N);
  add_hash(s, &mean, sizeof mean);
  mean = s->kn->rmsnorm(x, w, N, 1e-5f, y);
  add_hash(s, &mean, sizeof mean);
  s->kn->rope(y, w, x, 2 * (N / 2));
  s->kn->add(y, x, N);
  s->kn->scale(y, 1.7f, N);
  add_hash(s, y, sizeof y);
  s->kn->silu_mul(x, w, N, y);
  add_hash(s, y, sizeof y);
  s->kn->gelu_mul(x, w, N, y);
  add_hash(s, y, sizeof y);
  for (size_t i = 0; i < N; i++) w[i] = x[i] * 60;
  s->kn->exp(w, N, y);
  add_hash(s, y, sizeof y);
}

static void test_vocab(state *s, const float *x) {
  enum { N = 2 * MT_LOGIT_BLOCK + 9 };
  double y[3 * MT_LOGIT_BLOCK], max[3];
  bool fine = s->kn->widen(x, N, y, max);
  add_hash(s, &fine, sizeof fine);
  add_hash(s, y, sizeof y);
  add_hash(s, max, sizeof max);
  for (size_t i = 0; i < N; i++) y[i] = 190 * (y[i] - 2); /* −760 … 0 */
  s->kn->exp64(y, 0, N, y);
  add_hash(s, y, N * sizeof *y);
  uint64_t within;
  double sum = s->kn->sum_above(y, y + 1, 1e-200, 1e-20, &within);
  add_hash(s, &sum, sizeof sum);
  add_hash(s, &within, sizeof within);
  s->kn->temper(y + 1, 1e-3, 0.7);
  s->kn->keep(y, 1e-150, 1e-100, y, y + MT_LOGIT_BLOCK);
  add_hash(s, y, N * sizeof *y);
}

static void test_attend_many(state *s, mt_kv_type type, const float *x, const void *const *k,
                             const void *const *v) {
  enum { N = 3 };
  const float *q[N] = {x, x + 1, x + 2};
  const size_t lo[N] = {0, 5, 64}, hi[N] = {70, N_KEYS, 71};
  float acc[N][HEAD_DIM] = {{0}}, *scratch = mt_malloc(mt_attend_scratch_floats(HEAD_DIM), 4);
  mt_attn_part part[N] = {{.acc = acc[0]}, {.acc = acc[1]}, {.acc = acc[2]}};
  if (scratch) s->kn->attend_many(type, HEAD_DIM, N, q, 0.3f, k, v, lo, hi, NULL, part, scratch);
  for (size_t t = 0; t < N; t++) {
    add_hash(s, &part[t].max, sizeof part[t].max);
    add_hash(s, &part[t].sum, sizeof part[t].sum);
  }
  add_hash(s, acc, sizeof acc);
  free(scratch);
}

static void test_attention(state *s, mt_kv_type type, const float *x) {
  enum { N_BLOCKS = (N_KEYS + MT_KV_BLOCK - 1) / MT_KV_BLOCK };
  size_t bytes = mt_kv_k_bytes(type, HEAD_DIM);
  uint8_t *mem = mt_pages_alloc(2 * N_BLOCKS * bytes);
  if (!mem) return;
  const void *k[N_BLOCKS], *v[N_BLOCKS];
  for (size_t b = 0; b < N_BLOCKS; b++) {
    k[b] = mem + 2 * b * bytes;
    v[b] = mem + (2 * b + 1) * bytes;
  }
  for (size_t j = 0; j < N_KEYS; j++)
    s->kn->kv_store(type, HEAD_DIM, mem + 2 * (j / MT_KV_BLOCK) * bytes,
                    mem + (2 * (j / MT_KV_BLOCK) + 1) * bytes, j % MT_KV_BLOCK, x + 3 * j,
                    x + 5 * j + 1);
  add_hash(s, mem, 2 * N_BLOCKS * bytes);
  float acc[2][HEAD_DIM], out[HEAD_DIM];
  mt_attn_part part[2] = {{.acc = acc[0]}, {.acc = acc[1]}};
  s->kn->attend(type, HEAD_DIM, x, 0.3f, k, v, 0, 70, &part[0], NULL);
  s->kn->attend(type, HEAD_DIM, x, 0.3f, k, v, 70, N_KEYS, &part[1], NULL);
  s->kn->attend_merge(HEAD_DIM, &part[0], &part[1]);
  s->kn->attend_finish(HEAD_DIM, &part[0], out);
  add_hash(s, acc, sizeof acc);
  add_hash(s, out, sizeof out);
  test_attend_many(s, type, x, k, v);
  mt_pages_free(mem, 2 * N_BLOCKS * bytes);
}

static void test_sums(state *s) {
  enum { N = 83, PARTS = 3 };
  int64_t part[PARTS][N], sum[N];
  float out[N];
  const int64_t *const p[PARTS] = {part[0], part[1], part[2]};
  for (size_t i = 0; i < N; i++)
    for (size_t k = 0; k < PARTS; k++)
      part[k][i] = (int64_t)(mt_uniform(SEED, 0, s->position++, 0) * 0x1p62) >> (i % 60);
  bool within = s->kn->sum_parts(p, PARTS, 0, N, 61, sum);
  add_hash(s, &within, sizeof within);
  add_hash(s, sum, sizeof sum);
  static const int exp[] = {-150, -30}; /* the first to subnormal numbers */
  for (size_t i = 0; i < sizeof exp / sizeof exp[0]; i++) {
    within = s->kn->round_sums(sum, N, exp[i], out);
    add_hash(s, &within, sizeof within);
    add_hash(s, out, sizeof out);
  }
}

uint64_t mt_kernels_self_test(const mt_kernels *kn) {
  state s = {.kn = kn, .hash = MT_HASH_INIT};
  static const mt_kv_type KV[] = {MT_KV_F16, MT_KV_F32, MT_KV_Q8};
  float x[N_TOKENS * COLS];
  random_row(&s, x, N_TOKENS * COLS);
  for (int type = 0; type < MT_DTYPE_COUNT; type++) {
    const mt_dtype_info *t = mt_dtype_get((mt_dtype)type);
    if (t->weight) test_gemm(&s, (mt_dtype)type, false, x);
    if (t->weight && t->quantized) test_gemm(&s, (mt_dtype)type, true, x);
  }
  test_rows(&s, x);
  test_vocab(&s, x);
  for (size_t i = 0; i < sizeof KV / sizeof KV[0]; i++) test_attention(&s, KV[i], x);
  test_sums(&s);
  return s.hash;
}

uint64_t mt_matrix_layout_hash(const mt_kernels *kn, mt_dtype type) {
  static const uint32_t unit[][3] = {{0, 256, 512}, {0, 272, 500}};
  state s = {.kn = kn, .hash = MT_HASH_INIT};
  size_t row_bytes = mt_dtype_row_bytes(type, 768);
  uint8_t *file = mt_malloc(ROWS, row_bytes);
  if (file) random_weights(&s, type, file, ROWS * row_bytes);
  for (size_t i = 0; file && i < 2; i++) {
    mt_matrix m;
    if (mt_matrix_init(&m, kn, type, ROWS, unit[i][2], 0, unit[i], 2, NULL)) break;
    if ((m.data = mt_pages_alloc(m.data_bytes))) {
      mt_matrix_pack(&m, 0, ROWS, file, row_bytes, 0);
      add_hash(&s, m.data, m.data_bytes);
    }
    mt_pages_free(m.data, m.data_bytes);
    mt_matrix_fini(&m);
  }
  free(file);
  return s.hash;
}
