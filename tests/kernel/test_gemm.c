/* Matrix products against the recipe written out, against float64, against OpenBLAS; and their
 * laws. That all tables give ref's bits is test_isa's business; here ref and the best table of
 * this CPU are looked at. */
#include <cblas.h>

#include "../../src/kernel/impl.h"
#include "compare.h"

static const char *const TABLES[] = {"ref", NULL};

/* ---- the recipe, element by element from the file's bytes ------------------------------------ */

/* Activations of one block as kernel.h says: integers up to `most`, scale. */
static float quantize_plainly(const float *x, size_t n, float most, int *q) {
  float a = 0;
  for (size_t i = 0; i < n; i++) a = fmaxf(a, fabsf(x[i]));
  if (a < 0x1p-100f) {
    memset(q, 0, n * sizeof *q);
    return 0;
  }
  float r = most / a;
  for (size_t i = 0; i < n; i++) q[i] = (int)rintf(x[i] * r);
  return a / most;
}

static float unit_plainly(const weight *w, size_t row, size_t begin, size_t end, const float *x,
                          float most) {
  mt_dtype type = w->m.type;
  bool quantized = mt_dtype_get(type)->quantized;
  size_t slots = type == MT_Q2_K || type == MT_Q3_K || type == MT_Q6_K ? 16 : 32;
  const uint8_t *file = w->file + row * w->row_bytes;
  float sum = 0;
  for (size_t k = begin, chain = begin; k < end; chain += MT_CHAIN) {
    float acc = 0;
    while (k < end && k < chain + MT_CHAIN) {
      size_t at = w->src_k + k, len = 1;
      if (!quantized) {
        float v;
        size_t size = mt_dtype_get(type)->block_bytes;
        mt_dequantize(type, file + at * size, 1, &v);
        acc = fmaf(v, x[k], acc);
      } else {
        int q[32], dot = 0, sum_q = 0;
        int8_t code[32];
        float dw, mw;
        len = slots - at % slots < end - k ? slots - at % slots : end - k;
        mt_file_block(type, file, at / slots, code, &dw, &mw);
        float da = quantize_plainly(x + k, len, most, q);
        for (size_t i = 0; i < len; i++) {
          dot += code[at % slots + i] * q[i];
          sum_q += q[i];
        }
        acc = fmaf(dw * da, (float)dot, acc);
        if (mt_qinfo_get(type)->has_min) acc = fmaf(mw, da * (float)sum_q, acc);
      }
      k += len;
    }
    sum += acc;
  }
  return sum;
}

static void check_recipe(const weight *w, const mt_kernels *kn, const float *x, size_t ld, size_t n,
                         bool int8) {
  const mt_matrix *m = &w->m;
  float *out = malloc(n * m->rows * sizeof *out);
  int64_t *acc = calloc(n * m->rows, sizeof *acc);
  int exp[MAX_TOKENS];
  mt_act a = {.int8 = int8};
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, m, x, ld, n, NULL), 0);
  for (size_t t = 0; t < n; t++) exp[t] = -20 - (int)t;
  kn->quantize(&a, m, 0, n);
  kn->gemm(m, 0, m->n_panels, &a, 0, n, out, m->rows);
  CU_ASSERT_EQUAL(kn->gemm_units(m, 0, m->n_panels, &a, 0, n, exp, acc, m->rows), 0);
  size_t bad = 0;
  for (size_t t = 0; t < n; t++)
    for (size_t r = 0; r < m->rows; r++) {
      float total = 0;
      int64_t integer = 0;
      for (size_t u = 0; u < m->n_units; u++) {
        float p =
            unit_plainly(w, r, m->unit[u], m->unit[u + 1], x + t * ld, int8 ? 127.0f : 32639.0f);
        total += p;
        integer += (int64_t)rint(ldexp((double)p, -exp[t]));
      }
      bad += memcmp(&total, out + t * m->rows + r, sizeof total) != 0;
      bad += integer != acc[t * m->rows + r];
    }
  CU_ASSERT_EQUAL(bad, 0);
  mt_act_free(&a);
  free(out);
  free(acc);
}

