/* json: bounded reading and writing of every JSON we touch, over Jansson. Layer 1; the only module
 * that includes jansson.h. Values are trees; children belong to their root. Nothing here is
 * collective. */
#ifndef MUTIRAO_JSON_H
#define MUTIRAO_JSON_H

#include "mutirao/base.h"

typedef struct mt_json mt_json;
typedef enum mt_json_kind {
  MT_JSON_NULL,
  MT_JSON_BOOL,
  MT_JSON_INT,
  MT_JSON_REAL,
  MT_JSON_STRING,
  MT_JSON_ARRAY,
  MT_JSON_OBJECT
} mt_json_kind;

/* Parses exactly one value (strict RFC 8259, UTF-8, no duplicate keys, nesting at most 512). `name`
 * is for messages: MT_EFORMAT with name, line and column, or MT_ENOMEM. The caller frees *out with
 * mt_json_free. */
int mt_json_parse(mt_json **out, const char *text, size_t len, const char *name, mt_err *e);
/* The same from a file of at most max_bytes ("-" for standard input). */
int mt_json_read_file(mt_json **out, const char *path, size_t max_bytes, mt_err *e);
void mt_json_free(mt_json *root); /* NULL allowed */

/* Reading. Every function accepts NULL (an absent value) and then answers NULL, 0 or false. */
mt_json_kind mt_json_get_kind(const mt_json *j);      /* MT_JSON_NULL for NULL */
bool mt_json_is(const mt_json *j, mt_json_kind kind); /* false for NULL */
const mt_json *mt_json_get(const mt_json *object,
                           const char *key); /* NULL if absent or not an object */
size_t mt_json_len(const mt_json *array_or_object);
const mt_json *mt_json_at(const mt_json *array, size_t i);
/* 0-terminated and counted (len may be NULL; the text may hold NUL). NULL if not a string. */
const char *mt_json_string(const mt_json *j, size_t *len);
bool mt_json_bool(const mt_json *j, bool *out);
bool mt_json_int(const mt_json *j, int64_t *out);   /* a real with an integral value counts too */
bool mt_json_number(const mt_json *j, double *out); /* an integer counts too */

/* Members in the order of the text: for (it = mt_json_first(o); it; it = mt_json_next(o, it)). */
typedef struct mt_json_member mt_json_member;
const mt_json_member *mt_json_first(const mt_json *object);
const mt_json_member *mt_json_next(const mt_json *object, const mt_json_member *m);
const char *mt_json_member_key(const mt_json_member *m);
const mt_json *mt_json_member_value(const mt_json_member *m);

/* Building. Constructors return NULL when out of memory. set and append take over `value` (also on
 * failure, when they return MT_ENOMEM; a NULL value is a failure). Strings must be valid UTF-8,
 * else the constructor returns NULL. */
mt_json *mt_json_new_object(void);
mt_json *mt_json_new_array(void);
mt_json *mt_json_new_null(void);
mt_json *mt_json_new_bool(bool v);
mt_json *mt_json_new_int(int64_t v);
mt_json *mt_json_new_real(double v); /* NULL for NaN and infinities, which JSON lacks */
mt_json *mt_json_new_string(const char *s, size_t len);
mt_json *mt_json_copy(const mt_json *j); /* deep */
int mt_json_set(mt_json *object, const char *key, mt_json *value);
int mt_json_append(mt_json *array, mt_json *value);

/* Appends the text of j: one line, or indented by `indent` spaces where indent > 0. MT_OK or
 * MT_ENOMEM. */
int mt_json_write(const mt_json *j, int indent, mt_buf *out);

#endif
