/* The exact all-reduce: buffers, and the order of things. Members of a group find each other's
 * accumulators in shared memory; a meeting of the group separates writing from reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce_impl.h"

enum {
  SHORT_BUFFERS = 2,
  LONG_BUFFER = 2,
  TILE = 3, /* begins within the long one */
  BUFFERS = 3,
  TILE_ROWS_LEAST = 32, /* weights are unpacked once for each tile */
};

/* ---- accumulators -------------------------------------------------------------------------- */

static int buffer_for(const mt_reduce *r, size_t n) {
  return n <= r->short_elems ? (int)(r->turn % SHORT_BUFFERS) : LONG_BUFFER;
}

/* One line more than its elements, for the fault that leaders send behind them. */
static size_t buffer_begin(const mt_reduce *r, int buffer) {
  return (size_t)buffer * (r->short_elems + LINE);
}

static int64_t *buffer_at(const mt_reduce *r, int member, int buffer) {
  return (int64_t *)mt_comm_window_at(r->window, member) + buffer_begin(r, buffer);
}

int64_t *mt_reduce_acc(mt_reduce *r, size_t n_rows) {
  return buffer_at(r, r->member, buffer_for(r, n_rows * r->width));
}

int64_t *mt_reduce_tile_acc(mt_reduce *r, size_t first_row) {
  return buffer_at(r, r->member, LONG_BUFFER) + first_row * r->width;
}

/* ---- the sum ------------------------------------------------------------------------------- */

static mt_reduce_inside inside(const mt_reduce *r, size_t n) {
  return mt_reduce_choose_inside(r->opt.inside, r->members, n);
}

static int meet(mt_sum *s, mt_err *e) {
  return mt_comm_group_meet(s->r->comm, s->fault, &s->fault, e);
}

/* Where the accumulators of this sum are those of the next: until everybody has read them. */
static int meet_after_reading(mt_sum *s, mt_err *e) {
  return s->lasting ? MT_OK : meet(s, e);
}

static void count(mt_reduce *r, size_t sent, size_t received) {
  mt_comm_add_stats(r->comm, (mt_comm_stats){.sent_bytes = sent, .received_bytes = received});
}

static int sum_one_phase(mt_sum *s, mt_err *e) {
  size_t read = s->n * sizeof(int64_t) * (size_t)(s->r->members - 1);
  mt_pass_sum_round(s, 0, s->n, s->out, NULL);
  count(s->r, read, read);
  return meet_after_reading(s, e);
}

static int sum_two_phase(mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  size_t begin = mt_piece_begin(s->n, r->member, r->members),
         mine = mt_piece_size(s->n, r->member, r->members), others = (size_t)(r->members - 1);
  mt_pass_sum_round(s, begin, begin + mine, r->board, s->out);
  count(r, (s->n - mine) * sizeof(int64_t) + mine * sizeof(float) * others,
        mine * sizeof(int64_t) * others + (s->n - mine) * sizeof(float));
  int rc = meet(s, e);
  if (rc) return rc;
  mt_pass_copy(s, 0, begin, 1, 0);
  mt_pass_copy(s, begin + mine, s->n, 1, 0);
  return MT_OK;
}

/* The group's sum in its leader's accumulator; the leader alone may go on. */
static int sum_to_leader(mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  size_t whole = s->n * sizeof(int64_t), others = (size_t)(r->members - 1);
  if (inside(r, s->n) == MT_INSIDE_ONE_PHASE) {
    if (r->member == 0) mt_pass_sum(s, 0, s->n);
    count(r, r->member ? whole : 0, r->member ? 0 : whole * others);
    return MT_OK;
  }
  size_t begin = mt_piece_begin(s->n, r->member, r->members),
         mine = mt_piece_size(s->n, r->member, r->members);
  mt_pass_sum(s, begin, begin + mine);
  count(r, whole - mine * sizeof(int64_t), mine * sizeof(int64_t) * others);
  return meet(s, e);
}

