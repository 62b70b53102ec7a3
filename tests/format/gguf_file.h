/* A GGUF file under construction, right or wrong as a test wants it. */
#ifndef TESTS_FORMAT_GGUF_FILE_H
#define TESTS_FORMAT_GGUF_FILE_H

#include "files.h"

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static inline void put(mt_buf *b, const void *p, size_t n) {
  if (mt_buf_append(b, p, n)) exit(2);
}
static inline void put_u32(mt_buf *b, uint32_t v) {
  put(b, &v, sizeof v);
}
static inline void put_u64(mt_buf *b, uint64_t v) {
  put(b, &v, sizeof v);
}
static inline void put_text(mt_buf *b, const char *s) {
  put_u64(b, strlen(s));
  put(b, s, strlen(s));
}

static inline void put_head(mt_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
  put(b, "GGUF", 4);
  put_u32(b, version);
  put_u64(b, n_tensors);
  put_u64(b, n_kv);
}

/* A key with its type; the value follows. */
static inline void put_key(mt_buf *b, const char *key, uint32_t type) {
  put_text(b, key);
  put_u32(b, type);
}
static inline void put_array(mt_buf *b, const char *key, uint32_t type, uint64_t n) {
  put_key(b, key, ARRAY);
  put_u32(b, type);
  put_u64(b, n);
}

/* Dimensions as the file orders them: innermost first. */
static inline void put_tensor(mt_buf *b, const char *name, int n_dims, const uint64_t *dim,
                              uint32_t type, uint64_t offset) {
  put_text(b, name);
  put_u32(b, (uint32_t)n_dims);
  for (int i = 0; i < n_dims; i++) put_u64(b, dim[i]);
  put_u32(b, type);
  put_u64(b, offset);
}

/* Zeros up to a multiple of align, then n bytes of data. */
static inline void put_data(mt_buf *b, size_t align, size_t n) {
  while (b->len % align) mt_buf_putc(b, 0);
  for (size_t i = 0; i < n; i++) mt_buf_putc(b, (char)i);
}

#endif
