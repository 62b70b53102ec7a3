/* The layout of one rank's slice: the matrices of each layer, where their rows come from, and what
 * all of it takes. */
#include <stdlib.h>

#include "model_impl.h"

mt_matrix *mt_layer_matrix(mt_layer *l, int i) {
  mt_matrix *const m[MT_LAYER_MATRICES] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
  return m[i];
}

mt_source mt_plan_source(const mt_model_config *cfg, int matrix) {
  uint64_t q = (uint64_t)cfg->n_heads * cfg->head_dim,
           kv = (uint64_t)cfg->n_kv_heads * cfg->head_dim;
  uint32_t permute = cfg->permuted_qk ? cfg->head_dim : 0;
  const mt_source split[] = {{SLOT_Q, 0, permute}, {SLOT_K, 0, permute}, {SLOT_V, 0, 0}};
  const mt_source fused[] = {{SLOT_QKV, 0, permute}, {SLOT_QKV, q, permute}, {SLOT_QKV, q + kv, 0}};
  if (matrix < 3) return cfg->fused_qkv ? fused[matrix] : split[matrix];
  if (matrix == 3) return (mt_source){SLOT_O, 0, 0};
  if (matrix == 4)
    return cfg->fused_gate_up ? (mt_source){SLOT_GATE_UP, 0, 0} : (mt_source){SLOT_GATE, 0, 0};
  if (matrix == 5)
    return cfg->fused_gate_up ? (mt_source){SLOT_GATE_UP, cfg->ffn, 0} : (mt_source){SLOT_UP, 0, 0};
  return (mt_source){SLOT_DOWN, 0, 0};
}

/* Units of a row-parallel slice: equal runs of `unit`, the last one cut at `cols`. The caller
 * frees. */
static uint32_t *unit_borders(uint32_t cols, uint32_t unit, size_t *n) {
  *n = (cols + unit - 1) / unit;
  uint32_t *u = mt_malloc(*n + 1, sizeof *u);
  if (!u) return NULL;
  for (size_t i = 0; i < *n; i++) u[i] = (uint32_t)i * unit;
  u[*n] = cols;
  return u;
}

static int plan_row_parallel(mt_matrix *m, const mt_kernels *kn, mt_dtype type, uint32_t rows,
                             mt_range k, uint32_t unit, mt_err *e) {
  size_t n;
#ifdef MT_PLAIN_SUMS /* units are for exact sums only */
  unit = k.end > k.begin ? k.end - k.begin : unit;
#endif
  uint32_t *u = unit_borders(k.end - k.begin, unit, &n);
  if (!u) return mt_err_set(e, MT_ENOMEM, "no memory for the units of a weight");
  int rc = mt_matrix_init(m, kn, type, rows, k.end - k.begin, k.begin, u, n, e);
  free(u);
  return rc;
}

int mt_plan_layer(const mt_model_config *cfg, const mt_weights *w, const mt_shard *s,
                  const mt_kernels *kn, uint32_t layer, mt_layer *out, mt_err *e) {
  uint32_t hd = cfg->head_dim, heads = s->heads.end - s->heads.begin,
           kv = s->kv_heads.end - s->kv_heads.begin;
  uint32_t ffn = s->ffn.end - s->ffn.begin;
  const uint32_t rows[MT_LAYER_MATRICES] = {heads * hd, kv * hd, kv * hd,    cfg->hidden,
                                            ffn,        ffn,     cfg->hidden};
  int rc = MT_OK;
  for (int i = 0; !rc && i < MT_LAYER_MATRICES; i++) {
    mt_matrix *m = mt_layer_matrix(out, i);
    mt_dtype type = mt_slot_find(cfg, w, mt_plan_source(cfg, i).slot, layer)->type;
    if (i == 3)
      rc = plan_row_parallel(m, kn, type, rows[i],
                             (mt_range){s->heads.begin * hd, s->heads.end * hd}, hd, e);
    else if (i == 6)
      rc = plan_row_parallel(m, kn, type, rows[i], s->ffn, mt_shard_ffn_unit(cfg->ffn), e);
    else
      rc = mt_matrix_init(m, kn, type, rows[i], cfg->hidden, 0, NULL, 1, e);
  }
  return rc;
}

void mt_plan_layer_fini(mt_layer *l) {
  for (int i = 0; i < MT_LAYER_MATRICES; i++) mt_matrix_fini(mt_layer_matrix(l, i));
}

int mt_plan_vocab(const mt_model_config *cfg, const mt_weights *w, const mt_shard *s,
                  const mt_kernels *kn, mt_matrix *embed, mt_matrix *head, mt_err *e) {
  uint32_t rows = s->vocab.end - s->vocab.begin;
  int rc = mt_matrix_init(embed, kn, mt_slot_find(cfg, w, SLOT_EMBED, 0)->type, rows, cfg->hidden,
                          0, NULL, 1, e);
  if (rc || cfg->tied) return rc;
  return mt_matrix_init(head, kn, mt_slot_find(cfg, w, SLOT_HEAD, 0)->type, rows, cfg->hidden, 0,
                        NULL, 1, e);
}