static void test_recipe(void) {
  rng r = {.seed = mt_test_seed()};
  uint32_t unit[1100];
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < N_WEIGHT_TYPES; i++)
      for (size_t c = 0; c < sizeof CUTS / sizeof CUTS[0]; c++) {
        size_t n = 1 + (i + c) % 6, ld = CUTS[c].cols;
        weight w = {0};
        weight_new(&w, &r, kernels(TABLES[k]), WEIGHT_TYPES[i], 18, CUTS[c].cols, CUTS[c].k_begin,
                   unit, cut_units(&CUTS[c], unit), c % 3 ? 8 : 0, c % 3 ? 14 : 0);
        float *x = malloc(n * ld * sizeof *x);
        for (size_t j = 0; j < n * ld; j++) x[j] = j / ld == 3 ? 0 : normalish(&r);
        check_recipe(&w, kernels(TABLES[k]), x, ld, n, false);
        check_recipe(&w, kernels(TABLES[k]), x, ld, n, true);
        free(x);
        weight_free(&w);
      }
}

/* ---- float64 --------------------------------------------------------------------------------- */

/* The exact sum of dequantized weights times prepared activations, and a bound of the rounding
 * errors: each operation errs by at most u = 2^-24 times its result, independently, so the sum
 * stays within a few u times the root of the sum of the results' squares (s after each fma; for
 * quantized types also the roundings of a block's two terms and of the dequantized weights).
 * Five times that root is over eight standard deviations. */
static double oracle(const mt_matrix *m, const float *w, const mt_act *a, size_t t, double *bound) {
  double total = 0, e = 0;
  bool quantized = mt_dtype_get(m->type)->quantized;
  for (size_t u = 0; u < m->n_units; u++) {
    double sum = 0;
    for (size_t c = m->unit_chain[u]; c < m->unit_chain[u + 1]; c++) {
      double s = 0;
      for (size_t i = m->chain[c]; i < m->chain[c + 1]; i++) {
        if (!quantized) {
          s += (double)w[i] * (double)a->x[t * a->ld_x + i];
          e += s * s;
          continue;
        }
        double d = (double)a->scale[t * a->n_blocks + i], term = 0, size = 0;
        for (size_t k = 0; k < m->block[i].len; k++) {
          double p =
              (double)w[m->block[i].begin + k] * d * a->q[t * a->q_stride + i * a->block_slots + k];
          term += p;
          size += fabs(p);
        }
        s += term;
        e += 2 * s * s + 9 * size * size;
      }
      sum += s;
      e += sum * sum;
    }
    total += sum;
    e += total * total;
  }
  *bound = 5 * 0x1p-24 * sqrt(e) + 0x1p-120;
  return total;
}

static void test_float64(void) {
  rng r = {.seed = mt_test_seed()};
  const mt_kernels *kn = kernels(NULL);
  static const uint32_t unit[] = {0, 600, 1200};
  enum { ROWS = 20, COLS = 1200, N = 3 };
  float *x = malloc(N * COLS * sizeof *x), out[N * ROWS];
  for (size_t i = 0; i < N * COLS; i++) x[i] = normalish(&r);
  for (size_t i = 0; i < N_WEIGHT_TYPES; i++) {
    double worst = 0;
    weight w = {0};
    mt_act a = {0};
    weight_new(&w, &r, kn, WEIGHT_TYPES[i], ROWS, COLS, 0, unit, 2, 10, 14);
    float *v = weight_values(&w);
    CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &w.m, x, COLS, N, NULL), 0);
    kn->quantize(&a, &w.m, 0, N);
    kn->gemm(&w.m, 0, w.m.n_panels, &a, 0, N, out, ROWS);
    for (size_t t = 0; t < N; t++)
      for (size_t row = 0; row < ROWS; row++) {
        double bound, want = oracle(&w.m, v + row * COLS, &a, t, &bound);
        double err = fabs((double)out[t * ROWS + row] - want);
        CU_ASSERT(err <= bound);
        if (err / bound > worst) worst = err / bound;
      }
    printf("%s: largest error %.3f of the bound\n", mt_dtype_get(WEIGHT_TYPES[i])->name, worst);
    CU_ASSERT(worst > 0.01); /* a bound that nothing comes near would test nothing */
    free(v);
    mt_act_free(&a);
    weight_free(&w);
  }
  free(x);
}

