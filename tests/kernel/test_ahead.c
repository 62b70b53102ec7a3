/* Whether decode asks ahead: the choice follows what is measured, and no bit follows the choice. */
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

/* A way that is a tenth better is gone but for a try now and then, which does not end. */
static void test_better(void) {
  enum { N = 6400 };
  mt_ahead a = {0}, b = {0};
  size_t asked = go(&a, N, 0.04, 0.036, 0);
  CU_ASSERT_TRUE(asked >= N * 95 / 100 && asked <= N * 99 / 100);
  asked = go(&b, N, 0.036, 0.04, 0);
  CU_ASSERT_TRUE(asked <= N * 5 / 100 && asked >= N / 100);
}

/* What was better becomes worse, in either direction. */
static void test_change(void) {
  enum { N = 6400, SOON = 500 };
  mt_ahead a = {0};
  go(&a, N, 0.03, 0.04, 0);
  go(&a, SOON, 0.06, 0.04, 0);
  CU_ASSERT_TRUE(go(&a, N, 0.06, 0.04, 0) >= N * 95 / 100);
  go(&a, SOON, 0.03, 0.04, 0);
  CU_ASSERT_TRUE(go(&a, N, 0.03, 0.04, 0) <= N * 5 / 100);
}

/* An interrupted product does not turn the choice for long. */
static void test_outliers(void) {
  enum { N = 64000 };
  mt_ahead a = {0}, b = {0};
  CU_ASSERT_TRUE(go(&a, N, 0.05, 0.04, 40) >= N * 85 / 100);
  CU_ASSERT_TRUE(go(&b, N, 0.04, 0.05, 40) <= N * 15 / 100);
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
  mt_ahead_end(&r, m.data_bytes);
  CU_ASSERT_EQUAL(mt_ahead_begin(&other, &m, false, m.data_bytes), MT_AHEAD_BYTES);
  CU_ASSERT_PTR_EQUAL(other.known, r.known);
  CU_ASSERT_TRUE(r.known->cost[false] > 0 && r.known->cost[true] == 0);
  mt_ahead_end(&other, m.data_bytes);
  CU_ASSERT_TRUE(r.known->cost[true] > 0);
  mt_ahead_begin(&other, &m, true, m.data_bytes);
  CU_ASSERT_PTR_NOT_EQUAL(other.known, r.known);
  m.panel_bytes *= 4;
  mt_ahead_begin(&other, &m, false, m.data_bytes);
  CU_ASSERT_PTR_NOT_EQUAL(other.known, r.known);
  mt_matrix_fini(&m);
}

/* The first products of a kind go both ways: all of them give ref's bits. */
static void test_bits(void) {
  enum { ROWS = 64, COLS = 1024, TIMES = 6 };
  const mt_kernels *ref = NULL;
  rng r = {mt_test_seed(), 0};
  float *x = aligned_alloc(64, (COLS + 16) * sizeof *x);
  float want[ROWS], out[ROWS];
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get("ref", &ref, NULL), 0);
  for (size_t i = 0; i < COLS + 16; i++) x[i] = normalish(&r);
  for (const char *const *name = mt_kernels_names(); *name; name++)
    for (int t = 0; t < MT_DTYPE_COUNT; t++) {
      const mt_kernels *kn = NULL;
      weight w;
      mt_act a = {0};
      if (!mt_dtype_get((mt_dtype)t)->weight) continue;
      CU_ASSERT_EQUAL_FATAL(mt_kernels_get(*name, &kn, NULL), 0);
      weight_new(&w, &r, kn, (mt_dtype)t, ROWS, COLS, 0, NULL, 1, 10, 18);
      CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &w.m, x, COLS + 16, 1, NULL), 0);
      ref->quantize(&a, &w.m, 0, 1);
      ref->gemm(&w.m, 0, w.m.n_panels, &a, 0, 1, want, ROWS);
      for (int i = 0; i < TIMES; i++) {
        memset(out, 0xff, sizeof out);
        kn->gemm(&w.m, 0, w.m.n_panels, &a, 0, 1, out, ROWS);
        CU_ASSERT_FALSE(memcmp(out, want, sizeof out));
      }
      mt_act_free(&a);
      weight_free(&w);
    }
  free(x);
}

MT_TEST_MAIN("kernel ahead", {"the better way", test_better},
             {"what was better changes", test_change}, {"outliers", test_outliers},
             {"kinds of products", test_kinds}, {"bits", test_bits})
