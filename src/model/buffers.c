/* Memory of a step, taken once, so that nothing in the forward pass can fail for want of memory on
 * one rank alone. */
#include <stdlib.h>

#include "forward.h"

/* One area of floats (or as many bytes) in the block. */
typedef struct area {
  void **at;
  size_t count, size;
} area;

enum { MAX_AREAS = 32 };

static size_t list_areas(mt_buffers *b, const mt_model_config *c, const mt_shard *s,
                         const mt_model_options *o, uint32_t n_ranks, bool root, int n_threads,
                         area *a) {
  size_t rows = o->max_rows, q = (size_t)(s->heads.end - s->heads.begin) * c->head_dim;
  size_t kv = (size_t)(s->kv_heads.end - s->kv_heads.begin) * c->head_dim,
         ffn = s->ffn.end - s->ffn.begin;
  size_t vocab_local = s->vocab.end - s->vocab.begin, half = c->rotary_dim / 2, f = sizeof(float);
  size_t few = MT_ATTN_FEW_TILES * (size_t)n_threads,
         parts = MT_ATTN_WAVE * (size_t)n_threads * MT_ATTEND_QUERIES;
  const area list[] = {
      {(void **)&b->x, rows * c->hidden, f},
      {(void **)&b->h, (rows > MT_LOGIT_ROWS ? rows : MT_LOGIT_ROWS) * (size_t)c->hidden, f},
      {(void **)&b->sum, rows * c->hidden, f},
      {(void **)&b->q, rows * q, f},
      {(void **)&b->k, rows * kv, f},
      {(void **)&b->v, rows * kv, f},
      {(void **)&b->att, rows * q, f},
      {(void **)&b->gate, rows * ffn, f},
      {(void **)&b->up, rows * ffn, f},
      {(void **)&b->cos, MT_MODEL_ROPES * rows * half, f},
      {(void **)&b->sin, MT_MODEL_ROPES * rows * half, f},
      {(void **)&b->inv_freq, MT_MODEL_ROPES * half, f},
      {(void **)&b->embed, rows * c->hidden, f},
      {(void **)&b->logits_local, MT_LOGIT_ROWS * vocab_local, f},
      {(void **)&b->logits_all, root ? MT_LOGIT_ROWS * (size_t)c->vocab : 0, f},
      {(void **)&b->logits_row, root ? c->vocab : 0, f},
      {(void **)&b->scratch, (size_t)n_threads * mt_attend_scratch_floats(c->head_dim), f},
      {(void **)&b->part_acc, parts * c->head_dim, f},
      {(void **)&b->part, parts, sizeof(mt_attn_part)},
      {(void **)&b->total, few * MT_ATTEND_QUERIES, sizeof(mt_attn_part)},
      {(void **)&b->seen, parts, sizeof(unsigned)},
      {(void **)&b->started, few, sizeof(unsigned)},
      {(void **)&b->exp, rows, sizeof(int)},
      {(void **)&b->count, n_ranks, sizeof(size_t)},
      {(void **)&b->offset, n_ranks, sizeof(size_t)},
  };
  size_t n = sizeof list / sizeof list[0];
  for (size_t i = 0; i < n; i++) a[i] = list[i];
  return n;
}

/* Activations as 16-bit integers and planes of bytes, two or (8 bits) one, with a scale and a sum
 * for 16 elements at worst. */
static size_t act_bytes(size_t rows, size_t cols, bool int8) {
  return rows * (cols * (int8 ? 3 : 4) + cols / 16 * 8);
}

size_t mt_buffers_bytes(const mt_model_config *cfg, const mt_shard *s, const mt_model_options *opt,
                        uint32_t n_ranks, bool is_root) {
  mt_buffers b;
  area a[MAX_AREAS];
  size_t n = list_areas(&b, cfg, s, opt, n_ranks, is_root, 16, a), bytes = 0;
  for (size_t i = 0; i < n; i++) bytes += mt_round64(a[i].count * a[i].size);
  size_t sums = 0;
  if (!mt_reduce_bytes(opt->max_rows, cfg->hidden, opt->groups > 1 ? opt->groups : 1, opt->leads,
                       &sums))
    return SIZE_MAX / 2; /* more than there is; mt_reduce_new says why */
  size_t q = (size_t)(s->heads.end - s->heads.begin) * cfg->head_dim,
         ffn = s->ffn.end - s->ffn.begin;
  return bytes + sums + act_bytes(opt->max_rows, cfg->hidden + q + ffn, opt->int8_activations);
}

/* The largest need of each activation buffer over all layers. */
static int reserve_acts(mt_model *m, mt_err *e) {
  mt_buffers *b = m->buf;
  size_t rows = m->opt.max_rows > MT_LOGIT_ROWS ? m->opt.max_rows : MT_LOGIT_ROWS;
  const mt_matrix *head = m->cfg.tied ? &m->embed : &m->head;
  for (int a = 0; a < MT_INPUT_LAYOUTS; a++) b->in[a].int8 = m->opt.int8_activations;
  b->att_act.int8 = b->ffn_act.int8 = m->opt.int8_activations;
  int rc = mt_act_reserve(&b->in[0], head, b->h, m->cfg.hidden, rows, e);
  for (uint32_t l = 0; !rc && l < m->cfg.n_layers; l++) {
    mt_layer *y = &m->layer[l];
    const mt_matrix *in[] = {&y->q, &y->k, &y->v, &y->gate, &y->up};
    for (size_t i = 0; !rc && i < sizeof in / sizeof in[0]; i++) {
      rc = mt_act_reserve(&b->in[0], in[i], b->h, m->cfg.hidden, rows, e);
      bool other = !mt_matrix_same_blocks(in[i], in[i < 3 ? 0 : 3]);
      for (int a = 1; !rc && other && a < MT_INPUT_LAYOUTS; a++)
        rc = mt_act_reserve(&b->in[a], in[i], b->h, m->cfg.hidden, rows, e);
    }
    if (!rc) rc = mt_act_reserve(&b->att_act, &y->o, b->att, y->o.cols, rows, e);
    if (!rc) rc = mt_act_reserve(&b->ffn_act, &y->down, b->gate, y->down.cols, rows, e);
  }
  return rc;
}

