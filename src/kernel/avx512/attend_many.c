/* AVX-512 attention of several queries: 32 keys by 12 queries, 64 dimensions by 6. */
#include "avx512.h"

#define VEC           __m512
#define SCORE_ROWS_12 1
enum { LANES = 16, SCORE_ROWS = 12, VALUE_ROWS = 6, VALUE_VECS = 4 };
#define vec_zero    _mm512_setzero_ps
#define vec_set1    _mm512_set1_ps
#define vec_load    _mm512_loadu_ps
#define vec_store   _mm512_storeu_ps
#define vec_mul     _mm512_mul_ps
#define vec_fma     _mm512_fmadd_ps
#define load_kv     load_x16
#define values_tail mt_values_avx2

MT_INLINE __m512 exp_rest_x16(__m512 x, __m512 *shifted) {
  const __m512 magic = _mm512_set1_ps(MT_EXP_MAGIC);
  *shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(MT_EXP_LOG2E), magic);
  __m512 n = _mm512_sub_ps(*shifted, magic);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-MT_EXP_LN2_HI), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-MT_EXP_LN2_LO), r);
  __m512 q = _mm512_set1_ps(MT_EXP_Q4);
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(MT_EXP_Q3));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(MT_EXP_Q2));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(MT_EXP_Q1));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(MT_EXP_Q0));
  return _mm512_add_ps(_mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
}

MT_INLINE __m512 exp_x16(__m512 x) {
  /* The second operand is what comes out where one is NaN. */
  x = _mm512_min_ps(_mm512_set1_ps(MT_EXP_MAX), x);
  x = _mm512_max_ps(_mm512_set1_ps(MT_EXP_MIN), x);
  __m512 shifted, p = exp_rest_x16(x, &shifted);
  __m512i i =
      _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32((int)MT_EXP_MAGIC_BITS));
  __m512i half = _mm512_srai_epi32(i, 1), bias = _mm512_set1_epi32(127);
  __m512i rest = _mm512_add_epi32(_mm512_sub_epi32(i, half), bias);
  p = _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, bias), 23)));
  return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(rest, 23)));
}

/* As exp_normal_x8. */
MT_INLINE __m512 exp_normal_x16(__m512 x) {
  __m512 shifted, p = exp_rest_x16(x, &shifted);
  __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), n));
}

/* As mt_softmax_part_avx2. */
static void softmax_part(float *s, size_t lo, size_t hi, mt_attn_part *out) {
  const size_t begin = lo / LANES * LANES;
  for (size_t j = begin; j < lo; j++) s[j] = -__builtin_inff();
  for (size_t j = hi; j % LANES; j++) s[j] = -__builtin_inff();
  __m512 m = _mm512_set1_ps(-__builtin_inff()), sum = _mm512_setzero_ps();
  for (size_t j = begin; j < hi; j += LANES) m = _mm512_max_ps(_mm512_loadu_ps(s + j), m);
  float lane[LANES], max = -__builtin_inff();
  _mm512_storeu_ps(lane, m);
  for (size_t l = 0; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
  max += 0.0f;
  m = _mm512_set1_ps(max);
  for (size_t j = begin; j < hi; j += LANES) {
    __m512 p = _mm512_sub_ps(_mm512_loadu_ps(s + j), m);
    bool normal = _mm512_cmp_ps_mask(p, _mm512_set1_ps(MT_EXP_NORMAL), _CMP_GE_OQ) == 0xffff;
    p = normal ? exp_normal_x16(p) : exp_x16(p);
    _mm512_storeu_ps(s + j, p);
    sum = _mm512_add_ps(sum, p);
  }
  out->max = max;
  out->sum = tree_16(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1));
}

#include "../attend_many.h"

void mt_attend_many_avx512(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                           float scale, const void *const *k_block, const void *const *v_block,
                           const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                           float *scratch) {
  if (type == MT_KV_F16)
    attend_many(MT_KV_F16, head_dim, n, q, scale, k_block, v_block, lo, hi, next, out, scratch);
  else if (type == MT_KV_F32)
    attend_many(MT_KV_F32, head_dim, n, q, scale, k_block, v_block, lo, hi, next, out, scratch);
  else
    attend_many(MT_KV_Q8, head_dim, n, q, scale, k_block, v_block, lo, hi, next, out, scratch);
}
