/* The avxvnni kernels against ref by memcmp, on any x86-64: the same source over an
 * emulation, under other names. */
#include "compare.h"

#if defined(__x86_64__)
#include "simde512.h"
#define mt_gemm_avxvnni         emu_gemm_avxvnni
#define mt_gemm_units_avxvnni   emu_gemm_units_avxvnni
#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32
#include "../../src/kernel/avx2/gemm_vnni.c"

static mt_kernels emulated(void) {
  mt_kernels kn = *kernels("avx2");
  kn.isa = "avxvnni (emulated)";
  kn.gemm = mt_gemm_avxvnni;
  kn.gemm_units = mt_gemm_units_avxvnni;
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

MT_TEST_MAIN("kernel avxvnni, emulated", {"gemm", test_gemm}, {"self-test", test_self_test})
#else
static void test_elsewhere(void) {
  printf("skipped: not x86-64\n");
  CU_ASSERT_PTR_NOT_NULL(kernels("ref"));
}
MT_TEST_MAIN("kernel avxvnni, emulated", {"elsewhere", test_elsewhere})
#endif
