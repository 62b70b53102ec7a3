/* Whether decode asks ahead: the choice follows what is measured, and no bit follows the choice. */
#include <pthread.h>

#include "../../src/kernel/ahead.h"
#include "kernel_test.h"

/* Goes `n` times the way that is chosen, at these costs; every `outlier`th measured one (0: none)
 * is 50 times as much. Returns how often it asked ahead. */
static size_t go(mt_ahead *a, size_t n, double plain, double ahead, size_t outlier) {
  size_t asked = 0, measured = 0;
  for (size_t i = 0; i < n; i++) {
    bool measure, way = mt_ahead_choose(a, &measure);
    double cost = way ? ahead : plain;
    asked += way;
    if (!measure) continue;
    if (outlier && ++measured % outlier == 0) cost *= 50;
    mt_ahead_learn(a, way, cost);
  }
  return asked;
}

/* A way that is a tenth better is gone but for a try now and then, which does not end; one that is
 * a quarter better nearly always. */
static void test_better(void) {
  enum { N = 6400 };
  mt_ahead a = {0}, b = {0}, c = {0};
  size_t asked = go(&a, N, 0.04, 0.036, 0);
  CU_ASSERT_TRUE(asked >= N * 95 / 100 && asked <= N * 99 / 100);
  asked = go(&b, N, 0.036, 0.04, 0);
  CU_ASSERT_TRUE(asked <= N * 5 / 100 && asked >= N / 100);
  asked = go(&c, N, 0.036, 0.045, 0);
  CU_ASSERT_TRUE(asked <= N / 100 && asked >= N / 500);
}

/* What was better becomes worse, in either direction. */
static void test_change(void) {
  enum { N = 6400, SOON = 2000 };
  mt_ahead a = {0};
  go(&a, N, 0.03, 0.04, 0);
  go(&a, SOON, 0.06, 0.04, 0);
  CU_ASSERT_TRUE(go(&a, N, 0.06, 0.04, 0) >= N * 95 / 100);
  go(&a, SOON, 0.03, 0.04, 0);
  CU_ASSERT_TRUE(go(&a, N, 0.03, 0.04, 0) <= N * 5 / 100);
}

/* An interrupted product does not turn the choice for long, nor does the first one. */
static void test_outliers(void) {
  enum { N = 64000, FIRST = 700 };
  for (int way = 0; way < 2; way++) {
    mt_ahead c = {0};
    bool measure;
    for (int i = 0; i <= way; i++) {
      CU_ASSERT_EQUAL(mt_ahead_choose(&c, &measure), i);
      mt_ahead_learn(&c, i, i == way ? 2 : 0.04);
    }
    size_t asked = way ? go(&c, FIRST, 0.05, 0.04, 0) : go(&c, FIRST, 0.04, 0.05, 0);
    CU_ASSERT_TRUE(way ? asked >= FIRST * 90 / 100 : asked <= FIRST * 10 / 100);
  }
  mt_ahead a = {0}, b = {0};
  CU_ASSERT_TRUE(go(&a, N, 0.05, 0.04, 40) >= N * 85 / 100);
  CU_ASSERT_TRUE(go(&b, N, 0.04, 0.05, 40) <= N * 15 / 100);
}

/* Until a time that the clock can tell from the start has passed. */
static void end_later(const mt_ahead_run *r, size_t bytes) {
  while (mt_clock_ns() <= r->start) continue;
  mt_ahead_end(r, bytes);
}

/* Products too short to be timed neither measure nor ask; long ones of one kind share what is
 * known, others don't. */
static void test_kinds(void) {
  const mt_kernels *kn = NULL;
  mt_matrix m;
  mt_ahead_run r, other;
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get("ref", &kn, NULL), 0);
  CU_ASSERT_EQUAL_FATAL(mt_matrix_init(&m, kn, MT_Q4_0, 64, 2048, 0, NULL, 1, NULL), 0);
  for (int i = 0; i < 100; i++) {
    CU_ASSERT_EQUAL(mt_ahead_begin(&r, &m, false, 1024), 0);
    CU_ASSERT_FALSE(r.measure);
  }
  CU_ASSERT_EQUAL(mt_ahead_begin(&r, &m, false, m.data_bytes), 0);
  CU_ASSERT_TRUE(r.measure);
  end_later(&r, m.data_bytes);
  CU_ASSERT_EQUAL(mt_ahead_begin(&other, &m, false, m.data_bytes), MT_AHEAD_BYTES);
  CU_ASSERT_PTR_EQUAL(other.known, r.known);
  CU_ASSERT_TRUE(r.known->cost[false] > 0 && r.known->cost[true] == 0);
  end_later(&other, m.data_bytes);
  CU_ASSERT_TRUE(r.known->cost[true] > 0);
  mt_ahead_begin(&other, &m, true, m.data_bytes);
  CU_ASSERT_PTR_NOT_EQUAL(other.known, r.known);
  m.panel_bytes *= 4;
  mt_ahead_begin(&other, &m, false, m.data_bytes);
  CU_ASSERT_PTR_NOT_EQUAL(other.known, r.known);
  mt_matrix_fini(&m);
}

