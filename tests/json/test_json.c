/* json: strictness, bounds, order, numbers at the edges, round trips. */
#include <math.h>
#include <stdint.h>

#include "mt_test.h"
#include "mutirao/json.h"

static mt_json *parse(const char *s, size_t n) {
  mt_err e = {0};
  mt_json *j = NULL;
  if (mt_json_parse(&j, s, n, "text", &e)) printf("\n  %s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL_FATAL(j);
  return j;
}

static mt_json *parse_text(const char *s) { return parse(s, strlen(s)); }

static void expect_text(const mt_json *j, int indent, const char *want) {
  mt_buf b = {0};
  CU_ASSERT_EQUAL(mt_json_write(j, indent, &b), MT_OK);
  if (strcmp(b.data ? b.data : "", want)) printf("\n  got %s\n  want %s\n", b.data, want);
  CU_ASSERT_STRING_EQUAL(b.data ? b.data : "", want);
  mt_buf_free(&b);
}

static void test_refused(void) {
  static const struct {
    const char *text;
    size_t n; /* 0: strlen */
  } table[] = {
      {"", 0},
      {" ", 0},
      {"{", 0},
      {"}", 0},
      {"[1,]", 0},
      {"{\"a\":1,}", 0},
      {"[1 2]", 0},
      {"01", 0},
      {"1.", 0},
      {".5", 0},
      {"+1", 0},
      {"1e", 0},
      {"-", 0},
      {"NaN", 0},
      {"Infinity", 0},
      {"nul", 0},
      {"True", 0},
      {"'a'", 0},
      {"\"", 0},
      {"\"\\x\"", 0},
      {"\"\\u12\"", 0},
      {"\"\n\"", 0},
      {"\"\t\"", 0},
      {"{a:1}", 0},
      {"1 2", 0},
      {"{} x", 0},
      {"[1]\0", 4},
      {"\"\0\"", 3},
      {"// c\n1", 0},
      {"\xef\xbb\xbf{}", 0},
      {"\"\xff\"", 0},
      {"\"\xc0\x80\"", 0},
      {"\"\xed\xa0\x80\"", 0},
      {"\"\\ud800\"", 0},
      {"\"\\udc00\\ud800\"", 0},
      {"1e999", 0},
      {"-1e999", 0},
      {"{\"a\":1,\"a\":1}", 0},
      {"{\"a\":{\"b\":1,\"b\":2}}", 0},
      {"{\"a\":1,\"\\u0061\":2}", 0},
      {"{\"a\\u0000\":1}", 0},
      {"[", 0},
      {"{\"a\"", 0},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    mt_err e = {0};
    mt_json *j = (mt_json *)1;
    size_t n = table[i].n ? table[i].n : strlen(table[i].text);
    int rc = mt_json_parse(&j, table[i].text, n, "here", &e);
    if (rc != MT_EFORMAT) printf("\n  accepted: %s\n", table[i].text);
    CU_ASSERT_EQUAL(rc, MT_EFORMAT);
    CU_ASSERT_PTR_NULL(j);
    CU_ASSERT_EQUAL(strncmp(e.msg, "here:", 5), 0);
    if (!rc) mt_json_free(j);
  }
}

/* Integers beyond 64 bits occur in real files (model_max_length 1e30): they are reals then, and so
 * is every other integer of that text, which mt_json_int still gives back. */
static void test_large_integers(void) {
  mt_json *j = NULL;
  int64_t n;
  double d;
  const char *s = "[1000000000000000019884624838656, 7, -9223372036854775809]";
  CU_ASSERT_EQUAL_FATAL(mt_json_parse(&j, s, strlen(s), "here", NULL), MT_OK);
  CU_ASSERT(mt_json_number(mt_json_at(j, 0), &d) && d == 1e30);
  CU_ASSERT(!mt_json_int(mt_json_at(j, 0), &n));
  CU_ASSERT(mt_json_int(mt_json_at(j, 1), &n) && n == 7);
  CU_ASSERT(mt_json_number(mt_json_at(j, 2), &d) && d == -9223372036854775808.0);
  mt_json_free(j);
}

static void test_place(void) {
  mt_err e;
  mt_json *j;
  const char *s = "{\n  \"a\": 1,\n  \"b\": x\n}";
  CU_ASSERT_EQUAL(mt_json_parse(&j, s, strlen(s), "f.json", &e), MT_EFORMAT);
  CU_ASSERT_EQUAL(strncmp(e.msg, "f.json:3:", 9), 0);
  CU_ASSERT_EQUAL(mt_json_read_file(&j, "/nonexistent/x.json", 10, &e), MT_EIO);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, "/nonexistent/x.json"));
}

