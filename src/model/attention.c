/* The heads' part of a layer: bias, norm and rotation of q and k, the cache, attention by segments
 * (DESIGN section 1). */
#include <string.h>

#include "forward.h"

static void fill_angles(const mt_step *s, int r, size_t row, const float *inv_freq, float factor) {
  uint32_t half = s->m->cfg.rotary_dim / 2;
  float *c = s->b->cos + ((size_t)r * s->m->opt.max_rows + row) * half;
  float *d = s->b->sin + ((size_t)r * s->m->opt.max_rows + row) * half;
  for (uint32_t i = 0; i < half; i++) {
    float angle = (float)s->row[row].position * inv_freq[i];
    double si, co;
    mt_sincos64((double)angle, &si, &co);
    c[i] = (float)co * factor;
    d[i] = (float)si * factor;
  }
}

typedef struct angles {
  mt_step *s;
  float factor[MT_MODEL_ROPES];
} angles;

static void angles_thread(void *arg, int thread, int n_threads) {
  const angles *a = arg;
  size_t begin, end;
  mt_team_share(a->s->n, thread, n_threads, &begin, &end);
  uint32_t half = a->s->m->cfg.rotary_dim / 2;
  for (size_t row = begin; row < end; row++)
    for (int r = 0; r < a->s->m->cfg.n_ropes; r++)
      fill_angles(a->s, r, row, a->s->b->inv_freq + (size_t)r * half, a->factor[r]);
}

void mt_forward_angles(mt_step *s) {
  const mt_model_config *cfg = &s->m->cfg;
  uint32_t half = cfg->rotary_dim / 2;
  angles a = {.s = s};
  bool by_length = mt_model_rope_depends_on_length(cfg);
  for (int r = 0; r < cfg->n_ropes; r++)
    mt_model_rope_frequencies(cfg, r, s->n ? s->row[0].planned : 0,
                              s->b->inv_freq + (size_t)r * half, &a.factor[r]);
  if (!by_length) {
    mt_team_run(s->m->team, angles_thread, &a);
    return;
  }
  for (size_t row = 0; row < s->n; row++) /* frequencies of its own for each request */
    for (int r = 0; r < cfg->n_ropes; r++) {
      float *inv = s->b->inv_freq + (size_t)r * half;
      mt_model_rope_frequencies(cfg, r, s->row[row].planned, inv, &a.factor[r]);
      fill_angles(s, r, row, inv, a.factor[r]);
    }
}

static void rotate(const mt_step *s, size_t row, float *head) {
  int r = s->m->cfg.layer[s->l].rope;
  if (r < 0) return;
  size_t at = ((size_t)r * s->m->opt.max_rows + row) * (s->m->cfg.rotary_dim / 2);
  s->m->kn->rope(head, s->b->cos + at, s->b->sin + at, s->m->cfg.rotary_dim);
}

static void prepare_head(const mt_step *s, size_t row, float *head, const float *bias,
                         const float *norm) {
  const mt_kernels *kn = s->m->kn;
  uint32_t hd = s->m->cfg.head_dim;
  if (bias) kn->add(head, bias, hd);
  if (norm) kn->rmsnorm(head, norm, hd, s->m->cfg.eps, head);
  rotate(s, row, head);
}

/* Items are (row, head): first the query heads, then the KV heads, whose keys and values enter the
 * cache. */
void mt_forward_heads(void *arg, int thread, int n_threads) {
  const mt_step *s = arg;
  const mt_model *m = s->m;
  uint32_t hd = m->cfg.head_dim;
  size_t nq = m->shard.heads.end - m->shard.heads.begin,
         nkv = m->shard.kv_heads.end - m->shard.kv_heads.begin;
  size_t begin, end, per_row = nq + nkv;
  mt_team_share(s->n * per_row, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    size_t row = i / per_row, h = i % per_row;
    const mt_layer *y = s->layer;
    if (h < nq) {
      prepare_head(s, row, s->b->q + (row * nq + h) * hd, y->q_bias ? y->q_bias + h * hd : NULL,
                   y->q_norm);
      continue;
    }
    h -= nq;
    float *k = s->b->k + (row * nkv + h) * hd, *v = s->b->v + (row * nkv + h) * hd;
    prepare_head(s, row, k, y->k_bias ? y->k_bias + h * hd : NULL, y->k_norm);
    if (y->v_bias) m->kn->add(v, y->v_bias + h * hd, hd);
    size_t block = s->row[row].position / MT_KV_BLOCK, slot = s->row[row].position % MT_KV_BLOCK;
    m->kn->kv_store(m->opt.kv_type, hd, mt_kv_k(m->kv, s->row[row].seq, block, s->l, (uint32_t)h),
                    mt_kv_v(m->kv, s->row[row].seq, block, s->l, (uint32_t)h), slot, k, v);
  }
}

