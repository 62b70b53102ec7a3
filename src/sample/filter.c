/* Filters. Each finds the last token of a prefix of some total order, or a bound, then keeps what
 * is before it in one pass over the live blocks, ids ascending; nothing is sorted beyond the
 * prefix. */
#include <string.h>

#include "internal.h"

/* ---- keeping ----------------------------------------------------------------------------- */

/* The least double above x, which is finite. */
static double next_above(double x) {
  int64_t bits;
  if (x == 0) return 0x1p-1074;
  memcpy(&bits, &x, sizeof bits);
  bits += x > 0 ? 1 : -1;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void keep_in_block(scratch *w, size_t b, const double *key, const item *last, bool counted) {
  double *value = w->value + b * BLOCK, *e = w->e + b * BLOCK;
  double least = b > last->id / BLOCK ? next_above(last->logprob) : last->logprob;
  if (counted) {
    for (size_t j = 0; j < BLOCK; j++) value[j] = value[j] >= least ? value[j] : -INFINITY;
    w->base[b] = (double)NAN;
  } else {
    w->kn->keep(key + b * BLOCK, least, w->share[b], value, e);
  }
  if (b == last->id / BLOCK)
    for (size_t i = last->id + 1; i < (b + 1) * BLOCK; i++)
      if (key[i] == last->logprob) {
        w->value[i] = -INFINITY;
        w->e[i] = 0;
      }
  w->sum[b] = (double)NAN;
  if (key != w->value)
    w->max[b] = (double)NAN;
  else if (!(w->max[b] >= least && (counted || w->share[b] > 0)))
    w->max[b] = -INFINITY; /* else the most probable stays */
}

/* Drops what comes after `last` in the order of key, and (unless `counted`) what has probability 0.
 * Where the maximum of a block stays, so does e. */
static void keep_prefix(scratch *w, const double *key, item last, bool counted) {
  uint32_t near[CHAINS]; /* blocks of which e is in the cache */
  size_t n = 0;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    if (key == w->value && w->max[b] < last.logprob) {
      w->max[b] = -INFINITY;
      continue;
    }
    keep_in_block(w, b, key, &last, counted);
    if (counted) continue;
    near[n++] = (uint32_t)b;
    if (n < CHAINS) continue;
    mt_sample_row_sum(w, near, n);
    n = 0;
  }
  mt_sample_row_refresh(w, NULL);
}

/* ---- filters ----------------------------------------------------------------------------- */

void mt_sample_filter_temperature(scratch *w, double temperature) {
  double most = mt_sample_row_max(w);
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    /* relative to the maximum, so that no temperature overflows upwards; what goes to −infinity has
     * probability 0 */
    w->kn->temper(w->value + b * BLOCK, most, temperature);
    w->max[b] = (w->max[b] - most) / temperature;
    w->base[b] = (double)NAN;
  }
  mt_sample_row_refresh(w, NULL);
}

/* A value that the k-th of the candidates has at least, or the least of all. False where there are
 * not more than k. */
static bool bound_top_k(scratch *w, size_t k, double *lo) {
  if (k < w->n_live) { /* the k-th largest of the blocks' maxima */
    item *most = w->heap + w->vocab - w->n_live;
    for (size_t i = 0; i < w->n_live; i++) most[i] = (item){w->live[i], w->max[w->live[i]]};
    mt_sample_heap_select(w->heap, k, most, w->n_live);
    *lo = w->heap[0].logprob;
    return true;
  }
  size_t n = 0;
  *lo = INFINITY;
  for (size_t i = 0; i < w->n_live; i++) {
    const double *value = w->value + w->live[i] * (size_t)BLOCK;
    for (size_t j = 0; j < BLOCK; j++) {
      if (value[j] == -INFINITY) continue;
      if (value[j] < *lo) *lo = value[j];
      n++;
    }
  }
  return k < n;
}

void mt_sample_filter_top_k(scratch *w, size_t k) {
  double lo;
  if (!bound_top_k(w, k, &lo)) return;
  item last = mt_sample_cut(w, w->value, lo, mt_sample_row_max(w), true, (double)k);
  keep_prefix(w, w->value, last, true);
}

/* Holtzman, Buys, Du, Forbes, Choi, "The curious case of neural text degeneration", 2020. */
void mt_sample_filter_top_p(scratch *w, double p) {
  norm z = mt_sample_row_softmax(w);
  keep_prefix(w, w->value, mt_sample_cut_nucleus(w, z, p), false);
}

/* Nguyen, Baker, Neo, Roush, Kirsch, Shwartz-Ziv, "Turning up the heat: min-p sampling", 2024. */
void mt_sample_filter_min_p(scratch *w, double share) {
  double most = mt_sample_row_max(w), edge = mt_log64(share);
  /* Only this near to its logarithm can rounding decide. */
  double near = share > 0x1p-1000 ? 1e-9 : 1;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    if (w->max[b] - most < edge - near) {
      w->max[b] = -INFINITY;
      continue;
    }
    for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
      double d = w->value[i] - most;
      if (d > edge + near || (d >= edge - near && mt_exp64(d) >= share)) continue;
      w->value[i] = -INFINITY;
      w->e[i] = 0;
    }
    w->max[b] = w->sum[b] = (double)NAN;
  }
  mt_sample_row_refresh(w, NULL);
}

/* How far from the entropy: `surprise − entropy` without sign. */
static double distance(double surprise, double entropy) {
  return surprise > entropy ? surprise - entropy : entropy - surprise;
}

/* Meister, Pimentel, Wiher, Cotterell, "Locally typical sampling", 2022. */
void mt_sample_filter_typical_p(scratch *w, double p) {
  norm z = mt_sample_row_softmax(w);
  double h = mt_sample_row_entropy(w, z), log_sum = mt_log64(z.sum);
  double lo = INFINITY, hi = -INFINITY;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
      double key = -distance(log_sum - (w->value[i] - z.max), h);
      if (!(w->e[i] * w->share[b] > 0)) {
        w->key[i] = -INFINITY;
        continue;
      }
      w->key[i] = key;
      if (key < lo) lo = key;
      if (key > hi) hi = key;
    }
  }
  keep_prefix(w, w->key, mt_sample_cut(w, w->key, lo, hi, false, p - MT_SAMPLE_REACHED), false);
}

void mt_sample_filter_greedy(scratch *w) {
  double most = mt_sample_row_max(w);
  size_t best = w->vocab;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    if (best < w->vocab || w->max[b] < most) {
      w->max[b] = -INFINITY;
      continue;
    }
    for (best = b * BLOCK; w->value[best] != most;) best++;
    for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++)
      if (i != best) w->value[i] = -INFINITY;
    w->base[b] = (double)NAN;
  }
  mt_sample_row_refresh(w, NULL);
}
