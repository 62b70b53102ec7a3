/* What the kernel tests share: random inputs, random file-format weights, a matrix with its
 * memory. */
#ifndef MT_KERNEL_TEST_H
#define MT_KERNEL_TEST_H

#include <math.h>

#include "../../src/kernel/impl.h"
#include "mt_test.h"

typedef struct rng {
  uint64_t seed, at;
} rng;

static inline double uniform(rng *r) {
  return mt_uniform(r->seed, 0, r->at++, 0);
}
static inline float normalish(rng *r) {
  return (float)(uniform(r) + uniform(r) + uniform(r) + uniform(r) - 2);
}
static inline size_t below(rng *r, size_t n) {
  return (size_t)(uniform(r) * (double)n);
}

static inline uint16_t f16_of(double exponent, rng *r) {
  int e = (int)exponent;
  return (uint16_t)((unsigned)(below(r, 2) << 15) | (unsigned)e << 10 | (unsigned)below(r, 1024));
}

/* The scales of a block: both f16 fields where there are two, or the byte of MXFP4 (127 − 15 + e
 * for f16's exponent e; 0 or 1, whose values are subnormal, for e = 0). */
static inline void set_scale(mt_dtype type, uint8_t *block, int field, uint16_t f16) {
  const mt_qinfo *qi = mt_qinfo_get(type);
  int e = f16 >> 10 & 31;
  if (qi && qi->scale == MT_SCALE_E8M0)
    block[qi->d_at] = (uint8_t)(e ? 112 + e : f16 & 1);
  else
    memcpy(block + (qi ? field ? qi->m_at : qi->d_at : 0), &f16, 2);
}

/* Random blocks: any codes, f16 fields with exponents in [e_min, e_max] (0: subnormal; 15 is
 * 1.0). */
static inline void random_file(rng *r, mt_dtype type, uint8_t *w, size_t bytes, int e_min,
                               int e_max) {
  const mt_dtype_info *t = mt_dtype_get(type);
  if (type == MT_F32) {
    for (size_t i = 0; i < bytes / 4; i++) {
      float f = normalish(r);
      memcpy(w + 4 * i, &f, 4);
    }
    return;
  }
  for (size_t at = 0; at < bytes; at += t->block_bytes) {
    for (size_t i = 0; i < t->block_bytes; i++) w[at + i] = (uint8_t)below(r, 256);
    for (int f = 0; f < 2; f++) {
      uint16_t h = f16_of(e_min + (double)below(r, (size_t)(e_max - e_min + 1)), r);
      if (type == MT_BF16) h = (uint16_t)(0x3f00u + (h & 0x80ffu));
      set_scale(type, w + at, f, h);
    }
  }
}

/* Quantized blocks whose other bytes are all `byte`, with scales of 1. */
static inline void uniform_file(mt_dtype type, uint8_t *w, size_t bytes, uint8_t byte) {
  const uint16_t one = 0x3c00;
  memset(w, byte, bytes);
  for (size_t at = 0; at < bytes; at += mt_dtype_get(type)->block_bytes)
    for (int f = 0; f < 2; f++) set_scale(type, w + at, f, one);
}

/* A weight in file format and packed. */
typedef struct weight {
  mt_matrix m;
  uint8_t *file;
  size_t file_cols, row_bytes, src_k;
} weight;

static inline void weight_pack(weight *w, const mt_kernels *kn, mt_dtype type, size_t rows,
                               size_t cols, size_t k_begin, const uint32_t *unit, size_t n_units) {
  mt_err e = {0};
  CU_ASSERT_EQUAL_FATAL(mt_matrix_init(&w->m, kn, type, rows, cols, k_begin, unit, n_units, &e), 0);
  w->m.data = mt_pages_alloc(w->m.data_bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(w->m.data);
  mt_matrix_pack(&w->m, 0, rows, w->file, w->row_bytes, w->src_k);
}

static inline void weight_new(weight *w, rng *r, const mt_kernels *kn, mt_dtype type, size_t rows,
                              size_t cols, size_t k_begin, const uint32_t *unit, size_t n_units,
                              int e_min, int e_max) {
  size_t block = mt_dtype_get(type)->block_elems;
  w->src_k = k_begin % block;
  w->file_cols = (w->src_k + cols + block - 1) / block * block;
  w->row_bytes = mt_dtype_row_bytes(type, w->file_cols);
  w->file = malloc(rows * w->row_bytes + 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(w->file);
  random_file(r, type, w->file, rows * w->row_bytes, e_min, e_max);
  weight_pack(w, kn, type, rows, cols, k_begin, unit, n_units);
}

static inline void weight_free(weight *w) {
  mt_pages_free(w->m.data, w->m.data_bytes);
  mt_matrix_fini(&w->m);
  free(w->file);
}

/* w [rows][cols] as f32 from the file's bytes. */
static inline float *weight_values(const weight *w) {
  size_t rows = w->m.rows, cols = w->m.cols;
  float *v = malloc((rows * cols + 1) * sizeof *v), *row = malloc((w->file_cols + 1) * sizeof *v);
  for (size_t r = 0; r < rows; r++) {
    mt_dequantize(w->m.type, w->file + r * w->row_bytes, w->file_cols, row);
    memcpy(v + r * cols, row + w->src_k, cols * sizeof *v);
  }
  free(row);
  return v;
}

/* Equal bits, any NaN being equal to any other. */
static inline bool same_floats(const float *a, const float *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (memcmp(a + i, b + i, sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return false;
  return true;
}

static const mt_dtype WEIGHT_TYPES[] = {MT_F32,  MT_F16,    MT_BF16,   MT_Q8_0, MT_Q4_0, MT_Q4_1,
                                        MT_Q5_0, MT_Q5_1,   MT_Q2_K,   MT_Q3_K, MT_Q4_K, MT_Q5_K,
                                        MT_Q6_K, MT_IQ4_NL, MT_IQ4_XS, MT_MXFP4};
enum { N_WEIGHT_TYPES = sizeof WEIGHT_TYPES / sizeof WEIGHT_TYPES[0] };

static inline const mt_kernels *kernels(const char *name) {
  const mt_kernels *kn = NULL;
  mt_err e = {0};
  const bool blas = name && !strcmp(name, "openblas");
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get(blas ? NULL : name, &kn, &e), 0);
  if (blas) CU_ASSERT_EQUAL_FATAL(mt_kernels_openblas(kn, &kn, &e), 0);
  return kn;
}

#endif
