/* One table against another, by memcmp: what every instruction set must pass against ref. Also
 * run on tables that this CPU lacks, through an emulation. */
#ifndef MT_KERNEL_COMPARE_H
#define MT_KERNEL_COMPARE_H

#include "kernel_test.h"

/* A way to cut K. */
typedef struct cut {
  size_t cols, k_begin;
  size_t unit; /* width of the units; 0: one */
} cut;

/* Tails, units that cut blocks (24, 80), borders inside blocks and super-blocks, several chains. */
static const cut CUTS[] = {{256, 0, 0},    {1, 0, 0},       {37, 13, 0},   {144, 24, 24},
                           {400, 240, 80}, {640, 128, 128}, {300, 7, 300}, {1000, 300, 600},
                           {96, 250, 1},   {520, 520, 260}};
static const size_t ROW_COUNTS[] = {1, 5, 16, 17, 40};

enum { MAX_TOKENS = 9, MANY_TOKENS = 203, PAD = 5 };

static inline size_t cut_units(const cut *c, uint32_t *unit) {
  size_t n = 0, width = c->unit ? c->unit : c->cols;
  unit[0] = 0;
  while (unit[n] < c->cols) {
    size_t next = unit[n] + width < c->cols ? unit[n] + width : c->cols;
    unit[++n] = (uint32_t)next;
  }
  return n;
}

/* Rows of very different sizes; `special` puts a NaN and an infinity into some. */
static inline void fill_x(rng *r, float *x, size_t n, bool special) {
  float size = ldexpf(1, (int)below(r, 40) - 20);
  if (below(r, 6) == 0) size = 0;
  if (below(r, 8) == 0) size = ldexpf(1, -140);
  if (below(r, 8) == 0) size = ldexpf(1, 60);
  for (size_t i = 0; i < n; i++) x[i] = normalish(r) * size;
  if (special && n > 3) {
    x[below(r, n)] = NAN;
    x[below(r, n)] = -INFINITY;
  }
}

static inline bool same_acts(const mt_act *a, const mt_act *b, size_t begin, size_t end) {
  bool ok = true;
  for (size_t t = begin; t < end && a->n_blocks; t++) {
    size_t q = t * a->q_stride, n = a->n_blocks * a->block_slots, s = t * a->n_blocks;
    ok = ok && !memcmp(a->q + q, b->q + q, n * 2) && !memcmp(a->hi + q, b->hi + q, n) &&
         (a->int8 ? !a->lo && !b->lo : !memcmp(a->lo + q, b->lo + q, n)) &&
         same_floats(a->scale + s, b->scale + s, a->n_blocks) &&
         !memcmp(a->sum + s, b->sum + s, a->n_blocks * 4);
  }
  return ok;
}

static inline void start_sums(float *out, int64_t *acc, size_t n) {
  for (size_t i = 0; i < n; i++) {
    out[i] = 7;
    acc[i] = (int64_t)i - 40;
  }
}

/* One row or two at a time, for which kernels have a way of their own, give what ref gave for all:
 * out, acc, and how many sums failed. */
static inline void compare_few(const mt_kernels *kn, const mt_matrix *m, const mt_act *a,
                               size_t begin, const int *exp, const float *out, const int64_t *acc,
                               int failed) {
  size_t ld = m->rows + PAD, n = a->n_rows * ld;
  float *few_out = malloc(n * sizeof *few_out);
  int64_t *few_acc = malloc(n * sizeof *few_acc);
  for (size_t few = 1; few <= 2; few++) {
    int f = 0;
    start_sums(few_out, few_acc, n);
    for (size_t t = begin, end; t < a->n_rows; t = end) {
      end = t + few < a->n_rows ? t + few : a->n_rows;
      kn->gemm(m, 0, m->n_panels, a, t, end, few_out, ld);
      f += kn->gemm_units(m, 0, m->n_panels, a, t, end, exp, few_acc, ld);
    }
    CU_ASSERT(same_floats(few_out, out, n));
    CU_ASSERT(!memcmp(few_acc, acc, n * sizeof *acc));
    CU_ASSERT_EQUAL(f, failed);
  }
  free(few_out);
  free(few_acc);
}

static inline void compare_products(const mt_kernels *kn, const mt_kernels *ref, const weight *w,
                                    const float *x, size_t ld_x, size_t n_tokens, bool int8) {
  const mt_matrix *m = &w->m;
  size_t ld = m->rows + PAD, n = n_tokens * ld, skip = n_tokens > 4 ? 1 : 0;
  float *out = malloc(2 * n * sizeof *out);
  int64_t *acc = malloc(2 * n * sizeof *acc);
  int exp[MANY_TOKENS];
  mt_act a = {.int8 = int8}, b = {.int8 = int8};
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, m, x, ld_x, n_tokens, NULL), 0);
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&b, m, x, ld_x, n_tokens, NULL), 0);
  if (n_tokens % 2) { /* a row in two parts */
    for (size_t t = 0; t < n_tokens; t++) {
      kn->quantize_blocks(&a, m, t, a.n_blocks / 3, a.n_blocks);
      kn->quantize_blocks(&a, m, t, 0, a.n_blocks / 3);
    }
  } else {
    kn->quantize(&a, m, 0, n_tokens);
  }
  ref->quantize(&b, m, 0, n_tokens);
  CU_ASSERT(same_acts(&a, &b, 0, n_tokens));
  start_sums(out, acc, n);
  start_sums(out + n, acc + n, n);
  /* A row that fails takes the slow way, and those beside it with it: not in every product. */
  for (size_t t = 0; t < n_tokens; t++)
    exp[t] = t == 3 && n_tokens % 4 == 0 ? 2000 : (int)(t % 16) * 7 - 70;
  kn->gemm(m, 0, m->n_panels, &a, skip, n_tokens, out, ld);
  ref->gemm(m, 0, m->n_panels, &b, skip, n_tokens, out + n, ld);
  CU_ASSERT(same_floats(out, out + n, n));
  int f = kn->gemm_units(m, 0, m->n_panels, &a, skip, n_tokens, exp, acc, ld);
  int g = ref->gemm_units(m, 0, m->n_panels, &b, skip, n_tokens, exp, acc + n, ld);
  CU_ASSERT_EQUAL(f, g);
  CU_ASSERT(!memcmp(acc, acc + n, n * sizeof *acc));
  compare_few(kn, m, &a, skip, exp, out + n, acc + n, g);
  mt_act_free(&a);
  mt_act_free(&b);
  free(out);
  free(acc);
}

