/* NEON matrix products, included once for each way of the integer dot product (MT_DOT,
 * MT_SUFFIX). A tile is one panel (16 rows of the weight, four vectors) by up to TILE input rows,
 * which share the loaded and unpacked weights. */
#include "neon.h"

#define PASTE2(a, b) a##_##b
#define PASTE(a, b)  PASTE2(a, b)
#define NAME(a)      PASTE(a, MT_SUFFIX)

enum { TILE = 16, LANES = 4, VECTORS = MT_PANEL_ROWS / LANES };

/* What a tile works on. */
typedef struct job {
  const mt_matrix *m;
  size_t panel;
  const uint8_t *data; /* of the panel */
  const mt_act *a;
  size_t row; /* first input row */
  const int *exp;
  int64_t *acc; /* NULL: out */
  float *out;
  size_t ld;
} job;

typedef float32x4_t tile[TILE][VECTORS];
/* One chain, borders [i0, i1) in K or blocks, of n input rows; n is a constant after inlining. */
typedef void chain_fn(const job *j, size_t i0, size_t i1, size_t n, tile acc);

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

/* n is 4, 2 or 1: the sums stay in registers. */
MT_INLINE void chain_plain(mt_dtype type, const job *j, size_t i0, size_t i1, size_t n, tile acc) {
  const float *x = j->a->x + j->row * j->a->ld_x;
  size_t ld = j->a->ld_x;
  float32x4_t s[4][VECTORS];
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++) s[t][v] =
      acc[t][v];
  for (size_t k = i0; k < i1; k++) {
    float32x4_t w[VECTORS];
    load_plain(type, j->data, k * MT_PANEL_ROWS, w);
    load_plain(type, j->data, k * MT_PANEL_ROWS + 2 * LANES, w + 2);
    MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++)
        s[t][v] = vfmaq_n_f32(s[t][v], w[v], x[t * ld + k]);
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++)
      acc[t][v] = s[t][v];
}

/* ---- quantized types --------------------------------------------------------------------- */

MT_INLINE bool slots_16(mt_dtype type) {
  return type == MT_Q2_K || type == MT_Q3_K || type == MT_Q6_K;
}
MT_INLINE bool has_min(mt_dtype type) {
  return type == MT_Q4_1 || type == MT_Q5_1 || type == MT_Q2_K || type == MT_Q4_K ||
         type == MT_Q5_K;
}
MT_INLINE bool has_values(mt_dtype type) {
  return type == MT_IQ4_NL || type == MT_IQ4_XS || type == MT_MXFP4;
}
MT_INLINE mt_scale_kind scale_kind(mt_dtype type) {
  if (type == MT_MXFP4) return MT_SCALE_E8M0;
  return type < MT_Q2_K || type == MT_IQ4_NL ? MT_SCALE_F16 : MT_SCALE_SUPER;
}
/* What to take off a code. */
MT_INLINE int bias_of(mt_dtype type) {
  return type == MT_Q4_0   ? 8
         : type == MT_Q5_0 ? 16
         : type == MT_Q3_K ? 4
         : type == MT_Q6_K ? 32
                           : 0;
}

MT_INLINE uint8x8_t load_4(const uint8_t *p) {
  uint32_t u;
  memcpy(&u, p, sizeof u);
  return vcreate_u8(u);
}
/* d × sc, sc in the first four bytes. */
MT_INLINE float32x4_t scaled(float32x4_t d, uint8x8_t sc) {
  int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(sc));
  return vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))));
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
  *dw = scaled(load_f16x4(d), sc);
  if (has_min(type)) *mw = scaled(vnegq_f32(load_f16x4(d + 32)), mn);
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

/* What the blocks of a chain share. */
typedef struct chain_job {
  const mt_act *a;
  size_t row, n; /* input rows */
  bool int8;
  int8x16_t values;
} chain_job;

/* Adds block b to the sums of rows 4 v … 4 v + 3 for n input rows. */
MT_INLINE void add_block(mt_dtype type, chain_job c, const uint8_t *rec, const uint8_t *scales,
                         const uint8_t *super, size_t b, size_t v, tile acc) {
  const mt_act *a = c.a;
  const size_t slots = slots_16(type) ? 16 : 32;
  codes w;
  float32x4_t dw, mw;
  load_scales(type, scales, super, v, &dw, &mw);
  load_block(type, rec, c.values, v, w);
  for (size_t t = 0; t < c.n; t++) {
    size_t row = c.row + t, s = row * a->n_blocks + b, at = row * a->q_stride + b * slots;
    float da = a->scale[s];
    int32_t sum = a->sum[s];
    int32x4_t dot = dot_block(type, w, a, c.int8, at, -bias_of(type) * sum);
    acc[t][v] = vfmaq_f32(acc[t][v], vmulq_n_f32(dw, da), vcvtq_f32_s32(dot));
    if (has_min(type)) acc[t][v] = vfmaq_n_f32(acc[t][v], mw, da * (float)sum);
  }
}

