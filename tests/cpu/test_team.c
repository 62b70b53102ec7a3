/* The thread team: every piece of work runs once on every thread, barriers separate its phases,
 * also with more threads than cores; clean under the thread sanitizer. */
#include <fenv.h>
#include <sched.h>
#include <unistd.h>

#include "mt_test.h"
#include "mutirao/cpu.h"

enum { THREADS_MOST = 13, PHASES = 60 };
static const int sizes[] = {1, 2, 3, 8, THREADS_MOST};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static mt_team *new_team(int n, bool crowded) {
  mt_team *t = NULL;
  CU_ASSERT_EQUAL_FATAL(mt_team_new(&t, NULL, n, NULL, crowded, NULL), MT_OK);
  CU_ASSERT_EQUAL(mt_team_size(t), n);
  return t;
}

typedef struct tally {
  int n, calls[THREADS_MOST];
} tally;

static void count(void *arg, int thread, int n_threads) {
  tally *y = arg;
  if (thread == 0) y->n = n_threads;
  y->calls[thread]++; /* plain: what run gives back must be visible to the caller */
}

static void test_run(void) {
  for (int i = 0; i < SIZES; i++)
    for (int crowded = 0; crowded < 2; crowded++) {
      mt_team *t = new_team(sizes[i], crowded);
      tally y = {0};
      for (int k = 1; k <= 100; k++) {
        mt_team_run(t, count, &y);
        for (int th = 0; th < THREADS_MOST; th++)
          CU_ASSERT_EQUAL(y.calls[th], th < sizes[i] ? k : 0);
      }
      CU_ASSERT_EQUAL(y.n, sizes[i]);
      mt_team_free(t);
    }
}

/* In each phase every thread adds its neighbour's value of the phase before. */
typedef struct relay {
  mt_team *team;
  long value[2][THREADS_MOST];
} relay;

static void pass_on(void *arg, int thread, int n) {
  relay *r = arg;
  for (int p = 0; p < PHASES; p++) {
    const long *from = r->value[p % 2];
    r->value[(p + 1) % 2][thread] = (from[thread] + from[(thread + 1) % n]) % 1000003;
    mt_team_barrier(r->team, thread);
  }
}

static void test_barrier(void) {
  for (int i = 0; i < SIZES; i++)
    for (int crowded = 0; crowded < 2; crowded++) {
      int n = sizes[i];
      relay r = {.team = new_team(n, crowded)};
      long want[2][THREADS_MOST];
      for (int t = 0; t < n; t++) want[0][t] = r.value[0][t] = 3 * t + 1;
      mt_team_run(r.team, pass_on, &r);
      for (int p = 0; p < PHASES; p++)
        for (int t = 0; t < n; t++)
          want[(p + 1) % 2][t] = (want[p % 2][t] + want[p % 2][(t + 1) % n]) % 1000003;
      for (int t = 0; t < n; t++) CU_ASSERT_EQUAL(r.value[PHASES % 2][t], want[PHASES % 2][t]);
      mt_team_free(r.team);
    }
}

static void test_share(void) {
  static const size_t items[] = {0, 1, 2, 7, 64, 1000003};
  for (int n = 1; n <= THREADS_MOST; n++)
    for (size_t k = 0; k < sizeof items / sizeof items[0]; k++) {
      size_t at = 0, begin, end, least = SIZE_MAX, most = 0;
      for (int t = 0; t < n; t++) {
        mt_team_share(items[k], t, n, &begin, &end);
        CU_ASSERT(begin == at && end >= begin);
        least = end - begin < least ? end - begin : least;
        most = end - begin > most ? end - begin : most;
        at = end;
      }
      CU_ASSERT_EQUAL(at, items[k]);
      CU_ASSERT(most - least <= 1);
    }
}

/* What a thread sees of its binding and its rounding. */
typedef struct seen {
  int cpus[THREADS_MOST];
  bool nearest[THREADS_MOST], subnormal[THREADS_MOST];
} seen;

static void look(void *arg, int thread, int n) {
  seen *s = arg;
  cpu_set_t set;
  volatile float tiny = 1e-38f, one = 1, part = 0x1.8p-24f;
  (void)n;
  s->cpus[thread] = sched_getaffinity(0, sizeof set, &set) ? -1 : CPU_COUNT(&set);
  s->nearest[thread] = one + part == 1 + 0x1p-23f && -one - part == -1 - 0x1p-23f;
  s->subnormal[thread] = tiny / 16 > 0;
}

static void test_binding(void) {
  mt_cpu *c = NULL;
  mt_team *t = NULL;
  seen s = {0};
  cpu_set_t old;
  sched_getaffinity(0, sizeof old, &old);
  CU_ASSERT_EQUAL_FATAL(mt_cpu_open(&c, NULL, NULL), MT_OK);
  int n = mt_cpu_cores(c) < THREADS_MOST ? mt_cpu_cores(c) : THREADS_MOST, core[THREADS_MOST];
  CU_ASSERT_EQUAL(mt_cpu_plan(c, 0, 1, n, core), 0);
  fesetround(FE_DOWNWARD); /* threads inherit it */
  CU_ASSERT_EQUAL_FATAL(mt_team_new(&t, c, n, core, false, NULL), MT_OK);
  mt_team_run(t, look, &s);
  for (int i = 0; i < n; i++) {
    CU_ASSERT(s.cpus[i] >= 1 && s.cpus[i] <= CPU_COUNT(&old));
    if (mt_cpu_cores(c) > 1) CU_ASSERT(s.cpus[i] < CPU_COUNT(&old));
    CU_ASSERT_TRUE(s.nearest[i]);
    CU_ASSERT_TRUE(s.subnormal[i]);
  }
  mt_team_free(t);
  core[0] = mt_cpu_cores(c);
  CU_ASSERT_EQUAL(mt_team_new(&t, c, 1, core, false, NULL), MT_ERANGE);
  CU_ASSERT_EQUAL(mt_team_new(&t, c, 0, NULL, false, NULL), MT_ERANGE);
  mt_cpu_close(c);
  sched_setaffinity(0, sizeof old, &old);
}

/* More threads than cores are said, and work. */
static void test_crowd(void) {
  mt_cpu *c = NULL;
  mt_team *t = NULL;
  char said[2000] = "";
  int core[4], saved = dup(STDERR_FILENO), pipes[2];
  CU_ASSERT_EQUAL_FATAL(mt_cpu_open(&c, "synthetic:core:1 pu:2", NULL), MT_OK);
  CU_ASSERT_EQUAL(mt_cpu_plan(c, 0, 1, 4, core), 4);
  CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
  dup2(pipes[1], STDERR_FILENO);
  int rc = mt_team_new(&t, c, 4, core, true, NULL);
  dup2(saved, STDERR_FILENO);
  close(pipes[1]);
  CU_ASSERT(read(pipes[0], said, sizeof said - 1) > 0);
  CU_ASSERT(strstr(said, "4 threads, but this process may use 1 cores only") != NULL);
  close(pipes[0]);
  close(saved);
  CU_ASSERT_EQUAL_FATAL(rc, MT_OK);
  tally y = {0};
  mt_team_run(t, count, &y);
  CU_ASSERT_EQUAL(y.calls[3], 1);
  mt_team_free(t);
  mt_cpu_close(c);
}

MT_TEST_MAIN("team", {"run", test_run}, {"barrier", test_barrier}, {"share", test_share},
             {"binding", test_binding}, {"more threads than cores", test_crowd})