static inline void compare_gemm(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  static const int SCALES[][2] = {{8, 16}, {0, 0}, {28, 30}};
  uint32_t unit[1100];
  size_t round = 0;
  for (size_t i = 0; i < N_WEIGHT_TYPES; i++)
    for (size_t c = 0; c < sizeof CUTS / sizeof CUTS[0]; c++)
      for (size_t k = 0; k < 3; k++, round++) {
        const int *e = SCALES[k];
        size_t rows = ROW_COUNTS[round % (sizeof ROW_COUNTS / sizeof ROW_COUNTS[0])];
        size_t n_tokens = 1 + round % MAX_TOKENS, ld = CUTS[c].cols + 3;
        weight w = {0};
        weight_new(&w, r, ref, WEIGHT_TYPES[i], rows, CUTS[c].cols, CUTS[c].k_begin, unit,
                   cut_units(&CUTS[c], unit), e[0], e[1]);
        float *x = malloc((n_tokens * ld + 1) * sizeof *x);
        for (size_t t = 0; t < n_tokens; t++)
          fill_x(r, x + 1 + t * ld, ld, round % 11 == 0 && t == 2);
        compare_products(kn, ref, &w, x + 1, ld, n_tokens, false);
        compare_products(kn, ref, &w, x + 1, ld, n_tokens, true);
        free(x);
        weight_free(&w);
      }
}

/* More input rows than any loop of the kernels takes at once, an odd number of panels; tiles for
 * caches of several sizes. */
static inline void compare_many(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  enum { COLS = 300 };
  static const uint64_t L2_BYTES[] = {1 << 20, 256 << 10, 1, 120 << 10};
  static float x[MANY_TOKENS * COLS];
  fill_x(r, x, MANY_TOKENS * COLS, false);
  for (size_t i = 0; i < N_WEIGHT_TYPES; i++) {
    weight w = {0};
    size_t cols = COLS / mt_dtype_get(WEIGHT_TYPES[i])->block_elems *
                  mt_dtype_get(WEIGHT_TYPES[i])->block_elems;
    weight_new(&w, r, ref, WEIGHT_TYPES[i], 37, cols, 0, NULL, 0, 8, 16);
    mt_kernels_set_cache(L2_BYTES[i % 4]);
    compare_products(kn, ref, &w, x, COLS, MANY_TOKENS - i % 7, i % 2);
    weight_free(&w);
  }
  mt_kernels_set_cache(0);
}

/* The largest integer sums that codes and activations can give: a product that saturates or
 * wraps shows here. */
static inline void compare_extremes(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  static const uint8_t BYTES[] = {0xff, 0x80, 0x7f, 0x81, 0x00};
  enum { COLS = 512, N = 6 };
  static float x[N * COLS];
  for (size_t t = 0; t < N; t++)
    for (size_t i = 0; i < COLS; i++) {
      /* 32639 = 127 · 256 + 127 and 32384 = 127 · 256 − 128: both halves at either end */
      float v = i % 16 == 0 || t % 3 == 0 ? 1.0f : 32384.0f / 32639.0f;
      x[t * COLS + i] = t % 2 || (t == 4 && i % 2) ? -v : v;
    }
  for (size_t i = 3; i < N_WEIGHT_TYPES; i++)
    for (size_t b = 0; b < sizeof BYTES; b++) {
      weight w = {0};
      weight_new(&w, r, ref, WEIGHT_TYPES[i], 16, COLS, 0, NULL, 0, 8, 8);
      uniform_file(WEIGHT_TYPES[i], w.file, 16 * w.row_bytes, BYTES[b]);
      mt_matrix_pack(&w.m, 0, 16, w.file, w.row_bytes, 0);
      compare_products(kn, ref, &w, x, COLS, N, false);
      compare_products(kn, ref, &w, x, COLS, N, true);
      weight_free(&w);
    }
}

/* Two units: the first of weights as they come, the second of zeros, but for one row of the
 * weight, and with inputs of zero, but for one row. So one sum is out of range, wherever it is put:
 * it alone is counted and left out, which makes every integer what the first unit alone gives. */
enum { BEYOND_ROWS = 40, BEYOND_TOKENS = 9 };