/* The loops over vectors and input rows are not unrolled: what stays in registers is the block's
 * codes, and the sums come from the first-level cache. */
MT_INLINE void chain_blocks(mt_dtype type, const job *j, bool int8, size_t i0, size_t i1, size_t n,
                            tile acc) {
  const mt_qinfo *qi = mt_qinfo_get(type);
  const uint8_t *rec = j->data + mt_panel_supers_bytes(j->m, qi) + i0 * qi->record_bytes;
  const size_t record_bytes = qi->record_bytes, super_bytes = qi->super_bytes;
  const size_t planes = record_bytes - qi->scale_bytes;
  chain_job c = {j->a, j->row, n, int8, vdupq_n_s8(0)};
  if (has_values(type)) c.values = vld1q_s8(qi->values);
  for (size_t b = i0; b < i1; b++, rec += record_bytes) {
    const uint8_t *super = j->data + j->m->block[b].super * super_bytes;
    for (size_t v = 0; v < VECTORS; v++) add_block(type, c, rec, rec + planes, super, b, v, acc);
  }
}

MT_INLINE void chain_quantized(mt_dtype type, const job *j, size_t i0, size_t i1, size_t n,
                               tile acc) {
  if (MT_DOT && j->a->int8)
    chain_blocks(type, j, true, i0, i1, n, acc);
  else
    chain_blocks(type, j, false, i0, i1, n, acc);
}

/* ---- template ---------------------------------------------------------------------------- */

MT_INLINE void clear_tile(tile sum, size_t n) {
  for (size_t t = 0; t < n; t++)
    MT_UNROLL for (size_t v = 0; v < VECTORS; v++) sum[t][v] = vdupq_n_f32(0);
}

MT_INLINE void unit_sums(const job *j, size_t u, size_t n, chain_fn *chain, tile sum) {
  clear_tile(sum, n);
  for (size_t c = j->m->unit_chain[u]; c < j->m->unit_chain[u + 1]; c++) {
    tile acc;
    clear_tile(acc, n);
    chain(j, j->m->chain[c], j->m->chain[c + 1], n, acc);
    for (size_t t = 0; t < n; t++)
      MT_UNROLL for (size_t v = 0; v < VECTORS; v++) sum[t][v] = vaddq_f32(sum[t][v], acc[t][v]);
  }
}

static void store_rows(const job *j, size_t t, const float32x4_t sum[VECTORS]) {
  float *to = j->out + (j->row + t) * j->ld + j->panel * MT_PANEL_ROWS;
  size_t rows = mt_panel_rows(j->m, j->panel);
  float value[MT_PANEL_ROWS], *at = rows == MT_PANEL_ROWS ? to : value;
  MT_UNROLL for (size_t v = 0; v < VECTORS; v++) vst1q_f32(at + v * LANES, sum[v]);
  if (at != to) memcpy(to, value, rows * sizeof *to);
}

/* 16 sums rounded and added where all are in range (else mt_add_units sorts them out). */
static int add_rows(const job *j, size_t t, const float32x4_t sum[VECTORS]) {
  int64_t *to = j->acc + (j->row + t) * j->ld + j->panel * MT_PANEL_ROWS;
  double factor = mt_unit_factor(j->exp[j->row + t]);
  size_t rows = mt_panel_rows(j->m, j->panel);
  float64x2_t y[2 * VECTORS];
  uint64x2_t fits = vdupq_n_u64(~0ull);
  MT_UNROLL for (size_t i = 0; i < 2 * VECTORS; i++) {
    float32x4_t s = sum[i / 2];
    y[i] = vmulq_n_f64(i % 2 ? vcvt_high_f64_f32(s) : vcvt_f64_f32(vget_low_f32(s)), factor);
    fits = vandq_u64(fits, vcaltq_f64(y[i], vdupq_n_f64(MT_UNIT_LIMIT)));
  }
  if (rows < MT_PANEL_ROWS || !(vgetq_lane_u64(fits, 0) & vgetq_lane_u64(fits, 1))) {
    float value[MT_PANEL_ROWS];
    for (size_t v = 0; v < VECTORS; v++) vst1q_f32(value + v * LANES, sum[v]);
    return mt_add_units(value, rows, factor, to);
  }
  MT_UNROLL for (size_t i = 0; i < 2 * VECTORS; i++)
      vst1q_s64(to + 2 * i, vaddq_s64(vld1q_s64(to + 2 * i), vcvtnq_s64_f64(y[i])));
  return 0;
}

MT_INLINE int run_tile(const job *j, size_t n, chain_fn *chain) {
  tile total, sum;
  int failed = 0;
  clear_tile(total, n);
  for (size_t u = 0; u < j->m->n_units; u++) {
    unit_sums(j, u, n, chain, sum);
    for (size_t t = 0; t < n; t++) {
      if (j->acc) failed += add_rows(j, t, sum[t]);
      MT_UNROLL for (size_t v = 0; v < VECTORS; v++) total[t][v] =
          vaddq_f32(total[t][v], sum[t][v]);
    }
  }
  for (size_t t = 0; !j->acc && t < n; t++) store_rows(j, t, total[t]);
  return failed;
}

