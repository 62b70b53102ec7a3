/* AVX2 matrix products, included once for each way of the integer dot product (MT_VNNI, MT_SUFFIX).
 * A tile is one panel (16 rows of the weight, two vectors) by up to PLAIN_ROWS or QUANT_ROWS input
 * rows. Quantized weights are unpacked once a chain into the first cache and serve all tiles of up
 * to MT_WALK_ROWS input rows; one or two rows (decode) read them where they lie. */
#include "avx2.h"

#define PASTE2(a, b) a##_##b
#define PASTE(a, b)  PASTE2(a, b)
#define NAME(a)      PASTE(a, MT_SUFFIX)

enum {
  LANES = 8,
  PLAIN_ROWS = 6,
  QUANT_ROWS = MT_VNNI ? 6 : 4,
  DIRECT_ROWS = 2,
  MAX_BLOCKS_32 = 10, /* of a chain: MT_CHAIN elements and one cut block at each end */
  MAX_BLOCKS_16 = 18
};

#define WALK_PANELS 1
#include "../walk.h"

/* Rounds half a panel's sums of row t into the totals; what is beyond them comes out not 0. */
MT_INLINE __m256i add_to_total(walk_total *total, size_t t, size_t h, __m256 sum) {
  const __m256d factor = _mm256_set1_pd(total->factor[t]), magic = _mm256_set1_pd(MT_RINT_MAGIC);
  const __m256i below = _mm256_set1_epi32((int)total->limit[t] - 1);
  const __m256i size = _mm256_and_si256(_mm256_castps_si256(sum), _mm256_set1_epi32(0x7fffffff));
  const __m128 part[2] = {_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1)};
  MT_UNROLL for (size_t i = 0; i < 2; i++) {
    __m256i *to = (__m256i *)(void *)(total->sum[t] + h * LANES + 4 * i);
    __m256d y = _mm256_fmadd_pd(_mm256_cvtps_pd(part[i]), factor, magic);
    _mm256_store_si256(to, _mm256_add_epi64(_mm256_load_si256(to), _mm256_castpd_si256(y)));
  }
  return _mm256_cmpgt_epi32(size, below);
}

/* What a chain has summed for n rows from t0 on joins its unit's sum. */
MT_INLINE void end_chain(const walk *j, unsigned at, size_t t0, size_t n, __m256 (*acc)[2]) {
  walk_total *total = at & MT_UNIT_LAST ? j->total : NULL;
  __m256i beyond = _mm256_setzero_si256();
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++) {
    float *sum = j->sum[t0 + t] + h * LANES;
    __m256 s =
        _mm256_add_ps(at & MT_UNIT_FIRST ? _mm256_setzero_ps() : _mm256_load_ps(sum), acc[t][h]);
    if (total)
      beyond = _mm256_or_si256(beyond, add_to_total(total, t0 + t, h, s));
    else
      _mm256_store_ps(sum, s);
  }
  if (!_mm256_testz_si256(beyond, beyond)) total->beyond = true;
}

/* ---- plain types ------------------------------------------------------------------------- */

