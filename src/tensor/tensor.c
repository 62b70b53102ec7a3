/* Table of element types, and the arithmetic of shapes. */
#include <strings.h>

#include "mutirao/tensor.h"

static const mt_dtype_info TYPES[MT_DTYPE_COUNT] = {
    [MT_F32] = {"F32", 1, 4, false, true},          [MT_F16] = {"F16", 1, 2, false, true},
    [MT_BF16] = {"BF16", 1, 2, false, true},        [MT_Q8_0] = {"Q8_0", 32, 34, true, true},
    [MT_Q4_0] = {"Q4_0", 32, 18, true, true},       [MT_Q4_1] = {"Q4_1", 32, 20, true, true},
    [MT_Q5_0] = {"Q5_0", 32, 22, true, true},       [MT_Q5_1] = {"Q5_1", 32, 24, true, true},
    [MT_Q2_K] = {"Q2_K", 256, 84, true, true},      [MT_Q3_K] = {"Q3_K", 256, 110, true, true},
    [MT_Q4_K] = {"Q4_K", 256, 144, true, true},     [MT_Q5_K] = {"Q5_K", 256, 176, true, true},
    [MT_Q6_K] = {"Q6_K", 256, 210, true, true},     [MT_IQ4_NL] = {"IQ4_NL", 32, 18, true, true},
    [MT_IQ4_XS] = {"IQ4_XS", 256, 136, true, true}, [MT_MXFP4] = {"MXFP4", 32, 17, true, true},
    [MT_F64] = {"F64", 1, 8, false, false},         [MT_I8] = {"I8", 1, 1, false, false},
    [MT_U8] = {"U8", 1, 1, false, false},           [MT_I16] = {"I16", 1, 2, false, false},
    [MT_I32] = {"I32", 1, 4, false, false},         [MT_I64] = {"I64", 1, 8, false, false},
    [MT_BOOL] = {"BOOL", 1, 1, false, false},
};

const mt_dtype_info *mt_dtype_get(mt_dtype type) {
  return &TYPES[type];
}

mt_dtype mt_dtype_by_name(const char *name) {
  for (int t = 0; t < MT_DTYPE_COUNT; t++)
    if (!strcasecmp(name, TYPES[t].name)) return (mt_dtype)t;
  return MT_DTYPE_COUNT;
}

bool mt_shape_elems(const mt_shape *s, uint64_t *elems) {
  uint64_t n = 1;
  for (int i = 0; i < s->n; i++)
    if (__builtin_mul_overflow(n, s->dim[i], &n)) return false;
  *elems = n;
  return true;
}

bool mt_shape_bytes(mt_dtype type, const mt_shape *s, uint64_t *bytes) {
  const mt_dtype_info *t = mt_dtype_get(type);
  uint64_t n, inner = s->n ? s->dim[s->n - 1] : 1;
  if (inner % t->block_elems || !mt_shape_elems(s, &n)) return false;
  return !__builtin_mul_overflow(n / t->block_elems, (uint64_t)t->block_bytes, bytes);
}

size_t mt_dtype_row_bytes(mt_dtype type, size_t cols) {
  const mt_dtype_info *t = mt_dtype_get(type);
  return cols / t->block_elems * t->block_bytes;
}
