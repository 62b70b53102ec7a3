/* Times the matrix products alone, one thread: decode (one input row) in GB/s of packed weights,
 * prefill in G multiply-adds a second, for every type. Beside a matrix of 2,048 columns in one
 * unit, a wide one (5,632, units of 256) as after the FFN, and units of a head, as after attention.
 * `mutirao bench` says what the machine gives.
 *
 *   build/bench/kernels [isa [prefill rows [type]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/kernel.h"

enum {
  COLS = 2048,
  WIDE = 5632,
  WIDE_UNIT = 256,
  ROWS = 5632,
  HEAD = 64,
  REPEAT = 5,
  MAX_PANELS_BYTES = 256 << 20,
  CHUNK = 32, /* panels of a call, as the engine's */
  CACHED_BYTES = 400 << 10
};

static double seconds_since(uint64_t t) {
  return (double)(mt_clock_ns() - t) * 1e-9;
}

static void die(const mt_err *e) {
  fprintf(stderr, "%s\n", e->msg);
  exit(1);
}

/* Random bytes with sane scales would need each type's layout; the time does not depend on the
 * values, as long as no scale is subnormal and no sum out of range: f16 halves around 1/64,
 * exponents (MXFP4) from −16 to −1. */
static void fill(uint8_t *p, size_t bytes, mt_dtype type) {
  uint32_t s = 1;
  for (size_t i = 0; i < bytes; i++) {
    s = s * 1664525u + 1013904223u;
    p[i] = type == MT_MXFP4 ? (uint8_t)(0x70 | s >> 28) : i % 2 ? 0x24 : (uint8_t)(s >> 24);
  }
}

/* Panels [begin, end) for one row of input; into acc, where it is given. */
static void multiply(const mt_kernels *kn, const mt_matrix *m, const mt_act *a, float *out,
                     int64_t *acc, size_t begin, size_t end) {
  const int exp = -20;
  if (acc)
    kn->gemm_units(m, begin, end, a, 0, 1, &exp, acc, m->rows);
  else
    kn->gemm(m, begin, end, a, 0, 1, out, m->rows);
}

/* The mean over all of m's bytes, in the engine's chunks, or over as many, `cached` panels being
 * taken again and again; the best of several. */
static double decode_gb_per_s(const mt_kernels *kn, const mt_matrix *m, const mt_act *a, float *out,
                              int64_t *acc, size_t cached) {
  double best = 0;
  for (int r = 0; r < REPEAT; r++) {
    uint64_t t = mt_clock_ns();
    for (size_t p = 0, n; p < m->n_panels; p += n) {
      n = cached ? cached : CHUNK;
      if (n > m->n_panels - p) n = m->n_panels - p;
      multiply(kn, m, a, out, acc, cached ? 0 : p, cached ? n : p + n);
    }
    double g = (double)(m->n_panels * m->panel_bytes) / seconds_since(t) * 1e-9;
    if (g > best) best = g;
  }
  return best;
}

/* A matrix of 256 MB in units of `step` columns. */
static void plan(mt_matrix *m, const mt_kernels *kn, mt_dtype type, size_t cols, size_t step) {
  mt_err e = {0};
  uint32_t unit[COLS / HEAD + 1];
  size_t rows = MAX_PANELS_BYTES / mt_dtype_row_bytes(type, cols) / 16 * 16;
  for (size_t i = 0; i <= cols / step; i++) unit[i] = (uint32_t)(i * step);
  if (mt_matrix_init(m, kn, type, rows, cols, 0, unit, cols / step, &e)) die(&e);
}

