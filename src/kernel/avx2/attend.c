/* AVX2 attention over one segment: keys across lanes for the scores, dimensions across lanes for
 * the values. */
#include "avx2.h"

enum { LANES = 8, KEYS = MT_KV_TILE };

void mt_kv_store_avx2(mt_kv_type type, size_t head_dim, void *k_block, void *v_block, size_t slot,
                      const float *k, const float *v) {
  if (type != MT_KV_F16 || head_dim % LANES) {
    mt_kv_store_ref(type, head_dim, k_block, v_block, slot, k, v);
    return;
  }
  uint16_t *kb = (uint16_t *)k_block + slot / KEYS * head_dim * KEYS + slot % KEYS;
  uint16_t *vb = (uint16_t *)v_block + slot * head_dim;
  for (size_t d = 0; d < head_dim; d += LANES) {
    uint16_t half[LANES];
    _mm_storeu_si128((void *)(vb + d), _mm256_cvtps_ph(_mm256_loadu_ps(v + d), 0));
    _mm_storeu_si128((void *)half, _mm256_cvtps_ph(_mm256_loadu_ps(k + d), 0));
    for (size_t i = 0; i < LANES; i++) kb[(d + i) * KEYS] = half[i];
  }
}

/* ---- scores ------------------------------------------------------------------------------ */

/* Scores of the n tiles from `tile` on of one block. */
MT_INLINE void score_tiles(mt_kv_type type, size_t head_dim, const float *q, float scale,
                           const uint8_t *block, size_t tile, size_t n, float *s) {
  __m256 acc[4][2], f[4][2];
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++) {
    acc[t][h] = f[t][h] = _mm256_setzero_ps();
    if (type == MT_KV_Q8)
      f[t][h] = _mm256_loadu_ps(mt_q8_scales(block, head_dim) + (tile + t) * KEYS + h * LANES);
  }
  for (size_t d = 0; d < head_dim; d++) {
    __m256 qd = _mm256_broadcast_ss(q + d);
    MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++) {
      __m256 k = load_x8(type, block, ((tile + t) * head_dim + d) * KEYS + h * LANES);
      if (type == MT_KV_Q8) k = _mm256_mul_ps(f[t][h], k);
      acc[t][h] = _mm256_fmadd_ps(qd, k, acc[t][h]);
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t h = 0; h < 2; h++)
      _mm256_storeu_ps(s + t * KEYS + h * LANES, _mm256_mul_ps(acc[t][h], _mm256_set1_ps(scale)));
}

MT_INLINE void scores(mt_kv_type type, size_t head_dim, const float *q, float scale,
                      const void *const *k_block, size_t lo, size_t hi, float *s) {
  enum { TILES = MT_KV_BLOCK / KEYS };
  for (size_t t = lo / KEYS; t * KEYS < hi;) {
    const uint8_t *block = k_block[t / TILES];
    if (t % TILES == 0 && (t + TILES) * KEYS < hi + KEYS) {
      score_tiles(type, head_dim, q, scale, block, 0, TILES, s + t * KEYS);
      t += TILES;
    } else {
      score_tiles(type, head_dim, q, scale, block, t % TILES, 1, s + t * KEYS);
      t++;
    }
  }
}

/* Scores of keys outside [lo, hi) become −inf, whose weight is 0, in the tiles at both ends. */
static void mask_ends(float *s, size_t lo, size_t hi) {
  for (size_t j = lo / KEYS * KEYS; j < lo; j++) s[j] = -__builtin_inff();
  for (size_t j = hi; j % KEYS; j++) s[j] = -__builtin_inff();
}

