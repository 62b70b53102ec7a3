/* The table of algorithms. */
#include "mutirao/reduce.h"

typedef struct row {
  int most_ranks; /* the row is for up to so many */
  size_t most;    /* the first algorithm up to so many elements */
} row;

static const row ONE_PHASE[] = {{2, 2048}, {4, 512}, {INT32_MAX, 256}};
static const row DOUBLING[] = {{2, 2048}, {INT32_MAX, 1024}};

static size_t look_up(const row *table, int ranks) {
  while (table->most_ranks < ranks) table++;
  return table->most;
}

mt_reduce_inside mt_reduce_choose_inside(mt_reduce_inside asked, int ranks, size_t n) {
  if (asked) return asked;
  bool one = ranks == 1 || n <= look_up(ONE_PHASE, ranks);
  return one ? MT_INSIDE_ONE_PHASE : MT_INSIDE_TWO_PHASE;
}

mt_reduce_between mt_reduce_choose_between(mt_reduce_between asked, int groups, size_t n) {
  if (asked) return asked;
  return n <= look_up(DOUBLING, groups) ? MT_BETWEEN_DOUBLING : MT_BETWEEN_SCATTER;
}
