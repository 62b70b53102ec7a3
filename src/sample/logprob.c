/* The softmax over a vocabulary, block by block, and log-probabilities. */
#include "internal.h"

void mt_sample_norm_merge(const mt_kernels *kn, norm *total, const double *max, const double *sum,
                          size_t n) {
  double factor[BLOCK];
  for (size_t i = 0; i < n;) {
    if (max[i] > total->max) {
      total->sum = total->sum * mt_exp64(total->max - max[i]) + sum[i];
      total->max = max[i++];
      continue;
    }
    size_t end = i + 1; /* a run of blocks that do not raise the maximum */
    while (end < n && end - i < BLOCK && max[end] <= total->max) end++;
    kn->exp64(max + i, total->max, end - i, factor);
    for (size_t k = 0; k < end - i; k++) total->sum += sum[i + k] * factor[k];
    i = end;
  }
}

void mt_sample_sum_blocks(const double *const *e, size_t n, double *sum) {
  const double *row[CHAINS];
  double s[CHAINS] = {0};
  if (!n) return;
  for (size_t c = 0; c < CHAINS; c++) row[c] = e[c < n ? c : 0];
  for (size_t j = 0; j < BLOCK; j++)
    _Pragma("GCC unroll 8") for (size_t c = 0; c < CHAINS; c++) s[c] += row[c][j];
  for (size_t c = 0; c < n; c++) sum[c] = s[c];
}

/* False where a logit is NaN or +infinity, or all are −infinity. */
static bool norm_of(const mt_kernels *kn, const float *logits, size_t n, norm *out) {
  double value[CHAINS * BLOCK], e[CHAINS * BLOCK], max[CHAINS], sum[CHAINS];
  const double *row[CHAINS];
  norm total = {-INFINITY, 0};
  for (size_t i = 0; i < n; i += CHAINS * BLOCK) {
    size_t left = n - i < CHAINS * BLOCK ? n - i : CHAINS * BLOCK, live = 0;
    if (!kn->widen(logits + i, left, value, max)) return false;
    for (size_t b = 0; b * BLOCK < left; b++) {
      if (max[b] == -INFINITY) continue;
      kn->exp64(value + b * BLOCK, max[b], BLOCK, e + live * BLOCK);
      row[live] = e + live * BLOCK;
      max[live++] = max[b];
    }
    mt_sample_sum_blocks(row, live, sum);
    mt_sample_norm_merge(kn, &total, max, sum, live);
  }
  *out = total;
  return total.sum > 0;
}

/* + 0.0: −0 is no logarithm of 1. */
double mt_logprob(const mt_kernels *kn, const float *logits, size_t n, uint32_t id) {
  norm z;
  if (id >= n || !norm_of(kn, logits, n, &z)) return (double)NAN;
  return (((double)logits[id] - z.max) + 0.0) - mt_log64(z.sum);
}

int mt_top_logprobs(const mt_kernels *kn, const float *logits, size_t n, size_t k,
                    mt_candidate *out) {
  norm z;
  if (!norm_of(kn, logits, n, &z)) return MT_ENUMERIC;
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
  for (size_t i = 0; i < held; i++) out[i].logprob = ((out[i].logprob - z.max) + 0.0) - log_sum;
  return (int)held;
}
