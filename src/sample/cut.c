/* Where a ranking of candidates is cut: found without sorting them. Masses of buckets of keys are
 * summed in one pass; then only the bucket in which the sum reaches the target is put in order. */
#include "internal.h"

enum { BUCKETS = 2048, SPILL = 8 };

typedef struct ranking {
  const scratch *w;
  const double *key;
  bool counted;
  double lo, hi, scale, target;
} ranking;

/* Buckets descend with the key. What lies below lo comes out at BUCKETS or more. */
static inline double bucket_of(const ranking *r, double key) {
  return (r->hi - key) * r->scale;
}

static double weight_of(const ranking *r, uint32_t id) {
  return r->counted ? 1 : r->w->e[id] * r->w->share[id / BLOCK];
}

/* mass [BUCKETS + SPILL]; keys below lo are spread over the last few, so that no chain of additions
 * to one of them holds up the rest. */
static void fill_buckets(const ranking *r, double *mass) {
  static const double one[BLOCK] = {[0 ... BLOCK - 1] = 1};
  const scratch *w = r->w;
  for (size_t i = 0; i < BUCKETS + SPILL; i++) mass[i] = 0;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    const double *key = r->key + b * BLOCK, *e = r->counted ? one : w->e + b * BLOCK;
    double share = r->counted ? 1 : w->share[b];
    if (r->key == w->value && w->max[b] < r->lo) continue;
    for (size_t j = 0; j < BLOCK; j++) {
      double at = bucket_of(r, key[j]), most = (double)(BUCKETS + (j & (SPILL - 1)));
      mass[(size_t)(at < most ? at : most)] += e[j] * share;
    }
  }
}

/* The heap ← the candidates of buckets [first, end), ids ascending; *same: their keys are equal. */
static size_t gather(const ranking *r, size_t first, size_t end, bool *same) {
  const scratch *w = r->w;
  double from = (double)first, to = (double)end;
  size_t n = 0;
  *same = true;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    if (r->key == w->value && !(bucket_of(r, w->max[b]) < to)) continue;
    for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
      double at = bucket_of(r, r->key[i]);
      if (!((at >= from) & (at < to))) continue; /* one branch, that is seldom taken */
      w->heap[n++] = (item){(uint32_t)i, r->key[i]};
      *same &= r->key[i] == w->heap[0].logprob;
    }
  }
  return n;
}

/* Adds the weights of n candidates in the heap to `sum`, in their order, until it reaches the
 * target; *last is the one that did. False where sums that are off by `slack` could have ended
 * elsewhere; `any`: at least one belongs to the prefix, whatever the sum is before it. */
static bool walk(const ranking *r, size_t n, bool same, bool any, double sum, double slack,
                 item *last) {
  item *heap = r->w->heap;
  double before = any ? -INFINITY : sum;
  size_t next = 0, rest = n;
  if (!n || !(before < r->target - slack)) return false;
  if (!same) mt_sample_heap_make(heap, n, false);
  for (;;) {
    *last = same ? heap[next++] : mt_sample_heap_pop(heap, &rest, false);
    sum += weight_of(r, last->id);
    if (sum >= r->target || !(same ? n - next : rest)) break;
    before = sum;
  }
  return slack == 0 || (before < r->target - slack && sum >= r->target + slack);
}

item mt_sample_cut(scratch *w, const double *key, double lo, double hi, bool counted,
                   double target) {
  ranking r = {w, key, counted, lo, hi, (BUCKETS - 1) / (hi - lo), target};
  if (!(r.scale < INFINITY)) r.scale = 1; /* all that counts lies in the first bucket */
  /* A sum of n terms in any order is off by at most n × 2^-53 of it. Counts are exact. */
  double slack = counted ? 0 : (double)(w->n_live * BLOCK) * 0x1p-51;
  double mass[BUCKETS + SPILL], above = 0;
  bool same;
  item last = {0, 0};
  size_t c = 0;
  fill_buckets(&r, mass);
  while (c < BUCKETS && above + mass[c] < target) above += mass[c++];
  if (c < BUCKETS) {
    size_t n = gather(&r, c, c + 1, &same);
    if (walk(&r, n, same, c == 0, above, slack, &last)) return last;
  }
  /* Too near to call: all in their order. */
  size_t n = gather(&r, 0, BUCKETS, &same);
  walk(&r, n, same, true, 0, 0, &last);
  return last;
}

item mt_sample_cut_nucleus(scratch *w, norm z, double p) {
  /* All that are less probable than `least` together do not reach 1 − p, so the prefix ends above
   * them. Where p is too near to 1, all that is not 0. */
  double least = 0.5 * (1 - p) / (double)(w->n_live * BLOCK), far = z.max < 0 ? -z.max : z.max;
  double lo = p < 1 - 1e-9 ? z.max + mt_log64(least * z.sum) : z.max - 750;
  return mt_sample_cut(w, w->value, lo - 1e-6 - 1e-15 * far, z.max, false, p - MT_SAMPLE_REACHED);
}
