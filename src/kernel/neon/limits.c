/* Loops over registers alone, and over memory alone, with NEON. */
#include "limits.h"

uint64_t mt_limit_fma_neon(uint64_t rounds) {
  float32x4_t acc[CHAINS], a = vdupq_n_f32(0.5f);
  EACH START(acc[i], vdupq_n_f32(0));
  for (uint64_t r = 0; r < rounds; r++) EACH acc[i] = vfmaq_f32(acc[i], a, a);
  EACH __asm__ volatile("" : : "w"(acc[i]));
  return rounds * CHAINS * 2 * 4;
}

/* smlal on 16-bit activations, which stand for two planes of bytes. */
uint64_t mt_limit_dot_neon(uint64_t rounds) {
  int32x4_t acc[CHAINS];
  int16x4_t w = vdup_n_s16(1);
  EACH START(acc[i], vdupq_n_s32(0));
  for (uint64_t r = 0; r < rounds; r++) EACH acc[i] = vmlal_s16(acc[i], w, w);
  EACH __asm__ volatile("" : : "w"(acc[i]));
  return rounds * CHAINS * 2 * 4 * 2;
}

void mt_limit_read_neon(const uint8_t *p, size_t bytes, size_t streams) {
  enum { STEP = 256 };
  size_t part = mt_limit_stream_bytes(bytes, streams, STEP);
  uint8x16_t sum[4];
  for (int i = 0; i < 4; i++) sum[i] = vdupq_n_u8(0);
  for (size_t at = 0; at < part; at += STEP)
    for (size_t s = 0; s < streams; s++) {
      const uint8_t *from = p + s * part + at;
      _Pragma("GCC unroll 16") for (int i = 0; i < STEP / 16; i++) sum[i % 4] =
          veorq_u8(sum[i % 4], vld1q_u8(from + 16 * i));
    }
  for (int i = 0; i < 4; i++) __asm__ volatile("" : : "w"(sum[i]));
}