enum { SEGMENT_BLOCKS = MT_ATTN_SEGMENT / MT_KV_BLOCK };

/* ---- tiles ------------------------------------------------------------------------------- */

/* Queries that read the same keys: rows of one sequence, the heads of one KV head. */
typedef struct attn_tile {
  uint32_t seq, kv_head; /* the head among this rank's */
  size_t n;
  size_t row[MT_ATTEND_QUERIES], head[MT_ATTEND_QUERIES]; /* of this rank's query heads */
  size_t lo[MT_ATTEND_QUERIES], hi[MT_ATTEND_QUERIES];    /* keys that each sees */
  size_t first, last;                                     /* segments that some see */
} attn_tile;

/* Where a thread is among the tiles: runs of rows of one sequence follow one another. */
typedef struct attn_cursor {
  size_t begin, end, tiles; /* rows of the run; number of the run's first tile */
} attn_cursor;

/* This rank's query heads of its KV head h: [*begin, *end). */
static void heads_of(const mt_model *m, size_t h, size_t *begin, size_t *end) {
  size_t group = m->cfg.n_heads / m->cfg.n_kv_heads, first = m->shard.heads.begin;
  size_t a = (m->shard.kv_heads.begin + h) * group, z = a + group;
  *begin = (a > first ? a : first) - first;
  *end = (z < m->shard.heads.end ? z : m->shard.heads.end) - first;
}

static size_t tiles_of_head(const mt_model *m, size_t rows, size_t h) {
  size_t begin, end;
  heads_of(m, h, &begin, &end);
  return (rows * (end - begin) + MT_ATTEND_QUERIES - 1) / MT_ATTEND_QUERIES;
}

static size_t tiles_of_run(const mt_model *m, size_t rows) {
  size_t n = 0;
  for (size_t h = 0; h < m->shard.kv_heads.end - m->shard.kv_heads.begin; h++)
    n += tiles_of_head(m, rows, h);
  return n;
}

static size_t run_end(const mt_step *s, size_t begin) {
  size_t end = begin;
  while (end < s->n && s->row[end].seq == s->row[begin].seq) end++;
  return end;
}

static void fill_tile(const mt_step *s, const attn_cursor *c, size_t h, size_t index,
                      attn_tile *t) {
  const mt_model *m = s->m;
  size_t begin, end, window = m->cfg.layer[s->l].window;
  heads_of(m, h, &begin, &end);
  size_t group = end - begin, at = index * MT_ATTEND_QUERIES, all = (c->end - c->begin) * group;
  *t = (attn_tile){.seq = s->row[c->begin].seq, .kv_head = (uint32_t)h, .first = SIZE_MAX};
  for (; t->n < MT_ATTEND_QUERIES && at < all; at++, t->n++) {
    size_t row = c->begin + at / group, hi = (size_t)s->row[row].position + 1,
           lo = window && hi > window ? hi - window : 0;
    t->row[t->n] = row;
    t->head[t->n] = begin + at % group;
    t->lo[t->n] = lo;
    t->hi[t->n] = hi;
    if (lo / MT_ATTN_SEGMENT < t->first) t->first = lo / MT_ATTN_SEGMENT;
    if ((hi - 1) / MT_ATTN_SEGMENT > t->last) t->last = (hi - 1) / MT_ATTN_SEGMENT;
  }
}

/* The tile of this number; the cursor, zeroed at first, is taken to its run. Numbers may only
 * ascend. False beyond the last. */
static bool get_tile(const mt_step *s, attn_cursor *c, size_t number, attn_tile *t) {
  if (c->end == 0) c->end = run_end(s, 0);
  while (c->begin < s->n) {
    size_t rows = c->end - c->begin, i = number - c->tiles;
    for (size_t h = 0; h < s->m->shard.kv_heads.end - s->m->shard.kv_heads.begin; h++) {
      size_t n = tiles_of_head(s->m, rows, h);
      if (i < n) {
        fill_tile(s, c, h, i, t);
        return true;
      }
      i -= n;
    }
    c->tiles += tiles_of_run(s->m, rows);
    c->begin = c->end;
    c->end = run_end(s, c->begin);
  }
  return false;
}

/* Tiles of the step, counted up to `most`. */
static size_t count_tiles(const mt_step *s, size_t most) {
  size_t n = 0;
  for (size_t begin = 0, end; begin < s->n && n < most; begin = end) {
    end = run_end(s, begin);
    n += tiles_of_run(s->m, end - begin);
  }
  return n < most ? n : most;
}