MT_INLINE __m256 load_plain(mt_dtype type, const uint8_t *data, size_t i) {
  if (type == MT_F32) return _mm256_load_ps((const float *)(const void *)data + i);
  __m128i h = _mm_load_si128((const __m128i *)(const void *)(data + 2 * i));
  if (type == MT_F16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Chain c of n rows from row t0 of the walk on; n is a constant after inlining. */
MT_INLINE void tile_plain(mt_dtype type, const walk *j, size_t c, size_t t0, size_t n) {
  __m256 acc[PLAIN_ROWS][2];
  const size_t ld = j->a->ld_x;
  const float *x = j->a->x + (j->row + t0) * ld, *x3 = x + (n > 3 ? 3 : 0) * ld;
  const uint8_t *d = j->data[0];
  MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
  for (size_t k = j->m->chain[c]; k < j->m->chain[c + 1]; k++) {
    __m256 w0 = load_plain(type, d, k * MT_PANEL_ROWS);
    __m256 w1 = load_plain(type, d, k * MT_PANEL_ROWS + LANES);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m256 b = _mm256_broadcast_ss((t < 3 ? x : x3) + t % 3 * ld + k);
      acc[t][0] = _mm256_fmadd_ps(w0, b, acc[t][0]);
      acc[t][1] = _mm256_fmadd_ps(w1, b, acc[t][1]);
    }
  }
  end_chain(j, j->m->place[c], t0, n, acc);
}

/* ---- quantized types: scales and codes --------------------------------------------------- */

/* What to take off a code: 2^code_bias_bits, or nothing. */
MT_INLINE int code_bias_bits(mt_dtype type) {
  switch (type) {
    case MT_Q8_0:
    case MT_IQ4_NL:
    case MT_IQ4_XS: return 7;
    case MT_Q6_K: return 5;
    case MT_Q5_0:
    case MT_MXFP4: return 4;
    case MT_Q4_0: return 3;
    case MT_Q3_K: return 2;
    default: return 0;
  }
}

MT_INLINE __m256 load_f16_half(const uint8_t *p, size_t h) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * h)));
}

/* 2^(e − 128): (e − 1) << 23 from e = 2 on, below it the subnormals 2^21 and 2^22. */
MT_INLINE __m256 load_e8m0(const uint8_t *p) {
  __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
  __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  low = _mm256_min_epi32(low, _mm256_set1_epi32(0x00400000));
  return _mm256_castsi256_ps(_mm256_max_epi32(normal, low));
}

MT_INLINE __m256 scaled_i8(__m256 d, __m128i sc) {
  return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(sc)));
}

/* d_w and m_w of rows 8 h … 8 h + 7. Scales of Q2_K, Q4_K, Q5_K are below 64: signed or not is the
 * same for them. */
MT_INLINE void load_scales(mt_dtype type, const uint8_t *scales, const uint8_t *super, size_t h,
                           __m256 *dw, __m256 *mw) {
  *mw = _mm256_setzero_ps();
  if (type == MT_MXFP4) {
    *dw = load_e8m0(scales + 8 * h);
    return;
  }
  if (!by_super(type)) {
    *dw = load_f16_half(scales, h);
    if (has_min(type)) *mw = load_f16_half(scales + 32, h);
    return;
  }
  __m128i sc = _mm_loadl_epi64((const __m128i *)(const void *)(scales + 8 * h)), mn = sc;
  __m256 d = load_f16_half(super, h);
  if (signed_scales(type)) {
    *dw = scaled_i8(d, sc);
    return;
  }
  if (type == MT_Q2_K) {
    const __m128i low = _mm_set1_epi8(15);
    mn = _mm_and_si128(_mm_srli_epi16(sc, 4), low);
    sc = _mm_and_si128(sc, low);
  } else {
    mn = _mm_loadl_epi64((const __m128i *)(const void *)(scales + 16 + 8 * h));
  }
  *dw = scaled_i8(d, sc);
  *mw = scaled_i8(_mm256_xor_ps(load_f16_half(super + 32, h), _mm256_set1_ps(-0.0f)), mn);
}