/* |x − d q| is at most half a step, and hi, lo, sum belong to q. */
static void check_activations(const mt_kernels *kn, bool int8) {
  rng r = {.seed = mt_test_seed()};
  enum { COLS = 500, N = 4 };
  float *x = malloc(N * COLS * sizeof *x);
  for (size_t t = 0; t < N; t++) fill_x(&r, x + t * COLS, COLS, false);
  mt_matrix m;
  mt_act a = {.int8 = int8};
  CU_ASSERT_EQUAL_FATAL(mt_matrix_init(&m, kn, MT_Q4_0, 1, COLS, 17, NULL, 0, NULL), 0);
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &m, x, COLS, 1, NULL), 0); /* then larger */
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &m, x, COLS, N, NULL), 0);
  CU_ASSERT(a.int8 == int8 && !a.lo == int8);
  kn->quantize(&a, &m, 0, N);
  for (size_t t = 0; t < N; t++)
    for (size_t b = 0; b < a.n_blocks; b++) {
      size_t at = t * a.q_stride + b * a.block_slots;
      float d = a.scale[t * a.n_blocks + b];
      int sum = 0;
      for (size_t i = 0; i < a.block_slots; i++) {
        int q = a.q[at + i];
        sum += q;
        CU_ASSERT_EQUAL(q, int8 ? a.hi[at + i] : 256 * a.hi[at + i] + a.lo[at + i]);
        CU_ASSERT(abs(q) <= (int8 ? 127 : 32639));
        if (i >= m.block[b].len) {
          CU_ASSERT_EQUAL(q, 0);
          continue;
        }
        double want = (double)x[t * COLS + m.block[b].begin + i];
        CU_ASSERT(fabs(want - (double)d * q) <= 0.502 * (double)d + 0x1p-100);
      }
      CU_ASSERT_EQUAL(sum, a.sum[t * a.n_blocks + b]);
    }
  mt_act_free(&a);
  mt_matrix_fini(&m);
  free(x);
}

static void test_activations(void) {
  for (size_t k = 0; k < 2; k++) {
    check_activations(kernels(TABLES[k]), false);
    check_activations(kernels(TABLES[k]), true);
  }
}

/* Plain weights do not see it. */
static void test_int8_plain(void) {
  rng r = {.seed = mt_test_seed()};
  enum { ROWS = 20, COLS = 300 };
  float x[COLS], out[2][ROWS];
  for (size_t i = 0; i < COLS; i++) x[i] = normalish(&r);
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < 3; i++) {
      const mt_kernels *kn = kernels(TABLES[k]);
      weight w = {0};
      weight_new(&w, &r, kn, WEIGHT_TYPES[i], ROWS, COLS, 0, NULL, 0, 8, 14);
      for (int v = 0; v < 2; v++) {
        mt_act a = {.int8 = v};
        CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &w.m, x, COLS, 1, NULL), 0);
        kn->quantize(&a, &w.m, 0, 1);
        kn->gemm(&w.m, 0, w.m.n_panels, &a, 0, 1, out[v], ROWS);
        mt_act_free(&a);
      }
      CU_ASSERT(!memcmp(out[0], out[1], sizeof out[0]));
      weight_free(&w);
    }
}

/* ---- OpenBLAS -------------------------------------------------------------------------------- */

