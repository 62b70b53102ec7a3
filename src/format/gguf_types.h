/* The numbers of GGUF's value and tensor types. */
#ifndef MUTIRAO_FORMAT_GGUF_TYPES_H
#define MUTIRAO_FORMAT_GGUF_TYPES_H

#include "mutirao/tensor.h"

enum {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_STRING,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64,
  GGUF_DEFAULT_ALIGNMENT = 32,
  GGUF_MAX_ALIGNMENT = 1 << 20
};

/* Bytes of a value of fixed size; 0 for strings, arrays and unknown types. */
size_t mt_gguf_type_bytes(uint32_t type);
/* Our type of a tensor type, MT_DTYPE_COUNT where we have none; the result is its name, never NULL.
 */
const char *mt_gguf_tensor_type(uint32_t type, mt_dtype *out);

#endif
