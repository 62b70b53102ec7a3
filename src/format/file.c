/* The files of a model: opening, and reading with every byte counted. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum { READ_MAX = 1 << 30 }; /* one pread; Linux stops at 2 GiB anyway */

int mt_format_add_file(mt_weights *w, const char *path, int *index, mt_err *e) {
  mt_format_file *files = mt_realloc(w->file, w->n_files + 1, sizeof *files);
  if (!files) return mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  w->file = files;
  mt_format_file *f = &files[w->n_files];
  *f = (mt_format_file){.fd = -1};
  f->path = strdup(path);
  if (!f->path) return mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  *index = (int)w->n_files++; /* from here on mt_weights_close owns it */
  f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat st;
  if (f->fd < 0 || fstat(f->fd, &st)) return mt_err_set(e, MT_EIO, "%s: %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return mt_err_set(e, MT_EIO, "%s: not a regular file", path);
  f->bytes = (uint64_t)st.st_size;
  return MT_OK;
}

int mt_format_read_at(mt_weights *w, int file, uint64_t offset, size_t bytes, void *dst,
                      mt_err *e) {
  const mt_format_file *f = &w->file[file];
  char *p = dst;
  if (offset > f->bytes || bytes > f->bytes - offset)
    return mt_err_set(e, MT_EIO, "%s: %zu bytes from offset %llu reach beyond its end at %llu",
                      f->path, bytes, (unsigned long long)offset, (unsigned long long)f->bytes);
  while (bytes) {
    ssize_t n = pread(f->fd, p, bytes < READ_MAX ? bytes : READ_MAX, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return mt_err_set(e, MT_EIO, "%s: offset %llu: %s", f->path, (unsigned long long)offset,
                        strerror(errno));
    if (!n)
      return mt_err_set(
          e, MT_EIO,
          "%s: ends at offset %llu, %zu bytes short: it was truncated after it was opened", f->path,
          (unsigned long long)offset, bytes);
    atomic_fetch_add_explicit(&w->bytes_read, (uint64_t)n, memory_order_relaxed);
    p += n;
    offset += (uint64_t)n;
    bytes -= (size_t)n;
  }
  return MT_OK;
}

int mt_weights_read(mt_weights *w, const mt_tensor_info *t, uint64_t offset, size_t bytes,
                    void *dst, mt_err *e) {
  if (offset > t->bytes || bytes > t->bytes - offset)
    return mt_err_set(e, MT_EINVAL, "%s: tensor '%.200s' has %llu bytes, not %zu from %llu",
                      w->file[t->file].path, t->name, (unsigned long long)t->bytes, bytes,
                      (unsigned long long)offset);
  return mt_format_read_at(w, t->file, t->offset + offset, bytes, dst, e);
}

uint64_t mt_weights_bytes_read(const mt_weights *w) {
  return atomic_load_explicit(&w->bytes_read, memory_order_relaxed);
}
