/* AVX-512 matrix products, included once for each way of the integer dot product (MT_VNNI,
 * MT_SUFFIX). A tile is two panels (32 rows of the weight, two vectors) by up to PLAIN_ROWS or
 * QUANT_ROWS input rows. Quantized weights are unpacked once a chain into the first cache and serve
 * all tiles of up to MT_WALK_ROWS input rows; one or two rows (decode) read them where they lie. */
#include "avx512.h"

#define PASTE2(a, b) a##_##b
#define PASTE(a, b)  PASTE2(a, b)
#define NAME(a)      PASTE(a, MT_SUFFIX)

enum {
  LANES = 16,
  VECTORS = 1, /* of a panel */
  PLAIN_ROWS = 12,
  QUANT_ROWS = 6,
  DIRECT_ROWS = 2,
  MAX_BLOCKS_32 = 10, /* of a chain: MT_CHAIN elements and one cut block at each end */
  MAX_BLOCKS_16 = 18
};

typedef __m512 vec;
typedef __m512i ivec;
#define OUT_OF_THE_WAY(v) (void)(v)

MT_INLINE vec zero_vec(void) {
  return _mm512_setzero_ps();
}
MT_INLINE ivec zero_bits(void) {
  return _mm512_setzero_si512();
}
MT_INLINE vec add_vec(vec a, vec b) {
  return _mm512_add_ps(a, b);
}
MT_INLINE __m512i magnitude_bits(__m512 p) {
  return _mm512_and_si512(_mm512_castps_si512(p), _mm512_set1_epi32(0x7fffffff));
}

MT_INLINE ivec larger(ivec largest, vec v) {
  return _mm512_max_epu32(largest, magnitude_bits(v));
}

/* acc + rint(p × factor), and MT_RINT_MAGIC_BITS, which the caller takes off. */
MT_INLINE void add_rounded(__m512i acc[2], __m512 p, double factor) {
  const __m512d f = _mm512_set1_pd(factor), magic = _mm512_set1_pd(MT_RINT_MAGIC);
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(p)),
                high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(p, 1));
  acc[0] = _mm512_add_epi64(acc[0], _mm512_castpd_si512(_mm512_fmadd_pd(low, f, magic)));
  acc[1] = _mm512_add_epi64(acc[1], _mm512_castpd_si512(_mm512_fmadd_pd(high, f, magic)));
}
MT_INLINE bool below_limit(__m512i largest, uint32_t limit, size_t rows) {
  const __mmask16 most = (__mmask16)((1u << rows) - 1);
  return !_mm512_mask_cmple_epu32_mask(most, _mm512_set1_epi32((int)limit), largest);
}
MT_INLINE void store_integers(int64_t *to, const __m512i acc[2], int64_t magic, size_t rows) {
  const unsigned most = (1u << rows) - 1;
  MT_UNROLL for (int i = 0; i < 2; i++) _mm512_mask_storeu_epi64(
      to + 8 * i, (__mmask8)(most >> 8 * i), _mm512_sub_epi64(acc[i], _mm512_set1_epi64(magic)));
}
MT_INLINE void store_rows(float *to, __m512 v, size_t rows) {
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << rows) - 1), v);
}

#define WALK_PANELS 2
#include "../walk.h"

/* The scales of a super-block, once for all of its blocks. */
typedef struct super_scales {
  size_t at; /* which super-block of the panel */
  vec d[VECTORS], dmin[VECTORS];
} super_scales;

