/* load: how fast the weights of a model are loaded, against copying as many bytes in memory.
 *   load MODEL [THREADS] [RUNS] [PACK-CACHE]      also under mpirun
 * The file should be in the page cache: the first run brings it there and is not counted. Runs of
 * loading and copying take turns. Prints medians and the best in GB/s over file bytes: loading;
 * memcpy by as many threads into memory that was just mapped, which is what loading has to fill;
 * memcpy into memory in use. (Where a hypervisor takes back what was freed, new memory is now and
 * then slower by ten times for both: then the best tell more.) The last lines have the same by the
 * processor time of rank 0 instead of the clock, for machines on which others run: bytes a second
 * of all threads together, if each had a core. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mutirao/model.h"

enum { MAX_RUNS = 101 };

typedef struct copy_job {
  char *to;
  const char *from;
  size_t bytes;
} copy_job;

static void copy_thread(void *arg, int thread, int n_threads) {
  const copy_job *j = arg;
  size_t begin, end;
  mt_team_share(j->bytes, thread, n_threads, &begin, &end);
  memcpy(j->to + begin, j->from + begin, end - begin);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
/* Nanoseconds: of the clock, and of this process's time on processors. */
enum { WALL, CPU, CLOCKS };
typedef struct instant {
  double ns[CLOCKS];
} instant;

static instant now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (instant){{(double)mt_clock_ns(), (double)t.tv_sec * 1e9 + (double)t.tv_nsec}};
}

/* What is measured. */
enum { LOAD, FRESH, USED, KINDS };
typedef double samples[KINDS][CLOCKS][MAX_RUNS];

static void note(samples s, int kind, int run, instant from, instant to) {
  for (int k = 0; k < CLOCKS; k++) s[kind][k][run] = to.ns[k] - from.ns[k];
}

/* GB/s of the run in the middle, or of the best. */
static double speed(size_t bytes, double *ns, int n, bool best) {
  qsort(ns, (size_t)n, sizeof *ns, ascending);
  return (double)bytes / ns[best ? 0 : n / 2];
}

static int load_once(mt_comm *c, mt_team *team, const char *path, const char *pack_cache, samples s,
                     int run, mt_err *e) {
  mt_model_options o = {.kv_type = MT_KV_F16,
                        .kv_tokens = MT_KV_BLOCK,
                        .max_seqs = 1,
                        .max_rows = 1,
                        .pack_cache = pack_cache};
  mt_model *m = NULL;
  int rc = mt_kernels_get(NULL, &o.kernels, e);
  if (!rc) rc = mt_comm_barrier(c, e);
  instant t = now();
  if (!rc) rc = mt_model_load(&m, c, team, path, &o, e);
  note(s, LOAD, run, t, now());
  mt_model_free(m);
  return rc;
}

/* One copy into memory that is mapped for it, and one more into the same. */
static int copy_once(mt_team *team, const char *from, size_t bytes, samples s, int run, mt_err *e) {
  copy_job j = {mt_pages_alloc(bytes), from, bytes};
  if (!j.to) return mt_err_set(e, MT_ENOMEM, "no memory to copy");
  instant t[3] = {now()};
  for (int k = 1; k < 3; k++) {
    mt_team_run(team, copy_thread, &j);
    t[k] = now();
  }
  note(s, FRESH, run, t[0], t[1]);
  note(s, USED, run, t[1], t[2]);
  mt_pages_free(j.to, bytes);
  return MT_OK;
}

static void print_line(const char *name, samples s, int clock, bool best, size_t bytes, int runs) {
  double v[KINDS];
  for (int k = 0; k < KINDS; k++) v[k] = speed(bytes, s[k][clock], runs, best);
  printf("  %-14s load %6.3f; memcpy %6.3f into new memory (load is %3.0f %%), %6.3f into used\n",
         name, v[LOAD], v[FRESH], 100 * v[LOAD] / v[FRESH], v[USED]);
}

static int measure(mt_comm *c, mt_team *team, const char *path, int runs, const char *pack_cache,
                   mt_err *e) {
  static samples s;
  mt_weights *w = NULL;
  int rc = mt_weights_open(&w, path, e);
  if (rc) return rc;
  size_t bytes = (size_t)mt_weights_file_bytes(w) / (size_t)mt_comm_size(c);
  mt_weights_close(w);
  char *from = mt_pages_alloc(bytes);
  if (!from) return mt_err_set(e, MT_ENOMEM, "no memory to copy");
  memset(from, 1, bytes);
  for (int i = -1; !rc && i < runs; i++) { /* the first is overwritten */
    rc = load_once(c, team, path, pack_cache, s, i < 0 ? 0 : i, e);
    if (!rc) rc = copy_once(team, from, bytes, s, i < 0 ? 0 : i, e);
    rc = mt_comm_agree(c, rc, e);
  }
  mt_pages_free(from, bytes);
  if (rc || mt_comm_rank(c)) return rc;
  printf("%s: %d threads, %d ranks, GB/s a rank\n", path, mt_team_size(team), mt_comm_size(c));
  print_line("median", s, WALL, false, bytes, runs);
  print_line("best", s, WALL, true, bytes, runs);
  bytes *= (size_t)mt_team_size(team);
  print_line("processor time", s, CPU, false, bytes, runs);
  print_line("  and its best", s, CPU, true, bytes, runs);
  return MT_OK;
}

int main(int argc, char **argv) {
  mt_err e = {0};
  mt_comm *c = NULL;
  mt_team *team = NULL;
  int threads = argc > 2 ? atoi(argv[2]) : 1, runs = argc > 3 ? atoi(argv[3]) : 5;
  if (argc < 2 || runs < 1 || runs > MAX_RUNS) {
    fprintf(stderr, "usage: load MODEL [THREADS] [RUNS] [PACK-CACHE]\n");
    return 2;
  }
  int rc = mt_comm_open(&c, &e);
  if (!rc) rc = mt_team_new(&team, NULL, threads, NULL, false, &e);
  if (!rc) rc = measure(c, team, argv[1], runs, argc > 4 ? argv[4] : NULL, &e);
  if (rc) mt_log(MT_LOG_ERROR, "%s", e.msg);
  mt_team_free(team);
  mt_comm_close(c);
  return rc ? 1 : 0;
}
