/* The row of logits that a token is chosen from, block by block: loading, softmax, the draw. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

scratch *mt_sample_scratch_new(const mt_kernels *kn, size_t vocab) {
  scratch *w = mt_calloc(1, sizeof *w);
  if (!w) return NULL;
  w->kn = kn;
  w->refs = 1;
  w->vocab = vocab;
  w->n_blocks = (vocab + BLOCK - 1) / BLOCK;
  double **row[] = {&w->value, &w->e, &w->key}, **one[] = {&w->max, &w->base, &w->sum, &w->share};
  bool ok = true;
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
    ok &= (*row[i] = mt_malloc(w->n_blocks, BLOCK * sizeof **row[i])) != NULL;
  for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
    ok &= (*one[i] = mt_malloc(w->n_blocks, sizeof **one[i])) != NULL;
  w->heap = mt_malloc(vocab, sizeof *w->heap);
  w->live = mt_malloc(w->n_blocks, sizeof *w->live);
  if (ok && w->heap && w->live) return w;
  mt_sample_scratch_release(w);
  return NULL;
}

void mt_sample_scratch_release(scratch *w) {
  if (!w || --w->refs) return;
  double *row[] = {w->value, w->e, w->key, w->max, w->base, w->sum, w->share};
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) free(row[i]);
  free(w->heap);
  free(w->live);
  free(w);
}

/* ---- candidates -------------------------------------------------------------------------- */

static double block_max(const double *value) {
  double m[CHAINS];
  _Pragma("GCC unroll 8") for (size_t c = 0; c < CHAINS; c++) m[c] = value[c];
  for (size_t i = CHAINS; i < BLOCK; i += CHAINS)
    _Pragma("GCC unroll 8") for (size_t c = 0; c < CHAINS; c++) m[c] =
        value[i + c] > m[c] ? value[i + c] : m[c];
  for (size_t c = 1; c < CHAINS; c++) m[0] = m[c] > m[0] ? m[c] : m[0];
  return m[0];
}

int mt_sample_row_refresh(scratch *w, mt_err *e) {
  w->n_live = 0;
  for (size_t b = 0; b < w->n_blocks; b++) {
    if (w->max[b] != w->max[b]) w->max[b] = block_max(w->value + b * BLOCK);
    if (w->max[b] > -INFINITY) w->live[w->n_live++] = (uint32_t)b;
  }
  if (!w->n_live)
    return mt_err_set(e, MT_ENUMERIC, "no token is possible: every logit is -infinity");
  return MT_OK;
}

static void forget(double *per_block, size_t n) {
  for (size_t b = 0; b < n; b++) per_block[b] = (double)NAN;
}

/* The values are not all below infinity. */
static int refuse(const scratch *w, mt_err *e) {
  size_t i = 0;
  while (w->value[i] < INFINITY) i++;
  return mt_err_set(e, MT_ENUMERIC, "the logit of id %zu is %s", i,
                    w->value[i] == w->value[i] ? "infinite" : "not a number");
}

int mt_sample_row_load(scratch *w, const float *logits, mt_err *e) {
  forget(w->base, w->n_blocks);
  if (!w->kn->widen(logits, w->vocab, w->value, w->max)) return refuse(w, e);
  return mt_sample_row_refresh(w, e);
}

int mt_sample_row_load_f64(scratch *w, const double *logits, mt_err *e) {
  forget(w->base, w->n_blocks);
  forget(w->max, w->n_blocks);
  memcpy(w->value, logits, w->vocab * sizeof *logits);
  for (size_t i = w->vocab; i < w->n_blocks * BLOCK; i++) w->value[i] = -INFINITY;
  for (size_t i = 0; i < w->vocab; i++)
    if (!(logits[i] < INFINITY)) return refuse(w, e);
  return mt_sample_row_refresh(w, e);
}

double mt_sample_row_max(const scratch *w) {
  double max = -INFINITY;
  for (size_t k = 0; k < w->n_live; k++)
    if (w->max[w->live[k]] > max) max = w->max[w->live[k]];
  return max;
}

/* ---- probabilities ----------------------------------------------------------------------- */

void mt_sample_row_sum(scratch *w, const uint32_t *live, size_t n) {
  const double *e[CHAINS] = {0};
  double sum[CHAINS];
  for (size_t k = 0; k < n; k++) e[k] = w->e + live[k] * (size_t)BLOCK;
  mt_sample_sum_blocks(e, n, sum);
  for (size_t k = 0; k < n; k++) w->sum[live[k]] = sum[k];
}

