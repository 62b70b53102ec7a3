/* Sharded loading. Column-parallel rows are contiguous in the file: each rank reads its own
 * (load_columns.c). Of row-parallel tensors a rank needs a piece of each row: ranks read whole rows
 * and exchange them (load_rows.c). Rank 0 reads the vectors, which are small, for all. Altogether
 * the file is read about once. */
#include "load.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the threads report ------------------------------------------------------------- */

void mt_loader_fail(mt_loader *l, int layer, int code, const mt_err *e) {
  int none = 0;
  if (!atomic_compare_exchange_strong(&l->failed, &none, code)) return;
  l->err = *e;
  if (layer >= 0) mt_err_prefix(&l->err, code, "layer %d", layer);
}

void mt_loader_advance(mt_loader *l, uint64_t bytes) {
  const mt_model_options *o = &l->m->opt;
  atomic_fetch_add_explicit(&l->done_bytes, bytes, memory_order_relaxed);
  if (!o->progress || atomic_flag_test_and_set_explicit(&l->telling, memory_order_acquire)) return;
  uint64_t done = atomic_load_explicit(&l->done_bytes, memory_order_relaxed);
  o->progress(o->progress_arg, done < l->total_bytes ? done : l->total_bytes, l->total_bytes);
  atomic_flag_clear_explicit(&l->telling, memory_order_release);
}

void mt_loader_restart(mt_loader *l, uint64_t total) {
  l->total_bytes = total;
  atomic_store(&l->done_bytes, 0);
}

int mt_loader_outcome(mt_loader *l, mt_err *e) {
  int rc = atomic_load(&l->failed);
  if (rc && e) *e = l->err;
  return rc;
}

/* ---- vectors ----------------------------------------------------------------------------- */

/* Elements [begin, end) of a slot's vector become *out; permute as of rows. */
typedef struct vector {
  const mt_tensor_info *t;
  mt_slot slot;
  uint32_t begin, end, permute;
  float **out;
} vector;

/* Of one layer, with t NULL where the model has none. */
enum { LAYER_VECTORS = 13 };
static void list_layer_vectors(mt_model *m, uint32_t l, vector v[LAYER_VECTORS]) {
  mt_layer *y = &m->layer[l];
  const mt_model_config *c = &m->cfg;
  uint32_t hd = c->head_dim, permute = c->permuted_qk ? hd : 0;
  mt_range q = {m->shard.heads.begin * hd, m->shard.heads.end * hd};
  mt_range kv = {m->shard.kv_heads.begin * hd, m->shard.kv_heads.end * hd}, f = m->shard.ffn;
  const vector all[LAYER_VECTORS] = {
      {NULL, SLOT_ATTN_NORM, 0, c->hidden, 0, &y->attn_norm},
      {NULL, SLOT_FFN_NORM, 0, c->hidden, 0, &y->ffn_norm},
      {NULL, SLOT_POST_ATTN_NORM, 0, c->hidden, 0, &y->post_attn_norm},
      {NULL, SLOT_POST_FFN_NORM, 0, c->hidden, 0, &y->post_ffn_norm},
      {NULL, SLOT_Q_NORM, 0, hd, permute, &y->q_norm},
      {NULL, SLOT_K_NORM, 0, hd, permute, &y->k_norm},
      {NULL, SLOT_Q_BIAS, q.begin, q.end, permute, &y->q_bias},
      {NULL, SLOT_K_BIAS, kv.begin, kv.end, permute, &y->k_bias},
      {NULL, SLOT_V_BIAS, kv.begin, kv.end, 0, &y->v_bias},
      {NULL, SLOT_O_BIAS, 0, c->hidden, 0, &y->o_bias},
      {NULL, SLOT_GATE_BIAS, f.begin, f.end, 0, &y->gate_bias},
      {NULL, SLOT_UP_BIAS, f.begin, f.end, 0, &y->up_bias},
      {NULL, SLOT_DOWN_BIAS, 0, c->hidden, 0, &y->down_bias}};
  for (int i = 0; i < LAYER_VECTORS; i++) {
    v[i] = all[i];
    v[i].t = mt_slot_find(c, m->weights, v[i].slot, l);
  }
}

/* Floats that all vectors have together, whole, and bytes of the largest in the file. */
static size_t measure_vectors(const vector *v, size_t n, size_t *raw) {
  size_t floats = 0;
  *raw = 0;
  for (size_t i = 0; i < n; i++) {
    if (!v[i].t) continue;
    floats += v[i].t->shape.dim[0];
    if (v[i].t->bytes > *raw) *raw = v[i].t->bytes;
  }
  return floats;
}

