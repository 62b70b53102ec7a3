/* Sharded loading. Column-parallel rows are contiguous in the file: each rank reads its own. Of
 * row-parallel tensors a rank needs less than a page of each row, so ranks read stripes of whole
 * rows and exchange the slices. Rank 0 reads the vectors, which are small, for all. Altogether the
 * file is read about once. */
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

/* Of file bytes held at a time, besides the packed slices. */
enum { STAGE_BYTES = MT_LOAD_STAGE_BYTES };

/* ---- packing in parallel ----------------------------------------------------------------- */

typedef struct pack_job {
  mt_matrix *m;
  size_t row_begin, n_rows; /* rows of m that `src` holds */
  const uint8_t *src;
  size_t src_row_bytes, src_k;
  uint32_t permute; /* head size where the file interleaves the rows of a head */
} pack_job;

/* Row of the file that becomes row r: within each head the file has rows 0, n/2, 1, n/2 + 1, … */
static size_t source_row(size_t r, uint32_t head) {
  if (!head) return r;
  size_t in = r % head, half = head / 2;
  return r - in + (in < half ? 2 * in : 2 * (in - half) + 1);
}

static void pack_thread(void *arg, int thread, int n_threads) {
  const pack_job *j = arg;
  size_t first = j->row_begin / MT_PANEL_ROWS,
         last = (j->row_begin + j->n_rows + MT_PANEL_ROWS - 1) / MT_PANEL_ROWS;
  size_t begin, end;
  mt_team_share(last - first, thread, n_threads, &begin, &end);
  size_t row = (first + begin) * MT_PANEL_ROWS, stop = (first + end) * MT_PANEL_ROWS;
  if (row < j->row_begin) row = j->row_begin;
  if (stop > j->row_begin + j->n_rows) stop = j->row_begin + j->n_rows;
  if (row >= stop) return;
  if (!j->permute) {
    mt_matrix_pack(j->m, row, stop - row, j->src + (row - j->row_begin) * j->src_row_bytes,
                   j->src_row_bytes, j->src_k);
    return;
  }
  for (; row < stop; row++)
    mt_matrix_pack(j->m, row, 1,
                   j->src + (source_row(row, j->permute) - j->row_begin) * j->src_row_bytes,
                   j->src_row_bytes, j->src_k);
}

/* ---- column-parallel --------------------------------------------------------------------- */

/* Rows [row, row + m->rows) of the tensor, in runs that hold whole panels and whole heads. */
static int load_columns(mt_model *m, mt_matrix *mat, const mt_tensor_info *t, uint64_t row,
                        uint32_t permute, uint8_t *stage, mt_err *e) {
  size_t row_bytes = mt_dtype_row_bytes(t->type, mat->cols);
  size_t unit = permute ? (size_t)permute * MT_PANEL_ROWS : MT_PANEL_ROWS;
  size_t step = STAGE_BYTES / row_bytes / unit * unit;
  if (!step) step = unit;
  uint8_t *own = NULL;
  if (step * row_bytes > STAGE_BYTES) { /* a single run of such rows is larger than the stage */
    own = mt_malloc(step, row_bytes);
    if (!own) return mt_err_set(e, MT_ENOMEM, "no memory to read %s", t->name);
    stage = own;
  }
  int rc = MT_OK;
  for (size_t r = 0; !rc && r < mat->rows; r += step) {
    size_t n = mat->rows - r < step ? mat->rows - r : step;
    rc = mt_weights_read(m->weights, t, (row + r) * row_bytes, n * row_bytes, stage, e);
    pack_job job = {mat, r, n, stage, row_bytes, 0, permute};
    if (!rc) mt_team_run(m->team, pack_thread, &job);
  }
  free(own);
  return rc;
}

/* ---- row-parallel ------------------------------------------------------------------------ */

/* The bytes of one row that rank r's columns touch: whole blocks of the file. */
typedef struct slice {
  size_t begin, bytes; /* within a row as stored */
  size_t skip;         /* elements before the rank's first column in the first block */
} slice;

