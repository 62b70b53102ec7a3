/* Element types and shapes. */
#include "mt_test.h"
#include "mutirao/tensor.h"

static void test_table(void) {
  for (int t = 0; t < MT_DTYPE_COUNT; t++) {
    const mt_dtype_info *i = mt_dtype_get((mt_dtype)t);
    CU_ASSERT_PTR_NOT_NULL_FATAL(i->name);
    CU_ASSERT_EQUAL(mt_dtype_by_name(i->name), t);
    CU_ASSERT(i->block_elems >= 1 && i->block_bytes >= 1);
    CU_ASSERT_EQUAL(i->quantized, i->block_elems > 1);
    CU_ASSERT(!i->quantized || i->weight);
  }
  CU_ASSERT_EQUAL(mt_dtype_by_name("q4_k"), MT_Q4_K);
  CU_ASSERT_EQUAL(mt_dtype_by_name("bf16"), MT_BF16);
  CU_ASSERT_EQUAL(mt_dtype_by_name("Q4_K "), MT_DTYPE_COUNT);
  CU_ASSERT_EQUAL(mt_dtype_by_name(""), MT_DTYPE_COUNT);
  CU_ASSERT_EQUAL(mt_dtype_row_bytes(MT_Q6_K, 512), 420);
  CU_ASSERT_EQUAL(mt_dtype_row_bytes(MT_F16, 7), 14);
}

static void test_shapes(void) {
  uint64_t n = 5;
  mt_shape scalar = {0}, m = {2, {3, 64}}, odd = {2, {3, 65}}, empty = {2, {0, 64}};
  mt_shape huge = {3, {1ull << 32, 1ull << 31, 4}}, wide = {2, {1ull << 32, 1ull << 31}};
  CU_ASSERT(mt_shape_elems(&scalar, &n) && n == 1);
  CU_ASSERT(mt_shape_elems(&m, &n) && n == 192);
  CU_ASSERT(mt_shape_bytes(MT_F32, &m, &n) && n == 768);
  CU_ASSERT(mt_shape_bytes(MT_Q8_0, &m, &n) && n == 204);
  CU_ASSERT(mt_shape_bytes(MT_F64, &scalar, &n) && n == 8);
  CU_ASSERT(mt_shape_bytes(MT_Q8_0, &empty, &n) && n == 0);
  CU_ASSERT_FALSE(mt_shape_bytes(MT_Q8_0, &odd, &n));
  CU_ASSERT_FALSE(mt_shape_bytes(MT_Q4_0, &scalar, &n));
  CU_ASSERT_FALSE(mt_shape_elems(&huge, &n));
  CU_ASSERT(mt_shape_elems(&wide, &n) && n == 1ull << 63);
  CU_ASSERT_FALSE(mt_shape_bytes(MT_F32, &wide, &n));
}

MT_TEST_MAIN("tensor", {"table", test_table}, {"shapes", test_shapes})