MT_INLINE __m256i load_32(const uint8_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* (v >> shift) & mask in each byte. */
MT_INLINE __m256i field(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

MT_INLINE const int8_t *values_of(mt_dtype type) {
  return type == MT_MXFP4 ? mt_mxfp4_values : mt_iq4_values;
}

/* The values of 4-bit codes, raised by their bias. */
MT_INLINE __m256i values_table(mt_dtype type) {
  const __m128i value = _mm_loadu_si128((const __m128i *)(const void *)values_of(type));
  const __m128i bias = _mm_set1_epi8((char)(1 << code_bias_bits(type)));
  return _mm256_broadcastsi128_si256(_mm_add_epi8(value, bias));
}

/* The 32 codes of group g, rows 8 h … 8 h + 7; signed bytes come with their sign bit flipped. */
MT_INLINE __m256i load_codes(mt_dtype type, const uint8_t *rec, size_t h, size_t g) {
  const uint8_t *low = rec + 32 * h;
  int s = (int)g;
  switch (type) {
    case MT_Q8_0: return _mm256_xor_si256(load_32(low + 64 * g), _mm256_set1_epi8((char)0x80));
    case MT_Q2_K: return field(load_32(low), 2 * s, 3);
    case MT_Q3_K: {
      __m256i high = field(load_32(rec + 64), s + 4 * (int)h, 1);
      return _mm256_or_si256(field(load_32(low), 2 * s, 3), _mm256_slli_epi16(high, 2));
    }
    case MT_Q6_K: {
      __m256i high = field(load_32(low + 128), 2 * s, 3);
      return _mm256_or_si256(field(load_32(low + 64 * (g % 2)), 4 * (s / 2), 15),
                             _mm256_slli_epi16(high, 4));
    }
    case MT_Q5_0:
    case MT_Q5_1:
    case MT_Q5_K: {
      __m256i high = field(load_32(low + 256), s, 1);
      return _mm256_or_si256(field(load_32(low + 64 * (g % 4)), 4 * (s / 4), 15),
                             _mm256_slli_epi16(high, 4));
    }
    case MT_IQ4_NL:
    case MT_IQ4_XS:
    case MT_MXFP4:
      return _mm256_shuffle_epi8(values_table(type),
                                 field(load_32(low + 64 * (g % 4)), 4 * (s / 4), 15));
    default: return field(load_32(low + 64 * (g % 4)), 4 * (s / 4), 15);
  }
}

/* Four activations of a group, in every lane. */
MT_INLINE __m256i broadcast_4(const int8_t *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

#if MT_VNNI

enum { CODES_SIGNED = false };

/* Σ code × q over a block for rows 8 h … 8 h + 7: vpdpbusd multiplies unsigned codes with the
 * signed planes of q, exactly. */
MT_INLINE void dot_packed(mt_dtype type, const uint8_t *rec, size_t h, const mt_act *a, size_t at,
                          bool int8, size_t n, __m256i dot[DIRECT_ROWS]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  __m256i hi[DIRECT_ROWS], lo[DIRECT_ROWS];
  MT_UNROLL for (size_t t = 0; t < n; t++) hi[t] = lo[t] = _mm256_setzero_si256();
  MT_UNROLL for (size_t i = 0; i < groups; i++) {
    size_t g = i % 2 * (groups / 2) + i / 2; /* groups that share bytes follow one another */
    __m256i w = load_codes(type, rec, h, g);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      size_t q = at + t * a->q_stride + 4 * g;
      hi[t] = _mm256_dpbusd_avx_epi32(hi[t], w, broadcast_4(a->hi + q));
      if (!int8) lo[t] = _mm256_dpbusd_avx_epi32(lo[t], w, broadcast_4(a->lo + q));
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] =
      int8 ? hi[t] : _mm256_add_epi32(_mm256_slli_epi32(hi[t], 8), lo[t]);
}

#else

enum { CODES_SIGNED = true }; /* once unpacked */

/* The codes of group g without their bias, as 16-bit pairs: elements 0, 1 of each row, then 2, 3.
 */
MT_INLINE void load_pairs(mt_dtype type, const uint8_t *rec, size_t h, size_t g, __m256i pair[2]) {
  const __m256i first = _mm256_broadcastsi128_si256(
      _mm_set_epi8(-1, 13, -1, 12, -1, 9, -1, 8, -1, 5, -1, 4, -1, 1, -1, 0));
  const __m256i second = _mm256_broadcastsi128_si256(
      _mm_set_epi8(-1, 15, -1, 14, -1, 11, -1, 10, -1, 7, -1, 6, -1, 3, -1, 2));
  const int bits = code_bias_bits(type);
  const __m256i bias = _mm256_set1_epi16((short)(bits ? 1 << bits : 0));
  __m256i c = load_codes(type, rec, h, g);
  pair[0] = _mm256_sub_epi16(_mm256_shuffle_epi8(c, first), bias);
  pair[1] = _mm256_sub_epi16(_mm256_shuffle_epi8(c, second), bias);
}

/* Two activations, in every lane. */
MT_INLINE __m256i broadcast_pair(const int16_t *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

/* Σ w × q in 16 bits: what 8-bit codes need, since the products of both do not fit vpmaddubsw. */
MT_INLINE void dot_wide(mt_dtype type, const uint8_t *rec, size_t h, const mt_act *a, size_t at,
                        size_t n, __m256i dot[DIRECT_ROWS]) {
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] = _mm256_setzero_si256();
  MT_UNROLL for (size_t g = 0; g < 8; g++) {
    __m256i pair[2];
    load_pairs(type, rec, h, g, pair);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      const int16_t *q = a->q + at + t * a->q_stride + 4 * g;
      dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(pair[0], broadcast_pair(q)));
      dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(pair[1], broadcast_pair(q + 2)));
    }
  }
}

