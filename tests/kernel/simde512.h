/* AVX-512 by emulation, for the tests of src/kernel/avx512 on CPUs that lack it: SIMDe under the
 * intrinsics' own names, and here those that its release 0.7.4 does not have, lane by lane as
 * Intel's manual defines them. */
#ifndef MT_TEST_SIMDE512_H
#define MT_TEST_SIMDE512_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wextra"
#include <simde/x86/avx512.h>
#pragma GCC diagnostic pop

static inline simde__m512 emu_two_ps(__m256 a, __m256 b) {
  float v[16];
  _mm256_storeu_ps(v, a);
  _mm256_storeu_ps(v + 8, b);
  return simde_mm512_loadu_ps(v);
}
static inline simde__m512i emu_two_si(__m256i a, __m256i b) {
  int32_t v[16];
  _mm256_storeu_si256((__m256i *)(void *)v, a);
  _mm256_storeu_si256((__m256i *)(void *)(v + 8), b);
  return simde_mm512_loadu_si512(v);
}

static inline simde__m512 emu_cvtph_ps(__m256i h) {
  return emu_two_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)));
}
static inline simde__m512i emu_cvtepu16_epi32(__m256i h) {
  return emu_two_si(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(h)),
                    _mm256_cvtepu16_epi32(_mm256_extracti128_si256(h, 1)));
}
static inline simde__m512i emu_cvtepi8_epi32(__m128i b) {
  return emu_two_si(_mm256_cvtepi8_epi32(b), _mm256_cvtepi8_epi32(_mm_srli_si128(b, 8)));
}
static inline simde__m512 emu_cvtepi32_ps(simde__m512i a) {
  int32_t v[16];
  simde_mm512_storeu_si512(v, a);
  return emu_two_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256((void *)v)),
                    _mm256_cvtepi32_ps(_mm256_loadu_si256((void *)(v + 8))));
}
static inline simde__m512d emu_cvtps_pd(__m256 a) {
  double v[8];
  _mm256_storeu_pd(v, _mm256_cvtps_pd(_mm256_castps256_ps128(a)));
  _mm256_storeu_pd(v + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)));
  return simde_mm512_loadu_pd(v);
}
static inline void emu_mask_storeu_ps(float *to, unsigned mask, simde__m512 a) {
  float v[16];
  simde_mm512_storeu_ps(v, a);
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) to[i] = v[i];
}

static inline simde__m512i emu_srai_epi32(simde__m512i a, int by) {
  int32_t v[16];
  simde_mm512_storeu_si512(v, a);
  for (int i = 0; i < 16; i++) v[i] >>= by;
  return simde_mm512_loadu_si512(v);
}

/* Unsigned bytes of a by signed bytes of b, summed by fours onto c: exact, unlike vpmaddubsw. */
static inline simde__m512i emu_dpbusd_epi32(simde__m512i c, simde__m512i a, simde__m512i b) {
  uint8_t u[64];
  int8_t s[64];
  int32_t sum[16];
  simde_mm512_storeu_si512(u, a);
  simde_mm512_storeu_si512(s, b);
  simde_mm512_storeu_si512(sum, c);
  for (int i = 0; i < 64; i++) sum[i / 4] += u[i] * s[i];
  return simde_mm512_loadu_si512(sum);
}

static inline simde__m512d emu_cvtepi64_pd(simde__m512i a) {
  int64_t v[8];
  double d[8];
  simde_mm512_storeu_si512(v, a);
  for (int i = 0; i < 8; i++) d[i] = (double)v[i];
  return simde_mm512_loadu_pd(d);
}
static inline __m256 emu_cvtepi64_ps(simde__m512i a) {
  int64_t v[8];
  float f[8];
  simde_mm512_storeu_si512(v, a);
  for (int i = 0; i < 8; i++) f[i] = (float)v[i];
  return _mm256_loadu_ps(f);
}
static inline __m256 emu_cvtpd_ps(simde__m512d a) {
  double d[8];
  float v[8];
  simde_mm512_storeu_pd(d, a);
  for (int i = 0; i < 8; i++) v[i] = (float)d[i];
  return _mm256_loadu_ps(v);
}
static inline unsigned emu_cmpgt_epu64_mask(simde__m512i a, simde__m512i b) {
  uint64_t x[8], y[8];
  unsigned mask = 0;
  simde_mm512_storeu_si512(x, a);
  simde_mm512_storeu_si512(y, b);
  for (int i = 0; i < 8; i++) mask |= (unsigned)(x[i] > y[i]) << i;
  return mask;
}

