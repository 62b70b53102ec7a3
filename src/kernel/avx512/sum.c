/* AVX-512: integer sums over ranks, and their one rounding. */
#include "avx512.h"

enum { LANES_64 = 8 };

bool mt_sum_parts_avx512(const int64_t *const *part, size_t n_parts, size_t at, size_t n,
                         unsigned limit_bits, int64_t *out) {
  const __m512i limit = _mm512_set1_epi64(1ll << limit_bits);
  const __m128i shift = _mm_cvtsi32_si128((int)limit_bits + 1);
  __m512i beyond = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + LANES_64 <= n; i += LANES_64) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t p = 0; p < n_parts; p++) {
      __m512i v = _mm512_loadu_si512(part[p] + at + i);
      beyond = _mm512_or_si512(beyond, _mm512_add_epi64(v, limit)); /* shifted below, once */
      sum = _mm512_add_epi64(sum, v);
    }
    _mm512_storeu_si512(out + i, sum);
  }
  beyond = _mm512_srl_epi64(beyond, shift);
  bool within = mt_sum_parts_ref(part, n_parts, at + i, n - i, limit_bits, out + i);
  return within && _mm512_test_epi64_mask(beyond, beyond) == 0;
}

/* Results of any int64 that are neither subnormal nor beyond f32: the conversion rounds, once, and
 * the scaling is exact. */
enum { EASY_EXP_LEAST = -126, EASY_EXP_MOST = 64 };

static bool round_easy(const int64_t *sum, size_t n, int exp, float *out) {
  const __m256 scale = _mm256_set1_ps((float)mt_power_of_two(exp));
  size_t i = 0;
  for (; i + LANES_64 <= n; i += LANES_64) {
    __m256 f = _mm512_cvtepi64_ps(_mm512_loadu_si512(sum + i));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(f, scale));
  }
  return mt_round_sums_ref(sum + i, n - i, exp, out + i);
}

/* Up to 2^53 in magnitude double holds the integer; larger ones are left to ref. */
bool mt_round_sums_avx512(const int64_t *sum, size_t n, int exp, float *out) {
  if (exp >= EASY_EXP_LEAST && exp <= EASY_EXP_MOST) return round_easy(sum, n, exp, out);
  const __m512i most = _mm512_set1_epi64(1ll << 53), span = _mm512_set1_epi64(1ll << 54);
  const __m512d scale = _mm512_set1_pd(mt_power_of_two(exp));
  const __m256 sign = _mm256_set1_ps(-0.0f), infinity = _mm256_set1_ps(__builtin_inff());
  __m256 infinite = _mm256_setzero_ps();
  bool finite = true;
  size_t i = 0;
  for (; i + LANES_64 <= n; i += LANES_64) {
    __m512i v = _mm512_loadu_si512(sum + i);
    if (_mm512_cmpgt_epu64_mask(_mm512_add_epi64(v, most), span)) {
      finite &= mt_round_sums_ref(sum + i, LANES_64, exp, out + i);
      continue;
    }
    __m256 f = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtepi64_pd(v), scale));
    infinite =
        _mm256_or_ps(infinite, _mm256_cmp_ps(_mm256_andnot_ps(sign, f), infinity, _CMP_EQ_OQ));
    _mm256_storeu_ps(out + i, f);
  }
  finite &= mt_round_sums_ref(sum + i, n - i, exp, out + i);
  return finite && _mm256_movemask_ps(infinite) == 0;
}
