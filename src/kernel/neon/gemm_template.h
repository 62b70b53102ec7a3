/* NEON matrix products, included once for each way of the integer dot product (MT_DOT,
 * MT_SUFFIX). Plain types: tiles of one panel (16 rows of the weight, four vectors) by up to
 * PLAIN_ROWS input rows, whose sums stay in registers. Quantized types: a block is unpacked into
 * registers, one vector of rows at a time, and serves all input rows of the walk. */
#include "neon.h"

#define PASTE2(a, b) a##_##b
#define PASTE(a, b)  PASTE2(a, b)
#define NAME(a)      PASTE(a, MT_SUFFIX)

enum { LANES = 4, VECTORS = MT_PANEL_ROWS / LANES, PLAIN_ROWS = 4, DIRECT_ROWS = 1 };

#define WALK_PANELS 1
#include "../walk.h"

typedef float32x4_t panel_sums[VECTORS];

/* Rounds four sums of row t into the totals; what is beyond them comes out not 0. */
MT_INLINE uint32x4_t add_to_total(walk_total *total, size_t t, size_t v, float32x4_t sum) {
  const float64x2_t magic = vdupq_n_f64(MT_RINT_MAGIC);
  const float64x2_t part[2] = {vcvt_f64_f32(vget_low_f32(sum)), vcvt_high_f64_f32(sum)};
  MT_UNROLL for (size_t i = 0; i < 2; i++) {
    int64_t *to = total->sum[t] + v * LANES + 2 * i;
    float64x2_t y = vfmaq_n_f64(magic, part[i], total->factor[t]);
    vst1q_s64(to, vaddq_s64(vld1q_s64(to), vreinterpretq_s64_f64(y)));
  }
  uint32x4_t size = vandq_u32(vreinterpretq_u32_f32(sum), vdupq_n_u32(0x7fffffff));
  return vcgeq_u32(size, vdupq_n_u32(total->limit[t]));
}

/* What a chain has summed for n rows from t0 on joins its unit's sum. */
MT_INLINE void end_chain(const walk *j, unsigned at, size_t t0, size_t n, const panel_sums *acc) {
  walk_total *total = at & MT_UNIT_LAST ? j->total : NULL;
  uint32x4_t beyond = vdupq_n_u32(0);
  for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++) {
      float *sum = j->sum[t0 + t] + v * LANES;
      float32x4_t s = vaddq_f32(at & MT_UNIT_FIRST ? vdupq_n_f32(0) : vld1q_f32(sum), acc[t][v]);
      if (total)
        beyond = vorrq_u32(beyond, add_to_total(total, t0 + t, v, s));
      else
        vst1q_f32(sum, s);
    }
  if (vmaxvq_u32(beyond)) total->beyond = true;
}

/* ---- plain types ------------------------------------------------------------------------- */

/* 8 weights from index i on. */
MT_INLINE void load_plain(mt_dtype type, const uint8_t *data, size_t i, float32x4_t w[2]) {
  if (type == MT_F32) {
    w[0] = vld1q_f32((const float *)(const void *)data + i);
    w[1] = vld1q_f32((const float *)(const void *)data + i + LANES);
    return;
  }
  uint16x8_t h = vld1q_u16((const uint16_t *)(const void *)data + i), zero = vdupq_n_u16(0);
  if (type == MT_F16) {
    w[0] = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(h)));
    w[1] = vcvt_high_f32_f16(vreinterpretq_f16_u16(h));
  } else {
    w[0] = vreinterpretq_f32_u16(vzip1q_u16(zero, h));
    w[1] = vreinterpretq_f32_u16(vzip2q_u16(zero, h));
  }
}

/* Chain c of n rows from row t0 of the walk on; n is a constant after inlining. */
MT_INLINE void tile_plain(mt_dtype type, const walk *j, size_t c, size_t t0, size_t n) {
  const size_t ld = j->a->ld_x;
  const float *x = j->a->x + (j->row + t0) * ld;
  panel_sums acc[PLAIN_ROWS];
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++)
      acc[t][v] = vdupq_n_f32(0);
  for (size_t k = j->m->chain[c]; k < j->m->chain[c + 1]; k++) {
    float32x4_t w[VECTORS];
    load_plain(type, j->data[0], k * MT_PANEL_ROWS, w);
    load_plain(type, j->data[0], k * MT_PANEL_ROWS + 2 * LANES, w + 2);
    MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++)
        acc[t][v] = vfmaq_n_f32(acc[t][v], w[v], x[t * ld + k]);
  }
  end_chain(j, j->m->place[c], t0, n, acc);
}