typedef struct beyond {
  weight w;
  size_t half; /* columns of a unit, and as many bytes of a row of the file */
  size_t half_bytes;
  float *x; /* [BEYOND_TOKENS][2 × half] */
  int exp[BEYOND_TOKENS];
  int64_t want[BEYOND_TOKENS * BEYOND_ROWS];
} beyond;

/* The second unit of a row: zeros, or weights that do not add up to 0. */
static inline void beyond_set_row(beyond *b, size_t row, bool set) {
  const mt_dtype type = b->w.m.type;
  uint8_t *at = b->w.file + row * b->w.row_bytes;
  memset(at + b->half_bytes, set ? 0x3c : 0, b->half_bytes);
  if (set && mt_qinfo_get(type)) uniform_file(type, at + b->half_bytes, b->half_bytes, 0x12);
  mt_matrix_pack(&b->w.m, row, 1, at, b->w.row_bytes, 0);
}

static inline void beyond_set_input(beyond *b, size_t t, float x) {
  for (size_t i = 0; i < b->half; i++) b->x[t * 2 * b->half + b->half + i] = x;
}

static inline void beyond_new(beyond *b, const mt_kernels *ref, rng *r, mt_dtype type) {
  const mt_dtype_info *info = mt_dtype_get(type);
  b->half = info->block_elems < 32 ? 32 : info->block_elems;
  b->half_bytes = mt_dtype_row_bytes(type, b->half);
  const uint32_t unit[] = {0, (uint32_t)b->half, (uint32_t)(2 * b->half)};
  b->x = malloc(BEYOND_TOKENS * 2 * b->half * sizeof *b->x);
  weight_new(&b->w, r, ref, type, BEYOND_ROWS, 2 * b->half, 0, unit, 2, 8, 14);
  for (size_t row = 0; row < BEYOND_ROWS; row++) beyond_set_row(b, row, false);
  for (size_t t = 0; t < BEYOND_TOKENS; t++) {
    b->exp[t] = -20 + (int)t;
    for (size_t i = 0; i < b->half; i++) b->x[t * 2 * b->half + i] = normalish(r);
    beyond_set_input(b, t, 0);
  }
  mt_act a = {0};
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &b->w.m, b->x, 2 * b->half, BEYOND_TOKENS, NULL), 0);
  ref->quantize(&a, &b->w.m, 0, BEYOND_TOKENS);
  CU_ASSERT_EQUAL(ref->gemm_units(&b->w.m, 0, b->w.m.n_panels, &a, 0, BEYOND_TOKENS, b->exp,
                                  b->want, BEYOND_ROWS),
                  0);
  mt_act_free(&a);
}

static inline void beyond_free(beyond *b) {
  weight_free(&b->w);
  free(b->x);
}

/* Input rows [begin, end), among them the one whose sum with a row of the weight is too large. */
static inline void beyond_check(const beyond *b, const mt_kernels *kn, const mt_act *a,
                                size_t begin, size_t end) {
  int64_t acc[BEYOND_TOKENS * BEYOND_ROWS];
  memset(acc, 1, sizeof acc);
  int failed = kn->gemm_units(&b->w.m, 0, b->w.m.n_panels, a, begin, end, b->exp, acc, BEYOND_ROWS);
  CU_ASSERT_EQUAL(failed, 1);
  const size_t from = begin * BEYOND_ROWS, n = (end - begin) * BEYOND_ROWS;
  CU_ASSERT(!memcmp(acc + from, b->want + from, n * sizeof *acc));
}

/* Of many input rows, of two and alone. */
static inline void beyond_at(beyond *b, const mt_kernels *kn, size_t row, size_t t) {
  mt_act a = {0};
  const size_t pair = t + 1 < BEYOND_TOKENS ? t : t - 1;
  beyond_set_row(b, row, true);
  beyond_set_input(b, t, t % 2 ? -0x1p60f : 0x1p60f);
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &b->w.m, b->x, 2 * b->half, BEYOND_TOKENS, NULL), 0);
  kn->quantize(&a, &b->w.m, 0, BEYOND_TOKENS);
  beyond_check(b, kn, &a, 0, BEYOND_TOKENS);
  beyond_check(b, kn, &a, pair, pair + 2);
  beyond_check(b, kn, &a, t, t + 1);
  mt_act_free(&a);
  beyond_set_row(b, row, false);
  beyond_set_input(b, t, 0);
}

/* Everywhere for a plain and a quantized type; in each half of a panel for the others. */
static inline void compare_beyond(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  static const size_t ROWS[] = {2, 12, 18, 29, 33, 39};
  for (size_t i = 0; i < N_WEIGHT_TYPES; i++) {
    const mt_dtype type = WEIGHT_TYPES[i];
    beyond b;
    beyond_new(&b, ref, r, type);
    if (type == MT_F32 || type == MT_Q8_0) {
      for (size_t row = 0; row < BEYOND_ROWS; row++)
        for (size_t t = 0; t < BEYOND_TOKENS; t++) beyond_at(&b, kn, row, t);
    } else {
      for (size_t k = 0; k < sizeof ROWS / sizeof ROWS[0]; k++)
        beyond_at(&b, kn, ROWS[k], below(r, BEYOND_TOKENS));
    }
    beyond_free(&b);
  }
}