/* Σ code × q over a block, from the planes of q. A lane of 16 bits takes `step` groups, each adding
 * at most 2 × (2^bits − 1) × 128, so vpmaddubsw and the sums never saturate or wrap: 8 × 3840, 4 ×
 * 7936 and 2 × 16128 are below 32768. */
MT_INLINE void dot_codes(mt_dtype type, const uint8_t *rec, size_t h, const mt_act *a, size_t at,
                         bool int8, size_t n, __m256i dot[DIRECT_ROWS]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  const bool five = type == MT_Q5_0 || type == MT_Q5_1 || type == MT_Q5_K || type == MT_MXFP4;
  const size_t step = type == MT_Q6_K ? 2 : five ? 4 : groups;
  const __m256i one = _mm256_set1_epi16(1), high = _mm256_set1_epi16(int8 ? 1 : 256);
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] = _mm256_setzero_si256();
  MT_UNROLL for (size_t i0 = 0; i0 < groups; i0 += step) {
    __m256i hi[DIRECT_ROWS], lo[DIRECT_ROWS];
    MT_UNROLL for (size_t t = 0; t < n; t++) hi[t] = lo[t] = _mm256_setzero_si256();
    MT_UNROLL for (size_t i = i0; i < i0 + step; i++) {
      size_t g = i % 2 * (groups / 2) + i / 2; /* groups that share bytes follow one another */
      __m256i w = load_codes(type, rec, h, g);
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        size_t q = at + t * a->q_stride + 4 * g;
        hi[t] = _mm256_add_epi16(hi[t], _mm256_maddubs_epi16(w, broadcast_4(a->hi + q)));
        if (!int8) lo[t] = _mm256_add_epi16(lo[t], _mm256_maddubs_epi16(w, broadcast_4(a->lo + q)));
      }
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(hi[t], high));
      if (!int8) dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(lo[t], one));
    }
  }
}

/* With wide codes the bias is off already. */
MT_INLINE bool wide_codes(mt_dtype type) {
  return code_bias_bits(type) == 7;
}

MT_INLINE void dot_packed(mt_dtype type, const uint8_t *rec, size_t h, const mt_act *a, size_t at,
                          bool int8, size_t n, __m256i dot[DIRECT_ROWS]) {
  if (wide_codes(type))
    dot_wide(type, rec, h, a, at, n, dot);
  else
    dot_codes(type, rec, h, a, at, int8, n, dot);
}

#endif

/* What to take off Σ code × q as dot_packed gives it. */
MT_INLINE int packed_bias_bits(mt_dtype type) {
#if !MT_VNNI
  if (wide_codes(type)) return 0;
#endif
  return code_bias_bits(type);
}

/* acc = fma(d_w × d_a, f, acc). */
MT_INLINE __m256 add_block(__m256 acc, __m256 dw, __m256 da, __m256i dot) {
  return _mm256_fmadd_ps(_mm256_mul_ps(dw, da), _mm256_cvtepi32_ps(dot), acc);
}

/* ---- one or two rows: weights read where they lie ---------------------------------------- */

