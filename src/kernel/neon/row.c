/* NEON kernels on rows: activations, norms, rotation, gates, exp. Tails go through a padded
 * copy. */
#include "neon.h"

enum { LANES = 4 };

/* ---- activations ------------------------------------------------------------------------- */

/* x [slots], 16 or 32 of them. */
MT_INLINE void quantize_block(mt_act *a, const float *x, size_t slots, size_t row, size_t b) {
  size_t at = row * a->q_stride + b * slots;
  float inverse, d = quant_scale(x, slots, a->int8 ? MT_ACT8_MAX : MT_ACT_MAX, &inverse);
  int32x4_t sum = vdupq_n_s32(0);
  for (size_t e = 0; e < slots; e += 8) {
    int16x8_t q = quantize_x8(x + e, inverse);
    vst1q_s16(a->q + at + e, q);
    int8x8_t low = vmovn_s16(q); /* q modulo 256, which is q − 256·hi */
    if (a->int8) {
      vst1_s8(a->hi + at + e, low);
    } else {
      vst1_s8(a->hi + at + e, vrshrn_n_s16(q, 8)); /* (q + 128) >> 8 */
      vst1_s8(a->lo + at + e, low);
    }
    sum = vpadalq_s16(sum, q);
  }
  a->scale[row * a->n_blocks + b] = d;
  a->sum[row * a->n_blocks + b] = vaddvq_s32(sum);
}

void mt_quantize_blocks_neon(mt_act *a, const mt_matrix *m, size_t row, size_t block_begin,
                             size_t block_end) {
  for (size_t b = block_begin; b < block_end; b++) {
    const float *x = a->x + row * a->ld_x + m->block[b].begin;
    float padded[32] = {0};
    if (m->block[b].len < a->block_slots) {
      memcpy(padded, x, m->block[b].len * sizeof *x);
      x = padded;
    }
    if (a->block_slots == 32)
      quantize_block(a, x, 32, row, b);
    else
      quantize_block(a, x, 16, row, b);
  }
}

void mt_quantize_neon(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; row++)
    mt_quantize_blocks_neon(a, m, row, 0, a->n_blocks);
}

/* ---- exp and gates ----------------------------------------------------------------------- */

/* Elements i … n (at most 4) of x; the rest 0. By lanes: a call of memcpy within a loop would
 * cost it the registers. */
MT_INLINE float32x4_t load_tail(const float *x, size_t i, size_t n) {
  if (n - i >= LANES) return vld1q_f32(x + i);
  float32x4_t v = vdupq_n_f32(0);
  if (n - i > 0) v = vld1q_lane_f32(x + i, v, 0);
  if (n - i > 1) v = vld1q_lane_f32(x + i + 1, v, 1);
  if (n - i > 2) v = vld1q_lane_f32(x + i + 2, v, 2);
  return v;
}

MT_INLINE void store_tail(float *out, size_t i, size_t n, float32x4_t x) {
  if (n - i >= LANES) {
    vst1q_f32(out + i, x);
    return;
  }
  if (n - i > 0) vst1q_lane_f32(out + i, x, 0);
  if (n - i > 1) vst1q_lane_f32(out + i + 1, x, 1);
  if (n - i > 2) vst1q_lane_f32(out + i + 2, x, 2);
}

void mt_exp_neon(const float *x, size_t n, float *out) {
  for (size_t i = 0; i < n; i += LANES) store_tail(out, i, n, exp_x4(load_tail(x, i, n)));
}

/* g / (1 + exp(z)) × u */
MT_INLINE float32x4_t gate(float32x4_t g, float32x4_t z, float32x4_t u) {
  return vmulq_f32(vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), exp_x4(z))), u);
}

void mt_silu_mul_neon(const float *g, const float *u, size_t n, float *out) {
  for (size_t i = 0; i < n; i += LANES) {
    float32x4_t x = load_tail(g, i, n);
    store_tail(out, i, n, gate(x, vnegq_f32(x), load_tail(u, i, n)));
  }
}

void mt_gelu_mul_neon(const float *g, const float *u, size_t n, float *out) {
  for (size_t i = 0; i < n; i += LANES) {
    float32x4_t x = load_tail(g, i, n);
    float32x4_t cube = vmulq_n_f32(vmulq_f32(x, x), MT_GELU_B);
    float32x4_t z = vmulq_n_f32(vfmaq_f32(x, cube, x), MT_GELU_A);
    store_tail(out, i, n, gate(x, z, load_tail(u, i, n)));
  }
}

/* ---- norms, rotation, sums --------------------------------------------------------------- */

float mt_sum_squares_neon(const float *x, size_t n) {
  enum { STEP = 4 * LANES };
  float32x4_t lane[4], y;
  size_t i = 0;
  MT_UNROLL for (size_t v = 0; v < 4; v++) lane[v] = vdupq_n_f32(0);
  for (; i + STEP <= n; i += STEP) MT_UNROLL for (size_t v = 0; v < 4; v++) {
      y = vld1q_f32(x + i + v * LANES);
      lane[v] = vfmaq_f32(lane[v], y, y);
    }
  /* A padded zero adds +0 to a sum that is never −0: it does not show. */
  MT_UNROLL for (size_t v = 0; v < 4; v++, i = i + LANES < n ? i + LANES : n) {
    y = load_tail(x, i, n);
    lane[v] = vfmaq_f32(lane[v], y, y);
  }
  return tree_16(lane);
}

float mt_rmsnorm_neon(const float *x, const float *w, size_t n, float eps, float *out) {
  float mean = mt_sum_squares_neon(x, n) / (float)n;
  float r = 1.0f / __builtin_sqrtf(mean + eps);
  for (size_t i = 0; i < n; i += LANES) {
    float32x4_t v = vmulq_n_f32(load_tail(x, i, n), r);
    store_tail(out, i, n, w ? vmulq_f32(v, load_tail(w, i, n)) : v);
  }
  return mean;
}

void mt_rope_neon(float *x, const float *cos, const float *sin, size_t n_rotary) {
  size_t half = n_rotary / 2;
  for (size_t d = 0; d < half; d += LANES) {
    float32x4_t x0 = load_tail(x, d, half), x1 = load_tail(x + half, d, half);
    float32x4_t c = load_tail(cos, d, half), s = load_tail(sin, d, half);
    store_tail(x, d, half, vfmaq_f32(vnegq_f32(vmulq_f32(x1, s)), x0, c));
    store_tail(x + half, d, half, vfmaq_f32(vmulq_f32(x0, s), x1, c));
  }
}

void mt_add_neon(float *x, const float *y, size_t n) {
  for (size_t i = 0; i < n; i += LANES)
    store_tail(x, i, n, vaddq_f32(load_tail(x, i, n), load_tail(y, i, n)));
}

void mt_scale_neon(float *x, float a, size_t n) {
  for (size_t i = 0; i < n; i += LANES) store_tail(x, i, n, vmulq_n_f32(load_tail(x, i, n), a));
}