/* Numbers of every kind: tiny, huge, exact halves, special. */
static inline float any_float(rng *r) {
  switch (below(r, 12)) {
    case 0: return ldexpf(normalish(r), (int)below(r, 250) - 125);
    case 1: return (float)(int)below(r, 200) - 100 + 0.5f;
    case 2: return below(r, 2) ? 0.0f : -0.0f;
    case 3: return 104 * (normalish(r) > 0 ? 1.0f : -1.0f) + normalish(r);
    case 4: return ldexpf(normalish(r), -140);
    case 5: return below(r, 20) ? normalish(r) : below(r, 2) ? INFINITY : -INFINITY;
    case 6: return below(r, 20) ? normalish(r) : NAN;
    default: return normalish(r) * 20;
  }
}

static inline void compare_rows(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  enum { MAX = 100 };
  float x[MAX], y[MAX], a[MAX], b[MAX];
  for (size_t round = 0; round < 400; round++) {
    size_t n = 1 + round % (MAX - 1), even = n / 2 * 2;
    for (size_t i = 0; i < n; i++) {
      x[i] = round % 2 ? any_float(r) : normalish(r);
      y[i] = round % 4 > 1 ? any_float(r) : normalish(r);
    }
    float s = kn->sum_squares(x, n), t = ref->sum_squares(x, n);
    CU_ASSERT(same_floats(&s, &t, 1));
    for (int op = 0; op < 8; op++) {
      const mt_kernels *k[2] = {kn, ref};
      float *out[2] = {a, b}, mean[2] = {0, 0};
      for (int v = 0; v < 2; v++) {
        for (size_t i = 0; i < MAX; i++) out[v][i] = i < n && op >= 4 ? x[i] : 3;
        switch (op) {
          case 0: mean[v] = k[v]->rmsnorm(x, round % 3 ? y : NULL, n, 1e-5f, out[v]); break;
          case 1: k[v]->silu_mul(x, y, n, out[v]); break;
          case 2: k[v]->gelu_mul(x, y, n, out[v]); break;
          case 3: k[v]->exp(x, n, out[v]); break;
          case 4: k[v]->add(out[v], y, n); break;
          case 5: k[v]->scale(out[v], y[0], n); break;
          case 6: k[v]->rope(out[v], y, x, even); break;
          default: k[v]->silu_mul(out[v], y, n, out[v]); break; /* in place */
        }
      }
      CU_ASSERT(same_floats(a, b, MAX));
      CU_ASSERT(same_floats(&mean[0], &mean[1], 1));
    }
  }
}

/* ---- rows of the vocabulary ------------------------------------------------------------------ */

static inline void compare_widen(const mt_kernels *kn, const mt_kernels *ref, rng *r, size_t n) {
  enum { MAX = 320 };
  static const float ENDS[] = {-INFINITY, -0.0f, 0, 3e38f, -3e38f, 0x1p-149f};
  float x[MAX];
  double y[2][MAX] = {{0}}, max[2][MAX / MT_LOGIT_BLOCK] = {{0}};
  for (size_t i = 0; i < n; i++) x[i] = below(r, 3) ? normalish(r) : ENDS[below(r, 6)];
  if (n % 3 == 0)
    for (size_t i = n / 2; i < n; i++) x[i] = -INFINITY;
  CU_ASSERT(kn->widen(x, n, y[0], max[0]) && ref->widen(x, n, y[1], max[1]));
  CU_ASSERT(!memcmp(y[0], y[1], sizeof y[0]) && !memcmp(max[0], max[1], sizeof max[0]));
  x[below(r, n)] = n % 2 ? NAN : INFINITY;
  CU_ASSERT(!kn->widen(x, n, y[0], max[0]) && !ref->widen(x, n, y[1], max[1]));
}

/* Over all that an exponent can be, to where results are subnormal numbers and 0. */
static inline void compare_exp64(const mt_kernels *kn, rng *r, size_t n) {
  enum { MAX = 320 };
  double x[MAX], y[MAX], from = (double)normalish(r) * 10;
  size_t differ = 0;
  for (size_t i = 0; i < n; i++) {
    double u = uniform(r);
    x[i] = from - (n % 3 == 0 ? u : n % 3 == 1 ? 30 * u : 760 * u);
    if (below(r, 9) == 0) x[i] = below(r, 2) ? from : below(r, 2) ? -INFINITY : -1.7e308;
    if (below(r, 9) == 0) x[i] = from - 745.133 - u / 1000;
  }
  kn->exp64(x, from, n, y);
  for (size_t i = 0; i < n; i++) {
    double want = mt_exp64(x[i] - from);
    differ += memcmp(&y[i], &want, sizeof want) != 0;
  }
  CU_ASSERT_EQUAL(differ, 0);
  kn->exp64(x, from, n, x);
  CU_ASSERT(!memcmp(x, y, n * sizeof *x));
}

