/* Passes over elements, by one thread or by the team. */
#include <string.h>

#include "reduce_impl.h"

enum {
  BLOCK = 512, /* elements summed at a time, so that they stay in the first cache */
  SUM_BITS = 62,
  TEAM_WORK = 32768, /* element additions from which threads are worth waking */
};

typedef struct pass {
  mt_sum *s;
  size_t begin, end;          /* elements */
  const int64_t *const *from; /* [n_from] what is summed, from element from_begin on */
  size_t n_from, from_begin;
  bool partial;     /* these are ranks' partial sums, of which one may be too large */
  float *to, *also; /* also: NULL, or a second place for the same */
  int pieces;
  size_t gap;
  _Atomic int32_t fault;
  void (*body)(struct pass *p, size_t begin, size_t end);
} pass;

size_t mt_piece_begin(size_t n, int p, int parts) {
  size_t begin, end, lines = n / LINE + (n % LINE != 0);
  if (p == parts) return n;
  mt_team_share(lines, p, parts, &begin, &end);
  return begin * LINE < n ? begin * LINE : n;
}

static void note_fault(pass *p, int32_t fault) {
  int32_t old = atomic_load(&p->fault);
  while (fault < old && !atomic_compare_exchange_weak(&p->fault, &old, fault)) continue;
}

static void pass_thread(void *arg, int thread, int n_threads) {
  pass *p = arg;
  size_t n = p->end - p->begin, begin = mt_piece_begin(n, thread, n_threads),
         end = mt_piece_begin(n, thread + 1, n_threads);
  if (begin < end) p->body(p, p->begin + begin, p->begin + end);
}

static void pass_run(pass *p, size_t work) {
  mt_team *team = p->s->r->opt.team;
  atomic_init(&p->fault, NO_FAULT);
  if (team && !p->s->alone && work >= TEAM_WORK)
    mt_team_run(team, pass_thread, p);
  else
    pass_thread(p, 0, 1);
  p->s->fault = mt_sooner(p->s->fault, atomic_load(&p->fault));
}

/* Some member's partial sum among [at, at + n) is too large. */
static void blame(pass *p, size_t at, size_t n) {
  const mt_reduce *r = p->s->r;
  _Alignas(64) int64_t sum[BLOCK];
  for (int m = 0; m < r->members; m++)
    if (!r->opt.kernels->sum_parts(p->from + m, 1, at, n, r->limit_bits, sum))
      note_fault(p, mt_comm_group_member(r->comm, m));
}

/* Sums of groups stay below 2^62 unless there is a fault already. */
static void sum_block(pass *p, size_t at, size_t n, int64_t *sum) {
  const mt_reduce *r = p->s->r;
  bool fits = r->opt.kernels->sum_parts(p->from, p->n_from, at - p->from_begin, n,
                                        p->partial ? r->limit_bits : SUM_BITS, sum);
  if (p->partial && !fits) blame(p, at, n);
}

static size_t block_size(size_t at, size_t end) {
  return end - at < BLOCK ? end - at : BLOCK;
}

static void body_sum(pass *p, size_t begin, size_t end) {
  _Alignas(64) int64_t sum[BLOCK];
  for (size_t at = begin, n; at < end; at += n) {
    n = block_size(at, end);
    sum_block(p, at, n, sum); /* not into total at once: that is one of the parts */
    memcpy(p->s->total + at, sum, n * sizeof *sum);
  }
}

static void body_sum_round(pass *p, size_t begin, size_t end) {
  const mt_reduce *r = p->s->r;
  _Alignas(64) int64_t sum[BLOCK];
  for (size_t at = begin, n; at < end; at += n) {
    size_t row = at / r->width, row_end = (row + 1) * r->width;
    n = block_size(at, end < row_end ? end : row_end);
    sum_block(p, at, n, sum);
    if (!r->opt.kernels->round_sums(sum, n, p->s->exp[row], p->to + at)) note_fault(p, TOO_LARGE);
    if (p->also) memcpy(p->also + at, p->to + at, n * sizeof *p->to);
  }
}

static void body_copy(pass *p, size_t begin, size_t end) {
  const mt_sum *s = p->s;
  for (int k = 0; k < p->pieces; k++) {
    size_t from = mt_piece_begin(s->n, k, p->pieces), to = mt_piece_begin(s->n, k + 1, p->pieces);
    const float *src = s->r->board + (size_t)k * p->gap;
    if (from < begin) from = begin;
    if (to > end) to = end;
    if (from < to) memcpy(s->out + from, src + from, (to - from) * sizeof *s->out);
  }
}

static pass of_parts(mt_sum *s, size_t begin, size_t end) {
  return (pass){.s = s,
                .begin = begin,
                .end = end,
                .from = s->part,
                .n_from = (size_t)s->r->members,
                .partial = true};
}

void mt_pass_sum(mt_sum *s, size_t begin, size_t end) {
  pass p = of_parts(s, begin, end);
  p.body = body_sum;
  pass_run(&p, (end - begin) * p.n_from);
}

void mt_pass_sum_round(mt_sum *s, size_t begin, size_t end, float *to, float *also) {
  pass p = of_parts(s, begin, end);
  p.body = body_sum_round;
  p.to = to;
  p.also = also;
  pass_run(&p, (end - begin) * p.n_from);
}

void mt_pass_add_round(mt_sum *s, size_t begin, size_t end, const int64_t *const *from,
                       size_t n_from, float *to) {
  pass p = {.s = s, .begin = begin, .end = end, .from = from, .n_from = n_from};
  p.from_begin = begin;
  p.to = to;
  p.body = body_sum_round;
  pass_run(&p, (end - begin) * n_from);
}

void mt_pass_add(mt_sum *s, const int64_t *incoming) {
  const int64_t *from[] = {s->total, incoming};
  pass p = {.s = s, .end = s->n, .from = from, .n_from = 2, .body = body_sum};
  pass_run(&p, 2 * s->n);
}

void mt_pass_copy(mt_sum *s, size_t begin, size_t end, int pieces, size_t gap) {
  pass p = {.s = s, .begin = begin, .end = end, .pieces = pieces, .gap = gap, .body = body_copy};
  pass_run(&p, end - begin);
}
