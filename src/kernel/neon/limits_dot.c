/* The same for the dot-product extension. */
#include "limits.h"

uint64_t mt_limit_dot_neondot(uint64_t rounds) {
  int32x4_t acc[CHAINS];
  int8x16_t w = vdupq_n_s8(1);
  EACH START(acc[i], vdupq_n_s32(0));
  for (uint64_t r = 0; r < rounds; r++) EACH acc[i] = vdotq_s32(acc[i], w, w);
  EACH __asm__ volatile("" : : "w"(acc[i]));
  return rounds * CHAINS * 2 * 16;
}
