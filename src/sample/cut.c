/* Where a ranking of candidates is cut: found without sorting them. A sample says between which
 * keys the sum of weights reaches the target. One pass over the row sums what lies above them and
 * lists what lies between; the list is sorted into buckets, and only the bucket in which the sum
 * reaches the target is put in order. Sums that are made otherwise than one by one in the order of
 * the ranking decide only where their rounding cannot; so the cut is that of a full sort. */
#include "internal.h"

enum {
  BUCKETS = 1024,
  SAMPLE_MIN = 256, /* blocks below which a sample does not pay */
  SAMPLE_RUN = 2    /* tokens of each block, which lie in one cache line */
};

typedef struct ranking {
  const scratch *w;
  const double *key;
  bool counted;
  double target, slack;
} ranking;

/* What ends in [lo, hi]: `above` is the weight before them. */
typedef struct range {
  double lo, hi, above;
} range;

static double weight_of(const ranking *r, uint32_t id) {
  return r->counted ? 1 : r->w->e[id] * r->w->share[id / BLOCK];
}

/* Whether a block can hold keys from lo on. */
static inline bool reaches(const ranking *r, size_t b, double lo) {
  return r->key != r->w->value || r->w->max[b] >= lo;
}

/* ---- buckets ----------------------------------------------------------------------------- */

/* Buckets descend with the key, from 0. */
typedef struct buckets {
  double hi, scale, mass[BUCKETS];
} buckets;

static void buckets_init(buckets *m, double lo, double hi) {
  m->hi = hi;
  m->scale = (BUCKETS - 1) / (hi - lo);
  if (!(m->scale < INFINITY)) m->scale = 1; /* all that counts lies in the first bucket */
  for (size_t i = 0; i < BUCKETS; i++) m->mass[i] = 0;
}

/* Of a key up to hi; from lo downwards the last. */
static inline size_t bucket_of(const buckets *m, double key) {
  double at = (m->hi - key) * m->scale;
  return (size_t)(at < BUCKETS - 1 ? at : BUCKETS - 1);
}

/* ---- the sample -------------------------------------------------------------------------- */

/* Narrows the range by some tokens of each block. It may miss; the caller finds out. */
static void narrow(const ranking *r, range *in) {
  const scratch *w = r->w;
  buckets m;
  double total = 0, sum = 0;
  size_t n = 0, c = 0;
  for (size_t k = 0; k < w->n_live; k++) n += reaches(r, w->live[k], in->lo);
  if (n < SAMPLE_MIN) return;
  buckets_init(&m, in->lo, in->hi);
  for (size_t k = 0; k < w->n_live; k++) {
    size_t begin = w->live[k] * (size_t)BLOCK + 12 * k % BLOCK;
    for (size_t id = begin; id < begin + SAMPLE_RUN; id++) {
      if (r->key[id] == -INFINITY) continue;
      double weight = weight_of(r, (uint32_t)id);
      total += weight;
      m.mass[bucket_of(&m, r->key[id])] += weight;
    }
  }
  /* Weights are shares of 1, but what is counted is not. The margin is some standard deviations. */
  double want = r->counted ? r->target * SAMPLE_RUN / BLOCK : r->target * total;
  double margin = total / __builtin_sqrt((double)(n * SAMPLE_RUN));
  double step = (in->hi - in->lo) / (BUCKETS - 1), top = in->hi;
  while (c < BUCKETS && sum + m.mass[c] < want - margin) sum += m.mass[c++];
  in->hi = top - (double)c * step;
  while (c < BUCKETS && sum < want + margin) sum += m.mass[c++];
  if (c < BUCKETS) in->lo = top - (double)c * step;
}

/* ---- the list ---------------------------------------------------------------------------- */

/* The heap ← the candidates in the range, ids ascending, and their weights into buckets; how many.
 * in->above ← the weight of those above it. */
