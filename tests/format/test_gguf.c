/* GGUF: metadata of every type, every prefix of a small file, and every kind of file that must be
 * refused. */
#include <math.h>
#include <stdint.h>

#include "gguf_file.h"

/* One key of every type, three arrays, two tensors, alignment 64. */
static mt_buf make_all(uint32_t version) {
  mt_buf b = {0};
  uint64_t dims[] = {32, 3}, one[] = {5};
  put_head(&b, version, 2, 18);
  put_key(&b, "general.alignment", U32), put_u32(&b, 64);
  put_key(&b, "u8", U8), put(&b, "\xff", 1);
  put_key(&b, "i8", I8), put(&b, "\xff", 1);
  put_key(&b, "u16", U16), put(&b, "\x01\x80", 2);
  put_key(&b, "i16", I16), put(&b, "\x01\x80", 2);
  put_key(&b, "u32", U32), put_u32(&b, 0x80000001u);
  put_key(&b, "i32", I32), put_u32(&b, 0x80000001u);
  put_key(&b, "f32", F32), put(&b, &(float){0.1f}, 4);
  put_key(&b, "true", BOOL), put(&b, "\1", 1);
  put_key(&b, "false", BOOL), put(&b, "\0", 1);
  put_key(&b, "string", STRING), put_u64(&b, 5), put(&b, "a\0\xff b", 5);
  put_key(&b, "u64", U64), put_u64(&b, UINT64_MAX);
  put_key(&b, "i64", I64), put_u64(&b, (uint64_t)INT64_MIN);
  put_key(&b, "f64", F64), put(&b, &(double){-1e300}, 8);
  put_array(&b, "strings", STRING, 3), put_text(&b, "x"), put_text(&b, ""), put_text(&b, "yz");
  put_array(&b, "ints", I32, 2), put_u32(&b, 7), put_u32(&b, (uint32_t)-7);
  put_array(&b, "bools", BOOL, 2), put(&b, "\1\0", 2);
  put_array(&b, "nothing", F32, 0);
  put_tensor(&b, "q", 2, dims, 8, 0);  /* Q8_0: 3 blocks of 34 bytes */
  put_tensor(&b, "v", 1, one, 0, 128); /* F32 */
  put_data(&b, 64, 128 + 20);
  return b;
}

static double number(const mt_weights *w, const char *key) {
  double v = NAN;
  return mt_gguf_number(w, key, &v) ? v : NAN;
}

static void check_scalars(const mt_weights *w) {
  uint64_t u;
  bool b;
  mt_bytes s;
  CU_ASSERT(mt_gguf_u64(w, "u8", &u) && u == 255);
  CU_ASSERT(mt_gguf_u64(w, "u16", &u) && u == 0x8001);
  CU_ASSERT(mt_gguf_u64(w, "u32", &u) && u == 0x80000001u);
  CU_ASSERT(mt_gguf_u64(w, "u64", &u) && u == UINT64_MAX);
  CU_ASSERT_FALSE(mt_gguf_u64(w, "i8", &u)); /* negative */
  CU_ASSERT_FALSE(mt_gguf_u64(w, "i64", &u));
  CU_ASSERT_FALSE(mt_gguf_u64(w, "f32", &u));
  CU_ASSERT_FALSE(mt_gguf_u64(w, "true", &u));
  CU_ASSERT_FALSE(mt_gguf_u64(w, "string", &u));
  CU_ASSERT_FALSE(mt_gguf_u64(w, "ints", &u)); /* an array */
  CU_ASSERT_FALSE(mt_gguf_u64(w, "absent", &u));
  CU_ASSERT_EQUAL(number(w, "i8"), -1);
  CU_ASSERT_EQUAL(number(w, "i16"), -32767);
  CU_ASSERT_EQUAL(number(w, "i32"), -2147483647.0);
  CU_ASSERT_EQUAL(number(w, "i64"), -0x1p63);
  CU_ASSERT_EQUAL(number(w, "u64"), 0x1p64);
  CU_ASSERT_EQUAL(number(w, "f32"), (double)0.1f);
  CU_ASSERT_EQUAL(number(w, "f64"), -1e300);
  CU_ASSERT(isnan(number(w, "true")) && isnan(number(w, "string")));
  CU_ASSERT(mt_gguf_bool(w, "true", &b) && b);
  CU_ASSERT(mt_gguf_bool(w, "false", &b) && !b);
  CU_ASSERT_FALSE(mt_gguf_bool(w, "u8", &b));
  CU_ASSERT(mt_gguf_string(w, "string", &s) && s.len == 5 &&
            !memcmp(s.ptr, "a\0\xff b", 6)); /* and the 0 after */
  CU_ASSERT_FALSE(mt_gguf_string(w, "strings", &s));
  CU_ASSERT_FALSE(mt_gguf_string(w, "u8", &s));
}

