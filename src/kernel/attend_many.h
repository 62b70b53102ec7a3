/* Attention of several queries together: keys and values are read and widened once for all of them.
 * Included by each instruction set after
 *   VEC, LANES                     a vector of f32
 *   SCORE_ROWS, VALUE_ROWS, VALUE_VECS   shapes of the register tiles
 *   vec_*, load_kv(type, block, i) its operations; LANES elements of a block, before a q8 scale
 *   softmax_part                   as mt_softmax_part_avx2
 *   values_tail                    as mt_values_avx2
 * are defined. Every query gets the chains that `attend` states. */

enum { QUERIES = MT_ATTEND_QUERIES, SEGMENT = MT_ATTN_SEGMENT, SCORE_KEYS = 2 * LANES };

MT_INLINE const float *many_scales(const void *block, size_t head_dim) {
  return (const float *)(const void *)((const uint8_t *)block + MT_KV_BLOCK * head_dim);
}

/* The hardware sees a stream within a block; the first lines of the next one are asked for. */
MT_INLINE void prefetch_block(const void *const *block, size_t j, size_t last) {
  if (j % MT_KV_BLOCK || j + MT_KV_BLOCK >= last) return;
  const char *next = block[j / MT_KV_BLOCK + 1];
  MT_UNROLL for (size_t i = 0; i < 16; i++) __builtin_prefetch(next + 64 * i);
}

/* Scores of SCORE_KEYS keys from `key` on of a block, for n queries: qt [head_dim][QUERIES], s
 * [n][SEGMENT]. */
