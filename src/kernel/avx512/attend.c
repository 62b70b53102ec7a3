/* AVX-512 attention over one segment: scores with 16 keys across lanes, values with 16
 * dimensions. */
#include "avx512.h"

enum { LANES = 16, TILES = MT_KV_BLOCK / MT_KV_TILE };

/* Scores of the n tiles from `tile` on of one block. */
MT_INLINE void score_tiles(mt_kv_type type, size_t head_dim, const float *q, float scale,
                           const uint8_t *block, size_t tile, size_t n, float *s) {
  __m512 acc[TILES], f[TILES];
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    acc[t] = f[t] = _mm512_setzero_ps();
    if (type == MT_KV_Q8)
      f[t] = _mm512_loadu_ps(mt_q8_scales(block, head_dim) + (tile + t) * LANES);
  }
  for (size_t d = 0; d < head_dim; d++) {
    __m512 qd = _mm512_set1_ps(q[d]);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m512 k = load_x16(type, block, ((tile + t) * head_dim + d) * LANES);
      if (type == MT_KV_Q8) k = _mm512_mul_ps(f[t], k);
      acc[t] = _mm512_fmadd_ps(qd, k, acc[t]);
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++)
      _mm512_storeu_ps(s + t * LANES, _mm512_mul_ps(acc[t], _mm512_set1_ps(scale)));
}

MT_INLINE void scores(mt_kv_type type, size_t head_dim, const float *q, float scale,
                      const void *const *k_block, size_t lo, size_t hi, float *s) {
  for (size_t t = lo / LANES; t * LANES < hi;) {
    const uint8_t *block = k_block[t / TILES];
    if (t % TILES == 0 && (t + TILES) * LANES < hi + LANES) {
      score_tiles(type, head_dim, q, scale, block, 0, TILES, s + t * LANES);
      t += TILES;
    } else {
      score_tiles(type, head_dim, q, scale, block, t % TILES, 1, s + t * LANES);
      t++;
    }
  }
}

/* n vectors of dimensions from d on. */
MT_INLINE void value_dims(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                          size_t hi, const float *p, size_t d, size_t n, float *out) {
  __m512 acc[8];
  MT_UNROLL for (size_t i = 0; i < n; i++) acc[i] = _mm512_setzero_ps();
  for (size_t j = lo; j < hi; j++) {
    const uint8_t *block = v_block[j / MT_KV_BLOCK];
    size_t slot = j % MT_KV_BLOCK;
    __m512 pj = _mm512_set1_ps(p[j]), f = pj;
    if (type == MT_KV_Q8) f = _mm512_set1_ps(mt_q8_scales(block, head_dim)[slot]);
    MT_UNROLL for (size_t i = 0; i < n; i++) {
      __m512 v = load_x16(type, block, slot * head_dim + d + i * LANES);
      if (type == MT_KV_Q8) v = _mm512_mul_ps(f, v);
      acc[i] = _mm512_fmadd_ps(pj, v, acc[i]);
    }
  }
  MT_UNROLL for (size_t i = 0; i < n; i++) _mm512_storeu_ps(out + d + i * LANES, acc[i]);
}

MT_INLINE void attend(mt_kv_type type, size_t head_dim, const float *q, float scale,
                      const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                      mt_attn_part *out, float *weight) {
  float p[MT_ATTN_SEGMENT];
  scores(type, head_dim, q, scale, k_block, lo, hi, p);
  mt_softmax_part_avx2(p, lo, hi, out);
  if (weight) memcpy(weight + lo, p + lo, (hi - lo) * sizeof *p);
  size_t d = 0;
  for (; d + 8 * LANES <= head_dim; d += 8 * LANES)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 8, out->acc);
  for (; d + 4 * LANES <= head_dim; d += 4 * LANES)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 4, out->acc);
  for (; d + LANES <= head_dim; d += LANES)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 1, out->acc);
  mt_values_avx2(type, head_dim, v_block, lo, hi, p, d, out->acc);
}

void mt_attend_avx512(mt_kv_type type, size_t head_dim, const float *q, float scale,
                      const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                      mt_attn_part *out, float *weight) {
  if (type == MT_KV_F16)
    attend(MT_KV_F16, head_dim, q, scale, k_block, v_block, lo, hi, out, weight);
  else if (type == MT_KV_F32)
    attend(MT_KV_F32, head_dim, q, scale, k_block, v_block, lo, hi, out, weight);
  else
    attend(MT_KV_Q8, head_dim, q, scale, k_block, v_block, lo, hi, out, weight);
}