static void check_arrays(const mt_weights *w) {
  uint64_t u;
  double d;
  size_t n;
  mt_bytes s;
  CU_ASSERT(mt_gguf_array_len(w, "strings", &n) && n == 3);
  CU_ASSERT(mt_gguf_array_len(w, "nothing", &n) && n == 0);
  CU_ASSERT_FALSE(mt_gguf_array_len(w, "u8", &n));
  CU_ASSERT(mt_gguf_array_string(w, "strings", 0, &s) && s.len == 1 && !strcmp(s.ptr, "x"));
  CU_ASSERT(mt_gguf_array_string(w, "strings", 1, &s) && s.len == 0 && !strcmp(s.ptr, ""));
  CU_ASSERT(mt_gguf_array_string(w, "strings", 2, &s) && s.len == 2 && !strcmp(s.ptr, "yz"));
  CU_ASSERT_FALSE(mt_gguf_array_string(w, "strings", 3, &s));
  CU_ASSERT_FALSE(mt_gguf_array_string(w, "ints", 0, &s));
  CU_ASSERT_FALSE(mt_gguf_array_string(w, "string", 0, &s));
  CU_ASSERT(mt_gguf_array_u64(w, "ints", 0, &u) && u == 7);
  CU_ASSERT_FALSE(mt_gguf_array_u64(w, "ints", 1, &u));
  CU_ASSERT(mt_gguf_array_number(w, "ints", 1, &d) && d == -7);
  CU_ASSERT_FALSE(mt_gguf_array_number(w, "ints", 2, &d));
  CU_ASSERT_FALSE(mt_gguf_array_number(w, "ints", SIZE_MAX, &d));
  CU_ASSERT_FALSE(mt_gguf_array_number(w, "strings", 0, &d));
  CU_ASSERT(mt_gguf_array_u64(w, "bools", 0, &u) && u == 1);
  CU_ASSERT(mt_gguf_array_u64(w, "bools", 1, &u) && u == 0);
  CU_ASSERT(mt_gguf_has(w, "nothing") && !mt_gguf_has(w, "noth") && !mt_gguf_has(w, ""));
  CU_ASSERT_STRING_EQUAL(mt_gguf_key_at(w, 1), "u8");
  CU_ASSERT_PTR_NULL(mt_gguf_key_at(w, 18));
}

static void check_tensors(mt_weights *w) {
  const mt_tensor_info *q = mt_weights_find(w, "q"), *v = mt_weights_find(w, "v");
  unsigned char got[20];
  CU_ASSERT_PTR_NOT_NULL_FATAL(q);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT(q->type == MT_Q8_0 && q->bytes == 102 && q->shape.n == 2);
  CU_ASSERT(q->shape.dim[0] == 3 && q->shape.dim[1] == 32); /* turned round */
  CU_ASSERT(v->type == MT_F32 && v->bytes == 20 && v->offset % 64 == 0);
  CU_ASSERT_EQUAL(mt_weights_read(w, v, 0, 20, got, NULL), MT_OK);
  for (int i = 0; i < 20; i++) CU_ASSERT_EQUAL(got[i], 128 + i);
}