/* ---- quantized types --------------------------------------------------------------------- */

MT_INLINE bool has_values(mt_dtype type) {
  return type == MT_IQ4_NL || type == MT_IQ4_XS || type == MT_MXFP4;
}
MT_INLINE mt_scale_kind scale_kind(mt_dtype type) {
  return mt_record_size_of(type).scale;
}
/* What to take off a code. */
MT_INLINE int bias_of(mt_dtype type) {
  return type == MT_Q4_0   ? 8
         : type == MT_Q5_0 ? 16
         : type == MT_Q3_K ? 4
         : type == MT_Q6_K ? 32
                           : 0;
}

/* 2^(e − 128) of the first four bytes, subnormal for 0 and 1. */
MT_INLINE float32x4_t power_of_2(uint8x8_t exponent) {
  int32x4_t e = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(exponent))));
  int32x4_t normal = vshlq_n_s32(vsubq_s32(e, vdupq_n_s32(1)), 23);
  int32x4_t tiny = vshlq_s32(vdupq_n_s32(0x00200000), e);
  return vreinterpretq_f32_s32(vbslq_s32(vcltq_s32(e, vdupq_n_s32(2)), tiny, normal));
}

/* d_w and m_w of rows 4 v … 4 v + 3. Scales of Q2_K, Q4_K, Q5_K are below 64: signed or not is
 * the same for them. */
MT_INLINE void load_scales(mt_dtype type, const uint8_t *scales, const uint8_t *super, size_t v,
                           float32x4_t *dw, float32x4_t *mw) {
  *mw = vdupq_n_f32(0);
  if (scale_kind(type) == MT_SCALE_F16) {
    *dw = load_f16x4(scales + 2 * LANES * v);
    if (has_min(type)) *mw = load_f16x4(scales + 32 + 2 * LANES * v);
    return;
  }
  const uint8_t *d = super + 2 * LANES * v;
  uint8x8_t sc = load_4(scales + LANES * v), mn = sc;
  if (scale_kind(type) == MT_SCALE_E8M0) {
    *dw = power_of_2(sc);
    return;
  }
  if (type == MT_Q2_K) {
    mn = vshr_n_u8(sc, 4);
    sc = vand_u8(sc, vdup_n_u8(15));
  } else if (has_min(type)) {
    mn = load_4(scales + 16 + LANES * v);
  }
  *dw = vmulq_f32(load_f16x4(d), i8x4_to_f32(sc));
  if (has_min(type)) *mw = vmulq_f32(vnegq_f32(load_f16x4(d + 32)), i8x4_to_f32(mn));
}

/* (x >> shift) & mask in each byte. */
MT_INLINE uint8x16_t field(uint8x16_t x, size_t shift, uint8_t mask) {
  return vandq_u8(x >> (uint8_t)shift, vdupq_n_u8(mask));
}

/* The low nibbles (half 0) or the high ones; `more` then comes above them. */
MT_INLINE uint8x16_t nibbles(uint8x16_t x, size_t half) {
  return half ? vshrq_n_u8(x, 4) : vandq_u8(x, vdupq_n_u8(15));
}
MT_INLINE uint8x16_t nibbles_and(uint8x16_t x, size_t half, uint8x16_t more) {
  return vsliq_n_u8(half ? vshrq_n_u8(x, 4) : x, more, 4);
}

/* 16 codes, rows 4 v … 4 v + 3, of group g: signed bytes for Q8_0, what `values` says of them for
 * types that have it, else codes below 64. */