static void bench_type(const mt_kernels *kn, mt_dtype type, size_t n_prefill) {
  mt_err e = {0};
  mt_matrix m, wide, by_head;
  plan(&m, kn, type, COLS, COLS);
  plan(&wide, kn, type, WIDE, WIDE_UNIT);
  plan(&by_head, kn, type, COLS, HEAD);
  const size_t rows = m.rows;
  const size_t bytes = m.data_bytes > wide.data_bytes ? m.data_bytes : wide.data_bytes;
  m.data = by_head.data = wide.data = mt_pages_alloc(bytes);
  float *x = aligned_alloc(64, (n_prefill * (COLS + 16) + WIDE) * sizeof *x);
  float *out = aligned_alloc(64, rows * sizeof *out);
  int64_t *acc = aligned_alloc(64, rows * sizeof *acc);
  float *out_many = aligned_alloc(64, n_prefill * ROWS * sizeof *out);
  int64_t *acc_many = aligned_alloc(64, n_prefill * COLS * sizeof *acc);
  int *exp = malloc(n_prefill * sizeof *exp);
  if (!m.data || !x || !out || !acc || !out_many || !acc_many || !exp) exit(1);
  fill(m.data, bytes, type);
  memset(acc, 0, rows * sizeof *acc);
  memset(acc_many, 0, n_prefill * COLS * sizeof *acc);
  for (size_t i = 0; i < n_prefill; i++) exp[i] = -20;
  for (size_t i = 0; i < n_prefill * (COLS + 16) + WIDE; i++) x[i] = (float)(i % 17) - 8;
  mt_act a = {0}, a_wide = {0};
  if (mt_act_reserve(&a, &m, x, COLS + 16, n_prefill, &e)) die(&e);
  if (mt_act_reserve(&a_wide, &wide, x, WIDE, 1, &e)) die(&e);
  kn->quantize(&a_wide, &wide, 0, 1);
  double prefill = 0, prefill_units = 0, quant = 1e9;
  for (int r = 0; r < REPEAT; r++) {
    uint64_t t = mt_clock_ns();
    kn->quantize(&a, &m, 0, n_prefill);
    double s = seconds_since(t);
    if (s < quant) quant = s;
    t = mt_clock_ns();
    kn->gemm(&m, 0, ROWS / 16, &a, 0, n_prefill, out_many, ROWS);
    double g = (double)n_prefill * COLS * ROWS / seconds_since(t) * 1e-9;
    if (g > prefill) prefill = g;
    t = mt_clock_ns();
    kn->gemm_units(&by_head, 0, COLS / 16, &a, 0, n_prefill, exp, acc_many, COLS);
    g = (double)n_prefill * COLS * COLS / seconds_since(t) * 1e-9;
    if (g > prefill_units) prefill_units = g;
  }
  size_t few = CACHED_BYTES / m.panel_bytes;
  double memory = decode_gb_per_s(kn, &m, &a, out, NULL, 0);
  double memory_wide = decode_gb_per_s(kn, &wide, &a_wide, NULL, acc, 0);
  double memory_head = decode_gb_per_s(kn, &by_head, &a, NULL, acc, 0);
  double cached = decode_gb_per_s(kn, &m, &a, out, NULL, few);
  double cached_head = decode_gb_per_s(kn, &by_head, &a, NULL, acc, few);
  printf("%-6s  %9.1f %6.1f %6.1f  %9.1f %6.1f  %9.1f %6.1f  %9.3f\n", mt_dtype_get(type)->name,
         memory, memory_wide, memory_head, cached, cached_head, prefill, prefill_units,
         quant * 1e3);
  mt_act_free(&a_wide);
  mt_act_free(&a);
  mt_pages_free(m.data, bytes);
  mt_matrix_fini(&m);
  mt_matrix_fini(&by_head);
  mt_matrix_fini(&wide);
  free(x);
  free(out);
  free(acc);
  free(out_many);
  free(acc_many);
  free(exp);
}

int main(int argc, char **argv) {
  const mt_kernels *kn;
  mt_err e = {0};
  const mt_dtype only = argc > 3 ? mt_dtype_by_name(argv[3]) : MT_DTYPE_COUNT;
  if (argc > 3 && (only == MT_DTYPE_COUNT || !mt_dtype_get(only)->weight)) {
    fprintf(stderr, "no kernel multiplies weights of type '%s'\n", argv[3]);
    return 2;
  }
  if (mt_kernels_get(argc > 1 ? argv[1] : NULL, &kn, &e)) die(&e);
  mt_kernels_set_fp_control();
  size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 96;
  printf(
      "kernels %s\n"
      "        decode from memory, GB/s  from the cache    prefill of %zu rows, G/s  quantize, ms\n"
      "        2,048 cols   wide  heads  2,048 cols heads  2,048 cols  heads\n",
      kn->isa, n);
  for (int t = 0; t < MT_DTYPE_COUNT; t++)
    if (mt_dtype_get((mt_dtype)t)->weight && (argc < 4 || t == (int)only))
      bench_type(kn, (mt_dtype)t, n);
  return 0;
}
