/* GGUF v2 and v3: magic, version, counts, metadata, tensor entries, then the data, aligned.
 * Source: the format's description, github.com/ggml-org/ggml/blob/master/docs/gguf.md. */
#include <stdlib.h>
#include <string.h>

#include "gguf_types.h"
#include "internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers in the file are little-endian");

enum {
  STEP_LEAST_BYTES =
      4096, /* the header has no length: it is read on as its parse goes on, in steps as */
  STEP_MOST_BYTES = 65536, /* large as what is there, so that little is read beyond it */
  NAME_MAX_BYTES = 65535,  /* the format's limit of a key */
  KV_LEAST_BYTES = 13,     /* an entry of metadata: length, type, one byte */
  TENSOR_LEAST_BYTES = 24
};

typedef unsigned long long ull;

typedef struct cursor {
  mt_weights *w;
  int file;
  uint64_t pos;
  bool complete; /* the header is all in memory: never read */
} cursor;

static mt_format_file *file_of(const cursor *c) {
  return &c->w->file[c->file];
}

/* Bytes that may still belong to the header. */
static uint64_t remaining(const cursor *c) {
  const mt_format_file *f = file_of(c);
  uint64_t end = c->complete ? f->header.len : f->bytes;
  if (end > MT_GGUF_HEADER_MAX) end = MT_GGUF_HEADER_MAX;
  return end - c->pos;
}

static uint64_t clamp(uint64_t v, uint64_t low, uint64_t high) {
  return v < low ? low : v > high ? high : v;
}

/* Moves on by n bytes, which are then in memory; *p (may be NULL) points at them until the next
 * call. */
static int take(cursor *c, uint64_t n, const char *what, const unsigned char **p, mt_err *e) {
  mt_format_file *f = file_of(c);
  if (n > remaining(c))
    return mt_err_set(
        e, MT_EFORMAT, "%s: offset %llu: %s needs %llu bytes, %s", f->path, (ull)c->pos, what,
        (ull)n,
        f->bytes > MT_GGUF_HEADER_MAX ? "beyond the limit of a header" : "the file ends before");
  if (c->pos + n > f->header.len) {
    uint64_t want = c->pos + n - f->header.len, left = f->bytes - f->header.len;
    uint64_t step = clamp(f->header.len, STEP_LEAST_BYTES, STEP_MOST_BYTES);
    if (step > left) step = left;
    if (step < want) step = want;
    if (mt_buf_reserve(&f->header, (size_t)step))
      return mt_err_set(e, MT_ENOMEM, "%s: no memory for its header", f->path);
    int rc = mt_format_read_at(c->w, c->file, f->header.len, (size_t)step,
                               f->header.data + f->header.len, e);
    if (rc) return rc;
    f->header.len += (size_t)step;
  }
  if (p) *p = (const unsigned char *)f->header.data + c->pos;
  c->pos += n;
  return MT_OK;
}

static int take_u32(cursor *c, const char *what, uint32_t *out, mt_err *e) {
  const unsigned char *p;
  int rc = take(c, sizeof *out, what, &p, e);
  if (!rc) memcpy(out, p, sizeof *out);
  return rc;
}

static int take_u64(cursor *c, const char *what, uint64_t *out, mt_err *e) {
  const unsigned char *p;
  int rc = take(c, sizeof *out, what, &p, e);
  if (!rc) memcpy(out, p, sizeof *out);
  return rc;
}

/* A key or a tensor's name as a C string; the caller frees. Any UTF-8 without NUL. */
static int take_name(cursor *c, const char *what, char **out, mt_err *e) {
  const unsigned char *p;
  uint64_t n, at = c->pos;
  int rc = take_u64(c, what, &n, e);
  if (rc) return rc;
  if (!n || n > NAME_MAX_BYTES)
    return mt_err_set(e, MT_EFORMAT, "%s: offset %llu: %s of %llu bytes", file_of(c)->path, (ull)at,
                      what, (ull)n);
  if ((rc = take(c, n, what, &p, e))) return rc;
  if (memchr(p, 0, (size_t)n) || !mt_utf8_valid((const char *)p, (size_t)n, NULL))
    return mt_err_set(e, MT_EFORMAT, "%s: offset %llu: %s is no UTF-8 text", file_of(c)->path,
                      (ull)at, what);
  char *s = mt_malloc((size_t)n + 1, 1);
  if (!s) return mt_err_set(e, MT_ENOMEM, "%s: no memory", file_of(c)->path);
  memcpy(s, p, (size_t)n);
  s[n] = 0;
  *out = s;
  return MT_OK;
}

