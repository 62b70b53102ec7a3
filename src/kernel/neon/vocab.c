/* NEON kernels on rows of the vocabulary. */
#include "neon.h"

typedef float64x2_t F64;
typedef float32x2_t F32;
typedef uint64x2_t U64;
#define max_f64      vmaxq_f64
#define mask_bits(m) (((m)[0] & 1) | ((m)[1] & 2))
#define VOCAB_GROUP  1
#include "../vocab.h"

bool mt_widen_neon(const float *x, size_t n, double *y, double *max) {
  return widen_row(x, n, y, max);
}

void mt_exp64_neon(const double *x, double from, size_t n, double *out) {
  exp64_row(x, from, n, out);
}

void mt_temper_neon(double *x, double from, double by) {
  temper_block(x, from, by);
}

double mt_sum_above_neon(const double *key, const double *e, double lo, double hi,
                         uint64_t *within) {
  return sum_above_block(key, e, lo, hi, within);
}

void mt_keep_neon(const double *key, double least, double share, double *value, double *e) {
  keep_block(key, least, share, value, e);
}
