/* The avx512 kernels against ref by memcmp, on any x86-64: the same source over an emulation,
 * under other names. */
#include "compare.h"

#if defined(__x86_64__)
#include "simde512.h"
#define mt_gemm_avx512           emu_gemm_avx512
#define mt_gemm_units_avx512     emu_gemm_units_avx512
#define mt_gemm_avx512vnni       emu_gemm_avx512vnni
#define mt_gemm_units_avx512vnni emu_gemm_units_avx512vnni
#define mt_attend_avx512         emu_attend_avx512
#define mt_attend_many_avx512    emu_attend_many_avx512
#define mt_widen_avx512          emu_widen_avx512
#define mt_exp64_avx512          emu_exp64_avx512
#define mt_temper_avx512         emu_temper_avx512
#define mt_sum_above_avx512      emu_sum_above_avx512
#define mt_keep_avx512           emu_keep_avx512
#define mt_sum_parts_avx512      emu_sum_parts_avx512
#define mt_round_sums_avx512     emu_round_sums_avx512
#include "../../src/kernel/avx512/gemm.c"
/* Names that two of these sources have. */
#define LANES ATTEND_LANES
#include "../../src/kernel/avx512/attend.c"
#undef LANES
#define LANES      MANY_LANES
#define value_dims many_value_dims
#include "../../src/kernel/avx512/attend_many.c"
#include "../../src/kernel/avx512/sum.c"
#include "../../src/kernel/avx512/vocab.c"

static mt_kernels emulated(void) {
  mt_kernels kn = *kernels("avx2");
  kn.isa = "avx512 (emulated)";
  kn.gemm = mt_gemm_avx512;
  kn.gemm_units = mt_gemm_units_avx512;
  kn.attend = mt_attend_avx512;
  kn.attend_many = mt_attend_many_avx512;
  kn.widen = mt_widen_avx512;
  kn.exp64 = mt_exp64_avx512;
  kn.temper = mt_temper_avx512;
  kn.sum_above = mt_sum_above_avx512;
  kn.keep = mt_keep_avx512;
  kn.sum_parts = mt_sum_parts_avx512;
  kn.round_sums = mt_round_sums_avx512;
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
static void test_attention(void) {
  rng r = {.seed = mt_test_seed()};
  mt_kernels kn = emulated();
  compare_attention(&kn, kernels("ref"), &r);
}
static void test_vocab(void) {
  rng r = {.seed = mt_test_seed()};
  mt_kernels kn = emulated();
  compare_vocab(&kn, kernels("ref"), &r);
}
static void test_sums(void) {
  rng r = {.seed = mt_test_seed()};
  mt_kernels kn = emulated();
  compare_sums(&kn, kernels("ref"), &r);
}
static void test_self_test(void) {
  mt_kernels kn = emulated();
  CU_ASSERT_EQUAL(mt_kernels_self_test(&kn), mt_kernels_self_test(kernels("ref")));
}

MT_TEST_MAIN("kernel avx512, emulated", {"gemm", test_gemm}, {"attention", test_attention},
             {"vocabulary", test_vocab}, {"sums", test_sums}, {"self-test", test_self_test})
#else
static void test_elsewhere(void) {
  printf("skipped: not x86-64\n");
  CU_ASSERT_PTR_NOT_NULL(kernels("ref"));
}
MT_TEST_MAIN("kernel avx512, emulated", {"elsewhere", test_elsewhere})
#endif
