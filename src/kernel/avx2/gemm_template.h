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
  VECTORS = 2, /* of a panel */
  PLAIN_ROWS = 6,
  QUANT_ROWS = MT_VNNI ? 6 : 4,
  DIRECT_ROWS = 2,
  MAX_BLOCKS_32 = 10, /* of a chain: MT_CHAIN elements and one cut block at each end */
  MAX_BLOCKS_16 = 18
};

typedef __m256 vec;
typedef __m256i ivec;
#define OUT_OF_THE_WAY(v) __asm__("" : "+m"(v))

MT_INLINE vec zero_vec(void) {
  return _mm256_setzero_ps();
}
MT_INLINE ivec zero_bits(void) {
  return _mm256_setzero_si256();
}
MT_INLINE vec add_vec(vec a, vec b) {
  return _mm256_add_ps(a, b);
}
MT_INLINE __m256i magnitude_bits(__m256 p) {
  return _mm256_and_si256(_mm256_castps_si256(p), _mm256_set1_epi32(0x7fffffff));
}
MT_INLINE ivec larger(ivec largest, vec v) {
  return _mm256_max_epu32(largest, magnitude_bits(v));
}

/* acc + rint(p × factor), and MT_RINT_MAGIC_BITS, which the caller takes off. */
MT_INLINE void add_rounded(__m256i acc[2], __m256 p, double factor) {
  const __m256d f = _mm256_set1_pd(factor), magic = _mm256_set1_pd(MT_RINT_MAGIC);
  const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(p)),
                high = _mm256_cvtps_pd(_mm256_extractf128_ps(p, 1));
  acc[0] = _mm256_add_epi64(acc[0], _mm256_castpd_si256(_mm256_fmadd_pd(low, f, magic)));
  acc[1] = _mm256_add_epi64(acc[1], _mm256_castpd_si256(_mm256_fmadd_pd(high, f, magic)));
}

/* Of the first `rows` lanes of 32 bits. */
MT_INLINE __m256i lanes_below(size_t rows) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)rows), lane);
}
MT_INLINE bool below_limit(__m256i largest, uint32_t limit, size_t rows) {
  const __m256i l = _mm256_set1_epi32((int)limit);
  const __m256i beyond = _mm256_cmpeq_epi32(_mm256_max_epu32(largest, l), largest);
  return _mm256_testz_si256(beyond, lanes_below(rows));
}
MT_INLINE void store_rows(float *to, __m256 v, size_t rows) {
  if (rows >= LANES)
    _mm256_storeu_ps(to, v);
  else
    _mm256_maskstore_ps(to, lanes_below(rows), v);
}
MT_INLINE void store_integers(int64_t *to, const __m256i acc[2], int64_t magic, size_t rows) {
  const __m256i m = _mm256_set1_epi64x(magic);
  int64_t each[LANES];
  MT_UNROLL for (int i = 0; i < 2; i++)
      _mm256_storeu_si256((__m256i *)(void *)(each + 4 * i), _mm256_sub_epi64(acc[i], m));
  memcpy(to, each, (rows < LANES ? rows : LANES) * sizeof *to);
}

#define WALK_PANELS 1
#include "../walk.h"

/* The scales of a super-block, once for all of its blocks. */
typedef struct super_scales {
  size_t at; /* which super-block of the panel */
  vec d[VECTORS], dmin[VECTORS];
} super_scales;