static void test_all(void) {
  for (uint32_t version = 2; version <= 3; version++) {
    mt_buf b = make_all(version), block = {0};
    mt_err e;
    mt_weights *w = expect_open(write_file("all", b.data, b.len)), *x = NULL;
    CU_ASSERT_EQUAL(mt_weights_get_kind(w), MT_WEIGHTS_GGUF);
    check_scalars(w);
    check_arrays(w);
    check_tensors(w);
    CU_ASSERT_EQUAL_FATAL(mt_weights_export(w, &block, &e), MT_OK);
    mt_weights_close(w);
    CU_ASSERT_EQUAL_FATAL(mt_weights_import(&x, block.data, block.len, &e), MT_OK);
    CU_ASSERT_EQUAL(mt_weights_bytes_read(x), 0);
    check_scalars(x);
    check_arrays(x);
    check_tensors(x);
    mt_weights_close(x);
    for (size_t n = 0; n < block.len;
         n++) { /* its own allocation, so that a sanitizer sees a read beyond it */
      char *part = malloc(n + 1);
      memcpy(part, block.data, n);
      CU_ASSERT_NOT_EQUAL(mt_weights_import(&x, part, n, &e), MT_OK);
      free(part);
    }
    mt_buf_free(&b);
    mt_buf_free(&block);
  }
}

static void test_every_prefix(void) {
  mt_buf b = make_all(3);
  for (size_t n = 0; n < b.len; n++)
    expect_refusal(write_file("prefix.gguf", b.data, n), MT_EFORMAT, "prefix.gguf: ", "prefix");
  put(&b, "more", 4); /* bytes after the last tensor are padding */
  mt_weights_close(expect_open(write_file("prefix.gguf", b.data, b.len)));
  mt_buf_free(&b);
}

/* Each byte of the header changed in turn: opened or refused, never anything else (the sanitizers
 * watch). */
static void test_every_byte(void) {
  mt_buf b = make_all(3);
  size_t refused = 0;
  for (size_t i = 0; i < b.len; i++) {
    char was = b.data[i];
    b.data[i] = (char)(was ^ 0x81);
    mt_weights *w;
    mt_err e = {0};
    if (mt_weights_open(&w, write_file("byte", b.data, b.len), &e)) {
      refused++;
      CU_ASSERT(e.msg[0] != 0);
    } else {
      mt_weights_close(w);
    }
    b.data[i] = was;
  }
  CU_ASSERT(refused > 200);
  mt_buf_free(&b);
}

static void refuse(mt_buf *b, int code, const char *words, const char *label) {
  expect_refusal(write_file("refused.gguf", b->data, b->len), code, words, label);
  mt_buf_free(b);
  *b = (mt_buf){0};
}

static void test_preamble(void) {
  mt_buf b = {0};
  put(&b, "GGML", 4), put_data(&b, 1, 60);
  refuse(&b, MT_EFORMAT, "no GGUF file", "magic");
  put_head(&b, 1, 0, 0);
  refuse(&b, MT_EUNSUPPORTED, "GGUF version 1;", "version 1");
  put_head(&b, 4, 0, 0);
  refuse(&b, MT_EUNSUPPORTED, "GGUF version 4;", "version 4");
  put_head(&b, 0, 0, 0);
  refuse(&b, MT_EUNSUPPORTED, "GGUF version 0;", "version 0");
  put_head(&b, 3u << 24, 0, 0);
  refuse(&b, MT_EUNSUPPORTED, "big-endian", "big-endian");
  put_head(&b, 3, UINT64_MAX, 0), put_data(&b, 1, 100);
  refuse(&b, MT_EFORMAT, "more than the file can hold", "tensors");
  put_head(&b, 3, 0, 1ull << 60), put_data(&b, 1, 100);
  refuse(&b, MT_EFORMAT, "more than the file can hold", "keys");
  put_head(&b, 3, 0, 0);
  mt_weights *w =
      expect_open(write_file("nothing.gguf", b.data, b.len)); /* valid: no key, no tensor */
  CU_ASSERT(mt_weights_count(w) == 0 && !mt_weights_find(w, "x") && !mt_gguf_has(w, "x"));
  mt_weights_close(w);
  mt_buf_free(&b);
}