MT_INLINE void direct_block(mt_dtype type, const mt_act *a, size_t row, size_t b,
                            const uint8_t *rec, const uint8_t *super, size_t planes, bool int8,
                            size_t h, size_t n, __m256 acc[DIRECT_ROWS][2]) {
  const size_t slots = slots_16(type) ? 16 : 32;
  __m256i dot[DIRECT_ROWS];
  __m256 dw, mw;
  dot_packed(type, rec, h, a, row * a->q_stride + b * slots, int8, n, dot);
  /* Bytes are touched in ascending order, or the hardware does not see the stream. */
  __asm__ volatile("" ::: "memory");
  load_scales(type, rec + planes, super, h, &dw, &mw);
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    size_t s = (row + t) * a->n_blocks + b;
    __m256 da = _mm256_set1_ps(a->scale[s]);
    __m256i sum = _mm256_set1_epi32(a->sum[s]);
    if (packed_bias_bits(type))
      dot[t] = _mm256_sub_epi32(dot[t], _mm256_slli_epi32(sum, packed_bias_bits(type)));
    acc[t][h] = add_block(acc[t][h], dw, da, dot[t]);
    if (has_min(type))
      acc[t][h] = _mm256_fmadd_ps(mw, _mm256_mul_ps(da, _mm256_cvtepi32_ps(sum)), acc[t][h]);
  }
}

MT_INLINE void direct(mt_dtype type, const walk *j, size_t c0, size_t c1, bool int8, size_t n) {
  const mt_record_size size = mt_record_size_of(type);
  const mt_act a = *j->a; /* its fields stay in registers */
  const uint8_t *records = j->data[0] + j->m->n_supers * size.super;
  for (size_t c = c0; c < c1; c++) {
    __m256 acc[DIRECT_ROWS][2];
    MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (size_t b = j->m->chain[c]; b < j->m->chain[c + 1]; b++) {
      const uint8_t *rec = records + b * size.record;
      size_t super = by_super(type) ? j->m->block[b].super * size.super : 0;
      if (wants_prefetch(type, true)) prefetch_ahead(rec, size.record);
      direct_block(type, &a, j->row, b, rec, j->data[0] + super, size.codes, int8, 0, n, acc);
      direct_block(type, &a, j->row, b, rec, j->data[0] + super, size.codes, int8, 1, n, acc);
    }
    end_chain(j, j->m->place[c], 0, n, acc);
  }
}

/* ---- many rows: weights unpacked --------------------------------------------------------- */

#if MT_VNNI
typedef uint8_t code_t; /* [block][group][16 rows][4] */
#else
typedef int16_t code_t; /* [block][pair of k][16 rows][2], without the bias */
#endif

/* A chain of a panel. */
typedef struct unpacked {
  _Alignas(64) code_t code[MAX_BLOCKS_32 * 32 * MT_PANEL_ROWS];
  _Alignas(64) float dw[MAX_BLOCKS_16][MT_PANEL_ROWS], mw[MAX_BLOCKS_16][MT_PANEL_ROWS];
} unpacked;

#if MT_VNNI

MT_INLINE void unpack_block(mt_dtype type, const uint8_t *rec, size_t h, code_t *code) {
  const size_t groups = slots_16(type) ? 4 : 8;
  MT_UNROLL for (size_t g = 0; g < groups; g++)
      _mm256_store_si256((__m256i *)(void *)(code + g * 64 + h * 32), load_codes(type, rec, h, g));
}

/* dot += codes × one plane of q. */
MT_INLINE void dot_plane(const code_t *code, size_t groups, const int8_t *q, size_t stride,
                         size_t n, __m256i dot[QUANT_ROWS][2]) {
  const int8_t *q3 = q + (n > 3 ? 3 : 0) * stride;
  MT_UNROLL for (size_t g = 0; g < groups; g++) {
    __m256i w0 = load_32(code + g * 64), w1 = load_32(code + g * 64 + 32);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m256i x = broadcast_4((t < 3 ? q : q3) + t % 3 * stride + 4 * g);
      dot[t][0] = _mm256_dpbusd_avx_epi32(dot[t][0], w0, x);
      dot[t][1] = _mm256_dpbusd_avx_epi32(dot[t][1], w1, x);
    }
  }
}

