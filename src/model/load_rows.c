/* Row-parallel tensors of several ranks: of each row a rank needs less than a page, so ranks read
 * whole rows and exchange the pieces, round by round. Ranks that share memory read into it, and
 * everybody packs from there; else the pieces go as messages. */
#include <stdlib.h>
#include <string.h>

#include "load.h"

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

/* One tensor. A round is `per_round` rows from `base` on, of which every rank reads a share. */
typedef struct rows_job {
  mt_loader *l;
  mt_matrix *mat;
  const mt_tensor_info *t;
  int n_ranks, rank;
  size_t n_rows, row_bytes, per_round;
  slice *slice;         /* [n_ranks] */
  const uint8_t **row;  /* [per_round]: where this rank's slice of each row of the round lies */
  size_t base, end;     /* of the round */
  uint8_t *own;         /* rows that this rank reads, one after the other */
  uint8_t *send, *recv; /* messages: slices, rank after rank */
  size_t *send_bytes, *send_offset, *recv_bytes, *recv_offset; /* [n_ranks] each */
} rows_job;

static void share_of(const rows_job *j, int rank, size_t *begin, size_t *end) {
  mt_team_share(j->end - j->base, rank, j->n_ranks, begin, end);
}

static int find_slices(rows_job *j, bool heads, mt_err *e) {
  mt_model *m = j->l->m;
  for (int r = 0; r < j->n_ranks; r++) {
    mt_shard s;
    int rc = mt_shard_plan(&m->dims, (uint32_t)j->n_ranks, (uint32_t)r, &s, e);
    if (rc) return rc;
    mt_range k = s.ffn;
    if (heads) k = (mt_range){s.heads.begin * m->cfg.head_dim, s.heads.end * m->cfg.head_dim};
    j->slice[r] = slice_of(j->t->type, k);
  }
  return MT_OK;
}

/* ---- threads ----------------------------------------------------------------------------- */

/* A byte in each page, so that the panels that a thread will read lie in its NUMA domain: a round
 * is packed by whichever thread. */
static void touch_thread(void *arg, int thread, int n_threads) {
  enum { PAGE = 4096 };
  const mt_matrix *m = ((const rows_job *)arg)->mat;
  size_t begin, end;
  mt_team_share(m->n_panels, thread, n_threads, &begin, &end);
  for (size_t at = begin * m->panel_bytes; at < end * m->panel_bytes; at += PAGE)
    *(volatile uint8_t *)(m->data + at) = 0;
}

/* Every rank's slices of rows [begin, end) of the own share go where they are sent from. */
static void gather_slices(const rows_job *j, size_t begin, size_t end) {
  for (int r = 0; r < j->n_ranks; r++) {
    size_t n = j->slice[r].bytes;
    const uint8_t *from = j->own + begin * j->row_bytes + j->slice[r].begin;
    uint8_t *to = j->send + j->send_offset[r] + begin * n;
    for (size_t i = begin; n && i < end; i++, to += n, from += j->row_bytes) memcpy(to, from, n);
  }
}

/* This rank's share of the round, shared out among the threads. */
static void read_thread(void *arg, int thread, int n_threads) {
  rows_job *j = arg;
  size_t first, last, begin, end;
  share_of(j, j->rank, &first, &last);
  mt_team_share(last - first, thread, n_threads, &begin, &end);
  if (begin == end || atomic_load(&j->l->failed)) return;
  mt_err e = {0};
  int rc = mt_weights_read(j->l->m->weights, j->t, (j->base + first + begin) * j->row_bytes,
                           (end - begin) * j->row_bytes, j->own + begin * j->row_bytes, &e);
  if (rc) mt_loader_fail(j->l, rc, &e);
  if (j->send) gather_slices(j, begin, end);
  mt_loader_advance(j->l, thread, (end - begin) * j->row_bytes);
}

/* The round's panels, shared out among the threads. */
static void pack_thread(void *arg, int thread, int n_threads) {
  const rows_job *j = arg;
  size_t n = j->end - j->base, begin, end;
  mt_team_share((n + MT_PANEL_ROWS - 1) / MT_PANEL_ROWS, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    const void *row[MT_PANEL_ROWS] = {0};
    for (size_t k = 0, at = i * MT_PANEL_ROWS; k < MT_PANEL_ROWS && at < n; k++, at++)
      row[k] = j->row[at];
    mt_matrix_pack_panel(j->mat, j->base / MT_PANEL_ROWS + i, row, j->slice[j->rank].skip);
  }
}

/* This rank's slices of what rank r read lie `stride` bytes apart from `from` on. */
static void point_to(rows_job *j, int r, const uint8_t *from, size_t stride) {
  size_t first, last;
  share_of(j, r, &first, &last);
  for (size_t i = first; i < last; i++, from += stride) j->row[i] = from;
}

/* ---- in shared memory -------------------------------------------------------------------- */

/* The halves of the segments take turns: what is read into one does not disturb those who still
 * pack from the other, and a barrier a round is enough. */