/* SIMDe adds and subtracts signed numbers, which may overflow. */
static inline simde__m512i emu_add_epi64(simde__m512i a, simde__m512i b) {
  uint64_t x[8], y[8];
  simde_mm512_storeu_si512(x, a);
  simde_mm512_storeu_si512(y, b);
  for (int i = 0; i < 8; i++) x[i] += y[i];
  return simde_mm512_loadu_si512(x);
}
static inline simde__m512i emu_sub_epi64(simde__m512i a, simde__m512i b) {
  uint64_t x[8], y[8];
  simde_mm512_storeu_si512(x, a);
  simde_mm512_storeu_si512(y, b);
  for (int i = 0; i < 8; i++) x[i] -= y[i];
  return simde_mm512_loadu_si512(x);
}

static inline simde__m512i emu_maskz_loadu_epi64(unsigned mask, const int64_t *from) {
  int64_t v[8] = {0};
  for (int i = 0; i < 8; i++)
    if (mask >> i & 1) v[i] = from[i];
  return simde_mm512_loadu_si512(v);
}
static inline void emu_mask_storeu_epi64(int64_t *to, unsigned mask, simde__m512i a) {
  int64_t v[8];
  simde_mm512_storeu_si512(v, a);
  for (int i = 0; i < 8; i++)
    if (mask >> i & 1) to[i] = v[i];
}
static inline simde__m512i emu_mask_add_epi64(simde__m512i from, unsigned mask, simde__m512i a,
                                              simde__m512i b) {
  uint64_t v[8], x[8], y[8];
  simde_mm512_storeu_si512(v, from);
  simde_mm512_storeu_si512(x, a);
  simde_mm512_storeu_si512(y, b);
  for (int i = 0; i < 8; i++)
    if (mask >> i & 1) v[i] = x[i] + y[i];
  return simde_mm512_loadu_si512(v);
}
/* The alias in 0.7.4 takes an argument too many. */
static inline unsigned emu_mask_cmple_epu32_mask(unsigned mask, simde__m512i a, simde__m512i b) {
  uint32_t x[16], y[16];
  simde_mm512_storeu_si512(x, a);
  simde_mm512_storeu_si512(y, b);
  for (int i = 0; i < 16; i++)
    if (x[i] > y[i]) mask &= ~(1u << i);
  return mask;
}
static inline __m256 emu_extractf32x8_ps(simde__m512 a, int half) {
  float v[16];
  simde_mm512_storeu_ps(v, a);
  return _mm256_loadu_ps(v + 8 * half);
}

#undef _mm512_maskz_loadu_epi64
#define _mm512_maskz_loadu_epi64 emu_maskz_loadu_epi64
#undef _mm512_mask_storeu_epi64
#define _mm512_mask_storeu_epi64 emu_mask_storeu_epi64
#undef _mm512_mask_add_epi64
#define _mm512_mask_add_epi64 emu_mask_add_epi64
#undef _mm512_mask_cmple_epu32_mask
#define _mm512_mask_cmple_epu32_mask emu_mask_cmple_epu32_mask
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps emu_extractf32x8_ps
#undef _mm512_cvtph_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_pd
#undef _mm512_mask_storeu_ps
#undef _mm512_madd_epi16 /* the alias in 0.7.4 takes a mask by mistake */
#undef _mm512_dpbusd_epi32
#undef _mm512_add_epi64
#undef _mm512_sub_epi64
#undef _mm512_cvtepi64_pd
#undef _mm512_cvtepi64_ps
#undef _mm512_cvtpd_ps
#undef _mm512_cmpgt_epu64_mask
#undef _mm512_srai_epi32
#define _mm512_srai_epi32       emu_srai_epi32
#define _mm512_cvtepi64_pd      emu_cvtepi64_pd
#define _mm512_cvtepi64_ps      emu_cvtepi64_ps
#define _mm512_cvtpd_ps         emu_cvtpd_ps
#define _mm512_cmpgt_epu64_mask emu_cmpgt_epu64_mask
#define _mm512_add_epi64        emu_add_epi64
#define _mm512_sub_epi64        emu_sub_epi64
#define _mm512_madd_epi16       simde_mm512_madd_epi16
#define _mm512_dpbusd_epi32     emu_dpbusd_epi32
#define _mm512_cvtph_ps         emu_cvtph_ps
#define _mm512_cvtepu16_epi32   emu_cvtepu16_epi32
#define _mm512_cvtepi8_epi32    emu_cvtepi8_epi32
#define _mm512_cvtepi32_ps      emu_cvtepi32_ps
#define _mm512_cvtps_pd         emu_cvtps_pd
#define _mm512_mask_storeu_ps   emu_mask_storeu_ps

#endif
