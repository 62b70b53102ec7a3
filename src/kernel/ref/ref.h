/* What the reference kernels share. */
#ifndef MT_KERNEL_REF_H
#define MT_KERNEL_REF_H

#include "../impl.h"

/* One rounding. An instruction on every CPU that we build for (x86-64-v3, aarch64), never a
 * call. */
static inline float fma_f32(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

/* To the nearest integer, ties to even, for |x| < 2^22. */
static inline int32_t rint_f32(float x) {
  return (int32_t)(mt_f32_bits(x + MT_EXP_MAGIC) - MT_EXP_MAGIC_BITS);
}

/* Bits of |x| order as the numbers do, with infinity and NaN on top. */
static inline uint32_t max_abs_bits(const float *x, size_t n) {
  uint32_t a = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t u = mt_f32_bits(x[i]) & 0x7fffffffu;
    if (u > a) a = u;
  }
  return a;
}

/* Scale for integers up to `max`, and its inverse; see mt_act. */
static inline float quant_scale(const float *x, size_t n, float max, float *inverse) {
  uint32_t bits = max_abs_bits(x, n);
  float a = mt_f32_of_bits(bits);
  *inverse = 0;
  if (bits >= 0x7f800000u) return mt_f32_of_bits(0x7fc00000u);
  if (a < MT_QUANT_TINY) return 0;
  *inverse = max / a;
  return a / max;
}

/* The fixed tree over 16 lanes; overwrites them. */
static inline float tree_16(float *lane) {
  for (size_t w = MT_PANEL_ROWS / 2; w; w /= 2)
    for (size_t l = 0; l < w; l++) lane[l] += lane[l + w];
  return lane[0];
}

float mt_exp_one_ref(float x);

void mt_quantize_ref(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end);
void mt_quantize_blocks_ref(mt_act *a, const mt_matrix *m, size_t row, size_t block_begin,
                            size_t block_end);
void mt_exp_ref(const float *x, size_t n, float *out);
void mt_attend_ref(mt_kv_type type, size_t head_dim, const float *q, float scale,
                   const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                   mt_attn_part *out, float *weight);
void mt_attend_merge_ref(size_t head_dim, mt_attn_part *total, const mt_attn_part *part);
void mt_attend_finish_ref(size_t head_dim, const mt_attn_part *total, float *out);

#endif