MT_INLINE __m512i load_64(const uint8_t *p) {
  return _mm512_loadu_si512((const void *)p);
}
MT_INLINE __m256i load_32(const uint8_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
MT_INLINE __m128i load_16(const uint8_t *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Rounds a panel's sums of row t into the totals; gives the rows that are beyond them. */
MT_INLINE __mmask16 add_to_total(walk_total *total, size_t t, size_t p, __m512 sum) {
  int64_t *to = total->sum[t] + p * LANES;
  __m512i acc[2] = {_mm512_load_si512(to), _mm512_load_si512(to + 8)};
  add_rounded(acc, sum, total->factor[t]);
  _mm512_store_si512(to, acc[0]);
  _mm512_store_si512(to + 8, acc[1]);
  return _mm512_cmple_epu32_mask(_mm512_set1_epi32((int)total->limit[t]), magnitude_bits(sum));
}

/* What a chain has summed for n rows from t0 on joins its unit's sum. */
MT_INLINE void end_chain(const walk *j, unsigned at, size_t t0, size_t n, __m512 (*acc)[2]) {
  walk_total *total = at & MT_UNIT_LAST ? j->total : NULL;
  unsigned beyond = 0;
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t p = 0; p < 2; p++) {
    float *sum = j->sum[t0 + t] + p * LANES;
    __m512 s =
        _mm512_add_ps(at & MT_UNIT_FIRST ? _mm512_setzero_ps() : _mm512_load_ps(sum), acc[t][p]);
    if (total)
      beyond |= add_to_total(total, t0 + t, p, s);
    else
      _mm512_store_ps(sum, s);
  }
  if (beyond) total->beyond = true;
}

/* ---- rows of input ----------------------------------------------------------------------- */

/* Row t of a tile, base[t / 3] + (t % 3) × stride: one addressing mode each, few registers. */
#define TILE_BASES(rows) (((rows) + 2) / 3)

/* ---- plain types ------------------------------------------------------------------------- */

MT_INLINE __m512 load_plain(mt_dtype type, const uint8_t *data, size_t i) {
  if (type == MT_F32) return _mm512_loadu_ps((const float *)(const void *)data + i);
  __m256i h = load_32(data + 2 * i);
  if (type == MT_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* A chain of n rows of one panel: an ascending stream, which is what memory gives fastest. */
MT_INLINE void direct_plain(mt_dtype type, const walk *j, size_t c, size_t n,
                            vec acc[DIRECT_ROWS][VECTORS]) {
  const size_t ld = j->a->ld_x;
  const float *x = j->a->x + j->row * ld;
  for (size_t k = j->m->chain[c]; k < j->m->chain[c + 1]; k++) {
    const uint8_t *d = j->data[0] + k * LANES * (type == MT_F32 ? 4 : 2);
    if (j->ahead) ask_lines(d + j->ahead, LANES * (type == MT_F32 ? 4 : 2));
    __m512 w = load_plain(type, d, 0);
    MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] =
        _mm512_fmadd_ps(w, _mm512_set1_ps(x[t * ld + k]), acc[t][0]);
  }
}

/* Chain c of n rows from row t0 of the walk on; n is a constant after inlining. */
MT_INLINE void tile_plain(mt_dtype type, const walk *j, size_t c, size_t t0, size_t n) {
  __m512 acc[PLAIN_ROWS][2];
  const float *base[TILE_BASES(PLAIN_ROWS)];
  const size_t ld = j->a->ld_x;
  const uint8_t *d0 = j->data[0], *d1 = j->data[1];
  MT_UNROLL for (size_t i = 0; i < TILE_BASES(n); i++) base[i] =
      j->a->x + (j->row + t0 + 3 * i) * ld;
  MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = _mm512_setzero_ps();
  for (size_t k = j->m->chain[c]; k < j->m->chain[c + 1]; k++) {
    __m512 w0 = load_plain(type, d0, k * LANES), w1 = load_plain(type, d1, k * LANES);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m512 x = _mm512_set1_ps(base[t / 3][t % 3 * ld + k]);
      acc[t][0] = _mm512_fmadd_ps(w0, x, acc[t][0]);
      acc[t][1] = _mm512_fmadd_ps(w1, x, acc[t][1]);
    }
  }
  end_chain(j, j->m->place[c], t0, n, acc);
}

/* ---- quantized types --------------------------------------------------------------------- */

MT_INLINE __m512 scaled_i8(__m512 d, __m128i sc) {
  return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sc)));
}

/* 2^(e − 128): (e − 1) << 23 from e = 2 on, below it the subnormals 2^21 and 2^22. */
MT_INLINE __m512 load_e8m0(const uint8_t *p) {
  __m512i e = _mm512_and_si512(_mm512_cvtepi8_epi32(load_16(p)), _mm512_set1_epi32(255));
  __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  __m512i low = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
  low = _mm512_min_epi32(low, _mm512_set1_epi32(0x00400000));
  return _mm512_castsi512_ps(_mm512_max_epi32(normal, low));
}

