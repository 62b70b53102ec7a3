/* Kept slices: bytes in a file of their own, with a key that says what they were made from, and a
 * hash (XXH3, inlined so that it is compiled for our least CPU) of every chunk and of the header.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers in the file are little-endian");

/* At the start of the file; the chunks' hashes follow, then the hash of all of this, then zeros up
 * to a whole page, then the data. */
typedef struct slice_header {
  char magic[8];
  mt_slice_key key;
  uint64_t bytes, chunk_bytes;
} slice_header;

static const char MAGIC[8] = "MTSLICE1";
enum { PAGE = 4096 };

struct mt_slice {
  char *path, *temp; /* temp: while it is written */
  int fd;
  slice_header header;
  size_t n_chunks, table_bytes; /* header and hashes */
  char *table;                  /* [table_bytes + 8] as they stand in the file */
  uint64_t *hash;               /* [n_chunks + 1] in table; the last is the header's */
};

static uint64_t data_at(const mt_slice *s) {
  return (s->table_bytes + sizeof(uint64_t) + PAGE - 1) / PAGE * PAGE;
}

/* Room for the header and the hashes of `bytes` bytes. */
static int make_table(mt_slice *s, uint64_t bytes, mt_err *e) {
  s->n_chunks = (size_t)(bytes / MT_SLICE_CHUNK + (bytes % MT_SLICE_CHUNK != 0));
  s->table_bytes = sizeof s->header + s->n_chunks * sizeof(uint64_t);
  s->table = mt_calloc(s->table_bytes + sizeof(uint64_t), 1);
  if (!s->table) return mt_err_set(e, MT_ENOMEM, "%s: no memory", s->path);
  s->hash = (uint64_t *)(void *)(s->table + sizeof s->header);
  return MT_OK;
}

static mt_slice *slice_new(const char *path) {
  mt_slice *s = mt_calloc(1, sizeof *s);
  if (!s) return NULL;
  s->fd = -1;
  if ((s->path = strdup(path))) return s;
  free(s);
  return NULL;
}

void mt_slice_close(mt_slice *s) {
  if (!s) return;
  if (s->temp) unlink(s->temp); /* not finished; before the lock goes */
  if (s->fd >= 0) close(s->fd);
  free(s->path);
  free(s->temp);
  free(s->table);
  free(s);
}

size_t mt_slice_chunks(const mt_slice *s) {
  return s->n_chunks;
}

static size_t chunk_bytes(const mt_slice *s, size_t chunk) {
  uint64_t left = s->header.bytes - (uint64_t)chunk * MT_SLICE_CHUNK;
  return left < MT_SLICE_CHUNK ? (size_t)left : MT_SLICE_CHUNK;
}

/* ---- reading ----------------------------------------------------------------------------- */