void mt_softmax_part_avx2(float *s, size_t lo, size_t hi, mt_attn_part *out) {
  size_t begin = lo / KEYS * KEYS;
  mask_ends(s, lo, hi);
  __m256 m = _mm256_set1_ps(-__builtin_inff()), sum0 = _mm256_setzero_ps(), sum1 = sum0;
  for (size_t j = begin; j < hi; j += KEYS)
    m = _mm256_max_ps(_mm256_loadu_ps(s + j), _mm256_max_ps(_mm256_loadu_ps(s + j + LANES), m));
  float lane[LANES], max = -__builtin_inff();
  _mm256_storeu_ps(lane, m);
  for (size_t l = 0; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
  max += 0.0f;
  m = _mm256_set1_ps(max);
  const __m256 least = _mm256_set1_ps(MT_EXP_NORMAL);
  for (size_t j = begin; j < hi; j += KEYS) {
    __m256 p0 = _mm256_sub_ps(_mm256_loadu_ps(s + j), m);
    __m256 p1 = _mm256_sub_ps(_mm256_loadu_ps(s + j + LANES), m);
    __m256 normal =
        _mm256_and_ps(_mm256_cmp_ps(p0, least, _CMP_GE_OQ), _mm256_cmp_ps(p1, least, _CMP_GE_OQ));
    if (_mm256_movemask_ps(normal) == 0xff) {
      p0 = exp_normal_x8(p0);
      p1 = exp_normal_x8(p1);
    } else {
      p0 = exp_x8(p0);
      p1 = exp_x8(p1);
    }
    _mm256_storeu_ps(s + j, p0);
    _mm256_storeu_ps(s + j + LANES, p1);
    sum0 = _mm256_add_ps(sum0, p0);
    sum1 = _mm256_add_ps(sum1, p1);
  }
  out->max = max;
  out->sum = tree_16(sum0, sum1);
}

/* ---- values ------------------------------------------------------------------------------ */

/* n vectors of dimensions from d on. */
MT_INLINE void value_dims(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                          size_t hi, const float *p, size_t d, size_t n, float *out) {
  __m256 acc[8];
  MT_UNROLL for (size_t i = 0; i < n; i++) acc[i] = _mm256_setzero_ps();
  for (size_t j = lo; j < hi; j++) {
    const uint8_t *block = v_block[j / MT_KV_BLOCK];
    size_t slot = j % MT_KV_BLOCK;
    __m256 pj = _mm256_broadcast_ss(p + j), f = pj;
    if (type == MT_KV_Q8) f = _mm256_broadcast_ss(mt_q8_scales(block, head_dim) + slot);
    MT_UNROLL for (size_t i = 0; i < n; i++) {
      __m256 v = load_x8(type, block, slot * head_dim + d + i * LANES);
      if (type == MT_KV_Q8) v = _mm256_mul_ps(f, v);
      acc[i] = _mm256_fmadd_ps(pj, v, acc[i]);
    }
  }
  MT_UNROLL for (size_t i = 0; i < n; i++) _mm256_storeu_ps(out + d + i * LANES, acc[i]);
}

MT_INLINE void values(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                      size_t hi, const float *p, size_t d, float *acc) {
  for (; d + 8 * LANES <= head_dim; d += 8 * LANES)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 8, acc);
  for (; d + 2 * LANES <= head_dim; d += 2 * LANES)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 2, acc);
  for (; d + LANES <= head_dim; d += LANES)
    value_dims(type, head_dim, v_block, lo, hi, p, d, 1, acc);
  mt_values_ref(type, head_dim, v_block, lo, hi, p, d, acc);
}

void mt_values_avx2(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                    size_t hi, const float *p, size_t d_begin, float *acc) {
  if (type == MT_KV_F16)
    values(MT_KV_F16, head_dim, v_block, lo, hi, p, d_begin, acc);
  else if (type == MT_KV_F32)
    values(MT_KV_F32, head_dim, v_block, lo, hi, p, d_begin, acc);
  else
    values(MT_KV_Q8, head_dim, v_block, lo, hi, p, d_begin, acc);
}

void mt_attend_avx2(mt_kv_type type, size_t head_dim, const float *q, float scale,
                    const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                    mt_attn_part *out, float *weight) {
  float p[MT_ATTN_SEGMENT];
  if (type == MT_KV_F16)
    scores(MT_KV_F16, head_dim, q, scale, k_block, lo, hi, p);
  else if (type == MT_KV_F32)
    scores(MT_KV_F32, head_dim, q, scale, k_block, lo, hi, p);
  else
    scores(MT_KV_Q8, head_dim, q, scale, k_block, lo, hi, p);
  mt_softmax_part_avx2(p, lo, hi, out);
  if (weight) memcpy(weight + lo, p + lo, (hi - lo) * sizeof *p);
  mt_values_avx2(type, head_dim, v_block, lo, hi, p, 0, out->acc);
}

void mt_attend_merge_avx2(size_t head_dim, mt_attn_part *total, const mt_attn_part *part) {
  float m = part->max > total->max ? part->max : total->max;
  float a = exp_x1(total->max - m), b = exp_x1(part->max - m);
  total->max = m;
  total->sum = __builtin_fmaf(part->sum, b, total->sum * a);
  size_t d = 0;
  for (; d + LANES <= head_dim; d += LANES) {
    __m256 t = _mm256_mul_ps(_mm256_loadu_ps(total->acc + d), _mm256_set1_ps(a));
    t = _mm256_fmadd_ps(_mm256_loadu_ps(part->acc + d), _mm256_set1_ps(b), t);
    _mm256_storeu_ps(total->acc + d, t);
  }
  for (; d < head_dim; d++) total->acc[d] = __builtin_fmaf(part->acc[d], b, total->acc[d] * a);
}

void mt_attend_finish_avx2(size_t head_dim, const mt_attn_part *total, float *out) {
  size_t d = 0;
  for (; d + LANES <= head_dim; d += LANES)
    _mm256_storeu_ps(out + d,
                     _mm256_div_ps(_mm256_loadu_ps(total->acc + d), _mm256_set1_ps(total->sum)));
  for (; d < head_dim; d++) out[d] = total->acc[d] / total->sum;
}