/* The scales of a super-block: d and −dmin of the 16 rows. */
MT_INLINE void load_super(mt_dtype type, const uint8_t *super, __m512 *d, __m512 *dmin) {
  *d = *dmin = _mm512_setzero_ps();
  if (!by_super(type)) return;
  *d = _mm512_cvtph_ps(load_32(super));
  if (has_min(type))
    *dmin = _mm512_xor_ps(_mm512_cvtph_ps(load_32(super + 32)), _mm512_set1_ps(-0.0f));
}

/* d_w and m_w of the 16 rows. Scales of Q2_K, Q4_K, Q5_K are below 64: signed or not is the same
 * for them. */
MT_INLINE void block_scales(mt_dtype type, const uint8_t *scales, __m512 d, __m512 dmin, __m512 *dw,
                            __m512 *mw) {
  *mw = _mm512_setzero_ps();
  if (type == MT_MXFP4) {
    *dw = load_e8m0(scales);
    return;
  }
  if (!by_super(type)) {
    *dw = _mm512_cvtph_ps(load_32(scales));
    if (has_min(type)) *mw = _mm512_cvtph_ps(load_32(scales + 32));
    return;
  }
  __m128i sc = load_16(scales), mn = sc;
  if (type == MT_Q2_K) {
    const __m128i low = _mm_set1_epi8(15);
    mn = _mm_and_si128(_mm_srli_epi16(sc, 4), low);
    sc = _mm_and_si128(sc, low);
  } else if (has_min(type)) {
    mn = load_16(scales + 16);
  }
  *dw = scaled_i8(d, sc);
  if (has_min(type)) *mw = scaled_i8(dmin, mn);
}

/* (v >> shift) & mask in each byte. */
MT_INLINE __m512i field(__m512i v, int shift, int mask) {
  const uint8_t count = (uint8_t)shift; /* compilers disagree about the parameter's sign */
  return _mm512_and_si512(_mm512_srli_epi16(v, count), _mm512_set1_epi8((char)mask));
}

/* Bit g of each byte for rows 0–7, bit g + 4 of the same bytes for rows 8–15. */
MT_INLINE __m512i high_q3_k(const uint8_t *p, int g) {
  __m512i v = _mm512_broadcast_i64x4(load_32(p));
  __m512i shift =
      _mm512_inserti64x4(_mm512_set1_epi16((short)g), _mm256_set1_epi16((short)(g + 4)), 1);
  return _mm512_and_si512(_mm512_srlv_epi16(v, shift), _mm512_set1_epi8(1));
}

/* The values of 4-bit codes, raised by their bias. */
MT_INLINE __m512i values_table(mt_dtype type) {
  const __m128i value = _mm_loadu_si128((const __m128i *)(const void *)values_of(type));
  const __m128i bias = _mm_set1_epi8((char)(1 << code_bias_bits(type)));
  return _mm512_broadcast_i32x4(_mm_add_epi8(value, bias));
}

/* The 64 codes of group g; signed bytes come with their sign bit flipped. */
MT_INLINE __m512i load_codes(mt_dtype type, const uint8_t *rec, size_t g) {
  int s = (int)g;
  switch (type) {
    case MT_Q8_0: return _mm512_xor_si512(load_64(rec + 64 * g), _mm512_set1_epi8((char)0x80));
    case MT_Q2_K: return field(load_64(rec), 2 * s, 3);
    case MT_Q3_K:
      return _mm512_or_si512(field(load_64(rec), 2 * s, 3),
                             _mm512_slli_epi16(high_q3_k(rec + 64, s), 2));
    case MT_Q6_K:
      return _mm512_or_si512(field(load_64(rec + 64 * (g % 2)), 4 * (s / 2), 15),
                             _mm512_slli_epi16(field(load_64(rec + 128), 2 * s, 3), 4));
    case MT_Q5_0:
    case MT_Q5_1:
    case MT_Q5_K:
      return _mm512_or_si512(field(load_64(rec + 64 * (g % 4)), 4 * (s / 4), 15),
                             _mm512_slli_epi16(field(load_64(rec + 256), s, 1), 4));
    case MT_IQ4_NL:
    case MT_IQ4_XS:
    case MT_MXFP4:
      return _mm512_shuffle_epi8(values_table(type),
                                 field(load_64(rec + 64 * (g % 4)), 4 * (s / 4), 15));
    default: return field(load_64(rec + 64 * (g % 4)), 4 * (s / 4), 15);
  }
}