static int read_at(const mt_slice *s, uint64_t at, void *dst, size_t n, mt_err *e) {
  for (char *p = dst; n;) {
    ssize_t got = pread(s->fd, p, n, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return mt_err_set(e, MT_EIO, "%s: %s", s->path, strerror(errno));
    if (!got) return mt_err_set(e, MT_EFORMAT, "%s: it is truncated", s->path);
    p += got;
    at += (uint64_t)got;
    n -= (size_t)got;
  }
  return MT_OK;
}

static int compare_key(const mt_slice *s, const mt_slice_key *key, uint64_t bytes, mt_err *e) {
  const mt_slice_key *k = &s->header.key;
  const char *why = k->source_bytes != key->source_bytes       ? "the model has another size"
                    : k->source_time_ns != key->source_time_ns ? "the model was modified since"
                    : k->source_hash != key->source_hash       ? "the model has other contents"
                    : k->rank != key->rank || k->n_ranks != key->n_ranks ? "it is another rank's"
                    : k->layout != key->layout || s->header.bytes != bytes
                        ? "weights lay otherwise in memory"
                        : NULL;
  return why ? mt_err_set(e, MT_EFORMAT, "%s: it does not fit: %s", s->path, why) : MT_OK;
}

/* Header and hashes are whole, and the file is as long as they say. No memory is taken for another
 * length than the one asked for. */
static int read_table(mt_slice *s, const mt_slice_key *key, uint64_t bytes, mt_err *e) {
  struct stat st;
  if (fstat(s->fd, &st)) return mt_err_set(e, MT_EIO, "%s: %s", s->path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return mt_err_set(e, MT_EIO, "%s: not a regular file", s->path);
  int rc = read_at(s, 0, &s->header, sizeof s->header, e);
  if (rc) return rc;
  const slice_header *h = &s->header;
  if (memcmp(h->magic, MAGIC, sizeof MAGIC) || h->chunk_bytes != MT_SLICE_CHUNK)
    return mt_err_set(e, MT_EFORMAT, "%s: not made by this version", s->path);
  if (h->bytes > (uint64_t)st.st_size)
    return mt_err_set(e, MT_EFORMAT, "%s: it is truncated", s->path);
  if (h->bytes != bytes) return compare_key(s, key, bytes, e);
  if ((rc = make_table(s, h->bytes, e))) return rc;
  if ((rc = read_at(s, 0, s->table, s->table_bytes + sizeof(uint64_t), e))) return rc;
  if (XXH3_64bits(s->table, s->table_bytes) != s->hash[s->n_chunks] ||
      memcmp(h, s->table, sizeof *h))
    return mt_err_set(e, MT_EFORMAT, "%s: its header is damaged", s->path);
  if ((uint64_t)st.st_size != data_at(s) + h->bytes)
    return mt_err_set(e, MT_EFORMAT, "%s: it has %llu bytes instead of %llu", s->path,
                      (unsigned long long)st.st_size, (unsigned long long)(data_at(s) + h->bytes));
  return MT_OK;
}

int mt_slice_open(mt_slice **out, const char *path, const mt_slice_key *key, uint64_t bytes,
                  mt_err *e) {
  *out = NULL;
  mt_slice *s = slice_new(path);
  if (!s) return mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  int rc = MT_OK;
  s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool absent = s->fd < 0 && errno == ENOENT;
  if (s->fd < 0 && !absent) rc = mt_err_set(e, MT_EIO, "%s: %s", path, strerror(errno));
  if (s->fd >= 0) {
    rc = read_table(s, key, bytes, e);
    if (!rc) rc = compare_key(s, key, bytes, e);
  }
  if (rc || absent)
    mt_slice_close(s);
  else
    *out = s;
  return rc;
}

int mt_slice_read(const mt_slice *s, size_t chunk, void *dst, mt_err *e) {
  size_t n = chunk_bytes(s, chunk);
  int rc = read_at(s, data_at(s) + (uint64_t)chunk * MT_SLICE_CHUNK, dst, n, e);
  if (!rc && XXH3_64bits(dst, n) != s->hash[chunk])
    rc = mt_err_set(e, MT_EFORMAT, "%s: it is damaged between bytes %llu and %llu", s->path,
                    (unsigned long long)(data_at(s) + (uint64_t)chunk * MT_SLICE_CHUNK),
                    (unsigned long long)(data_at(s) + (uint64_t)chunk * MT_SLICE_CHUNK + n));
  return rc;
}

/* ---- writing ----------------------------------------------------------------------------- */

static int write_at(const mt_slice *s, uint64_t at, const void *src, size_t n, mt_err *e) {
  for (const char *p = src; n;) {
    ssize_t put = pwrite(s->fd, p, n, (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return mt_err_set(e, MT_ESYSTEM, "%s: %s", s->temp, strerror(errno));
    p += put;
    at += (uint64_t)put;
    n -= (size_t)put;
  }
  return MT_OK;
}

/* True if the file at `name`, open as fd, is now this process's to write. Between opening and
 * locking, another writer may have renamed it: then it is a finished file, not to be touched. */
static bool lock(int fd, const char *name) {
  struct stat opened, named;
  if (flock(fd, LOCK_EX | LOCK_NB)) return false;
  bool ours = !fstat(fd, &opened) && !stat(name, &named) && opened.st_ino == named.st_ino &&
              opened.st_dev == named.st_dev;
  errno = EWOULDBLOCK;
  return ours;
}

/* The file that will be renamed. s->temp stays NULL where another process has it. One that a killed
 * process left behind is taken over. */
static int open_temp(mt_slice *s, mt_err *e) {
  mt_buf name = {0};
  if (mt_buf_printf(&name, "%s.new", s->path))
    return mt_err_set(e, MT_ENOMEM, "%s: no memory", s->path);
  int rc = MT_OK;
  s->fd = open(name.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (s->fd >= 0 && lock(s->fd, name.data)) {
    struct stat st;
    if (fstat(s->fd, &st) || st.st_nlink != 1) {
      rc = mt_err_set(e, MT_ESYSTEM, "%s: a file that has other names too", name.data);
      mt_buf_free(&name);
      return rc;
    }
    s->temp = name.data;
    if (!ftruncate(s->fd, 0)) return MT_OK;
    return mt_err_set(e, MT_ESYSTEM, "%s: %s", s->temp, strerror(errno));
  }
  if (errno != EWOULDBLOCK) rc = mt_err_set(e, MT_ESYSTEM, "%s: %s", name.data, strerror(errno));
  mt_buf_free(&name);
  return rc;
}

int mt_slice_create(mt_slice **out, const char *path, const mt_slice_key *key, uint64_t bytes,
                    mt_err *e) {
  *out = NULL;
  mt_slice *s = slice_new(path);
  int rc = s ? make_table(s, bytes, e) : mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  if (!rc) rc = open_temp(s, e);
  if (rc || !s->temp) {
    mt_slice_close(s);
    return rc;
  }
  s->header = (slice_header){.key = *key, .bytes = bytes, .chunk_bytes = MT_SLICE_CHUNK};
  memcpy(s->header.magic, MAGIC, sizeof MAGIC);
  memcpy(s->table, &s->header, sizeof s->header);
  *out = s;
  return MT_OK;
}

int mt_slice_write(mt_slice *s, size_t chunk, const void *src, mt_err *e) {
  size_t n = chunk_bytes(s, chunk);
  s->hash[chunk] = XXH3_64bits(src, n);
  return write_at(s, data_at(s) + (uint64_t)chunk * MT_SLICE_CHUNK, src, n, e);
}

int mt_slice_finish(mt_slice *s, mt_err *e) {
  s->hash[s->n_chunks] = XXH3_64bits(s->table, s->table_bytes);
  int rc = write_at(s, 0, s->table, s->table_bytes + sizeof(uint64_t), e);
  if (!rc && ftruncate(s->fd, (off_t)(data_at(s) + s->header.bytes)))
    rc = mt_err_set(e, MT_ESYSTEM, "%s: %s", s->temp, strerror(errno));
  if (!rc && rename(s->temp, s->path))
    rc = mt_err_set(e, MT_ESYSTEM, "%s: %s", s->path, strerror(errno));
  if (rc) return rc;
  free(s->temp);
  s->temp = NULL;
  return MT_OK;
}

/* ---- what a slice is made from ------------------------------------------------------------ */

/* Pages spread over a file go into *hash: copies may lose the time of modification, or all have the
 * same (images of containers), and two trainings of one model have the same header. */
static int hash_pages(mt_weights *w, int file, uint64_t *hash, mt_err *e) {
  enum { PAGES = 16 };
  char page[PAGE];
  uint64_t bytes = w->file[file].bytes, n = bytes < PAGE ? bytes : PAGE;
  int rc = MT_OK;
  for (uint64_t i = 0; !rc && i < PAGES; i++) {
    /* Whole parts first: the product of offset and number might not fit. */
    uint64_t last = bytes - n, at = last / (PAGES - 1) * i + last % (PAGES - 1) * i / (PAGES - 1);
    rc = mt_format_read_at(w, file, at, n, page, e);
    if (!rc) *hash = XXH3_64bits_withSeed(page, n, *hash);
  }
  return rc;
}

int mt_slice_set_source(mt_slice_key *key, mt_weights *w, mt_err *e) {
  key->source_bytes = mt_weights_file_bytes(w);
  key->source_time_ns = 0;
  key->source_hash = 0;
  for (size_t i = 0; i < w->n_files; i++) {
    const mt_format_file *f = &w->file[i];
    struct stat st;
    if (fstat(f->fd, &st)) return mt_err_set(e, MT_EIO, "%s: %s", f->path, strerror(errno));
    uint64_t ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    if (ns > key->source_time_ns) key->source_time_ns = ns; /* the newest is told by name */
    key->source_hash = XXH3_64bits_withSeed(&ns, sizeof ns, key->source_hash);
    key->source_hash = XXH3_64bits_withSeed(f->header.data, f->header.len, key->source_hash);
    int rc = hash_pages(w, (int)i, &key->source_hash, e);
    if (rc) return rc;
  }
  return MT_OK;
}
