/* The forward pass of one step, stage by stage. Half a layer is one run of the thread team, with
 * barriers between its stages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward.h"

enum {
  GEMMA_QUANTUM_EXP = -32
}; /* DESIGN section 1: where the sum is normalised before it is added */

/* ---- rows: residual, norm, quantization -------------------------------------------------- */

typedef struct norm_job {
  mt_step *s;
  const float *weight;              /* of the norm */
  const float *add_bias, *add_norm; /* what is done to the sum before it is added; NULL: nothing */
  bool add;                         /* first add b->sum to the residual row */
  mt_act *act[MT_INPUT_LAYOUTS];    /* block layouts that the row is quantized for */
  const mt_matrix *like[MT_INPUT_LAYOUTS];
  int n_acts;
  int failed;
} norm_job;

/* x ← x + norm(sum + bias); h ← norm(x); exponent of the row's quantum; the activations of what
 * follows. */
static void norm_thread(void *arg, int thread, int n_threads) {
  norm_job *j = arg;
  mt_model *m = j->s->m;
  mt_buffers *b = j->s->b;
  const mt_kernels *kn = m->kn;
  size_t begin, end, width = m->cfg.hidden;
  mt_team_share(j->s->n, thread, n_threads, &begin, &end);
  for (size_t t = begin; t < end; t++) {
    float *x = b->x + t * width, *sum = b->sum + t * width;
    if (j->add) {
      if (j->add_bias) kn->add(sum, j->add_bias, width);
      if (j->add_norm) kn->rmsnorm(sum, j->add_norm, width, m->cfg.eps, sum);
      kn->add(x, sum, width);
    }
    if (!j->weight) continue;
    float mean_square = kn->rmsnorm(x, j->weight, width, m->cfg.eps, b->h + t * width);
    b->exp[t] = m->cfg.post_norms ? GEMMA_QUANTUM_EXP : mt_reduce_quantum_exp(mean_square);
    if (!(mean_square <= __FLT_MAX__)) { /* NaN or infinity: the sum after this will say so */
      __atomic_fetch_add(&j->s->failed, 1, __ATOMIC_RELAXED);
      b->exp[t] = GEMMA_QUANTUM_EXP;
    }
    for (int a = 0; a < j->n_acts; a++) kn->quantize(j->act[a], j->like[a], t, t + 1);
  }
}

/* ---- products ---------------------------------------------------------------------------- */

typedef struct gemm_job {
  mt_step *s;
  const mt_matrix *w[MT_INPUT_LAYOUTS];
  const mt_act *act[MT_INPUT_LAYOUTS];
  float *out[MT_INPUT_LAYOUTS];
  int n;
} gemm_job;

/* Slots of the team's deals. */
enum { DEAL_INPUT, DEAL_UNITS };

/* Chunks of panels: some for each thread to balance with, each still a stream worth reading; a row
 * of tiles takes two panels. */
static size_t panel_chunk(const mt_model *m, size_t panels) {
  size_t chunk = panels / ((size_t)mt_team_size(m->team) * 8) / 2 * 2;
  return chunk < 2 ? 2 : chunk > 32 ? 32 : chunk;
}

/* A tile's chunks are as short as can be, since messages move only between them. */
static void deal_panels(const mt_step *s, int slot, size_t panels) {
  mt_team_deal(s->m->team, slot, panels, s->tile ? 2 : panel_chunk(s->m, panels));
}

static void deal_gemm(const gemm_job *j) {
  size_t panels = 0;
  for (int i = 0; i < j->n; i++) panels += j->w[i]->n_panels;
  deal_panels(j->s, DEAL_INPUT, panels);
}

/* The panels of all products lie in one row and are shared out as one, so that small matrices do
 * not leave threads idle. */
static void gemm_range(const gemm_job *j, size_t begin, size_t end) {
  size_t first = 0;
  for (int i = 0; i < j->n; i++) {
    size_t n = j->w[i]->n_panels, a = begin > first ? begin - first : 0,
           z = end > first ? end - first : 0;
    if (z > n) z = n;
    if (a < z) j->s->m->kn->gemm(j->w[i], a, z, j->act[i], 0, j->s->n, j->out[i], j->w[i]->rows);
    first += n;
  }
}