/* Σ code × q of a block: the high plane, times 256, and the low one. */
MT_INLINE void dot_unpacked(const code_t *code, size_t slots, const mt_act *a, size_t at, size_t n,
                            __m256i dot[QUANT_ROWS][2]) {
  dot_plane(code, slots / 4, a->hi + at, a->q_stride, n, dot);
  if (a->int8) return;
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    dot[t][0] = _mm256_slli_epi32(dot[t][0], 8);
    dot[t][1] = _mm256_slli_epi32(dot[t][1], 8);
  }
  dot_plane(code, slots / 4, a->lo + at, a->q_stride, n, dot);
}

#else

MT_INLINE void unpack_block(mt_dtype type, const uint8_t *rec, size_t h, code_t *code) {
  const size_t groups = slots_16(type) ? 4 : 8;
  MT_UNROLL for (size_t g = 0; g < groups; g++) {
    __m256i pair[2];
    load_pairs(type, rec, h, g, pair);
    _mm256_store_si256((__m256i *)(void *)(code + g * 64 + h * 16), pair[0]);
    _mm256_store_si256((__m256i *)(void *)(code + g * 64 + 32 + h * 16), pair[1]);
  }
}

/* Σ w × q of a block. */
MT_INLINE void dot_unpacked(const code_t *code, size_t slots, const mt_act *a, size_t at, size_t n,
                            __m256i dot[QUANT_ROWS][2]) {
  const int16_t *q = a->q + at, *q3 = q + (n > 3 ? 3 : 0) * a->q_stride;
  for (size_t i = 0; i < slots / 2; i++) {
    __m256i w0 = load_32((const uint8_t *)(code + i * 32));
    __m256i w1 = load_32((const uint8_t *)(code + i * 32 + 16));
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m256i x = broadcast_pair((t < 3 ? q : q3) + t % 3 * a->q_stride + 2 * i);
      dot[t][0] = _mm256_add_epi32(dot[t][0], _mm256_madd_epi16(w0, x));
      dot[t][1] = _mm256_add_epi32(dot[t][1], _mm256_madd_epi16(w1, x));
      /* Or compilers load a weight again for each product, and copy the sums about. */
      __asm__("" : "+x"(w0), "+x"(w1), "+x"(dot[t][0]), "+x"(dot[t][1]));
    }
  }
}

#endif

MT_INLINE void unpack(mt_dtype type, const walk *j, size_t b0, size_t b1, unpacked *u) {
  const mt_qinfo *qi = mt_qinfo_get(type);
  const size_t slots = slots_16(type) ? 16 : 32, supers = mt_panel_supers_bytes(j->m, qi);
  for (size_t b = b0; b < b1; b++) {
    const uint8_t *rec = j->data[0] + supers + b * qi->record_bytes;
    const uint8_t *super =
        j->data[0] + (by_super(type) ? j->m->block[b].super * qi->super_bytes : 0);
    MT_UNROLL for (size_t h = 0; h < 2; h++) {
      __m256 dw, mw;
      load_scales(type, rec + qi->record_bytes - qi->scale_bytes, super, h, &dw, &mw);
      _mm256_store_ps(u->dw[b - b0] + h * LANES, dw);
      if (has_min(type)) _mm256_store_ps(u->mw[b - b0] + h * LANES, mw);
      unpack_block(type, rec, h, u->code + (b - b0) * slots * MT_PANEL_ROWS);
    }
  }
}

/* Chain c, unpacked from block b_first on, of n rows from row t0 of the walk on; slots, min and n
 * are constants after inlining. */