int mt_buffers_new(mt_model *m, mt_err *e) {
  mt_buffers *b = m->buf = mt_calloc(1, sizeof *b);
  if (!b) return mt_err_set(e, MT_ENOMEM, "no memory for the buffers of a step");
  area a[MAX_AREAS];
  size_t n = list_areas(b, &m->cfg, &m->shard, &m->opt, (uint32_t)mt_comm_size(m->comm),
                        mt_comm_rank(m->comm) == 0, mt_team_size(m->team), a);
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) bytes += mt_round64(a[i].count * a[i].size);
  b->mem = mt_pages_alloc(bytes);
  b->mem_bytes = bytes;
  if (!b->mem) return mt_err_set(e, MT_ENOMEM, "no memory for %zu bytes of buffers", bytes);
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    *a[i].at = (char *)b->mem + at;
    at += mt_round64(a[i].count * a[i].size);
  }
  size_t parts = MT_ATTN_WAVE * (size_t)mt_team_size(m->team) * MT_ATTEND_QUERIES;
  for (size_t i = 0; i < parts; i++) b->part[i].acc = b->part_acc + i * m->cfg.head_dim;
  return reserve_acts(m, e);
}

static void free_probe(mt_buffers *b) {
  free(b->probe);
  free(b->probe_max);
  b->probe = b->probe_max = NULL;
}

void mt_buffers_free(mt_model *m) {
  mt_buffers *b = m->buf;
  if (!b) return;
  for (int a = 0; a < MT_INPUT_LAYOUTS; a++) mt_act_free(&b->in[a]);
  mt_act_free(&b->att_act);
  mt_act_free(&b->ffn_act);
  free_probe(b);
  mt_pages_free(b->mem, b->mem_bytes);
  free(b);
  m->buf = NULL;
}

int mt_model_probe_attention(mt_model *m, bool on, mt_err *e) {
  mt_buffers *b = m->buf;
  free_probe(b);
  int rc = MT_OK;
  if (on) {
    size_t heads = m->shard.heads.end - m->shard.heads.begin, tokens = m->opt.kv_tokens, n;
    bool fits = mt_size_mul(m->cfg.n_layers * heads, tokens, &n);
    b->probe = fits ? mt_calloc(n, sizeof(float)) : NULL;
    b->probe_max = mt_calloc(heads * (tokens / MT_ATTN_SEGMENT + 1), sizeof(float));
    if (!b->probe || !b->probe_max)
      rc = mt_err_set(e, MT_ENOMEM, "no memory to keep the attention of %zu tokens", tokens);
  }
  rc = mt_comm_agree(m->comm, rc, e);
  if (rc) free_probe(b); /* on all ranks or on none */
  return rc;
}

int mt_model_attention(mt_model *m, size_t n_keys, float *weight, mt_err *e) {
  mt_buffers *b = m->buf;
  size_t heads = m->shard.heads.end - m->shard.heads.begin, rows = m->cfg.n_layers * heads,
         total = 0;
  bool root = mt_comm_rank(m->comm) == 0;
  size_t most = root ? (size_t)m->cfg.n_layers * m->cfg.n_heads : 1;
  bool kept = b->probe && n_keys <= m->opt.kv_tokens; /* so their product fits */
  float *send = kept ? mt_malloc(rows * n_keys, sizeof *send) : NULL;
  float *all = kept ? mt_malloc(most * n_keys, sizeof *all) : NULL;
  int rc = send && all ? MT_OK : mt_err_set(e, MT_ENOMEM, "no attention kept for %zu keys", n_keys);
  if ((rc = mt_comm_agree(m->comm, rc, e))) goto out;
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k < n_keys; k++) send[i * n_keys + k] = b->probe[i * m->opt.kv_tokens + k];
  for (int r = 0; r < mt_comm_size(m->comm); r++) {
    mt_range h = mt_shard_deal(m->cfg.n_heads, (uint32_t)mt_comm_size(m->comm), (uint32_t)r);
    b->offset[r] = total;
    b->count[r] = (size_t)(h.end - h.begin) * m->cfg.n_layers * n_keys * sizeof *send;
    total += b->count[r];
  }
  rc = mt_comm_gatherv(m->comm, send, all, b->count, b->offset, 0, e);
  for (int r = 0; !rc && root && r < mt_comm_size(m->comm); r++) {
    mt_range h = mt_shard_deal(m->cfg.n_heads, (uint32_t)mt_comm_size(m->comm), (uint32_t)r);
    const float *from = all + b->offset[r] / sizeof *all;
    for (uint32_t l = 0; l < m->cfg.n_layers; l++)
      for (uint32_t i = h.begin; i < h.end; i++)
        for (size_t k = 0; k < n_keys; k++)
          weight[((size_t)l * m->cfg.n_heads + i) * n_keys + k] = *from++;
  }
out:
  free(send);
  free(all);
  return rc;
}
