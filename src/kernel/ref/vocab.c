/* Reference kernels on rows of the vocabulary. */
#include "ref.h"

bool mt_widen_ref(const float *x, size_t n, double *y, double *max) {
  bool fine = true;
  for (size_t i = 0; i < n; i += MT_LOGIT_BLOCK) {
    double most = -__builtin_inf();
    for (size_t j = i; j < i + MT_LOGIT_BLOCK; j++) {
      y[j] = j < n ? (double)x[j] : -__builtin_inf();
      fine &= y[j] < __builtin_inf();
      if (y[j] > most) most = y[j];
    }
    max[i / MT_LOGIT_BLOCK] = most + 0.0;
  }
  return fine;
}

void mt_exp64_ref(const double *x, double from, size_t n, double *out) {
  for (size_t i = 0; i < n; i++) out[i] = mt_exp64(x[i] - from);
}