/* Those of the tile before, while this one computes. */
static void move_messages(const mt_step *s, int thread) {
  if (s->tile && thread == 0) mt_reduce_poll(s->m->reduce);
}

static void gemm_thread(void *arg, int thread, int n_threads) {
  const gemm_job *j = arg;
  size_t begin, end;
  (void)n_threads;
  while (mt_team_take(j->s->m->team, DEAL_INPUT, thread, &begin, &end)) {
    gemm_range(j, begin, end);
    move_messages(j->s, thread);
  }
}

/* The row-parallel product into the accumulator of the sum. */
static void units_thread(mt_step *s, const mt_matrix *w, const mt_act *act, int thread) {
#ifdef MT_PLAIN_SUMS /* which multiplies itself */
  return;
#endif
  mt_model *m = s->m;
  size_t begin, end, width = m->cfg.hidden;
  int64_t *acc = s->tile ? mt_reduce_tile_acc(m->reduce, s->first) : mt_reduce_acc(m->reduce, s->n);
  int bad = 0;
  while (mt_team_take(m->team, DEAL_UNITS, thread, &begin, &end)) {
    bad += m->kn->gemm_units(w, begin, end, act, 0, s->n, s->b->exp, acc, width);
    move_messages(s, thread);
  }
  if (bad) __atomic_fetch_add(&s->failed, bad, __ATOMIC_RELAXED);
}

/* The exact sum over ranks of a row-parallel product into b->sum, now or (a tile) by the time that
 * the next tile has got as far. Collective. */
static int reduce_units(mt_step *s, const mt_matrix *w, const mt_act *act, const char *what,
                        mt_err *e) {
#ifdef MT_PLAIN_SUMS
  return mt_plain_sum(s, w, act, what, e);
#endif
  (void)w, (void)act;
  char where[80];
  snprintf(where, sizeof where, "layer %u, %s", s->l, what);
  mt_reduce *r = s->m->reduce;
  int rc;
  if (s->tile) {
    rc = mt_reduce_finish(r, e);
    if (!rc) rc = mt_reduce_begin(r, s->first, s->n, s->b->exp, s->failed, where, s->b->sum, e);
  } else {
    rc = mt_reduce_sum(r, s->n, s->b->exp, s->failed, where, s->b->sum, e);
  }
  s->failed = 0;
  return rc;
}

/* Reserves activations for the distinct block layouts among w[0 … n), all reading x; which[i] is
 * the one of w[i]. Cannot fail: the largest need was reserved when the buffers were made. */
static int reserve_inputs(mt_buffers *b, norm_job *nj, const mt_matrix *const *w, int n,
                          const float *x, size_t ld, size_t rows, const mt_act **which, mt_err *e) {
  int rc = MT_OK;
  nj->n_acts = 0;
  for (int i = 0; !rc && i < n; i++) {
    int a = 0;
    while (a < nj->n_acts && !mt_matrix_same_blocks(nj->like[a], w[i])) a++;
    if (a == nj->n_acts) {
      nj->act[a] = &b->in[a];
      nj->like[a] = w[i];
      nj->n_acts++;
      rc = mt_act_reserve(&b->in[a], w[i], x, ld, rows, e);
    }
    which[i] = &b->in[a];
  }
  return rc;
}

/* ---- the two halves of a layer ----------------------------------------------------------- */

/* Decode: the first bytes of what a thread will read of w [n], dealt in one row, after the next
 * barrier come nearer while it waits there, and a short matrix does not begin with the memory's
 * latency. */
enum { AHEAD_BYTES = 16 << 10, AHEAD_ROWS = 2, LINE_BYTES = 64 };

static void fetch_ahead(const mt_step *s, const mt_matrix *const *w, size_t n, int thread,
                        int n_threads) {
  size_t begin, end, panels = 0;
  if (s->n > AHEAD_ROWS) return;
  for (size_t i = 0; i < n; i++) panels += w[i]->n_panels;
  mt_team_share(panels, thread, n_threads, &begin, &end);
  if (begin == end) return;
  for (; begin >= w[0]->n_panels; w++) begin -= w[0]->n_panels, end -= w[0]->n_panels;
  if (end > w[0]->n_panels) end = w[0]->n_panels;
  const uint8_t *from = w[0]->data + begin * w[0]->panel_bytes;
  size_t bytes = (end - begin) * w[0]->panel_bytes;
  for (size_t i = 0; i < bytes && i < AHEAD_BYTES; i += LINE_BYTES)
    __builtin_prefetch(from + i, 0, 2);
}

