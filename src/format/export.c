/* The headers as one block: rank 0 reads, all others parse what it broadcasts. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const char block_magic[8] = "MTHEADR1";

static int put_u64(mt_buf *b, uint64_t v) {
  return mt_buf_append(b, &v, sizeof v);
}

/* magic, kind, number of files; for each: path length, path, size, header length, header. */
int mt_weights_export(const mt_weights *w, mt_buf *out, mt_err *e) {
  size_t before = out->len;
  int rc = mt_buf_append(out, block_magic, sizeof block_magic);
  if (!rc) rc = put_u64(out, (uint64_t)w->kind);
  if (!rc) rc = put_u64(out, w->n_files);
  for (size_t i = 0; i < w->n_files && !rc; i++) {
    const mt_format_file *f = &w->file[i];
    size_t n = strlen(f->path);
    rc = put_u64(out, n) || mt_buf_append(out, f->path, n) || put_u64(out, f->bytes) ||
         put_u64(out, f->header.len) || mt_buf_append(out, f->header.data, f->header.len);
  }
  if (!rc) return MT_OK;
  out->len = before;
  return mt_err_set(e, MT_ENOMEM, "no memory for the headers of %zu files", w->n_files);
}

typedef struct reader {
  const char *p;
  size_t left;
} reader;

static bool get(reader *r, uint64_t n, const char **p) {
  if (n > r->left) return false;
  *p = r->p;
  r->p += n;
  r->left -= (size_t)n;
  return true;
}

static bool get_u64(reader *r, uint64_t *out) {
  const char *p;
  if (!get(r, sizeof *out, &p)) return false;
  memcpy(out, p, sizeof *out);
  return true;
}

static int bad_block(mt_err *e) {
  return mt_err_set(e, MT_EFORMAT, "the block of headers is malformed");
}

static int import_file(mt_weights *w, reader *r, mt_err *e) {
  uint64_t n, size;
  const char *p;
  mt_buf path = {0};
  int file;
  if (!get_u64(r, &n) || !get(r, n, &p) || !n || memchr(p, 0, (size_t)n)) return bad_block(e);
  if (mt_buf_append(&path, p, (size_t)n)) return mt_err_set(e, MT_ENOMEM, "no memory");
  int rc = mt_format_add_file(w, path.data, &file, e);
  mt_buf_free(&path);
  if (rc) return rc;
  mt_format_file *f = &w->file[file];
  if (!get_u64(r, &size) || !get_u64(r, &n) || !get(r, n, &p)) return bad_block(e);
  if (f->bytes != size)
    return mt_err_set(e, MT_EIO, "%s: %llu bytes here, but %llu where its header was read", f->path,
                      (unsigned long long)f->bytes, (unsigned long long)size);
  if (mt_buf_append(&f->header, p, (size_t)n))
    return mt_err_set(e, MT_ENOMEM, "%s: no memory for a header of %llu bytes", f->path,
                      (unsigned long long)n);
  return w->kind == MT_WEIGHTS_GGUF ? mt_gguf_parse(w, file, true, e)
                                    : mt_safetensors_parse(w, file, e);
}

int mt_weights_import(mt_weights **out, const void *block, size_t bytes, mt_err *e) {
  *out = NULL;
  reader r = {block, bytes};
  const char *magic;
  uint64_t kind, n;
  if (!get(&r, sizeof block_magic, &magic) || memcmp(magic, block_magic, sizeof block_magic) ||
      !get_u64(&r, &kind) || !get_u64(&r, &n) || kind > MT_WEIGHTS_GGUF || !n ||
      (kind == MT_WEIGHTS_GGUF && n != 1))
    return bad_block(e);
  mt_weights *w = mt_format_new((mt_weights_kind)kind);
  if (!w) return mt_err_set(e, MT_ENOMEM, "no memory");
  int rc = MT_OK;
  for (uint64_t i = 0; i < n && !rc; i++) rc = import_file(w, &r, e);
  if (!rc && r.left) rc = bad_block(e);
  if (!rc) rc = mt_format_seal(w, e);
  if (rc)
    mt_weights_close(w);
  else
    *out = w;
  return rc;
}