enum { ROWS = 64, COLS = 1024, INPUTS = 2, HEAD = 64 };

typedef struct bits_job {
  const mt_kernels *kn, *ref;
  const weight *w;
  const mt_act *a;
  bool right;
} bits_job;

/* A thread knows nothing yet, so its first products go both ways. */
static void *both_ways(void *arg) {
  enum { TIMES = 4 };
  bits_job *j = arg;
  const mt_matrix *m = &j->w->m;
  const int exp[INPUTS] = {-20, -21};
  float want[INPUTS * ROWS], out[INPUTS * ROWS];
  int64_t want_acc[INPUTS * ROWS], acc[INPUTS * ROWS];
  j->right = true;
  mt_kernels_set_fp_control();
  for (size_t n = 1; n <= INPUTS; n++) {
    j->ref->gemm(m, 0, m->n_panels, j->a, 0, n, want, ROWS);
    j->ref->gemm_units(m, 0, m->n_panels, j->a, 0, n, exp, want_acc, ROWS);
    for (int i = 0; i < TIMES; i++) {
      memset(out, 0xff, sizeof out);
      memset(acc, 0xff, sizeof acc);
      j->kn->gemm(m, 0, m->n_panels, j->a, 0, n, out, ROWS);
      j->kn->gemm_units(m, 0, m->n_panels, j->a, 0, n, exp, acc, ROWS);
      j->right &= !memcmp(out, want, n * ROWS * sizeof *out);
      j->right &= !memcmp(acc, want_acc, n * ROWS * sizeof *acc);
    }
  }
  return NULL;
}

static void bits_of(const mt_kernels *kn, const mt_kernels *ref, rng *r, mt_dtype type, bool int8) {
  weight w;
  mt_act a = {.int8 = int8};
  pthread_t thread;
  uint32_t unit[COLS / HEAD + 1];
  float *x = aligned_alloc(64, INPUTS * (COLS + 16) * sizeof *x);
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  for (size_t i = 0; i < INPUTS * (COLS + 16); i++) x[i] = normalish(r);
  for (size_t i = 0; i <= COLS / HEAD; i++) unit[i] = (uint32_t)(i * HEAD);
  weight_new(&w, r, kn, type, ROWS, COLS, 0, unit, COLS / HEAD, 10, 14);
  CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &w.m, x, COLS + 16, INPUTS, NULL), 0);
  ref->quantize(&a, &w.m, 0, INPUTS);
  CU_ASSERT_TRUE_FATAL(w.m.data_bytes >= 16 << 10); /* or no way is chosen */
  bits_job j = {.kn = kn, .ref = ref, .w = &w, .a = &a};
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, both_ways, &j), 0);
  pthread_join(thread, NULL);
  CU_ASSERT_TRUE(j.right);
  mt_act_free(&a);
  weight_free(&w);
  free(x);
}

/* Both ways give ref's bits, for one row and for two. */
static void test_bits(void) {
  const mt_kernels *kn = NULL, *ref = NULL;
  rng r = {mt_test_seed(), 0};
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get("ref", &ref, NULL), 0);
  for (const char *const *name = mt_kernels_names(); *name; name++)
    for (int t = 0; t < MT_DTYPE_COUNT; t++) {
      CU_ASSERT_EQUAL_FATAL(mt_kernels_get(*name, &kn, NULL), 0);
      if (!mt_dtype_get((mt_dtype)t)->weight) continue;
      bits_of(kn, ref, &r, (mt_dtype)t, false);
      if (mt_dtype_get((mt_dtype)t)->quantized) bits_of(kn, ref, &r, (mt_dtype)t, true);
    }
}

MT_TEST_MAIN("kernel ahead", {"the better way", test_better},
             {"what was better changes", test_change}, {"outliers", test_outliers},
             {"kinds of products", test_kinds}, {"bits", test_bits})
