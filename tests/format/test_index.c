/* Checkpoints in several files. */
#include <stdint.h>

#include "files.h"

#define SHARD(names) "{" names "}"
#define ENTRY(name, begin, end) \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #begin "," #end "]}"

static void make(const char *file, const char *header, size_t data) {
  mt_buf b = {0};
  uint64_t n = strlen(header);
  mt_buf_append(&b, &n, 8);
  mt_buf_puts(&b, header);
  for (size_t i = 0; i < data; i++) mt_buf_putc(&b, (char)(*file + (int)i));
  write_file(file, b.data, b.len);
  mt_buf_free(&b);
}

/* Two shards, one holding x and y, two holding z, and an index with this weight_map. */
static void make_model(const char *weight_map) {
  mt_buf b = {0};
  make("one.safetensors", SHARD(ENTRY("x", 0, 4) "," ENTRY("y", 4, 8)), 8);
  make("two.safetensors", SHARD(ENTRY("z", 0, 4)), 4);
  mt_buf_printf(&b, "{\"metadata\":{\"total_size\":12},\"weight_map\":%s}", weight_map);
  write_file("model.safetensors.index.json", b.data, b.len);
  mt_buf_free(&b);
}

#define MAP "{\"x\":\"one.safetensors\",\"z\":\"two.safetensors\",\"y\":\"one.safetensors\"}"

static void test_whole(void) {
  make_model(MAP);
  make("model.safetensors", SHARD(ENTRY("other", 0, 4)), 4); /* the index goes first */
  mt_weights *w = expect_open(scratch("")), *x = NULL;
  mt_err e;
  char got[4];
  CU_ASSERT_EQUAL(mt_weights_count(w), 3);
  const mt_tensor_info *z = mt_weights_find(w, "z");
  CU_ASSERT_PTR_NOT_NULL_FATAL(z);
  CU_ASSERT_PTR_NOT_NULL(strstr(mt_weights_file_name(w, z->file), "/two.safetensors"));
  CU_ASSERT_EQUAL(mt_weights_read(w, z, 0, 4, got, &e), MT_OK);
  CU_ASSERT_EQUAL(got[0], 't');
  mt_buf block = {0};
  CU_ASSERT_EQUAL_FATAL(mt_weights_export(w, &block, &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_weights_import(&x, block.data, block.len, &e), MT_OK);
  CU_ASSERT_EQUAL(mt_weights_count(x), 3);
  CU_ASSERT_EQUAL(mt_weights_read(x, mt_weights_find(x, "y"), 1, 2, got, &e), MT_OK);
  CU_ASSERT_EQUAL(got[0], 'o' + 5);
  mt_buf_free(&block);
  mt_weights_close(x);
  mt_weights_close(w);
  unlink(scratch("model.safetensors"));
}

static void test_missing_shards(void) {
  make_model(
      "{\"x\":\"one.safetensors\",\"p\":\"p.safetensors\",\"q\":\"p.safetensors\",\"r\":\"r."
      "safetensors\"}");
  expect_refusal(scratch(""), MT_EFORMAT,
                 "2 of 3 files that the index names are missing: p.safetensors, r.safetensors",
                 "missing");
  mt_buf b = {0};
  for (int i = 0; i < 200; i++)
    mt_buf_printf(&b, "%c\"t%d\":\"model-%05d-of-00200.safetensors\"", i ? ',' : '{', i, i);
  mt_buf_putc(&b, '}');
  make_model(b.data);
  expect_refusal(scratch(""), MT_EFORMAT, "200 of 200", "all are missing");
  expect_refusal(scratch(""), MT_EFORMAT, " more", "all are missing");
  mt_buf_free(&b);
}

static void test_refused(void) {
  static const struct {
    const char *label, *map, *words;
  } table[] = {
      {"a tensor that the shard lacks",
       "{\"x\":\"one.safetensors\",\"y\":\"one.safetensors\",\"z\":\"two.safetensors\",\"n\":\"two."
       "safetensors\"}",
       "tensor 'n' is not in two.safetensors but nowhere"},
      {"a tensor in another shard",
       "{\"x\":\"two.safetensors\",\"y\":\"one.safetensors\",\"z\":\"two.safetensors\"}",
       "tensor 'x' is not in two.safetensors but in one.safetensors"},
      {"a tensor that the index lacks", "{\"x\":\"one.safetensors\",\"z\":\"two.safetensors\"}",
       "tensor 'y' of "},
      {"a path upwards", "{\"x\":\"../one.safetensors\"}", "names no plain file: '../one"},
      {"a path", "{\"x\":\"/etc/passwd\"}", "names no plain file"},
      {"dots", "{\"x\":\"..\"}", "names no plain file"},
      {"dot", "{\"x\":\".\"}", "names no plain file"},
      {"no name", "{\"x\":\"\"}", "names no plain file"},
      {"a NUL", "{\"x\":\"one.safetensors\\u0000\"}", "names no plain file"},
      {"a number", "{\"x\":1}", "names no plain file: '(not a string)'"},
      {"empty", "{}", "no weight_map"},
      {"an array", "[]", "no weight_map"},
      {"twice", "{\"x\":\"one.safetensors\",\"x\":\"one.safetensors\"}", "duplicate"},
      {"no JSON", "{", "index.json:1:"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    make_model(table[i].map);
    expect_refusal(scratch(""), MT_EFORMAT, table[i].words, table[i].label);
  }
  write_file("model.safetensors.index.json", "", 0);
  expect_refusal(scratch(""), MT_EFORMAT, "index.json:", "empty index");
}

static void test_shards(void) {
  make_model(MAP);
  make("two.safetensors", SHARD(ENTRY("z", 0, 4) "," ENTRY("x", 4, 8)), 8);
  expect_refusal(scratch(""), MT_EFORMAT, "tensor 'x' comes twice: in ", "in two shards");
  make("two.safetensors", SHARD(ENTRY("z", 0, 4)), 1);
  expect_refusal(scratch(""), MT_EFORMAT, "two.safetensors: the file is 3 bytes short",
                 "short shard");
  unlink(scratch("two.safetensors"));
  CU_ASSERT_EQUAL(mkdir(scratch("two.safetensors"), 0700), 0);
  expect_refusal(scratch(""), MT_EIO, "two.safetensors: not a regular file", "a directory");
}

MT_TEST_MAIN("index", {"whole", test_whole}, {"missing shards", test_missing_shards},
             {"refused", test_refused}, {"shards", test_shards})
