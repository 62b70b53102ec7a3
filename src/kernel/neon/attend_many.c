/* NEON attention of several queries: 8 keys by 12 queries, 16 dimensions by 6. */
#include "neon.h"

#define VEC           float32x4_t
#define SCORE_ROWS_12 1
enum { LANES = 4, SCORE_ROWS = 12, VALUE_ROWS = 6, VALUE_VECS = 4 };
#define vec_zero()        vdupq_n_f32(0)
#define vec_set1          vdupq_n_f32
#define vec_load          vld1q_f32
#define vec_store         vst1q_f32
#define vec_mul           vmulq_f32
#define vec_fma(a, b, to) vfmaq_f32(to, a, b)
#define softmax_part      mt_softmax_part_neon
#define values_tail       mt_values_ref

MT_INLINE float32x4_t load_kv(mt_kv_type type, const uint8_t *block, size_t i) {
  if (type == MT_KV_F16) return load_f16x4(block + 2 * i);
  if (type == MT_KV_F32) return vld1q_f32((const float *)(const void *)block + i);
  return load_i8x4(block + i);
}

#include "../attend_many.h"

void mt_attend_many_neon(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
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
