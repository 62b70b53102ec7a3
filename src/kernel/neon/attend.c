/* NEON attention over one segment: keys across lanes for the scores, dimensions across lanes for
 * the values. */
#include "neon.h"

enum { LANES = 4, KEYS = MT_KV_TILE, VECTORS = KEYS / LANES, STEP = 2 * LANES };

/* ---- store ------------------------------------------------------------------------------- */

/* Where dimension 0 of a token's key lies among the elements of its block; the others follow
 * KEYS apart. */
MT_INLINE size_t key_at(size_t head_dim, size_t slot) {
  return slot / KEYS * head_dim * KEYS + slot % KEYS;
}

static void store_f32(size_t head_dim, float *kb, float *vb, size_t slot, const float *k,
                      const float *v) {
  float *to = kb + key_at(head_dim, slot);
  for (size_t d = 0; d < head_dim; d++) to[d * KEYS] = k[d];
  memcpy(vb + slot * head_dim, v, head_dim * sizeof *v);
}

MT_INLINE uint16x8_t to_f16x8(const float *x) {
  float16x4_t lo = vcvt_f16_f32(vld1q_f32(x)), hi = vcvt_f16_f32(vld1q_f32(x + LANES));
  return vreinterpretq_u16_f16(vcombine_f16(lo, hi));
}

static void store_f16(size_t head_dim, uint16_t *kb, uint16_t *vb, size_t slot, const float *k,
                      const float *v) {
  uint16_t *to = kb + key_at(head_dim, slot);
  for (size_t d = 0; d < head_dim; d += STEP) {
    uint16_t half[STEP];
    vst1q_u16(vb + slot * head_dim + d, to_f16x8(v + d));
    vst1q_u16(half, to_f16x8(k + d));
    for (size_t i = 0; i < STEP; i++) to[(d + i) * KEYS] = half[i];
  }
}

static void store_q8(size_t head_dim, int8_t *kb, int8_t *vb, size_t slot, const float *k,
                     const float *v) {
  float k_inverse, v_inverse;
  float k_scale = quant_scale(k, head_dim, MT_KV_Q8_MAX, &k_inverse);
  float v_scale = quant_scale(v, head_dim, MT_KV_Q8_MAX, &v_inverse);
  memcpy(kb + MT_KV_BLOCK * head_dim + slot * sizeof k_scale, &k_scale, sizeof k_scale);
  memcpy(vb + MT_KV_BLOCK * head_dim + slot * sizeof v_scale, &v_scale, sizeof v_scale);
  int8_t *to = kb + key_at(head_dim, slot);
  for (size_t d = 0; d < head_dim; d += STEP) {
    int8_t byte[STEP];
    vst1_s8(vb + slot * head_dim + d, vmovn_s16(quantize_x8(v + d, v_inverse)));
    vst1_s8(byte, vmovn_s16(quantize_x8(k + d, k_inverse)));
    for (size_t i = 0; i < STEP; i++) to[(d + i) * KEYS] = byte[i];
  }
}

void mt_kv_store_neon(mt_kv_type type, size_t head_dim, void *k_block, void *v_block, size_t slot,
                      const float *k, const float *v) {
  if (head_dim % STEP)
    mt_kv_store_ref(type, head_dim, k_block, v_block, slot, k, v);
  else if (type == MT_KV_F16)
    store_f16(head_dim, k_block, v_block, slot, k, v);
  else if (type == MT_KV_F32)
    store_f32(head_dim, k_block, v_block, slot, k, v);
  else
    store_q8(head_dim, k_block, v_block, slot, k, v);
}

/* ---- scores ------------------------------------------------------------------------------ */

/* 8 elements from index i of a block, before a q8 scale. */
MT_INLINE void load_x8(mt_kv_type type, const uint8_t *block, size_t i, float32x4_t x[2]) {
  if (type == MT_KV_F16) {
    uint16x8_t h = vld1q_u16((const uint16_t *)(const void *)block + i);
    x[0] = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(h)));
    x[1] = vcvt_high_f32_f16(vreinterpretq_f16_u16(h));
  } else if (type == MT_KV_F32) {
    x[0] = vld1q_f32((const float *)(const void *)block + i);
    x[1] = vld1q_f32((const float *)(const void *)block + i + LANES);
  } else {
    int16x8_t h = vmovl_s8(vld1_s8((const int8_t *)block + i));
    x[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(h)));
    x[1] = vcvtq_f32_s32(vmovl_high_s16(h));
  }
}

