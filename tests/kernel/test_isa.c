/* Every exact table that this CPU can run against ref, by memcmp, and the numeric self-test. */
#include "compare.h"

static void each_table(void (*fn)(const mt_kernels *, const mt_kernels *, rng *)) {
  rng r = {.seed = mt_test_seed()};
  for (const char *const *name = mt_kernels_names(); *name; name++) {
    if (!strcmp(*name, "ref")) continue;
    printf("%s against ref\n", *name);
    fn(kernels(*name), kernels("ref"), &r);
  }
  CU_ASSERT_STRING_EQUAL(kernels("ref")->isa, "ref");
}

static void test_gemm(void) {
  each_table(compare_gemm);
}
static void test_extremes(void) {
  each_table(compare_many);
  each_table(compare_extremes);
}
static void test_beyond(void) {
  rng r = {.seed = mt_test_seed()};
  compare_beyond(kernels("ref"), kernels("ref"), &r);
  each_table(compare_beyond);
}
static void test_rows(void) {
  each_table(compare_rows);
}
static void test_vocab(void) {
  each_table(compare_vocab);
}
static void test_attention(void) {
  each_table(compare_attention);
}
static void test_sums(void) {
  each_table(compare_sums);
}

static void test_empty_units(void) {
  each_table(compare_empty_units);
}

/* The bits of every recipe, on every CPU and by every compiler. Whoever changes a recipe on
 * purpose changes this. */
#define SELF_TEST_HASH 0x7832d71941a0286cull

static void test_self_test(void) {
  uint64_t ref = mt_kernels_self_test(kernels("ref"));
  CU_ASSERT_EQUAL(ref, SELF_TEST_HASH);
  for (const char *const *name = mt_kernels_names(); *name; name++)
    CU_ASSERT_EQUAL(mt_kernels_self_test(kernels(*name)), ref);
}

/* A table with one kernel changed must not pass the self-test as ref does. */
static void scale_wrong(float *x, float a, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] *= a + 1e-7f;
}
/* One row, as in decode, goes a way of its own; so do sums of usual size. */
static void gemm_wrong(const mt_matrix *m, size_t p0, size_t p1, const mt_act *a, size_t r0,
                       size_t r1, float *out, size_t ld) {
  kernels("ref")->gemm(m, p0, p1, a, r0, r1, out, ld);
  if (r1 - r0 == 1) out[r0 * ld] += 1;
}
static int units_wrong(const mt_matrix *m, size_t p0, size_t p1, const mt_act *a, size_t r0,
                       size_t r1, const int *exp, int64_t *acc, size_t ld) {
  int failed = kernels("ref")->gemm_units(m, p0, p1, a, r0, r1, exp, acc, ld);
  if (r1 - r0 == 2) acc[r0 * ld]++;
  return failed;
}
static bool round_wrong(const int64_t *sum, size_t n, int exp, float *out) {
  bool within = kernels("ref")->round_sums(sum, n, exp, out);
  if (exp > -126) out[n - 1] *= 1 + 0x1p-23f;
  return within;
}
static void test_self_test_sees(void) {
  const mt_kernels *ref = kernels("ref");
  mt_kernels broken[4] = {*ref, *ref, *ref, *ref};
  broken[0].scale = scale_wrong;
  broken[1].gemm = gemm_wrong;
  broken[2].gemm_units = units_wrong;
  broken[3].round_sums = round_wrong;
  for (size_t i = 0; i < 4; i++)
    CU_ASSERT_NOT_EQUAL(mt_kernels_self_test(&broken[i]), mt_kernels_self_test(ref));
}

/* What this CPU or another kind of CPU lacks is refused by name. */
static void test_lacking(void) {
  static const char *const KNOWN[] = {"avx2", "avxvnni", "avx512", "avx512vnni", "neon", "neondot"};
  size_t n_lacking = 0;
  for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
    const mt_kernels *kn = NULL;
    const char *const *name = mt_kernels_names();
    mt_err e = {0};
    while (*name && strcmp(*name, KNOWN[i])) name++;
    if (*name) continue;
    n_lacking++;
    CU_ASSERT_EQUAL(mt_kernels_get(KNOWN[i], &kn, &e), MT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, KNOWN[i]));
  }
  CU_ASSERT(n_lacking >= 2); /* those of the other architecture */
}

static void test_get(void) {
  const mt_kernels *kn = NULL;
  mt_err e = {0};
  CU_ASSERT_EQUAL(mt_kernels_get("sse9", &kn, &e), MT_EINVAL);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, "sse9"));
  for (const char *const *name = mt_kernels_names(); *name; name++)
    CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, *name));
  unsetenv("MUTIRAO_ISA");
  CU_ASSERT_EQUAL(mt_kernels_get(NULL, &kn, &e), 0);
  CU_ASSERT_STRING_EQUAL(kn->isa, mt_kernels_names()[0]);
  const char *best = getenv("MT_TEST_BEST_ISA"); /* known of CPUs that are emulated */
  if (best) CU_ASSERT_STRING_EQUAL(kn->isa, best);
  setenv("MUTIRAO_ISA", "ref", 1);
  CU_ASSERT_EQUAL(mt_kernels_get("auto", &kn, &e), 0);
  CU_ASSERT_STRING_EQUAL(kn->isa, "ref");
  setenv("MUTIRAO_ISA", "nonsense", 1);
  CU_ASSERT_EQUAL(mt_kernels_get(NULL, &kn, &e), MT_EINVAL);
  CU_ASSERT_EQUAL(mt_kernels_get(mt_kernels_names()[0], &kn, &e), 0);
  unsetenv("MUTIRAO_ISA");
  CU_ASSERT_EQUAL(mt_kernels_get("openblas", &kn, &e), MT_EINVAL); /* never by a name of these */
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get("ref", &kn, &e), 0);
  const mt_kernels *blas = NULL;
  CU_ASSERT_EQUAL_FATAL(mt_kernels_openblas(kn, &blas, &e), 0);
  CU_ASSERT_FALSE(blas->exact);
  CU_ASSERT(blas->attend_many == kn->attend_many); /* the rest is the table's that was given */
}

MT_TEST_MAIN("kernel isa", {"gemm", test_gemm}, {"extremes", test_extremes},
             {"one sum out of range", test_beyond}, {"rows", test_rows}, {"vocabulary", test_vocab},
             {"attention", test_attention}, {"sums", test_sums}, {"empty units", test_empty_units},
             {"self-test", test_self_test}, {"self-test sees a change", test_self_test_sees},
             {"get", test_get}, {"lacking", test_lacking})