/* Four activations of a group, in every lane. */
MT_INLINE __m512i broadcast_4(const int8_t *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

#if MT_VNNI

enum { CODES_SIGNED = false };

/* acc + Σ w × q of four unsigned codes in each lane and four activations, which every lane reads
 * within the instruction: compilers make two of it. */
MT_INLINE __m512i dot_4(__m512i acc, __m512i w, const int8_t *q) {
#ifdef __AVX512VNNI__
  typedef int32_t __attribute__((may_alias)) four_bytes;
  const four_bytes *from = (const four_bytes *)(const void *)q;
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*from));
  return acc;
#else /* emulated */
  return _mm512_dpbusd_epi32(acc, w, broadcast_4(q));
#endif
}

/* 4-bit codes of the second half of the groups may stay in the upper halves of their bytes, where
 * they count 16 times as much: their sum is divided instead. */
MT_INLINE bool upper_in_place(mt_dtype type) {
  return type == MT_Q4_0 || type == MT_Q4_1 || type == MT_Q4_K;
}
MT_INLINE __m512i load_in_place(mt_dtype type, const uint8_t *rec, size_t g) {
  if (!upper_in_place(type) || g < 4) return load_codes(type, rec, g);
  return _mm512_and_si512(load_64(rec + 64 * (g % 4)), _mm512_set1_epi8((char)0xf0));
}

/* Σ code × q over a block: vpdpbusd multiplies unsigned codes with the signed planes of q,
 * exactly. Two sums for each plane: one would wait for itself. */
MT_INLINE void dot_packed(mt_dtype type, const place *p, size_t stride, bool int8, size_t n,
                          __m512i dot[DIRECT_ROWS]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  __m512i hi[DIRECT_ROWS][2], lo[DIRECT_ROWS][2];
  MT_UNROLL for (size_t t = 0; t < n; t++) hi[t][0] = hi[t][1] = lo[t][0] = lo[t][1] =
      _mm512_setzero_si512();
  MT_UNROLL for (size_t i = 0; i < groups; i++) {
    const size_t g = group_at(type, groups, i);
    const __m512i w = load_in_place(type, p->rec, g);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      size_t q = t * stride + 4 * g;
      hi[t][i % 2] = dot_4(hi[t][i % 2], w, p->hi + q);
      if (!int8) lo[t][i % 2] = dot_4(lo[t][i % 2], w, p->lo + q);
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    if (!int8)
      MT_UNROLL for (size_t k = 0; k < 2; k++) hi[t][k] =
          _mm512_add_epi32(_mm512_slli_epi32(hi[t][k], 8), lo[t][k]);
    if (upper_in_place(type)) hi[t][1] = _mm512_srai_epi32(hi[t][1], 4);
    dot[t] = _mm512_add_epi32(hi[t][0], hi[t][1]);
  }
}

#else

enum { CODES_SIGNED = true }; /* once unpacked */

/* The codes of a group without their bias, as 16-bit pairs: elements 0, 1 of each row, then 2, 3.
 */
MT_INLINE void to_pairs(mt_dtype type, __m512i c, __m512i pair[2]) {
  const __m512i first = _mm512_broadcast_i32x4(
      _mm_set_epi8(-1, 13, -1, 12, -1, 9, -1, 8, -1, 5, -1, 4, -1, 1, -1, 0));
  const __m512i second = _mm512_broadcast_i32x4(
      _mm_set_epi8(-1, 15, -1, 14, -1, 11, -1, 10, -1, 7, -1, 6, -1, 3, -1, 2));
  const unsigned bits = code_bias_bits(type);
  const __m512i bias = _mm512_set1_epi16((short)(bits ? 1 << bits : 0));
  pair[0] = _mm512_sub_epi16(_mm512_shuffle_epi8(c, first), bias);
  pair[1] = _mm512_sub_epi16(_mm512_shuffle_epi8(c, second), bias);
}

