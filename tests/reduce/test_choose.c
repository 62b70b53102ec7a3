/* The table of algorithms: what is asked for is done, and otherwise there is one border per number
 * of ranks or groups, which does not rise with it. */
#include "mt_test.h"
#include "mutirao/reduce.h"

enum { MOST = 1 << 20 };

static void test_asked(void) {
  for (int ranks = 1; ranks < 70; ranks += 3)
    for (size_t n = 0; n <= MOST; n = 4 * n + 1) {
      for (int i = MT_INSIDE_ONE_PHASE; i <= MT_INSIDE_TWO_PHASE; i++)
        CU_ASSERT_EQUAL(mt_reduce_choose_inside((mt_reduce_inside)i, ranks, n),
                        (mt_reduce_inside)i);
      for (int b = MT_BETWEEN_DOUBLING; b <= MT_BETWEEN_SCATTER; b++)
        CU_ASSERT_EQUAL(mt_reduce_choose_between((mt_reduce_between)b, ranks, n),
                        (mt_reduce_between)b);
    }
}

/* Elements up to which the first algorithm is taken; −1 where the borders are more than one. */
static long border(bool inside, int ranks) {
  long at = -1;
  bool first = true;
  for (size_t n = 0; n <= MOST; n += 64) {
    bool now = inside ? mt_reduce_choose_inside(MT_INSIDE_AUTO, ranks, n) == MT_INSIDE_ONE_PHASE
                      : mt_reduce_choose_between(MT_BETWEEN_AUTO, ranks, n) == MT_BETWEEN_DOUBLING;
    if (now && !first) return -1;
    first = now;
    if (now) at = (long)n;
  }
  return at;
}

static void test_borders(void) {
  CU_ASSERT_EQUAL(border(true, 1), MOST); /* one rank has nobody to share with */
  for (int inside = 0; inside < 2; inside++)
    for (int ranks = 2; ranks < 200; ranks++) {
      CU_ASSERT(border(inside, ranks) > 0);
      CU_ASSERT(border(inside, ranks) < MOST);
      CU_ASSERT(border(inside, ranks + 1) <= border(inside, ranks));
    }
}

MT_TEST_MAIN("choose", {"asked", test_asked}, {"borders", test_borders})
