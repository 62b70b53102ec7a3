/* libopenblas.so.0 of the cross build: sums in double, which is as independent of the kernels as
 * the real one. */
#include "cblas.h"

void cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE trans_a, enum CBLAS_TRANSPOSE trans_b,
                 int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c, int ldc) {
  (void)order, (void)trans_a, (void)trans_b, (void)alpha, (void)beta;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int l = 0; l < k; l++) sum += (double)a[i * lda + l] * (double)b[j * ldb + l];
      c[i * ldc + j] = (float)sum;
    }
}

/* A type that fits every aarch64, as src/kernel/openblas.c has it. */
char *openblas_get_corename(void) {
  static char name[] = "CORTEXA57";
  return name;
}