/* Keys that tie with the bounds, at every alignment. */
static inline double a_key(rng *r, double lo, double hi) {
  switch (below(r, 8)) {
    case 0: return lo;
    case 1: return hi;
    case 2: return -INFINITY;
    default: return 3 * uniform(r) - 2;
  }
}
static inline void compare_cut(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  enum { N = MT_LOGIT_BLOCK, AT = 3 };
  double key[N + AT], value[2][N + AT], e[2][N + AT], sum[2];
  size_t at = below(r, AT + 1);
  uint64_t within[2];
  double lo = uniform(r) - 1, hi = below(r, 4) ? lo + uniform(r) : lo;
  for (size_t i = 0; i < N + AT; i++) {
    key[i] = a_key(r, lo, hi);
    value[0][i] = value[1][i] = normalish(r);
    e[0][i] = e[1][i] = below(r, 3) ? uniform(r) : below(r, 2) ? 0 : 0x1p-1000;
  }
  sum[0] = kn->sum_above(key + at, e[0] + at, lo, hi, &within[0]);
  sum[1] = ref->sum_above(key + at, e[1] + at, lo, hi, &within[1]);
  CU_ASSERT(!memcmp(&sum[0], &sum[1], sizeof sum[0]) && within[0] == within[1]);
  double share = below(r, 2) ? uniform(r) : 0x1p-80;
  kn->keep(key + at, lo, share, value[0] + at, e[0] + at);
  ref->keep(key + at, lo, share, value[1] + at, e[1] + at);
  CU_ASSERT(!memcmp(value[0], value[1], sizeof value[0]) && !memcmp(e[0], e[1], sizeof e[0]));
  kn->temper(value[0] + at, hi, 0.7);
  ref->temper(value[1] + at, hi, 0.7);
  CU_ASSERT(!memcmp(value[0], value[1], sizeof value[0]));
  kn->keep(value[0], lo, share, value[0], e[0]); /* the key itself */
  ref->keep(value[1], lo, share, value[1], e[1]);
  CU_ASSERT(!memcmp(value[0], value[1], sizeof value[0]) && !memcmp(e[0], e[1], sizeof e[0]));
}