/* Two activations, in every lane. */
MT_INLINE __m512i broadcast_pair(const int16_t *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

/* Σ w × q in 16 bits: what 8-bit codes need, since the products of both do not fit vpmaddubsw. */
MT_INLINE void dot_wide(mt_dtype type, const place *p, size_t stride, size_t n,
                        __m512i dot[DIRECT_ROWS]) {
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] = _mm512_setzero_si512();
  MT_UNROLL for (size_t g = 0; g < 8; g++) {
    __m512i pair[2];
    to_pairs(type, load_codes(type, p->rec, g), pair);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      const int16_t *q = p->q + t * stride + 4 * g;
      dot[t] = _mm512_add_epi32(dot[t], _mm512_madd_epi16(pair[0], broadcast_pair(q)));
      dot[t] = _mm512_add_epi32(dot[t], _mm512_madd_epi16(pair[1], broadcast_pair(q + 2)));
    }
  }
}

/* Σ code × q over a block, from the planes of q. A lane of 16 bits takes `step` groups, each
 * adding at most 2 × (2^bits − 1) × 128, so vpmaddubsw and the sums never saturate or wrap: 8 ×
 * 3840, 4 × 7936 and 2 × 16128 are below 32768. */
MT_INLINE void dot_codes(mt_dtype type, const place *p, size_t stride, bool int8, size_t n,
                         __m512i dot[DIRECT_ROWS]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  const size_t step = type == MT_Q6_K ? 2 : codes_5_bits(type) ? 4 : groups;
  const __m512i one = _mm512_set1_epi16(1), high = _mm512_set1_epi16(int8 ? 1 : 256);
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] = _mm512_setzero_si512();
  MT_UNROLL for (size_t i0 = 0; i0 < groups; i0 += step) {
    __m512i hi[DIRECT_ROWS], lo[DIRECT_ROWS];
    MT_UNROLL for (size_t t = 0; t < n; t++) hi[t] = lo[t] = _mm512_setzero_si512();
    MT_UNROLL for (size_t i = i0; i < i0 + step; i++) {
      const size_t g = group_at(type, groups, i);
      const __m512i w = load_codes(type, p->rec, g);
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        size_t q = t * stride + 4 * g;
        hi[t] = _mm512_add_epi16(hi[t], _mm512_maddubs_epi16(w, broadcast_4(p->hi + q)));
        if (!int8) lo[t] = _mm512_add_epi16(lo[t], _mm512_maddubs_epi16(w, broadcast_4(p->lo + q)));
      }
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      dot[t] = _mm512_add_epi32(dot[t], _mm512_madd_epi16(hi[t], high));
      if (!int8) dot[t] = _mm512_add_epi32(dot[t], _mm512_madd_epi16(lo[t], one));
    }
  }
}

/* With wide codes the bias is off already. */
MT_INLINE bool wide_codes(mt_dtype type) {
  return code_bias_bits(type) == 7;
}

MT_INLINE void dot_packed(mt_dtype type, const place *p, size_t stride, bool int8, size_t n,
                          __m512i dot[DIRECT_ROWS]) {
  if (wide_codes(type))
    dot_wide(type, p, stride, n, dot);
  else
    dot_codes(type, p, stride, int8, n, dot);
}

#endif

/* What to take off Σ code × q as dot_packed gives it. */
MT_INLINE unsigned packed_bias_bits(mt_dtype type) {
#if !MT_VNNI
  if (wide_codes(type)) return 0;
#endif
  return code_bias_bits(type);
}

/* acc = fma(d_w × d_a, f, acc), and the minimum's share; kinds with a minimum have no bias. */
MT_INLINE __m512 add_block(__m512 acc, __m512 dw, __m512 da, __m512i dot) {
  return _mm512_fmadd_ps(_mm512_mul_ps(dw, da), _mm512_cvtepi32_ps(dot), acc);
}

