/* What the bytes of a file mean: golden blocks of tests/data/quant_blocks.json, made as
 * docs/kernels.md says. */
#include "kernel_test.h"
#include "mutirao/json.h"

static size_t from_hex(const char *hex, uint8_t *out) {
  size_t n = strlen(hex) / 2;
  for (size_t i = 0; i < n; i++) {
    unsigned v = 0;
    sscanf(hex + 2 * i, "%2x", &v);
    out[i] = (uint8_t)v;
  }
  return n;
}

static void check_block(mt_dtype type, const mt_json *block) {
  uint8_t raw[512];
  float got[256];
  const mt_json *values = mt_json_get(block, "values");
  const char *hex = mt_json_string(mt_json_get(block, "raw_hex"), NULL);
  const mt_dtype_info *t = mt_dtype_get(type);
  CU_ASSERT_PTR_NOT_NULL_FATAL(hex);
  CU_ASSERT_EQUAL_FATAL(from_hex(hex, raw), t->block_bytes);
  CU_ASSERT_EQUAL_FATAL(mt_json_len(values), t->block_elems);
  mt_dequantize(type, raw, t->block_elems, got);
  for (size_t i = 0; i < t->block_elems; i++) {
    double want;
    CU_ASSERT(mt_json_number(mt_json_at(values, i), &want));
    CU_ASSERT_EQUAL(got[i], (float)want);
  }
}

static void test_golden(void) {
  char path[1000];
  mt_err e = {0};
  mt_json *root = NULL;
  size_t n_types = 0;
  snprintf(path, sizeof path, "%s/tests/data/quant_blocks.json", mt_test_root());
  CU_ASSERT_EQUAL_FATAL(mt_json_read_file(&root, path, 1 << 20, &e), 0);
  for (const mt_json_member *m = mt_json_first(root); m; m = mt_json_next(root, m)) {
    mt_dtype type = mt_dtype_by_name(mt_json_member_key(m));
    const mt_json *blocks = mt_json_get(mt_json_member_value(m), "blocks");
    if (type == MT_DTYPE_COUNT || !mt_dtype_get(type)->weight) continue;
    n_types++;
    CU_ASSERT(mt_json_len(blocks) >= 3);
    for (size_t i = 0; i < mt_json_len(blocks); i++) check_block(type, mt_json_at(blocks, i));
  }
  CU_ASSERT_EQUAL(n_types, 13);
  mt_json_free(root);
}

MT_TEST_MAIN("kernel golden blocks", {"golden blocks", test_golden})