static int read_vectors(mt_model *m, const vector *v, size_t n, void *raw, float *whole,
                        mt_err *e) {
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < n; i++) {
    if (!v[i].t) continue;
    rc = mt_weights_read(m->weights, v[i].t, 0, v[i].t->bytes, raw, e);
    if (!rc) mt_dequantize(v[i].t->type, raw, v[i].t->shape.dim[0], whole);
    whole += v[i].t->shape.dim[0];
  }
  return rc;
}

static void keep_vectors(mt_model *m, const vector *v, size_t n, const float *whole) {
  float *next = m->vectors;
  for (size_t i = 0; i < n; i++) {
    if (!v[i].t) continue;
    bool norm = v[i].slot == SLOT_FINAL_NORM || v[i].slot == SLOT_ATTN_NORM ||
                v[i].slot == SLOT_FFN_NORM || v[i].slot == SLOT_Q_NORM ||
                v[i].slot == SLOT_K_NORM || v[i].slot == SLOT_POST_ATTN_NORM ||
                v[i].slot == SLOT_POST_FFN_NORM;
    for (uint32_t k = v[i].begin; k < v[i].end; k++) {
      float x = whole[mt_load_source_row(k, v[i].permute)];
      next[k - v[i].begin] = norm && m->cfg.norm_plus_one ? 1.0f + x : x;
    }
    *v[i].out = next;
    next += (v[i].end - v[i].begin + 15) / 16 * 16;
    whole += v[i].t->shape.dim[0];
  }
}

/* Rank 0 reads them, all get them in one message and keep their parts. Collective. */
static int load_vectors(mt_model *m, mt_err *e) {
  size_t n = 1 + (size_t)m->cfg.n_layers * LAYER_VECTORS, floats = 0, raw_bytes = 0;
  vector *v = mt_calloc(n, sizeof *v);
  if (v) {
    v[0] = (vector){mt_slot_find(&m->cfg, m->weights, SLOT_FINAL_NORM, 0),
                    SLOT_FINAL_NORM,
                    0,
                    m->cfg.hidden,
                    0,
                    &m->final_norm};
    for (uint32_t l = 0; l < m->cfg.n_layers; l++)
      list_layer_vectors(m, l, v + 1 + (size_t)l * LAYER_VECTORS);
    floats = measure_vectors(v, n, &raw_bytes);
  }
  float *whole = mt_malloc(floats, sizeof *whole);
  void *raw = mt_malloc(raw_bytes, 1);
  m->vectors = mt_calloc(mt_plan_small_floats(&m->cfg, m->weights, &m->shard), sizeof(float));
  int rc = v && whole && raw && m->vectors
               ? MT_OK
               : mt_err_set(e, MT_ENOMEM, "no memory for norms and biases");
  if (!rc && mt_comm_rank(m->comm) == 0) rc = read_vectors(m, v, n, raw, whole, e);
  rc = mt_comm_agree(m->comm, rc, e);
  if (!rc) rc = mt_comm_bcast(m->comm, whole, floats * sizeof *whole, 0, e);
  if (!rc) keep_vectors(m, v, n, whole);
  free(v);
  free(whole);
  free(raw);
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

/* Columns first, all of them in one run of the team: no thread waits for another before the end of
 * its shares. A rank that fails there goes on to the first exchange, which tells all ranks.
 * Collective. */
static int load_matrices(mt_loader *l, mt_err *e) {
  int rc = take_memory(l, e);
  if (!rc && mt_load_columns(l, e) && mt_comm_size(l->m->comm) == 1) return mt_loader_outcome(l, e);
  for (size_t g = 0; !rc && g < l->n_groups; g++)
    if (l->group[g].exchanged) rc = mt_load_rows(l, &l->group[g], e);
  return rc ? rc : mt_comm_agree(l->m->comm, mt_loader_outcome(l, e), e);
}

/* ---- all of it --------------------------------------------------------------------------- */

/* Matrices from the files of --pack-cache where every rank has a good one (exchanging takes all),
 * else from the model. Collective. */
static int fill_matrices(mt_loader *l, mt_err *e) {
  mt_model *m = l->m;
  bool found = false;
  uint64_t total = l->total_bytes;
  int rc = mt_keep_read(l, &found, e);
  if (rc) return rc;
  mt_err unused = {0};
  if (mt_comm_agree(m->comm, found ? MT_OK : MT_EIO, &unused) == MT_OK) return MT_OK;
  mt_loader_restart(l, total);
  if (found) mt_pages_clear(m->data, m->data_bytes);
  rc = load_matrices(l, e);
  return rc ? rc : mt_keep_write(l, m->opt.pack_cache && !found, e);
}

int mt_load_weights(mt_model *m, mt_err *e) {
  mt_loader *l = mt_calloc(1, sizeof *l);
  int rc = l ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to read weights");
  if (l) {
    l->m = m;
    atomic_flag_clear(&l->telling);
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
