/* Shared by the files of this module only. */
#ifndef MT_SAMPLE_INTERNAL_H
#define MT_SAMPLE_INTERNAL_H

#include <math.h> /* INFINITY and NAN only; no function of libm */

#include "mutirao/sample.h"
#include "mutirao/shard.h"

/* Ids are softmaxed in blocks as the vocabulary is dealt to ranks (DESIGN section 1). */
enum { BLOCK = MT_LOGIT_BLOCK, CHAINS = 8 };
_Static_assert((int)MT_LOGIT_BLOCK == (int)MT_VOCAB_BLOCK, "logits are summed as they are dealt");

/* A token with the value that it is ranked by. */
typedef mt_candidate item;

/* Total order: the higher value first, then the lower id. */
static inline bool item_before(const item *a, const item *b) {
  return a->logprob > b->logprob || (a->logprob == b->logprob && a->id < b->id);
}

/* A binary heap. mt_sample_heap_pop takes off the first n times in O(log n); mt_sample_heap_make is
 * O(n). `last` reverses the order. */
void mt_sample_heap_sift(item *h, size_t n, size_t i, bool last);
void mt_sample_heap_make(item *h, size_t n, bool last);
item mt_sample_heap_pop(item *h, size_t *n, bool last);
/* h [k] ← the first k of x [n], 1 ≤ k ≤ n, as a heap with the last of them on top. */
void mt_sample_heap_select(item *h, size_t k, const item *x, size_t n);

/* The softmax's maximum and its sum relative to it. */
typedef struct norm {
  double max, sum;
} norm;
/* Merges the next n blocks (ascending), with their maxima (finite) and sums, into the total; start
 * from {−inf, 0}. */
void mt_sample_norm_merge(const mt_kernels *kn, norm *total, const double *max, const double *sum,
                          size_t n);
/* sum[b] ← e[b][0] + … + e[b][BLOCK − 1] in this order, for n ≤ CHAINS blocks: one chain of
 * additions each, side by side, since each waits for the addition before. */
void mt_sample_sum_blocks(const double *const *e, size_t n, double *sum);

/* What one sequence has seen: a set of ids with counts. */
typedef struct seen {
  uint32_t id;
  uint32_t generated; /* times in the output; 0: in the prompt only */
} seen;
typedef struct history {
  seen *entry; /* [n] */
  size_t n, cap;
  uint32_t *slot; /* [n_slots] index into entry + 1, or 0; open addressing */
  size_t n_slots; /* a power of two, at least twice cap; or 0 */
} history;
int mt_sample_history_add(history *h, uint32_t id, bool generated);
int mt_sample_history_copy(history *to, const history *from);
void mt_sample_history_clear(history *h);
void mt_sample_history_free(history *h);

/* Scratch for one choice (row.c). The candidates are the tokens of live blocks whose value is above
 * −infinity. A filter costs what blocks are live; of a peaked distribution few stay so. */
typedef struct scratch {
  const mt_kernels *kn;
  size_t refs, vocab, n_blocks;
  double *value;  /* [n_blocks][BLOCK] by id; −infinity: not possible, or no longer */
  double *e;      /* as value: e^(value − base of the block); after mt_sample_row_softmax */
  double *key;    /* as value: what typical sampling ranks by */
  item *heap;     /* [vocab] */
  uint32_t *live; /* [n_live] blocks with candidates, ascending */
  size_t n_live;
  double *max;   /* [n_blocks] of value; NaN: to be found by mt_sample_row_refresh */
  double *base;  /* [n_blocks] the max that e is relative to; NaN: e is to be computed */
  double *sum;   /* [n_blocks] of e; NaN: to be computed, as where e is */
  double *share; /* [n_blocks] the probability of a token is e × share */
} scratch;

scratch *mt_sample_scratch_new(const mt_kernels *kn, size_t vocab); /* NULL: no memory */
void mt_sample_scratch_release(scratch *w);                         /* one of w->refs */

/* Candidates ← logits [vocab]. MT_ENUMERIC as mt_sampler_choose says. */
int mt_sample_row_load(scratch *w, const float *logits, mt_err *e);
int mt_sample_row_load_f64(scratch *w, const double *logits, mt_err *e);
/* After values were changed and max of their blocks made NaN. MT_ENUMERIC where none is left. */
int mt_sample_row_refresh(scratch *w, mt_err *e);
/* sum ← that of e, of n ≤ CHAINS blocks. */
void mt_sample_row_sum(scratch *w, const uint32_t *live, size_t n);
/* e, sum and share of live blocks from the values. */
norm mt_sample_row_softmax(scratch *w);
/* After mt_sample_row_softmax; nats. */
double mt_sample_row_entropy(const scratch *w, norm z);
double mt_sample_row_max(const scratch *w);
/* mt_sample_draw's id. After mt_sample_row_softmax. */
uint32_t mt_sample_row_draw(const scratch *w, double u);

/* Sums of probabilities reach p when they come this near: a p that the exact sum meets must not
 * depend on rounding. */
#define MT_SAMPLE_REACHED 1e-12
/* The shortest prefix of the candidates by key (w->value or w->key), the highest first, ties by
 * ascending id, whose weights reach `target`: its last token (cut.c). Weights are probabilities,
 * or, if `counted`, 1. At least one token; all where their sum stays below. The caller knows that
 * the prefix ends at keys from `lo` on, and `hi`, the highest; both finite. */
item mt_sample_cut(scratch *w, const double *key, double lo, double hi, bool counted,
                   double target);
/* mt_sample_cut for the most probable tokens that together have p. After mt_sample_row_softmax. */
item mt_sample_cut_nucleus(scratch *w, norm z, double p);

/* Filters; each leaves at least one token. */
void mt_sample_filter_temperature(scratch *w, double temperature);
void mt_sample_filter_top_k(scratch *w, size_t k);
void mt_sample_filter_top_p(scratch *w, double p);
void mt_sample_filter_min_p(scratch *w, double share);
void mt_sample_filter_typical_p(scratch *w, double p);
void mt_sample_filter_greedy(scratch *w);

#endif
