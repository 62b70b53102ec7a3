/* The exact all-reduce. Elements are dealt in pieces of whole cache lines, to the members of the
 * group where there is one group, else to the groups. Whoever owns a piece sums it, rounds it, and
 * puts it on the board (in the leader's segment), followed by one word that says what went wrong;
 * from the board everybody copies. */
#include "mutirao/reduce.h"

#include <float.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
  LINE = 16,         /* elements: a cache line of f32 */
  BLOCK = 256,       /* elements summed at a time, so that they stay in the first cache */
  TEAM_WORK = 32768, /* element additions from which threads are worth waking */
  EXP_LIMIT = 170,   /* what mt_reduce_quantum_exp gives, and some more; see scaled() */
  QUANTUM_BITS = 32,
  LEAST_EXP = -126,
  TOO_LARGE = 1 << 30,  /* added to the rank where only the result is too large */
  NO_FAULT = INT32_MAX, /* no rank */
};

typedef struct head {
  _Alignas(64) int32_t failed; /* a member's own finding: written before the first barrier */
  int32_t fault;               /* what a member found: written before the second one */
} head;

struct mt_reduce {
  mt_comm *comm;
  mt_team *team;
  mt_comm_window *window;
  size_t max_elems, width;
  int pieces;          /* members of the only group, or groups */
  int piece;           /* the one that this rank, or its group, owns */
  int members, member; /* of the group, and this one */
  unsigned limit_bits; /* |partial sum| < 2^limit_bits */
  int64_t *gathered;   /* leaders of several groups: [groups][largest piece] */
  size_t gathered_bytes;
  size_t *size, *offset, *size2, *offset2; /* [groups] */
};

int mt_reduce_quantum_exp(float mean_square) {
  uint32_t bits;
  memcpy(&bits, &mean_square, sizeof bits);
  if (bits << 1 == 0) return LEAST_EXP - QUANTUM_BITS;
  int field = (int)(bits >> 23);
  if (field >= 255) return INT_MIN; /* infinite, NaN, or with the sign's bit */
  int exp = field - 127;
  if (!field) exp = 31 - __builtin_clz(bits) - 149; /* subnormal */
  return (exp >= 0 ? exp / 2 : -((1 - exp) / 2)) - QUANTUM_BITS;
}

/* ---- the pieces -------------------------------------------------------------------------- */

static size_t lines_of(size_t n) {
  return n / LINE + (n % LINE != 0);
}

/* First element of piece p of n elements. */
static size_t piece_begin(const mt_reduce *r, size_t n, int p) {
  size_t begin, end;
  if (p == r->pieces) return n;
  mt_team_share(lines_of(n), p, r->pieces, &begin, &end);
  return begin * LINE < n ? begin * LINE : n;
}
static size_t piece_size(const mt_reduce *r, size_t n, int p) {
  return piece_begin(r, n, p + 1) - piece_begin(r, n, p);
}
static size_t board_at(const mt_reduce *r, size_t n, int p) {
  return piece_begin(r, n, p) + (size_t)p * LINE;
}
static size_t largest_piece(const mt_reduce *r) {
  return (lines_of(r->max_elems) / (size_t)r->pieces + 1) * LINE;
}

static head *head_of(mt_reduce *r, int member) {
  return mt_comm_window_at(r->window, member);
}
static int64_t *acc_of(mt_reduce *r, int member) {
  return (int64_t *)(void *)((char *)mt_comm_window_at(r->window, member) + sizeof(head));
}
static float *board(mt_reduce *r) {
  return (float *)(void *)(acc_of(r, 0) + r->max_elems);
}

int64_t *mt_reduce_acc(mt_reduce *r) {
  return acc_of(r, r->member);
}