/* Input rows [j->row, row_end) of a plain type: four, two and one at a time, all in registers. */
MT_INLINE int run_plain(job j, size_t row_end, chain_fn *chain) {
  int failed = 0;
  for (; j.row + 4 <= row_end; j.row += 4) failed += run_tile(&j, 4, chain);
  if (j.row + 2 <= row_end) {
    failed += run_tile(&j, 2, chain);
    j.row += 2;
  }
  if (j.row < row_end) failed += run_tile(&j, 1, chain);
  return failed;
}

MT_INLINE int run_quantized(job j, size_t row_end, chain_fn *chain) {
  int failed = 0;
  for (size_t n; j.row < row_end; j.row += n) {
    n = row_end - j.row < TILE ? row_end - j.row : TILE;
    failed += n == 1 ? run_tile(&j, 1, chain) : run_tile(&j, n, chain);
  }
  return failed;
}

#define DEFINE_GEMM(name, type, kind)                                                   \
  MT_INLINE void chain_##name(const job *j, size_t i0, size_t i1, size_t n, tile acc) { \
    chain_##kind(type, j, i0, i1, n, acc);                                              \
  }                                                                                     \
  static int NAME(mt_gemm_##name)(const job *j, size_t row_end) {                       \
    return run_##kind(*j, row_end, chain_##name);                                       \
  }

DEFINE_GEMM(f32, MT_F32, plain)
DEFINE_GEMM(f16, MT_F16, plain)
DEFINE_GEMM(bf16, MT_BF16, plain)
DEFINE_GEMM(q8_0, MT_Q8_0, quantized)
DEFINE_GEMM(q4_0, MT_Q4_0, quantized)
DEFINE_GEMM(q4_1, MT_Q4_1, quantized)
DEFINE_GEMM(q5_0, MT_Q5_0, quantized)
DEFINE_GEMM(q5_1, MT_Q5_1, quantized)
DEFINE_GEMM(q2_k, MT_Q2_K, quantized)
DEFINE_GEMM(q3_k, MT_Q3_K, quantized)
DEFINE_GEMM(q4_k, MT_Q4_K, quantized)
DEFINE_GEMM(q5_k, MT_Q5_K, quantized)
DEFINE_GEMM(q6_k, MT_Q6_K, quantized)
DEFINE_GEMM(iq4_nl, MT_IQ4_NL, quantized)
DEFINE_GEMM(iq4_xs, MT_IQ4_XS, quantized)
DEFINE_GEMM(mxfp4, MT_MXFP4, quantized)

static int (*const GEMM[MT_DTYPE_COUNT])(const job *, size_t) = {
    [MT_F32] = NAME(mt_gemm_f32),       [MT_F16] = NAME(mt_gemm_f16),
    [MT_BF16] = NAME(mt_gemm_bf16),     [MT_Q8_0] = NAME(mt_gemm_q8_0),
    [MT_Q4_0] = NAME(mt_gemm_q4_0),     [MT_Q4_1] = NAME(mt_gemm_q4_1),
    [MT_Q5_0] = NAME(mt_gemm_q5_0),     [MT_Q5_1] = NAME(mt_gemm_q5_1),
    [MT_Q2_K] = NAME(mt_gemm_q2_k),     [MT_Q3_K] = NAME(mt_gemm_q3_k),
    [MT_Q4_K] = NAME(mt_gemm_q4_k),     [MT_Q5_K] = NAME(mt_gemm_q5_k),
    [MT_Q6_K] = NAME(mt_gemm_q6_k),     [MT_IQ4_NL] = NAME(mt_gemm_iq4_nl),
    [MT_IQ4_XS] = NAME(mt_gemm_iq4_xs), [MT_MXFP4] = NAME(mt_gemm_mxfp4),
};

static int run_panels(job j, size_t panel_begin, size_t panel_end, size_t row_end) {
  int failed = 0;
  for (size_t p = panel_begin; p < panel_end; p++) {
    j.panel = p;
    j.data = j.m->data + p * j.m->panel_bytes;
    failed += GEMM[j.m->type](&j, row_end);
  }
  return failed;
}

void NAME(mt_gemm)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                   size_t row_begin, size_t row_end, float *out, size_t ld_out) {
  job j = {.m = m, .a = a, .row = row_begin, .out = out, .ld = ld_out};
  run_panels(j, panel_begin, panel_end, row_end);
}

int NAME(mt_gemm_units)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                        size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld) {
  job j = {.m = m, .a = a, .row = row_begin, .exp = exp, .acc = acc, .ld = ld};
  return run_panels(j, panel_begin, panel_end, row_end);
}