MT_INLINE void tile_quantized(size_t slots, bool min, const walk *j, const unpacked *u,
                              size_t b_first, size_t c, int bias_bits, size_t t0, size_t n) {
  const mt_act *a = j->a;
  const size_t row = j->row + t0;
  const __m128i bias_shift = _mm_cvtsi32_si128(bias_bits);
  __m256 acc[QUANT_ROWS][2];
  MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
  for (size_t b = j->m->chain[c]; b < j->m->chain[c + 1]; b++) {
    const float *dw = u->dw[b - b_first], *mw = u->mw[b - b_first];
    __m256i dot[QUANT_ROWS][2];
    MT_UNROLL for (size_t t = 0; t < n; t++) dot[t][0] = dot[t][1] = _mm256_setzero_si256();
    dot_unpacked(u->code + (b - b_first) * slots * MT_PANEL_ROWS, slots, a,
                 row * a->q_stride + b * slots, n, dot);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      size_t s = (row + t) * a->n_blocks + b;
      __m256 da = _mm256_set1_ps(a->scale[s]);
      __m256i sum = _mm256_set1_epi32(a->sum[s]);
      if (!min && !CODES_SIGNED) {
        __m256i bias = _mm256_sll_epi32(sum, bias_shift);
        dot[t][0] = _mm256_sub_epi32(dot[t][0], bias);
        dot[t][1] = _mm256_sub_epi32(dot[t][1], bias);
      }
      acc[t][0] = add_block(acc[t][0], _mm256_load_ps(dw), da, dot[t][0]);
      acc[t][1] = add_block(acc[t][1], _mm256_load_ps(dw + LANES), da, dot[t][1]);
      if (!min) continue;
      __m256 das = _mm256_mul_ps(da, _mm256_cvtepi32_ps(sum));
      acc[t][0] = _mm256_fmadd_ps(_mm256_load_ps(mw), das, acc[t][0]);
      acc[t][1] = _mm256_fmadd_ps(_mm256_load_ps(mw + LANES), das, acc[t][1]);
    }
  }
  end_chain(j, j->m->place[c], t0, n, acc);
}

/* ---- by type ----------------------------------------------------------------------------- */

typedef void unpacked_fn(const walk *j, const unpacked *u, size_t b_first, size_t c, int bias_bits,
                         size_t t0, size_t n);

#define TILE_CASE(n)                                                \
  case n:                                                           \
    tile_quantized(slots, min, j, u, b_first, c, bias_bits, t0, n); \
    break;
#if MT_VNNI
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6)
#else
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4)
#endif
#define DEFINE_UNPACKED(name, slots_, min_)                                                   \
  static void name(const walk *j, const unpacked *u, size_t b_first, size_t c, int bias_bits, \
                   size_t t0, size_t n) {                                                     \
    const size_t slots = slots_;                                                              \
    const bool min = min_;                                                                    \
    switch (n) { TILE_CASES }                                                                 \
  }
DEFINE_UNPACKED(tiles_16, 16, false)
DEFINE_UNPACKED(tiles_16_min, 16, true)
DEFINE_UNPACKED(tiles_32, 32, false)
DEFINE_UNPACKED(tiles_32_min, 32, true)

MT_INLINE void direct_rows(mt_dtype type, const walk *j, size_t c0, size_t c1, size_t n) {
  if (j->a->int8)
    direct(type, j, c0, c1, true, n);
  else
    direct(type, j, c0, c1, false, n);
}

MT_INLINE void chains_quantized(mt_dtype type, const walk *j, size_t c0, size_t c1) {
  if (j->n == 1) {
    direct_rows(type, j, c0, c1, 1);
    return;
  }
  if (j->n == 2) {
    direct_rows(type, j, c0, c1, 2);
    return;
  }
  unpacked u;
  unpacked_fn *const tiles = slots_16(type)  ? has_min(type) ? tiles_16_min : tiles_16
                             : has_min(type) ? tiles_32_min
                                             : tiles_32;
  for (size_t c = c0, end; c < c1; c = end) {
    end = chains_together(j->m, c, c1, slots_16(type) ? MAX_BLOCKS_16 : MAX_BLOCKS_32);
    unpack(type, j, j->m->chain[c], j->m->chain[end], &u);
    for (size_t t = 0, n; t < j->n; t += n) {
      n = mt_even_part(j->n - t, QUANT_ROWS);
      for (size_t i = c; i < end; i++) tiles(j, &u, j->m->chain[c], i, code_bias_bits(type), t, n);
    }
  }
}