/* The word behind a piece has the size of an f32 but is an integer. */
static void write_word(mt_reduce *r, size_t n, int p, int32_t word) {
  memcpy(board(r) + board_at(r, n, p) + piece_size(r, n, p), &word, sizeof word);
}
static int32_t read_word(mt_reduce *r, size_t n, int p) {
  int32_t word;
  memcpy(&word, board(r) + board_at(r, n, p) + piece_size(r, n, p), sizeof word);
  return word;
}

/* ---- passes over elements, by one thread or by the team ---------------------------------- */

typedef struct pass {
  mt_reduce *r;
  size_t begin, end; /* elements */
  const int *exp;
  float *out;
  size_t n; /* elements of the whole sum */
  _Atomic int32_t fault;
  void (*body)(struct pass *p, size_t begin, size_t end);
} pass;

static void note_fault(pass *p, int32_t fault) {
  int32_t old = atomic_load(&p->fault);
  while (fault < old && !atomic_compare_exchange_weak(&p->fault, &old, fault)) continue;
}

static void pass_thread(void *arg, int thread, int n_threads) {
  pass *p = arg;
  size_t begin, end, n = p->end - p->begin;
  mt_team_share(lines_of(n), thread, n_threads, &begin, &end);
  begin = begin * LINE < n ? begin * LINE : n;
  end = end * LINE < n ? end * LINE : n;
  if (begin < end) p->body(p, p->begin + begin, p->begin + end);
}

static void pass_run(pass *p, size_t work) {
  if (p->r->team && work >= TEAM_WORK)
    mt_team_run(p->r->team, pass_thread, p);
  else
    pass_thread(p, 0, 1);
}

/* sum [n] += x [n], whole integers (wrapping); true if some |x| is not below 2^limit_bits. */
static bool add_checked(uint64_t *sum, const int64_t *x, size_t n, unsigned limit_bits) {
  uint64_t limit = 1ull << limit_bits, beyond = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t v = (uint64_t)x[i];
    beyond |= (v + limit) >> (limit_bits + 1);
    sum[i] += v;
  }
  return beyond != 0;
}

/* v × scale, rounded once: up to 2^53 double holds v exactly; above, the result (2^53 × 2^−170 or
 * more) is far from the subnormals, so that only the first rounding, of v, rounds. */
static float scaled(int64_t v, double scale) {
  bool exact = v <= (1ll << 53) && v >= -(1ll << 53);
  return (float)((exact ? (double)v : (double)(float)v) * scale);
}

static double power_of_two(int exp) {
  uint64_t bits = (uint64_t)(exp + 1023) << 52;
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}

/* out [n] = sum [n] × 2^exp of each element's row; `at` is the index of the first element. */
static bool round_block(const pass *p, const uint64_t *sum, size_t at, size_t n, float *out) {
  float most = 0;
  for (size_t i = 0; i < n;) {
    size_t row = (at + i) / p->r->width, row_end = (row + 1) * p->r->width - at;
    double scale = power_of_two(p->exp[row]);
    for (size_t end = row_end < n ? row_end : n; i < end; i++) {
      out[i] = scaled((int64_t)sum[i], scale);
      float size = out[i] < 0 ? -out[i] : out[i];
      most = size > most ? size : most;
    }
  }
  return most <= FLT_MAX;
}

/* Sums a block over the members. */
static void sum_members(pass *p, size_t at, size_t n, uint64_t *sum) {
  mt_reduce *r = p->r;
  memset(sum, 0, n * sizeof *sum);
  for (int m = 0; m < r->members; m++)
    if (add_checked(sum, acc_of(r, m) + at, n, r->limit_bits))
      note_fault(p, mt_comm_group_member(r->comm, m));
}

static size_t block_size(size_t at, size_t end) {
  return end - at < BLOCK ? end - at : BLOCK;
}

