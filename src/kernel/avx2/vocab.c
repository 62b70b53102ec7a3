/* AVX2 kernels on rows of the vocabulary. */
#include "avx2.h"

typedef __m256d F64;
typedef __m128 F32;
typedef uint64_t U64 __attribute__((vector_size(32)));
#define max_f64 _mm256_max_pd
#include "../vocab.h"

bool mt_widen_avx2(const float *x, size_t n, double *y, double *max) {
  return widen_row(x, n, y, max);
}

void mt_exp64_avx2(const double *x, double from, size_t n, double *out) {
  exp64_row(x, from, n, out);
}
