/* The AVX-512 tables: AVX2's, overlaid. */
#include "avx512.h"

#define TABLE(name, gemm_fn, gemm_units_fn)       \
  const mt_kernels mt_kernels_##name = {          \
      .isa = #name,                               \
      .exact = true,                              \
      .quantize = mt_quantize_avx2,               \
      .quantize_blocks = mt_quantize_blocks_avx2, \
      .gemm = gemm_fn,                            \
      .gemm_units = gemm_units_fn,                \
      .sum_squares = mt_sum_squares_avx2,         \
      .rmsnorm = mt_rmsnorm_avx2,                 \
      .rope = mt_rope_avx2,                       \
      .silu_mul = mt_silu_mul_avx2,               \
      .gelu_mul = mt_gelu_mul_avx2,               \
      .add = mt_add_avx2,                         \
      .scale = mt_scale_avx2,                     \
      .exp = mt_exp_avx2,                         \
      .kv_store = mt_kv_store_avx2,               \
      .attend = mt_attend_avx512,                 \
      .attend_many = mt_attend_many_avx512,       \
      .attend_merge = mt_attend_merge_avx2,       \
      .attend_finish = mt_attend_finish_avx2,     \
      .sum_parts = mt_sum_parts_avx512,           \
      .round_sums = mt_round_sums_avx512,         \
  }

TABLE(avx512, mt_gemm_avx512, mt_gemm_units_avx512);
TABLE(avx512vnni, mt_gemm_avx512vnni, mt_gemm_units_avx512vnni);
