/* The NEON tables: one with the dot-product extension, one without. */
#include "neon.h"

#define TABLE(name)                               \
  const mt_kernels mt_kernels_##name = {          \
      .isa = #name,                               \
      .exact = true,                              \
      .quantize = mt_quantize_neon,               \
      .quantize_blocks = mt_quantize_blocks_neon, \
      .gemm = mt_gemm_##name,                     \
      .gemm_units = mt_gemm_units_##name,         \
      .sum_squares = mt_sum_squares_neon,         \
      .rmsnorm = mt_rmsnorm_neon,                 \
      .rope = mt_rope_neon,                       \
      .silu_mul = mt_silu_mul_neon,               \
      .gelu_mul = mt_gelu_mul_neon,               \
      .add = mt_add_neon,                         \
      .scale = mt_scale_neon,                     \
      .exp = mt_exp_neon,                         \
      .kv_store = mt_kv_store_neon,               \
      .attend = mt_attend_neon,                   \
      .attend_many = mt_attend_many_neon,         \
      .attend_merge = mt_attend_merge_neon,       \
      .attend_finish = mt_attend_finish_neon,     \
      .sum_parts = mt_sum_parts_ref,              \
      .round_sums = mt_round_sums_ref,            \
  }

TABLE(neon);
TABLE(neondot);
