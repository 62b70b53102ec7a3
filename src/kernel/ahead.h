/* Whether a product of one or two rows asks for weights ahead of its reading. */
#ifndef MT_KERNEL_AHEAD_H
#define MT_KERNEL_AHEAD_H

#include "mutirao/kernel.h"

/* Decode reads one ascending stream. Whether the hardware's prefetch keeps up with it by itself
 * depends on the CPU, on what a type does between loads, on whether the activations stay in the
 * first cache beside it, and on how long memory takes just now, with what others do to it: what is
 * best here is a third too slow there (docs/performance.md). So each thread measures both ways, and
 * goes the faster. No bit of a result depends on it. */
enum { MT_AHEAD_BYTES = 8 << 10 };

/* What a thread knows of one kind of product; starts as 0. */
typedef struct mt_ahead {
  uint32_t calls;
  float cost[2]; /* ns a byte without and with asking, smoothed; 0: not known */
} mt_ahead;

/* Whether to ask ahead now: as was cheaper until now, and every so often the other way. `measure`:
 * what it costs is wanted, by mt_ahead_learn. */
bool mt_ahead_choose(mt_ahead *a, bool *measure);
/* It took `cost`, in ns a byte. An outlier (the thread was interrupted) counts little. */
void mt_ahead_learn(mt_ahead *a, bool ahead, double cost);

/* One product under way. */
typedef struct mt_ahead_run {
  mt_ahead *known;
  uint64_t start; /* ns */
  bool ahead, measure;
} mt_ahead_run;

/* Before and after the calling thread multiplies `bytes` of m's weights; gives the bytes to ask
 * ahead, 0: none. */
size_t mt_ahead_begin(mt_ahead_run *r, const mt_matrix *m, bool by_units, size_t bytes);
void mt_ahead_end(const mt_ahead_run *r, size_t bytes);

#endif