/* n strings. All of them are walked, hence in memory, before their number decides an allocation. */
static int take_strings(cursor *c, uint64_t n, mt_gguf_kv *kv, mt_err *e) {
  uint64_t start = c->pos, len;
  size_t text_bytes = 0, table_bytes, bytes;
  int rc = MT_OK;
  if (n > remaining(c) / sizeof len)
    return mt_err_set(e, MT_EFORMAT,
                      "%s: offset %llu: %llu strings in '%.200s', more than the file can hold",
                      file_of(c)->path, (ull)start, (ull)n, kv->key);
  for (uint64_t i = 0; i < n && !rc; i++) {
    rc = take_u64(c, "length of a string", &len, e);
    if (!rc) rc = take(c, len, "string", NULL, e);
    if (!rc) text_bytes += (size_t)len + 1;
  }
  if (rc) return rc;
  if (!mt_size_mul((size_t)n, sizeof *kv->strings, &table_bytes) ||
      !mt_size_add(table_bytes, text_bytes, &bytes) || !(kv->strings = mt_malloc(bytes, 1)))
    return mt_err_set(e, MT_ENOMEM, "%s: no memory for %llu strings", file_of(c)->path, (ull)n);
  char *text = (char *)kv->strings + table_bytes;
  const char *src = file_of(c)->header.data + start;
  for (size_t i = 0; i < n; i++) {
    memcpy(&len, src, sizeof len);
    src += sizeof len;
    memcpy(text, src, (size_t)len);
    text[len] = 0;
    kv->strings[i] = (mt_bytes){text, (size_t)len};
    text += len + 1;
    src += len;
  }
  return MT_OK;
}

static int take_value(cursor *c, mt_gguf_kv *kv, mt_err *e) {
  const char *path = file_of(c)->path;
  const unsigned char *p;
  uint64_t n = 1, at = c->pos;
  int rc = take_u32(c, "type of a value", &kv->type, e);
  if (rc) return rc;
  if (kv->type == GGUF_ARRAY) {
    kv->array = true;
    if ((rc = take_u32(c, "type of an array", &kv->type, e)) ||
        (rc = take_u64(c, "length of an array", &n, e)))
      return rc;
    if (kv->type == GGUF_ARRAY)
      return mt_err_set(e, MT_EUNSUPPORTED, "%s: offset %llu: '%.200s' is an array of arrays", path,
                        (ull)at, kv->key);
  }
  size_t size = mt_gguf_type_bytes(kv->type);
  if (!size && kv->type != GGUF_STRING)
    return mt_err_set(e, MT_EFORMAT, "%s: offset %llu: '%.200s' has the unknown type %u", path,
                      (ull)at, kv->key, kv->type);
  kv->n = (size_t)n;
  kv->at = (size_t)c->pos;
  if (kv->type == GGUF_STRING) return take_strings(c, n, kv, e);
  if (n > remaining(c) / size)
    return mt_err_set(e, MT_EFORMAT,
                      "%s: offset %llu: '%.200s' has %llu elements, more than the file can hold",
                      path, (ull)at, kv->key, (ull)n);
  if ((rc = take(c, n * size, "value", &p, e))) return rc;
  for (size_t i = 0; kv->type == GGUF_BOOL && i < n; i++)
    if (p[i] > 1)
      return mt_err_set(e, MT_EFORMAT, "%s: offset %llu: '%.200s' holds %u as a boolean", path,
                        (ull)at, kv->key, p[i]);
  return MT_OK;
}

static int take_kv(cursor *c, mt_err *e) {
  mt_weights *w = c->w;
  if (w->n_kv == w->cap_kv) {
    size_t cap = w->cap_kv ? 2 * w->cap_kv : 64;
    mt_gguf_kv *p = mt_realloc(w->kv, cap, sizeof *p);
    if (!p) return mt_err_set(e, MT_ENOMEM, "%s: no memory for %zu keys", file_of(c)->path, cap);
    w->kv = p;
    w->cap_kv = cap;
  }
  mt_gguf_kv *kv = &w->kv[w->n_kv];
  *kv = (mt_gguf_kv){0};
  int rc = take_name(c, "key", &kv->key, e);
  if (rc) return rc;
  w->n_kv++; /* from here on mt_weights_close owns it */
  return take_value(c, kv, e);
}

/* Dimensions in the file go from the innermost outwards; ours from the outermost inwards. */
static int take_shape(cursor *c, const char *name, mt_shape *s, mt_err *e) {
  uint32_t n;
  int rc = take_u32(c, "number of dimensions", &n, e);
  if (rc) return rc;
  if (n > 4)
    return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s' has %u dimensions, at most 4 exist",
                      file_of(c)->path, name, n);
  s->n = (int)n;
  for (uint32_t i = 0; i < n && !rc; i++) rc = take_u64(c, "dimension", &s->dim[n - 1 - i], e);
  return rc;
}

/* The tensor's offset is still relative to the data; place_tensors moves it when the header's end
 * is known. */
