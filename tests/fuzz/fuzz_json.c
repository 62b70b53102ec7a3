/* Any bytes as JSON: what parses is walked, written, and parses again to the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/json.h"

static void require(bool ok) {
  if (!ok) abort();
}

static void walk(const mt_json *j) {
  int64_t i;
  double d;
  bool b;
  size_t n = 0, len;
  const char *s = mt_json_string(j, &len);
  require(!s || (s[len] == 0 && mt_utf8_valid(s, len, NULL)));
  if (mt_json_int(j, &i)) require(mt_json_number(j, &d));
  require(mt_json_bool(j, &b) == mt_json_is(j, MT_JSON_BOOL));
  for (const mt_json_member *m = mt_json_first(j); m; m = mt_json_next(j, m), n++) {
    require(mt_json_get(j, mt_json_member_key(m)) == mt_json_member_value(m));
    walk(mt_json_member_value(m));
  }
  if (mt_json_is(j, MT_JSON_OBJECT)) require(n == mt_json_len(j));
  for (size_t k = 0; mt_json_is(j, MT_JSON_ARRAY) && k < mt_json_len(j); k++)
    walk(mt_json_at(j, k));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mt_json *j = NULL, *again = NULL;
  mt_err e = {0};
  mt_buf first = {0}, second = {0};
  if (mt_json_parse(&j, (const char *)data, size, "fuzz", &e)) {
    require(!j && e.code == MT_EFORMAT && e.msg[0]);
    return 0;
  }
  walk(j);
  require(!mt_json_write(j, 0, &first));
  require(!mt_json_parse(&again, first.data, first.len, "again", &e));
  require(!mt_json_write(again, 0, &second));
  require(first.len == second.len && !memcmp(first.data, second.data, first.len));
  mt_json_free(again);
  mt_json_free(j);
  mt_buf_free(&first);
  mt_buf_free(&second);
  return 0;
}