static float *output_of(const mt_step *s, const attn_tile *t, size_t i) {
  const mt_model *m = s->m;
  size_t nq = m->shard.heads.end - m->shard.heads.begin;
  return s->b->att + (t->row[i] * nq + t->head[i]) * m->cfg.head_dim;
}

/* The first block of keys that segment g of the tile reads: its first query begins first. */
static const void *first_keys(const mt_step *s, const attn_tile *t, size_t g) {
  size_t base = g * MT_ATTN_SEGMENT, first = t->lo[0] > base ? t->lo[0] : base;
  return mt_kv_k(s->m->kv, t->seq, first / MT_KV_BLOCK, s->l, t->kv_head);
}

/* Segment g of the tile: part[i] for the queries i that see keys of it; bit i of the result says
 * which. next: as attend_many takes it. */
static unsigned attend_segment(const mt_step *s, const attn_tile *t, size_t g, const void *next,
                               mt_attn_part *part, float *scratch) {
  const mt_model *m = s->m;
  size_t nq = m->shard.heads.end - m->shard.heads.begin, base = g * MT_ATTN_SEGMENT, n = 0;
  size_t lo[MT_ATTEND_QUERIES], hi[MT_ATTEND_QUERIES], from[MT_ATTEND_QUERIES],
      first = MT_ATTN_SEGMENT, last = 0;
  const float *q[MT_ATTEND_QUERIES];
  mt_attn_part out[MT_ATTEND_QUERIES];
  unsigned seen = 0;
  for (size_t i = 0; i < t->n; i++) {
    size_t a = t->lo[i] > base ? t->lo[i] - base : 0,
           z = t->hi[i] < base + MT_ATTN_SEGMENT ? t->hi[i] : base + MT_ATTN_SEGMENT;
    if (z <= base + a) continue;
    lo[n] = a;
    hi[n] = z - base;
    if (lo[n] < first) first = lo[n];
    if (hi[n] > last) last = hi[n];
    q[n] = s->b->q + (t->row[i] * nq + t->head[i]) * m->cfg.head_dim;
    out[n] = part[i];
    from[n++] = i;
    seen |= 1u << i;
  }
  if (!n) return 0;
  const void *k[SEGMENT_BLOCKS], *v[SEGMENT_BLOCKS];
  for (size_t b = first / MT_KV_BLOCK; b * MT_KV_BLOCK < last; b++) {
    k[b] = mt_kv_k(m->kv, t->seq, base / MT_KV_BLOCK + b, s->l, t->kv_head);
    v[b] = mt_kv_v(m->kv, t->seq, base / MT_KV_BLOCK + b, s->l, t->kv_head);
  }
  m->kn->attend_many(m->opt.kv_type, m->cfg.head_dim, n, q, m->cfg.attention_scale, k, v, lo, hi,
                     next, out, scratch);
  for (size_t i = 0; i < n; i++) part[from[i]] = out[i];
  return seen;
}

/* Adds the parts of a segment to the totals; the first of a query starts its total. */
static void merge_parts(const mt_step *s, const attn_tile *t, unsigned seen,
                        const mt_attn_part *part, mt_attn_part *total, unsigned *started) {
  const mt_model *m = s->m;
  for (size_t i = 0; i < t->n; i++) {
    if (!(seen >> i & 1)) continue;
    if (*started >> i & 1) {
      m->kn->attend_merge(m->cfg.head_dim, &total[i], &part[i]);
      continue;
    }
    total[i].max = part[i].max;
    total[i].sum = part[i].sum;
    memcpy(total[i].acc, part[i].acc, m->cfg.head_dim * sizeof(float));
    *started |= 1u << i;
  }
}

static void set_areas(mt_attn_part *part, size_t n, float *acc, size_t head_dim) {
  for (size_t i = 0; i < n; i++) part[i].acc = acc + i * head_dim;
}

/* ---- one thread, one tile ---------------------------------------------------------------- */

/* next: what is read after the tile, or NULL. */
static void attend_tile(const mt_step *s, const attn_tile *t, const void *next, float *part_acc,
                        float *scratch) {
  const mt_model *m = s->m;
  mt_attn_part total[MT_ATTEND_QUERIES], part[MT_ATTEND_QUERIES];
  unsigned started = 0;
  for (size_t i = 0; i < t->n; i++) total[i].acc = output_of(s, t, i);
  set_areas(part, MT_ATTEND_QUERIES, part_acc, m->cfg.head_dim);
  for (size_t g = t->first; g <= t->last; g++) {
    const void *after = g < t->last ? first_keys(s, t, g + 1) : next;
    unsigned seen = attend_segment(s, t, g, after, part, scratch);
    merge_parts(s, t, seen, part, total, &started);
  }
  for (size_t i = 0; i < t->n; i++)
    m->kn->attend_finish(m->cfg.head_dim, &total[i], output_of(s, t, i));
}