MT_INLINE int8x16_t load_codes(mt_dtype type, const uint8_t *rec, int8x16_t values, size_t v,
                               size_t g) {
  const uint8_t *low = rec + 16 * v;
  uint8x16_t c;
  switch (type) {
    case MT_Q8_0: c = vld1q_u8(low + 64 * g); break;
    case MT_Q2_K: c = field(vld1q_u8(low), 2 * g, 3); break;
    case MT_Q3_K:
      c = field(vld1q_u8(rec + 64 + 16 * (v % 2)), g + 4 * (v / 2), 1);
      c = vorrq_u8(field(vld1q_u8(low), 2 * g, 3), vshlq_n_u8(c, 2));
      break;
    case MT_Q6_K:
      c = field(vld1q_u8(low + 128), 2 * g, 3);
      c = nibbles_and(vld1q_u8(low + 64 * (g % 2)), g / 2, c);
      break;
    case MT_Q5_0:
    case MT_Q5_1:
    case MT_Q5_K:
      c = field(vld1q_u8(low + 256), g, 1);
      c = nibbles_and(vld1q_u8(low + 64 * (g % 4)), g / 4, c);
      break;
    default: c = nibbles(vld1q_u8(low + 64 * (g % 4)), g / 4); break;
  }
  return has_values(type) ? vqtbl1q_s8(values, c) : vreinterpretq_s8_u8(c);
}

#if MT_DOT

/* A block for rows 4 v … 4 v + 3: vector g holds group g. */
typedef int8x16_t codes[8];

MT_INLINE void load_block(mt_dtype type, const uint8_t *rec, int8x16_t values, size_t v, codes w) {
  const size_t groups = slots_16(type) ? 4 : 8;
  MT_UNROLL for (size_t g = 0; g < groups; g++) w[g] = load_codes(type, rec, values, v, g);
}

/* sum + four groups of codes × 16 activations. */
MT_INLINE int32x4_t dot_16(int32x4_t sum, const int8x16_t w[4], int8x16_t q) {
  sum = vdotq_laneq_s32(sum, w[0], q, 0);
  sum = vdotq_laneq_s32(sum, w[1], q, 1);
  sum = vdotq_laneq_s32(sum, w[2], q, 2);
  return vdotq_laneq_s32(sum, w[3], q, 3);
}

/* offset + Σ code × q over a block, from the planes of q, which begins at a's element `at`. */
MT_INLINE int32x4_t dot_block(mt_dtype type, const codes w, const mt_act *a, bool int8, size_t at,
                              int32_t offset) {
  const size_t groups = slots_16(type) ? 4 : 8;
  int32x4_t hi = vdupq_n_s32(0), lo = vdupq_n_s32(offset);
  MT_UNROLL for (size_t g = 0; g < groups; g += 4) {
    hi = dot_16(hi, w + g, vld1q_s8(a->hi + at + 4 * g));
    if (!int8) lo = dot_16(lo, w + g, vld1q_s8(a->lo + at + 4 * g));
  }
  return vaddq_s32(int8 ? hi : vshlq_n_s32(hi, 8), lo);
}

#else

/* A block for rows 4 v … 4 v + 3, widened: vector 2 g + r holds groups g and g + 1 of row r, g
 * even. */
typedef int16x8_t codes[16];

MT_INLINE void load_block(mt_dtype type, const uint8_t *rec, int8x16_t values, size_t v, codes w) {
  const size_t groups = slots_16(type) ? 4 : 8;
  MT_UNROLL for (size_t g = 0; g < groups; g += 2) {
    int32x4_t w0 = vreinterpretq_s32_s8(load_codes(type, rec, values, v, g));
    int32x4_t w1 = vreinterpretq_s32_s8(load_codes(type, rec, values, v, g + 1));
    int8x16_t r01 = vreinterpretq_s8_s32(vzip1q_s32(w0, w1));
    int8x16_t r23 = vreinterpretq_s8_s32(vzip2q_s32(w0, w1));
    w[2 * g] = vmovl_s8(vget_low_s8(r01));
    w[2 * g + 1] = vmovl_high_s8(r01);
    w[2 * g + 2] = vmovl_s8(vget_low_s8(r23));
    w[2 * g + 3] = vmovl_high_s8(r23);
  }
}

/* offset + Σ code × q over a block, q beginning at a's element `at`: four partial sums of 32
 * bits for each row, added up at the end. With 8-bit activations q is small, and nothing else
 * changes. */