static void test_openblas(void) {
  rng r = {.seed = mt_test_seed()};
  enum { ROWS = 67, COLS = 700, N = 7 };
  float *x = malloc(N * COLS * sizeof *x), *want = malloc(N * ROWS * sizeof *x);
  float *out = malloc(N * ROWS * sizeof *x);
  static const uint32_t unit[] = {0, 256, 512, COLS};
  int64_t acc[N * ROWS] = {0};
  int exp[N];
  static const mt_dtype TYPES[] = {MT_F32, MT_F16, MT_BF16};
  static const char *const BOTH[] = {NULL, "openblas"};
  for (size_t i = 0; i < N * COLS; i++) x[i] = normalish(&r);
  for (size_t t = 0; t < N; t++) exp[t] = -34;
  for (size_t i = 0; i < 6; i++) {
    const mt_kernels *kn = kernels(BOTH[i % 2]);
    weight w = {0};
    mt_act a = {0};
    weight_new(&w, &r, kn, TYPES[i / 2], ROWS, COLS, 0, unit, 3, 8, 14);
    float *v = weight_values(&w);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, ROWS, COLS, 1.0f, x, COLS, v, COLS,
                0.0f, want, ROWS);
    CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &w.m, x, COLS, N, NULL), 0);
    kn->quantize(&a, &w.m, 0, N);
    memset(acc, 0, sizeof acc);
    kn->gemm(&w.m, 0, 2, &a, 0, N, out, ROWS);
    kn->gemm(&w.m, 2, w.m.n_panels, &a, 0, N, out, ROWS);
    CU_ASSERT_EQUAL(kn->gemm_units(&w.m, 0, w.m.n_panels, &a, 0, N, exp, acc, ROWS), 0);
    for (size_t t = 0; t < N; t++)
      for (size_t row = 0; row < ROWS; row++) {
        double size = 0;
        for (size_t k = 0; k < COLS; k++)
          size += fabs((double)v[row * COLS + k] * (double)x[t * COLS + k]);
        double got = (double)out[t * ROWS + row], w64 = (double)want[t * ROWS + row];
        double units = ldexp((double)acc[t * ROWS + row], -34);
        CU_ASSERT(fabs(got - w64) <= 40 * 0x1p-24 * size);
        CU_ASSERT(fabs(units - w64) <= 40 * 0x1p-24 * size + 3 * 0x1p-35);
      }
    free(v);
    mt_act_free(&a);
    weight_free(&w);
  }
  free(x);
  free(want);
  free(out);
}

/* ---- laws ------------------------------------------------------------------------------------ */

/* Any range of panels and of input rows gives the bits of the whole; one input row those of
 * many. */
static void test_ranges(void) {
  rng r = {.seed = mt_test_seed()};
  enum { ROWS = 70, COLS = 320, N = 9 };
  float *x = malloc(N * COLS * sizeof *x), *whole = malloc(N * ROWS * sizeof *x);
  float *parts = malloc(N * ROWS * sizeof *x);
  for (size_t i = 0; i < N * COLS; i++) x[i] = normalish(&r);
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < N_WEIGHT_TYPES; i++) {
      const mt_kernels *kn = kernels(TABLES[k]);
      weight w = {0};
      mt_act a = {0}, one = {0};
      weight_new(&w, &r, kn, WEIGHT_TYPES[i], ROWS, COLS, 0, NULL, 0, 8, 16);
      CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &w.m, x, COLS, N, NULL), 0);
      kn->quantize(&a, &w.m, 0, 4);
      kn->quantize(&a, &w.m, 4, N);
      kn->gemm(&w.m, 0, w.m.n_panels, &a, 0, N, whole, ROWS);
      for (size_t p = 0; p < w.m.n_panels; p++) {
        size_t mid = 1 + below(&r, N - 1);
        kn->gemm(&w.m, p, p + 1, &a, 0, mid, parts, ROWS);
        kn->gemm(&w.m, p, p + 1, &a, mid, N, parts, ROWS);
      }
      CU_ASSERT(!memcmp(whole, parts, N * ROWS * sizeof *parts));
      for (size_t t = 0; t < N; t++) {
        CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&one, &w.m, x + t * COLS, COLS, 1, NULL), 0);
        kn->quantize(&one, &w.m, 0, 1);
        kn->gemm(&w.m, 0, w.m.n_panels, &one, 0, 1, parts + t * ROWS, ROWS);
      }
      CU_ASSERT(!memcmp(whole, parts, N * ROWS * sizeof *parts));
      mt_act_free(&a);
      mt_act_free(&one);
      weight_free(&w);
    }
  free(x);
  free(whole);
  free(parts);
}

