/* What the fuzzers of file formats share: the input as choices, or as a file in memory, opened by
 * its name in /proc. */
#ifndef TESTS_FUZZ_FILE_H
#define TESTS_FUZZ_FILE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mutirao/format.h"

static inline void require(bool ok) {
  if (!ok) abort();
}

/* Choices, byte by byte; 0 when there are no more. */
typedef struct input {
  const uint8_t *at;
  size_t left;
} input;

static inline uint32_t choose(input *in, uint32_t n) {
  if (!in->left) return 0;
  in->left--;
  return *in->at++ % n;
}

/* The same memory file for every input. */
static inline int fuzz_fd(void) {
  static int fd = -1;
  if (fd < 0) require((fd = memfd_create("fuzz", 0)) >= 0);
  return fd;
}

static inline const char *fuzz_file(const uint8_t *data, size_t size) {
  static char path[64];
  int fd = fuzz_fd();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  require(!ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
  return path;
}

/* Opens the input; what opens must keep every promise of the header, and survive export and import.
 */
static inline mt_weights *fuzz_open(const uint8_t *data, size_t size) {
  mt_err e = {0};
  mt_weights *w = NULL, *x = NULL;
  if (mt_weights_open(&w, fuzz_file(data, size), &e)) {
    require(!w && e.msg[0] && e.code != MT_EIO);
    return NULL;
  }
  char *copy = malloc(size + 1); /* as large as any tensor may be */
  require(copy != NULL);
  for (size_t i = 0; i < mt_weights_count(w); i++) {
    const mt_tensor_info *t = mt_weights_at(w, i);
    uint64_t bytes;
    require(t->offset <= size && t->bytes <= size - t->offset && mt_weights_find(w, t->name) == t);
    require(mt_shape_bytes(t->type, &t->shape, &bytes) && bytes == t->bytes);
    require(!mt_weights_read(w, t, 0, (size_t)t->bytes, copy, NULL));
    require(!memcmp(copy, data + t->offset, (size_t)t->bytes));
  }
  mt_buf block = {0};
  require(!mt_weights_export(w, &block, &e) && !mt_weights_import(&x, block.data, block.len, &e));
  require(mt_weights_count(x) == mt_weights_count(w) && !mt_weights_bytes_read(x));
  mt_weights_close(x);
  mt_buf_free(&block);
  free(copy);
  return w;
}

#endif
