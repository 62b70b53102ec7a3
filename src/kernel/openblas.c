/* The inexact backend: f32, f16 and bf16 weights widened to f32 row-major, multiplied by
 * OpenBLAS. Its bits depend on a row's place in the tile, the number of rows and the CPU;
 * everything else comes from an exact table.
 * The library is loaded when it is asked for: merely linked, it starts a thread per core in every
 * rank, and these spin for ever at exit where memory is short. */
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>

#include "impl.h"

static __typeof__(&cblas_sgemm) blas_sgemm;
static const char *core_name = ""; /* the library's string */
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
      for (size_t t = 0; t < n; t++)
        memset(acc + (row + t) * ld + p * MT_PANEL_ROWS, 0, rows * sizeof *acc);
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

/* ---- the core type ----------------------------------------------------------------------- */

enum { OLD, FMA, AVX512 }; /* what the kernels for a core type need */

/* OpenBLAS's names of the x86-64 without fused multiply-adds ("Unknown" runs Prescott's kernels),
 * and of those with AVX-512. Any other is one with AVX2, or is newer than this list. */
static int level_of_core(const char *name) {
  static const struct {
    const char *name;
    int level;
  } CORES[] = {{"Unknown", OLD},     {"Katmai", OLD},        {"Coppermine", OLD},
               {"Northwood", OLD},   {"Prescott", OLD},      {"Banias", OLD},
               {"Atom", OLD},        {"Core2", OLD},         {"Penryn", OLD},
               {"Dunnington", OLD},  {"Nehalem", OLD},       {"Sandybridge", OLD},
               {"Athlon", OLD},      {"Opteron", OLD},       {"Opteron_SSE3", OLD},
               {"Barcelona", OLD},   {"Bobcat", OLD},        {"Nano", OLD},
               {"SkylakeX", AVX512}, {"Cooperlake", AVX512}, {"SapphireRapids", AVX512}};
  for (size_t i = 0; i < sizeof CORES / sizeof CORES[0]; i++)
    if (!strcasecmp(name, CORES[i].name)) return CORES[i].level;
  return FMA;
}

/* By CPUID. Whatever we run on has fused multiply-adds. */
static int level_of_cpu(void) {
  return strstr(mt_kernels_best()->isa, "avx512") ? AVX512 : FMA;
}

/* A core type that runs at full speed here, and that every version knows. */
static const char *fitting_core(void) {
#if defined(__x86_64__)
  return level_of_cpu() == AVX512 ? "SkylakeX" : "Haswell";
#else
  return "CORTEXA57";
#endif
}

/* Best of a few runs taken in turn: what slows the machine for a while slows neither alone. A
 * product of this size comes near the library's best. */
static void measure_rates(mt_blas_core *c) {
  enum { SIDE = 192, ELEMS = SIDE * SIDE, RUNS = 10, ROUNDS = 2000 };
  float *a = mt_pages_alloc(3 * ELEMS * sizeof *a);
  for (int i = 0; a && i < RUNS; i++) {
    uint64_t t0 = mt_clock_ns();
    blas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SIDE, SIDE, SIDE, 1.0f, a, SIDE, a + ELEMS,
               SIDE, 0.0f, a + 2 * ELEMS, SIDE);
    uint64_t t1 = mt_clock_ns(), ops = mt_kernels_run_fma(mt_kernels_best(), ROUNDS);
    uint64_t t2 = mt_clock_ns();
    double sgemm = 2e9 * SIDE * ELEMS / (double)(t1 - t0),
           fma = 1e9 * (double)ops / (double)(t2 - t1);
    if (sgemm > c->sgemm_per_s) c->sgemm_per_s = sgemm;
    if (fma > c->fma_per_s) c->fma_per_s = fma;
  }
  mt_pages_free(a, 3 * ELEMS * sizeof *a);
}

/* ---- loading ----------------------------------------------------------------------------- */

/* ISO C has no cast from object to function pointer. */
static void find(void *lib, const char *name, void *function) {
  void *at = lib ? dlsym(lib, name) : NULL;
  memcpy(function, &at, sizeof at);
}

/* Our callers bring their own threads. */
static void load(void) {
  setenv("OPENBLAS_NUM_THREADS", "1", 1); /* read when the library is loaded */
  void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  char *(*get_corename)(void);
  find(lib, "cblas_sgemm", &blas_sgemm);
  find(lib, "openblas_get_corename", &get_corename);
  if (get_corename) core_name = get_corename();
}

static int open_library(mt_err *e) {
  pthread_once(&once, load);
  if (!blas_sgemm) return mt_err_set(e, MT_EUNSUPPORTED, "libopenblas.so.0 cannot be loaded");
  if (level_of_core(core_name) > level_of_cpu())
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "OpenBLAS's core type is %s, which needs AVX-512, and this CPU has none: set "
                      "OPENBLAS_CORETYPE=%s in the environment",
                      core_name, fitting_core());
  return MT_OK;
}

int mt_kernels_openblas(const mt_kernels *exact, const mt_kernels **out, mt_err *e) {
  int rc = open_library(e);
  if (rc) return rc;
  exact_table = exact;
  table = *exact;
  table.isa = "openblas";
  table.exact = false;
  table.quantize = quantize;
  table.gemm = gemm;
  table.gemm_units = gemm_units;
  *out = &table;
  return MT_OK;
}

const mt_kernels *mt_openblas_exact(void) {
  return exact_table;
}

bool mt_kernels_judge_openblas(mt_blas_core *c) {
  *c = (mt_blas_core){.name = "", .better = ""};
  if (open_library(NULL)) return true;
  c->name = core_name;
  if (!c->name[0]) return true; /* it does not say, so there is nothing to find wanting */
  c->better = fitting_core();
  measure_rates(c);
  if (!strcasecmp(c->name, c->better)) return true;
  return level_of_core(c->name) >= FMA && 2 * c->sgemm_per_s >= c->fma_per_s;
}
