/* The table of algorithms. */
#include "reduce_impl.h"

typedef struct row {
  int most_ranks; /* the row is for up to so many */
  size_t most;    /* the first algorithm up to so many elements */
} row;

static const row ONE_PHASE[] = {{2, 8192}, {4, 2048}, {INT32_MAX, 512}};
static const row DOUBLING[] = {{2, 4096}, {4, 2048}, {INT32_MAX, 2048}};

static size_t look_up(const row *table, int ranks) {
  while (table->most_ranks < ranks) table++;
  return table->most;
}

mt_reduce_inside mt_reduce_choose_inside(const mt_reduce *r, size_t n) {
  if (r->opt.inside) return r->opt.inside;
  bool one = r->members == 1 || n <= look_up(ONE_PHASE, r->members);
  return one ? MT_INSIDE_ONE_PHASE : MT_INSIDE_TWO_PHASE;
}

mt_reduce_between mt_reduce_choose_between(const mt_reduce *r, size_t n) {
  if (r->opt.between) return r->opt.between;
  return n <= look_up(DOUBLING, r->groups) ? MT_BETWEEN_DOUBLING : MT_BETWEEN_SCATTER;
}
