/* A binary heap of candidates: the first few of 128,000 in order, without sorting them all. */
#include "internal.h"

static inline bool above(const item *a, const item *b, bool last) {
  return last ? item_before(b, a) : item_before(a, b);
}

void mt_sample_heap_sift(item *h, size_t n, size_t i, bool last) {
  item moving = h[i];
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && above(&h[child + 1], &h[child], last)) child++;
    if (!above(&h[child], &moving, last)) break;
    h[i] = h[child];
    i = child;
  }
  h[i] = moving;
}

void mt_sample_heap_make(item *h, size_t n, bool last) {
  for (size_t i = n / 2; i-- > 0;) mt_sample_heap_sift(h, n, i, last);
}

item mt_sample_heap_pop(item *h, size_t *n, bool last) {
  item top = h[0];
  h[0] = h[--*n];
  if (*n) mt_sample_heap_sift(h, *n, 0, last);
  return top;
}

void mt_sample_heap_select(item *h, size_t k, const item *x, size_t n) {
  for (size_t i = 0; i < k; i++) h[i] = x[i];
  mt_sample_heap_make(h, k, true);
  for (size_t i = k; i < n; i++) {
    if (!item_before(&x[i], &h[0])) continue;
    h[0] = x[i];
    mt_sample_heap_sift(h, k, 0, true);
  }
}
