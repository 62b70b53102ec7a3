/* What every CUnit program shares: MT_TEST_MAIN lists the tests; each program is its own process,
 * run with a deadline by tests/run. Prints CUnit's summary; exit status 0 only if every assertion
 * held and at least one ran. */
#ifndef MT_TEST_H
#define MT_TEST_H

#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mt_test {
  const char *name;
  void (*fn)(void);
} mt_test;

/* Root of the repository, for data files: MUTIRAO_ROOT, or the current directory. */
static inline const char *mt_test_root(void) {
  const char *r = getenv("MUTIRAO_ROOT");
  return r ? r : ".";
}

/* Seed of random tests: MUTIRAO_SEED or a fixed one; printed, so that a failure can be repeated. */
static inline unsigned long long mt_test_seed(void) {
  const char *s = getenv("MUTIRAO_SEED");
  unsigned long long seed = s ? strtoull(s, NULL, 0) : 20261130ull;
  printf("seed %llu\n", seed);
  return seed;
}

static inline int mt_test_run(const char *suite, const mt_test *tests, size_t n) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  CU_pSuite s = CU_add_suite(suite, NULL, NULL);
  for (size_t i = 0; i < n; i++)
    if (!s || !CU_add_test(s, tests[i].name, tests[i].fn)) return 2;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failed = CU_get_number_of_failures(), asserts = CU_get_number_of_asserts();
  unsigned bad_tests = CU_get_number_of_tests_failed(), ran = CU_get_number_of_tests_run();
  CU_cleanup_registry();
  printf("result: %u passed, %u failed\n", ran - bad_tests, bad_tests);
  return failed || !asserts ? 1 : 0;
}

#define MT_TEST_MAIN(suite, ...)                                      \
  int main(void) {                                                    \
    const mt_test tests[] = {__VA_ARGS__};                            \
    return mt_test_run(suite, tests, sizeof tests / sizeof tests[0]); \
  }

#endif
