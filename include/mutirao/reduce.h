/* reduce: the exact all-reduce after O and down. Layer 3. Partial sums are integers, multiples of
 * each row's quantum (a power of two), so their sum does not depend on order, tree or library. */
#ifndef MUTIRAO_REDUCE_H
#define MUTIRAO_REDUCE_H

#include "mutirao/base.h"
#include "mutirao/comm.h"
#include "mutirao/cpu.h"

typedef struct mt_reduce mt_reduce;

/* Exponent of the quantum for a residual row whose mean of squares is `mean_square`:
 * floor(log2(sqrt(mean_square))) − 32, from the exponent field alone and exact also where sqrt
 * would round up; for 0 −126 − 32. NaN, infinity and negative numbers give INT_MIN. */
int mt_reduce_quantum_exp(float mean_square);

/* Buffers for rows of up to `max_rows` × `width` values; team may be NULL (the caller's thread does
 * it all) and must, like c, outlive it. MT_ENOMEM is agreed upon. Collective (shared memory is set
 * up here). */
int mt_reduce_new(mt_reduce **out, mt_comm *c, mt_team *team, size_t max_rows, size_t width,
                  mt_err *e);
void mt_reduce_free(mt_reduce *r); /* NULL allowed; collective */
/* This rank's accumulator [n_rows][width] in shared memory; the caller fills the first n_rows rows
 * before each sum. Its content is undefined after a sum. */
int64_t *mt_reduce_acc(mt_reduce *r);

/* out [n_rows][width] f32 = (sum over ranks of acc) × 2^exp[row], rounded once to nearest even, the
 * same bits on every rank. `failed` is this rank's own finding (0: none; else a count of values
 * that were NaN, infinite or out of range). If any rank found one, a partial sum is beyond ±2^62 /
 * ranks (rounded down to a power of two, so that no sum can wrap), exp is not within ±170, or a
 * result is beyond f32, every rank returns MT_ENUMERIC naming the lowest such rank and `where` (for
 * example "layer 7, attention output"); out is then undefined. n_rows, exp and where are the same
 * on all ranks. Within a group: two barriers and one pass over shared memory; between groups a
 * reduce-scatter of integers and an all-gather of f32 among the leaders (Rabenseifner, 2004).
 * Collective. */
int mt_reduce_sum(mt_reduce *r, size_t n_rows, const int *exp, int failed, const char *where,
                  float *out, mt_err *e);

#endif