/* Scores of the n tiles from `tile` on of one block. */
MT_INLINE void score_tiles(mt_kv_type type, size_t head_dim, const float *q, float scale,
                           const uint8_t *block, size_t tile, size_t n, float *s) {
  float32x4_t acc[4][VECTORS], f[4][VECTORS];
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++) {
    acc[t][v] = f[t][v] = vdupq_n_f32(0);
    if (type == MT_KV_Q8)
      f[t][v] = vld1q_f32(mt_q8_scales(block, head_dim) + (tile + t) * KEYS + v * LANES);
  }
  for (size_t d = 0; d < head_dim; d++) MT_UNROLL for (size_t t = 0; t < n; t++) {
      float32x4_t k[VECTORS];
      size_t at = ((tile + t) * head_dim + d) * KEYS;
      load_x8(type, block, at, k);
      load_x8(type, block, at + STEP, k + 2);
      MT_UNROLL for (size_t v = 0; v < VECTORS; v++) {
        if (type == MT_KV_Q8) k[v] = vmulq_f32(f[t][v], k[v]);
        acc[t][v] = vfmaq_n_f32(acc[t][v], k[v], q[d]);
      }
    }
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++)
      vst1q_f32(s + t * KEYS + v * LANES, vmulq_n_f32(acc[t][v], scale));
}

MT_INLINE void scores(mt_kv_type type, size_t head_dim, const float *q, float scale,
                      const void *const *k_block, size_t lo, size_t hi, float *s) {
  enum { TILES = MT_KV_BLOCK / KEYS };
  const size_t step = type == MT_KV_Q8 ? 2 : 4; /* q8 keeps the scales in registers too */
  for (size_t t = lo / KEYS; t * KEYS < hi;) {
    const uint8_t *block = k_block[t / TILES];
    if (t % step == 0 && (t + step) * KEYS < hi + KEYS) {
      score_tiles(type, head_dim, q, scale, block, t % TILES, step, s + t * KEYS);
      t += step;
    } else {
      score_tiles(type, head_dim, q, scale, block, t % TILES, 1, s + t * KEYS);
      t++;
    }
  }
}

/* Scores of keys outside [lo, hi) become −inf, whose weight is 0, in the tiles at both ends. */
static void mask_ends(float *s, size_t lo, size_t hi) {
  for (size_t j = lo / KEYS * KEYS; j < lo; j++) s[j] = -__builtin_inff();
  for (size_t j = hi; j % KEYS; j++) s[j] = -__builtin_inff();
}

void mt_softmax_part_neon(float *s, size_t lo, size_t hi, mt_attn_part *out) {
  size_t begin = lo / KEYS * KEYS;
  mask_ends(s, lo, hi);
  float32x4_t m = vdupq_n_f32(-__builtin_inff()), sum[VECTORS];
  for (size_t j = begin; j < hi; j += KEYS)
    MT_UNROLL for (size_t i = 0; i < VECTORS; i++) m =
        vmaxnmq_f32(m, vld1q_f32(s + j + i * LANES)); /* the number, where one is NaN */
  float max = vmaxnmvq_f32(m) + 0.0f;
  MT_UNROLL for (size_t i = 0; i < VECTORS; i++) sum[i] = vdupq_n_f32(0);
  for (size_t j = begin; j < hi; j += KEYS) MT_UNROLL for (size_t i = 0; i < VECTORS; i++) {
      float *at = s + j + i * LANES;
      float32x4_t p = exp_x4(vsubq_f32(vld1q_f32(at), vdupq_n_f32(max)));
      vst1q_f32(at, p);
      sum[i] = vaddq_f32(sum[i], p);
    }
  out->max = max;
  out->sum = tree_16(sum);
}