/* Rounds half a panel's sums of row t into the totals; what is beyond them comes out not 0. */
MT_INLINE __m256i add_to_total(walk_total *total, size_t t, size_t h, __m256 sum) {
  const __m256i below = _mm256_set1_epi32((int)total->limit[t] - 1);
  __m256i *to = (__m256i *)(void *)(total->sum[t] + h * LANES);
  __m256i acc[2] = {_mm256_load_si256(to), _mm256_load_si256(to + 1)};
  add_rounded(acc, sum, total->factor[t]);
  _mm256_store_si256(to, acc[0]);
  _mm256_store_si256(to + 1, acc[1]);
  return _mm256_cmpgt_epi32(magnitude_bits(sum), below);
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

/* One element of K for n rows of input, whose rows lie ld apart. */
MT_INLINE void plain_step(mt_dtype type, const uint8_t *d, const float *x, size_t ld, size_t n,
                          vec acc[DIRECT_ROWS][VECTORS]) {
  const __m256 w0 = load_plain(type, d, 0), w1 = load_plain(type, d, LANES);
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    const __m256 b = _mm256_broadcast_ss(x + t * ld);
    acc[t][0] = _mm256_fmadd_ps(w0, b, acc[t][0]);
    acc[t][1] = _mm256_fmadd_ps(w1, b, acc[t][1]);
  }
}

/* A chain of n rows of one panel. The fewer instructions between loads, the more of them the CPU
 * has under way. */