static void test_keys(void) {
  mt_buf b = {0};
  put_head(&b, 3, 0, 2), put_key(&b, "k", U8), put(&b, "1", 1), put_key(&b, "k", U8),
      put(&b, "1", 1), put_data(&b, 32, 32);
  refuse(&b, MT_EFORMAT, "key 'k' comes twice", "twice");
  put_head(&b, 3, 0, 1), put_u64(&b, 0), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "offset 24: key of 0 bytes", "empty key");
  put_head(&b, 3, 0, 1), put_u64(&b, UINT64_MAX), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "key of 18446744073709551615 bytes", "long key");
  put_head(&b, 3, 0, 1), put_u64(&b, 3), put(&b, "a\0b", 3), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "key is no UTF-8 text", "NUL");
  put_head(&b, 3, 0, 1), put_key(&b, "\xc3", U8), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "key is no UTF-8 text", "UTF-8");
  put_head(&b, 3, 0, 1), put_key(&b, "k", 13), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "'k' has the unknown type 13", "type");
  put_head(&b, 3, 0, 1), put_array(&b, "k", 77, 1), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "'k' has the unknown type 77", "element type");
  put_head(&b, 3, 0, 1), put_array(&b, "k", ARRAY, 1), put_data(&b, 32, 64);
  refuse(&b, MT_EUNSUPPORTED, "'k' is an array of arrays", "nested");
  put_head(&b, 3, 0, 1), put_key(&b, "k", BOOL), put(&b, "\2", 1), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "'k' holds 2 as a boolean", "boolean");
  put_head(&b, 3, 0, 1), put_key(&b, "k", STRING), put_u64(&b, UINT64_MAX - 40),
      put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "string needs 18446744073709551575 bytes", "long string");
  put_head(&b, 3, 0, 1), put_array(&b, "k", STRING, 1ull << 61), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "strings in 'k', more than", "many strings");
  put_head(&b, 3, 0, 1), put_array(&b, "k", F64, 1ull << 61), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "'k' has 2305843009213693952 elements", "many numbers");
  put_head(&b, 3, 0, 1), put_key(&b, "split.count", U16), put(&b, "\3\0", 2), put_data(&b, 32, 64);
  refuse(&b, MT_EUNSUPPORTED, "one of the 3 parts", "split");
}

static void test_alignment(void) {
  static const uint32_t bad[] = {0, 3, 48, 1u << 31};
  mt_buf b = {0};
  for (size_t i = 0; i < 4; i++) {
    put_head(&b, 3, 0, 1), put_key(&b, "general.alignment", U32), put_u32(&b, bad[i]),
        put_data(&b, 32, 64);
    refuse(&b, MT_EFORMAT, "general.alignment", "alignment");
  }
  put_head(&b, 3, 0, 1), put_key(&b, "general.alignment", STRING), put_text(&b, "32"),
      put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "general.alignment", "a string");
  put_head(&b, 3, 1, 0), put_tensor(&b, "t", 1, &(uint64_t){4}, 0, 16), put_data(&b, 32, 64);
  refuse(&b, MT_EFORMAT, "tensor 't': offset 16 is no multiple of the alignment 32", "offset");
}

/* One tensor, 4096 bytes of data behind it. */
static void refuse_tensor(int n_dims, const uint64_t *dim, uint32_t type, uint64_t offset, int code,
                          const char *words) {
  mt_buf b = {0};
  put_head(&b, 3, 1, 0), put_tensor(&b, "t", n_dims, dim, type, offset), put_data(&b, 32, 4096);
  refuse(&b, code, words, words);
}

