/* safetensors: what is read, and every kind of file that must be refused. */
#include <pthread.h>
#include <stdint.h>

#include "files.h"

/* Length, header text, n bytes of data (0, 1, 2 …). */
static const char *make(const char *name, const char *header, size_t data_bytes) {
  mt_buf b = {0};
  uint64_t n = strlen(header);
  mt_buf_append(&b, &n, 8);
  mt_buf_puts(&b, header);
  for (size_t i = 0; i < data_bytes; i++) mt_buf_putc(&b, (char)i);
  const char *path = write_file(name, b.data, b.len);
  mt_buf_free(&b);
  return path;
}

#define TWO                                                            \
  "{\"__metadata__\":{\"format\":\"pt\"},"                             \
  "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}," \
  "\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]}}"

static void test_two(void) {
  mt_weights *w = expect_open(make("two", TWO, 32));
  mt_err e;
  unsigned char got[32];
  CU_ASSERT_EQUAL(mt_weights_get_kind(w), MT_WEIGHTS_SAFETENSORS);
  CU_ASSERT_EQUAL(mt_weights_count(w), 2);
  CU_ASSERT_STRING_EQUAL(mt_weights_at(w, 0)->name, "b"); /* in the order of the header */
  CU_ASSERT_PTR_NULL(mt_weights_at(w, 2));
  const mt_tensor_info *a = mt_weights_find(w, "a"), *b = mt_weights_find(w, "b");
  CU_ASSERT_PTR_NULL(mt_weights_find(w, "c"));
  CU_ASSERT_PTR_NULL(mt_weights_find(w, "__metadata__"));
  CU_ASSERT_EQUAL(a->type, MT_BF16);
  CU_ASSERT_EQUAL(a->bytes, 8);
  CU_ASSERT_EQUAL(b->shape.n, 2);
  CU_ASSERT_EQUAL(b->shape.dim[0], 2);
  CU_ASSERT_EQUAL(b->shape.dim[1], 3);
  uint64_t header = mt_weights_bytes_read(w);
  CU_ASSERT_EQUAL(mt_weights_read(w, a, 3, 5, got, &e), MT_OK);
  for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(got[i], 24 + 3 + i);
  CU_ASSERT_EQUAL(mt_weights_bytes_read(w), header + 5);
  CU_ASSERT_EQUAL(mt_weights_read(w, b, 24, 0, got, &e), MT_OK);
  CU_ASSERT_EQUAL(mt_weights_read(w, b, 24, 1, got, &e), MT_EINVAL);
  CU_ASSERT_EQUAL(mt_weights_read(w, b, 25, 0, got, &e), MT_EINVAL);
  CU_ASSERT_EQUAL(mt_weights_read(w, b, UINT64_MAX, 2, got, &e), MT_EINVAL);
  CU_ASSERT_EQUAL(mt_weights_read(w, b, 1, SIZE_MAX, got, &e), MT_EINVAL);
  CU_ASSERT_EQUAL(mt_weights_file_bytes(w), 8 + strlen(TWO) + 32);
  CU_ASSERT_PTR_NULL(mt_weights_file_name(w, 1));
  CU_ASSERT_PTR_NULL(mt_weights_file_name(w, -1));
  uint64_t v;
  CU_ASSERT_FALSE(mt_gguf_u64(w, "format", &v)); /* metadata keys are GGUF's alone */
  CU_ASSERT_PTR_NULL(mt_gguf_key_at(w, 0));
  mt_weights_close(w);
}

#define T(dtype, shape, offsets) \
  "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

/* Headers that are well-formed though unusual. */
static void test_accepted(void) {
  static const struct {
    const char *label, *header;
    size_t data;
  } table[] = {
      {"no tensor", "{}", 0},
      {"no tensor, padded", "{}      ", 0},
      {"scalar", T("F64", "[]", "[0,8]"), 8},
      {"empty dimension", T("F16", "[0,7]", "[0,0]"), 0},
      {"huge but empty", T("F16", "[0,9223372036854775807]", "[0,0]"), 0},
      {"integers", T("I64", "[1,1,1,2]", "[0,16]"), 16},
      {"unknown member", "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":0}}",
       1},
      {"empty ones between",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
       "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
       "\"y\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
       3},
      {"odd name",
       "{\"\\u00e7 \\n/../\\\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    mt_weights_close(expect_open(make("accepted", table[i].header, table[i].data)));
  mt_weights *w = expect_open(make("odd", table[8].header, 1));
  CU_ASSERT_PTR_NOT_NULL(mt_weights_find(w, "\u00e7 \n/../\""));
  mt_weights_close(w);
}