MT_INLINE int32x4_t dot_block(mt_dtype type, const codes w, const mt_act *a, bool int8, size_t at,
                              int32_t offset) {
  (void)int8;
  const size_t groups = slots_16(type) ? 4 : 8;
  int32x4_t part[LANES];
  MT_UNROLL for (size_t r = 0; r < LANES; r++) part[r] = vdupq_n_s32(0);
  MT_UNROLL for (size_t g = 0; g < groups; g += 2) {
    int16x8_t q = vld1q_s16(a->q + at + 4 * g);
    MT_UNROLL for (size_t r = 0; r < LANES; r++) {
      part[r] = vmlal_s16(part[r], vget_low_s16(w[2 * g + r]), vget_low_s16(q));
      part[r] = vmlal_high_s16(part[r], w[2 * g + r], q);
    }
  }
  int32x4_t sum = vpaddq_s32(vpaddq_s32(part[0], part[1]), vpaddq_s32(part[2], part[3]));
  return vaddq_s32(sum, vdupq_n_s32(offset));
}

#endif

/* Adds block b to the sums acc of rows 4 v … 4 v + 3 for all input rows of the walk. Neither this
 * loop nor those around it are unrolled: what stays in registers is the block's codes, and the
 * sums come from the first-level cache. */
MT_INLINE void add_block(mt_dtype type, const walk *j, bool int8, const codes w, float32x4_t dw,
                         float32x4_t mw, size_t b, size_t v, panel_sums *acc) {
  const mt_act *a = j->a;
  const size_t slots = slots_16(type) ? 16 : 32;
  for (size_t t = 0; t < j->n; t++) {
    size_t row = j->row + t, s = row * a->n_blocks + b, at = row * a->q_stride + b * slots;
    float da = a->scale[s];
    int32_t sum = a->sum[s];
    int32x4_t dot = dot_block(type, w, a, int8, at, -bias_of(type) * sum);
    acc[t][v] = vfmaq_f32(acc[t][v], vmulq_n_f32(dw, da), vcvtq_f32_s32(dot));
    if (has_min(type)) acc[t][v] = vfmaq_n_f32(acc[t][v], mw, da * (float)sum);
  }
}

MT_INLINE void chain_quantized(mt_dtype type, const walk *j, bool int8, size_t c) {
  const size_t b0 = j->m->chain[c], b1 = j->m->chain[c + 1];
  const mt_qinfo *qi = mt_qinfo_get(type);
  const size_t record_bytes = qi->record_bytes, super_bytes = qi->super_bytes;
  const size_t planes = record_bytes - qi->scale_bytes;
  const uint8_t *rec = j->data[0] + mt_panel_supers_bytes(j->m, qi) + b0 * record_bytes;
  const int8x16_t values = has_values(type) ? vld1q_s8(qi->values) : vdupq_n_s8(0);
  panel_sums acc[MT_WALK_ROWS];
  memset(acc, 0, j->n * sizeof acc[0]);
  for (size_t b = b0; b < b1; b++, rec += record_bytes) {
    const uint8_t *super = j->data[0] + j->m->block[b].super * super_bytes;
    for (size_t v = 0; v < VECTORS; v++) {
      codes w;
      float32x4_t dw, mw;
      load_scales(type, rec + planes, super, v, &dw, &mw);
      load_block(type, rec, values, v, w);
      add_block(type, j, int8, w, dw, mw, b, v, acc);
    }
  }
  end_chain(j, j->m->place[c], 0, j->n, acc);
}

/* ---- by type ----------------------------------------------------------------------------- */

#define PLAIN_CASE(n) \
  case n: tile_plain(type, j, c, t, n); break;

MT_INLINE void chains_plain(mt_dtype type, const walk *j, size_t c0, size_t c1) {
  for (size_t c = c0; c < c1; c++) {
    for (size_t t = 0, n; t < j->n; t += n) {
      n = mt_even_part(j->n - t, PLAIN_ROWS);
      switch (n) { PLAIN_CASE(1) PLAIN_CASE(2) PLAIN_CASE(3) PLAIN_CASE(4) }
    }
  }
}

MT_INLINE void chains_quantized(mt_dtype type, const walk *j, size_t c0, size_t c1) {
  for (size_t c = c0; c < c1; c++)
    if (MT_DOT && j->a->int8)
      chain_quantized(type, j, true, c);
    else
      chain_quantized(type, j, false, c);
}

#include "../by_type.h"