/* ---- few tiles, many threads ------------------------------------------------------------- */

/* A wave is some segments of every tile: the threads share them out, then merge them in ascending
 * order, a tile by one thread. */
typedef struct attn_wave {
  size_t tiles, segments; /* of a wave, for each tile */
  unsigned *seen;         /* [tiles][segments] */
  mt_attn_part *part;     /* [tiles][segments][MT_ATTEND_QUERIES] */
} attn_wave;

/* One segment of a tile, `at` where the wave keeps what comes of it. */
typedef struct wave_item {
  attn_tile t;
  size_t g, at;
} wave_item;

static void attend_item(const mt_step *s, const attn_wave *w, const wave_item *i, const void *next,
                        float *scratch) {
  mt_attn_part *part = w->part + i->at * MT_ATTEND_QUERIES;
  w->seen[i->at] = attend_segment(s, &i->t, i->g, next, part, scratch);
}

/* A thread's segments, each when the one after it is known. */
static void wave_parts(const mt_step *s, const attn_wave *w, size_t number, int thread,
                       int n_threads, float *scratch) {
  attn_cursor c = {0};
  attn_tile t;
  wave_item known;
  bool any = false;
  size_t item = 0;
  for (size_t i = 0; get_tile(s, &c, i, &t); i++)
    for (size_t k = 0; k < w->segments; k++, item++) {
      size_t g = t.first + number * w->segments + k, at = i * w->segments + k;
      if (item % (size_t)n_threads != (size_t)thread) continue;
      w->seen[at] = 0;
      if (g > t.last) continue;
      if (any) attend_item(s, w, &known, first_keys(s, &t, g), scratch);
      known = (wave_item){.t = t, .g = g, .at = at};
      any = true;
    }
  if (any) attend_item(s, w, &known, NULL, scratch);
}

static void wave_merge(const mt_step *s, const attn_wave *w, size_t number, int thread,
                       int n_threads) {
  attn_cursor c = {0};
  attn_tile t;
  mt_attn_part *total = s->b->total;
  for (size_t i = (size_t)thread; get_tile(s, &c, i, &t); i += (size_t)n_threads) {
    mt_attn_part *mine = total + i * MT_ATTEND_QUERIES;
    unsigned *started = &s->b->started[i];
    if (!number) *started = 0;
    for (size_t q = 0; q < t.n; q++) mine[q].acc = output_of(s, &t, q);
    for (size_t k = 0; k < w->segments; k++) {
      size_t at = i * w->segments + k;
      merge_parts(s, &t, w->seen[at], w->part + at * MT_ATTEND_QUERIES, mine, started);
    }
    size_t after = t.first + (number + 1) * w->segments;
    if (after <= t.last || after - w->segments > t.last) continue;
    for (size_t q = 0; q < t.n; q++)
      s->m->kn->attend_finish(s->m->cfg.head_dim, &mine[q], mine[q].acc);
  }
}

static size_t most_segments(const mt_step *s) {
  attn_cursor c = {0};
  attn_tile t;
  size_t most = 0;
  for (size_t i = 0; get_tile(s, &c, i, &t); i++)
    if (t.last - t.first + 1 > most) most = t.last - t.first + 1;
  return most;
}

/* All threads. */
static void attend_waves(const mt_step *s, size_t tiles, size_t segments, int thread, int n_threads,
                         float *scratch) {
  attn_wave w = {.tiles = tiles,
                 .segments = MT_ATTN_WAVE * (size_t)n_threads / tiles,
                 .seen = s->b->seen,
                 .part = s->b->part};
  for (size_t number = 0; number * w.segments < segments; number++) {
    wave_parts(s, &w, number, thread, n_threads, scratch);
    mt_team_barrier(s->m->team, thread);
    wave_merge(s, &w, number, thread, n_threads);
    mt_team_barrier(s->m->team, thread);
  }
}

/* ---- the stage --------------------------------------------------------------------------- */