static void test_tensors(void) {
  const uint64_t d32 = 32, d33 = 33, wide[] = {32, 1ull << 40, 1ull << 40},
                 five[5] = {1, 1, 1, 1, 1};
  refuse_tensor(1, &d32, 4, 0, MT_EUNSUPPORTED, "tensor 't' has type 4 (unknown)");
  refuse_tensor(1, &d32, 9, 0, MT_EUNSUPPORTED, "tensor 't' has type 9 (Q8_1)");
  refuse_tensor(1, &d32, 21, 0, MT_EUNSUPPORTED, "tensor 't' has type 21 (IQ3_S)");
  refuse_tensor(1, &d32, 35, 0, MT_EUNSUPPORTED, "tensor 't' has type 35 (TQ2_0)");
  refuse_tensor(1, &d32, UINT32_MAX, 0, MT_EUNSUPPORTED,
                "tensor 't' has type 4294967295 (unknown)");
  refuse_tensor(5, five, 0, 0, MT_EFORMAT, "tensor 't' has 5 dimensions");
  refuse_tensor(3, wide, 0, 0, MT_EFORMAT, "tensor 't': its shape overflows");
  refuse_tensor(1, &(uint64_t){1ull << 63}, 28, 0, MT_EFORMAT, "or overflow");
  refuse_tensor(1, &(uint64_t){1ull << 61}, 0, 0, MT_EFORMAT, "beyond any file");
  refuse_tensor(1, &d33, 2, 0, MT_EFORMAT, "rows of 33 elements do not fit blocks of type Q4_0");
  refuse_tensor(1, &d32, 12, 0, MT_EFORMAT, "rows of 32 elements do not fit blocks of type Q4_K");
  refuse_tensor(0, NULL, 8, 0, MT_EFORMAT, "rows of 1 elements");
  refuse_tensor(1, &d32, 0, UINT64_MAX - 31, MT_EFORMAT, "beyond any file");
  refuse_tensor(1, &d32, 0, 4096, MT_EFORMAT, "refused.gguf: the file is 128 bytes short");
  refuse_tensor(1, &(uint64_t){1025}, 0, 0, MT_EFORMAT, "the file is 4 bytes short");
  mt_buf b = {0};
  put_head(&b, 3, 2, 0), put_tensor(&b, "t", 1, &d32, 0, 0), put_tensor(&b, "t", 1, &d32, 0, 128),
      put_data(&b, 32, 256);
  refuse(&b, MT_EFORMAT, "tensor 't' comes twice", "twice");
  put_head(&b, 3, 2, 0), put_tensor(&b, "b", 1, &d32, 0, 96), put_tensor(&b, "a", 1, &d32, 0, 0),
      put_data(&b, 32, 256);
  refuse(&b, MT_EFORMAT, "tensors 'a' and 'b' overlap", "overlap");
  put_head(&b, 3, 2, 0), put_tensor(&b, "a", 1, &d32, 0, 0), put_tensor(&b, "b", 1, &d32, 0, 192);
  put_data(&b, 32, 320); /* a hole is padding */
  mt_weights_close(expect_open(write_file("hole.gguf", b.data, b.len)));
  mt_buf_free(&b);
}

/* A scalar, an empty tensor, and a header that needs several reads. */
static void test_accepted(void) {
  mt_buf b = {0};
  put_head(&b, 3, 2, 1);
  put_array(&b, "tokens", STRING, 20000);
  for (int i = 0; i < 20000; i++) {
    char s[16];
    snprintf(s, sizeof s, "token %d", i);
    put_text(&b, s);
  }
  put_tensor(&b, "scalar", 0, NULL, 0, 0), put_tensor(&b, "empty", 2, (uint64_t[]){0, 7}, 12, 32);
  size_t header = b.len;
  put_data(&b, 32, 32 + 200000);
  mt_weights *w = expect_open(write_file("accepted.gguf", b.data, b.len));
  mt_bytes s;
  CU_ASSERT(mt_gguf_array_string(w, "tokens", 19999, &s) && !strcmp(s.ptr, "token 19999"));
  CU_ASSERT_EQUAL(mt_weights_find(w, "scalar")->bytes, 4);
  CU_ASSERT_EQUAL(mt_weights_find(w, "empty")->bytes, 0);
  CU_ASSERT(mt_weights_bytes_read(w) >= header && mt_weights_bytes_read(w) < header + 70000);
  mt_weights_close(w);
  mt_buf_free(&b);
}

MT_TEST_MAIN("gguf", {"all", test_all}, {"every prefix", test_every_prefix},
             {"every byte", test_every_byte}, {"preamble", test_preamble}, {"keys", test_keys},
             {"alignment", test_alignment}, {"tensors", test_tensors}, {"accepted", test_accepted})
