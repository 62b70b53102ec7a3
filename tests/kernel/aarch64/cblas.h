/* What the kernels call of OpenBLAS, for the cross build alone, where that library is not to be
 * had: openblas.c beside this file. */
#ifndef MT_TEST_CBLAS_H
#define MT_TEST_CBLAS_H

enum CBLAS_ORDER { CblasRowMajor = 101 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };

/* c [m][ldc] = a [m][lda] · b [n][ldb]ᵀ over k; alpha is 1 and beta 0. */
void cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE trans_a, enum CBLAS_TRANSPOSE trans_b,
                 int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c, int ldc);
char *openblas_get_corename(void);

#endif