size_t mt_plan_small_floats(const mt_model_config *cfg, const mt_weights *w, const mt_shard *s) {
  size_t heads = (s->heads.end - s->heads.begin) * cfg->head_dim, ffn = s->ffn.end - s->ffn.begin;
  size_t kv = (s->kv_heads.end - s->kv_heads.begin) * cfg->head_dim, n = cfg->hidden;
  const struct {
    mt_slot slot;
    size_t floats;
  } vec[] = {{SLOT_ATTN_NORM, cfg->hidden},
             {SLOT_FFN_NORM, cfg->hidden},
             {SLOT_POST_ATTN_NORM, cfg->hidden},
             {SLOT_POST_FFN_NORM, cfg->hidden},
             {SLOT_Q_NORM, cfg->head_dim},
             {SLOT_K_NORM, cfg->head_dim},
             {SLOT_Q_BIAS, heads},
             {SLOT_K_BIAS, kv},
             {SLOT_V_BIAS, kv},
             {SLOT_O_BIAS, cfg->hidden},
             {SLOT_DOWN_BIAS, cfg->hidden},
             {SLOT_GATE_BIAS, ffn},
             {SLOT_UP_BIAS, ffn}};
  for (uint32_t l = 0; l < cfg->n_layers; l++)
    for (size_t i = 0; i < sizeof vec / sizeof vec[0]; i++)
      if (mt_slot_find(cfg, w, vec[i].slot, l)) n += (vec[i].floats + 15) / 16 * 16;
  return (n + 15) / 16 * 16;
}

static int add_matrices(const mt_model_config *cfg, const mt_weights *w, const mt_shard *s,
                        const mt_kernels *kn, uint64_t *bytes, mt_err *e) {
  mt_matrix embed = {0}, head = {0};
  int rc = mt_plan_vocab(cfg, w, s, kn, &embed, &head, e);
  *bytes += embed.data_bytes + head.data_bytes;
  mt_matrix_fini(&embed);
  mt_matrix_fini(&head);
  for (uint32_t l = 0; !rc && l < cfg->n_layers; l++) {
    mt_layer layer = {0};
    rc = mt_plan_layer(cfg, w, s, kn, l, &layer, e);
    for (int i = 0; i < MT_LAYER_MATRICES; i++) *bytes += mt_layer_matrix(&layer, i)->data_bytes;
    mt_plan_layer_fini(&layer);
  }
  return rc;
}

/* What loading holds for a while: the stages of the threads and the rounds of the exchange
 * (load.c), as far as the largest tensor fills them. How many threads there will be is not known
 * here. */
static uint64_t load_bytes(const mt_model_config *cfg, const mt_weights *w, uint32_t n_ranks) {
  enum { THREADS = 16 };
  uint64_t largest = 0, stage = MT_LOAD_STAGE_BYTES, round = MT_LOAD_ROUND_BYTES;
  size_t rows = cfg->permuted_qk && cfg->head_dim > MT_PANEL_ROWS ? cfg->head_dim : MT_PANEL_ROWS;
  for (size_t i = 0; i < mt_weights_count(w); i++) {
    const mt_tensor_info *t = mt_weights_at(w, i);
    if (t->shape.n < 2) continue;
    uint64_t row_bytes = mt_dtype_row_bytes(t->type, t->shape.dim[1]);
    if (t->bytes / n_ranks > largest) largest = t->bytes / n_ranks;
    if (THREADS * rows * row_bytes > stage) stage = THREADS * rows * row_bytes;
    if (MT_PANEL_ROWS * row_bytes > round) round = MT_PANEL_ROWS * row_bytes;
  }
  if (stage > largest) stage = largest;
  if (n_ranks == 1) return stage;
  return stage + 2 * (round < largest ? round : largest);
}

int mt_model_predict(const mt_model_config *cfg, const mt_weights *w, uint32_t n_ranks,
                     uint32_t rank, const mt_model_options *opt, mt_model_memory *out, mt_err *e) {
  *out = (mt_model_memory){0};
  mt_shard s;
  mt_shard_dims d = mt_model_shard_dims(cfg);
  int rc = mt_shard_plan(&d, n_ranks, rank, &s, e);
  if (!rc) rc = add_matrices(cfg, w, &s, opt->kernels, &out->weights, e);
  if (rc) return rc;
  out->replicated = mt_plan_small_floats(cfg, w, &s) * sizeof(float);
  mt_kv_dims kv = {cfg->n_layers, s.kv_heads.end - s.kv_heads.begin, cfg->head_dim, opt->kv_type};
  uint64_t block = mt_kv_block_bytes(&kv);
  out->kv_per_token = block / MT_KV_BLOCK;
  out->kv = (opt->kv_tokens + MT_KV_BLOCK - 1) / MT_KV_BLOCK * block;
  out->buffers = mt_buffers_bytes(cfg, &s, opt, n_ranks, rank == 0);
  uint64_t load = load_bytes(cfg, w, n_ranks); /* before there are buffers */
  if (load > out->buffers) out->buffers = load;
  out->total = out->weights + out->replicated + out->kv + out->buffers;
  return MT_OK;
}

double mt_model_bytes_read(uint64_t weight_bytes, uint64_t passes, uint32_t n_ranks) {
  return (double)weight_bytes * (double)passes / n_ranks;
}
