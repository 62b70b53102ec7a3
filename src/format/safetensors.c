/* safetensors: 8 bytes of header length, a JSON header, then the data without gaps.
 * Source: the format's description, github.com/huggingface/safetensors. */
#include <string.h>

#include "internal.h"
#include "mutirao/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lengths in the file are little-endian");

enum { LENGTH_BYTES = 8 };

int mt_safetensors_read_header(mt_weights *w, int file, mt_err *e) {
  mt_format_file *f = &w->file[file];
  uint64_t n;
  if (f->bytes < LENGTH_BYTES)
    return mt_err_set(e, MT_EFORMAT, "%s: %llu bytes are no safetensors file", f->path,
                      (unsigned long long)f->bytes);
  int rc = mt_format_read_at(w, file, 0, LENGTH_BYTES, &n, e);
  if (rc) return rc;
  if (n > f->bytes - LENGTH_BYTES)
    return mt_err_set(
        e, MT_EFORMAT,
        "%s: offset 0: header of %llu bytes in a file of %llu: truncated or no safetensors file",
        f->path, (unsigned long long)n, (unsigned long long)f->bytes);
  if (n > MT_SAFETENSORS_HEADER_MAX)
    return mt_err_set(e, MT_EFORMAT, "%s: offset 0: header of %llu bytes, the limit is %u", f->path,
                      (unsigned long long)n, MT_SAFETENSORS_HEADER_MAX);
  if (mt_buf_reserve(&f->header, (size_t)n))
    return mt_err_set(e, MT_ENOMEM, "%s: no memory for a header of %llu bytes", f->path,
                      (unsigned long long)n);
  rc = mt_format_read_at(w, file, LENGTH_BYTES, (size_t)n, f->header.data, e);
  if (rc) return rc;
  f->header.len = (size_t)n;
  f->header.data[n] = 0;
  return MT_OK;
}

/* MT_DTYPE_COUNT for what the format knows and we do not (F8_E4M3, U16 …), and for what nobody
 * knows. */
static mt_dtype find_dtype(const char *name) {
  static const struct {
    const char *name;
    mt_dtype type;
  } table[] = {{"F32", MT_F32}, {"F16", MT_F16},  {"BF16", MT_BF16}, {"F64", MT_F64},
               {"I8", MT_I8},   {"U8", MT_U8},    {"I16", MT_I16},   {"I32", MT_I32},
               {"I64", MT_I64}, {"BOOL", MT_BOOL}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (!strcmp(table[i].name, name)) return table[i].type;
  return MT_DTYPE_COUNT;
}

/* A count or offset: an integer, not negative. */
static bool get_count(const mt_json *j, uint64_t *out) {
  int64_t v;
  if (!mt_json_is(j, MT_JSON_INT) || !mt_json_int(j, &v) || v < 0) return false;
  *out = (uint64_t)v;
  return true;
}

static int get_shape(mt_shape *s, const mt_json *j, const char *path, const char *name, mt_err *e) {
  size_t n = mt_json_len(j);
  if (!mt_json_is(j, MT_JSON_ARRAY))
    return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s': no shape", path, name);
  if (n > sizeof s->dim / sizeof s->dim[0])
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "%s: tensor '%.200s' has %zu dimensions; at most 4 are supported", path, name,
                      n);
  s->n = (int)n;
  for (size_t i = 0; i < n; i++)
    if (!get_count(mt_json_at(j, i), &s->dim[i]))
      return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s': dimension %zu is no count", path, name,
                        i);
  return MT_OK;
}

static int add_tensor(mt_weights *w, int file, const char *name, const mt_json *entry,
                      uint64_t data_start, mt_err *e) {
  const char *path = w->file[file].path;
  mt_tensor_info t = {.name = name, .file = file};
  if (!*name) return mt_err_set(e, MT_EFORMAT, "%s: a tensor without a name", path);
  const char *dtype = mt_json_string(mt_json_get(entry, "dtype"), NULL);
  if (!dtype) return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s': no dtype", path, name);
  t.type = find_dtype(dtype);
  if (t.type == MT_DTYPE_COUNT)
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: tensor '%.200s': dtype '%.40s' is not supported",
                      path, name, dtype);
  int rc = get_shape(&t.shape, mt_json_get(entry, "shape"), path, name, e);
  if (rc) return rc;
  if (!mt_shape_bytes(t.type, &t.shape, &t.bytes))
    return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s': its shape overflows", path, name);
  const mt_json *place = mt_json_get(entry, "data_offsets");
  uint64_t begin, end;
  if (!mt_json_is(place, MT_JSON_ARRAY) || mt_json_len(place) != 2 ||
      !get_count(mt_json_at(place, 0), &begin) || !get_count(mt_json_at(place, 1), &end) ||
      begin > end)
    return mt_err_set(e, MT_EFORMAT,
                      "%s: tensor '%.200s': data_offsets are not two ascending offsets", path,
                      name);
  if (end - begin != t.bytes)
    return mt_err_set(
        e, MT_EFORMAT,
        "%s: tensor '%.200s': %llu bytes by its data_offsets, %llu by shape and dtype", path, name,
        (unsigned long long)(end - begin), (unsigned long long)t.bytes);
  t.offset = data_start + begin; /* no overflow: begin < 2^63, data_start below 2^27 */
  return mt_format_add_tensor(w, &t, e);
}

/* __metadata__ is free text for people, but the format says strings only. */
static int check_metadata(const mt_json *m, const char *path, mt_err *e) {
  if (!mt_json_is(m, MT_JSON_OBJECT))
    return mt_err_set(e, MT_EFORMAT, "%s: __metadata__ is no object", path);
  for (const mt_json_member *it = mt_json_first(m); it; it = mt_json_next(m, it))
    if (!mt_json_is(mt_json_member_value(it), MT_JSON_STRING))
      return mt_err_set(e, MT_EFORMAT, "%s: __metadata__ '%.200s' is no string", path,
                        mt_json_member_key(it));
  return MT_OK;
}

int mt_safetensors_parse(mt_weights *w, int file, mt_err *e) {
  const mt_format_file *f = &w->file[file];
  size_t first = w->n_tensors;
  uint64_t data_start = LENGTH_BYTES + f->header.len;
  mt_json *j;
  int rc = mt_json_parse(&j, f->header.len ? f->header.data : "", f->header.len, f->path, e);
  if (rc) return mt_err_prefix(e, rc, "safetensors header");
  if (!mt_json_is(j, MT_JSON_OBJECT))
    rc = mt_err_set(e, MT_EFORMAT, "%s: the header is no JSON object", f->path);
  for (const mt_json_member *it = rc ? NULL : mt_json_first(j); it && !rc;
       it = mt_json_next(j, it)) {
    const char *key = mt_json_member_key(it);
    const mt_json *v = mt_json_member_value(it);
    rc = !strcmp(key, "__metadata__") ? check_metadata(v, f->path, e)
                                      : add_tensor(w, file, key, v, data_start, e);
  }
  mt_json_free(j);
  return rc ? rc : mt_format_check_layout(w, first, file, data_start, true, e);
}
