/* The quantum's exponent against exact arithmetic on every exponent and on the borders of each. */
#include <limits.h>

#include "mt_test.h"
#include "mutirao/reduce.h"

static float bits_to_float(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Largest e with (2^e)^2 <= x, in double, which holds all these powers. */
static int oracle(float x) {
  int e = 70;
  double square = 0x1p140;
  while (square > (double)x) {
    square /= 4;
    e--;
  }
  return e - 32;
}

static void check(uint32_t bits) {
  float x = bits_to_float(bits);
  int got = mt_reduce_quantum_exp(x);
  if (got != oracle(x)) printf("\n%a: %d, not %d\n", (double)x, got, oracle(x));
  CU_ASSERT_EQUAL(got, oracle(x));
}

static void test_borders(void) {
  for (uint32_t field = 1; field < 255; field++)
    for (uint32_t mantissa = 0; mantissa < 4; mantissa++) {
      check(field << 23 | mantissa);
      check(field << 23 | (0x7fffff - mantissa));
      check(field << 23 | (0x3504f3 + mantissa)); /* about sqrt 2 */
    }
}

static void test_subnormal(void) {
  for (int b = 0; b < 23; b++)
    for (uint32_t low = 0; low < 3; low++) {
      check((1u << b) + low);
      check((2u << b) - 1);
    }
}

static void test_random(void) {
  unsigned long long seed = mt_test_seed();
  for (uint32_t i = 0; i < 20000; i++) {
    uint32_t bits = 1 + (uint32_t)(mt_uniform(seed, 0, i, 0) * 0x7f7ffffe);
    check(bits);
  }
}

static void test_examples(void) {
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(1), -32);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(3.999f), -32);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(4), -31);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(0.999999f), -33);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(0), -158);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(-0.0f), -158);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(bits_to_float(0x7f800000)), INT_MIN);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(bits_to_float(0xff800000)), INT_MIN);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(bits_to_float(0x7fc00000)), INT_MIN);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(bits_to_float(0xffc00001)), INT_MIN);
  CU_ASSERT_EQUAL(mt_reduce_quantum_exp(-1), INT_MIN);
}

MT_TEST_MAIN("quantum", {"borders", test_borders}, {"subnormal", test_subnormal},
             {"random", test_random}, {"examples", test_examples})
