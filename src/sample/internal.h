/* Shared by the files of this module only. */
#ifndef MT_SAMPLE_INTERNAL_H
#define MT_SAMPLE_INTERNAL_H

#include <math.h> /* INFINITY only; no function of libm */

#include "mutirao/sample.h"

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
/* Merges the next block (ascending) into the total; start from {−inf, 0}. */
void mt_sample_norm_merge(norm *total, norm block);

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

/* Scratch for one choice. cand [n] are the tokens still possible, ids ascending, values finite. */
typedef struct scratch {
  size_t refs, vocab;
  item *cand; /* [vocab] */
  size_t n;
  item *heap;   /* [vocab] */
  double *prob; /* [vocab] of cand, once normalised; before that the logits of all ids */
} scratch;

/* cand ← the finite ones of prob [vocab]. MT_ENUMERIC as mt_sampler_choose says. */
int mt_sample_scratch_collect(scratch *w, mt_err *e);
/* prob [n] ← softmax of the values of cand. Returns its maximum and sum. */
norm mt_sample_scratch_softmax(scratch *w);
/* Filters; each leaves at least one token. */
void mt_sample_filter_temperature(scratch *w, double temperature);
void mt_sample_filter_top_k(scratch *w, size_t k);
void mt_sample_filter_top_p(scratch *w, double p);
void mt_sample_filter_min_p(scratch *w, double share);
void mt_sample_filter_typical_p(scratch *w, double p);
void mt_sample_filter_greedy(scratch *w);
double mt_sample_scratch_entropy(const scratch *w, norm z); /* after mt_sample_scratch_softmax */
/* The shortest prefix, most probable first, that reaches p: how many, and the last as an index into
 * cand with its value. After mt_sample_scratch_softmax. Ranked by values, since the probabilities
 * of equal ones may differ in the last place between blocks. */
size_t mt_sample_scratch_nucleus(scratch *w, double p, item *last);

#endif
