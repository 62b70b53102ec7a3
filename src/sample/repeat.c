/* A text that repeats itself verbatim. */
#include "mutirao/sample.h"

/* How many of the last ids equal the one `period` before them, looking at `most` of them. */
static size_t run_length(const uint32_t *ids, size_t n, size_t period, size_t most) {
  size_t run = 0;
  while (run < most && run + period < n && ids[n - 1 - run] == ids[n - 1 - run - period]) run++;
  return run;
}

bool mt_repeat_find(const uint32_t *ids, size_t n, size_t *period, size_t *times) {
  for (size_t p = 1; p <= MT_REPEAT_MAX_PERIOD && p * MT_REPEAT_MIN_TIMES <= n; p++) {
    size_t want = p * MT_REPEAT_MIN_TIMES;
    if (want < MT_REPEAT_MIN_IDS) want = (MT_REPEAT_MIN_IDS + p - 1) / p * p;
    if (want > n || run_length(ids, n, p, want - p) < want - p) continue;
    if (period) *period = p;
    if (times) *times = run_length(ids, n, p, n) / p + 1;
    return true;
  }
  return false;
}
