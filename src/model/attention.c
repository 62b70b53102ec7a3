/* The heads' part of a layer: bias, norm and rotation of q and k, the cache, attention by segments
 * (DESIGN section 1). */
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

/* One query head of one row: segments in ascending order, merged as they come. */
static void attend_one(const mt_step *s, size_t row, size_t head, float *part_mem, float *probe) {
  const mt_model *m = s->m;
  const mt_kernels *kn = m->kn;
  uint32_t hd = m->cfg.head_dim, window = m->cfg.layer[s->l].window;
  size_t nq = m->shard.heads.end - m->shard.heads.begin, group = m->cfg.n_heads / m->cfg.n_kv_heads;
  uint32_t kv_head = (uint32_t)((m->shard.heads.begin + head) / group - m->shard.kv_heads.begin);
  size_t hi = (size_t)s->row[row].position + 1, lo = window && hi > window ? hi - window : 0;
  size_t first = lo / MT_ATTN_SEGMENT, last = (hi - 1) / MT_ATTN_SEGMENT;
  const float *q = s->b->q + (row * nq + head) * hd;
  mt_attn_part total = {.acc = part_mem}, part = {.acc = part_mem + hd};
  float *segment_max =
      !probe ? NULL : s->b->probe_max + head * (m->opt.kv_tokens / MT_ATTN_SEGMENT + 1);
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
               probe ? probe + base : NULL);
    if (probe) segment_max[g - first] = into->max;
    if (g != first) kn->attend_merge(hd, &total, &part);
  }
  kn->attend_finish(hd, &total, s->b->att + (row * nq + head) * hd);
  for (size_t j = 0; probe && j < lo; j++) probe[j] = 0; /* a row before this one saw them */
  if (probe) finish_probe(kn, probe, segment_max, first, last, lo, hi, &total);
}

void mt_forward_attend(void *arg, int thread, int n_threads) {
  const mt_step *s = arg;
  const mt_model *m = s->m;
  size_t nq = m->shard.heads.end - m->shard.heads.begin, begin, end;
  float *part = s->b->part + (size_t)thread * 2 * m->cfg.head_dim;
  mt_team_share(s->n * nq, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    size_t row = i / nq, head = i % nq;
    float *probe = NULL;
    if (s->b->probe && row == s->n - 1) probe = s->b->probe + (s->l * nq + head) * m->opt.kv_tokens;
    attend_one(s, row, head, part, probe);
  }
}