/* ---- one or two rows: weights read where they lie ---------------------------------------- */

MT_INLINE void direct_block(mt_dtype type, const mt_act *a, place *p, const super_scales *s,
                            bool int8, size_t n, vec acc[DIRECT_ROWS][VECTORS]) {
  const uint8_t *scales = p->rec + mt_record_size_of(type).codes;
  __m512i dot[DIRECT_ROWS];
  __m512 dw, mw;
  dot_packed(type, p, a->q_stride, int8, n, dot);
  /* Bytes are touched in ascending order, or the hardware does not see the stream. */
  __asm__ volatile("" : "+r"(scales));
  block_scales(type, scales, s->d[0], s->dmin[0], &dw, &mw);
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    __m512 da = _mm512_set1_ps(p->scale[t * a->n_blocks]);
    __m512i sum = _mm512_set1_epi32(p->sum[t * a->n_blocks]);
    if (packed_bias_bits(type))
      dot[t] = _mm512_sub_epi32(dot[t], _mm512_slli_epi32(sum, packed_bias_bits(type)));
    acc[t][0] = add_block(acc[t][0], dw, da, dot[t]);
    if (has_min(type))
      acc[t][0] = _mm512_fmadd_ps(mw, _mm512_mul_ps(da, _mm512_cvtepi32_ps(sum)), acc[t][0]);
  }
  next_block(type, p);
}

/* A chain of n rows of one panel. */
MT_INLINE void direct_quantized(mt_dtype type, const walk *j, const mt_act *a, place *p,
                                super_scales *s, size_t c, bool int8, size_t n,
                                vec acc[DIRECT_ROWS][VECTORS]) {
  const mt_record_size size = mt_record_size_of(type);
  const size_t end = j->m->chain[c + 1];
  for (size_t b = j->m->chain[c]; b < end; b++) {
    if (by_super(type) && j->m->block[b].super != s->at) {
      s->at = j->m->block[b].super;
      load_super(type, p->supers + s->at * size.super, &s->d[0], &s->dmin[0]);
    }
    if (j->ahead) ask_lines(p->rec + j->ahead, size.record);
    direct_block(type, a, p, s, int8, n, acc);
  }
}

/* ---- many rows: weights unpacked --------------------------------------------------------- */

#if MT_VNNI
typedef uint8_t code_t; /* [block][group][2 panels][16 rows][4] */
#else
typedef int16_t code_t; /* [block][pair of k][2 panels][16 rows][2], without the bias */
#endif

/* A chain of two panels. */
typedef struct unpacked {
  _Alignas(64) code_t code[MAX_BLOCKS_32 * 32 * 2 * MT_PANEL_ROWS];
  _Alignas(64) float dw[MAX_BLOCKS_16][2 * MT_PANEL_ROWS], mw[MAX_BLOCKS_16][2 * MT_PANEL_ROWS];
  const uint8_t *next[2]; /* where the chain after this one lies, which the first tile asks for */
  size_t record;          /* its bytes for each block */
} unpacked;

/* Memory would rest while a chain is multiplied: so it is asked for the next one meanwhile. */
MT_INLINE void fetch_next(const unpacked *u, size_t block) {
  for (size_t i = 0; i < u->record; i += 64) {
    _mm_prefetch((const char *)u->next[0] + block * u->record + i, _MM_HINT_T1);
    _mm_prefetch((const char *)u->next[1] + block * u->record + i, _MM_HINT_T1);
  }
}

#if MT_VNNI

MT_INLINE void unpack_block(mt_dtype type, const uint8_t *rec, size_t p, code_t *code) {
  const size_t groups = slots_16(type) ? 4 : 8;
  MT_UNROLL for (size_t g = 0; g < groups; g++)
      _mm512_store_si512((void *)(code + g * 128 + p * 64), load_codes(type, rec, g));
}

