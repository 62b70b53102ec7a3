/* Times the matrix products alone, one thread: decode (one input row) in GB/s of packed weights,
 * prefill in G multiply-adds a second, for every type; both also summed by units of a head, as
 * after attention. `mutirao bench` says what the machine gives.
 *
 *   build/bench/kernels [isa [prefill rows [type]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/kernel.h"

enum {
  COLS = 2048,
  ROWS = 5632,
  HEAD = 64,
  REPEAT = 5,
  MAX_PANELS_BYTES = 256 << 20,
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
static void fill(mt_matrix *m) {
  uint8_t *p = m->data;
  uint32_t s = 1;
  for (size_t i = 0; i < m->data_bytes; i++) {
    s = s * 1664525u + 1013904223u;
    p[i] = m->type == MT_MXFP4 ? (uint8_t)(0x70 | s >> 28) : i % 2 ? 0x24 : (uint8_t)(s >> 24);
  }
}

/* One row of input: GB/s of packed weights, all of them from memory, a few panels from the second
 * cache, or summed by units of 64 columns as after attention. */
static double decode_gb_per_s(const mt_kernels *kn, const mt_matrix *m, const mt_act *a, float *out,
                              int64_t *acc, size_t panels) {
  double best = 0;
  const int exp = -20;
  for (int r = 0; r < REPEAT; r++) {
    uint64_t t = mt_clock_ns();
    size_t times = m->n_panels / panels;
    for (size_t i = 0; i < times; i++) {
      if (acc)
        kn->gemm_units(m, 0, panels, a, 0, 1, &exp, acc, m->rows);
      else
        kn->gemm(m, 0, panels, a, 0, 1, out, m->rows);
    }
    double g = (double)(times * panels * m->panel_bytes) / seconds_since(t) * 1e-9;
    if (g > best) best = g;
  }
  return best;
}

static void bench_type(const mt_kernels *kn, mt_dtype type, size_t n_prefill) {
  mt_err e = {0};
  mt_matrix m, by_head;
  size_t one = mt_dtype_row_bytes(type, COLS), rows = MAX_PANELS_BYTES / one / 16 * 16;
  uint32_t unit[COLS / HEAD + 1];
  for (uint32_t i = 0; i <= COLS / HEAD; i++) unit[i] = i * HEAD;
  if (mt_matrix_init(&m, kn, type, rows, COLS, 0, NULL, 1, &e)) die(&e);
  if (mt_matrix_init(&by_head, kn, type, rows, COLS, 0, unit, COLS / HEAD, &e)) die(&e);
  m.data = by_head.data = mt_pages_alloc(m.data_bytes);
  float *x = aligned_alloc(64, n_prefill * (COLS + 16) * sizeof *x);
  float *out = aligned_alloc(64, rows * sizeof *out);
  int64_t *acc = aligned_alloc(64, rows * sizeof *acc);
  float *out_many = aligned_alloc(64, n_prefill * ROWS * sizeof *out);
  int64_t *acc_many = aligned_alloc(64, n_prefill * COLS * sizeof *acc);
  int *exp = malloc(n_prefill * sizeof *exp);
  if (!m.data || !x || !out || !acc || !out_many || !acc_many || !exp) exit(1);
  fill(&m);
  memset(acc, 0, rows * sizeof *acc);
  memset(acc_many, 0, n_prefill * COLS * sizeof *acc);
  for (size_t i = 0; i < n_prefill; i++) exp[i] = -20;
  for (size_t i = 0; i < n_prefill * (COLS + 16); i++) x[i] = (float)(i % 17) - 8;
  mt_act a = {0};
  if (mt_act_reserve(&a, &m, x, COLS + 16, n_prefill, &e)) die(&e);
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
  printf(
      "%-8s decode %6.2f GB/s, cached %6.2f, by heads %6.2f  prefill %7.1f GMAC/s, by heads %7.1f  "
      "quantize %6.3f ms\n",
      mt_dtype_get(type)->name, decode_gb_per_s(kn, &m, &a, out, NULL, m.n_panels),
      decode_gb_per_s(kn, &m, &a, out, NULL, few),
      decode_gb_per_s(kn, &by_head, &a, NULL, acc, few), prefill, prefill_units, quant * 1e3);
  mt_act_free(&a);
  mt_pages_free(m.data, m.data_bytes);
  mt_matrix_fini(&m);
  mt_matrix_fini(&by_head);
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
  printf("kernels %s, %zu rows of prefill\n", kn->isa, n);
  for (int t = 0; t < MT_DTYPE_COUNT; t++)
    if (mt_dtype_get((mt_dtype)t)->weight && (argc < 4 || t == (int)only))
      bench_type(kn, (mt_dtype)t, n);
  return 0;
}
