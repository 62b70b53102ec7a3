/* What the files of reduce share: reduce (buffers, and the order of things), choose (the table of
 * algorithms), pass (work on elements), between (leaders of several groups). */
#ifndef MUTIRAO_REDUCE_IMPL_H
#define MUTIRAO_REDUCE_IMPL_H

#include <stdatomic.h>

#include "mutirao/reduce.h"

enum {
  LINE = 16,            /* elements: a cache line of f32; pieces are cut at multiples of it */
  SHORT_MOST = 16384,   /* elements of a sum that has accumulators of its own */
  EXP_LIMIT = 170,      /* what mt_reduce_quantum_exp gives, and some more */
  TOO_LARGE = 1 << 30,  /* a fault: the result is beyond f32; else a fault is the rank's */
  NO_FAULT = INT32_MAX, /* no rank */
};

/* What travels between the leaders. */
typedef enum mt_stage { MT_STAGE_NONE, MT_STAGE_INTEGERS, MT_STAGE_FLOATS } mt_stage;

/* A sum under way. */
typedef struct mt_sum {
  mt_reduce *r;
  size_t n; /* elements */
  const int *exp;
  float *out;
  const int64_t *const *part; /* [members] */
  int64_t *total;             /* the leader's part, which becomes the group's sum, then all groups'.
                                 Element n carries the fault from leader to leader */
  int32_t fault;              /* the least that this rank knows of */
  bool lasting; /* the accumulators are not taken again for the next sum: no need to wait until all
                   have read them */
  bool alone;   /* the team is busy: the caller's thread does it all */
} mt_sum;

struct mt_reduce {
  mt_comm *comm;
  mt_reduce_options opt;
  mt_comm_window *window;
  size_t width, max_elems;
  size_t short_elems;  /* up to so many, a sum takes the two short accumulators in turn */
  int members, member; /* of the group, and this one */
  int groups, group;
  unsigned limit_bits;   /* |partial sum| < 2^limit_bits */
  unsigned turn;         /* sums so far */
  const int64_t **part;  /* [4][members]: two short accumulators, the long one, that of `tile` */
  float *board;          /* in the leader's segment: rounded pieces for all */
  int64_t *incoming;     /* a leader's, of several groups: what others send */
  size_t incoming_bytes; /* 0: not one of those */
  const int64_t **from;  /* [groups] */
  size_t *size, *offset, *size2, *offset2; /* [groups] */

  mt_stage stage;
  bool begun; /* `tile`, and what it is called */
  mt_sum tile;
  char where[80];
  int broken; /* what a poll met; its text is in fault */
  mt_err fault;
};

static inline int32_t mt_sooner(int32_t a, int32_t b) {
  return a < b ? a : b;
}

/* ---- pass ---------------------------------------------------------------------------------- */

/* First element of part p of `parts`, for n elements; n for p = parts. */
size_t mt_piece_begin(size_t n, int p, int parts);
static inline size_t mt_piece_size(size_t n, int p, int parts) {
  return mt_piece_begin(n, p + 1, parts) - mt_piece_begin(n, p, parts);
}

/* Each takes the elements [begin, end), by the team where that is worth it, and notes faults. */
void mt_pass_sum(mt_sum *s, size_t begin, size_t end); /* total = sum of the parts */
/* to [end], indexed like the elements = sum of the parts, rounded; and the same to `also`, where it
 * is not NULL. */
void mt_pass_sum_round(mt_sum *s, size_t begin, size_t end, float *to, float *also);
/* The same with what n_from groups have for these elements: from[i] [end − begin]. */
void mt_pass_add_round(mt_sum *s, size_t begin, size_t end, const int64_t *const *from,
                       size_t n_from, float *to);
void mt_pass_add(mt_sum *s, const int64_t *incoming); /* total += incoming [n] */
/* out = the board, of which n elements are cut into `pieces`, each `gap` elements further than the
 * last. */
void mt_pass_copy(mt_sum *s, size_t begin, size_t end, int pieces, size_t gap);

/* ---- between: leaders only, s->total is the group's sum ------------------------------------ */

size_t mt_between_incoming(const mt_reduce *r); /* elements that r->incoming must have */
/* total becomes that of all groups. */
int mt_between_doubling(mt_sum *s, mt_err *e);
/* The board receives the rounded sum, in pieces one line apart, one for each group. By stages: each
 * call of next does what is to be done when the messages of r->stage have come. */
int mt_between_scatter(mt_sum *s, mt_err *e);
int mt_between_start(mt_sum *s, mt_err *e);
int mt_between_next(mt_sum *s, mt_err *e);

#endif