/* What the leader has, of so many bytes a value, is there for all. */
static int meet_leader(mt_sum *s, size_t bytes, mt_err *e) {
  mt_reduce *r = s->r;
  size_t read = s->n * bytes;
  int rc = meet(s, e);
  if (!rc) count(r, r->member ? 0 : read * (size_t)(r->members - 1), r->member ? read : 0);
  return rc;
}

/* Nobody returns while another still reads an accumulator, because all had to meet. */
static int share_board(mt_sum *s, mt_err *e) {
  int rc = meet_leader(s, sizeof(float), e);
  if (!rc) mt_pass_copy(s, 0, s->n, s->r->groups, LINE);
  return rc;
}

static int sum_groups(mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  bool doubling = mt_reduce_choose_between(r->opt.between, r->groups, s->n) == MT_BETWEEN_DOUBLING;
  int rc = sum_to_leader(s, e);
  if (!rc && r->member == 0) rc = doubling ? mt_between_doubling(s, e) : mt_between_scatter(s, e);
  if (rc) return rc;
  if (!doubling) return share_board(s, e);
  rc = meet_leader(s, sizeof(int64_t), e);
  if (rc) return rc;
  mt_pass_add_round(s, 0, s->n, (const int64_t *const[]){s->total}, 1, s->out);
  return meet_after_reading(s, e);
}

/* Whatever comes from `fn` and the collectives in it is counted once. */
static int timed(int (*fn)(mt_sum *, mt_err *), mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  uint64_t start = mt_clock_ns(), counted = mt_comm_get_stats(r->comm).ns;
  int rc = fn(s, e);
  counted = mt_comm_get_stats(r->comm).ns - counted;
  mt_comm_add_stats(r->comm, (mt_comm_stats){.ns = mt_clock_ns() - start - counted});
  return rc;
}

static int report(mt_reduce *r, int32_t fault, const char *where, mt_err *e) {
  if (fault >= TOO_LARGE)
    return mt_err_set(e, MT_ENUMERIC, "%s: the sum is too large for 32-bit floating point", where);
  return mt_err_set(e, MT_ENUMERIC,
                    "%s: rank %d on %s: a partial sum is not a number, infinite or too large",
                    where, (int)fault, mt_comm_rank_host(r->comm, fault));
}

static int whole_sum(mt_sum *s, mt_err *e) {
  int rc = meet(s, e);
  if (rc) return rc;
  if (s->r->groups > 1) return sum_groups(s, e);
  return inside(s->r, s->n) == MT_INSIDE_ONE_PHASE ? sum_one_phase(s, e) : sum_two_phase(s, e);
}

/* A sum over these rows; *s lacks its accumulators. */
static int prepare(mt_sum *s, mt_reduce *r, size_t first_row, size_t n_rows, const int *exp,
                   int failed, const char *where, float *out, mt_err *e) {
  if ((first_row + n_rows) * r->width > r->max_elems)
    return mt_err_set(e, MT_ERANGE, "%s: a sum of %zu rows is larger than announced", where,
                      first_row + n_rows);
  for (size_t i = 0; i < n_rows; i++)
    if (exp[i] < -EXP_LIMIT || exp[i] > EXP_LIMIT) failed = 1;
  *s = (mt_sum){.r = r,
                .n = n_rows * r->width,
                .exp = exp,
                .out = out,
                .fault = failed ? mt_comm_rank(r->comm) : NO_FAULT};
  mt_comm_add_stats(r->comm, (mt_comm_stats){.calls = 1});
  return MT_OK;
}

int mt_reduce_sum(mt_reduce *r, size_t n_rows, const int *exp, int failed, const char *where,
                  float *out, mt_err *e) {
  mt_sum s;
  int rc = prepare(&s, r, 0, n_rows, exp, failed, where, out, e);
  if (rc) return rc;
  int buffer = buffer_for(r, s.n);
  s.part = r->part + buffer * r->members;
  s.total = buffer_at(r, 0, buffer);
  s.lasting = buffer != LONG_BUFFER;
  rc = timed(whole_sum, &s, e);
  if (rc) return rc;
  r->turn++;
  return s.fault == NO_FAULT ? MT_OK : report(r, s.fault, where, e);
}

