/* AVX2 kernels on rows: activations, norms, rotation, gates, exp. Tails go through a padded
 * copy. */
#include "avx2.h"

enum { LANES = 8 };

/* ---- activations ------------------------------------------------------------------------- */

MT_INLINE uint32_t max_u32x8(__m256i v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  return (uint32_t)_mm_cvtsi128_si32(m);
}

/* 16 elements: rounded to q, split into hi and lo (lo NULL: all in hi); returns Σq in 8 lanes. */
MT_INLINE __m256i quantize_x16(__m256 x0, __m256 x1, __m256 inverse, int16_t *q, int8_t *hi,
                               int8_t *lo) {
  const __m256i one = _mm256_set1_epi16(1);
  __m256i i0 = _mm256_cvtps_epi32(_mm256_mul_ps(x0, inverse));
  __m256i i1 = _mm256_cvtps_epi32(_mm256_mul_ps(x1, inverse));
  __m256i v = _mm256_permute4x64_epi64(_mm256_packs_epi32(i0, i1), 0xd8);
  _mm256_storeu_si256((__m256i *)(void *)q, v);
  if (!lo) {
    __m256i b = _mm256_permute4x64_epi64(_mm256_packs_epi16(v, v), 0xd8);
    _mm_storeu_si128((__m128i *)(void *)hi, _mm256_castsi256_si128(b));
    return _mm256_madd_epi16(v, one);
  }
  __m256i h = _mm256_srai_epi16(_mm256_add_epi16(v, _mm256_set1_epi16(128)), 8);
  __m256i l = _mm256_and_si256(v, _mm256_set1_epi16(255));
  __m256i hl = _mm256_permute4x64_epi64(
      _mm256_packus_epi16(_mm256_and_si256(h, _mm256_set1_epi16(255)), l), 0xd8);
  _mm_storeu_si128((__m128i *)(void *)hi, _mm256_castsi256_si128(hl));
  _mm_storeu_si128((__m128i *)(void *)lo, _mm256_extracti128_si256(hl, 1));
  return _mm256_madd_epi16(v, one);
}

MT_INLINE int32_t sum_i32x8(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* x [slots], 16 or 32 of them. */
MT_INLINE void quantize_block(mt_act *a, const float *x, size_t slots, bool int8, size_t row,
                              size_t b) {
  const float most = int8 ? MT_ACT8_MAX : MT_ACT_MAX;
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  size_t at = row * a->q_stride + b * slots;
  __m256i max = _mm256_setzero_si256(), sum = _mm256_setzero_si256();
  for (size_t e = 0; e < slots; e += LANES)
    max = _mm256_max_epu32(max, _mm256_and_si256(mask, _mm256_loadu_si256((const void *)(x + e))));
  uint32_t bits = max_u32x8(max);
  float m = mt_f32_of_bits(bits), d = m / most;
  __m256 inverse = _mm256_set1_ps(most / m), keep = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  if (bits >= 0x7f800000u || m < MT_QUANT_TINY) {
    d = bits >= 0x7f800000u ? mt_f32_of_bits(0x7fc00000u) : 0;
    keep = inverse = _mm256_setzero_ps();
  }
  for (size_t e = 0; e < slots; e += 2 * LANES) {
    __m256 x0 = _mm256_and_ps(keep, _mm256_loadu_ps(x + e));
    __m256 x1 = _mm256_and_ps(keep, _mm256_loadu_ps(x + e + LANES));
    sum = _mm256_add_epi32(sum, quantize_x16(x0, x1, inverse, a->q + at + e, a->hi + at + e,
                                             int8 ? NULL : a->lo + at + e));
  }
  a->scale[row * a->n_blocks + b] = d;
  a->sum[row * a->n_blocks + b] = sum_i32x8(sum);
}

MT_INLINE void quantize_range(mt_act *a, const mt_matrix *m, size_t slots, bool int8, size_t row,
                              size_t block_begin, size_t block_end) {
  for (size_t b = block_begin; b < block_end; b++) {
    const float *x = a->x + row * a->ld_x + m->block[b].begin;
    float padded[32] = {0};
    if (m->block[b].len < slots) {
      memcpy(padded, x, m->block[b].len * sizeof *x);
      x = padded;
    }
    quantize_block(a, x, slots, int8, row, b);
  }
}

void mt_quantize_blocks_avx2(mt_act *a, const mt_matrix *m, size_t row, size_t block_begin,
                             size_t block_end) {
  if (a->block_slots == 32 && a->int8)
    quantize_range(a, m, 32, true, row, block_begin, block_end);
  else if (a->block_slots == 32)
    quantize_range(a, m, 32, false, row, block_begin, block_end);
  else
    quantize_range(a, m, 16, a->int8, row, block_begin, block_end);
}

void mt_quantize_avx2(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; row++)
    mt_quantize_blocks_avx2(a, m, row, 0, a->n_blocks);
}