void mt_forward_attend(void *arg, int thread, int n_threads) {
  const mt_step *s = arg;
  size_t hd = s->m->cfg.head_dim, few = MT_ATTN_FEW_TILES * (size_t)n_threads;
  float *scratch = s->b->scratch + (size_t)thread * mt_attend_scratch_floats(hd);
  size_t tiles = n_threads > 1 ? count_tiles(s, few) : few, segments;
  if (tiles && tiles < few && (segments = most_segments(s)) > 1) {
    attend_waves(s, tiles, segments, thread, n_threads, scratch);
    return;
  }
  attn_cursor c = {0};
  attn_tile t, next;
  float *acc = s->b->part_acc + (size_t)thread * MT_ATTEND_QUERIES * hd;
  size_t i = (size_t)thread;
  for (bool more = get_tile(s, &c, i, &t); more;) {
    more = get_tile(s, &c, i += (size_t)n_threads, &next);
    attend_tile(s, &t, more ? first_keys(s, &next, next.first) : NULL, acc, scratch);
    if (more) t = next;
  }
}

/* ---- the probe --------------------------------------------------------------------------- */

/* What the probe saw of a segment is relative to the segment's maximum: bring all to the total. */
static void finish_probe(const mt_kernels *kn, float *weight, const float *segment_max,
                         size_t first, size_t last, size_t lo, size_t hi,
                         const mt_attn_part *total) {
  for (size_t g = first; g <= last; g++) {
    size_t a = g * MT_ATTN_SEGMENT, b = a + MT_ATTN_SEGMENT;
    float d = segment_max[g - first] - total->max, f;
    kn->exp(&d, 1, &f);
    for (size_t j = a < lo ? lo : a; j < b && j < hi; j++) weight[j] = weight[j] * f / total->sum;
  }
}

/* One query head of the row that the probe watches, once more, for the sake of its weights. */
static void probe_one(const mt_step *s, size_t row, size_t head, float *part_mem, float *probe) {
  const mt_model *m = s->m;
  const mt_kernels *kn = m->kn;
  uint32_t hd = m->cfg.head_dim, window = m->cfg.layer[s->l].window;
  size_t nq = m->shard.heads.end - m->shard.heads.begin, group = m->cfg.n_heads / m->cfg.n_kv_heads;
  uint32_t kv_head = (uint32_t)((m->shard.heads.begin + head) / group - m->shard.kv_heads.begin);
  size_t hi = (size_t)s->row[row].position + 1, lo = window && hi > window ? hi - window : 0;
  size_t first = lo / MT_ATTN_SEGMENT, last = (hi - 1) / MT_ATTN_SEGMENT;
  const float *q = s->b->q + (row * nq + head) * hd;
  mt_attn_part total = {.acc = part_mem}, part = {.acc = part_mem + hd};
  float *segment_max = s->b->probe_max + head * (m->opt.kv_tokens / MT_ATTN_SEGMENT + 1);
  for (size_t g = first; g <= last; g++) {
    const void *k[SEGMENT_BLOCKS], *v[SEGMENT_BLOCKS];
    size_t base = g * MT_ATTN_SEGMENT,
           stop = hi - base < MT_ATTN_SEGMENT ? hi - base : MT_ATTN_SEGMENT;
    size_t start = lo > base ? lo - base : 0;
    for (size_t i = start / MT_KV_BLOCK; i * MT_KV_BLOCK < stop; i++) {
      k[i] = mt_kv_k(m->kv, s->row[row].seq, base / MT_KV_BLOCK + i, s->l, kv_head);
      v[i] = mt_kv_v(m->kv, s->row[row].seq, base / MT_KV_BLOCK + i, s->l, kv_head);
    }
    mt_attn_part *into = g == first ? &total : &part;
    kn->attend(m->opt.kv_type, hd, q, m->cfg.attention_scale, k, v, start, stop, into,
               probe + base);
    segment_max[g - first] = into->max;
    if (g != first) kn->attend_merge(hd, &total, &part);
  }
  kn->attend_finish(hd, &total, s->b->att + (row * nq + head) * hd);
  for (size_t j = 0; j < lo; j++) probe[j] = 0; /* a row before this one saw them */
  finish_probe(kn, probe, segment_max, first, last, lo, hi, &total);
}

void mt_forward_probe(void *arg, int thread, int n_threads) {
  const mt_step *s = arg;
  const mt_model *m = s->m;
  size_t nq = m->shard.heads.end - m->shard.heads.begin, begin, end;
  float *acc = s->b->part_acc + (size_t)thread * MT_ATTEND_QUERIES * m->cfg.head_dim;
  mt_team_share(nq, thread, n_threads, &begin, &end);
  for (size_t head = begin; head < end; head++)
    probe_one(s, s->n - 1, head, acc, s->b->probe + (s->l * nq + head) * m->opt.kv_tokens);
}