/* The sharding law: slices of K that hold whole units, each with its own matrix, add up to the
 * whole's integers. */
static void check_shards(rng *r, const mt_kernels *kn, mt_dtype type, size_t width,
                         size_t n_units) {
  enum { ROWS = 19, N = 5 };
  size_t cols = width * n_units;
  uint32_t unit[64];
  float *x = malloc(N * cols * sizeof *x);
  int64_t whole[N * ROWS] = {0}, parts[N * ROWS] = {0}, part[N * ROWS];
  int exp[N];
  for (size_t i = 0; i < N * cols; i++) x[i] = normalish(r);
  for (size_t i = 0; i <= n_units; i++) unit[i] = (uint32_t)(i * width);
  for (size_t t = 0; t < N; t++) exp[t] = -36 + (int)t;
  weight w = {0};
  weight_new(&w, r, kn, type, ROWS, cols, 0, unit, n_units, 8, 14);
  for (size_t begin = 0, end; begin < n_units || begin == 0; begin = end) {
    bool all = whole[0] == 0;
    end = all ? n_units : begin + 1 + below(r, n_units - begin);
    weight s = {.file = w.file, .row_bytes = w.row_bytes, .src_k = begin * width};
    mt_act a = {0};
    weight_pack(&s, kn, type, ROWS, (end - begin) * width, begin * width, unit, end - begin);
    CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &s.m, x + begin * width, cols, N, NULL), 0);
    kn->quantize(&a, &s.m, 0, N);
    CU_ASSERT_EQUAL(kn->gemm_units(&s.m, 0, s.m.n_panels, &a, 0, N, exp, part, ROWS), 0);
    for (size_t i = 0; i < N * ROWS; i++) *(all ? whole + i : parts + i) += part[i];
    mt_act_free(&a);
    mt_pages_free(s.m.data, s.m.data_bytes);
    mt_matrix_fini(&s.m);
    if (all) end = 0; /* then the slices */
    if (all && whole[0] == 0) break;
  }
  CU_ASSERT_NOT_EQUAL(whole[0], 0);
  CU_ASSERT(!memcmp(whole, parts, sizeof whole));
  weight_free(&w);
  free(x);
}

static void test_shards(void) {
  rng r = {.seed = mt_test_seed()};
  static const size_t WIDTH[] = {24, 80, 128, 64, 20};
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < N_WEIGHT_TYPES; i++)
      for (size_t w = 0; w < 5; w++)
        check_shards(&r, kernels(TABLES[k]), WEIGHT_TYPES[i], WIDTH[w], 2 + below(&r, 6));
}

