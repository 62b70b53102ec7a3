/* The table of tensors, its checks, and what both formats share: open, close, find. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

mt_weights *mt_format_new(mt_weights_kind kind) {
  mt_weights *w = mt_calloc(1, sizeof *w);
  if (w) w->kind = kind;
  return w;
}

void mt_weights_close(mt_weights *w) {
  if (!w) return;
  for (size_t i = 0; i < w->n_files; i++) {
    if (w->file[i].fd >= 0) close(w->file[i].fd);
    free(w->file[i].path);
    mt_buf_free(&w->file[i].header);
  }
  for (size_t i = 0; i < w->n_tensors; i++) free((void *)(uintptr_t)w->tensor[i].name);
  for (size_t i = 0; i < w->n_kv; i++) {
    free(w->kv[i].key);
    free(w->kv[i].strings);
  }
  free(w->file);
  free(w->tensor);
  free(w->by_name);
  free(w->kv);
  free(w->by_key);
  free(w);
}

int mt_format_add_tensor(mt_weights *w, const mt_tensor_info *t, mt_err *e) {
  const char *path = w->file[t->file].path;
  if (w->n_tensors == w->cap_tensors) {
    size_t cap = w->cap_tensors ? 2 * w->cap_tensors : 64;
    mt_tensor_info *p = mt_realloc(w->tensor, cap, sizeof *p);
    if (!p) return mt_err_set(e, MT_ENOMEM, "%s: no memory for %zu tensors", path, cap);
    w->tensor = p;
    w->cap_tensors = cap;
  }
  char *name = strdup(t->name);
  if (!name) return mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  w->tensor[w->n_tensors] = *t;
  w->tensor[w->n_tensors++].name = name;
  return MT_OK;
}

/* By offset, empty tensors before the one that starts at the same place. */
static int by_place(const void *pa, const void *pb) {
  const mt_tensor_info *a = *(const mt_tensor_info *const *)pa,
                       *b = *(const mt_tensor_info *const *)pb;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int by_name(const void *pa, const void *pb) {
  const mt_tensor_info *a = *(const mt_tensor_info *const *)pa,
                       *b = *(const mt_tensor_info *const *)pb;
  return strcmp(a->name, b->name);
}

/* Pointers to the tensors from `first` on, sorted. */
static const mt_tensor_info **sorted(const mt_weights *w, size_t first,
                                     int (*order)(const void *, const void *)) {
  size_t n = w->n_tensors - first;
  const mt_tensor_info **p = mt_malloc(n, sizeof *p);
  if (!p) return NULL;
  for (size_t i = 0; i < n; i++) p[i] = &w->tensor[first + i];
  if (n) qsort(p, n, sizeof *p, order);
  return p;
}

int mt_format_check_layout(const mt_weights *w, size_t first, int file, uint64_t data_start,
                           bool gapless, mt_err *e) {
  typedef unsigned long long ull;
  const mt_format_file *f = &w->file[file];
  size_t n = w->n_tensors - first;
  const mt_tensor_info **p = sorted(w, first, by_place);
  if (!p) return mt_err_set(e, MT_ENOMEM, "%s: no memory", f->path);
  int rc = MT_OK;
  uint64_t end = data_start, need = data_start;
  for (size_t i = 0; i < n; i++)
    if (p[i]->offset + p[i]->bytes > need) need = p[i]->offset + p[i]->bytes;
  if (need > f->bytes && (n || gapless))
    rc =
        mt_err_set(e, MT_EFORMAT,
                   "%s: the file is %llu bytes short: its header describes %llu bytes, it has %llu",
                   f->path, (ull)(need - f->bytes), (ull)need, (ull)f->bytes);
  for (size_t i = 0; !rc && i < n; end = p[i]->offset + p[i]->bytes, i++) {
    if (p[i]->offset < end && i)
      rc = mt_err_set(e, MT_EFORMAT, "%s: tensors '%.200s' and '%.200s' overlap at offset %llu",
                      f->path, p[i - 1]->name, p[i]->name, (ull)p[i]->offset);
    else if (p[i]->offset > end && gapless)
      rc = mt_err_set(e, MT_EFORMAT,
                      "%s: offset %llu: %llu bytes before tensor '%.200s' belong to no tensor",
                      f->path, (ull)end, (ull)(p[i]->offset - end), p[i]->name);
  }
  if (!rc && gapless && end < f->bytes)
    rc = mt_err_set(e, MT_EFORMAT,
                    "%s: offset %llu: %llu bytes after the last tensor belong to no tensor",
                    f->path, (ull)end, (ull)(f->bytes - end));
  free(p);
  return rc;
}

int mt_format_seal(mt_weights *w, mt_err *e) {
  w->by_name = sorted(w, 0, by_name);
  if (!w->by_name) return mt_err_set(e, MT_ENOMEM, "no memory for %zu tensors", w->n_tensors);
  for (size_t i = 1; i < w->n_tensors; i++) {
    const mt_tensor_info *a = w->by_name[i - 1], *b = w->by_name[i];
    if (!strcmp(a->name, b->name))
      return mt_err_set(e, MT_EFORMAT, "tensor '%.200s' comes twice: in %.300s and in %.300s",
                        a->name, w->file[a->file].path, w->file[b->file].path);
  }
  return MT_OK;
}

/* Joins dir and name; the caller frees. NULL when out of memory. */
static char *join(const char *dir, const char *name) {
  mt_buf b = {0};
  size_t n = strlen(dir);
  if (mt_buf_printf(&b, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name)) return NULL;
  return b.data;
}

static int open_directory(mt_weights *w, const char *dir, mt_err *e) {
  int rc, file;
  char *index = join(dir, "model.safetensors.index.json"), *single = join(dir, "model.safetensors");
  struct stat st;
  if (!index || !single)
    rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", dir);
  else if (!stat(index, &st))
    rc = mt_safetensors_open_sharded(w, dir, index, e);
  else if (stat(single, &st))
    rc = mt_err_set(e, MT_EFORMAT,
                    "%s: neither model.safetensors nor model.safetensors.index.json is there", dir);
  else if (!(rc = mt_format_add_file(w, single, &file, e)) &&
           !(rc = mt_safetensors_read_header(w, file, e)))
    rc = mt_safetensors_parse(w, file, e);
  free(index);
  free(single);
  return rc;
}

/* By its first bytes: a safetensors file whose length began with these letters would have a header
 * of 1 GB. */
static int open_file(mt_weights *w, const char *path, mt_err *e) {
  int file, rc = mt_format_add_file(w, path, &file, e);
  if (rc) return rc;
  char magic[4] = {0};
  size_t n = strlen(path);
  bool gguf_name = n >= 5 && !strcmp(path + n - 5, ".gguf");
  if (w->file[file].bytes >= sizeof magic)
    rc = mt_format_read_at(w, file, 0, sizeof magic, magic, e);
  if (rc) return rc;
  if (gguf_name || !memcmp(magic, "GGUF", 4)) {
    w->kind = MT_WEIGHTS_GGUF;
    return mt_gguf_parse(w, file, false, e);
  }
  rc = mt_safetensors_read_header(w, file, e);
  return rc ? rc : mt_safetensors_parse(w, file, e);
}

int mt_weights_open(mt_weights **out, const char *path, mt_err *e) {
  *out = NULL;
  struct stat st;
  if (stat(path, &st)) return mt_err_set(e, MT_EIO, "%s: %s", path, strerror(errno));
  mt_weights *w = mt_format_new(MT_WEIGHTS_SAFETENSORS);
  if (!w) return mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  int rc = S_ISDIR(st.st_mode) ? open_directory(w, path, e) : open_file(w, path, e);
  if (!rc && !w->by_name) rc = mt_format_seal(w, e);
  if (rc)
    mt_weights_close(w);
  else
    *out = w;
  return rc;
}

mt_weights_kind mt_weights_get_kind(const mt_weights *w) {
  return w->kind;
}
size_t mt_weights_count(const mt_weights *w) {
  return w->n_tensors;
}
const mt_tensor_info *mt_weights_at(const mt_weights *w, size_t i) {
  return i < w->n_tensors ? &w->tensor[i] : NULL;
}

static int name_against(const void *name, const void *p) {
  return strcmp(name, (*(const mt_tensor_info *const *)p)->name);
}

const mt_tensor_info *mt_weights_find(const mt_weights *w, const char *name) {
  if (!w->n_tensors) return NULL;
  const mt_tensor_info *const *p =
      bsearch(name, w->by_name, w->n_tensors, sizeof *w->by_name, name_against);
  return p ? *p : NULL;
}

const char *mt_weights_file_name(const mt_weights *w, int file) {
  return file >= 0 && (size_t)file < w->n_files ? w->file[file].path : NULL;
}

uint64_t mt_weights_file_bytes(const mt_weights *w) {
  uint64_t sum = 0;
  for (size_t i = 0; i < w->n_files; i++) sum += w->file[i].bytes;
  return sum;
}
