/* The loops that `bench` times: each table has its own, they count what they do, and reading stays
 * inside its buffer. How fast they are is nobody's promise. */
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mt_test.h"
#include "mutirao/kernel.h"

static void test_counts(void) {
  for (const char *const *name = mt_kernels_names(); *name; name++) {
    const mt_kernels *kn = NULL;
    CU_ASSERT_EQUAL_FATAL(mt_kernels_get(*name, &kn, NULL), 0);
    uint64_t fma = mt_kernels_run_fma(kn, 1), dot = mt_kernels_run_dot(kn, 1);
    CU_ASSERT_TRUE(fma > 0 && dot > 0);
    CU_ASSERT_EQUAL(mt_kernels_run_fma(kn, 1000), 1000 * fma);
    CU_ASSERT_EQUAL(mt_kernels_run_dot(kn, 1000), 1000 * dot);
    CU_ASSERT_EQUAL(mt_kernels_run_fma(kn, 0), 0);
  }
  const mt_kernels *kn = NULL, *ref = NULL, *blas = NULL;
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get(NULL, &kn, NULL), 0);
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get("ref", &ref, NULL), 0);
  if (!mt_kernels_openblas(ref, &blas, NULL)) /* what is not OpenBLAS's is of the table given */
    CU_ASSERT_EQUAL(mt_kernels_run_dot(blas, 7), mt_kernels_run_dot(ref, 7));
  if (!mt_kernels_openblas(kn, &blas, NULL)) CU_ASSERT_TRUE(mt_kernels_run_fma(blas, 1) > 0);
}

/* Which core type the environment or the library chose is not ours to say here (tests/cmd/score.sh
 * chooses): the one that fits must never be found wanting, and the rates are there. */
static void test_openblas(void) {
  mt_blas_core c;
  bool fits = mt_kernels_judge_openblas(&c);
  if (!c.name[0]) { /* elsewhere than on x86-64, or a library that does not name its core */
    CU_ASSERT_TRUE(fits);
    return;
  }
  CU_ASSERT_TRUE(c.better[0] && c.sgemm_per_s > 0 && c.fma_per_s > 0);
  if (!strcasecmp(c.name, c.better)) CU_ASSERT_TRUE(fits);
  if (!strcasecmp(c.name, "Prescott")) CU_ASSERT_FALSE(fits);
  printf("OpenBLAS: %s, %.0f of %.0f GFLOP/s\n", c.name, c.sgemm_per_s * 1e-9, c.fma_per_s * 1e-9);
}

/* A page that may not be read lies behind the bytes, and one before them. */
static void test_read_bounds(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *p = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CU_ASSERT_FATAL(p != MAP_FAILED);
  CU_ASSERT_EQUAL_FATAL(mprotect(p + page, page, PROT_READ), 0);
  for (const char *const *name = mt_kernels_names(); *name; name++) {
    const mt_kernels *kn = NULL;
    CU_ASSERT_EQUAL_FATAL(mt_kernels_get(*name, &kn, NULL), 0);
    for (size_t streams = 1; streams <= 8; streams++)
      for (size_t n = 0; n <= page; n += 1 + n / 3) {
        mt_kernels_run_read(kn, p + page, n, streams);
        mt_kernels_run_read(kn, p + 2 * page - n, n, streams);
      }
  }
  CU_PASS("no fault");
  munmap(p, 3 * page);
}

MT_TEST_MAIN("kernel limits", {"counts", test_counts}, {"OpenBLAS", test_openblas},
             {"reading stays inside", test_read_bounds})