#define PLAIN_CASE(n)                                              \
  case n:                                                          \
    for (size_t i = c; i < end; i++) tile_plain(type, j, i, t, n); \
    break;

MT_INLINE void chains_plain(mt_dtype type, const walk *j, size_t c0, size_t c1) {
  for (size_t c = c0, end; c < c1; c = end) {
    end = chains_together(j->m, c, c1, MT_CHAIN);
    for (size_t t = 0, n; t < j->n; t += n) {
      n = mt_even_part(j->n - t, PLAIN_ROWS);
      switch (n) {
        PLAIN_CASE(1) PLAIN_CASE(2) PLAIN_CASE(3) PLAIN_CASE(4) PLAIN_CASE(5) PLAIN_CASE(6)
      }
    }
  }
}

#define DEFINE_CHAINS(name, type, chains_of)                             \
  static void NAME(chains_##name)(const walk *j, size_t c0, size_t c1) { \
    chains_of(type, j, c0, c1);                                          \
  }

DEFINE_CHAINS(f32, MT_F32, chains_plain)
DEFINE_CHAINS(f16, MT_F16, chains_plain)
DEFINE_CHAINS(bf16, MT_BF16, chains_plain)
DEFINE_CHAINS(q8_0, MT_Q8_0, chains_quantized)
DEFINE_CHAINS(q4_0, MT_Q4_0, chains_quantized)
DEFINE_CHAINS(q4_1, MT_Q4_1, chains_quantized)
DEFINE_CHAINS(q5_0, MT_Q5_0, chains_quantized)
DEFINE_CHAINS(q5_1, MT_Q5_1, chains_quantized)
DEFINE_CHAINS(q2_k, MT_Q2_K, chains_quantized)
DEFINE_CHAINS(q3_k, MT_Q3_K, chains_quantized)
DEFINE_CHAINS(q4_k, MT_Q4_K, chains_quantized)
DEFINE_CHAINS(q5_k, MT_Q5_K, chains_quantized)
DEFINE_CHAINS(q6_k, MT_Q6_K, chains_quantized)
DEFINE_CHAINS(iq4_nl, MT_IQ4_NL, chains_quantized)
DEFINE_CHAINS(iq4_xs, MT_IQ4_XS, chains_quantized)
DEFINE_CHAINS(mxfp4, MT_MXFP4, chains_quantized)

static const walk_fns FNS[MT_DTYPE_COUNT] = {
    [MT_F32] = {NAME(chains_f32), NULL},       [MT_F16] = {NAME(chains_f16), NULL},
    [MT_BF16] = {NAME(chains_bf16), NULL},     [MT_Q8_0] = {NAME(chains_q8_0), NULL},
    [MT_Q4_0] = {NAME(chains_q4_0), NULL},     [MT_Q4_1] = {NAME(chains_q4_1), NULL},
    [MT_Q5_0] = {NAME(chains_q5_0), NULL},     [MT_Q5_1] = {NAME(chains_q5_1), NULL},
    [MT_Q2_K] = {NAME(chains_q2_k), NULL},     [MT_Q3_K] = {NAME(chains_q3_k), NULL},
    [MT_Q4_K] = {NAME(chains_q4_k), NULL},     [MT_Q5_K] = {NAME(chains_q5_k), NULL},
    [MT_Q6_K] = {NAME(chains_q6_k), NULL},     [MT_IQ4_NL] = {NAME(chains_iq4_nl), NULL},
    [MT_IQ4_XS] = {NAME(chains_iq4_xs), NULL}, [MT_MXFP4] = {NAME(chains_mxfp4), NULL},
};

void NAME(mt_gemm)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                   size_t row_begin, size_t row_end, float *out, size_t ld_out) {
  walk_panels(m, panel_begin, panel_end, a, row_begin, row_end, &FNS[m->type], NULL, NULL, out,
              ld_out);
}

int NAME(mt_gemm_units)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                        size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld) {
  return walk_panels(m, panel_begin, panel_end, a, row_begin, row_end, &FNS[m->type], exp, acc,
                     NULL, ld);
}