/* One group: sums and rounds onto the board. */
static void body_sum_round(pass *p, size_t begin, size_t end) {
  mt_reduce *r = p->r;
  uint64_t sum[BLOCK];
  float *to = board(r) + (size_t)r->piece * LINE; /* indexed by the element */
  for (size_t at = begin, n; at < end; at += n) {
    n = block_size(at, end);
    sum_members(p, at, n, sum);
    if (!round_block(p, sum, at, n, to + at)) note_fault(p, TOO_LARGE + mt_comm_rank(r->comm));
  }
}

/* Several groups: sums into the leader's accumulator. */
static void body_sum(pass *p, size_t begin, size_t end) {
  uint64_t sum[BLOCK];
  for (size_t at = begin, n; at < end; at += n) {
    n = block_size(at, end);
    sum_members(p, at, n, sum);
    memcpy(acc_of(p->r, 0) + at, sum, n * sizeof *sum);
  }
}

/* A leader: sums what the groups sent for this piece, and rounds. */
static void body_gathered(pass *p, size_t begin, size_t end) {
  mt_reduce *r = p->r;
  uint64_t sum[BLOCK];
  size_t first = p->begin, size = p->end - p->begin;
  float *to = board(r) + (size_t)r->piece * LINE;
  for (size_t at = begin, n; at < end; at += n) {
    n = block_size(at, end);
    memset(sum, 0, n * sizeof *sum);
    for (int g = 0; g < r->pieces; g++) {
      const int64_t *from = r->gathered + (size_t)g * size + (at - first);
      for (size_t i = 0; i < n; i++) sum[i] += (uint64_t)from[i];
    }
    if (!round_block(p, sum, at, n, to + at)) note_fault(p, TOO_LARGE + mt_comm_rank(r->comm));
  }
}

static void body_copy(pass *p, size_t begin, size_t end) {
  for (int k = 0; k < p->r->pieces; k++) {
    size_t from = piece_begin(p->r, p->n, k), to = piece_begin(p->r, p->n, k + 1);
    const float *src = board(p->r) + (size_t)k * LINE;
    if (from < begin) from = begin;
    if (to > end) to = end;
    if (from < to) memcpy(p->out + from, src + from, (to - from) * sizeof *p->out);
  }
}

/* ---- the sum ----------------------------------------------------------------------------- */

static int32_t sooner(int32_t a, int32_t b) {
  return a < b ? a : b;
}

/* What the members of the group said of themselves, and this pass found. */
static int32_t group_fault(mt_reduce *r, int32_t found) {
  for (int m = 0; m < r->members; m++)
    if (head_of(r, m)->failed) found = sooner(found, mt_comm_group_member(r->comm, m));
  return found;
}

static void count_shared(mt_reduce *r, size_t mine, size_t n) {
  uint64_t others = (uint64_t)(r->members - 1);
  mt_comm_stats more = {
      .sent_bytes = (n - mine) * sizeof(int64_t) + mine * sizeof(float) * others,
      .received_bytes = mine * sizeof(int64_t) * others + (n - mine) * sizeof(float)};
  if (others) mt_comm_add_stats(r->comm, more);
}

static int sum_one_group(mt_reduce *r, pass *p, mt_err *e) {
  p->begin = piece_begin(r, p->n, r->piece);
  p->end = piece_begin(r, p->n, r->piece + 1);
  p->body = body_sum_round;
  pass_run(p, (p->end - p->begin) * (size_t)r->members);
  write_word(r, p->n, r->piece, group_fault(r, atomic_load(&p->fault)));
  count_shared(r, p->end - p->begin, p->n);
  return mt_comm_group_meet(r->comm, 0, &(int32_t){0}, e);
}

