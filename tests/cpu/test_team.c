/* The thread team: every piece of work runs once on every thread, barriers separate its phases,
 * dealt items are given exactly once, also with more threads than cores; clean under the thread
 * sanitizer. */
#include <fenv.h>
#include <sched.h>
#include <stdatomic.h>
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

/* ---- dealt items ------------------------------------------------------------------------- */

enum { ITEMS_MOST = 5000, DEAL_THREADS_MOST = 128 };
static const int deal_sizes[] = {1, 2, 7, DEAL_THREADS_MOST};
enum { DEAL_SIZES = sizeof deal_sizes / sizeof deal_sizes[0] };

/* A round of taking from one slot. Counters are plain: an item given twice is a race that the
 * thread sanitizer sees, and what run gives back must be visible to the caller. */
typedef struct deal {
  mt_team *team;
  int slot;
  size_t n, chunk;
  unsigned char given[ITEMS_MOST];
  bool begins[ITEMS_MOST];         /* chunks begin here */
  size_t taken[DEAL_THREADS_MOST]; /* items by thread */
  bool bad[DEAL_THREADS_MOST], again[DEAL_THREADS_MOST];
  int slow; /* this thread waits until all but its chunk is taken */
  _Atomic size_t done;
} deal;

/* What follows a taken chunk is known: the rest of it, or of the share it belongs to. */
static bool chunk_is_right(const deal *d, int n_threads, size_t begin, size_t end) {
  size_t first = 0, last = 0, chunk = d->chunk ? d->chunk : 1;
  for (int t = 0; t < n_threads && last <= begin; t++)
    mt_team_share(d->n, t, n_threads, &first, &last);
  if (begin < first || begin >= last || (begin - first) % chunk) return false;
  return end == (last - begin < chunk ? last : begin + chunk);
}

static void take_all(void *arg, int thread, int n_threads) {
  deal *d = arg;
  size_t begin, end;
  while (mt_team_take(d->team, d->slot, thread, &begin, &end)) {
    if (!chunk_is_right(d, n_threads, begin, end)) {
      d->bad[thread] = true;
      return;
    }
    d->begins[begin] = true;
    for (size_t i = begin; i < end; i++) d->given[i]++;
    d->taken[thread] += end - begin;
    atomic_fetch_add(&d->done, end - begin);
    while (thread == d->slow && atomic_load(&d->done) < d->n) sched_yield();
  }
  d->again[thread] = mt_team_take(d->team, d->slot, thread, &begin, &end);
}

static deal new_deal(mt_team *t, int slot, size_t n, size_t chunk) {
  mt_team_deal(t, slot, n, chunk);
  return (deal){.team = t, .slot = slot, .n = n, .chunk = chunk, .slow = -1};
}

/* All items once and no other, whole chunks, and then nothing. */
static void all_given_once(const deal *d) {
  size_t wrong = 0, sum = 0, chunks = 0;
  for (size_t i = 0; i < ITEMS_MOST; i++) {
    wrong += d->given[i] != (i < d->n);
    chunks += d->begins[i];
  }
  for (int t = 0; t < DEAL_THREADS_MOST; t++) {
    wrong += d->bad[t] + d->again[t];
    sum += d->taken[t];
  }
  size_t want = 0, begin, end, chunk = d->chunk ? d->chunk : 1;
  for (int t = 0; t < mt_team_size(d->team); t++) {
    mt_team_share(d->n, t, mt_team_size(d->team), &begin, &end);
    want += (end - begin) / chunk + ((end - begin) % chunk != 0);
  }
  bool ok = !wrong && sum == d->n && chunks == want;
  if (!ok)
    printf("\n  %d threads, %zu items by %zu: %zu wrong, %zu given, %zu of %zu chunks\n",
           mt_team_size(d->team), d->n, d->chunk, wrong, sum, chunks, want);
  CU_ASSERT(ok);
}