/* depth brackets, closed again. */
static int parse_nested(size_t depth, char open, char close, const char *inner) {
  mt_buf b = {0};
  mt_json *j = NULL;
  for (size_t i = 0; i < depth; i++) {
    mt_buf_putc(&b, open);
    if (open == '{') mt_buf_puts(&b, "\"k\":");
  }
  mt_buf_puts(&b, inner);
  for (size_t i = 0; i < depth; i++) mt_buf_putc(&b, close);
  int rc = mt_json_parse(&j, b.data, b.len, "deep", NULL);
  mt_json_free(j);
  mt_buf_free(&b);
  return rc;
}

static void test_depth(void) {
  CU_ASSERT_EQUAL(parse_nested(512, '[', ']', "1"), MT_OK);
  CU_ASSERT_EQUAL(parse_nested(513, '[', ']', "1"), MT_EFORMAT);
  CU_ASSERT_EQUAL(parse_nested(512, '{', '}', "1"), MT_OK);
  CU_ASSERT_EQUAL(parse_nested(513, '{', '}', "1"), MT_EFORMAT);
  CU_ASSERT_EQUAL(parse_nested(1000000, '[', ']', ""), MT_EFORMAT);
  CU_ASSERT_EQUAL(parse_nested(512, '[', ']', "\"[[[[{{{{\\\"[[[\""),
                  MT_OK); /* brackets in strings do not count */
}

static void test_numbers(void) {
  int64_t i;
  double d;
  mt_json *j = parse_text(
      "[9223372036854775807,-9223372036854775808,0,-0,-0.0,1e2,1.5,4611686018427387904.0,1e300,"
      "5e-324,true,\"1\",1e-400]");
  CU_ASSERT(mt_json_int(mt_json_at(j, 0), &i) && i == INT64_MAX);
  CU_ASSERT(mt_json_int(mt_json_at(j, 1), &i) && i == INT64_MIN);
  CU_ASSERT(mt_json_int(mt_json_at(j, 2), &i) && i == 0);
  CU_ASSERT(mt_json_int(mt_json_at(j, 3), &i) && i == 0);
  CU_ASSERT(mt_json_number(mt_json_at(j, 4), &d) && d == 0 && signbit(d));
  CU_ASSERT(mt_json_is(mt_json_at(j, 5), MT_JSON_REAL) && mt_json_int(mt_json_at(j, 5), &i) &&
            i == 100);
  CU_ASSERT_FALSE(mt_json_int(mt_json_at(j, 6), &i));
  CU_ASSERT(mt_json_number(mt_json_at(j, 6), &d) && d == 1.5);
  CU_ASSERT(mt_json_int(mt_json_at(j, 7), &i) && i == (int64_t)1 << 62);
  CU_ASSERT_FALSE(mt_json_int(mt_json_at(j, 8), &i));
  CU_ASSERT(mt_json_number(mt_json_at(j, 9), &d) && d == 0x1p-1074);
  CU_ASSERT_FALSE(mt_json_number(mt_json_at(j, 10), &d));
  CU_ASSERT_FALSE(mt_json_int(mt_json_at(j, 11), &i));
  CU_ASSERT(mt_json_number(mt_json_at(j, 12), &d) && d == 0);
  CU_ASSERT_PTR_NULL(mt_json_at(j, 13));
  mt_json_free(j);
}