/* gate ← act(gate + bias) · (up + bias) of row t, columns [begin, end). */
static void activate(mt_step *s, size_t t, size_t begin, size_t end) {
  const mt_layer *y = s->layer;
  const mt_kernels *kn = s->m->kn;
  const size_t width = y->gate.rows, n = end - begin;
  float *g = s->b->gate + t * width + begin, *u = s->b->up + t * width + begin;
  if (y->gate_bias) kn->add(g, y->gate_bias + begin, n);
  if (y->up_bias) kn->add(u, y->up_bias + begin, n);
  if (s->m->cfg.activation == MT_ACT_SILU)
    kn->silu_mul(g, u, n, g);
  else
    kn->gelu_mul(g, u, n, g);
}

enum { ROWS_EACH = 4 }; /* so many rows a thread, or more, are even enough */

/* The input of a row-parallel product: down's (ffn) is activated, all are quantized. Rows are
 * shared out, or where they are few, the blocks of each (columns, if there are no blocks). */
static void input_thread(mt_step *s, mt_act *act, const mt_matrix *like, bool ffn, int thread,
                         int n_threads) {
  const mt_kernels *kn = s->m->kn;
  const mt_kblock *block = like->block;
  size_t begin, end;
  if (!like->cols) return;
  if (n_threads == 1 || s->n >= ROWS_EACH * (size_t)n_threads) {
    mt_team_share(s->n, thread, n_threads, &begin, &end);
    for (size_t t = begin; t < end; t++) {
      if (ffn) activate(s, t, 0, like->cols);
      kn->quantize(act, like, t, t + 1);
      move_messages(s, thread);
    }
    return;
  }
  mt_team_share(block ? like->n_blocks : (like->cols + 15) / 16, thread, n_threads, &begin, &end);
  if (begin == end) return;
  const size_t first = block ? block[begin].begin : begin * 16,
               after = block ? block[end - 1].begin + block[end - 1].len : end * 16;
  for (size_t t = 0; t < s->n; t++) {
    if (ffn) activate(s, t, first, after < like->cols ? after : like->cols);
    if (block) kn->quantize_blocks(act, like, t, begin, end);
  }
}

typedef struct half_job {
  mt_step *s;
  norm_job norm;
  gemm_job in;
} half_job;

static void attention_thread(void *arg, int thread, int n_threads) {
  half_job *j = arg;
  mt_step *s = j->s;
  mt_team *team = s->m->team;
  norm_thread(&j->norm, thread, n_threads);
  mt_team_barrier(team, thread);
  gemm_thread(&j->in, thread, n_threads);
  fetch_ahead(s, (const mt_matrix *[]){&s->layer->o}, 1, thread, n_threads);
  mt_team_barrier(team, thread);
  mt_forward_heads(s, thread, n_threads);
  mt_team_barrier(team, thread);
  mt_forward_attend(s, thread, n_threads);
  mt_team_barrier(team, thread);
  if (s->b->probe) {
    mt_forward_probe(s, thread, n_threads);
    mt_team_barrier(team, thread);
  }
  input_thread(s, &s->b->att_act, &s->layer->o, false, thread, n_threads);
  mt_team_barrier(team, thread);
  units_thread(s, &s->layer->o, &s->b->att_act, thread);
  fetch_ahead(s, (const mt_matrix *[]){&s->layer->gate, &s->layer->up}, 2, thread, n_threads);
}

static void ffn_thread(void *arg, int thread, int n_threads) {
  half_job *j = arg;
  mt_step *s = j->s;
  const mt_matrix *down = &s->layer->down;
  norm_thread(&j->norm, thread, n_threads);
  mt_team_barrier(s->m->team, thread);
  gemm_thread(&j->in, thread, n_threads);
  fetch_ahead(s, &down, 1, thread, n_threads);
  mt_team_barrier(s->m->team, thread);
  input_thread(s, &s->b->ffn_act, down, true, thread, n_threads);
  mt_team_barrier(s->m->team, thread);
  units_thread(s, down, &s->b->ffn_act, thread);
  if (s->l + 1 == s->m->cfg.n_layers) return;
  const mt_layer *next = &s->m->layer[s->l + 1];
  fetch_ahead(s, (const mt_matrix *[]){&next->q, &next->k, &next->v}, 3, thread, n_threads);
}

