/* AVX2 attention of several queries: 16 keys by 6 queries, 16 dimensions by 6. */
#include "avx2.h"

#define VEC           __m256
#define SCORE_ROWS_12 0
enum { LANES = 8, SCORE_ROWS = 6, VALUE_ROWS = 6, VALUE_VECS = 2 };
#define vec_zero     _mm256_setzero_ps
#define vec_set1     _mm256_set1_ps
#define vec_load     _mm256_loadu_ps
#define vec_store    _mm256_storeu_ps
#define vec_mul      _mm256_mul_ps
#define vec_fma      _mm256_fmadd_ps
#define load_kv      load_x8
#define softmax_part mt_softmax_part_avx2
#define values_tail  mt_values_avx2

#include "../attend_many.h"

void mt_attend_many_avx2(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
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