/* dot += codes × one plane of q. */
MT_INLINE void dot_plane(const code_t *code, size_t groups, const int8_t *const *base,
                         size_t stride, size_t at, size_t n, __m512i dot[QUANT_ROWS][2]) {
  MT_UNROLL for (size_t g = 0; g < groups; g++) {
    __m512i w0 = load_64(code + g * 128), w1 = load_64(code + g * 128 + 64);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m512i x = broadcast_4(base[t / 3] + t % 3 * stride + at + 4 * g);
      dot[t][0] = _mm512_dpbusd_epi32(dot[t][0], w0, x);
      dot[t][1] = _mm512_dpbusd_epi32(dot[t][1], w1, x);
    }
  }
}

/* Σ code × q of a block: the high plane, times 256, and the low one. */
MT_INLINE void dot_unpacked(const code_t *code, size_t slots, const mt_act *a, size_t row, size_t b,
                            size_t n, __m512i dot[QUANT_ROWS][2]) {
  const int8_t *base[TILE_BASES(QUANT_ROWS)];
  const size_t at = b * slots;
  MT_UNROLL for (size_t i = 0; i < TILE_BASES(n); i++) base[i] =
      a->hi + (row + 3 * i) * a->q_stride;
  dot_plane(code, slots / 4, base, a->q_stride, at, n, dot);
  if (a->int8) return;
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    dot[t][0] = _mm512_slli_epi32(dot[t][0], 8);
    dot[t][1] = _mm512_slli_epi32(dot[t][1], 8);
  }
  MT_UNROLL for (size_t i = 0; i < TILE_BASES(n); i++) base[i] =
      a->lo + (row + 3 * i) * a->q_stride;
  dot_plane(code, slots / 4, base, a->q_stride, at, n, dot);
}

#else

MT_INLINE void unpack_block(mt_dtype type, const uint8_t *rec, size_t p, code_t *code) {
  const size_t groups = slots_16(type) ? 4 : 8;
  MT_UNROLL for (size_t g = 0; g < groups; g++) {
    __m512i pair[2];
    to_pairs(type, load_codes(type, rec, g), pair);
    _mm512_store_si512((void *)(code + g * 128 + p * 32), pair[0]);
    _mm512_store_si512((void *)(code + g * 128 + 64 + p * 32), pair[1]);
  }
}

/* Σ w × q of a block. */
MT_INLINE void dot_unpacked(const code_t *code, size_t slots, const mt_act *a, size_t row, size_t b,
                            size_t n, __m512i dot[QUANT_ROWS][2]) {
  const int16_t *base[TILE_BASES(QUANT_ROWS)];
  MT_UNROLL for (size_t i = 0; i < TILE_BASES(n); i++) base[i] =
      a->q + (row + 3 * i) * a->q_stride + b * slots;
  for (size_t i = 0; i < slots / 2; i++) {
    __m512i w0 = load_64((const uint8_t *)(code + i * 64));
    __m512i w1 = load_64((const uint8_t *)(code + i * 64 + 32));
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m512i x = broadcast_pair(base[t / 3] + t % 3 * a->q_stride + 2 * i);
      dot[t][0] = _mm512_add_epi32(dot[t][0], _mm512_madd_epi16(w0, x));
      dot[t][1] = _mm512_add_epi32(dot[t][1], _mm512_madd_epi16(w1, x));
    }
  }
}

#endif

MT_INLINE void unpack(mt_dtype type, const walk *j, size_t b0, size_t b1, unpacked *u) {
  const mt_record_size size = mt_record_size_of(type);
  const size_t slots = slots_16(type) ? 16 : 32, supers = j->m->n_supers * size.super;
  const size_t on = b1 < j->m->n_blocks ? b1 * size.record : 2 * j->m->panel_bytes;
  u->record = size.record;
  for (size_t p = 0; p < 2; p++) u->next[p] = j->data[p] + supers + on;
  for (size_t b = b0; b < b1; b++) MT_UNROLL for (size_t p = 0; p < 2; p++) {
      const uint8_t *rec = j->data[p] + supers + b * size.record;
      const uint8_t *super = j->data[p] + (by_super(type) ? j->m->block[b].super * size.super : 0);
      __m512 d, dmin, dw, mw;
      load_super(type, super, &d, &dmin);
      block_scales(type, rec + size.codes, d, dmin, &dw, &mw);
      _mm512_store_ps(u->dw[b - b0] + p * LANES, dw);
      if (has_min(type)) _mm512_store_ps(u->mw[b - b0] + p * LANES, mw);
      unpack_block(type, rec, p, u->code + (b - b0) * slots * 2 * LANES);
    }
}