MT_INLINE void many_scores(mt_kv_type type, size_t head_dim, const float *qt, float scale,
                           const uint8_t *block, size_t key, size_t n, float *s) {
  VEC acc[SCORE_ROWS][2], f0 = vec_zero(), f1 = f0;
  const size_t at = key / MT_KV_TILE * head_dim * MT_KV_TILE + key % MT_KV_TILE;
  const size_t next = (int)LANES == (int)MT_KV_TILE ? head_dim * MT_KV_TILE : LANES;
  if (type == MT_KV_Q8) {
    f0 = vec_load(many_scales(block, head_dim) + key);
    f1 = vec_load(many_scales(block, head_dim) + key + LANES);
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = vec_zero();
  for (size_t d = 0; d < head_dim; d++) {
    VEC k0 = load_kv(type, block, at + d * MT_KV_TILE);
    VEC k1 = load_kv(type, block, at + d * MT_KV_TILE + next);
    if (type == MT_KV_Q8) {
      k0 = vec_mul(f0, k0);
      k1 = vec_mul(f1, k1);
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      VEC x = vec_set1(qt[d * QUERIES + t]);
      acc[t][0] = vec_fma(x, k0, acc[t][0]);
      acc[t][1] = vec_fma(x, k1, acc[t][1]);
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    vec_store(s + t * SEGMENT, vec_mul(acc[t][0], vec_set1(scale)));
    vec_store(s + t * SEGMENT + LANES, vec_mul(acc[t][1], vec_set1(scale)));
  }
}

#define SCORE_CASE(n) \
  case n: many_scores(type, head_dim, qt, scale, block, key, n, s); break;

/* Columns of qt beyond the queries that there are hold zeros. */
MT_INLINE void score_keys(mt_kv_type type, size_t head_dim, const float *qt, float scale,
                          const uint8_t *block, size_t key, size_t n, float *s) {
  for (size_t t = 0, rows; t < n; t += rows, qt += rows, s += rows * SEGMENT) {
    rows = n - t < SCORE_ROWS ? n - t : SCORE_ROWS;
    switch (rows) {
      SCORE_CASE(1)
      SCORE_CASE(2)
      case 3: SCORE_CASE(4)
      case 5: SCORE_CASE(6)
#if SCORE_ROWS_12
      case 7: SCORE_CASE(8)
      case 9:
      case 10:
      case 11: SCORE_CASE(12)
#endif
    }
  }
}

/* Goes on with the chains of n queries, n_vecs vectors of dimensions from d on, over keys [lo, hi).
 * p [n][SEGMENT]. */
MT_INLINE void many_values(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                           size_t hi, const float *p, size_t d, size_t n_vecs, size_t n,
                           mt_attn_part *out) {
  VEC acc[VALUE_ROWS][VALUE_VECS];
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t i = 0; i < n_vecs; i++) acc[t][i] =
      vec_load(out[t].acc + d + i * LANES);
  for (size_t j = lo; j < hi; j++) {
    const uint8_t *block = v_block[j / MT_KV_BLOCK];
    const size_t slot = j % MT_KV_BLOCK;
    prefetch_block(v_block, j, hi);
    VEC v[VALUE_VECS], f = vec_zero();
    if (type == MT_KV_Q8) f = vec_set1(many_scales(block, head_dim)[slot]);
    MT_UNROLL for (size_t i = 0; i < n_vecs; i++) {
      v[i] = load_kv(type, block, slot * head_dim + d + i * LANES);
      if (type == MT_KV_Q8) v[i] = vec_mul(f, v[i]);
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      VEC x = vec_set1(p[t * SEGMENT + j]);
      MT_UNROLL for (size_t i = 0; i < n_vecs; i++) acc[t][i] = vec_fma(x, v[i], acc[t][i]);
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t i = 0; i < n_vecs; i++)
      vec_store(out[t].acc + d + i * LANES, acc[t][i]);
}

#define VALUE_CASE(n) \
  case n: many_values(type, head_dim, v_block, lo, hi, p, d, n_vecs, n, out); break;

MT_INLINE void value_rows(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                          size_t hi, const float *p, size_t d, size_t n_vecs, size_t n,
                          mt_attn_part *out) {
  switch (n) {
    VALUE_CASE(1)
    VALUE_CASE(2)
    VALUE_CASE(3)
    VALUE_CASE(4)
    VALUE_CASE(5)
    VALUE_CASE(6)
  }
}

/* Values for n queries: what all of them see together, what some see before and after it one by
 * one, so that each adds its keys in ascending order and none that it does not see. */
MT_INLINE void value_dims(mt_kv_type type, size_t head_dim, const void *const *v_block,
                          const size_t *lo, const size_t *hi, const float *p, size_t d,
                          size_t n_vecs, size_t n, mt_attn_part *out) {
  size_t begin = lo[0], end = hi[0];
  for (size_t t = 1; t < n; t++) {
    if (lo[t] > begin) begin = lo[t];
    if (hi[t] < end) end = hi[t];
  }
  if (begin > end) begin = end;
  for (size_t t = 0; t < n; t++)
    if (lo[t] < begin)
      value_rows(type, head_dim, v_block, lo[t], begin, p + t * SEGMENT, d, n_vecs, 1, out + t);
  value_rows(type, head_dim, v_block, begin, end, p, d, n_vecs, n, out);
  for (size_t t = 0; t < n; t++) {
    size_t from = lo[t] > end ? lo[t] : end;
    if (from < hi[t])
      value_rows(type, head_dim, v_block, from, hi[t], p + t * SEGMENT, d, n_vecs, 1, out + t);
  }
}

MT_INLINE void attend_many(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                           float scale, const void *const *k_block, const void *const *v_block,
                           const size_t *lo, const size_t *hi, mt_attn_part *out, float *scratch) {
  float *s = scratch, *qt = scratch + QUERIES * SEGMENT;
  size_t first = lo[0], last = hi[0];
  for (size_t t = 0; t < n; t++) {
    if (lo[t] < first) first = lo[t];
    if (hi[t] > last) last = hi[t];
    memset(out[t].acc, 0, head_dim * sizeof(float));
  }
  for (size_t d = 0; d < head_dim; d++)
    for (size_t t = 0; t < QUERIES; t++) qt[d * QUERIES + t] = t < n ? q[t][d] : 0;
  for (size_t j = first / SCORE_KEYS * SCORE_KEYS; j < last; j += SCORE_KEYS) {
    prefetch_block(k_block, j, last);
    score_keys(type, head_dim, qt, scale, k_block[j / MT_KV_BLOCK], j % MT_KV_BLOCK, n, s + j);
  }
  for (size_t t = 0; t < n; t++) softmax_part(s + t * SEGMENT, lo[t], hi[t], &out[t]);
  for (size_t t = 0, rows; t < n; t += rows) {
    const float *p = s + t * SEGMENT;
    size_t d = 0;
    rows = mt_even_part(n - t, VALUE_ROWS);
    for (; d + VALUE_VECS * LANES <= head_dim; d += VALUE_VECS * LANES)
      value_dims(type, head_dim, v_block, lo + t, hi + t, p, d, VALUE_VECS, rows, out + t);
    for (; d + LANES <= head_dim; d += LANES)
      value_dims(type, head_dim, v_block, lo + t, hi + t, p, d, 1, rows, out + t);
    for (size_t i = 0; d < head_dim && i < rows; i++)
      values_tail(type, head_dim, v_block, lo[t + i], hi[t + i], p + i * SEGMENT, d,
                  out[t + i].acc);
  }
}