/* Adds what the previous half left in b->sum, norms, multiplies. prev is the layer whose FFN comes
 * before, or NULL. */
static int attention_half(mt_step *s, const mt_layer *prev, mt_err *e) {
  mt_buffers *b = s->b;
  mt_model *m = s->m;
  mt_layer *y = s->layer;
  const mt_matrix *w[3] = {&y->q, &y->k, &y->v};
  half_job j = {.s = s,
                .norm = {.s = s, .weight = y->attn_norm, .add = prev != NULL},
                .in = {.s = s, .w = {w[0], w[1], w[2]}, .out = {b->q, b->k, b->v}, .n = 3}};
  if (prev) {
    j.norm.add_bias = prev->down_bias;
    j.norm.add_norm = prev->post_ffn_norm;
  }
  int rc = reserve_inputs(b, &j.norm, w, 3, b->h, m->cfg.hidden, s->n, j.in.act, e);
  if (!rc) rc = mt_act_reserve(&b->att_act, &y->o, b->att, y->o.cols, s->n, e);
  if (rc) return rc;
  deal_gemm(&j.in);
  deal_panels(s, DEAL_UNITS, y->o.n_panels);
  mt_team_run(m->team, attention_thread, &j);
  return reduce_units(s, &y->o, &b->att_act, "attention output", e);
}

static int ffn_half(mt_step *s, mt_err *e) {
  mt_buffers *b = s->b;
  mt_model *m = s->m;
  mt_layer *y = s->layer;
  const mt_matrix *w[2] = {&y->gate, &y->up};
  half_job j = {.s = s,
                .norm = {.s = s,
                         .weight = y->ffn_norm,
                         .add = true,
                         .add_bias = y->o_bias,
                         .add_norm = y->post_attn_norm},
                .in = {.s = s, .w = {w[0], w[1]}, .out = {b->gate, b->up}, .n = 2}};
  int rc = reserve_inputs(b, &j.norm, w, 2, b->h, m->cfg.hidden, s->n, j.in.act, e);
  if (!rc) rc = mt_act_reserve(&b->ffn_act, &y->down, b->gate, y->down.cols, s->n, e);
  if (rc) return rc;
  deal_gemm(&j.in);
  deal_panels(s, DEAL_UNITS, y->down.n_panels);
  mt_team_run(m->team, ffn_thread, &j);
  return reduce_units(s, &y->down, &b->ffn_act, "FFN output", e);
}

/* ---- ends -------------------------------------------------------------------------------- */

/* Embedding rows from the ranks that own them, in row order; scaled. Collective. */
static int embed_rows(mt_step *s, mt_err *e) {
  mt_model *m = s->m;
  mt_buffers *b = s->b;
  size_t width = m->cfg.hidden, mine = 0, total = 0;
  uint32_t n_ranks = (uint32_t)mt_comm_size(m->comm), me = (uint32_t)mt_comm_rank(m->comm);
  for (uint32_t r = 0; r < n_ranks; r++) b->count[r] = 0;
  for (size_t t = 0; t < s->n; t++) {
    uint32_t owner = mt_shard_vocab_owner(&m->dims, n_ranks, s->row[t].token);
    if (owner == me)
      mt_matrix_row(&m->embed, s->row[t].token - m->shard.vocab.begin, b->h + mine++ * width);
    b->count[owner] += width * sizeof(float);
  }
  for (uint32_t r = 0; r < n_ranks; r++) {
    b->offset[r] = total;
    total += b->count[r];
  }
  int rc = mt_comm_allgatherv(m->comm, b->h, b->embed, b->count, b->offset, e);
  if (rc) return rc;
  for (size_t t = 0; t < s->n; t++) {
    size_t *at = &b->offset[mt_shard_vocab_owner(&m->dims, n_ranks, s->row[t].token)];
    memcpy(b->x + t * width, (const char *)b->embed + *at, width * sizeof(float));
    *at += width * sizeof(float);
    if (m->cfg.embedding_scale != 1) m->kn->scale(b->x + t * width, m->cfg.embedding_scale, width);
  }
  return MT_OK;
}

