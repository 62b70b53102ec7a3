/* Integer sums over ranks, and their one rounding. */
#include <float.h>

#include "ref.h"

bool mt_sum_parts_ref(const int64_t *const *part, size_t n_parts, size_t at, size_t n,
                      unsigned limit_bits, int64_t *out) {
  uint64_t limit = 1ull << limit_bits, beyond = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t sum = 0;
    for (size_t p = 0; p < n_parts; p++) {
      uint64_t v = (uint64_t)part[p][at + i];
      beyond |= (v + limit) >> (limit_bits + 1);
      sum += v;
    }
    out[i] = (int64_t)sum;
  }
  return beyond == 0;
}

/* Up to 2^53 double holds v exactly; above, the result (2^53 × 2^−170 or more) is far from the
 * subnormals, so that only the first rounding, of v, rounds. */
static float scaled(int64_t v, double scale) {
  bool exact = v <= (1ll << 53) && v >= -(1ll << 53);
  return (float)((exact ? (double)v : (double)(float)v) * scale);
}

bool mt_round_sums_ref(const int64_t *sum, size_t n, int exp, float *out) {
  double scale = mt_power_of_two(exp);
  uint32_t most = 0;
  for (size_t i = 0; i < n; i++) {
    out[i] = scaled(sum[i], scale);
    uint32_t size = mt_f32_bits(out[i]) & 0x7fffffffu;
    most = size > most ? size : most;
  }
  return most <= mt_f32_bits(FLT_MAX);
}
