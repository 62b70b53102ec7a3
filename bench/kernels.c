/* Times the matrix products alone, one thread: decode (one input row) in GB/s of packed weights,
 * prefill in G multiply-adds a second, for every type, beside what the machine gives: read
 * bandwidth over a buffer as large, and multiply-adds from registers.
 *
 *   build/bench/kernels [isa [prefill rows [type]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/kernel.h"

enum { COLS = 2048, ROWS = 5632, REPEAT = 5, MAX_PANELS_BYTES = 256 << 20 };

static double seconds_since(uint64_t t) {
  return (double)(mt_clock_ns() - t) * 1e-9;
}

static void die(const mt_err *e) {
  fprintf(stderr, "%s\n", e->msg);
  exit(1);
}

/* Random bytes with sane scales would need each type's layout; the time does not depend on the
 * values, as long as no scale is subnormal: f16 halves around 1/64. */
static void fill(mt_matrix *m) {
  uint8_t *p = m->data;
  uint32_t s = 1;
  for (size_t i = 0; i < m->data_bytes; i++) {
    s = s * 1664525u + 1013904223u;
    p[i] = i % 2 ? 0x24 : (uint8_t)(s >> 24);
  }
}

static volatile uint64_t sink;

static double read_gb_per_s(const uint8_t *p, size_t n) {
  double best = 0;
  for (int r = 0; r < REPEAT; r++) {
    uint64_t t = mt_clock_ns(), s[8] = {0};
    const uint64_t *w = (const uint64_t *)(const void *)p;
    for (size_t i = 0; i + 8 <= n / 8; i += 8)
      for (int k = 0; k < 8; k++) s[k] += w[i + (size_t)k];
    for (int k = 1; k < 8; k++) s[0] += s[k];
    sink = s[0];
    double g = (double)n / seconds_since(t) * 1e-9;
    if (g > best) best = g;
  }
  return best;
}

static void bench_type(const mt_kernels *kn, mt_dtype type, size_t n_prefill) {
  mt_err e = {0};
  mt_matrix m;
  size_t one = mt_dtype_row_bytes(type, COLS), rows = MAX_PANELS_BYTES / one / 16 * 16;
  if (mt_matrix_init(&m, kn, type, rows, COLS, 0, NULL, 1, &e)) die(&e);
  m.data = mt_pages_alloc(m.data_bytes);
  float *x = aligned_alloc(64, n_prefill * (COLS + 16) * sizeof *x);
  float *out = aligned_alloc(64, rows * sizeof *out);
  float *out_many = aligned_alloc(64, n_prefill * ROWS * sizeof *out);
  if (!m.data || !x || !out || !out_many) exit(1);
  fill(&m);
  for (size_t i = 0; i < n_prefill * (COLS + 16); i++) x[i] = (float)(i % 17) - 8;
  mt_act a = {0};
  if (mt_act_reserve(&a, &m, x, COLS + 16, n_prefill, &e)) die(&e);
  double decode = 0, prefill = 0, read = read_gb_per_s(m.data, m.data_bytes), quant = 1e9;
  for (int r = 0; r < REPEAT; r++) {
    uint64_t t = mt_clock_ns();
    kn->quantize(&a, &m, 0, n_prefill);
    double s = seconds_since(t);
    if (s < quant) quant = s;
    t = mt_clock_ns();
    kn->gemm(&m, 0, m.n_panels, &a, 0, 1, out, rows);
    double g = (double)m.data_bytes / seconds_since(t) * 1e-9;
    if (g > decode) decode = g;
    t = mt_clock_ns();
    kn->gemm(&m, 0, ROWS / 16, &a, 0, n_prefill, out_many, ROWS);
    g = (double)n_prefill * COLS * ROWS / seconds_since(t) * 1e-9;
    if (g > prefill) prefill = g;
  }
  printf("%-8s decode %6.2f GB/s of %6.2f (%3.0f %%)  prefill %7.1f GMAC/s  quantize %6.3f ms\n",
         mt_dtype_get(type)->name, decode, read, 100 * decode / read, prefill, quant * 1e3);
  mt_act_free(&a);
  mt_pages_free(m.data, m.data_bytes);
  mt_matrix_fini(&m);
  free(x);
  free(out);
  free(out_many);
}

int main(int argc, char **argv) {
  const mt_kernels *kn;
  mt_err e = {0};
  if (mt_kernels_get(argc > 1 ? argv[1] : NULL, &kn, &e)) die(&e);
  mt_kernels_set_fp_control();
  size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 96;
  printf("kernels %s, %zu rows of prefill\n", kn->isa, n);
  for (int t = 0; t < MT_DTYPE_COUNT; t++)
    if (mt_dtype_get((mt_dtype)t)->weight && (argc < 4 || t == (int)mt_dtype_by_name(argv[3])))
      bench_type(kn, (mt_dtype)t, n);
  return 0;
}
