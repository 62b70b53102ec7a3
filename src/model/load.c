/* Sharded loading. Column-parallel rows are contiguous in the file: each rank reads its own
 * (load_columns.c). Of row-parallel tensors a rank needs a piece of each row: ranks read whole rows
 * and exchange them (load_rows.c). Rank 0 reads the vectors, which are small, for all. Altogether
 * the file is read about once. */
#include "load.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the threads report ------------------------------------------------------------- */

void mt_loader_fail(mt_loader *l, int code, const mt_err *e) {
  int none = 0;
  if (atomic_compare_exchange_strong(&l->failed, &none, code)) l->err = *e;
}

void mt_loader_advance(mt_loader *l, int thread, uint64_t bytes) {
  uint64_t done = atomic_fetch_add_explicit(&l->done_bytes, bytes, memory_order_relaxed) + bytes;
  const mt_model_options *o = &l->m->opt;
  if (thread == 0 && o->progress)
    o->progress(o->progress_arg, done < l->total_bytes ? done : l->total_bytes, l->total_bytes);
}

int mt_loader_outcome(mt_loader *l, mt_err *e) {
  int rc = atomic_load(&l->failed);
  if (rc && e) *e = l->err;
  return rc;
}

/* ---- vectors ----------------------------------------------------------------------------- */

typedef struct small {
  float *next;  /* where the next vector goes */
  float *whole; /* one whole vector */
  void *raw;
} small;

/* Reads the slot's vector on rank 0, broadcasts it as f32 and keeps [begin, end) of it; *out stays
 * NULL where the model has none. Collective. */
static int load_vector(mt_model *m, small *s, mt_slot slot, uint32_t layer, uint32_t begin,
                       uint32_t end, uint32_t permute, float **out, mt_err *e) {
  const mt_tensor_info *t = mt_slot_find(&m->cfg, m->weights, slot, layer);
  if (!t) return MT_OK;
  size_t n = t->shape.dim[0];
  int rc = MT_OK;
  if (mt_comm_rank(m->comm) == 0) {
    rc = mt_weights_read(m->weights, t, 0, t->bytes, s->raw, e);
    if (!rc) mt_dequantize(t->type, s->raw, n, s->whole);
  }
  rc = mt_comm_agree(m->comm, rc, e);
  if (!rc) rc = mt_comm_bcast(m->comm, s->whole, n * sizeof(float), 0, e);
  if (rc) return rc;
  bool is_norm = slot == SLOT_FINAL_NORM || slot == SLOT_ATTN_NORM || slot == SLOT_FFN_NORM ||
                 slot == SLOT_Q_NORM || slot == SLOT_K_NORM || slot == SLOT_POST_ATTN_NORM ||
                 slot == SLOT_POST_FFN_NORM;
  for (uint32_t i = begin; i < end; i++) {
    float v = s->whole[mt_load_source_row(i, permute)];
    s->next[i - begin] = is_norm && m->cfg.norm_plus_one ? 1.0f + v : v;
  }
  *out = s->next;
  s->next += (end - begin + 15) / 16 * 16;
  return MT_OK;
}

static int load_layer_vectors(mt_model *m, small *s, uint32_t l, mt_err *e) {
  mt_layer *y = &m->layer[l];
  const mt_model_config *c = &m->cfg;
  uint32_t hd = c->head_dim, permute = c->permuted_qk ? hd : 0;
  mt_range q = {m->shard.heads.begin * hd, m->shard.heads.end * hd};
  mt_range kv = {m->shard.kv_heads.begin * hd, m->shard.kv_heads.end * hd}, f = m->shard.ffn;
  const struct {
    mt_slot slot;
    uint32_t begin, end, permute;
    float **out;
  } vec[] = {{SLOT_ATTN_NORM, 0, c->hidden, 0, &y->attn_norm},
             {SLOT_FFN_NORM, 0, c->hidden, 0, &y->ffn_norm},
             {SLOT_POST_ATTN_NORM, 0, c->hidden, 0, &y->post_attn_norm},
             {SLOT_POST_FFN_NORM, 0, c->hidden, 0, &y->post_ffn_norm},
             {SLOT_Q_NORM, 0, hd, permute, &y->q_norm},
             {SLOT_K_NORM, 0, hd, permute, &y->k_norm},
             {SLOT_Q_BIAS, q.begin, q.end, permute, &y->q_bias},
             {SLOT_K_BIAS, kv.begin, kv.end, permute, &y->k_bias},
             {SLOT_V_BIAS, kv.begin, kv.end, 0, &y->v_bias},
             {SLOT_O_BIAS, 0, c->hidden, 0, &y->o_bias},
             {SLOT_GATE_BIAS, f.begin, f.end, 0, &y->gate_bias},
             {SLOT_UP_BIAS, f.begin, f.end, 0, &y->up_bias},
             {SLOT_DOWN_BIAS, 0, c->hidden, 0, &y->down_bias}};
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < sizeof vec / sizeof vec[0]; i++)
    rc = load_vector(m, s, vec[i].slot, l, vec[i].begin, vec[i].end, vec[i].permute, vec[i].out, e);
  return rc;
}