static int round_shared(rows_job *j, mt_err *e) {
  mt_loader *l = j->l;
  size_t half = l->turn ? l->window_bytes : 0;
  l->turn = !l->turn;
  j->own = (uint8_t *)mt_comm_window_at(l->window, j->rank) + half;
  mt_team_run(l->m->team, read_thread, j);
  for (int r = 0; r < j->n_ranks; r++) {
    const uint8_t *theirs = (const uint8_t *)mt_comm_window_at(l->window, r) + half;
    point_to(j, r, theirs + j->slice[j->rank].begin, j->row_bytes);
  }
  int32_t unused;
  return mt_comm_group_meet(l->m->comm, 0, &unused, e);
}

/* ---- as messages ------------------------------------------------------------------------- */

static int round_messages(rows_job *j, mt_err *e) {
  size_t first, last, sent = 0, received = 0, own = j->slice[j->rank].bytes;
  share_of(j, j->rank, &first, &last);
  for (int r = 0; r < j->n_ranks; r++) {
    size_t begin, end;
    share_of(j, r, &begin, &end);
    j->send_offset[r] = sent;
    j->recv_offset[r] = received;
    sent += j->send_bytes[r] = (last - first) * j->slice[r].bytes;
    received += j->recv_bytes[r] = (end - begin) * own;
    point_to(j, r, j->recv + j->recv_offset[r], own);
  }
  mt_team_run(j->l->m->team, read_thread, j);
  return mt_comm_alltoallv(j->l->m->comm, j->send, j->send_bytes, j->send_offset, j->recv,
                           j->recv_bytes, j->recv_offset, e);
}

/* Room for a round: rows as read, slices to send, slices received. */
static int new_areas(rows_job *j, mt_err *e) {
  size_t share = (j->per_round + (size_t)j->n_ranks - 1) / (size_t)j->n_ranks, slices = 0;
  for (int r = 0; r < j->n_ranks; r++) slices += j->slice[r].bytes;
  j->send_bytes = mt_calloc(4 * (size_t)j->n_ranks, sizeof *j->send_bytes);
  j->own = mt_malloc(share * (j->row_bytes + slices) + j->per_round * j->slice[j->rank].bytes, 1);
  if (!j->send_bytes || !j->own)
    return mt_err_set(e, MT_ENOMEM, "no memory to exchange %s", j->t->name);
  j->send_offset = j->send_bytes + j->n_ranks;
  j->recv_bytes = j->send_offset + j->n_ranks;
  j->recv_offset = j->recv_bytes + j->n_ranks;
  j->send = j->own + share * j->row_bytes;
  j->recv = j->send + share * slices;
  return MT_OK;
}

/* ---- a tensor ---------------------------------------------------------------------------- */

static int new_job(rows_job *j, bool heads, mt_err *e) {
  size_t n = (size_t)j->n_ranks;
  j->per_round = mt_load_round_rows(j->row_bytes, n, j->l->window != NULL);
  j->slice = mt_calloc(n, sizeof *j->slice);
  j->row = mt_malloc(j->per_round, sizeof *j->row);
  if (!j->slice || !j->row) return mt_err_set(e, MT_ENOMEM, "no memory to exchange %s", j->t->name);
  int rc = find_slices(j, heads, e);
  return rc || j->l->window ? rc : new_areas(j, e);
}

static void free_job(rows_job *j) {
  if (!j->l->window) free(j->own);
  free(j->slice);
  free(j->row);
  free(j->send_bytes);
}

/* A rank that cannot read goes on with the exchange, so that the others do not hang, and reports
 * it after. */
int mt_load_rows(mt_loader *l, const mt_load_group *g, mt_err *e) {
  mt_model *m = l->m;
  const mt_tensor_info *t = g->part[0].t;
  rows_job j = {.l = l,
                .mat = g->part[0].m,
                .t = t,
                .n_ranks = mt_comm_size(m->comm),
                .rank = mt_comm_rank(m->comm),
                .n_rows = t->shape.dim[0],
                .row_bytes = mt_dtype_row_bytes(t->type, t->shape.dim[1])};
  int rc = mt_comm_agree(m->comm, new_job(&j, g->heads, e), e);
  if (!rc) mt_team_run(m->team, touch_thread, &j);
  for (; !rc && j.base < j.n_rows; j.base = j.end) {
    j.end = j.n_rows - j.base < j.per_round ? j.n_rows : j.base + j.per_round;
    rc = l->window ? round_shared(&j, e) : round_messages(&j, e);
    if (!rc && j.slice[j.rank].bytes) mt_team_run(m->team, pack_thread, &j);
  }
  free_job(&j);
  return rc ? rc : mt_comm_agree(m->comm, mt_loader_outcome(l, e), e);
}

/* ---- how much at a time ------------------------------------------------------------------ */

size_t mt_load_round_rows(size_t row_bytes, size_t n_ranks, bool shared) {
  size_t rows = shared ? MT_LOAD_ROUND_BYTES / row_bytes
                       : (MT_LOAD_ROUND_BYTES / 2 / row_bytes + 1) * n_ranks;
  rows = rows / MT_PANEL_ROWS * MT_PANEL_ROWS;
  return rows ? rows : MT_PANEL_ROWS;
}
