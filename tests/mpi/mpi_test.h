/* What the programs of tests/mpi share. Each is run by mpirun on the rank counts that
 * tests/mpi/list names, or alone as one rank; it ends non-zero on every rank if a check failed on
 * any. Arguments:
 * --nodes K pretends that there are K nodes, --no-shared forbids shared memory. */
#ifndef MPI_TEST_H
#define MPI_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/comm.h"

static int failures, checks;

#define CHECK(cond)                                                            \
  do {                                                                         \
    checks++;                                                                  \
    if (!(cond) && failures++ < 20)                                            \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #cond); \
  } while (0)

static inline mt_comm *test_open(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--nodes") && i + 1 < argc) setenv("MUTIRAO_FAKE_NODES", argv[++i], 1);
    if (!strcmp(argv[i], "--no-shared")) setenv("MUTIRAO_SHARED_MEMORY", "0", 1);
  }
  mt_comm *c = NULL;
  mt_err e = {0};
  if (mt_comm_open(&c, &e)) {
    fprintf(stderr, "cannot open: %s\n", e.msg);
    exit(1);
  }
  return c;
}

/* Agrees on the outcome and closes; the exit status. */
static inline int test_close(mt_comm *c) {
  mt_err e = {0};
  if (failures) mt_err_set(&e, MT_EINVAL, "%d of %d checks failed", failures, checks);
  int rc = mt_comm_agree(c, failures || !checks ? MT_EINVAL : MT_OK, &e);
  if (mt_comm_rank(c) == 0)
    printf("%d ranks in %d groups, %d checks: %s\n", mt_comm_size(c), mt_comm_groups(c), checks,
           rc ? e.msg : "passed");
  mt_comm_close(c);
  return rc ? 1 : 0;
}

#endif