/* Sums that are NaN, infinite or too large for the quantum are counted and left out. */
static void test_failures(void) {
  enum { ROWS = 18, COLS = 64 };
  for (size_t k = 0; k < 3; k++) {
    const mt_kernels *kn = kernels(k < 2 ? TABLES[k] : "openblas");
    float w[ROWS * COLS] = {0}, x[3 * COLS] = {0};
    int64_t acc[3 * ROWS];
    int exp[3] = {-20, -50, -20};
    mt_matrix m;
    mt_act a = {0};
    for (size_t i = 0; i < 3 * ROWS; i++) acc[i] = 11;
    for (size_t r = 0; r < ROWS; r++) w[r * COLS] = 1;
    w[5 * COLS] = INFINITY;
    w[17 * COLS] = -0x1p31f; /* × 2^20 is 2^51: just too large */
    w[16 * COLS] = 0x1.fffffep30f;
    x[0] = 1;
    x[COLS] = 2; /* × 2^50 is too large in every row */
    x[2 * COLS] = NAN;
    CU_ASSERT_EQUAL_FATAL(mt_matrix_init(&m, kn, MT_F32, ROWS, COLS, 0, NULL, 0, NULL), 0);
    m.data = mt_pages_alloc(m.data_bytes);
    mt_matrix_pack(&m, 0, ROWS, w, COLS * sizeof *w, 0);
    CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &m, x, COLS, 3, NULL), 0);
    kn->quantize(&a, &m, 0, 3);
    CU_ASSERT_EQUAL(kn->gemm_units(&m, 0, m.n_panels, &a, 0, 1, exp, acc, ROWS), 2);
    CU_ASSERT_EQUAL(acc[0], 1 << 20);
    CU_ASSERT_EQUAL(acc[5], 0);
    CU_ASSERT_EQUAL(acc[17], 0);
    CU_ASSERT_EQUAL(acc[16], (int64_t)ldexp(0x1.fffffep30, 20));
    CU_ASSERT_EQUAL(kn->gemm_units(&m, 0, m.n_panels, &a, 1, 3, exp, acc, ROWS), 2 * ROWS);
    for (size_t i = ROWS; i < 3 * ROWS; i++) CU_ASSERT_EQUAL(acc[i], 0);
    mt_act_free(&a);
    mt_pages_free(m.data, m.data_bytes);
    mt_matrix_fini(&m);
  }
}

/* Sums of 16 rows from one product; returns how many failed. */
enum { PANEL = MT_PANEL_ROWS };
static int one_panel(const mt_kernels *kn, const float sum[PANEL], int64_t acc[PANEL]) {
  float x = 1;
  int exp = 0;
  mt_matrix m;
  mt_act a = {0};
  CU_ASSERT_EQUAL_FATAL(mt_matrix_init(&m, kn, MT_F32, PANEL, 1, 0, NULL, 0, NULL), 0);
  m.data = mt_pages_alloc(m.data_bytes);
  mt_matrix_pack(&m, 0, PANEL, sum, sizeof x, 0);
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &m, &x, 1, 1, NULL), 0);
  int failed = kn->gemm_units(&m, 0, 1, &a, 0, 1, &exp, acc, PANEL);
  mt_pages_free(m.data, m.data_bytes);
  mt_matrix_fini(&m);
  return failed;
}

/* Ties of the rounding to the quantum go to even. */
static void test_ties(void) {
  static const float SUM[PANEL] = {0.5f,  1.5f,  2.5f, -0.5f, -1.5f, -2.5f, 0.75f, -0.75f,
                                   3.25f, 1e-3f, 7,    -7,    0,     4.5f,  5.5f,  -6.5f};
  static const int64_t WANT[PANEL] = {0, 2, 2, 0, -2, -2, 1, -1, 3, 0, 7, -7, 0, 4, 6, -6};
  for (size_t k = 0; k < 2; k++) {
    int64_t acc[PANEL] = {0};
    CU_ASSERT_EQUAL(one_panel(kernels(TABLES[k]), SUM, acc), 0);
    CU_ASSERT(!memcmp(acc, WANT, sizeof acc));
  }
}

/* 2^51 is the first that does not fit, in whole panels too; the float below it fits. */
static void test_limit(void) {
  static const float LIMIT[] = {0x1p51f, -0x1p51f, 0x1.fffffep50f, -0x1.fffffep50f};
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < 4; i++)
      for (size_t row = 0; row < PANEL; row += 5) {
        float sum[PANEL] = {0};
        int64_t acc[PANEL] = {0}, fits = i >= 2;
        sum[row] = LIMIT[i];
        CU_ASSERT_EQUAL(one_panel(kernels(TABLES[k]), sum, acc), !fits);
        CU_ASSERT_EQUAL(acc[row], fits ? (int64_t)LIMIT[i] : 0);
      }
}

MT_TEST_MAIN("kernel gemm", {"recipe", test_recipe}, {"float64", test_float64},
             {"activations", test_activations}, {"int8, plain weights", test_int8_plain},
             {"OpenBLAS", test_openblas}, {"ranges", test_ranges}, {"shards", test_shards},
             {"failures", test_failures}, {"ties", test_ties}, {"limit", test_limit})