/* ---- the sum of a tile: begun, then finished ------------------------------------------------- */

size_t mt_reduce_tiles(const mt_reduce *r, size_t n_rows) {
  size_t n = n_rows * r->width;
  bool worth = r->groups > 1 && n_rows >= 2 * TILE_ROWS_LEAST && n > r->short_elems &&
               mt_reduce_choose_between(r->opt.between, r->groups, n / 2) == MT_BETWEEN_SCATTER;
  return worth ? 2 : 1;
}

static int begin_tile(mt_sum *s, mt_err *e) {
  int rc = meet(s, e);
  if (!rc) rc = sum_to_leader(s, e);
  return rc || s->r->member ? rc : mt_between_start(s, e);
}

int mt_reduce_begin(mt_reduce *r, size_t first_row, size_t n_rows, const int *exp, int failed,
                    const char *where, float *out, mt_err *e) {
  mt_sum *s = &r->tile;
  int rc = prepare(s, r, first_row, n_rows, exp, failed, where, out, e);
  if (rc) return rc;
  const int64_t **part = r->part + TILE * r->members;
  for (int m = 0; m < r->members; m++)
    part[m] = buffer_at(r, m, LONG_BUFFER) + first_row * r->width;
  s->part = part;
  s->total = buffer_at(r, 0, LONG_BUFFER) + first_row * r->width;
  snprintf(r->where, sizeof r->where, "%s", where);
  r->begun = true;
  return timed(begin_tile, s, e);
}

void mt_reduce_poll(mt_reduce *r) {
  bool done = false;
  if (!r->stage || r->broken) return;
  r->broken = mt_comm_leaders_poll(r->comm, &done, &r->fault);
  if (r->broken || !done) return;
  r->tile.alone = true;
  r->broken = mt_between_next(&r->tile, &r->fault);
  r->tile.alone = false;
}

static int finish_tile(mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  int rc = MT_OK;
  while (!rc && r->stage) {
    rc = mt_comm_leaders_wait(r->comm, e);
    if (!rc) rc = mt_between_next(s, e);
  }
  return rc ? rc : share_board(s, e);
}

int mt_reduce_finish(mt_reduce *r, mt_err *e) {
  if (!r->begun) return MT_OK;
  r->begun = false;
  if (r->broken) {
    if (e) *e = r->fault;
    return r->broken;
  }
  int rc = timed(finish_tile, &r->tile, e);
  if (rc) return rc;
  return r->tile.fault == NO_FAULT ? MT_OK : report(r, r->tile.fault, r->where, e);
}

/* ---- set-up -------------------------------------------------------------------------------- */

static unsigned limit_bits(int ranks) {
  unsigned bits = 62;
  for (int n = 1; n < ranks && bits > 32; n *= 2) bits--;
  return bits;
}

static int none(mt_err *e) {
  return mt_err_set(e, MT_ENOMEM, "no memory for a sum over ranks");
}

static int leader_buffers(mt_reduce *r, mt_err *e) {
  size_t groups = (size_t)r->groups;
  size_t **list[] = {&r->size, &r->offset, &r->size2, &r->offset2};
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
    if (!(*list[i] = mt_calloc(groups, sizeof(size_t)))) return none(e);
  r->from = mt_calloc(groups, sizeof *r->from);
  if (!r->from || !mt_size_mul(mt_between_incoming(r), sizeof(int64_t), &r->incoming_bytes))
    return none(e);
  r->incoming = mt_pages_alloc(r->incoming_bytes);
  return r->incoming ? MT_OK : none(e);
}

/* Two short accumulators, the long one (which a sum that fits the short ones never needs), the
 * board. */
