/* Error codes, messages, exit statuses. */
#include "mt_test.h"
#include "mutirao/base.h"

static const int all_codes[] = {MT_OK,      MT_EINVAL,       MT_ENOMEM,    MT_EIO,
                                MT_EFORMAT, MT_EUNSUPPORTED, MT_ERANGE,    MT_ENUMERIC,
                                MT_EPEER,   MT_ELIMIT,       MT_ECANCELED, MT_ESYSTEM};
enum { N_CODES = sizeof all_codes / sizeof all_codes[0] };

static void test_names(void) {
  for (int i = 0; i < N_CODES; i++) {
    CU_ASSERT_FATAL(mt_err_name(all_codes[i]) != NULL);
    CU_ASSERT(strcmp(mt_err_name(all_codes[i]), mt_err_name(-9999)) != 0);
    for (int j = 0; j < i; j++)
      CU_ASSERT(strcmp(mt_err_name(all_codes[i]), mt_err_name(all_codes[j])) != 0);
  }
  CU_ASSERT(mt_err_name(12345) != NULL);
}

static void test_set(void) {
  mt_err e = {0};
  CU_ASSERT(mt_err_set(NULL, MT_EIO, "%s", "x") == MT_EIO);
  CU_ASSERT(mt_err_set(&e, MT_EFORMAT, "%s: byte %d", "a.gguf", 7) == MT_EFORMAT);
  CU_ASSERT(e.code == MT_EFORMAT);
  CU_ASSERT_STRING_EQUAL(e.msg, "a.gguf: byte 7");
  mt_err_set(&e, MT_EIO, "two\nlines\tand\x01more");
  CU_ASSERT_STRING_EQUAL(e.msg, "two lines and more");
  char big[5000];
  memset(big, 'x', sizeof big - 1);
  big[sizeof big - 1] = 0;
  mt_err_set(&e, MT_EIO, "%s", big);
  CU_ASSERT(strlen(e.msg) == sizeof e.msg - 1);
}

static void test_prefix(void) {
  mt_err e = {0};
  CU_ASSERT(mt_err_prefix(NULL, MT_EIO, "here") == MT_EIO);
  mt_err_set(&e, MT_ENOMEM, "no memory");
  CU_ASSERT(mt_err_prefix(&e, MT_EIO, "rank %d", 3) == MT_ENOMEM);
  CU_ASSERT(e.code == MT_ENOMEM);
  CU_ASSERT_STRING_EQUAL(e.msg, "rank 3: no memory");
  mt_err none = {0};
  CU_ASSERT(mt_err_prefix(&none, MT_EPEER, "rank 1") == MT_EPEER);
  CU_ASSERT(strstr(none.msg, mt_err_name(MT_EPEER)) != NULL);
  char big[2000];
  memset(big, 'y', sizeof big - 1);
  big[sizeof big - 1] = 0;
  mt_err_set(&e, MT_EIO, "the end matters: %s", big);
  mt_err_prefix(&e, MT_EIO, "%s", big);
  CU_ASSERT(strlen(e.msg) < sizeof e.msg);
  CU_ASSERT(strstr(e.msg, ": the end matters") != NULL);
}

static void test_exit_status(void) {
  CU_ASSERT(mt_err_exit_status(MT_OK) == 0);
  CU_ASSERT(mt_err_exit_status(MT_EINVAL) == 2);
  CU_ASSERT(mt_err_exit_status(MT_EFORMAT) == 3);
  CU_ASSERT(mt_err_exit_status(MT_EUNSUPPORTED) == 3);
  CU_ASSERT(mt_err_exit_status(MT_EIO) == 3);
  const int failed[] = {MT_ENOMEM, MT_ERANGE,    MT_ENUMERIC, MT_EPEER,
                        MT_ELIMIT, MT_ECANCELED, MT_ESYSTEM};
  for (size_t i = 0; i < sizeof failed / sizeof failed[0]; i++)
    CU_ASSERT(mt_err_exit_status(failed[i]) == 1);
}

MT_TEST_MAIN("base: errors", {"names", test_names}, {"set", test_set}, {"prefix", test_prefix},
             {"exit status", test_exit_status})
