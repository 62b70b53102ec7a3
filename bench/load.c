/* load: how fast the weights of a model are loaded, against copying as many bytes in memory.
 *   load MODEL [THREADS] [RUNS] [PACK-CACHE]      also under mpirun
 * The file should be in the page cache: the first run brings it there and is not counted. Runs of
 * loading and copying take turns. Prints a line of medians in GB/s over file bytes: loading; memcpy
 * by as many threads into memory that was just mapped, which is what loading has to fill; memcpy
 * into memory in use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, ascending);
  return v[n / 2];
}

/* One load: nanoseconds, or 0 on failure. */
static double load_once(mt_comm *c, mt_team *team, const char *path, const char *pack_cache,
                        mt_err *e) {
  mt_model_options o = {.kv_type = MT_KV_F16,
                        .kv_tokens = MT_KV_BLOCK,
                        .max_seqs = 1,
                        .max_rows = 1,
                        .pack_cache = pack_cache};
  mt_model *m = NULL;
  int rc = mt_kernels_get(NULL, &o.kernels, e);
  if (!rc) rc = mt_comm_barrier(c, e);
  uint64_t t = mt_clock_ns();
  if (!rc) rc = mt_model_load(&m, c, team, path, &o, e);
  double ns = (double)(mt_clock_ns() - t);
  mt_model_free(m);
  return rc ? 0 : ns;
}

/* One copy into memory that is mapped for it, and one more into the same. */
static int copy_once(mt_team *team, const char *from, size_t bytes, double *fresh, double *used) {
  copy_job j = {mt_pages_alloc(bytes), from, bytes};
  if (!j.to) return MT_ENOMEM;
  uint64_t t[3] = {mt_clock_ns()};
  for (int k = 1; k < 3; k++) {
    mt_team_run(team, copy_thread, &j);
    t[k] = mt_clock_ns();
  }
  *fresh = (double)(t[1] - t[0]);
  *used = (double)(t[2] - t[1]);
  mt_pages_free(j.to, bytes);
  return MT_OK;
}

static int measure(mt_comm *c, mt_team *team, const char *path, int runs, const char *pack_cache,
                   mt_err *e) {
  double load[MAX_RUNS], fresh[MAX_RUNS], used[MAX_RUNS];
  mt_weights *w = NULL;
  int rc = mt_weights_open(&w, path, e);
  if (rc) return rc;
  size_t bytes = (size_t)mt_weights_file_bytes(w) / (size_t)mt_comm_size(c);
  mt_weights_close(w);
  char *from = mt_pages_alloc(bytes);
  if (!from) return mt_err_set(e, MT_ENOMEM, "no memory to copy");
  memset(from, 1, bytes);
  for (int i = -1; !rc && i < runs; i++) {
    int k = i < 0 ? 0 : i;
    if (!(load[k] = load_once(c, team, path, pack_cache, e))) rc = e->code;
    if (!rc && copy_once(team, from, bytes, &fresh[k], &used[k]))
      rc = mt_err_set(e, MT_ENOMEM, "no memory to copy");
    rc = mt_comm_agree(c, rc, e);
  }
  mt_pages_free(from, bytes);
  if (rc || mt_comm_rank(c)) return rc;
  double b = (double)bytes, l = b / median(load, runs), f = b / median(fresh, runs),
         u = b / median(used, runs);
  printf(
      "%s: %d threads, %d ranks: load %.2f GB/s a rank; memcpy %.2f into new memory (%.0f %%), "
      "%.2f into used (%.0f %%)\n",
      path, mt_team_size(team), mt_comm_size(c), l, f, 100 * l / f, u, 100 * l / u);
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
