/* The inexact backend: f32, f16 and bf16 weights widened to f32 row-major, multiplied by
 * OpenBLAS. Its bits depend on a row's place in the tile, the number of rows and the CPU;
 * everything else comes from the best exact table.
 * The library is loaded when it is asked for: merely linked, it starts a thread per core in every
 * rank, and these spin for ever at exit where memory is short. */
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "impl.h"

static __typeof__(&cblas_sgemm) blas_sgemm;
static const mt_kernels *exact_table;
static mt_kernels table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* out [n][ld_out] = x [n][k0, k1) · w [rows][k0, k1)ᵀ. */
static void sgemm(const mt_matrix *m, size_t panel_begin, size_t n_rows_w, size_t k0, size_t k1,
                  const mt_act *a, size_t row_begin, size_t n, float *out, size_t ld_out) {
  const float *w = (const float *)(const void *)(m->data + panel_begin * m->panel_bytes);
  blas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)n_rows_w, (int)(k1 - k0), 1.0f,
             a->x + row_begin * a->ld_x + k0, (int)a->ld_x, w + k0, (int)m->cols, 0.0f, out,
             (int)ld_out);
}

static size_t rows_of(const mt_matrix *m, size_t panel_begin, size_t panel_end) {
  size_t begin = panel_begin * MT_PANEL_ROWS, end = panel_end * MT_PANEL_ROWS;
  if (end > m->rows) end = m->rows;
  return end > begin ? end - begin : 0;
}

static void quantize(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end) {
  if (m->layout != MT_LAYOUT_ROWS_F32) exact_table->quantize(a, m, row_begin, row_end);
}

static void gemm(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                 size_t row_begin, size_t row_end, float *out, size_t ld_out) {
  if (m->layout != MT_LAYOUT_ROWS_F32) {
    exact_table->gemm(m, panel_begin, panel_end, a, row_begin, row_end, out, ld_out);
    return;
  }
  size_t rows = rows_of(m, panel_begin, panel_end);
  float *to = out + row_begin * ld_out + panel_begin * MT_PANEL_ROWS;
  if (!rows || row_end <= row_begin) return;
  if (m->cols)
    sgemm(m, panel_begin, rows, 0, m->cols, a, row_begin, row_end - row_begin, to, ld_out);
  else
    for (size_t t = 0; t < row_end - row_begin; t++) memset(to + t * ld_out, 0, rows * sizeof *to);
}

enum { ROWS = 64, TOKENS = 16 }; /* of the buffer of unit sums */

static int gemm_units(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                      size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld) {
  if (m->layout != MT_LAYOUT_ROWS_F32)
    return exact_table->gemm_units(m, panel_begin, panel_end, a, row_begin, row_end, exp, acc, ld);
  int failed = 0;
  float sum[TOKENS * ROWS];
  size_t step = ROWS / MT_PANEL_ROWS;
  for (size_t p = panel_begin; p < panel_end; p += step) {
    size_t rows = rows_of(m, p, p + step < panel_end ? p + step : panel_end);
    for (size_t row = row_begin; row < row_end; row += TOKENS) {
      size_t n = row_end - row < TOKENS ? row_end - row : TOKENS;
      for (size_t u = 0; u < m->n_units; u++) {
        if (m->unit[u] == m->unit[u + 1]) continue;
        sgemm(m, p, rows, m->unit[u], m->unit[u + 1], a, row, n, sum, ROWS);
        for (size_t t = 0; t < n; t++)
          failed += mt_add_units(sum + t * ROWS, rows, mt_unit_factor(exp[row + t]),
                                 acc + (row + t) * ld + p * MT_PANEL_ROWS);
      }
    }
  }
  return failed;
}

/* Our callers bring their own threads. */
static void fill(void) {
  exact_table = mt_kernels_best();
  setenv("OPENBLAS_NUM_THREADS", "1", 1); /* read when the library is loaded */
  void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  void *sgemm_at = lib ? dlsym(lib, "cblas_sgemm") : NULL;
  if (!sgemm_at) return;
  memcpy(&blas_sgemm, &sgemm_at,
         sizeof blas_sgemm); /* ISO C has no cast from object to function pointer */
  table = *exact_table;
  table.isa = "openblas";
  table.exact = false;
  table.quantize = quantize;
  table.gemm = gemm;
  table.gemm_units = gemm_units;
}

const mt_kernels *mt_kernels_openblas(void) {
  pthread_once(&once, fill);
  return blas_sgemm ? &table : NULL;
}
