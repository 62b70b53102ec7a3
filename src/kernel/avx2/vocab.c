/* AVX2 kernels on rows of the vocabulary. */
#include "avx2.h"

typedef __m256d F64;
typedef __m128 F32;
typedef uint64_t U64 __attribute__((vector_size(32)));
#define max_f64      _mm256_max_pd
#define mask_bits(m) ((uint64_t)_mm256_movemask_pd((__m256d)(m)))
#define VOCAB_GROUP  1
#include "../vocab.h"

bool mt_widen_avx2(const float *x, size_t n, double *y, double *max) {
  return widen_row(x, n, y, max);
}

void mt_exp64_avx2(const double *x, double from, size_t n, double *out) {
  exp64_row(x, from, n, out);
}

void mt_temper_avx2(double *x, double from, double by) {
  temper_block(x, from, by);
}

double mt_sum_above_avx2(const double *key, const double *e, double lo, double hi,
                         uint64_t *within) {
  return sum_above_block(key, e, lo, hi, within);
}

void mt_keep_avx2(const double *key, double least, double share, double *value, double *e) {
  keep_block(key, least, share, value, e);
}