static inline void compare_vocab(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  for (size_t n = 1; n <= 320; n++) {
    compare_widen(kn, ref, r, n);
    for (int k = 0; k < 10; k++) compare_exp64(kn, r, n);
    compare_cut(kn, ref, r);
  }
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { MAX_BLOCKS = MT_ATTN_SEGMENT / MT_KV_BLOCK, MAX_DIM = 256 };

/* The blocks of one segment. */
typedef struct cache {
  mt_kv_type type;
  size_t head_dim, bytes;
  uint8_t *mem;
  const void *k[MAX_BLOCKS], *v[MAX_BLOCKS];
} cache;

static inline void cache_new(cache *c, mt_kv_type type, size_t head_dim) {
  *c = (cache){.type = type, .head_dim = head_dim, .bytes = mt_kv_k_bytes(type, head_dim)};
  CU_ASSERT_EQUAL(c->bytes % 64, 0);
  c->mem = mt_pages_alloc(2 * MAX_BLOCKS * c->bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c->mem);
  for (size_t b = 0; b < MAX_BLOCKS; b++) {
    c->k[b] = c->mem + 2 * b * c->bytes;
    c->v[b] = c->mem + (2 * b + 1) * c->bytes;
  }
}

static inline void cache_free(cache *c) {
  mt_pages_free(c->mem, 2 * MAX_BLOCKS * c->bytes);
}

static inline void cache_store(cache *c, const mt_kernels *kn, size_t j, const float *k,
                               const float *v) {
  size_t b = j / MT_KV_BLOCK;
  kn->kv_store(c->type, c->head_dim, (void *)(uintptr_t)c->k[b], (void *)(uintptr_t)c->v[b],
               j % MT_KV_BLOCK, k, v);
}

static inline void compare_attention_case(const mt_kernels *kn, const mt_kernels *ref, rng *r,
                                          mt_kv_type type, size_t head_dim, size_t n,
                                          bool special) {
  cache c, d;
  cache_new(&c, type, head_dim);
  cache_new(&d, type, head_dim);
  float q[MAX_DIM], k[MAX_DIM], v[MAX_DIM];
  for (size_t j = 0; j < n; j++) {
    for (size_t i = 0; i < head_dim; i++) {
      k[i] = special && j % 7 == 3 ? any_float(r) : normalish(r);
      v[i] = special && j % 5 == 3 ? any_float(r) : normalish(r);
    }
    cache_store(&c, kn, j, k, v);
    cache_store(&d, ref, j, k, v);
  }
  CU_ASSERT(!memcmp(c.mem, d.mem, 2 * MAX_BLOCKS * c.bytes));
  const float loud = below(r, 3) ? 3 : 25; /* weights that underflow, too */
  for (size_t i = 0; i < head_dim; i++) q[i] = normalish(r) * loud;
  static float probs[2][MT_ATTN_SEGMENT], acc[4][MAX_DIM], out[2][MAX_DIM];
  size_t mid = n / 3 + 1 < n ? n / 3 + 1 : n;
  mt_attn_part part[2][2];
  for (int t = 0; t < 2; t++) {
    const mt_kernels *kt = t ? ref : kn;
    for (int i = 0; i < 2; i++) part[t][i].acc = acc[2 * t + i];
    kt->attend(type, head_dim, q, 0.25f, d.k, d.v, 0, mid, &part[t][0], probs[t]);
    size_t lo = mid < n ? mid : 0;
    kt->attend(type, head_dim, q, 0.25f, d.k, d.v, lo, n, &part[t][1], NULL);
  }
  CU_ASSERT(same_floats(probs[0], probs[1], mid));
  for (int i = 0; i < 2; i++) {
    CU_ASSERT(same_floats(&part[0][i].max, &part[1][i].max, 1));
    CU_ASSERT(same_floats(&part[0][i].sum, &part[1][i].sum, 1));
    CU_ASSERT(same_floats(part[0][i].acc, part[1][i].acc, head_dim));
  }
  kn->attend_merge(head_dim, &part[0][0], &part[0][1]);
  ref->attend_merge(head_dim, &part[1][0], &part[1][1]);
  kn->attend_finish(head_dim, &part[0][0], out[0]);
  ref->attend_finish(head_dim, &part[1][0], out[1]);
  CU_ASSERT(same_floats(&part[0][0].sum, &part[1][0].sum, 1));
  CU_ASSERT(same_floats(part[0][0].acc, part[1][0].acc, head_dim));
  CU_ASSERT(same_floats(out[0], out[1], head_dim));
  cache_free(&c);
  cache_free(&d);
}

/* Several queries with ranges of their own; what lies outside a range is NaN. */
static inline void compare_attend_many(const mt_kernels *kn, const mt_kernels *ref, rng *r,
                                       mt_kv_type type, size_t head_dim, size_t n) {
  cache c;
  cache_new(&c, type, head_dim);
  static float q[MT_ATTEND_QUERIES][MAX_DIM], acc[2][MT_ATTEND_QUERIES][MAX_DIM];
  float x[MAX_DIM];
  size_t lo[MT_ATTEND_QUERIES], hi[MT_ATTEND_QUERIES], first = MT_ATTN_SEGMENT, last = 0;
  const float *qs[MT_ATTEND_QUERIES];
  mt_attn_part part[2][MT_ATTEND_QUERIES];
  for (size_t t = 0; t < n; t++) {
    lo[t] = below(r, 3) ? below(r, 40) : below(r, MT_ATTN_SEGMENT);
    hi[t] = below(r, 3) ? lo[t] + 1 + below(r, MT_ATTN_SEGMENT - lo[t]) : MT_ATTN_SEGMENT;
    first = lo[t] < first ? lo[t] : first;
    last = hi[t] > last ? hi[t] : last;
    const float loud = below(r, 3) ? 3 : 25; /* weights that underflow, too */
    for (size_t i = 0; i < head_dim; i++) q[t][i] = normalish(r) * loud;
    qs[t] = q[t];
    for (int k = 0; k < 2; k++) part[k][t].acc = acc[k][t];
  }
  for (size_t j = 0; j < MT_ATTN_SEGMENT; j++) {
    for (size_t i = 0; i < head_dim; i++)
      x[i] = j < first || j >= last ? NAN : below(r, 999) ? normalish(r) : INFINITY;
    cache_store(&c, ref, j, x, x);
  }
  float *scratch = malloc(mt_attend_scratch_floats(head_dim) * sizeof *scratch);
  kn->attend_many(type, head_dim, n, qs, 0.25f, c.k, c.v, lo, hi, below(r, 2) ? c.k[0] : NULL,
                  part[0], scratch);
  for (size_t t = 0; t < n; t++) {
    ref->attend(type, head_dim, q[t], 0.25f, c.k, c.v, lo[t], hi[t], &part[1][t], NULL);
    CU_ASSERT(same_floats(&part[0][t].max, &part[1][t].max, 1));
    CU_ASSERT(same_floats(&part[0][t].sum, &part[1][t].sum, 1));
    CU_ASSERT(same_floats(acc[0][t], acc[1][t], head_dim));
  }
  free(scratch);
  cache_free(&c);
}

/* Weights about the least normal number and the least number, where exp goes other ways: tiles of
 * keys whose scores are all near one another, from above −86 to below −104 below the maximum, which
 * the first tile has. Each key behind it has a dimension of its own, in which its value is 2^100,
 * so that no weight hides behind a larger one. Against ref, and against float64. */
static inline void compare_small_weights(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  enum { DIM = MAX_DIM, TILE = MT_KV_TILE, KEYS = TILE + DIM };
  cache c;
  cache_new(&c, MT_KV_F32, DIM);
  static float q[MT_ATTEND_QUERIES][DIM], acc[3][MT_ATTEND_QUERIES][DIM], p[2][KEYS];
  static float s[KEYS];
  const float *qs[MT_ATTEND_QUERIES];
  size_t lo[MT_ATTEND_QUERIES], hi[MT_ATTEND_QUERIES];
  mt_attn_part part[3][MT_ATTEND_QUERIES];
  for (size_t j = 0; j < KEYS; j++) {
    float k[DIM] = {0}, v[DIM] = {0};
    if (j >= TILE) {
      k[0] = s[j] = -84.5f - 1.25f * (float)(j / TILE - 1) - 0.3f * (float)uniform(r);
      v[j - TILE] = 0x1p100f;
    }
    cache_store(&c, ref, j, k, v);
  }
  for (size_t t = 0; t < MT_ATTEND_QUERIES; t++) {
    q[t][0] = 1 + 0.003f * (float)t; /* so scores pass over the steps between the tiles */
    qs[t] = q[t];
    lo[t] = 0;
    hi[t] = KEYS;
    for (int k = 0; k < 3; k++) part[k][t].acc = acc[k][t];
  }
  float *scratch = malloc(mt_attend_scratch_floats(DIM) * sizeof *scratch);
  kn->attend_many(c.type, DIM, MT_ATTEND_QUERIES, qs, 1, c.k, c.v, lo, hi, NULL, part[0], scratch);
  free(scratch);
  for (size_t t = 0; t < MT_ATTEND_QUERIES; t++) {
    kn->attend(c.type, DIM, q[t], 1, c.k, c.v, 0, KEYS, &part[1][t], p[0]);
    ref->attend(c.type, DIM, q[t], 1, c.k, c.v, 0, KEYS, &part[2][t], p[1]);
    CU_ASSERT(same_floats(p[0], p[1], KEYS));
    for (int k = 0; k < 2; k++) {
      CU_ASSERT(part[k][t].max == 0 && part[k][t].sum == TILE);
      CU_ASSERT(same_floats(acc[k][t], acc[2][t], DIM));
    }
    for (size_t d = 0; d < DIM; d++) {
      const float x = s[TILE + d] * q[t][0];
      const double want = x < -104 ? 0 : exp((double)x);
      CU_ASSERT(fabs(ldexp((double)acc[0][t][d], -100) - want) <= 0x1p-149 + 0x1p-22 * want);
    }
  }
  cache_free(&c);
}

static inline void compare_attention(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  static const size_t DIMS[] = {1, 8, 12, 24, 40, 64, 80, 128, 200};
  static const size_t COUNTS[] = {1, 2, 15, 16, 17, 64, 65, 130, 511, 512};
  static const mt_kv_type TYPES[] = {MT_KV_F16, MT_KV_F32, MT_KV_Q8};
  for (size_t t = 0; t < 3; t++)
    for (size_t d = 0; d < sizeof DIMS / sizeof DIMS[0]; d++)
      for (size_t n = 0; n < sizeof COUNTS / sizeof COUNTS[0]; n++)
        compare_attention_case(kn, ref, r, TYPES[t], DIMS[d], COUNTS[n], (n + d) % 3 == 0);
  for (size_t t = 0; t < 3; t++)
    for (size_t d = 0; d < sizeof DIMS / sizeof DIMS[0]; d++)
      for (size_t n = 1; n <= MT_ATTEND_QUERIES; n++)
        compare_attend_many(kn, ref, r, TYPES[t], DIMS[d], n);
  compare_small_weights(kn, ref, r);
}

/* ---- sums over ranks ------------------------------------------------------------------------- */

/* Any magnitude up to `bits` bits; now and then a border of what the kernels treat apart. */
static inline int64_t any_sum(rng *r, unsigned bits) {
  static const unsigned BORDERS[] = {24, 51, 53, 54, 61};
  uint64_t size = ((uint64_t)below(r, 1u << 31) << 32 | (uint64_t)below(r, 1ull << 32)) >>
                  (63 - 1 - below(r, bits));
  if (below(r, 8) == 0) size = (1ull << BORDERS[below(r, 5)]) + below(r, 3) - 1;
  return below(r, 2) ? (int64_t)size : -(int64_t)size;
}

/* What rounding once gives, and twice (to double first, then to float) does not; and where results
 * begin to be infinite. Whole vectors, since kernels leave a rest to ref. */
static inline void check_rounding(const mt_kernels *kn) {
  static const struct {
    int64_t sum;
    int exp;
    float want;
  } CASES[] = {
      /* just above a tie that is even below, just below one that is even above */
      {(1ll << 54) + (1 << 30) + 1, 70, 0x1.000002p124f},
      {(1ll << 54) + (1 << 30) + 1, 65, 0x1.000002p119f},
      {(1ll << 54) + (1 << 30) + 1, 64, 0x1.000002p118f},
      {(1ll << 54) + (1 << 30) + 1, 0, 0x1.000002p54f},
      {(1ll << 54) + (1 << 30) + 1, -126, 0x1.000002p-72f},
      {(1ll << 54) + (1 << 30) + 1, -127, 0x1.000002p-73f},
      {(1ll << 54) + (1 << 30) + 1, -170, 0x1.000002p-116f},
      {-(1ll << 54) - (1 << 30) - 1, 70, -0x1.000002p124f},
      {-(1ll << 54) - (1 << 30) - 1, -127, -0x1.000002p-73f},
      {(1ll << 54) + (3ll << 30) - 1, 70, 0x1.000002p124f},
      {(1ll << 54) + (3ll << 30) - 1, -150, 0x1.000002p-96f},
      {(1ll << 53) + (1 << 29) + 1, 66, 0x1.000002p119f},
      {(1ll << 53) + (1 << 29) + 1, -130, 0x1.000002p-77f},
      {(1ll << 62) + (1ll << 38) + 1, 65, 0x1.000002p127f},
      {(1ll << 62) + (1ll << 38) + 1, -127, 0x1.000002p-65f},
      /* the ties themselves */
      {(1ll << 54) + (1 << 30), 70, 0x1p124f},
      {(1ll << 54) + (3ll << 30), -127, 0x1.000004p-73f},
      {1, -150, 0},
      {3, -150, 0x1p-148f},
      {-5, -150, -0x1p-148f},
      {(1 << 20) + 1, -170, 0x1p-149f},
      /* the largest */
      {INT64_MAX, 64, 0x1p127f},
      {INT64_MIN, 64, -0x1p127f},
      {INT64_MAX, 65, INFINITY},
      {INT64_MIN, 65, -INFINITY},
      {INT64_MAX - (1ll << 38), 65, 0x1.fffffep127f},
      {INT64_MAX - (1ll << 38) + 1, 65, INFINITY},
      {1, 128, INFINITY},
      {1, 127, 0x1p127f},
  };
  enum { N = 16 };
  for (size_t c = 0; c < sizeof CASES / sizeof CASES[0]; c++) {
    int64_t sum[N];
    float out[N], want[N];
    for (size_t i = 0; i < N; i++) {
      sum[i] = CASES[c].sum;
      want[i] = CASES[c].want;
    }
    CU_ASSERT_EQUAL(kn->round_sums(sum, N, CASES[c].exp, out), !isinf(CASES[c].want));
    CU_ASSERT(same_floats(out, want, N));
  }
}

/* A tie of f32, or beside it by so little that it is one as a double. */
static inline int64_t near_tie(rng *r) {
  unsigned shift = 30 + (unsigned)below(r, 10); /* of a 24-bit significand: up to 2^63 */
  uint64_t v = (2 * ((1ull << 23) + below(r, 1 << 23)) + 1) << (shift - 1), by = 1;
  if (below(r, 2)) by = 1 + below(r, 1ull << (shift - 30)); /* up to half a unit of the double */
  v = below(r, 5) ? below(r, 2) ? v + by : v - by : v;
  return below(r, 2) ? (int64_t)v : -(int64_t)v;
}

/* At exponents on both sides of where kernels round another way. */
static inline void compare_ties(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  static const int EXPS[] = {-170, -151, -150, -149, -148, -127, -126, -125, 0,
                             63,   64,   65,   66,   67,   126,  127,  128,  170};
  enum { N = 64 };
  for (size_t e = 0; e < sizeof EXPS / sizeof EXPS[0]; e++)
    for (int round = 0; round < 8; round++) {
      int64_t sum[N];
      float x[N], y[N], want[N]; /* a long double holds any sum */
      bool finite = true;
      for (size_t i = 0; i < N; i++) {
        sum[i] = round % 2 && below(r, 2) ? any_sum(r, 62) : near_tie(r);
        want[i] = (float)ldexpl((long double)sum[i], EXPS[e]);
        finite = finite && !isinf(want[i]);
      }
      CU_ASSERT_EQUAL(kn->round_sums(sum, N, EXPS[e], x), finite);
      CU_ASSERT_EQUAL(ref->round_sums(sum, N, EXPS[e], y), finite);
      CU_ASSERT(same_floats(x, want, N) && same_floats(y, want, N));
    }
}

static inline void compare_sums(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  enum { MOST = 150, PARTS = 5 };
  static int64_t data[PARTS][MOST], a[MOST], b[MOST];
  float x[MOST], y[MOST];
  const int64_t *part[PARTS];
  for (size_t p = 0; p < PARTS; p++) part[p] = data[p];
  for (size_t round = 0; round < 6000; round++) {
    size_t at = below(r, 20), n = below(r, MOST - 20), n_parts = below(r, PARTS + 1);
    unsigned limit = 40 + (unsigned)below(r, 23), bits = round % 3 ? limit : 62;
    int exp = (int)below(r, 341) - 170;
    for (size_t p = 0; p < PARTS; p++)
      for (size_t i = 0; i < MOST; i++) data[p][i] = any_sum(r, bits);
    if (round % 4 == 0) data[below(r, PARTS)][below(r, MOST)] = (1ll << limit) - (int)below(r, 2);
    if (round % 4 == 1) data[below(r, PARTS)][below(r, MOST)] = -(1ll << limit) - (int)below(r, 2);
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    CU_ASSERT_EQUAL(kn->sum_parts(part, n_parts, at, n, limit, a),
                    ref->sum_parts(part, n_parts, at, n, limit, b));
    CU_ASSERT(!memcmp(a, b, sizeof a));
    for (size_t i = 0; i < MOST; i++) x[i] = y[i] = 3;
    CU_ASSERT_EQUAL(kn->round_sums(data[0] + at, n, exp, x),
                    ref->round_sums(data[0] + at, n, exp, y));
    CU_ASSERT(same_floats(x, y, MOST));
  }
  check_rounding(kn);
  check_rounding(ref);
  compare_ties(kn, ref, r);
}

/* Units without columns have no sums: where a row's exponent is none, that of the one unit with
 * columns counts. */
static inline void compare_empty_units(const mt_kernels *kn, const mt_kernels *ref, rng *r) {
  enum { ROWS = MT_PANEL_ROWS, COLS = 32, TOKENS = 3 };
  static const uint32_t unit[] = {0, 0, COLS, COLS};
  const int exp[TOKENS] = {2000, -20, -2000};
  int64_t acc[2][TOKENS * ROWS];
  float x[TOKENS * COLS];
  weight w = {0};
  mt_act a = {0};
  for (size_t i = 0; i < TOKENS * COLS; i++) x[i] = normalish(r);
  weight_new(&w, r, ref, MT_Q8_0, ROWS, COLS, 0, unit, 3, 8, 16);
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &w.m, x, COLS, TOKENS, NULL), 0);
  ref->quantize(&a, &w.m, 0, TOKENS);
  CU_ASSERT_EQUAL(ref->gemm_units(&w.m, 0, 1, &a, 0, TOKENS, exp, acc[0], ROWS), 2 * ROWS);
  CU_ASSERT_EQUAL(kn->gemm_units(&w.m, 0, 1, &a, 0, TOKENS, exp, acc[1], ROWS), 2 * ROWS);
  CU_ASSERT(!memcmp(acc[0], acc[1], sizeof acc[0]));
  mt_act_free(&a);
  weight_free(&w);
}

#endif
