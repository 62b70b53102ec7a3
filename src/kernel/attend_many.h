/* Attention of several queries together: keys and values are read and widened once for all of them.
 * Included by each instruction set after
 *   VEC, LANES                     a vector of f32
 *   SCORE_ROWS, VALUE_ROWS, VALUE_VECS   shapes of the register tiles
 *   vec_*, load_kv(type, block, i) its operations; LANES elements of a block, before a q8 scale
 *   softmax_part                   as mt_softmax_part_avx2
 *   values_tail                    as mt_values_avx2
 * are defined. Every query gets the chains that `attend` states. */

enum { QUERIES = MT_ATTEND_QUERIES, SEGMENT = MT_ATTN_SEGMENT, SCORE_KEYS = 2 * LANES };

/* What is read next, asked for while this is multiplied: each pass over a block asks for its share
 * of another one, `step` bytes a turn, so that memory is never idle nor flooded. Into the second
 * cache: more lines can be under way to it than to the first. */
typedef struct ahead {
  const uint8_t *at;
  size_t step;
} ahead;

/* Turn i; a step has at most `most` bytes. */
MT_INLINE void ask_ahead(ahead a, size_t i, size_t most) {
  MT_UNROLL for (size_t line = 0; line < most; line += 64)
      __builtin_prefetch(a.at + i * a.step + line, 0, 2);
}

MT_INLINE size_t element_bytes(mt_kv_type type) {
  return type == MT_KV_F16 ? 2 : type == MT_KV_F32 ? 4 : 1;
}

/* Scores of SCORE_KEYS keys from `key` on of a block, for n queries: qt [head_dim][QUERIES], s
 * [n][SEGMENT]. */