static int take_tensor(cursor *c, mt_err *e) {
  const char *path = file_of(c)->path;
  mt_tensor_info t = {.file = c->file};
  char *name = NULL;
  uint32_t type = 0;
  uint64_t elems;
  int rc = take_name(c, "name of a tensor", &name, e);
  if (rc) return rc;
  t.name = name;
  if ((rc = take_shape(c, name, &t.shape, e)) || (rc = take_u32(c, "type of a tensor", &type, e)) ||
      (rc = take_u64(c, "offset of a tensor", &t.offset, e)))
    goto out;
  const char *type_name = mt_gguf_tensor_type(type, &t.type);
  if (t.type == MT_DTYPE_COUNT) {
    rc = mt_err_set(e, MT_EUNSUPPORTED,
                    "%s: tensor '%.200s' has type %u (%s), which is not supported", path, name,
                    type, type_name);
  } else if (!mt_shape_elems(&t.shape, &elems)) {
    rc = mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s': its shape overflows", path, name);
  } else if (!mt_shape_bytes(t.type, &t.shape, &t.bytes)) {
    rc = mt_err_set(
        e, MT_EFORMAT,
        "%s: tensor '%.200s': rows of %llu elements do not fit blocks of type %s, or overflow",
        path, name, (ull)(t.shape.n ? t.shape.dim[t.shape.n - 1] : 1), type_name);
  } else {
    rc = mt_format_add_tensor(c->w, &t, e);
  }
out:
  free(name);
  return rc;
}

/* Moves the tensors to their place in the file. */
static int place_tensors(cursor *c, mt_err *e) {
  mt_weights *w = c->w;
  const mt_format_file *f = file_of(c);
  uint64_t align = GGUF_DEFAULT_ALIGNMENT, limit = UINT64_MAX / 4;
  if (mt_gguf_has(w, "general.alignment") &&
      (!mt_gguf_u64(w, "general.alignment", &align) || !align || align & (align - 1) ||
       align > GGUF_MAX_ALIGNMENT))
    return mt_err_set(e, MT_EFORMAT, "%s: general.alignment is no power of two up to %u", f->path,
                      GGUF_MAX_ALIGNMENT);
  uint64_t data_start = (c->pos + align - 1) / align * align;
  for (size_t i = 0; i < w->n_tensors; i++) {
    mt_tensor_info *t = &w->tensor[i];
    if (t->offset % align)
      return mt_err_set(e, MT_EFORMAT,
                        "%s: tensor '%.200s': offset %llu is no multiple of the alignment %llu",
                        f->path, t->name, (ull)t->offset, (ull)align);
    if (t->offset > limit || t->bytes > limit)
      return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s': %llu bytes at %llu, beyond any file",
                        f->path, t->name, (ull)t->bytes, (ull)t->offset);
    t->offset += data_start;
  }
  return mt_format_check_layout(w, 0, c->file, data_start, false, e);
}

/* Magic, version and the two counts. */
static int take_preamble(cursor *c, uint64_t *n_tensors, uint64_t *n_kv, mt_err *e) {
  const char *path = file_of(c)->path;
  const unsigned char *p;
  uint32_t version;
  int rc = take(c, 4, "magic", &p, e);
  if (rc) return rc;
  if (memcmp(p, "GGUF", 4))
    return mt_err_set(e, MT_EFORMAT, "%s: no GGUF file: it does not begin with GGUF", path);
  if ((rc = take_u32(c, "version", &version, e))) return rc;
  if (version && !(version & 0xffff))
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "%s: a big-endian GGUF file; only little-endian ones are supported", path);
  if (version != 2 && version != 3)
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: GGUF version %u; versions 2 and 3 are supported",
                      path, version);
  if ((rc = take_u64(c, "number of tensors", n_tensors, e)) ||
      (rc = take_u64(c, "number of keys", n_kv, e)))
    return rc;
  if (*n_kv > remaining(c) / KV_LEAST_BYTES || *n_tensors > remaining(c) / TENSOR_LEAST_BYTES)
    return mt_err_set(e, MT_EFORMAT,
                      "%s: offset 8: %llu tensors and %llu keys, more than the file can hold", path,
                      (ull)*n_tensors, (ull)*n_kv);
  return MT_OK;
}

int mt_gguf_parse(mt_weights *w, int file, bool complete, mt_err *e) {
  cursor c = {.w = w, .file = file, .complete = complete};
  uint64_t n_tensors = 0, n_kv = 0, parts = 1;
  int rc = take_preamble(&c, &n_tensors, &n_kv, e);
  for (uint64_t i = 0; i < n_kv && !rc; i++) rc = take_kv(&c, e);
  if (!rc) rc = mt_gguf_seal(w, e);
  if (!rc && mt_gguf_u64(w, "split.count", &parts) && parts > 1)
    rc = mt_err_set(e, MT_EUNSUPPORTED,
                    "%s: one of the %llu parts of a split GGUF; join them into one file first",
                    w->file[file].path, (ull)parts);
  for (uint64_t i = 0; i < n_tensors && !rc; i++) rc = take_tensor(&c, e);
  if (rc) return rc;
  if (!complete) { /* what was read beyond the header is no part of it */
    w->file[file].header.len = (size_t)c.pos;
    w->file[file].header.data[c.pos] = 0;
  }
  return place_tensors(&c, e);
}