/* Every double comes back from its text, whatever its size. */
static void test_real_round_trip(void) {
  uint64_t seed = mt_test_seed();
  for (uint64_t k = 0; k < 20000; k++) {
    uint64_t bits = (uint64_t)(mt_uniform(seed, 0, k, 0) * 0x1p53) << 11 ^
                    (uint64_t)(mt_uniform(seed, 0, k, 1) * 0x1p53);
    double v, back = NAN;
    memcpy(&v, &bits, 8);
    mt_json *j = mt_json_new_real(v);
    if (!isfinite(v)) {
      CU_ASSERT_PTR_NULL(j);
      continue;
    }
    mt_buf b = {0};
    CU_ASSERT_EQUAL(mt_json_write(j, 0, &b), MT_OK);
    mt_json *again = parse(b.data, b.len);
    CU_ASSERT(mt_json_is(again, MT_JSON_REAL) && mt_json_number(again, &back) &&
              !memcmp(&v, &back, 8));
    mt_json_free(again);
    mt_json_free(j);
    mt_buf_free(&b);
  }
  CU_ASSERT_PTR_NULL(mt_json_new_real(NAN));
  CU_ASSERT_PTR_NULL(mt_json_new_real(INFINITY));
}

static void test_strings(void) {
  size_t n;
  mt_json *j = parse_text(
      "[\"a\\u0000b\",\"\\\"\\\\\\/"
      "\\b\\f\\n\\r\\t\",\"\\ud83d\\ude0a\\u00e7\",\"\",\"\x7f\\u2028\"]");
  const char *s = mt_json_string(mt_json_at(j, 0), &n);
  CU_ASSERT(n == 3 && !memcmp(s, "a\0b", 4));
  CU_ASSERT_STRING_EQUAL(mt_json_string(mt_json_at(j, 1), NULL), "\"\\/\b\f\n\r\t");
  CU_ASSERT_STRING_EQUAL(mt_json_string(mt_json_at(j, 2), &n), "\xf0\x9f\x98\x8a\xc3\xa7");
  CU_ASSERT_EQUAL(n, 6);
  CU_ASSERT_STRING_EQUAL(mt_json_string(mt_json_at(j, 3), &n), "");
  CU_ASSERT_EQUAL(n, 0);
  mt_json_free(j);
  CU_ASSERT_PTR_NULL(mt_json_new_string("\xff", 1));
  CU_ASSERT_PTR_NULL(mt_json_new_string("\xed\xa0\x80", 3));
  mt_json *nul = mt_json_new_string("x\0y", 3);
  expect_text(nul, 0, "\"x\\u0000y\"");
  mt_json_free(nul);
}

static void test_order(void) {
  const char *text =
      "{\"z\":1,\"a\":{\"y\":[],\"b\":null},\"m\":[true,false,\"x\"],\"\":-3,\"é\":1.5}";
  const char *keys[] = {"z", "a", "m", "", "é"};
  mt_json *j = parse_text(text);
  size_t i = 0;
  for (const mt_json_member *m = mt_json_first(j); m; m = mt_json_next(j, m)) {
    CU_ASSERT_FATAL(i < 5);
    CU_ASSERT_STRING_EQUAL(mt_json_member_key(m), keys[i]);
    CU_ASSERT_PTR_EQUAL(mt_json_member_value(m), mt_json_get(j, keys[i]));
    i++;
  }
  CU_ASSERT(i == 5 && mt_json_len(j) == 5);
  mt_buf b = {0};
  CU_ASSERT_EQUAL(mt_json_write(j, 0, &b), MT_OK);
  mt_json *again = parse(b.data, b.len);
  mt_buf c = {0};
  CU_ASSERT_EQUAL(mt_json_write(again, 0, &c), MT_OK);
  CU_ASSERT_STRING_EQUAL(b.data, c.data); /* a fixed point, members in the order of the text */
  CU_ASSERT(b.data && strstr(b.data, "\"z\"") < strstr(b.data, "\"a\"") && !strchr(b.data, '\n'));
  mt_json *copy = mt_json_copy(j);
  CU_ASSERT_EQUAL(
      mt_json_set((mt_json *)(uintptr_t)mt_json_get(copy, "a"), "new", mt_json_new_int(1)), MT_OK);
  CU_ASSERT_EQUAL(mt_json_len(mt_json_get(j, "a")), 2); /* the copy is deep */
  mt_json_free(copy);
  mt_json_free(again);
  mt_json_free(j);
  mt_buf_free(&b);
  mt_buf_free(&c);
}