/* ---- values ------------------------------------------------------------------------------ */

/* 8 n dimensions from d on. */
MT_INLINE void value_dims(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                          size_t hi, const float *p, size_t d, size_t n, float *out) {
  float32x4_t acc[16];
  MT_UNROLL for (size_t i = 0; i < n; i++) acc[2 * i] = acc[2 * i + 1] = vdupq_n_f32(0);
  for (size_t j = lo; j < hi; j++) {
    const uint8_t *block = v_block[j / MT_KV_BLOCK];
    size_t slot = j % MT_KV_BLOCK;
    float f = type == MT_KV_Q8 ? mt_q8_scales(block, head_dim)[slot] : 1;
    MT_UNROLL for (size_t i = 0; i < n; i++) {
      float32x4_t v[2];
      load_x8(type, block, slot * head_dim + d + i * STEP, v);
      MT_UNROLL for (size_t h = 0; h < 2; h++) {
        if (type == MT_KV_Q8) v[h] = vmulq_n_f32(v[h], f);
        acc[2 * i + h] = vfmaq_n_f32(acc[2 * i + h], v[h], p[j]);
      }
    }
  }
  MT_UNROLL for (size_t i = 0; i < n; i++) {
    vst1q_f32(out + d + i * STEP, acc[2 * i]);
    vst1q_f32(out + d + i * STEP + LANES, acc[2 * i + 1]);
  }
}

MT_INLINE void attend(mt_kv_type type, size_t head_dim, const float *q, float scale,
                      const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                      mt_attn_part *out, float *weight) {
  float p[MT_ATTN_SEGMENT];
  scores(type, head_dim, q, scale, k_block, lo, hi, p);
  mt_softmax_part_neon(p, lo, hi, out);
  if (weight) memcpy(weight + lo, p + lo, (hi - lo) * sizeof *p);
  size_t d = 0;
  for (; d + 8 * STEP <= head_dim; d += 8 * STEP)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 8, out->acc);
  for (; d + 2 * STEP <= head_dim; d += 2 * STEP)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 2, out->acc);
  for (; d + STEP <= head_dim; d += STEP)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 1, out->acc);
  mt_values_ref(type, head_dim, v_block, lo, hi, p, d, out->acc);
}

void mt_attend_neon(mt_kv_type type, size_t head_dim, const float *q, float scale,
                    const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                    mt_attn_part *out, float *weight) {
  if (type == MT_KV_F16)
    attend(MT_KV_F16, head_dim, q, scale, k_block, v_block, lo, hi, out, weight);
  else if (type == MT_KV_F32)
    attend(MT_KV_F32, head_dim, q, scale, k_block, v_block, lo, hi, out, weight);
  else
    attend(MT_KV_Q8, head_dim, q, scale, k_block, v_block, lo, hi, out, weight);
}

void mt_attend_merge_neon(size_t head_dim, mt_attn_part *total, const mt_attn_part *part) {
  float m = part->max > total->max ? part->max : total->max;
  float a = exp_x1(total->max - m), b = exp_x1(part->max - m);
  total->max = m;
  total->sum = __builtin_fmaf(part->sum, b, total->sum * a);
  size_t d = 0;
  for (; d + LANES <= head_dim; d += LANES) {
    float32x4_t t = vmulq_n_f32(vld1q_f32(total->acc + d), a);
    vst1q_f32(total->acc + d, vfmaq_n_f32(t, vld1q_f32(part->acc + d), b));
  }
  for (; d < head_dim; d++) total->acc[d] = __builtin_fmaf(part->acc[d], b, total->acc[d] * a);
}

void mt_attend_finish_neon(size_t head_dim, const mt_attn_part *total, float *out) {
  const float32x4_t sum = vdupq_n_f32(total->sum);
  size_t d = 0;
  for (; d + LANES <= head_dim; d += LANES)
    vst1q_f32(out + d, vdivq_f32(vld1q_f32(total->acc + d), sum));
  for (; d < head_dim; d++) out[d] = total->acc[d] / total->sum;
}