/* Longest vector of the model, in elements. */
static size_t longest_vector(const mt_model_config *c) {
  size_t n = c->hidden, q = (size_t)c->n_heads * c->head_dim;
  if (q > n) n = q;
  return c->ffn > n ? c->ffn : n;
}

static int load_vectors(mt_model *m, mt_err *e) {
  size_t longest = longest_vector(&m->cfg),
         floats = mt_plan_small_floats(&m->cfg, m->weights, &m->shard);
  small s = {.whole = mt_malloc(longest, sizeof(float)), .raw = mt_malloc(longest, sizeof(float))};
  m->vectors = mt_calloc(floats, sizeof(float));
  s.next = m->vectors;
  int rc = s.whole && s.raw && m->vectors
               ? MT_OK
               : mt_err_set(e, MT_ENOMEM, "no memory for %zu floats", floats);
  rc = mt_comm_agree(m->comm, rc, e);
  if (!rc) rc = load_vector(m, &s, SLOT_FINAL_NORM, 0, 0, m->cfg.hidden, 0, &m->final_norm, e);
  for (uint32_t l = 0; !rc && l < m->cfg.n_layers; l++) rc = load_layer_vectors(m, &s, l, e);
  free(s.whole);
  free(s.raw);
  return rc;
}

/* ---- matrices ---------------------------------------------------------------------------- */

/* Matrices of a layer, as mt_layer_matrix numbers them, that are multiplied together. */
static const struct {
  int first, n;
  bool row_parallel, heads;
} GROUPS[] = {{0, 3, false, false}, {3, 1, true, true}, {4, 2, false, false}, {6, 1, true, false}};
enum { N_GROUPS = sizeof GROUPS / sizeof GROUPS[0] };

/* Group g of layer l; of a row-parallel one all columns, as one rank has them. */
static mt_load_group layer_group(mt_model *m, uint32_t l, int g) {
  uint32_t hd = m->cfg.head_dim, q = m->shard.heads.begin * hd, kv = m->shard.kv_heads.begin * hd,
           f = m->shard.ffn.begin;
  const uint32_t row[MT_LAYER_MATRICES] = {q, kv, kv, 0, f, f, 0};
  mt_load_group out = {.n = GROUPS[g].n,
                       .layer = (int)l,
                       .exchanged = GROUPS[g].row_parallel && mt_comm_size(m->comm) > 1,
                       .heads = GROUPS[g].heads};
  for (int i = 0; i < out.n; i++) {
    int k = GROUPS[g].first + i;
    mt_source s = mt_plan_source(&m->cfg, k);
    const mt_tensor_info *t = mt_slot_find(&m->cfg, m->weights, s.slot, l);
    out.part[i] =
        (mt_load_part){mt_layer_matrix(&m->layer[l], k), t, s.row_begin + row[k], s.permute};
  }
  return out;
}

/* Embedding (0) or head (1). */
static mt_load_group vocab_group(mt_model *m, int which) {
  mt_slot slot = which ? SLOT_HEAD : SLOT_EMBED;
  return (mt_load_group){
      .part = {{which ? &m->head : &m->embed, mt_slot_find(&m->cfg, m->weights, slot, 0),
                m->shard.vocab.begin, 0}},
      .n = 1,
      .layer = -1};
}

