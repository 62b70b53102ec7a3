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

void mt_temper_ref(double *x, double from, double by) {
  for (size_t j = 0; j < MT_LOGIT_BLOCK; j++) x[j] = (x[j] - from) / by;
}

double mt_sum_above_ref(const double *key, const double *e, double lo, double hi,
                        uint64_t *within) {
  double lane[8] = {0}, sum = 0;
  *within = 0;
  for (size_t j = 0; j < MT_LOGIT_BLOCK; j++) {
    lane[j % 8] += key[j] > hi ? e[j] : 0;
    *within |= (uint64_t)(key[j] >= lo && key[j] <= hi) << j;
  }
  for (size_t l = 0; l < 8; l++) sum += lane[l];
  return sum;
}

void mt_keep_ref(const double *key, double least, double share, double *value, double *e) {
  for (size_t j = 0; j < MT_LOGIT_BLOCK; j++)
    if (!(key[j] >= least && e[j] * share > 0)) {
      e[j] = 0;
      value[j] = -__builtin_inf();
    }
}