/* e and sum of live blocks where they are not known. */
static void exponentials(scratch *w) {
  uint32_t stale[CHAINS];
  size_t n = 0;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    if (w->base[b] != w->max[b])
      w->kn->exp64(w->value + b * BLOCK, w->max[b], BLOCK, w->e + b * BLOCK);
    else if (w->sum[b] == w->sum[b])
      continue;
    w->base[b] = w->max[b];
    stale[n++] = (uint32_t)b;
    if (n < CHAINS) continue;
    mt_sample_row_sum(w, stale, n);
    n = 0;
  }
  mt_sample_row_sum(w, stale, n);
}

norm mt_sample_row_softmax(scratch *w) {
  norm total = {-INFINITY, 0};
  double max[BLOCK], sum[BLOCK], share[BLOCK]; /* of so many blocks at a time */
  exponentials(w);
  for (size_t k = 0, n; k < w->n_live; k += n) {
    for (n = 0; n < BLOCK && k + n < w->n_live; n++) {
      max[n] = w->max[w->live[k + n]];
      sum[n] = w->sum[w->live[k + n]];
    }
    mt_sample_norm_merge(w->kn, &total, max, sum, n);
  }
  for (size_t k = 0, n; k < w->n_live; k += n) {
    for (n = 0; n < BLOCK && k + n < w->n_live; n++) max[n] = w->max[w->live[k + n]];
    w->kn->exp64(max, total.max, n, share);
    for (size_t c = 0; c < n; c++) w->share[w->live[k + c]] = share[c] / total.sum;
  }
  return total;
}

double mt_sample_row_entropy(const scratch *w, norm z) {
  double log_sum = mt_log64(z.sum), h = 0;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t at = w->live[k] * (size_t)BLOCK;
    for (size_t i = at; i < at + BLOCK; i++) {
      double p = w->e[i] * w->share[w->live[k]];
      if (p > 0) h -= p * ((w->value[i] - z.max) - log_sum);
    }
  }
  return h;
}

/* Goes on with n more probabilities; *sum is that of all before. n where it does not exceed u: 0
 * does not raise the sum, so no id without a probability comes out. */
static size_t draw_on(const double *prob, size_t n, double u, double *sum) {
  for (size_t i = 0; i < n; i++) {
    *sum += prob[i];
    if (*sum > u) return i;
  }
  return n;
}

/* The last above 0; n where there is none. */
static size_t last_possible(const double *prob, size_t n) {
  for (size_t i = n; i-- > 0;)
    if (prob[i] > 0) return i;
  return n;
}

size_t mt_sample_draw(const double *prob, size_t n, double u) {
  double sum = 0;
  size_t i = draw_on(prob, n, u, &sum);
  return i < n ? i : last_possible(prob, n);
}

static void probabilities(const scratch *w, size_t b, double *prob) {
  for (size_t j = 0; j < BLOCK; j++) prob[j] = w->e[b * BLOCK + j] * w->share[b];
}

/* The draw where sums of whole blocks, which round otherwise, leave no doubt about it. */
static bool draw_by_blocks(const scratch *w, double u, uint32_t *id) {
  /* A sum of n terms in any order is off by at most n × 2^-53 of it. */
  double slack = (double)(w->n_live * BLOCK) * 0x1p-51, sum = 0, prob[BLOCK];
  size_t k = 0;
  for (; k < w->n_live; k++) {
    double more = w->sum[w->live[k]] * w->share[w->live[k]];
    if (!(sum + more < u - slack)) break;
    sum += more;
  }
  if (k == w->n_live) return false;
  probabilities(w, w->live[k], prob);
  for (size_t j = 0; j < BLOCK; j++) {
    double before = sum;
    sum += prob[j];
    if (sum < u - slack) continue;
    *id = w->live[k] * BLOCK + (uint32_t)j;
    return (before < u - slack || before == 0) && sum > u + slack;
  }
  return false;
}

uint32_t mt_sample_row_draw(const scratch *w, double u) {
  double sum = 0, prob[BLOCK];
  uint32_t id;
  if (draw_by_blocks(w, u, &id)) return id;
  for (size_t k = 0; k < w->n_live; k++) {
    probabilities(w, w->live[k], prob);
    size_t i = draw_on(prob, BLOCK, u, &sum);
    if (i < BLOCK) return w->live[k] * BLOCK + (uint32_t)i;
  }
  for (size_t k = w->n_live; k-- > 0;) {
    probabilities(w, w->live[k], prob);
    size_t i = last_possible(prob, BLOCK);
    if (i < BLOCK) return w->live[k] * BLOCK + (uint32_t)i;
  }
  return 0;
}