static int list_groups(mt_loader *l, mt_err *e) {
  mt_model *m = l->m;
  l->group = mt_calloc(2 + (size_t)m->cfg.n_layers * N_GROUPS, sizeof *l->group);
  if (!l->group) return mt_err_set(e, MT_ENOMEM, "no memory to read weights");
  for (int i = 0; i < (m->cfg.tied ? 1 : 2); i++) l->group[l->n_groups++] = vocab_group(m, i);
  for (uint32_t y = 0; y < m->cfg.n_layers; y++)
    for (int i = 0; i < N_GROUPS; i++) l->group[l->n_groups++] = layer_group(m, y, i);
  return MT_OK;
}

/* What a part adds to the bytes to read, and needs of the stage or the window. */
static void measure_part(mt_loader *l, const mt_load_part *p, bool exchanged) {
  size_t n = (size_t)mt_comm_size(l->m->comm), unit = mt_load_unit_bytes(p);
  size_t row_bytes = mt_dtype_row_bytes(p->t->type, p->t->shape.dim[1]);
  if (exchanged) {
    unit = (mt_load_round_rows(row_bytes, n, true) + n - 1) / n * row_bytes;
    if (unit > l->window_bytes) l->window_bytes = unit;
    l->total_bytes += p->t->bytes / n;
    return;
  }
  if (unit > l->stage_bytes) l->stage_bytes = unit;
  l->total_bytes += p->m->rows * row_bytes;
}

static void measure(mt_loader *l) {
  l->stage_bytes = MT_LOAD_STAGE_BYTES / (size_t)mt_team_size(l->m->team);
  if (l->stage_bytes > MT_LOAD_STAGE_BYTES / 4) l->stage_bytes = MT_LOAD_STAGE_BYTES / 4;
  for (size_t g = 0; g < l->n_groups; g++)
    for (int i = 0; i < l->group[g].n; i++)
      measure_part(l, &l->group[g].part[i], l->group[g].exchanged);
}

/* The stage, and the window where all ranks share memory. Collective. */
static int take_memory(mt_loader *l, mt_err *e) {
  mt_comm *c = l->m->comm;
  l->stage = mt_pages_alloc((size_t)mt_team_size(l->m->team) * l->stage_bytes);
  int rc = l->stage ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to read weights");
  rc = mt_comm_agree(c, rc, e);
  if (rc || mt_comm_size(c) == 1 || mt_comm_groups(c) > 1) return rc;
  return mt_comm_window_new(&l->window, c, 2 * l->window_bytes, e);
}

/* A rank whose own rows fail goes on to the next exchange, which tells all ranks. Collective. */
static int load_matrices(mt_loader *l, mt_err *e) {
  int rc = take_memory(l, e);
  for (size_t g = 0; !rc && g < l->n_groups; g++) {
    mt_err own;
    if (l->group[g].exchanged)
      rc = mt_load_rows(l, &l->group[g], e);
    else if (mt_load_columns(l, &l->group[g], &own) && mt_comm_size(l->m->comm) == 1)
      rc = mt_loader_outcome(l, e);
    if (rc && l->group[g].layer >= 0) mt_err_prefix(e, rc, "layer %d", l->group[g].layer);
  }
  return rc ? rc : mt_comm_agree(l->m->comm, mt_loader_outcome(l, e), e);
}

/* ---- all of it --------------------------------------------------------------------------- */

/* Matrices from the files of --pack-cache where every rank has a good one (exchanging takes all),
 * else from the model. Collective. */
static int fill_matrices(mt_loader *l, mt_err *e) {
  mt_model *m = l->m;
  bool found = false;
  if (m->opt.pack_cache) mt_keep_read(l, &found);
  mt_err unused;
  if (mt_comm_agree(m->comm, found ? MT_OK : MT_EIO, &unused) == MT_OK) return MT_OK;
  if (found) mt_pages_clear(m->data, m->data_bytes);
  int rc = load_matrices(l, e);
  if (!rc && m->opt.pack_cache && !found) mt_keep_write(l);
  return rc;
}

int mt_load_weights(mt_model *m, mt_err *e) {
  mt_loader *l = mt_calloc(1, sizeof *l);
  int rc = l ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to read weights");
  if (l) {
    l->m = m;
    rc = list_groups(l, e);
    measure(l);
  }
  rc = mt_comm_agree(m->comm, rc, e);
  if (!rc) rc = load_vectors(m, e);
  if (!rc) rc = fill_matrices(l, e);
  if (!l) return rc;
  mt_comm_window_free(l->window);
  mt_pages_free(l->stage, (size_t)mt_team_size(m->team) * l->stage_bytes);
  free(l->group);
  free(l);
  return rc;
}
