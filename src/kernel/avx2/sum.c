/* AVX2: integer sums over ranks, and their one rounding. */
#include <float.h>

#include "avx2.h"

enum { LANES = 4 };

MT_INLINE __m256i load_i64x4(const int64_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

bool mt_sum_parts_avx2(const int64_t *const *part, size_t n_parts, size_t at, size_t n,
                       unsigned limit_bits, int64_t *out) {
  const __m256i limit = _mm256_set1_epi64x(1ll << limit_bits);
  const __m128i shift = _mm_cvtsi32_si128((int)limit_bits + 1);
  __m256i beyond = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    __m256i sum = _mm256_setzero_si256();
    for (size_t p = 0; p < n_parts; p++) {
      __m256i v = load_i64x4(part[p] + at + i);
      beyond = _mm256_or_si256(beyond, _mm256_srl_epi64(_mm256_add_epi64(v, limit), shift));
      sum = _mm256_add_epi64(sum, v);
    }
    _mm256_storeu_si256((__m256i *)(void *)(out + i), sum);
  }
  bool within = mt_sum_parts_ref(part, n_parts, at + i, n - i, limit_bits, out + i);
  return within && _mm256_testz_si256(beyond, beyond);
}

/* Integers below 2^51 in magnitude: added to the bits of 1.5 × 2^52 they are that double's low
 * bits. Larger ones are left to ref. */
bool mt_round_sums_avx2(const int64_t *sum, size_t n, int exp, float *out) {
  const __m256i least = _mm256_set1_epi64x(-(1ll << 51)), most = _mm256_set1_epi64x(1ll << 51),
                bits = _mm256_set1_epi64x(MT_RINT_MAGIC_BITS);
  const __m256d magic = _mm256_set1_pd(MT_RINT_MAGIC), scale = _mm256_set1_pd(mt_power_of_two(exp));
  const __m128 sign = _mm_set1_ps(-0.0f), infinity = _mm_set1_ps(__builtin_inff());
  __m128 infinite = _mm_setzero_ps();
  bool finite = true;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    __m256i v = load_i64x4(sum + i);
    __m256i fits = _mm256_and_si256(_mm256_cmpgt_epi64(v, least), _mm256_cmpgt_epi64(most, v));
    if (_mm256_movemask_epi8(fits) != -1) {
      finite &= mt_round_sums_ref(sum + i, LANES, exp, out + i);
      continue;
    }
    __m256d d = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_add_epi64(v, bits)), magic);
    __m128 f = _mm256_cvtpd_ps(_mm256_mul_pd(d, scale));
    infinite = _mm_or_ps(infinite, _mm_cmpeq_ps(_mm_andnot_ps(sign, f), infinity));
    _mm_storeu_ps(out + i, f);
  }
  finite &= mt_round_sums_ref(sum + i, n - i, exp, out + i);
  return finite && _mm_movemask_ps(infinite) == 0;
}
