/* The avx512vnni kernels against ref by memcmp, on any x86-64: the same source over an
 * emulation, under other names. */
#include "compare.h"

#if defined(__x86_64__)
#include "simde512.h"
#define mt_gemm_avx512           emu_gemm_avx512
#define mt_gemm_units_avx512     emu_gemm_units_avx512
#define mt_gemm_avx512vnni       emu_gemm_avx512vnni
#define mt_gemm_units_avx512vnni emu_gemm_units_avx512vnni
#include "../../src/kernel/avx512/gemm_vnni.c"

static mt_kernels emulated(void) {
  mt_kernels kn = *kernels("avx2");
  kn.isa = "avx512vnni (emulated)";
  kn.gemm = mt_gemm_avx512vnni;
  kn.gemm_units = mt_gemm_units_avx512vnni;
  return kn;
}

static void test_gemm(void) {
  rng r = {.seed = mt_test_seed()};
  mt_kernels kn = emulated();
  compare_gemm(&kn, kernels("ref"), &r);
  compare_many(&kn, kernels("ref"), &r);
  compare_extremes(&kn, kernels("ref"), &r);
  compare_beyond(&kn, kernels("ref"), &r);
  compare_empty_units(&kn, kernels("ref"), &r);
}

static void test_self_test(void) {
  mt_kernels kn = emulated();
  CU_ASSERT_EQUAL(mt_kernels_self_test(&kn), mt_kernels_self_test(kernels("ref")));
}

MT_TEST_MAIN("kernel avx512vnni, emulated", {"gemm", test_gemm}, {"self-test", test_self_test})
#else
static void test_elsewhere(void) {
  printf("skipped: not x86-64\n");
  CU_ASSERT_PTR_NOT_NULL(kernels("ref"));
}
MT_TEST_MAIN("kernel avx512vnni, emulated", {"elsewhere", test_elsewhere})
#endif