MT_INLINE void direct_plain(mt_dtype type, const walk *j, size_t c, size_t n,
                            vec acc[DIRECT_ROWS][VECTORS]) {
  enum { STEPS = 4 };
  const size_t ld = j->a->ld_x, bytes = MT_PANEL_ROWS * (type == MT_F32 ? 4 : 2);
  const size_t begin = j->m->chain[c], end = j->m->chain[c + 1];
  const float *x = j->a->x + j->row * ld + begin;
  const uint8_t *d = j->data[0] + begin * bytes;
  size_t left = end - begin;
  for (; left >= STEPS; left -= STEPS, d += STEPS * bytes, x += STEPS) {
    if (j->ahead) ask_lines(d + j->ahead, STEPS * bytes);
    MT_UNROLL for (size_t i = 0; i < STEPS; i++) plain_step(type, d + i * bytes, x + i, ld, n, acc);
  }
  for (; left; left--, d += bytes, x++) plain_step(type, d, x, ld, n, acc);
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

/* The scales of a super-block, rows 8 h … 8 h + 7: d and −dmin. */
MT_INLINE void load_super(mt_dtype type, const uint8_t *super, size_t h, __m256 *d, __m256 *dmin) {
  *d = *dmin = _mm256_setzero_ps();
  if (!by_super(type)) return;
  *d = load_f16_half(super, h);
  if (has_min(type)) *dmin = _mm256_xor_ps(load_f16_half(super + 32, h), _mm256_set1_ps(-0.0f));
}

/* d_w and m_w of rows 8 h … 8 h + 7. Scales of Q2_K, Q4_K, Q5_K are below 64: signed or not is the
 * same for them. */
MT_INLINE void block_scales(mt_dtype type, const uint8_t *scales, size_t h, __m256 d, __m256 dmin,
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
  if (type == MT_Q2_K) {
    const __m128i low = _mm_set1_epi8(15);
    mn = _mm_and_si128(_mm_srli_epi16(sc, 4), low);
    sc = _mm_and_si128(sc, low);
  } else if (has_min(type)) {
    mn = _mm_loadl_epi64((const __m128i *)(const void *)(scales + 16 + 8 * h));
  }
  *dw = scaled_i8(d, sc);
  if (has_min(type)) *mw = scaled_i8(dmin, mn);
}

MT_INLINE void load_scales(mt_dtype type, const uint8_t *scales, const uint8_t *super, size_t h,
                           __m256 *dw, __m256 *mw) {
  __m256 d, dmin;
  load_super(type, super, h, &d, &dmin);
  block_scales(type, scales, h, d, dmin, dw, mw);
}

MT_INLINE __m256i load_32(const uint8_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* (v >> shift) & mask in each byte. */
MT_INLINE __m256i field(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* The values of 4-bit codes, raised by their bias. */
MT_INLINE __m256i values_table(mt_dtype type) {
  const __m128i value = _mm_loadu_si128((const __m128i *)(const void *)values_of(type));
  const __m128i bias = _mm_set1_epi8((char)(1 << code_bias_bits(type)));
  return _mm256_broadcastsi128_si256(_mm_add_epi8(value, bias));
}

/* The bits `mask` of each byte, from `from` bits above or, negative, below. */
MT_INLINE __m256i high_bits(__m256i v, int from, int mask) {
  v = from < 0 ? _mm256_slli_epi16(v, -from) : _mm256_srli_epi16(v, from);
  return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* The 32 codes of group g, rows 8 h … 8 h + 7; signed bytes come with their sign bit flipped. */
MT_INLINE __m256i load_codes(mt_dtype type, const uint8_t *rec, size_t h, size_t g) {
  const uint8_t *low = rec + 32 * h;
  int s = (int)g;
  switch (type) {
    case MT_Q8_0: return _mm256_xor_si256(load_32(low + 64 * g), _mm256_set1_epi8((char)0x80));
    case MT_Q2_K: return field(load_32(low), 2 * s, 3);
    case MT_Q3_K:
      return _mm256_or_si256(field(load_32(low), 2 * s, 3),
                             high_bits(load_32(rec + 64), s + 4 * (int)h - 2, 4));
    case MT_Q6_K:
      return _mm256_or_si256(field(load_32(low + 64 * (g % 2)), 4 * (s / 2), 15),
                             high_bits(load_32(low + 128), 2 * s - 4, 3 << 4));
    case MT_Q5_0:
    case MT_Q5_1:
    case MT_Q5_K:
      return _mm256_or_si256(field(load_32(low + 64 * (g % 4)), 4 * (s / 4), 15),
                             high_bits(load_32(low + 256), s - 4, 1 << 4));
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

/* Σ code × q over a block: vpdpbusd multiplies unsigned codes with the signed planes of q,
 * exactly. Both halves of the panel share the activations. */
MT_INLINE void dot_packed(mt_dtype type, const place *p, size_t stride, bool int8, size_t n,
                          __m256i dot[DIRECT_ROWS][2]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  __m256i hi[DIRECT_ROWS][2], lo[DIRECT_ROWS][2];
  MT_UNROLL for (size_t t = 0; t < n; t++) hi[t][0] = hi[t][1] = lo[t][0] = lo[t][1] =
      _mm256_setzero_si256();
  MT_UNROLL for (size_t i = 0; i < groups; i++) {
    const size_t g = group_at(type, groups, i);
    const __m256i w[2] = {load_codes(type, p->rec, 0, g), load_codes(type, p->rec, 1, g)};
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      const size_t q = t * stride + 4 * g;
      const __m256i x = broadcast_4(p->hi + q);
      hi[t][0] = _mm256_dpbusd_avx_epi32(hi[t][0], w[0], x);
      hi[t][1] = _mm256_dpbusd_avx_epi32(hi[t][1], w[1], x);
      if (int8) continue;
      const __m256i y = broadcast_4(p->lo + q);
      lo[t][0] = _mm256_dpbusd_avx_epi32(lo[t][0], w[0], y);
      lo[t][1] = _mm256_dpbusd_avx_epi32(lo[t][1], w[1], y);
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++) dot[t][h] =
      int8 ? hi[t][h] : _mm256_add_epi32(_mm256_slli_epi32(hi[t][h], 8), lo[t][h]);
}

#else

/* The codes of group g without their bias, as 16-bit pairs: elements 0, 1 of each row, then 2, 3.
 */
MT_INLINE void load_pairs(mt_dtype type, const uint8_t *rec, size_t h, size_t g, __m256i pair[2]) {
  const __m256i first = _mm256_broadcastsi128_si256(
      _mm_set_epi8(-1, 13, -1, 12, -1, 9, -1, 8, -1, 5, -1, 4, -1, 1, -1, 0));
  const __m256i second = _mm256_broadcastsi128_si256(
      _mm_set_epi8(-1, 15, -1, 14, -1, 11, -1, 10, -1, 7, -1, 6, -1, 3, -1, 2));
  const int bits = (int)code_bias_bits(type);
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

/* Sums in the order of their bytes: the compiler would add them as a tree, and run out of registers
 * for its leaves. */
MT_INLINE __m256i in_order(__m256i sum) {
  __asm__("" : "+x"(sum));
  return sum;
}

/* Four activations in 16 bits, in every quarter. */
MT_INLINE __m256i broadcast_4_wide(const int16_t *p) {
  int64_t v;
  memcpy(&v, p, 8);
  return _mm256_set1_epi64x(v);
}

/* Codes of 6 and 8 bits, whose products with bytes do not fit vpmaddubsw or hardly, are widened to
 * 16: rows 0, 1, 4, 5 of a half in one vector, the others in a second, with the activations of a
 * group once for each row. */
MT_INLINE bool wide_codes(mt_dtype type) {
  return code_bias_bits(type) >= 5;
}

/* Σ code × q in 16 bits; below 2^28.1 in all. */
MT_INLINE void dot_wide(mt_dtype type, const place *p, size_t stride, size_t n,
                        __m256i dot[DIRECT_ROWS][2]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  const __m256i zero = _mm256_setzero_si256();
  __m256i sum[DIRECT_ROWS][2][2];
  MT_UNROLL for (size_t i = 0; i < groups; i++) {
    const size_t g = group_at(type, groups, i);
    MT_UNROLL for (size_t h = 0; h < 2; h++) {
      const __m256i w = load_codes(type, p->rec, h, g);
      const __m256i low = _mm256_unpacklo_epi8(w, zero), high = _mm256_unpackhi_epi8(w, zero);
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        const __m256i x = broadcast_4_wide(p->q + t * stride + 4 * g);
        const __m256i a = _mm256_madd_epi16(low, x), b = _mm256_madd_epi16(high, x);
        sum[t][h][0] = in_order(i ? _mm256_add_epi32(sum[t][h][0], a) : a);
        sum[t][h][1] = in_order(i ? _mm256_add_epi32(sum[t][h][1], b) : b);
      }
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++) dot[t][h] =
      _mm256_hadd_epi32(sum[t][h][0], sum[t][h][1]);
}

/* Σ code × q over a block, from the planes of q. A lane of 16 bits takes `step` groups, each adding
 * at most 2 × (2^bits − 1) × 128, so vpmaddubsw and the sums never saturate or wrap: 8 × 3840 and 4
 * × 7936 are below 32768. Both halves of the panel share the activations. */
MT_INLINE void dot_codes(mt_dtype type, const place *p, size_t stride, bool int8, size_t n,
                         __m256i dot[DIRECT_ROWS][2]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  const size_t step = codes_5_bits(type) ? 4 : groups;
  const __m256i one = _mm256_set1_epi16(1), high = _mm256_set1_epi16(int8 ? 1 : 256);
  MT_UNROLL for (size_t i0 = 0; i0 < groups; i0 += step) {
    __m256i hi[DIRECT_ROWS][2], lo[DIRECT_ROWS][2];
    MT_UNROLL for (size_t i = i0; i < i0 + step; i++) {
      const size_t g = group_at(type, groups, i);
      const __m256i w[2] = {load_codes(type, p->rec, 0, g), load_codes(type, p->rec, 1, g)};
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        const size_t q = t * stride + 4 * g;
        const __m256i x = broadcast_4(p->hi + q);
        MT_UNROLL for (size_t h = 0; h < 2; h++) {
          const __m256i v = _mm256_maddubs_epi16(w[h], x);
          hi[t][h] = in_order(i > i0 ? _mm256_add_epi16(hi[t][h], v) : v);
        }
        if (int8) continue;
        const __m256i y = broadcast_4(p->lo + q);
        MT_UNROLL for (size_t h = 0; h < 2; h++) {
          const __m256i v = _mm256_maddubs_epi16(w[h], y);
          lo[t][h] = in_order(i > i0 ? _mm256_add_epi16(lo[t][h], v) : v);
        }
      }
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++) {
      __m256i sum = _mm256_madd_epi16(hi[t][h], high);
      if (!int8) sum = _mm256_add_epi32(sum, _mm256_madd_epi16(lo[t][h], one));
      dot[t][h] = i0 ? _mm256_add_epi32(dot[t][h], sum) : sum;
    }
  }
}

MT_INLINE void dot_packed(mt_dtype type, const place *p, size_t stride, bool int8, size_t n,
                          __m256i dot[DIRECT_ROWS][2]) {
  if (wide_codes(type))
    dot_wide(type, p, stride, n, dot);
  else
    dot_codes(type, p, stride, int8, n, dot);
}

#endif

/* acc = fma(d_w × d_a, f, acc). */
MT_INLINE __m256 add_block(__m256 acc, __m256 dw, __m256 da, __m256i dot) {
  return _mm256_fmadd_ps(_mm256_mul_ps(dw, da), _mm256_cvtepi32_ps(dot), acc);
}

/* ---- one or two rows: weights read where they lie ---------------------------------------- */

MT_INLINE void direct_block(mt_dtype type, const mt_act *a, place *p, const super_scales *s,
                            bool int8, size_t n, vec acc[DIRECT_ROWS][VECTORS]) {
  const uint8_t *scales = p->rec + mt_record_size_of(type).codes;
  const int bias_bits = (int)code_bias_bits(type);
  __m256i dot[DIRECT_ROWS][2];
  dot_packed(type, p, a->q_stride, int8, n, dot);
  /* Bytes are touched in ascending order, or the hardware does not see the stream. */
  __asm__ volatile("" : "+r"(scales));
  MT_UNROLL for (size_t h = 0; h < 2; h++) {
    __m256 dw, mw;
    block_scales(type, scales, h, s->d[h], s->dmin[h], &dw, &mw);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      const __m256 da = _mm256_set1_ps(p->scale[t * a->n_blocks]);
      const __m256i sum = _mm256_set1_epi32(p->sum[t * a->n_blocks]);
      if (bias_bits) dot[t][h] = _mm256_sub_epi32(dot[t][h], _mm256_slli_epi32(sum, bias_bits));
      acc[t][h] = add_block(acc[t][h], dw, da, dot[t][h]);
      if (has_min(type))
        acc[t][h] = _mm256_fmadd_ps(mw, _mm256_mul_ps(da, _mm256_cvtepi32_ps(sum)), acc[t][h]);
    }
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
      MT_UNROLL for (size_t h = 0; h < 2; h++)
          load_super(type, p->supers + s->at * size.super, h, &s->d[h], &s->dmin[h]);
    }
    if (j->ahead) ask_lines(p->rec + j->ahead, size.record);
    direct_block(type, a, p, s, int8, n, acc);
  }
}

/* ---- many rows: weights unpacked --------------------------------------------------------- */

/* Chains of a panel. Codes lie as bytes, [block][group][16 rows][4], or without their bias as
 * 16-bit pairs, [block][pair of k][16 rows][2]. */
typedef struct unpacked {
  _Alignas(64) uint8_t code[2 * MAX_BLOCKS_32 * 32 * MT_PANEL_ROWS];
  _Alignas(64) float dw[MAX_BLOCKS_16][MT_PANEL_ROWS], mw[MAX_BLOCKS_16][MT_PANEL_ROWS];
} unpacked;

MT_INLINE void unpack_bytes(mt_dtype type, const uint8_t *rec, size_t h, uint8_t *code) {
  const size_t groups = slots_16(type) ? 4 : 8;
  MT_UNROLL for (size_t g = 0; g < groups; g++)
      _mm256_store_si256((__m256i *)(void *)(code + g * 64 + h * 32), load_codes(type, rec, h, g));
}

#if MT_VNNI

MT_INLINE bool unpacks_bytes(mt_dtype type, bool int8) {
  (void)type, (void)int8;
  return true;
}

MT_INLINE void unpack_block(mt_dtype type, const uint8_t *rec, size_t h, bool bytes,
                            uint8_t *code) {
  (void)bytes;
  unpack_bytes(type, rec, h, code);
}

/* dot += codes × one plane of q. */
MT_INLINE void dot_plane(const uint8_t *code, size_t groups, const int8_t *q, size_t stride,
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
MT_INLINE void dot_unpacked(const uint8_t *code, size_t slots, bool bytes, const mt_act *a,
                            size_t at, size_t n, __m256i dot[QUANT_ROWS][2]) {
  (void)bytes;
  dot_plane(code, slots / 4, a->hi + at, a->q_stride, n, dot);
  if (a->int8) return;
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    dot[t][0] = _mm256_slli_epi32(dot[t][0], 8);
    dot[t][1] = _mm256_slli_epi32(dot[t][1], 8);
  }
  dot_plane(code, slots / 4, a->lo + at, a->q_stride, n, dot);
}

#else

/* vpmaddubsw takes codes as they are, with the one plane of 8-bit activations, at twice the rate of
 * pairs; of two planes it would take as long as pairs do. */
MT_INLINE bool unpacks_bytes(mt_dtype type, bool int8) {
  return int8 && !wide_codes(type);
}

MT_INLINE void unpack_block(mt_dtype type, const uint8_t *rec, size_t h, bool bytes,
                            uint8_t *code) {
  const size_t groups = slots_16(type) ? 4 : 8;
  if (bytes) {
    unpack_bytes(type, rec, h, code);
    return;
  }
  MT_UNROLL for (size_t g = 0; g < groups; g++) {
    __m256i pair[2];
    load_pairs(type, rec, h, g, pair);
    _mm256_store_si256((__m256i *)(void *)(code + g * 128 + h * 32), pair[0]);
    _mm256_store_si256((__m256i *)(void *)(code + g * 128 + 64 + h * 32), pair[1]);
  }
}

/* Σ code × q of a block with 8-bit activations. Four groups fit a lane of 16 bits: each adds at
 * most 2 × 31 × 128, as in dot_codes. */
MT_INLINE void dot_bytes(const uint8_t *code, size_t slots, const mt_act *a, size_t at, size_t n,
                         __m256i dot[QUANT_ROWS][2]) {
  const int8_t *q = a->hi + at, *q3 = q + (n > 3 ? 3 : 0) * a->q_stride;
  const __m256i one = _mm256_set1_epi16(1);
  for (size_t g0 = 0; g0 < slots / 4; g0 += 4) {
    __m256i sum[QUANT_ROWS][2];
    MT_UNROLL for (size_t g = 0; g < 4; g++) {
      const __m256i w0 = load_32(code + (g0 + g) * 64), w1 = load_32(code + (g0 + g) * 64 + 32);
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        const __m256i x = broadcast_4((t < 3 ? q : q3) + t % 3 * a->q_stride + 4 * (g0 + g));
        const __m256i v0 = _mm256_maddubs_epi16(w0, x), v1 = _mm256_maddubs_epi16(w1, x);
        sum[t][0] = in_order(g ? _mm256_add_epi16(sum[t][0], v0) : v0);
        sum[t][1] = in_order(g ? _mm256_add_epi16(sum[t][1], v1) : v1);
      }
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++) dot[t][h] =
        _mm256_add_epi32(dot[t][h], _mm256_madd_epi16(sum[t][h], one));
  }
}

/* Σ w × q of a block; of bytes, Σ code × q. */
MT_INLINE void dot_unpacked(const uint8_t *code, size_t slots, bool bytes, const mt_act *a,
                            size_t at, size_t n, __m256i dot[QUANT_ROWS][2]) {
  const int16_t *q = a->q + at, *q3 = q + (n > 3 ? 3 : 0) * a->q_stride;
  if (bytes) {
    dot_bytes(code, slots, a, at, n, dot);
    return;
  }
  for (size_t i = 0; i < slots / 2; i++) {
    __m256i w0 = load_32(code + i * 64), w1 = load_32(code + i * 64 + 32);
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

/* Bytes of a block's codes. */
MT_INLINE size_t code_bytes(size_t slots, bool bytes) {
  return slots * MT_PANEL_ROWS * (bytes ? 1 : 2);
}

MT_INLINE void unpack(mt_dtype type, const walk *j, size_t b0, size_t b1, bool bytes, unpacked *u) {
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
      unpack_block(type, rec, h, bytes, u->code + (b - b0) * code_bytes(slots, bytes));
    }
  }
}

/* Chain c, unpacked from block b_first on, of n rows from row t0 of the walk on; slots, min, bytes
 * and n are constants after inlining. */
MT_INLINE void tile_quantized(size_t slots, bool min, bool bytes, const walk *j, const unpacked *u,
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
    dot_unpacked(u->code + (b - b_first) * code_bytes(slots, bytes), slots, bytes, a,
                 row * a->q_stride + b * slots, n, dot);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      size_t s = (row + t) * a->n_blocks + b;
      __m256 da = _mm256_set1_ps(a->scale[s]);
      __m256i sum = _mm256_set1_epi32(a->sum[s]);
      if (!min && bytes) { /* whose bias is still in them */
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

#define TILE_CASE(n)                                                       \
  case n:                                                                  \
    tile_quantized(slots, min, bytes, j, u, b_first, c, bias_bits, t0, n); \
    break;
#if MT_VNNI
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6)
#else
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4)
#endif
#define DEFINE_UNPACKED(name, slots_, min_, bytes_)                                           \
  static void name(const walk *j, const unpacked *u, size_t b_first, size_t c, int bias_bits, \
                   size_t t0, size_t n) {                                                     \
    const size_t slots = slots_;                                                              \
    const bool min = min_, bytes = bytes_;                                                    \
    switch (n) { TILE_CASES }                                                                 \
  }
DEFINE_UNPACKED(bytes_16, 16, false, true)
DEFINE_UNPACKED(bytes_16_min, 16, true, true)
DEFINE_UNPACKED(bytes_32, 32, false, true)
DEFINE_UNPACKED(bytes_32_min, 32, true, true)
#if MT_VNNI
enum { SHAPES = 1 };
#else
DEFINE_UNPACKED(pairs_16, 16, false, false)
DEFINE_UNPACKED(pairs_16_min, 16, true, false)
DEFINE_UNPACKED(pairs_32, 32, false, false)
DEFINE_UNPACKED(pairs_32_min, 32, true, false)
enum { SHAPES = 2 };
#endif

/* By whether a block has 32 slots, whether there is a minimum. */
static unpacked_fn *const TILES[SHAPES][2][2] = {
    {{bytes_16, bytes_16_min}, {bytes_32, bytes_32_min}},
#if !MT_VNNI
    {{pairs_16, pairs_16_min}, {pairs_32, pairs_32_min}},
#endif
};

MT_INLINE void chains_quantized(mt_dtype type, const walk *j, size_t c0, size_t c1) {
  unpacked u;
  const bool bytes = unpacks_bytes(type, j->a->int8);
  unpacked_fn *const tiles = TILES[!bytes][!slots_16(type)][has_min(type)];
  for (size_t c = c0, end; c < c1; c = end) {
    end = chains_together(j->m, c, c1, slots_16(type) ? MAX_BLOCKS_16 : MAX_BLOCKS_32);
    if (bytes)
      unpack(type, j, j->m->chain[c], j->m->chain[end], true, &u);
    else
      unpack(type, j, j->m->chain[c], j->m->chain[end], false, &u);
    for (size_t t = 0, n; t < j->n; t += n) {
      n = mt_even_part(j->n - t, QUANT_ROWS);
      for (size_t i = c; i < end; i++)
        tiles(j, &u, j->m->chain[c], i, (int)code_bias_bits(type), t, n);
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

#include "../direct.h"