/* Rank 0's logits of row i of a group, from the pieces that the ranks sent. */
static const float *assemble_row(mt_model *m, size_t i, size_t group) {
  mt_buffers *b = m->buf;
  size_t at = 0;
  for (int r = 0; r < mt_comm_size(m->comm); r++) {
    size_t width = b->count[r] / group / sizeof(float);
    memcpy(b->logits_row + at,
           (const char *)b->logits_all + b->offset[r] + i * width * sizeof(float),
           width * sizeof(float));
    at += width;
  }
  return b->logits_row;
}

/* Logits of the rows `pick` [n], at most MT_LOGIT_ROWS; the rows' norms first. Collective. */
static int head_group(mt_step *s, const size_t *pick, size_t n, mt_logits_fn sink, void *arg,
                      mt_err *e) {
  mt_model *m = s->m;
  mt_buffers *b = s->b;
  const mt_matrix *w = m->cfg.tied ? &m->embed : &m->head;
  size_t width = m->cfg.hidden, total = 0;
  int rc = mt_act_reserve(&b->in[0], w, b->h, width, n, e);
  if (rc) return rc;
  for (size_t i = 0; i < n; i++) {
    m->kn->rmsnorm(b->x + pick[i] * width, m->final_norm, width, m->cfg.eps, b->h + i * width);
    m->kn->quantize(&b->in[0], w, i, i + 1);
  }
  mt_step group = {.m = m, .b = b, .n = n};
  gemm_job gj = {.s = &group, .w = {w}, .act = {&b->in[0]}, .out = {b->logits_local}, .n = 1};
  deal_gemm(&gj);
  mt_team_run(m->team, gemm_thread, &gj);
  for (int r = 0; r < mt_comm_size(m->comm); r++) {
    mt_shard other;
    rc = mt_shard_plan(&m->dims, (uint32_t)mt_comm_size(m->comm), (uint32_t)r, &other, e);
    if (rc) return rc;
    b->offset[r] = total;
    b->count[r] = n * (other.vocab.end - other.vocab.begin) * sizeof(float);
    total += b->count[r];
  }
  rc = mt_comm_gatherv(m->comm, b->logits_local, b->logits_all, b->count, b->offset, 0, e);
  for (size_t i = 0; !rc && sink && mt_comm_rank(m->comm) == 0 && i < n; i++)
    rc = sink(arg, pick[i], assemble_row(m, i, n));
  return rc;
}

/* A sink's failure is rank 0's own; it is reported after the last group, so that the others do not
 * wait for ever. */
static int head_rows(mt_step *s, mt_logits_fn sink, void *arg, mt_err *e) {
  size_t pick[MT_LOGIT_ROWS], n = 0;
  int rc = MT_OK;
  for (size_t t = 0; t < s->n; t++) {
    if (s->row[t].want_logits) pick[n++] = t;
    if (n == MT_LOGIT_ROWS || (n && t + 1 == s->n)) {
      int one = head_group(s, pick, n, rc ? NULL : sink, arg, e);
      if (one && !rc) rc = one;
      n = 0;
    }
  }
  return rc;
}

/* ---- the step ---------------------------------------------------------------------------- */

static uint64_t count_kv_bytes(const mt_step *s) {
  const mt_model *m = s->m;
  mt_kv_dims d = {1, m->shard.kv_heads.end - m->shard.kv_heads.begin, m->cfg.head_dim,
                  m->opt.kv_type};
  uint64_t per_token = mt_kv_block_bytes(&d) / MT_KV_BLOCK, keys = 0;
  for (uint32_t l = 0; l < m->cfg.n_layers; l++) {
    uint64_t window = m->cfg.layer[l].window;
    for (size_t t = 0; t < s->n; t++) {
      uint64_t seen = (uint64_t)s->row[t].position + 1;
      keys += window && seen > window ? window : seen;
    }
  }
  return keys * per_token;
}