static slice slice_of(mt_dtype type, mt_range k) {
  const mt_dtype_info *d = mt_dtype_get(type);
  if (k.begin == k.end) return (slice){0, 0, 0};
  size_t first = k.begin / d->block_elems, last = (k.end + d->block_elems - 1) / d->block_elems;
  return (slice){first * d->block_bytes, (last - first) * d->block_bytes,
                 k.begin - first * d->block_elems};
}

typedef struct exchange {
  int n_ranks, rank;
  slice *slice;  /* [n_ranks] */
  size_t stripe; /* rows that a rank reads in a round */
  size_t *send_bytes, *send_offset, *recv_bytes, *recv_offset; /* [n_ranks] each */
  uint8_t *rows, *send, *recv;
} exchange;

static void exchange_free(exchange *x) {
  free(x->slice);
  free(x->send_bytes);
  free(x->rows);
}

/* One allocation for the four tables, one for the three byte areas. */
static int exchange_new(exchange *x, mt_model *m, const mt_tensor_info *t, size_t row_bytes,
                        bool heads, mt_err *e) {
  int n = mt_comm_size(m->comm), me = mt_comm_rank(m->comm);
  *x = (exchange){.n_ranks = n, .rank = me};
  x->slice = mt_calloc((size_t)n, sizeof *x->slice);
  x->send_bytes = mt_calloc(4 * (size_t)n, sizeof(size_t));
  if (!x->slice || !x->send_bytes)
    return mt_err_set(e, MT_ENOMEM, "no memory to exchange %s", t->name);
  x->send_offset = x->send_bytes + n;
  x->recv_bytes = x->send_offset + n;
  x->recv_offset = x->recv_bytes + n;
  size_t sum = 0;
  for (int r = 0; r < n; r++) {
    mt_shard s;
    int rc = mt_shard_plan(&m->dims, (uint32_t)n, (uint32_t)r, &s, e);
    if (rc) return rc;
    mt_range k = s.ffn;
    if (heads) k = (mt_range){s.heads.begin * m->cfg.head_dim, s.heads.end * m->cfg.head_dim};
    x->slice[r] = slice_of(t->type, k);
    sum += x->slice[r].bytes;
  }
  size_t rows = t->shape.dim[0], share = (rows + (size_t)n - 1) / (size_t)n;
  x->stripe = STAGE_BYTES / 4 / row_bytes;
  if (x->stripe < 1) x->stripe = 1;
  if (x->stripe > share) x->stripe = share;
  size_t recv = x->stripe * (size_t)n * x->slice[me].bytes;
  x->rows = mt_malloc(x->stripe * (row_bytes + sum) + recv, 1);
  if (!x->rows) return mt_err_set(e, MT_ENOMEM, "no memory to exchange %s", t->name);
  x->send = x->rows + x->stripe * row_bytes;
  x->recv = x->send + x->stripe * sum;
  return MT_OK;
}

/* Rows of a round that rank r reads: [base + r·stripe, …), cut at the tensor's end. */
static size_t stripe_rows(const exchange *x, size_t base, int r, size_t rows, size_t *first) {
  *first = base + (size_t)r * x->stripe;
  if (*first >= rows) return 0;
  return rows - *first < x->stripe ? rows - *first : x->stripe;
}

static void gather_slices(exchange *x, size_t n_rows, size_t row_bytes) {
  size_t at = 0;
  for (int r = 0; r < x->n_ranks; r++) {
    x->send_offset[r] = at;
    x->send_bytes[r] = n_rows * x->slice[r].bytes;
    for (size_t i = 0; i < n_rows; i++) {
      if (x->slice[r].bytes)
        memcpy(x->send + at, x->rows + i * row_bytes + x->slice[r].begin, x->slice[r].bytes);
      at += x->slice[r].bytes;
    }
  }
}

/* Collective. A rank that cannot read goes on with the exchange, so that the others do not hang,
 * and reports it after. */
