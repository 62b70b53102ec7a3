/* reduce: the exact all-reduce after O and down. Layer 3. Partial sums are integers, multiples of each row's quantum
 * (a power of two), so their sum does not depend on order, tree or library. */
#ifndef MUTIRAO_REDUCE_H
#define MUTIRAO_REDUCE_H

#include "mutirao/base.h"
#include "mutirao/comm.h"
#include "mutirao/cpu.h"

typedef struct mt_reduce mt_reduce;

/* Exponent of the quantum for a residual row whose mean of squares is `mean_square`: the exponent field of
 * sqrt(mean_square), less 32; a floor of −126 − 32 … for 0. Exact; no logf. NaN or infinity gives INT_MIN. */
int mt_reduce_quantum_exp(float mean_square);

/* Buffers for rows of up to `max_rows` × `width` values. Collective (shared memory is set up here). */
int mt_reduce_new(mt_reduce **out, mt_comm *c, mt_team *team, size_t max_rows, size_t width, mt_err *e);
void mt_reduce_free(mt_reduce *r); /* collective */
/* This rank's accumulator [max_rows][width]; the caller fills the first n_rows rows before each sum. */
int64_t *mt_reduce_acc(mt_reduce *r);

/* out [n_rows][width] f32 = (sum over ranks of acc) × 2^exp[row], rounded once, the same bits on every rank.
 * `failed` is this rank's own finding (0: none; else a count of values that were NaN, infinite or out of range); if
 * any rank found one, or a sum does not fit, every rank returns MT_ENUMERIC naming the lowest such rank and `where`
 * (for example "layer 7, attention output"). Collective. */
int mt_reduce_sum(mt_reduce *r, size_t n_rows, const int *exp, int failed, const char *where, float *out, mt_err *e);

#endif
