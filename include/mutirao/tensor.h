/* tensor: element and block types, and shapes. Layer 1; no arithmetic on elements. Nothing here
 * is collective. */
#ifndef MUTIRAO_TENSOR_H
#define MUTIRAO_TENSOR_H

#include "mutirao/base.h"

typedef enum mt_dtype {
  MT_F32,
  MT_F16,
  MT_BF16,
  MT_Q8_0,
  MT_Q4_0,
  MT_Q4_1,
  MT_Q5_0,
  MT_Q5_1,
  MT_Q2_K,
  MT_Q3_K,
  MT_Q4_K,
  MT_Q5_K,
  MT_Q6_K,
  MT_IQ4_NL,
  MT_IQ4_XS,
  MT_MXFP4,
  /* Types that a file may name but that no kernel multiplies. */
  MT_F64,
  MT_I8,
  MT_U8,
  MT_I16,
  MT_I32,
  MT_I64,
  MT_BOOL,
  MT_DTYPE_COUNT
} mt_dtype;

typedef struct mt_dtype_info {
  const char *name;     /* "Q4_K" */
  uint32_t block_elems; /* elements of a block as the file stores it; 1 for plain types */
  uint32_t block_bytes; /* bytes of that block */
  bool quantized;       /* integer blocks with scales */
  bool weight;          /* kernels multiply with it */
} mt_dtype_info;

/* Never NULL for a value below MT_DTYPE_COUNT. */
const mt_dtype_info *mt_dtype_get(mt_dtype type);
/* By name ("F32", "Q4_K", case-insensitive); MT_DTYPE_COUNT where unknown. */
mt_dtype mt_dtype_by_name(const char *name);

/* Row-major, outermost dimension first: a weight is [out, in]. */
typedef struct mt_shape {
  int n; /* 0 (scalar) to 4 */
  uint64_t dim[4];
} mt_shape;

/* Elements and bytes as stored; false when they overflow, or when the innermost dimension is no
 * multiple of the type's block. */
bool mt_shape_elems(const mt_shape *s, uint64_t *elems);
bool mt_shape_bytes(mt_dtype type, const mt_shape *s, uint64_t *bytes);
/* Bytes of one row of `cols` elements; cols must be a multiple of the block. */
size_t mt_dtype_row_bytes(mt_dtype type, size_t cols);

#endif