static int load_rows(mt_model *m, mt_matrix *mat, const mt_tensor_info *t, bool heads, mt_err *e) {
  size_t rows = t->shape.dim[0], row_bytes = mt_dtype_row_bytes(t->type, t->shape.dim[1]);
  exchange x;
  int rc = exchange_new(&x, m, t, row_bytes, heads, e);
  rc = mt_comm_agree(m->comm, rc, e);
  int read_rc = MT_OK;
  for (size_t base = 0; !rc && base < rows; base += x.stripe * (size_t)x.n_ranks) {
    size_t first, n = stripe_rows(&x, base, x.rank, rows, &first);
    if (n && !read_rc)
      read_rc = mt_weights_read(m->weights, t, first * row_bytes, n * row_bytes, x.rows, e);
    gather_slices(&x, n, row_bytes);
    size_t at = 0;
    for (int r = 0; r < x.n_ranks; r++) {
      size_t unused, theirs = stripe_rows(&x, base, r, rows, &unused);
      x.recv_offset[r] = at;
      x.recv_bytes[r] = theirs * x.slice[x.rank].bytes;
      at += x.recv_bytes[r];
    }
    rc = mt_comm_alltoallv(m->comm, x.send, x.send_bytes, x.send_offset, x.recv, x.recv_bytes,
                           x.recv_offset, e);
    for (int r = 0; !rc && r < x.n_ranks && x.slice[x.rank].bytes; r++) {
      size_t start, theirs = stripe_rows(&x, base, r, rows, &start);
      pack_job job = {mat,
                      start,
                      theirs,
                      x.recv + x.recv_offset[r],
                      x.slice[x.rank].bytes,
                      x.slice[x.rank].skip,
                      0};
      if (theirs) mt_team_run(m->team, pack_thread, &job);
    }
  }
  exchange_free(&x);
  return rc ? rc : mt_comm_agree(m->comm, read_rc, e);
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
    float v = s->whole[source_row(i, permute)];
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

/* ---- all of it --------------------------------------------------------------------------- */

static int load_layer(mt_model *m, uint32_t l, uint8_t *stage, mt_err *e) {
  uint32_t hd = m->cfg.head_dim;
  const uint32_t first[MT_LAYER_MATRICES] = {m->shard.heads.begin * hd,
                                             m->shard.kv_heads.begin * hd,
                                             m->shard.kv_heads.begin * hd,
                                             0,
                                             m->shard.ffn.begin,
                                             m->shard.ffn.begin,
                                             0};
  int rc = MT_OK, own = MT_OK;
  for (int i = 0; !rc && i < MT_LAYER_MATRICES; i++) {
    mt_source s = mt_plan_source(&m->cfg, i);
    const mt_tensor_info *t = mt_slot_find(&m->cfg, m->weights, s.slot, l);
    mt_matrix *mat = mt_layer_matrix(&m->layer[l], i);
    if (i == 3 || i == 6)
      rc = load_rows(m, mat, t, i == 3, e);
    else if (!own)
      own = load_columns(m, mat, t, s.row_begin + first[i], s.permute, stage, e);
    if (rc) return rc;
  }
  rc = mt_comm_agree(m->comm, own, e);
  if (rc) mt_err_prefix(e, rc, "layer %u", l);
  return rc;
}

int mt_load_weights(mt_model *m, mt_err *e) {
  uint8_t *stage = mt_malloc(STAGE_BYTES, 1);
  int rc = stage ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to read weights");
  rc = mt_comm_agree(m->comm, rc, e);
  if (!rc) rc = load_vectors(m, e);
  int own = MT_OK;
  if (!rc) {
    const mt_tensor_info *t = mt_slot_find(&m->cfg, m->weights, SLOT_EMBED, 0);
    own = load_columns(m, &m->embed, t, m->shard.vocab.begin, 0, stage, e);
    t = mt_slot_find(&m->cfg, m->weights, SLOT_HEAD, 0);
    if (!own && !m->cfg.tied) own = load_columns(m, &m->head, t, m->shard.vocab.begin, 0, stage, e);
    rc = mt_comm_agree(m->comm, own, e);
  }
  for (uint32_t l = 0; !rc && l < m->cfg.n_layers; l++) rc = load_layer(m, l, stage, e);
  free(stage);
  return rc;
}
