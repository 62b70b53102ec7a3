/* NEON kernels on rows of the vocabulary. */
#include "neon.h"

typedef float64x2_t F64;
typedef float32x2_t F32;
typedef uint64x2_t U64;
#define max_f64 vmaxq_f64
#include "../vocab.h"

bool mt_widen_neon(const float *x, size_t n, double *y, double *max) {
  return widen_row(x, n, y, max);
}

void mt_exp64_neon(const double *x, double from, size_t n, double *out) {
  exp64_row(x, from, n, out);
}
