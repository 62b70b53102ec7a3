/* What the AVX2 kernels share. Every function computes lane by lane what ref/ does. */
#ifndef MT_KERNEL_AVX2_H
#define MT_KERNEL_AVX2_H

#include <immintrin.h>

#include "../impl.h"

/* Templates: inlined, so that types and counts become constants, and small loops unrolled. With
 * sanitizers and over the tests' emulation that would take the compiler minutes; the Makefile
 * then asks for the same code as plain functions. */
#ifdef MT_KERNEL_COMPACT
#define MT_INLINE static __attribute__((noinline, unused))
#define MT_UNROLL
#else
#define MT_INLINE static inline __attribute__((always_inline))
#define MT_UNROLL _Pragma("GCC unroll 16")
#endif

void mt_quantize_avx2(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end);
void mt_quantize_blocks_avx2(mt_act *a, const mt_matrix *m, size_t row, size_t block_begin,
                             size_t block_end);
void mt_gemm_avx2(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                  size_t row_begin, size_t row_end, float *out, size_t ld_out);
int mt_gemm_units_avx2(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                       size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld);
void mt_gemm_avxvnni(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                     size_t row_begin, size_t row_end, float *out, size_t ld_out);
int mt_gemm_units_avxvnni(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                          size_t row_begin, size_t row_end, const int *exp, int64_t *acc,
                          size_t ld);
float mt_sum_squares_avx2(const float *x, size_t n);
float mt_rmsnorm_avx2(const float *x, const float *w, size_t n, float eps, float *out);
void mt_rope_avx2(float *x, const float *cos, const float *sin, size_t n_rotary);
void mt_silu_mul_avx2(const float *g, const float *u, size_t n, float *out);
void mt_gelu_mul_avx2(const float *g, const float *u, size_t n, float *out);
void mt_add_avx2(float *x, const float *y, size_t n);
void mt_scale_avx2(float *x, float a, size_t n);
void mt_exp_avx2(const float *x, size_t n, float *out);
bool mt_widen_avx2(const float *x, size_t n, double *y, double *max);
void mt_exp64_avx2(const double *x, double from, size_t n, double *out);
void mt_temper_avx2(double *x, double from, double by);
double mt_sum_above_avx2(const double *key, const double *e, double lo, double hi,
                         uint64_t *within);
void mt_keep_avx2(const double *key, double least, double share, double *value, double *e);
void mt_kv_store_avx2(mt_kv_type type, size_t head_dim, void *k_block, void *v_block, size_t slot,
                      const float *k, const float *v);
void mt_attend_avx2(mt_kv_type type, size_t head_dim, const float *q, float scale,
                    const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                    mt_attn_part *out, float *weight);
void mt_attend_many_avx2(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                         float scale, const void *const *k_block, const void *const *v_block,
                         const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                         float *scratch);
/* Scores s [lo, hi) (room up to whole tiles) become weights; fills out->max and out->sum. */
void mt_softmax_part_avx2(float *s, size_t lo, size_t hi, mt_attn_part *out);
/* acc_d for d in [d_begin, head_dim). */
void mt_values_avx2(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                    size_t hi, const float *p, size_t d_begin, float *acc);
void mt_attend_merge_avx2(size_t head_dim, mt_attn_part *total, const mt_attn_part *part);
void mt_attend_finish_avx2(size_t head_dim, const mt_attn_part *total, float *out);
bool mt_sum_parts_avx2(const int64_t *const *part, size_t n_parts, size_t at, size_t n,
                       unsigned limit_bits, int64_t *out);
bool mt_round_sums_avx2(const int64_t *sum, size_t n, int exp, float *out);

/* The lines of [p, p + bytes), into the second cache. */
MT_INLINE void ask_lines(const uint8_t *p, size_t bytes) {
  MT_UNROLL for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

MT_INLINE __m256 load_f16x8(const void *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

/* Signed bytes to f32. */
MT_INLINE __m256 load_i8x8(const void *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

/* The fixed tree over lanes 0 … 7 (a) and 8 … 15 (b). */
MT_INLINE float tree_16(__m256 a, __m256 b) {
  __m256 s = _mm256_add_ps(a, b);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* e^r of exp's recipe; n + MT_EXP_MAGIC goes to *shifted. */
MT_INLINE __m256 exp_rest_x8(__m256 x, __m256 *shifted) {
  const __m256 magic = _mm256_set1_ps(MT_EXP_MAGIC);
  *shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(MT_EXP_LOG2E), magic);
  __m256 n = _mm256_sub_ps(*shifted, magic);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-MT_EXP_LN2_HI), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-MT_EXP_LN2_LO), r);
  __m256 q = _mm256_set1_ps(MT_EXP_Q4);
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(MT_EXP_Q3));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(MT_EXP_Q2));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(MT_EXP_Q1));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(MT_EXP_Q0));
  return _mm256_add_ps(_mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
}

MT_INLINE __m256 exp_x8(__m256 x) {
  /* The second operand is what comes out where one is NaN. */
  x = _mm256_min_ps(_mm256_set1_ps(MT_EXP_MAX), x);
  x = _mm256_max_ps(_mm256_set1_ps(MT_EXP_MIN), x);
  __m256 shifted, p = exp_rest_x8(x, &shifted);
  __m256i i =
      _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32((int)MT_EXP_MAGIC_BITS));
  __m256i half = _mm256_srai_epi32(i, 1), bias = _mm256_set1_epi32(127);
  __m256i rest = _mm256_add_epi32(_mm256_sub_epi32(i, half), bias);
  p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(rest, 23)));
}

/* The same where MT_EXP_NORMAL <= x <= 0: the result is a normal number, so that the power of two
 * is exact, an integer added to the exponent (the magic number's bits are shifted out). */
MT_INLINE __m256 exp_normal_x8(__m256 x) {
  __m256 shifted, p = exp_rest_x8(x, &shifted);
  __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
}

MT_INLINE float exp_x1(float x) {
  return _mm256_cvtss_f32(exp_x8(_mm256_set1_ps(x)));
}

/* 8 elements from index i of a block, before a q8 scale. */
MT_INLINE __m256 load_x8(mt_kv_type type, const uint8_t *block, size_t i) {
  if (type == MT_KV_F16) return load_f16x8(block + 2 * i);
  if (type == MT_KV_F32) return _mm256_loadu_ps((const float *)(const void *)block + i);
  return load_i8x8(block + i);
}

#endif