/* ---- exp and gates ----------------------------------------------------------------------- */

/* Elements i … n (at most 8) of x; the rest 0. */
MT_INLINE __m256 load_tail(const float *x, size_t i, size_t n) {
  if (n - i >= LANES) return _mm256_loadu_ps(x + i);
  float v[LANES] = {0};
  memcpy(v, x + i, (n - i) * sizeof *x);
  return _mm256_loadu_ps(v);
}

MT_INLINE void store_tail(float *out, size_t i, size_t n, __m256 x) {
  if (n - i >= LANES) {
    _mm256_storeu_ps(out + i, x);
    return;
  }
  float v[LANES];
  _mm256_storeu_ps(v, x);
  memcpy(out + i, v, (n - i) * sizeof *out);
}

void mt_exp_avx2(const float *x, size_t n, float *out) {
  for (size_t i = 0; i < n; i += LANES) store_tail(out, i, n, exp_x8(load_tail(x, i, n)));
}

/* g / (1 + exp(z)) × u */
MT_INLINE __m256 gate(__m256 g, __m256 z, __m256 u) {
  __m256 below = _mm256_add_ps(_mm256_set1_ps(1.0f), exp_x8(z));
  return _mm256_mul_ps(_mm256_div_ps(g, below), u);
}

void mt_silu_mul_avx2(const float *g, const float *u, size_t n, float *out) {
  for (size_t i = 0; i < n; i += LANES) {
    __m256 x = load_tail(g, i, n), z = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
    store_tail(out, i, n, gate(x, z, load_tail(u, i, n)));
  }
}

void mt_gelu_mul_avx2(const float *g, const float *u, size_t n, float *out) {
  for (size_t i = 0; i < n; i += LANES) {
    __m256 x = load_tail(g, i, n);
    __m256 cube = _mm256_mul_ps(_mm256_set1_ps(MT_GELU_B), _mm256_mul_ps(x, x));
    __m256 z = _mm256_mul_ps(_mm256_set1_ps(MT_GELU_A), _mm256_fmadd_ps(cube, x, x));
    store_tail(out, i, n, gate(x, z, load_tail(u, i, n)));
  }
}

/* ---- norms, rotation, sums --------------------------------------------------------------- */

float mt_sum_squares_avx2(const float *x, size_t n) {
  __m256 a = _mm256_setzero_ps(), b = a;
  for (size_t i = 0; i < n; i += 2 * LANES) {
    /* A padded zero adds +0 to a sum that is never −0: it does not show. */
    __m256 x0 = load_tail(x, i, n);
    __m256 x1 = i + LANES < n ? load_tail(x, i + LANES, n) : _mm256_setzero_ps();
    a = _mm256_fmadd_ps(x0, x0, a);
    b = _mm256_fmadd_ps(x1, x1, b);
  }
  return tree_16(a, b);
}

float mt_rmsnorm_avx2(const float *x, const float *w, size_t n, float eps, float *out) {
  float mean = mt_sum_squares_avx2(x, n) / (float)n;
  __m256 r = _mm256_set1_ps(1.0f / __builtin_sqrtf(mean + eps));
  for (size_t i = 0; i < n; i += LANES) {
    __m256 v = _mm256_mul_ps(load_tail(x, i, n), r);
    store_tail(out, i, n, w ? _mm256_mul_ps(v, load_tail(w, i, n)) : v);
  }
  return mean;
}

void mt_rope_avx2(float *x, const float *cos, const float *sin, size_t n_rotary) {
  size_t half = n_rotary / 2;
  for (size_t d = 0; d < half; d += LANES) {
    __m256 x0 = load_tail(x, d, half), x1 = load_tail(x + half, d, half);
    __m256 c = load_tail(cos, d, half), s = load_tail(sin, d, half);
    store_tail(x, d, half, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
    store_tail(x + half, d, half, _mm256_fmadd_ps(x1, c, _mm256_mul_ps(x0, s)));
  }
}

void mt_add_avx2(float *x, const float *y, size_t n) {
  for (size_t i = 0; i < n; i += LANES)
    store_tail(x, i, n, _mm256_add_ps(load_tail(x, i, n), load_tail(y, i, n)));
}

void mt_scale_avx2(float *x, float a, size_t n) {
  for (size_t i = 0; i < n; i += LANES)
    store_tail(x, i, n, _mm256_mul_ps(load_tail(x, i, n), _mm256_set1_ps(a)));
}