static void count_step(mt_step *s, const uint64_t at[5], mt_comm_stats before) {
  mt_model_stats *st = &s->m->stats;
  mt_comm_stats after = mt_comm_get_stats(s->m->comm);
  st->steps++;
  st->rows += s->n;
  st->embed_ns += at[1] - at[0];
  st->attention_ns += at[4];
  st->ffn_ns += at[2] - at[1] - at[4];
  st->head_ns += at[3] - at[2];
  st->collective_ns += after.ns - before.ns;
  st->net_bytes +=
      after.sent_bytes + after.received_bytes - before.sent_bytes - before.received_bytes;
  st->weight_bytes += mt_model_weight_bytes(s->m);
  st->kv_bytes += count_kv_bytes(s);
}

enum { TILES_MOST = 2 };
typedef struct tiles {
  size_t n;
  mt_step step[TILES_MOST];
  mt_buffers view[TILES_MOST];
} tiles;

/* The rows of a step in one or several runs, each with its own part of what lasts for longer than
 * half a layer. */
static void cut_step(mt_step *s, tiles *t) {
  mt_model *m = s->m;
  t->n = 1;
#ifndef MT_PLAIN_SUMS
  if (!s->b->probe) t->n = mt_reduce_tiles(m->reduce, s->n); /* which wants the last row */
#endif
  for (size_t i = 0; i < t->n; i++) {
    mt_step *one = &t->step[i];
    size_t begin, end, angles = m->cfg.rotary_dim / 2;
    mt_team_share(s->n, (int)i, (int)t->n, &begin, &end);
    *one = (mt_step){.m = m,
                     .b = s->b,
                     .row = s->row + begin,
                     .n = end - begin,
                     .tile = t->n > 1,
                     .first = begin};
    if (t->n == 1) return;
    mt_buffers *b = one->b = &t->view[i];
    *b = *s->b;
    b->x += begin * m->cfg.hidden;
    b->sum += begin * m->cfg.hidden;
    b->exp += begin;
    b->cos += begin * angles;
    b->sin += begin * angles;
  }
}

/* All layers; a tile's half after the other's, so that the sum of one travels while the other
 * computes. The keys that a row may see are those of its own or an earlier tile. */
static int run_layers(mt_step *s, uint64_t *attention_ns, mt_err *e) {
  mt_model *m = s->m;
  tiles t;
  int rc = MT_OK;
  cut_step(s, &t);
  if (t.n > 1) m->stats.tiled_steps++;
  for (uint32_t l = 0; !rc && l < m->cfg.n_layers; l++) {
    uint64_t start = mt_clock_ns();
    for (size_t i = 0; !rc && i < t.n; i++) {
      t.step[i].l = l;
      t.step[i].layer = &m->layer[l];
      rc = attention_half(&t.step[i], l ? &m->layer[l - 1] : NULL, e);
    }
    *attention_ns += mt_clock_ns() - start;
    for (size_t i = 0; !rc && i < t.n; i++) rc = ffn_half(&t.step[i], e);
  }
  return rc ? rc : mt_reduce_finish(m->reduce, e);
}

int mt_model_forward(mt_model *m, const mt_row *rows, size_t n_rows, mt_logits_fn sink, void *arg,
                     mt_err *e) {
  if (n_rows > m->opt.max_rows)
    return mt_err_set(e, MT_ERANGE, "a step of %zu rows, %zu at most", n_rows, m->opt.max_rows);
  mt_step s = {.m = m, .b = m->buf, .row = rows, .n = n_rows};
  mt_comm_stats before = mt_comm_get_stats(m->comm);
  uint64_t at[5] = {
      mt_clock_ns()}; /* start, embedded, layers done, head done; [4]: attention alone */
  int rc = embed_rows(&s, e);
  mt_forward_angles(&s);
  at[1] = mt_clock_ns();
  if (!rc) rc = run_layers(&s, &at[4], e);
  if (rc) return rc;
  const mt_layer *top = &m->layer[m->cfg.n_layers - 1];
  norm_job last = {
      .s = &s, .add = true, .add_bias = top->down_bias, .add_norm = top->post_ffn_norm};
  mt_team_run(m->team, norm_thread, &last);
  at[2] = mt_clock_ns();
  rc = head_rows(&s, sink, arg, e);
  at[3] = mt_clock_ns();
  count_step(&s, at, before);
  return rc;
}
