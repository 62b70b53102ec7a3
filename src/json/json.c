/* A thin, bounded face over Jansson: mt_json is json_t, mt_json_member an iterator of its objects.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "mutirao/json.h"

enum { MAX_DEPTH = 512 };

static const json_t *in(const mt_json *j) {
  return (const json_t *)(const void *)j;
}
static json_t *inm(mt_json *j) {
  return (json_t *)(void *)j;
}
static mt_json *outm(json_t *j) {
  return (mt_json *)(void *)j;
}

/* Deepest nesting of brackets outside strings: bounds the recursion of the parser and of everything
 * after it. */
static bool nesting_ok(const char *s, size_t n) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < n; i++) {
    char c = s[i];
    if (quoted) {
      if (c == '\\')
        i++;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > MAX_DEPTH) return false;
    } else if ((c == ']' || c == '}') && depth) {
      depth--;
    }
  }
  return true;
}

/* Jansson reports a refused allocation as a syntax error; its allocator, ours, notes what really
 * happened. */
static _Thread_local bool out_of_memory;

static void *noting_malloc(size_t n) {
  void *p = malloc(n);
  if (!p) out_of_memory = true;
  return p;
}

static void install_allocator(void) {
  json_set_alloc_funcs(noting_malloc, free);
}

int mt_json_parse(mt_json **out, const char *text, size_t len, const char *name, mt_err *e) {
  *out = NULL;
  if (!nesting_ok(text, len))
    return mt_err_set(e, MT_EFORMAT, "%s: JSON nested deeper than %d levels", name, MAX_DEPTH);
  static once_flag once = ONCE_FLAG_INIT;
  call_once(&once, install_allocator);
  out_of_memory = false;
  json_error_t je;
  size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
  json_t *j = json_loadb(text, len, flags, &je);
  /* Integers beyond 64 bits do occur (model_max_length 1e30): then every integer of the text is
   * read as a real, which mt_json_int still gives back where it is whole. */
  if (!j && !out_of_memory && json_error_code(&je) == json_error_numeric_overflow)
    j = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &je);
  if (!j && out_of_memory)
    return mt_err_set(e, MT_ENOMEM, "%s: no memory for JSON of %zu bytes", name, len);
  if (!j) return mt_err_set(e, MT_EFORMAT, "%s:%d:%d: %s", name, je.line, je.column, je.text);
  *out = outm(j);
  return MT_OK;
}

int mt_json_read_file(mt_json **out, const char *path, size_t max_bytes, mt_err *e) {
  *out = NULL;
  mt_buf b = {0};
  int rc = mt_buf_read_file(&b, path, max_bytes, e);
  if (!rc) rc = mt_json_parse(out, b.data ? b.data : "", b.len, path, e);
  mt_buf_free(&b);
  return rc;
}

void mt_json_free(mt_json *root) {
  json_decref(inm(root));
}

mt_json_kind mt_json_get_kind(const mt_json *j) {
  if (!j) return MT_JSON_NULL;
  switch (json_typeof(in(j))) {
    case JSON_OBJECT: return MT_JSON_OBJECT;
    case JSON_ARRAY: return MT_JSON_ARRAY;
    case JSON_STRING: return MT_JSON_STRING;
    case JSON_INTEGER: return MT_JSON_INT;
    case JSON_REAL: return MT_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return MT_JSON_BOOL;
    default: return MT_JSON_NULL;
  }
}

bool mt_json_is(const mt_json *j, mt_json_kind kind) {
  return j && mt_json_get_kind(j) == kind;
}

const mt_json *mt_json_get(const mt_json *object, const char *key) {
  return object ? outm(json_object_get(in(object), key)) : NULL;
}

size_t mt_json_len(const mt_json *j) {
  if (!j) return 0;
  return json_is_array(in(j)) ? json_array_size(in(j)) : json_object_size(in(j));
}

const mt_json *mt_json_at(const mt_json *array, size_t i) {
  return array ? outm(json_array_get(in(array), i)) : NULL;
}

const char *mt_json_string(const mt_json *j, size_t *len) {
  const char *s = j ? json_string_value(in(j)) : NULL;
  if (len) *len = s ? json_string_length(in(j)) : 0;
  return s;
}

bool mt_json_bool(const mt_json *j, bool *out) {
  if (!mt_json_is(j, MT_JSON_BOOL)) return false;
  *out = json_is_true(in(j));
  return true;
}

bool mt_json_int(const mt_json *j, int64_t *out) {
  if (mt_json_is(j, MT_JSON_INT)) {
    *out = json_integer_value(in(j));
    return true;
  }
  if (!mt_json_is(j, MT_JSON_REAL)) return false;
  double d = json_real_value(in(j));
  if (!(d >= -0x1p62 && d <= 0x1p62) || d != (double)(int64_t)d) return false;
  *out = (int64_t)d;
  return true;
}

bool mt_json_number(const mt_json *j, double *out) {
  if (!mt_json_is(j, MT_JSON_INT) && !mt_json_is(j, MT_JSON_REAL)) return false;
  *out = json_number_value(in(j));
  return true;
}

static mt_json_member *member(void *iter) {
  return (mt_json_member *)iter;
}
static json_t *object_of(const mt_json *j) {
  return (json_t *)(uintptr_t)j;
}

const mt_json_member *mt_json_first(const mt_json *o) {
  return o ? member(json_object_iter(object_of(o))) : NULL;
}
const mt_json_member *mt_json_next(const mt_json *o, const mt_json_member *m) {
  return member(json_object_iter_next(object_of(o), (void *)(uintptr_t)m));
}
const char *mt_json_member_key(const mt_json_member *m) {
  return json_object_iter_key((void *)(uintptr_t)m);
}
const mt_json *mt_json_member_value(const mt_json_member *m) {
  return outm(json_object_iter_value((void *)(uintptr_t)m));
}

mt_json *mt_json_new_object(void) {
  return outm(json_object());
}
mt_json *mt_json_new_array(void) {
  return outm(json_array());
}
mt_json *mt_json_new_null(void) {
  return outm(json_null());
}
mt_json *mt_json_new_bool(bool v) {
  return outm(json_boolean(v));
}
mt_json *mt_json_new_int(int64_t v) {
  return outm(json_integer(v));
}
mt_json *mt_json_new_real(double v) {
  return outm(json_real(v));
}
mt_json *mt_json_new_string(const char *s, size_t len) {
  return outm(json_stringn(s, len));
}
mt_json *mt_json_copy(const mt_json *j) {
  return j ? outm(json_deep_copy(in(j))) : NULL;
}

int mt_json_set(mt_json *object, const char *key, mt_json *value) {
  return json_object_set_new(inm(object), key, inm(value)) ? MT_ENOMEM : MT_OK;
}

int mt_json_append(mt_json *array, mt_json *value) {
  return json_array_append_new(inm(array), inm(value)) ? MT_ENOMEM : MT_OK;
}

static int append_piece(const char *p, size_t n, void *arg) {
  return mt_buf_append(arg, p, n) ? -1 : 0;
}

int mt_json_write(const mt_json *j, int indent, mt_buf *out) {
  size_t flags = JSON_ENCODE_ANY | (indent > 0 ? JSON_INDENT((size_t)indent) : 0);
  return json_dump_callback(in(j), append_piece, out, flags) ? MT_ENOMEM : MT_OK;
}