static void test_refused(void) {
  static const struct {
    const char *label, *header;
    size_t data;
    int code;
    const char *words;
  } table[] = {
      {"not JSON", "{\"t\":", 0, MT_EFORMAT, "refused:1:"},
      {"empty", "", 0, MT_EFORMAT, "refused:"},
      {"NUL bytes after", "{}\x01", 0, MT_EFORMAT, "refused:1:"},
      {"two values", "{} {}", 0, MT_EFORMAT, "refused:1:"},
      {"an array", "[]", 0, MT_EFORMAT, "no JSON object"},
      {"bad UTF-8", "{\"\xff\":1}", 0, MT_EFORMAT, "byte 0xff"},
      {"a NUL in a name", "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
       1, MT_EFORMAT, "NUL"},
      {"no name", "{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, MT_EFORMAT,
       "without a name"},
      {"twice",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
       "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
       2, MT_EFORMAT, "duplicate"},
      {"entry is a number", "{\"t\":3}", 0, MT_EFORMAT, "'t': no dtype"},
      {"metadata is an array", "{\"__metadata__\":[]}", 0, MT_EFORMAT, "__metadata__"},
      {"metadata holds a number", "{\"__metadata__\":{\"n\":1}}", 0, MT_EFORMAT, "'n'"},
      {"no dtype", "{\"t\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, MT_EFORMAT,
       "'t': no dtype"},
      {"8-bit float", T("F8_E4M3", "[1]", "[0,1]"), 1, MT_EUNSUPPORTED, "'t': dtype 'F8_E4M3'"},
      {"a block type", T("Q4_0", "[32]", "[0,18]"), 18, MT_EUNSUPPORTED, "'Q4_0'"},
      {"lower case", T("f32", "[1]", "[0,4]"), 4, MT_EUNSUPPORTED, "'f32'"},
      {"no shape", "{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, MT_EFORMAT, "no shape"},
      {"shape is an object", T("U8", "{\"n\":1}", "[0,1]"), 1, MT_EFORMAT, "no shape"},
      {"5 dimensions", T("U8", "[1,1,1,1,1]", "[0,1]"), 1, MT_EUNSUPPORTED, "5 dimensions"},
      {"negative", T("U8", "[-1,-1]", "[0,1]"), 1, MT_EFORMAT, "dimension 0"},
      {"real", T("U8", "[1,1.0]", "[0,1]"), 1, MT_EFORMAT, "dimension 1"},
      {"text", T("U8", "[\"1\"]", "[0,1]"), 1, MT_EFORMAT, "dimension 0"},
      {"product overflows", T("U8", "[4294967296,4294967296]", "[0,0]"), 0, MT_EFORMAT,
       "overflows"},
      {"bytes overflow", T("F64", "[2305843009213693952]", "[0,0]"), 0, MT_EFORMAT, "overflows"},
      {"a dimension beyond 64 bits", T("U8", "[99999999999999999999]", "[0,1]"), 1, MT_EFORMAT,
       "dimension 0 is no count"},
      {"no offsets", "{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, MT_EFORMAT, "data_offsets"},
      {"one offset", T("U8", "[1]", "[0]"), 1, MT_EFORMAT, "data_offsets"},
      {"three offsets", T("U8", "[1]", "[0,1,2]"), 1, MT_EFORMAT, "data_offsets"},
      {"backwards", T("U8", "[1]", "[1,0]"), 1, MT_EFORMAT, "ascending"},
      {"negative offset", T("U8", "[1]", "[-1,0]"), 1, MT_EFORMAT, "data_offsets"},
      {"too few bytes", T("F32", "[2]", "[0,7]"), 8, MT_EFORMAT, "7 bytes by its data_offsets, 8"},
      {"shorter than it says", T("U8", "[1000]", "[0,1000]"), 10, MT_EFORMAT,
       "refused: the file is 990 bytes short"},
      {"an absurd offset", T("U8", "[9223372036854775807]", "[0,9223372036854775807]"), 1,
       MT_EFORMAT, "bytes short"},
      {"a far offset", T("U8", "[1]", "[9223372036854775806,9223372036854775807]"), 1, MT_EFORMAT,
       "bytes short"},
      {"trailing bytes", T("U8", "[1]", "[0,1]"), 4, MT_EFORMAT, "3 bytes after the last tensor"},
      {"data without a tensor", "{}", 1, MT_EFORMAT, "1 bytes after"},
      {"hole at the start", T("U8", "[1]", "[2,3]"), 3, MT_EFORMAT, "2 bytes before tensor 't'"},
      {"hole",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
       3, MT_EFORMAT, "before tensor 'b'"},
      {"overlap",
       "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
       "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
       3, MT_EFORMAT, "'a' and 'b' overlap"},
      {"the same place",
       "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
       "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
       2, MT_EFORMAT, "overlap"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    expect_refusal(make("refused", table[i].header, table[i].data), table[i].code, table[i].words,
                   table[i].label);
}

/* Lengths of the header that no file can hold, and one that a sparse file could. */
static void test_header_length(void) {
  static const uint64_t length[] = {1ull << 63, UINT64_MAX, UINT64_MAX - 7,
                                    1ull << 62, 1u << 31,   17};
  for (size_t i = 0; i < sizeof length / sizeof length[0]; i++) {
    unsigned char b[24] = {0};
    memcpy(b, &length[i], 8);
    expect_refusal(write_file("length", b, sizeof b), MT_EFORMAT, "offset 0: header of", "length");
  }
  uint64_t big = 100000001;
  const char *path = write_file("sparse", &big, 8);
  CU_ASSERT_EQUAL_FATAL(truncate(path, 100000009), 0);
  expect_refusal(path, MT_EFORMAT, "the limit is 100000000", "sparse");
  expect_refusal(write_file("empty", "", 0), MT_EFORMAT, "0 bytes are no", "empty file");
}

static void test_every_prefix(void) {
  mt_buf b = {0};
  mt_err e;
  CU_ASSERT_EQUAL_FATAL(mt_buf_read_file(&b, make("whole", TWO, 32), 4096, &e), MT_OK);
  for (size_t n = 0; n < b.len; n++)
    expect_refusal(write_file("prefix", b.data, n), MT_EFORMAT, "prefix: ", "prefix");
  mt_weights_close(expect_open(write_file("prefix", b.data, b.len)));
  mt_buf_free(&b);
}

static void test_no_regular_file(void) {
  const char *fifo = scratch("fifo");
  CU_ASSERT_EQUAL_FATAL(mkfifo(fifo, 0600), 0);
  expect_refusal(fifo, MT_EIO, "not a regular file", "FIFO"); /* and does not wait for a writer */
  expect_refusal(scratch("absent"), MT_EIO, "absent: No such file", "absent");
  expect_refusal(scratch(""), MT_EFORMAT, "neither model.safetensors nor",
                 "directory without a model");
}

static void test_truncated_later(void) {
  const char *path = make("later", TWO, 32);
  mt_weights *w = expect_open(path), *again = NULL;
  mt_buf block = {0};
  mt_err e;
  unsigned char got[24];
  CU_ASSERT_EQUAL_FATAL(mt_weights_export(w, &block, &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(truncate(path, (off_t)(8 + strlen(TWO) + 10)), 0);
  CU_ASSERT_EQUAL(mt_weights_read(w, mt_weights_find(w, "b"), 0, 24, got, &e), MT_EIO);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, "14 bytes short"));
  CU_ASSERT_EQUAL(mt_weights_import(&again, block.data, block.len, &e), MT_EIO);
  CU_ASSERT_PTR_NULL(again);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, "later: "));
  mt_buf_free(&block);
  mt_weights_close(w);
}

/* Import gives the same table, reads nothing, and refuses every damaged block. */
static void test_import(void) {
  mt_weights *w = expect_open(make("import", TWO, 32)), *x = NULL;
  mt_buf block = {0}, second = {0};
  mt_err e;
  CU_ASSERT_EQUAL_FATAL(mt_weights_export(w, &block, &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_weights_import(&x, block.data, block.len, &e), MT_OK);
  CU_ASSERT_EQUAL(mt_weights_bytes_read(x), 0);
  CU_ASSERT_EQUAL(mt_weights_count(x), 2);
  CU_ASSERT_EQUAL(mt_weights_find(x, "a")->offset, mt_weights_find(w, "a")->offset);
  CU_ASSERT_EQUAL(mt_weights_export(x, &second, &e), MT_OK);
  CU_ASSERT(second.len == block.len && !memcmp(second.data, block.data, block.len));
  mt_weights_close(x);
  for (size_t n = 0; n <= block.len; n++) {
    char *part = malloc(n + 1); /* its own allocation, so that a sanitizer sees a read beyond it */
    memcpy(part, block.data, n);
    if (n == block.len) part[n++] = 0;
    CU_ASSERT_NOT_EQUAL(mt_weights_import(&x, part, n, &e), MT_OK);
    free(part);
    if (n > block.len) break;
  }
  mt_buf_free(&block);
  mt_buf_free(&second);
  mt_weights_close(w);
}

typedef struct job {
  mt_weights *w;
  int bad;
} job;

static void *read_bytes(void *arg) {
  job *j = arg;
  unsigned char got[16];
  for (int i = 0; i < 500; i++) {
    uint64_t at = (uint64_t)(i % 8);
    if (mt_weights_read(j->w, mt_weights_find(j->w, "b"), at, 16, got, NULL) || got[3] != at + 3)
      j->bad++;
  }
  return NULL;
}

static void test_threads(void) {
  mt_weights *w = expect_open(make("threads", TWO, 32));
  uint64_t before = mt_weights_bytes_read(w);
  pthread_t thread[4];
  job jobs[4];
  for (int i = 0; i < 4; i++) {
    jobs[i].w = w;
    jobs[i].bad = 0;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, read_bytes, &jobs[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    CU_ASSERT_EQUAL(jobs[i].bad, 0);
  }
  CU_ASSERT_EQUAL(mt_weights_bytes_read(w) - before, 4 * 500 * 16);
  mt_weights_close(w);
}

MT_TEST_MAIN("safetensors", {"two tensors", test_two}, {"accepted", test_accepted},
             {"refused", test_refused}, {"header length", test_header_length},
             {"every prefix", test_every_prefix}, {"no regular file", test_no_regular_file},
             {"truncated later", test_truncated_later}, {"import", test_import},
             {"threads", test_threads})
