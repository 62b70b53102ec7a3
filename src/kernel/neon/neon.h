/* What the NEON kernels share. Every function computes lane by lane what ref/ does. Shifts are
 * written as C operators on vectors: the intrinsics want literals, which a template has only
 * after inlining. */
#ifndef MT_KERNEL_NEON_H
#define MT_KERNEL_NEON_H

#include <arm_neon.h>

#include "../impl.h"

/* Templates: inlined, so that types and counts become constants, and small loops unrolled. With
 * sanitizers that would take the compiler minutes; the Makefile then asks for the same code as
 * plain functions. */
#ifdef MT_KERNEL_COMPACT
#define MT_INLINE static __attribute__((noinline, unused))
#define MT_UNROLL
#else
#define MT_INLINE static inline __attribute__((always_inline))
#define MT_UNROLL _Pragma("GCC unroll 12")
#endif

void mt_quantize_neon(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end);
void mt_quantize_blocks_neon(mt_act *a, const mt_matrix *m, size_t row, size_t block_begin,
                             size_t block_end);
void mt_gemm_neon(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                  size_t row_begin, size_t row_end, float *out, size_t ld_out);
int mt_gemm_units_neon(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                       size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld);
void mt_gemm_neondot(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                     size_t row_begin, size_t row_end, float *out, size_t ld_out);
int mt_gemm_units_neondot(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                          size_t row_begin, size_t row_end, const int *exp, int64_t *acc,
                          size_t ld);
float mt_sum_squares_neon(const float *x, size_t n);
float mt_rmsnorm_neon(const float *x, const float *w, size_t n, float eps, float *out);
void mt_rope_neon(float *x, const float *cos, const float *sin, size_t n_rotary);
void mt_silu_mul_neon(const float *g, const float *u, size_t n, float *out);
void mt_gelu_mul_neon(const float *g, const float *u, size_t n, float *out);
void mt_add_neon(float *x, const float *y, size_t n);
void mt_scale_neon(float *x, float a, size_t n);
void mt_exp_neon(const float *x, size_t n, float *out);
bool mt_widen_neon(const float *x, size_t n, double *y, double *max);
void mt_exp64_neon(const double *x, double from, size_t n, double *out);
void mt_temper_neon(double *x, double from, double by);
double mt_sum_above_neon(const double *key, const double *e, double lo, double hi,
                         uint64_t *within);
void mt_keep_neon(const double *key, double least, double share, double *value, double *e);
void mt_kv_store_neon(mt_kv_type type, size_t head_dim, void *k_block, void *v_block, size_t slot,
                      const float *k, const float *v);
void mt_attend_neon(mt_kv_type type, size_t head_dim, const float *q, float scale,
                    const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                    mt_attn_part *out, float *weight);
void mt_attend_many_neon(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                         float scale, const void *const *k_block, const void *const *v_block,
                         const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                         float *scratch);
/* Scores s [lo, hi) (room up to whole tiles) become weights; fills out->max and out->sum. */
void mt_softmax_part_neon(float *s, size_t lo, size_t hi, mt_attn_part *out);
void mt_attend_merge_neon(size_t head_dim, mt_attn_part *total, const mt_attn_part *part);
void mt_attend_finish_neon(size_t head_dim, const mt_attn_part *total, float *out);

MT_INLINE float32x4_t load_f16x4(const void *p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

MT_INLINE uint8x8_t load_4(const uint8_t *p) {
  uint32_t u;
  memcpy(&u, p, sizeof u);
  return vcreate_u8(u);
}
/* The first four signed bytes as f32. */
MT_INLINE float32x4_t i8x4_to_f32(uint8x8_t b) {
  int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(b));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
MT_INLINE float32x4_t load_i8x4(const uint8_t *p) {
  return i8x4_to_f32(load_4(p));
}

/* The fixed tree over lanes 4 i … 4 i + 3 (a[i]). */
MT_INLINE float tree_16(const float32x4_t a[4]) {
  float32x4_t s = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
  float32x2_t h = vadd_f32(vget_low_f32(s), vget_high_f32(s));
  return vget_lane_f32(vpadd_f32(h, h), 0);
}

MT_INLINE float32x4_t exp_x4(float32x4_t x) {
  const float32x4_t magic = vdupq_n_f32(MT_EXP_MAGIC);
  /* What is NaN stays NaN in both. */
  x = vminq_f32(vdupq_n_f32(MT_EXP_MAX), x);
  x = vmaxq_f32(vdupq_n_f32(MT_EXP_MIN), x);
  float32x4_t shifted = vfmaq_f32(magic, x, vdupq_n_f32(MT_EXP_LOG2E));
  float32x4_t n = vsubq_f32(shifted, magic);
  int32x4_t i = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32((int)MT_EXP_MAGIC_BITS));
  float32x4_t r = vfmaq_f32(x, n, vdupq_n_f32(-MT_EXP_LN2_HI));
  r = vfmaq_f32(r, n, vdupq_n_f32(-MT_EXP_LN2_LO));
  float32x4_t q = vfmaq_f32(vdupq_n_f32(MT_EXP_Q3), vdupq_n_f32(MT_EXP_Q4), r);
  q = vfmaq_f32(vdupq_n_f32(MT_EXP_Q2), q, r);
  q = vfmaq_f32(vdupq_n_f32(MT_EXP_Q1), q, r);
  q = vfmaq_f32(vdupq_n_f32(MT_EXP_Q0), q, r);
  float32x4_t p = vaddq_f32(vfmaq_f32(r, q, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
  int32x4_t half = vshrq_n_s32(i, 1), bias = vdupq_n_s32(127);
  int32x4_t rest = vaddq_s32(vsubq_s32(i, half), bias);
  p = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23)));
  return vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(rest, 23)));
}

MT_INLINE float exp_x1(float x) {
  return vgetq_lane_f32(exp_x4(vdupq_n_f32(x)), 0);
}

/* Scale for integers up to `max` of x [n], n a multiple of 4, and its inverse (0: all integers
 * are 0); see mt_act. Bits of |x| order as the numbers do, with infinity and NaN on top. */
MT_INLINE float quant_scale(const float *x, size_t n, float max, float *inverse) {
  uint32x4_t m = vdupq_n_u32(0);
  for (size_t i = 0; i < n; i += 4)
    m = vmaxq_u32(m, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
  uint32_t bits = vmaxvq_u32(m);
  float a = mt_f32_of_bits(bits);
  *inverse = 0;
  if (bits >= 0x7f800000u) return mt_f32_of_bits(0x7fc00000u);
  if (a < MT_QUANT_TINY) return 0;
  *inverse = max / a;
  return a / max;
}

/* 8 elements rounded to integers, to nearest even. */
MT_INLINE int16x8_t quantize_x8(const float *x, float inverse) {
  const uint32x4_t keep = vdupq_n_u32(inverse == 0 ? 0 : ~0u);
  int32x4_t lo = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inverse));
  int32x4_t hi = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4), inverse));
  lo = vandq_s32(lo, vreinterpretq_s32_u32(keep)); /* infinity × 0 may be anything */
  hi = vandq_s32(hi, vreinterpretq_s32_u32(keep));
  return vcombine_s16(vmovn_s32(lo), vmovn_s32(hi));
}

#endif
