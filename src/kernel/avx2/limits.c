/* Loops over registers alone, and over memory alone, with AVX2. Twelve chains cover the latency of
 * two units. */
#include "../limits.h"
#include "avx2.h"

enum { CHAINS = 12, STEP = 256 };
/* The compiler must not see that the chains are alike. */
#define START(acc, zero)              \
  do {                                \
    acc = zero;                       \
    __asm__ volatile("" : "+x"(acc)); \
  } while (0)
#define EACH _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)

uint64_t mt_limit_fma_avx2(uint64_t rounds) {
  __m256 acc[CHAINS], a = _mm256_set1_ps(0.5f);
  EACH START(acc[i], _mm256_setzero_ps());
  for (uint64_t r = 0; r < rounds; r++) EACH acc[i] = _mm256_fmadd_ps(acc[i], a, a);
  EACH __asm__ volatile("" : : "x"(acc[i]));
  return rounds * CHAINS * 2 * 8;
}

/* vpmaddubsw and the sum of its 16-bit lanes; vpmaddwd and that of its 32-bit ones, which the
 * kernels use too, run at the same rate where measured. Some products, then their sums: one by one
 * they take each other's units (Zen 3: 3 % slower). */
uint64_t mt_limit_dot_avx2(uint64_t rounds) {
  enum { GROUP = CHAINS / 2 };
  __m256i acc[GROUP], p[GROUP], u = _mm256_set1_epi8(1), s = _mm256_set1_epi8(1);
  MT_UNROLL for (int i = 0; i < GROUP; i++) START(acc[i], _mm256_setzero_si256());
  for (uint64_t r = 0; r < 2 * rounds; r++) {
    MT_UNROLL for (int i = 0; i < GROUP; i++) {
      __asm__ volatile("" : "+x"(u)); /* or one product would serve all */
      p[i] = _mm256_maddubs_epi16(u, s);
      __asm__ volatile("" : "+x"(p[i])); /* the order stays */
    }
    MT_UNROLL for (int i = 0; i < GROUP; i++) {
      acc[i] = _mm256_add_epi16(acc[i], p[i]);
      __asm__ volatile("" : "+x"(acc[i]));
    }
  }
  MT_UNROLL for (int i = 0; i < GROUP; i++) __asm__ volatile("" : : "x"(acc[i]));
  return rounds * CHAINS * 2 * 32;
}

__attribute__((target("avxvnni"))) uint64_t mt_limit_dot_avxvnni(uint64_t rounds) {
  __m256i acc[CHAINS], u = _mm256_set1_epi8(1), s = _mm256_set1_epi8(1);
  EACH START(acc[i], _mm256_setzero_si256());
  for (uint64_t r = 0; r < rounds; r++) EACH acc[i] = _mm256_dpbusd_avx_epi32(acc[i], u, s);
  EACH __asm__ volatile("" : : "x"(acc[i]));
  return rounds * CHAINS * 2 * 32;
}

void mt_limit_read_avx2(const uint8_t *p, size_t bytes, size_t streams) {
  size_t part = mt_limit_stream_bytes(bytes, streams, STEP);
  __m256i sum[4];
  for (int i = 0; i < 4; i++) sum[i] = _mm256_setzero_si256();
  for (size_t at = 0; at < part; at += STEP)
    for (size_t s = 0; s < streams; s++) {
      const __m256i *v = (const __m256i *)(const void *)(p + s * part + at);
      MT_UNROLL for (int i = 0; i < 8; i++) sum[i % 4] =
          _mm256_xor_si256(sum[i % 4], _mm256_loadu_si256(v + i));
    }
  for (int i = 0; i < 4; i++) __asm__ volatile("" : : "x"(sum[i]));
}
