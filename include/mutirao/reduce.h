/* reduce: the exact all-reduce after O and down. Layer 3. Partial sums are integers, multiples of
 * each row's quantum (a power of two), so their sum does not depend on order, tree or library. */
#ifndef MUTIRAO_REDUCE_H
#define MUTIRAO_REDUCE_H

#include "mutirao/base.h"
#include "mutirao/comm.h"
#include "mutirao/cpu.h"
#include "mutirao/kernel.h"

typedef struct mt_reduce mt_reduce;

/* Exponent of the quantum for a residual row whose mean of squares is `mean_square`:
 * floor(log2(sqrt(mean_square))) − 32, from the exponent field alone and exact also where sqrt
 * would round up; for 0 −126 − 32. NaN, infinity and negative numbers give INT_MIN. */
int mt_reduce_quantum_exp(float mean_square);

/* Which way the numbers go. The bits are the same for each; docs/collectives.md says what is
 * fastest when. Among the ranks of a group: */
typedef enum mt_reduce_inside {
  MT_INSIDE_AUTO,      /* by size */
  MT_INSIDE_ONE_PHASE, /* everybody sums everything: one meeting */
  MT_INSIDE_TWO_PHASE  /* everybody sums a piece, then reads the others': two */
} mt_reduce_inside;
/* Among the leaders of several groups: */
typedef enum mt_reduce_between {
  MT_BETWEEN_AUTO,     /* by size and number of groups */
  MT_BETWEEN_DOUBLING, /* recursive doubling of the integers (Thakur, Rabenseifner, Gropp, 2005) */
  MT_BETWEEN_SCATTER   /* reduce-scatter of integers, all-gather of f32 (Rabenseifner, 2004) */
} mt_reduce_between;

/* What is done for a sum of n values: `asked`, or what the table says for so many ranks of a group,
 * or so many groups. */
mt_reduce_inside mt_reduce_choose_inside(mt_reduce_inside asked, int ranks, size_t n);
mt_reduce_between mt_reduce_choose_between(mt_reduce_between asked, int groups, size_t n);

/* The same on all ranks, but for team (NULL allowed: the caller's thread does it all) and kernels;
 * both must outlive the mt_reduce. */
typedef struct mt_reduce_options {
  mt_team *team;
  const mt_kernels *kernels;
  mt_reduce_inside inside;
  mt_reduce_between between;
} mt_reduce_options;

/* Buffers for rows of up to `max_rows` × `width` values; c must outlive it. MT_ENOMEM is agreed
 * upon. Collective (shared memory is set up here). */
int mt_reduce_new(mt_reduce **out, mt_comm *c, const mt_reduce_options *o, size_t max_rows,
                  size_t width, mt_err *e);
void mt_reduce_free(mt_reduce *r); /* NULL allowed; collective */
/* Bytes of them on one rank, where ranks that share memory form so many groups, if it leads its
 * group or not. False where they cannot be counted. Not collective. */
bool mt_reduce_bytes(size_t max_rows, size_t width, int groups, bool leads, size_t *bytes);
/* This rank's accumulator [n_rows][width] for the coming sum, which must be of so many rows; the
 * caller fills it. Another one for each sum: others may still read that of the last. */
int64_t *mt_reduce_acc(mt_reduce *r, size_t n_rows);

/* out [n_rows][width] f32 = (sum over ranks of acc) × 2^exp[row], rounded once to nearest even, the
 * same bits on every rank. `failed` is this rank's own finding (0: none; else a count of values
 * that were NaN, infinite or out of range). If any rank found one, a partial sum is beyond ±2^62 /
 * ranks (rounded down to a power of two, so that no sum can wrap), or exp is not within ±170, every
 * rank returns MT_ENUMERIC naming the lowest such rank and `where` (for example "layer 7, attention
 * output"); so it does, naming no rank, where a result is beyond f32. out is then undefined.
 * n_rows, exp and where are the same on all ranks. Collective. */
int mt_reduce_sum(mt_reduce *r, size_t n_rows, const int *exp, int failed, const char *where,
                  float *out, mt_err *e);

/* A step's sum in tiles of rows, so that messages between groups travel while the caller computes
 * another tile: fill mt_reduce_tile_acc, mt_reduce_begin, compute something else and now and then
 * mt_reduce_poll, mt_reduce_finish. The bits are those of mt_reduce_sum. One sum may be under way
 * at a time, and until it is finished nothing else is collective. mt_reduce_tiles: in how many
 * tiles n_rows rows are worth cutting (1: none; mt_reduce_sum then), the same on all ranks. */
size_t mt_reduce_tiles(const mt_reduce *r, size_t n_rows);
/* Accumulators of the tile that begins with this row of the step; its tiles must not overlap. */
int64_t *mt_reduce_tile_acc(mt_reduce *r, size_t first_row);
/* Arguments like mt_reduce_sum's, those of the tile; exp and out stay until it is finished. Only
 * between groups, and where the step is longer than mt_reduce_tiles asks. Collective. */
int mt_reduce_begin(mt_reduce *r, size_t first_row, size_t n_rows, const int *exp, int failed,
                    const char *where, float *out, mt_err *e);
void mt_reduce_poll(mt_reduce *r); /* moves messages on; by the thread that calls collectives */
/* Returns what mt_reduce_sum would; MT_OK where no sum is under way. Collective. */
int mt_reduce_finish(mt_reduce *r, mt_err *e);

#endif
