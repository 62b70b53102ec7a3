/* What the kernel tests use of CUnit, for the cross build alone: Debian has CUnit for the machine
 * that builds, not for the one that is emulated. The verdicts are those of the real one: a failed
 * assertion is printed and counted, a fatal one ends its test. */
#ifndef MT_TEST_CUNIT_BASIC_H
#define MT_TEST_CUNIT_BASIC_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { CUE_SUCCESS, CU_BRM_VERBOSE, CU_MAX_TESTS = 64 };

typedef struct cu_test {
  const char *name;
  void (*fn)(void);
} cu_test;

typedef struct cu_state {
  cu_test test[CU_MAX_TESTS];
  unsigned n_tests, tests_failed, asserts, failures;
  jmp_buf fatal;
} cu_state, *CU_pSuite;

static cu_state cu;

static inline void cu_assert(bool ok, const char *text, const char *file, int line, bool fatal) {
  cu.asserts++;
  if (ok) return;
  cu.failures++;
  if (cu.failures <= 20) printf("    %u. %s:%d  - %s\n", cu.failures, file, line, text);
  if (fatal) longjmp(cu.fatal, 1);
}

#define CU_CHECK(text, ok, fatal) cu_assert((ok), text, __FILE__, __LINE__, fatal)

#define CU_ASSERT(v)                    CU_CHECK(#v, v, false)
#define CU_ASSERT_TRUE(v)               CU_CHECK(#v, v, false)
#define CU_ASSERT_FATAL(v)              CU_CHECK(#v, v, true)
#define CU_PASS(text)                   CU_CHECK(text, true, false)
#define CU_ASSERT_FALSE(v)              CU_CHECK("not " #v, !(v), false)
#define CU_ASSERT_EQUAL(a, b)           CU_CHECK(#a " == " #b, (a) == (b), false)
#define CU_ASSERT_NOT_EQUAL(a, b)       CU_CHECK(#a " != " #b, (a) != (b), false)
#define CU_ASSERT_PTR_NOT_NULL(p)       CU_CHECK(#p " is not NULL", (p) != NULL, false)
#define CU_ASSERT_STRING_EQUAL(a, b)    CU_CHECK(#a " is " #b, !strcmp((a), (b)), false)
#define CU_ASSERT_EQUAL_FATAL(a, b)     CU_CHECK(#a " == " #b, (a) == (b), true)
#define CU_ASSERT_PTR_NOT_NULL_FATAL(p) CU_CHECK(#p " is not NULL", (p) != NULL, true)

static inline int CU_initialize_registry(void) {
  return CUE_SUCCESS;
}
static inline void CU_cleanup_registry(void) {}
static inline void CU_basic_set_mode(int mode) {
  (void)mode;
}
static inline CU_pSuite CU_add_suite(const char *name, int (*init)(void), int (*clean)(void)) {
  (void)init;
  (void)clean;
  printf("Suite: %s\n", name);
  return &cu;
}
static inline cu_test *CU_add_test(CU_pSuite s, const char *name, void (*fn)(void)) {
  if (s->n_tests == CU_MAX_TESTS) return NULL;
  s->test[s->n_tests] = (cu_test){name, fn};
  return &s->test[s->n_tests++];
}

static inline void cu_run(const cu_test *test) {
  if (!setjmp(cu.fatal)) test->fn();
}
static inline void CU_basic_run_tests(void) {
  for (unsigned i = 0; i < cu.n_tests; i++) {
    unsigned before = cu.failures;
    cu_run(&cu.test[i]);
    printf("  Test: %s ...%s\n", cu.test[i].name, cu.failures == before ? "passed" : "FAILED");
    fflush(stdout);
    cu.tests_failed += cu.failures != before;
  }
}

static inline unsigned CU_get_number_of_failures(void) {
  return cu.failures;
}
static inline unsigned CU_get_number_of_asserts(void) {
  return cu.asserts;
}
static inline unsigned CU_get_number_of_tests_failed(void) {
  return cu.tests_failed;
}
static inline unsigned CU_get_number_of_tests_run(void) {
  return cu.n_tests;
}

#endif
