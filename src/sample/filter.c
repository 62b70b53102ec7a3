/* Filters. Each finds the last token of a prefix of some total order, then keeps the prefix in one
 * pass, so that the candidates stay in ascending order of ids and nothing is sorted beyond the
 * prefix. */
#include <string.h>

#include "internal.h"

/* Sums of probabilities reach p when they come this near: a p that the exact sum meets must not
 * depend on rounding. */
static const double REACHED = 1e-12;

/* How far from the entropy: `surprise − entropy` without sign. */
static double distance(double surprise, double entropy) {
  return surprise > entropy ? surprise - entropy : entropy - surprise;
}

void mt_sample_filter_temperature(scratch *w, double temperature) {
  double max = -INFINITY;
  for (size_t i = 0; i < w->n; i++)
    if (w->cand[i].logprob > max) max = w->cand[i].logprob;
  size_t kept = 0;
  for (size_t i = 0; i < w->n; i++) {
    /* relative to the maximum, so that no temperature overflows upwards; what goes to −infinity has
     * probability 0 */
    double v = (w->cand[i].logprob - max) / temperature;
    if (v > -INFINITY) w->cand[kept++] = (item){w->cand[i].id, v};
  }
  w->n = kept;
}

void mt_sample_filter_top_k(scratch *w, size_t k) {
  if (k >= w->n) return;
  mt_sample_heap_select(w->heap, k, w->cand, w->n);
  item last = w->heap[0];
  size_t kept = 0;
  for (size_t i = 0; i < w->n; i++)
    if (!item_before(&last, &w->cand[i])) w->cand[kept++] = w->cand[i];
  w->n = kept;
}

/* The heap [n] holds indices of candidates (which order ties as ids do) with what ranks them. Pops
 * until their probabilities reach p; returns the last that came off, and how many. */
static item prefix_end(scratch *w, size_t n, double p, size_t *count) {
  mt_sample_heap_make(w->heap, n, false);
  item last = {0, 0};
  double sum = 0;
  for (*count = 0; n && !(*count && sum >= p - REACHED); ++*count) {
    last = mt_sample_heap_pop(w->heap, &n, false);
    sum += w->prob[last.id];
  }
  return last;
}

size_t mt_sample_scratch_nucleus(scratch *w, double p, item *last) {
  /* All below this together do not reach 1 − p, so the prefix ends above it. */
  double least = p < 1 - 1e-9 ? 0.5 * (1 - p) / (double)w->n : 0;
  size_t n = 0, count;
  for (size_t i = 0; i < w->n; i++)
    if (w->prob[i] >= least) w->heap[n++] = (item){(uint32_t)i, w->cand[i].logprob};
  *last = prefix_end(w, n, p, &count);
  return count;
}

/* Holtzman, Buys, Du, Forbes, Choi, "The curious case of neural text degeneration", 2020. */
void mt_sample_filter_top_p(scratch *w, double p) {
  mt_sample_scratch_softmax(w);
  item last;
  mt_sample_scratch_nucleus(w, p, &last);
  size_t kept = 0;
  for (size_t i = 0; i < w->n; i++) {
    item it = {(uint32_t)i, w->cand[i].logprob};
    if (w->prob[i] > 0 && !item_before(&last, &it)) w->cand[kept++] = w->cand[i];
  }
  w->n = kept;
}

/* Nguyen, Baker, Neo, Roush, Kirsch, Shwartz-Ziv, "Turning up the heat: min-p sampling", 2024. */
void mt_sample_filter_min_p(scratch *w, double share) {
  double max = -INFINITY;
  for (size_t i = 0; i < w->n; i++)
    if (w->cand[i].logprob > max) max = w->cand[i].logprob;
  size_t kept = 0;
  for (size_t i = 0; i < w->n; i++)
    if (mt_exp64(w->cand[i].logprob - max) >= share) w->cand[kept++] = w->cand[i];
  w->n = kept;
}

double mt_sample_scratch_entropy(const scratch *w, norm z) {
  double log_sum = mt_log64(z.sum), h = 0;
  for (size_t i = 0; i < w->n; i++)
    if (w->prob[i] > 0) h -= w->prob[i] * ((w->cand[i].logprob - z.max) - log_sum);
  return h;
}

/* Meister, Pimentel, Wiher, Cotterell, "Locally typical sampling", 2022. */
void mt_sample_filter_typical_p(scratch *w, double p) {
  norm z = mt_sample_scratch_softmax(w);
  double h = mt_sample_scratch_entropy(w, z), log_sum = mt_log64(z.sum);
  size_t n = 0;
  for (size_t i = 0; i < w->n; i++) {
    double surprise = log_sum - (w->cand[i].logprob - z.max);
    if (w->prob[i] > 0) w->heap[n++] = (item){(uint32_t)i, -distance(surprise, h)};
  }
  size_t count, kept = 0;
  item last = prefix_end(w, n, p, &count);
  for (size_t i = 0; i < w->n; i++) {
    double surprise = log_sum - (w->cand[i].logprob - z.max);
    item it = {(uint32_t)i, -distance(surprise, h)};
    if (w->prob[i] > 0 && !item_before(&last, &it)) w->cand[kept++] = w->cand[i];
  }
  w->n = kept;
}

void mt_sample_filter_greedy(scratch *w) {
  item best = w->cand[0];
  for (size_t i = 1; i < w->n; i++)
    if (item_before(&w->cand[i], &best)) best = w->cand[i];
  w->cand[0] = best;
  w->n = 1;
}