static bool segment_bytes(const mt_reduce *r, size_t *board_begin, size_t *bytes) {
  size_t elems = buffer_begin(r, LONG_BUFFER), floats;
  if (r->max_elems > r->short_elems && !mt_size_add(elems, r->max_elems + LINE, &elems))
    return false;
  return mt_size_mul(elems, sizeof(int64_t), board_begin) &&
         mt_size_add(r->max_elems, ((size_t)r->groups + 1) * LINE, &floats) &&
         mt_size_mul(floats, sizeof(float), &floats) && mt_size_add(*board_begin, floats, bytes);
}

static bool measure(mt_reduce *r, size_t max_rows) {
  size_t elems;
  if (!r->width || !mt_size_mul(max_rows, r->width, &elems) || elems > SIZE_MAX / 64) return false;
  r->max_elems = (elems / LINE + 1) * LINE; /* whole lines: what lies behind stays aligned */
  r->short_elems = r->max_elems < SHORT_MOST ? r->max_elems : SHORT_MOST;
  return true;
}

bool mt_reduce_bytes(size_t max_rows, size_t width, int groups, bool leads, size_t *bytes) {
  mt_reduce r = {.width = width, .groups = groups};
  size_t board_begin, incoming = 0;
  if (!measure(&r, max_rows) || !segment_bytes(&r, &board_begin, bytes)) return false;
  if (groups > 1 && leads && !mt_size_mul(mt_between_incoming(&r), sizeof(int64_t), &incoming))
    return false;
  return mt_size_add(*bytes, incoming, bytes);
}

/* What can be known before there is memory; *bytes is what the window needs. */
static int plan(mt_reduce *r, size_t max_rows, size_t *board_begin, size_t *bytes, mt_err *e) {
  if (!measure(r, max_rows))
    return mt_err_set(e, MT_ERANGE, "a sum of %zu rows of %zu values", max_rows, r->width);
  if (!segment_bytes(r, board_begin, bytes))
    return mt_err_set(e, MT_ENOMEM, "a sum of %zu rows of %zu values", max_rows, r->width);
  r->part = mt_calloc((BUFFERS + 1) * (size_t)r->members, sizeof *r->part);
  if (!r->part) return none(e);
  return r->groups > 1 && r->member == 0 ? leader_buffers(r, e) : MT_OK;
}

int mt_reduce_new(mt_reduce **out, mt_comm *c, const mt_reduce_options *o, size_t max_rows,
                  size_t width, mt_err *e) {
  mt_err own = {0};
  size_t board_begin = 0, bytes = 0;
  *out = NULL;
  mt_reduce *r = mt_calloc(1, sizeof *r);
  int rc = r ? MT_OK : none(&own);
  if (r) {
    *r = (mt_reduce){.comm = c, .opt = *o, .width = width};
    r->members = mt_comm_group_size(c);
    r->member = mt_comm_group_rank(c);
    r->groups = mt_comm_groups(c);
    r->group = mt_comm_group(c);
    r->limit_bits = limit_bits(mt_comm_size(c));
    rc = plan(r, max_rows, &board_begin, &bytes, &own);
  }
  rc = mt_comm_agree(c, rc, &own);
  if (!rc) rc = mt_comm_window_new(&r->window, c, bytes, &own);
  if (rc) {
    mt_reduce_free(r);
    if (e) *e = own;
    return rc;
  }
  for (int b = 0; b < BUFFERS; b++)
    for (int m = 0; m < r->members; m++) r->part[b * r->members + m] = buffer_at(r, m, b);
  r->board = (float *)(void *)((char *)mt_comm_window_at(r->window, 0) + board_begin);
  *out = r;
  return MT_OK;
}

void mt_reduce_free(mt_reduce *r) {
  if (!r) return;
  mt_comm_window_free(r->window);
  mt_pages_free(r->incoming, r->incoming_bytes);
  free(r->part);
  free(r->from);
  free(r->size);
  free(r->offset);
  free(r->size2);
  free(r->offset2);
  free(r);
}
