/* What portable C reaches: the loops that a compiler makes of it. */
#include "../limits.h"
#include "ref.h"

enum { CHAINS = 64 };

uint64_t mt_limit_fma_ref(uint64_t rounds) {
  float acc[CHAINS] = {0}, a = 0.5f;
  for (uint64_t r = 0; r < rounds; r++) {
    __asm__ volatile("" : "+m"(a)); /* not a constant: the loop stays */
    for (int i = 0; i < CHAINS; i++) acc[i] = fma_f32(acc[i], a, a);
  }
  __asm__ volatile("" : : "m"(acc));
  return rounds * 2 * CHAINS;
}

uint64_t mt_limit_dot_ref(uint64_t rounds) {
  int16_t w[CHAINS], q[CHAINS];
  int32_t sum = 0;
  for (int i = 0; i < CHAINS; i++) w[i] = q[i] = (int16_t)i;
  for (uint64_t r = 0; r < rounds; r++) {
    __asm__ volatile("" : "+m"(w), "+m"(q));
    int32_t s = 0; /* starts afresh, so that it cannot overflow */
    for (int i = 0; i < CHAINS; i++) s += (int32_t)w[i] * q[i];
    sum ^= s;
  }
  __asm__ volatile("" : : "r"(sum));
  return rounds * 2 * CHAINS * 2; /* q stands for two planes */
}

void mt_limit_read_ref(const uint8_t *p, size_t bytes, size_t streams) {
  enum { STEP = 64, WORDS = STEP / 8 };
  size_t part = mt_limit_stream_bytes(bytes, streams, STEP);
  uint64_t sum[WORDS] = {0};
  for (size_t at = 0; at < part; at += STEP)
    for (size_t s = 0; s < streams; s++) {
      const uint8_t *from = p + s * part + at;
      _Pragma("GCC unroll 8") for (int i = 0; i < WORDS; i++) {
        uint64_t v;
        memcpy(&v, from + 8 * i, 8);
        sum[i] ^= v;
      }
    }
  __asm__ volatile("" : : "m"(sum));
}