/* Reduce-scatter of the groups' sums, then all-gather of the rounded pieces and their words. */
static int leaders_exchange(mt_reduce *r, pass *p, int32_t fault, mt_err *e) {
  size_t n = p->n, mine = piece_size(r, n, r->piece);
  for (int g = 0; g < r->pieces; g++) {
    r->size[g] = piece_size(r, n, g) * sizeof(int64_t);
    r->offset[g] = piece_begin(r, n, g) * sizeof(int64_t);
    r->size2[g] = mine * sizeof(int64_t);
    r->offset2[g] = (size_t)g * mine * sizeof(int64_t);
  }
  int rc = mt_comm_leaders_alltoallv(r->comm, acc_of(r, 0), r->size, r->offset, r->gathered,
                                     r->size2, r->offset2, e);
  if (rc) return rc;
  p->begin = piece_begin(r, n, r->piece);
  p->end = p->begin + mine;
  p->body = body_gathered;
  pass_run(p, mine * (size_t)r->pieces);
  write_word(r, n, r->piece, sooner(fault, atomic_load(&p->fault)));
  for (int g = 0; g < r->pieces; g++) {
    r->size[g] = (mine + 1) * sizeof(float);
    r->offset[g] = board_at(r, n, r->piece) * sizeof(float);
    r->size2[g] = (piece_size(r, n, g) + 1) * sizeof(float);
    r->offset2[g] = board_at(r, n, g) * sizeof(float);
  }
  return mt_comm_leaders_alltoallv(r->comm, board(r), r->size, r->offset, board(r), r->size2,
                                   r->offset2, e);
}

static int sum_groups(mt_reduce *r, pass *p, mt_err *e) {
  size_t begin, end;
  mt_team_share(lines_of(p->n), r->member, r->members, &begin, &end);
  p->begin = begin * LINE < p->n ? begin * LINE : p->n;
  p->end = end * LINE < p->n ? end * LINE : p->n;
  p->body = body_sum;
  pass_run(p, (p->end - p->begin) * (size_t)r->members);
  head_of(r, r->member)->fault = group_fault(r, atomic_load(&p->fault));
  count_shared(r, p->end - p->begin, p->n);
  int rc = mt_comm_group_meet(r->comm, 0, &(int32_t){0}, e);
  if (rc) return rc;
  int32_t fault = NO_FAULT;
  for (int m = 0; m < r->members; m++) fault = sooner(fault, head_of(r, m)->fault);
  if (r->member == 0) rc = leaders_exchange(r, p, fault, e);
  return rc ? rc : mt_comm_group_meet(r->comm, 0, &(int32_t){0}, e);
}

static int report(mt_reduce *r, int32_t fault, const char *where, mt_err *e) {
  int rank = fault % TOO_LARGE;
  return mt_err_set(e, MT_ENUMERIC, "%s: rank %d on %s: %s", where, rank,
                    mt_comm_rank_host(r->comm, rank),
                    fault >= TOO_LARGE ? "the sum is too large for 32-bit floating point"
                                       : "a partial sum is not a number, infinite or too large");
}

int mt_reduce_sum(mt_reduce *r, size_t n_rows, const int *exp, int failed, const char *where,
                  float *out, mt_err *e) {
  uint64_t start = mt_clock_ns(), inside = mt_comm_get_stats(r->comm).ns;
  size_t n = n_rows * r->width;
  if (n > r->max_elems)
    return mt_err_set(e, MT_ERANGE, "%s: a sum of %zu rows is larger than announced", where,
                      n_rows);
  pass p = {.r = r, .exp = exp, .out = out, .n = n, .end = n};
  atomic_init(&p.fault, NO_FAULT);
  for (size_t i = 0; i < n_rows; i++)
    if (exp[i] < -EXP_LIMIT || exp[i] > EXP_LIMIT) failed = 1;
  head_of(r, r->member)->failed = failed;
  int rc = mt_comm_group_meet(r->comm, 0, &(int32_t){0}, e);
  if (!rc) rc = mt_comm_groups(r->comm) == 1 ? sum_one_group(r, &p, e) : sum_groups(r, &p, e);
  if (rc) return rc;
  int32_t fault = NO_FAULT;
  for (int k = 0; k < r->pieces; k++) fault = sooner(fault, read_word(r, n, k));
  p.begin = 0;
  p.end = n;
  p.body = body_copy;
  pass_run(&p, n);
  inside = mt_comm_get_stats(r->comm).ns - inside;
  mt_comm_add_stats(r->comm, (mt_comm_stats){.ns = mt_clock_ns() - start - inside});
  return fault == NO_FAULT ? MT_OK : report(r, fault, where, e);
}

