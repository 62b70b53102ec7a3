/* The AVX2 tables: with VNNI only the products differ. */
#include "avx2.h"

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
      .attend = mt_attend_avx2,                   \
      .attend_many = mt_attend_many_avx2,         \
      .attend_merge = mt_attend_merge_avx2,       \
      .attend_finish = mt_attend_finish_avx2,     \
      .sum_parts = mt_sum_parts_avx2,             \
      .round_sums = mt_round_sums_avx2,           \
  }

TABLE(avx2, mt_gemm_avx2, mt_gemm_units_avx2);
TABLE(avxvnni, mt_gemm_avxvnni, mt_gemm_units_avxvnni);
