/* The softmax over a vocabulary, block by block, and log-probabilities. */
#include "internal.h"

enum { BLOCK = 64 }; /* as the vocabulary is dealt to ranks (DESIGN section 1) */

void mt_sample_norm_merge(norm *total, norm block) {
  if (block.sum == 0) return; /* nothing possible in this block */
  if (block.max > total->max) {
    total->sum = total->sum * mt_exp64(total->max - block.max) + block.sum;
    total->max = block.max;
  } else {
    total->sum += block.sum * mt_exp64(block.max - total->max);
  }
}

/* The candidates of one block begin at i: their end and their maximum. */
static size_t block_end(const scratch *w, size_t i, double *max) {
  uint32_t number = w->cand[i].id / BLOCK;
  *max = w->cand[i].logprob;
  for (; i < w->n && w->cand[i].id / BLOCK == number; i++)
    if (w->cand[i].logprob > *max) *max = w->cand[i].logprob;
  return i;
}

norm mt_sample_scratch_softmax(scratch *w) {
  norm total = {-INFINITY, 0};
  double max;
  for (size_t i = 0, end; i < w->n; i = end) {
    end = block_end(w, i, &max);
    norm block = {max, 0};
    for (size_t j = i; j < end; j++) {
      w->prob[j] = mt_exp64(w->cand[j].logprob - max);
      block.sum += w->prob[j];
    }
    mt_sample_norm_merge(&total, block);
  }
  for (size_t i = 0, end; i < w->n; i = end) {
    end = block_end(w, i, &max);
    double share = mt_exp64(max - total.max) / total.sum;
    for (size_t j = i; j < end; j++) w->prob[j] *= share;
  }
  return total;
}

/* False where a logit is NaN or +infinity, or all are −infinity. */
static bool norm_of(const float *logits, size_t n, norm *out) {
  norm total = {-INFINITY, 0};
  for (size_t i = 0; i < n; i += BLOCK) {
    size_t end = n - i < BLOCK ? n : i + BLOCK;
    norm block = {-INFINITY, 0};
    for (size_t j = i; j < end; j++) {
      if (!(logits[j] < INFINITY)) return false;
      if ((double)logits[j] > block.max) block.max = (double)logits[j];
    }
    if (block.max == -INFINITY) continue;
    for (size_t j = i; j < end; j++) block.sum += mt_exp64((double)logits[j] - block.max);
    mt_sample_norm_merge(&total, block);
  }
  *out = total;
  return total.sum > 0;
}

double mt_logprob(const float *logits, size_t n, uint32_t id) {
  norm z;
  if (id >= n || !norm_of(logits, n, &z)) return (double)NAN;
  return ((double)logits[id] - z.max) - mt_log64(z.sum);
}

int mt_top_logprobs(const float *logits, size_t n, size_t k, mt_candidate *out) {
  norm z;
  if (!norm_of(logits, n, &z)) return MT_ENUMERIC;
  size_t held = 0; /* a heap of the best so far, the last of them on top */
  for (size_t i = 0; i < n && k; i++) {
    item it = {(uint32_t)i, (double)logits[i]};
    if (it.logprob == -INFINITY) continue;
    if (held < k) {
      out[held++] = it;
      if (held == k) mt_sample_heap_make(out, held, true);
    } else if (item_before(&it, &out[0])) {
      out[0] = it;
      mt_sample_heap_sift(out, held, 0, true);
    }
  }
  if (held < k) mt_sample_heap_make(out, held, true);
  for (size_t rest = held; rest;) {
    item last = mt_sample_heap_pop(out, &rest, true);
    out[rest] = last;
  }
  double log_sum = mt_log64(z.sum);
  for (size_t i = 0; i < held; i++) out[i].logprob = (out[i].logprob - z.max) - log_sum;
  return (int)held;
}
