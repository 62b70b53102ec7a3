/* Finds out while products run whether asking ahead pays (ahead.h): a bandit with two arms, which
 * takes the one whose smoothed cost is less, and now and then the other. */
#include "ahead.h"

enum {
  TRIES = 8,              /* in turns, to begin with */
  MEASURE_EVERY = 7,      /* calls; reading the clock takes 20 to 50 ns */
  TRY_EVERY = 35,         /* calls: the way that is not gone otherwise, */
  TRY_SELDOM = 315,       /* or so many, where it costs FAR times as much */
  LEAST_BYTES = 16 << 10, /* of a product that says something */
  WIDTHS = 8              /* kinds of panels, by the logarithm of their bytes */
}; /* all three are odd, since products come in eights: else it were always the same place of a
      matrix; and multiples of MEASURE_EVERY, so that what is tried is measured */
static const float SMOOTH = 0.25f, OUTLIER = 2, FAR = 1.125f;

bool mt_ahead_choose(mt_ahead *a, bool *measure) {
  const uint32_t n = a->calls;
  const bool better = a->cost[true] < a->cost[false];
  a->calls = n == UINT32_MAX ? TRIES : n + 1;
  *measure = n < TRIES || n % MEASURE_EVERY == 0;
  if (n < TRIES) return n % 2;
  const bool far = a->cost[!better] > FAR * a->cost[better];
  return n % (far ? TRY_SELDOM : TRY_EVERY) == 0 ? !better : better;
}

void mt_ahead_learn(mt_ahead *a, bool ahead, double cost) {
  float *known = &a->cost[ahead], c = (float)cost, most = OUTLIER * *known;
  if (*known == 0 || (a->calls <= TRIES && c < *known))
    *known = c;
  else if (a->calls > TRIES)
    *known += ((c < most ? c : most) - *known) * SMOOTH;
}

static size_t width_of(size_t panel_bytes) {
  size_t w = 0;
  while (w + 1 < WIDTHS && panel_bytes >> (w + 12)) w++;
  return w;
}

size_t mt_ahead_begin(mt_ahead_run *r, const mt_matrix *m, bool by_units, size_t bytes) {
  static _Thread_local mt_ahead known[MT_DTYPE_COUNT][2][WIDTHS];
  r->known = &known[m->type][by_units][width_of(m->panel_bytes)];
  r->measure = false;
  r->ahead = bytes >= LEAST_BYTES && mt_ahead_choose(r->known, &r->measure);
  r->start = r->measure ? mt_clock_ns() : 0;
  return r->ahead ? MT_AHEAD_BYTES : 0;
}

void mt_ahead_end(const mt_ahead_run *r, size_t bytes) {
  if (r->measure)
    mt_ahead_learn(r->known, r->ahead, (double)(mt_clock_ns() - r->start) / (double)bytes);
}
