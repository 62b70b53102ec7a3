/* Loops over registers alone, and over memory alone, with AVX-512, and with VNNI. */
#include "../limits.h"
#include "avx512.h"

enum { CHAINS = 12, STEP = 256 };
/* The compiler must not see that the chains are alike. */
#define START(acc, zero)              \
  do {                                \
    acc = zero;                       \
    __asm__ volatile("" : "+v"(acc)); \
  } while (0)
#define EACH _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)

uint64_t mt_limit_fma_avx512(uint64_t rounds) {
  __m512 acc[CHAINS], a = _mm512_set1_ps(0.5f);
  EACH START(acc[i], _mm512_setzero_ps());
  for (uint64_t r = 0; r < rounds; r++) EACH acc[i] = _mm512_fmadd_ps(acc[i], a, a);
  EACH __asm__ volatile("" : : "v"(acc[i]));
  return rounds * CHAINS * 2 * 16;
}

/* vpmaddubsw and the sum of its 16-bit lanes, as the kernels use them. */
uint64_t mt_limit_dot_avx512(uint64_t rounds) {
  __m512i acc[CHAINS], u = _mm512_set1_epi8(1), s = _mm512_set1_epi8(1);
  EACH START(acc[i], _mm512_setzero_si512());
  for (uint64_t r = 0; r < rounds; r++) EACH {
      __asm__ volatile("" : "+v"(u)); /* or one product would serve all */
      acc[i] = _mm512_add_epi16(acc[i], _mm512_maddubs_epi16(u, s));
    }
  EACH __asm__ volatile("" : : "v"(acc[i]));
  return rounds * CHAINS * 2 * 64;
}

__attribute__((target("avx512vnni"))) uint64_t mt_limit_dot_avx512vnni(uint64_t rounds) {
  __m512i acc[CHAINS], u = _mm512_set1_epi8(1), s = _mm512_set1_epi8(1);
  EACH START(acc[i], _mm512_setzero_si512());
  for (uint64_t r = 0; r < rounds; r++) EACH acc[i] = _mm512_dpbusd_epi32(acc[i], u, s);
  EACH __asm__ volatile("" : : "v"(acc[i]));
  return rounds * CHAINS * 2 * 64;
}

void mt_limit_read_avx512(const uint8_t *p, size_t bytes, size_t streams) {
  size_t part = mt_limit_stream_bytes(bytes, streams, STEP);
  __m512i sum[4];
  for (int i = 0; i < 4; i++) sum[i] = _mm512_setzero_si512();
  for (size_t at = 0; at < part; at += STEP)
    for (size_t s = 0; s < streams; s++) {
      const uint8_t *v = p + s * part + at;
      MT_UNROLL for (int i = 0; i < 4; i++) sum[i] =
          _mm512_xor_si512(sum[i], _mm512_loadu_si512(v + 64 * i));
    }
  for (int i = 0; i < 4; i++) __asm__ volatile("" : : "v"(sum[i]));
}