static size_t list_range(const ranking *r, range *in, buckets *m) {
  static const double one[BLOCK] = {[0 ... BLOCK - 1] = 1};
  const scratch *w = r->w;
  size_t n = 0;
  in->above = 0;
  buckets_init(m, in->lo, in->hi);
  for (size_t k = 0; k < w->n_live; k++) {
    size_t b = w->live[k];
    if (!reaches(r, b, in->lo)) continue;
    const double *key = r->key + b * BLOCK, *e = r->counted ? one : w->e + b * BLOCK;
    double share = r->counted ? 1 : w->share[b];
    uint64_t within;
    in->above += w->kn->sum_above(key, e, in->lo, in->hi, &within) * share;
    for (; within; within &= within - 1) {
      size_t j = (size_t)__builtin_ctzll(within);
      w->heap[n++] = (item){(uint32_t)(b * BLOCK + j), key[j]};
      m->mass[bucket_of(m, key[j])] += e[j] * share;
    }
  }
  return n;
}

/* Of the list keeps the bucket in which the sum reaches the target, and adds to in->above what is
 * before it. 0 where no bucket does. */
static size_t keep_bucket(const ranking *r, range *in, const buckets *m, size_t n) {
  item *list = r->w->heap;
  size_t c = 0, kept = 0;
  while (c < BUCKETS && in->above + m->mass[c] < r->target) in->above += m->mass[c++];
  for (size_t i = 0; i < n; i++) {
    item it = list[i];
    list[kept] = it;
    kept += bucket_of(m, it.logprob) == c;
  }
  return kept;
}

/* Adds the weights of the list, in its order, to `sum` until it reaches the target; *last is the
 * one that did, or the last of all. False where sums that are off by the slack could have ended
 * elsewhere; `any`: at least one belongs to the prefix, whatever the sum is before it. */
static bool walk(const ranking *r, size_t n, bool any, double sum, item *last) {
  item *heap = r->w->heap;
  double before = any ? -INFINITY : sum;
  size_t next = 0, rest = n;
  if (!n || !(before < r->target - r->slack)) return false;
  bool same = true; /* equal keys are in their order */
  for (size_t i = 1; i < n && same; i++) same = heap[i].logprob == heap[0].logprob;
  if (!same) mt_sample_heap_make(heap, n, false);
  for (;;) {
    *last = same ? heap[next++] : mt_sample_heap_pop(heap, &rest, false);
    sum += weight_of(r, last->id);
    if (sum >= r->target || !(same ? n - next : rest)) break;
    before = sum;
  }
  return before < r->target - r->slack && sum >= r->target + r->slack;
}

/* Whether the cut was found for certain in the range. If not, *up: it lies above. */
static bool cut_range(const ranking *r, range in, double highest, item *last, bool *up) {
  buckets m;
  size_t n = list_range(r, &in, &m);
  bool first = in.hi == highest; /* the first token of all belongs to the prefix */
  *up = !first && in.above >= r->target;
  if (*up) return false;
  n = keep_bucket(r, &in, &m, n);
  return walk(r, n, first && in.above == 0, in.above, last);
}

item mt_sample_cut(scratch *w, const double *key, double lo, double hi, bool counted,
                   double target) {
  /* A sum of n terms in any order is off by at most n × 2^-53 of it. Counts are exact. */
  double slack = counted ? 0 : (double)(w->n_live * BLOCK) * 0x1p-51;
  ranking r = {w, key, counted, target, slack};
  range in = {.lo = lo, .hi = hi}, all = in;
  item last = {0, 0};
  bool up;
  narrow(&r, &in);
  if (cut_range(&r, in, hi, &last, &up)) return last;
  if (up || in.lo > lo) { /* the sample missed */
    in = up ? (range){.lo = in.hi, .hi = hi} : (range){.lo = lo, .hi = in.lo};
    if (cut_range(&r, in, hi, &last, &up)) return last;
  }
  /* Too near to call: all in their order. */
  buckets m;
  size_t n = list_range(&r, &all, &m);
  walk(&r, n, true, 0, &last);
  return last;
}

item mt_sample_cut_nucleus(scratch *w, norm z, double p) {
  /* All that are less probable than `least` together do not reach 1 − p, so the prefix ends above
   * them. Where p is too near to 1, all that is not 0. */
  double least = 0.5 * (1 - p) / (double)(w->n_live * BLOCK), far = z.max < 0 ? -z.max : z.max;
  double lo = p < 1 - 1e-9 ? z.max + mt_log64(least * z.sum) : z.max - 750;
  lo -= 1e-6 + 1e-15 * far;
  if (lo == -INFINITY) lo = -0x1.fffffffffffffp+1023;
  return mt_sample_cut(w, w->value, lo, z.max, false, p - MT_SAMPLE_REACHED);
}
