/* What the AVX-512 kernels share. The tables overlay the AVX2 one: rows of activations and norms
 * are too short a part of a step to be written twice. Built a second time by the tests, over an
 * emulation. */
#ifndef MT_KERNEL_AVX512_H
#define MT_KERNEL_AVX512_H

#include "../avx2/avx2.h"

void mt_gemm_avx512(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                    size_t row_begin, size_t row_end, float *out, size_t ld_out);
int mt_gemm_units_avx512(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                         size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld);
void mt_gemm_avx512vnni(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                        size_t row_begin, size_t row_end, float *out, size_t ld_out);
int mt_gemm_units_avx512vnni(const mt_matrix *m, size_t panel_begin, size_t panel_end,
                             const mt_act *a, size_t row_begin, size_t row_end, const int *exp,
                             int64_t *acc, size_t ld);
bool mt_widen_avx512(const float *x, size_t n, double *y, double *max);
void mt_exp64_avx512(const double *x, double from, size_t n, double *out);
void mt_temper_avx512(double *x, double from, double by);
double mt_sum_above_avx512(const double *key, const double *e, double lo, double hi,
                           uint64_t *within);
void mt_keep_avx512(const double *key, double least, double share, double *value, double *e);
void mt_attend_avx512(mt_kv_type type, size_t head_dim, const float *q, float scale,
                      const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                      mt_attn_part *out, float *weight);
bool mt_sum_parts_avx512(const int64_t *const *part, size_t n_parts, size_t at, size_t n,
                         unsigned limit_bits, int64_t *out);
bool mt_round_sums_avx512(const int64_t *sum, size_t n, int exp, float *out);

void mt_attend_many_avx512(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                           float scale, const void *const *k_block, const void *const *v_block,
                           const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                           float *scratch);

/* 16 elements from index i of a block, before a q8 scale. */
MT_INLINE __m512 load_x16(mt_kv_type type, const uint8_t *block, size_t i) {
  if (type == MT_KV_F16)
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(block + 2 * i)));
  if (type == MT_KV_F32) return _mm512_loadu_ps((const float *)(const void *)block + i);
  __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(block + i));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v));
}

#endif