static void test_deal(void) {
  static const size_t items[] = {0, 1, 2, 6, 127, 128, 129, 1000, ITEMS_MOST};
  static const size_t chunks[] = {0, 1, 3, 64, ITEMS_MOST, SIZE_MAX - 5, SIZE_MAX};
  for (int i = 0; i < DEAL_SIZES; i++)
    for (int crowded = deal_sizes[i] > 7; crowded < 2; crowded++) {
      mt_team *t = new_team(deal_sizes[i], crowded);
      for (size_t k = 0; k < sizeof items / sizeof items[0]; k++)
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
          deal d = new_deal(t, (int)(k + c) % MT_TEAM_DEALS, items[k], chunks[c]);
          mt_team_run(t, take_all, &d);
          all_given_once(&d);
        }
      mt_team_free(t);
    }
}

/* A thread that is stuck with its first chunk loses the rest of its share to the others. Were it
 * not so, it would wait for ever. */
static void test_steal(void) {
  for (int i = 1; i < DEAL_SIZES; i++) {
    int n = deal_sizes[i];
    mt_team *t = new_team(n, true);
    for (int round = 0; round < 8; round++) {
      deal d = new_deal(t, 0, (size_t)n * 10, 2);
      d.slow = round % n;
      mt_team_run(t, take_all, &d);
      all_given_once(&d);
      CU_ASSERT(d.taken[d.slow] <= 2); /* 0: all was gone before it came */
    }
    mt_team_free(t);
  }
}

/* One piece of work that deals to itself: a thread deals the next round while the others are at a
 * barrier, slot after slot, with fewer items or more than before. */
typedef struct rounds {
  mt_team *team;
  deal deal[2 * MT_TEAM_DEALS + 1];
} rounds;
enum { ROUNDS = sizeof((rounds *)0)->deal / sizeof(deal) };

static void take_rounds(void *arg, int thread, int n) {
  rounds *r = arg;
  for (int k = 0; k < ROUNDS; k++) {
    if (thread == k % n)
      r->deal[k] = new_deal(r->team, k % MT_TEAM_DEALS, (size_t)(k * 397) % 1500, (size_t)k % 5);
    mt_team_barrier(r->team, thread);
    take_all(&r->deal[k], thread, n);
    /* The next round takes from another slot: those who are still in this one are not disturbed. */
  }
}

static void test_reuse(void) {
  static rounds r;
  for (int i = 0; i < DEAL_SIZES; i++) {
    r = (rounds){.team = new_team(deal_sizes[i], true)};
    mt_team_run(r.team, take_rounds, &r);
    for (int k = 0; k < ROUNDS; k++) all_given_once(&r.deal[k]);
    mt_team_free(r.team);
  }
}

/* All slots dealt at once, emptied in any order: they do not know of each other. */
static void take_slots(void *arg, int thread, int n) {
  rounds *r = arg;
  for (int k = 0; k < MT_TEAM_DEALS; k++)
    take_all(&r->deal[(k + thread) % MT_TEAM_DEALS], thread, n);
}

static void test_slots(void) {
  static rounds r;
  for (int i = 0; i < DEAL_SIZES; i++) {
    r = (rounds){.team = new_team(deal_sizes[i], false)};
    for (int k = 0; k < MT_TEAM_DEALS; k++)
      r.deal[k] = new_deal(r.team, k, (size_t)(100 * k), (size_t)(1 + k));
    mt_team_run(r.team, take_slots, &r);
    for (int k = 0; k < MT_TEAM_DEALS; k++) all_given_once(&r.deal[k]);
    mt_team_free(r.team);
  }
}

/* ---- binding ----------------------------------------------------------------------------- */

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
             {"deal", test_deal}, {"steal", test_steal}, {"reuse of slots", test_reuse},
             {"slots", test_slots}, {"binding", test_binding},
             {"more threads than cores", test_crowd})