MT_INLINE void many_scores(mt_kv_type type, size_t head_dim, const float *qt, float scale,
                           const uint8_t *block, size_t key, size_t n, ahead a, float *s) {
  VEC acc[SCORE_ROWS][2], f0 = vec_zero(), f1 = f0;
  const size_t at = key / MT_KV_TILE * head_dim * MT_KV_TILE + key % MT_KV_TILE;
  const size_t next = (int)LANES == (int)MT_KV_TILE ? head_dim * MT_KV_TILE : LANES;
  if (type == MT_KV_Q8) {
    f0 = vec_load(mt_q8_scales(block, head_dim) + key);
    f1 = vec_load(mt_q8_scales(block, head_dim) + key + LANES);
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = vec_zero();
  for (size_t d = 0; d < head_dim; d++) {
    ask_ahead(a, d, SCORE_KEYS * element_bytes(type));
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
  case n: many_scores(type, head_dim, qt, scale, block, key, n, a, s); break;

/* Columns of qt beyond the queries that there are hold zeros as far as a tile reads them. `next` is
 * the block to ask for. */
MT_INLINE void score_keys(mt_kv_type type, size_t head_dim, const float *qt, float scale,
                          const uint8_t *block, const uint8_t *next, size_t key, size_t n,
                          float *s) {
  const size_t groups = (n + SCORE_ROWS - 1) / SCORE_ROWS;
  const size_t step = SCORE_KEYS * element_bytes(type) / groups;
  ahead a = {next + key * head_dim * element_bytes(type), step};
  for (size_t t = 0, rows; t < n; t += rows, qt += rows, s += rows * SEGMENT) {
    rows = (mt_even_part(n - t, SCORE_ROWS) + 1) / 2 * 2; /* the tiles that there are */
    if (rows > n - t) rows = n - t;
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
    a.at += head_dim * step;
  }
}

/* Goes on with the chains of n queries, n_vecs vectors of dimensions from d on, over the slots
 * [lo, hi) of a block. p [n][SEGMENT] begins with the block's first slot. */
MT_INLINE void many_values(mt_kv_type type, size_t head_dim, const uint8_t *block, size_t lo,
                           size_t hi, const float *p, size_t d, size_t n_vecs, size_t n, ahead a,
                           mt_attn_part *out) {
  VEC acc[VALUE_ROWS][VALUE_VECS];
  MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t i = 0; i < n_vecs; i++) acc[t][i] =
      vec_load(out[t].acc + d + i * LANES);
  for (size_t j = lo; j < hi; j++) {
    ask_ahead(a, j, n_vecs * LANES * element_bytes(type));
    VEC v[VALUE_VECS], f = vec_zero();
    if (type == MT_KV_Q8) f = vec_set1(mt_q8_scales(block, head_dim)[j]);
    MT_UNROLL for (size_t i = 0; i < n_vecs; i++) {
      v[i] = load_kv(type, block, j * head_dim + d + i * LANES);
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
  case n: many_values(type, head_dim, block, lo, hi, p, d, n_vecs, n, a, out); break;

MT_INLINE void value_rows(mt_kv_type type, size_t head_dim, const uint8_t *block, size_t lo,
                          size_t hi, const float *p, size_t d, size_t n_vecs, size_t n, ahead a,
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

/* What queries see of a block, as slots: [lo, hi) each, [begin, end) all of them. */
typedef struct view {
  size_t lo[VALUE_ROWS], hi[VALUE_ROWS], begin, end;
  bool same; /* all see [begin, end) */
} view;

MT_INLINE size_t slot_of(size_t key, size_t base) {
  size_t slot = key > base ? key - base : 0;
  return slot < MT_KV_BLOCK ? slot : MT_KV_BLOCK;
}

/* Of the block that begins with key `base`. */
MT_INLINE view view_of(size_t base, const size_t *lo, const size_t *hi, size_t n) {
  view w;
  w.begin = 0;
  w.end = MT_KV_BLOCK;
  size_t least = MT_KV_BLOCK, most = 0;
  for (size_t t = 0; t < n; t++) {
    size_t from = slot_of(lo[t], base), to = slot_of(hi[t], base);
    w.lo[t] = from;
    w.hi[t] = to;
    if (from > w.begin) w.begin = from;
    if (to < w.end) w.end = to;
    if (from < least) least = from;
    if (to > most) most = to;
  }
  if (w.begin > w.end) w.begin = w.end;
  w.same = least == w.begin && most == w.end;
  return w;
}

/* Values for n queries: what all of them see together, what some see before and after it one by
 * one, so that each adds its keys in ascending order and none that it does not see. */
MT_INLINE void value_dims(mt_kv_type type, size_t head_dim, const uint8_t *block, const view *w,
                          const float *p, size_t d, size_t n_vecs, size_t n, ahead a,
                          mt_attn_part *out) {
  for (size_t t = 0; !w->same && t < n; t++)
    if (w->lo[t] < w->begin)
      value_rows(type, head_dim, block, w->lo[t], w->begin, p + t * SEGMENT, d, n_vecs, 1, a,
                 out + t);
  value_rows(type, head_dim, block, w->begin, w->end, p, d, n_vecs, n, a, out);
  for (size_t t = 0; !w->same && t < n; t++) {
    size_t from = w->lo[t] > w->end ? w->lo[t] : w->end;
    if (from < w->hi[t])
      value_rows(type, head_dim, block, from, w->hi[t], p + t * SEGMENT, d, n_vecs, 1, a, out + t);
  }
}

/* Block after block, so that it comes from the first cache for all queries and dimensions but the
 * first. `base` is the block's first key, `next` the block to ask for. */
MT_INLINE void value_block(mt_kv_type type, size_t head_dim, const uint8_t *block,
                           const uint8_t *next, size_t base, const size_t *lo, const size_t *hi,
                           const float *p, size_t n, mt_attn_part *out) {
  const size_t bytes = element_bytes(type), groups = (n + VALUE_ROWS - 1) / VALUE_ROWS;
  for (size_t t = 0, rows; t < n; t += rows, p += rows * SEGMENT) {
    rows = mt_even_part(n - t, VALUE_ROWS);
    const view w = view_of(base, lo + t, hi + t, rows);
    for (size_t d = 0, vecs; d + LANES <= head_dim; d += vecs * LANES) {
      vecs = d + VALUE_VECS * LANES <= head_dim ? VALUE_VECS : 1;
      const ahead a = {next, vecs * LANES * bytes / groups};
      if (vecs == VALUE_VECS)
        value_dims(type, head_dim, block, &w, p, d, VALUE_VECS, rows, a, out + t);
      else
        value_dims(type, head_dim, block, &w, p, d, 1, rows, a, out + t);
      next += MT_KV_BLOCK * a.step;
    }
  }
}

MT_INLINE void attend_many(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                           float scale, const void *const *k_block, const void *const *v_block,
                           const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                           float *scratch) {
  float *s = scratch, *qt = scratch + QUERIES * SEGMENT;
  size_t first = lo[0], last = hi[0];
  for (size_t t = 0; t < n; t++) {
    if (lo[t] < first) first = lo[t];
    if (hi[t] > last) last = hi[t];
    memset(out[t].acc, 0, head_dim * sizeof(float));
  }
  const size_t columns = n > 8 ? QUERIES : n + n % 2; /* a tile of 9 to 12 reads all */
  for (size_t t = 0; t < columns; t++)
    for (size_t d = 0; d < head_dim; d++) qt[d * QUERIES + t] = t < n ? q[t][d] : 0;
  const size_t begin = first / MT_KV_BLOCK, end = (last + MT_KV_BLOCK - 1) / MT_KV_BLOCK;
  for (size_t j = first / SCORE_KEYS * SCORE_KEYS; j < last; j += SCORE_KEYS) {
    size_t b = j / MT_KV_BLOCK;
    score_keys(type, head_dim, qt, scale, k_block[b], b + 1 < end ? k_block[b + 1] : v_block[begin],
               j % MT_KV_BLOCK, n, s + j);
  }
  for (size_t t = 0; t < n; t++) softmax_part(s + t * SEGMENT, lo[t], hi[t], &out[t]);
  for (size_t b = begin; b < end; b++)
    value_block(type, head_dim, v_block[b],
                b + 1 < end ? v_block[b + 1]
                : next      ? next
                            : v_block[b],
                b * MT_KV_BLOCK, lo, hi, s + b * MT_KV_BLOCK, n, out);
  const size_t done = head_dim / LANES * LANES;
  for (size_t t = 0; done < head_dim && t < n; t++)
    values_tail(type, head_dim, v_block, lo[t], hi[t], s + t * SEGMENT, done, out[t].acc);
}