/* Chain c, unpacked from block b_first on, of n rows from row t0 of the walk on; slots, min and n
 * are constants after inlining. */
MT_INLINE void tile_quantized(size_t slots, bool min, const walk *j, const unpacked *u,
                              size_t b_first, size_t c, unsigned bias_bits, size_t t0, size_t n) {
  const mt_act *a = j->a;
  const size_t row = j->row + t0;
  const __m128i bias_shift = _mm_cvtsi32_si128((int)bias_bits);
  __m512 acc[QUANT_ROWS][2];
  MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = _mm512_setzero_ps();
  for (size_t b = j->m->chain[c]; b < j->m->chain[c + 1]; b++) {
    const float *dw = u->dw[b - b_first], *mw = u->mw[b - b_first];
    __m512i dot[QUANT_ROWS][2];
    if (t0 == 0) fetch_next(u, b - b_first);
    MT_UNROLL for (size_t t = 0; t < n; t++) dot[t][0] = dot[t][1] = _mm512_setzero_si512();
    dot_unpacked(u->code + (b - b_first) * slots * 2 * LANES, slots, a, row, b, n, dot);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      size_t s = (row + t) * a->n_blocks + b;
      __m512 da = _mm512_set1_ps(a->scale[s]);
      __m512i sum = _mm512_set1_epi32(a->sum[s]);
      if (!min && !CODES_SIGNED) {
        __m512i bias = _mm512_sll_epi32(sum, bias_shift);
        dot[t][0] = _mm512_sub_epi32(dot[t][0], bias);
        dot[t][1] = _mm512_sub_epi32(dot[t][1], bias);
      }
      acc[t][0] = add_block(acc[t][0], _mm512_load_ps(dw), da, dot[t][0]);
      acc[t][1] = add_block(acc[t][1], _mm512_load_ps(dw + LANES), da, dot[t][1]);
      if (!min) continue;
      __m512 das = _mm512_mul_ps(da, _mm512_cvtepi32_ps(sum));
      acc[t][0] = _mm512_fmadd_ps(_mm512_load_ps(mw), das, acc[t][0]);
      acc[t][1] = _mm512_fmadd_ps(_mm512_load_ps(mw + LANES), das, acc[t][1]);
    }
  }
  end_chain(j, j->m->place[c], t0, n, acc);
}

/* ---- by type ----------------------------------------------------------------------------- */

typedef void unpacked_fn(const walk *j, const unpacked *u, size_t b_first, size_t c,
                         unsigned bias_bits, size_t t0, size_t n);

#define TILE_CASE(n)                                                \
  case n:                                                           \
    tile_quantized(slots, min, j, u, b_first, c, bias_bits, t0, n); \
    break;
#define DEFINE_UNPACKED(name, slots_, min_)                                                        \
  static void name(const walk *j, const unpacked *u, size_t b_first, size_t c, unsigned bias_bits, \
                   size_t t0, size_t n) {                                                          \
    const size_t slots = slots_;                                                                   \
    const bool min = min_;                                                                         \
    switch (n) { TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6) }   \
  }
DEFINE_UNPACKED(tiles_16, 16, false)
DEFINE_UNPACKED(tiles_16_min, 16, true)
DEFINE_UNPACKED(tiles_32, 32, false)
DEFINE_UNPACKED(tiles_32_min, 32, true)

MT_INLINE void chains_quantized(mt_dtype type, const walk *j, size_t c0, size_t c1) {
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
        PLAIN_CASE(1)
        PLAIN_CASE(2)
        PLAIN_CASE(3)
        PLAIN_CASE(4)
        PLAIN_CASE(5)
        PLAIN_CASE(6)
        PLAIN_CASE(7) PLAIN_CASE(8) PLAIN_CASE(9) PLAIN_CASE(10) PLAIN_CASE(11) PLAIN_CASE(12)
      }
    }
  }
}

#include "../direct.h"