/* ---- set-up ------------------------------------------------------------------------------ */

static unsigned limit_bits(int ranks) {
  unsigned bits = 62;
  for (int n = 1; n < ranks && bits > 32; n *= 2) bits--;
  return bits;
}

static int leader_buffers(mt_reduce *r, mt_err *e) {
  size_t groups = (size_t)r->pieces, elems;
  size_t **list[] = {&r->size, &r->offset, &r->size2, &r->offset2};
  for (size_t i = 0; i < 4; i++)
    if (!(*list[i] = mt_calloc(groups, sizeof(size_t)))) goto none;
  if (!mt_size_mul(largest_piece(r), groups, &elems) ||
      !mt_size_mul(elems, sizeof *r->gathered, &r->gathered_bytes))
    goto none;
  r->gathered = mt_pages_alloc(r->gathered_bytes);
  if (r->gathered) return MT_OK;
none:
  return mt_err_set(e, MT_ENOMEM, "no memory to sum %zu values over %zu nodes", r->max_elems,
                    groups);
}

static bool segment_bytes(const mt_reduce *r, size_t *bytes) {
  size_t acc, floats;
  return mt_size_mul(r->max_elems, sizeof(int64_t), &acc) &&
         mt_size_add(r->max_elems, ((size_t)r->pieces + 1) * LINE, &floats) &&
         mt_size_mul(floats, sizeof(float), &floats) && mt_size_add(acc, floats, bytes) &&
         mt_size_add(*bytes, sizeof(head), bytes);
}

int mt_reduce_new(mt_reduce **out, mt_comm *c, mt_team *team, size_t max_rows, size_t width,
                  mt_err *e) {
  mt_err own = {0};
  size_t elems, bytes = 0;
  *out = NULL;
  mt_reduce *r = mt_calloc(1, sizeof *r);
  int rc = r ? MT_OK : mt_err_set(&own, MT_ENOMEM, "no memory for a sum over ranks");
  if (r) {
    int groups = mt_comm_groups(c);
    *r = (mt_reduce){.comm = c, .team = team, .width = width};
    r->members = mt_comm_group_size(c);
    r->member = mt_comm_group_rank(c);
    r->pieces = groups > 1 ? groups : r->members;
    r->piece = groups > 1 ? mt_comm_group(c) : r->member;
    r->limit_bits = limit_bits(mt_comm_size(c));
    if (!width || !mt_size_mul(max_rows, width, &elems))
      rc = mt_err_set(&own, MT_ERANGE, "a sum of %zu rows of %zu values", max_rows, width);
    else
      r->max_elems = lines_of(elems) * LINE; /* whole lines: the board behind stays aligned */
    if (!rc && !segment_bytes(r, &bytes))
      rc = mt_err_set(&own, MT_ENOMEM, "a sum of %zu rows of %zu values", max_rows, width);
    if (!rc && groups > 1 && r->member == 0) rc = leader_buffers(r, &own);
  }
  rc = mt_comm_agree(c, rc, &own);
  if (!rc) rc = mt_comm_window_new(&r->window, c, bytes, &own);
  if (rc) {
    mt_reduce_free(r);
    if (e) *e = own;
    return rc;
  }
  *out = r;
  return MT_OK;
}

void mt_reduce_free(mt_reduce *r) {
  if (!r) return;
  mt_comm_window_free(r->window);
  mt_pages_free(r->gathered, r->gathered_bytes);
  free(r->size);
  free(r->offset);
  free(r->size2);
  free(r->offset2);
  free(r);
}