static void test_build(void) {
  mt_json *o = mt_json_new_object(), *a = mt_json_new_array();
  CU_ASSERT_EQUAL(mt_json_append(a, mt_json_new_int(INT64_MIN)), MT_OK);
  CU_ASSERT_EQUAL(mt_json_append(a, mt_json_new_null()), MT_OK);
  CU_ASSERT_EQUAL(mt_json_append(a, mt_json_new_bool(true)), MT_OK);
  CU_ASSERT_EQUAL(mt_json_append(a, NULL), MT_ENOMEM);
  CU_ASSERT_EQUAL(mt_json_set(o, "list", a), MT_OK);
  CU_ASSERT_EQUAL(mt_json_set(o, "text", mt_json_new_string("á\n", 3)), MT_OK);
  CU_ASSERT_EQUAL(mt_json_set(o, "none", NULL), MT_ENOMEM);
  CU_ASSERT_EQUAL(mt_json_set(o, "text", mt_json_new_string("b", 1)), MT_OK); /* replaces */
  expect_text(o, 0, "{\"list\": [-9223372036854775808, null, true], \"text\": \"b\"}");
  expect_text(o, 2,
              "{\n  \"list\": [\n    -9223372036854775808,\n    null,\n    true\n  ],\n  \"text\": "
              "\"b\"\n}");
  mt_buf b = {0};
  mt_buf_puts(&b, "data: ");
  CU_ASSERT_EQUAL(mt_json_write(mt_json_get(o, "text"), 0, &b), MT_OK); /* appends; any value */
  CU_ASSERT_STRING_EQUAL(b.data, "data: \"b\"");
  mt_buf_free(&b);
  mt_json_free(o);
}

/* An absent value answers NULL, 0 or false, however deep the question. */
static void test_absent(void) {
  int64_t i;
  double d;
  bool b;
  size_t n = 9;
  mt_json *j = parse_text("{\"s\":\"x\",\"n\":null,\"a\":[1]}");
  CU_ASSERT_PTR_NULL(mt_json_get(mt_json_get(mt_json_get(j, "q"), "r"), "s"));
  CU_ASSERT_PTR_NULL(mt_json_get(mt_json_get(j, "s"), "x")); /* a string is no object */
  CU_ASSERT_PTR_NULL(mt_json_get(mt_json_get(j, "a"), "x"));
  CU_ASSERT_PTR_NULL(mt_json_at(mt_json_get(j, "s"), 0));
  CU_ASSERT_PTR_NULL(mt_json_at(j, 0));
  CU_ASSERT_PTR_NULL(mt_json_at(NULL, 0));
  CU_ASSERT_PTR_NULL(mt_json_first(mt_json_get(j, "a")));
  CU_ASSERT_PTR_NULL(mt_json_first(NULL));
  CU_ASSERT_EQUAL(mt_json_len(NULL) + mt_json_len(mt_json_get(j, "s")), 0);
  CU_ASSERT(!mt_json_string(NULL, &n) && n == 0);
  CU_ASSERT(!mt_json_string(mt_json_get(j, "a"), NULL));
  CU_ASSERT(!mt_json_bool(NULL, &b) && !mt_json_int(NULL, &i) && !mt_json_number(NULL, &d));
  CU_ASSERT(mt_json_get_kind(NULL) == MT_JSON_NULL && !mt_json_is(NULL, MT_JSON_NULL));
  CU_ASSERT(mt_json_is(mt_json_get(j, "n"), MT_JSON_NULL));
  CU_ASSERT_PTR_NULL(mt_json_copy(NULL));
  mt_json_free(NULL);
  mt_json_free(j);
}

MT_TEST_MAIN("json", {"refused", test_refused}, {"large integers", test_large_integers}, {"place", test_place}, {"depth", test_depth},
             {"numbers", test_numbers}, {"real round trip", test_real_round_trip},
             {"strings", test_strings}, {"order", test_order}, {"build", test_build},
             {"absent", test_absent})
