/* The limits that a run is compared with, measured beside it: how fast all threads of all ranks
 * together read memory, and multiply and add on registers. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const size_t MIN_BYTES = 64u << 20, SHARE_BYTES = 2u << 20;
static const uint64_t ROUNDS = 50000; /* a millisecond or less between looks at the clock */
static const uint64_t ARITHMETIC_NS = 20000000;

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double mt_bench_median(const double *v, size_t n) {
  double *c = mt_malloc(n, sizeof *c);
  if (!c || !n) {
    free(c);
    return 0;
  }
  memcpy(c, v, n * sizeof *c);
  qsort(c, n, sizeof *c, compare_doubles);
  double m = n % 2 ? c[n / 2] : (c[n / 2 - 1] + c[n / 2]) / 2;
  free(c);
  return m;
}

/* ---- what the threads do ----------------------------------------------------------------- */

typedef struct job {
  const mt_kernels *kn;
  int gauge;
  uint8_t *buffer;
  size_t bytes;
  uint64_t done; /* bytes or operations of all threads */
} job;

/* Huge pages lie within one thread's share, so that it places what it reads. */
static void thread_share(const job *j, int thread, int n_threads, size_t *begin, size_t *end) {
  mt_team_share(j->bytes / SHARE_BYTES, thread, n_threads, begin, end);
  *begin *= SHARE_BYTES;
  *end *= SHARE_BYTES;
}

static void fill_thread(void *arg, int thread, int n_threads) {
  const job *j = arg;
  size_t begin, end;
  thread_share(j, thread, n_threads, &begin, &end);
  memset(j->buffer + begin, 1, end - begin);
}

static void gauge_thread(void *arg, int thread, int n_threads) {
  job *j = arg;
  uint64_t done = 0;
  if (j->gauge <= MT_GAUGE_READ_8) {
    size_t begin, end;
    thread_share(j, thread, n_threads, &begin, &end);
    mt_kernels_run_read(j->kn, j->buffer + begin, end - begin, (size_t)1 << j->gauge);
    done = end - begin;
  } else {
    for (uint64_t t = mt_clock_ns(); mt_clock_ns() - t < ARITHMETIC_NS;)
      done += j->gauge == MT_GAUGE_FMA ? mt_kernels_run_fma(j->kn, ROUNDS)
                                       : mt_kernels_run_dot(j->kn, ROUNDS);
  }
  __atomic_fetch_add(&j->done, done, __ATOMIC_RELAXED);
}

/* ---- the measurement --------------------------------------------------------------------- */

int mt_limits_open(mt_limit_rates *l, mt_session *s, mt_err *e) {
  *l = (mt_limit_rates){0};
  size_t bytes = mt_model_weight_bytes(s->model);
  uint64_t most = mt_cpu_memory_available_bytes(s->cpu) / 2 / (uint64_t)mt_comm_local_size(s->comm);
  if (bytes > most) bytes = most;
  if (bytes < MIN_BYTES) bytes = MIN_BYTES;
  l->buffer_bytes = bytes / SHARE_BYTES * SHARE_BYTES;
  l->buffer = mt_pages_alloc(l->buffer_bytes);
  int rc = l->buffer ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to measure its bandwidth");
  rc = mt_comm_agree(s->comm, rc, e);
  job j = {.kn = s->kn, .buffer = l->buffer, .bytes = l->buffer_bytes};
  if (!rc) mt_team_run(s->team, fill_thread, &j);
  return rc;
}

int mt_limits_measure(mt_limit_rates *l, mt_session *s, mt_err *e) {
  int rc = MT_OK;
  for (int i = 0; !rc && i < MT_LIMIT_PASSES && l->n < MT_LIMIT_SAMPLES; i++, l->n++)
    for (int g = 0; !rc && g < MT_N_GAUGES; g++) {
      job j = {.kn = s->kn, .gauge = g, .buffer = l->buffer, .bytes = l->buffer_bytes};
      rc = mt_comm_barrier(s->comm, e);
      uint64_t t = mt_clock_ns();
      mt_team_run(s->team, gauge_thread, &j);
      l->sample[g][l->n] = (double)j.done / ((double)(mt_clock_ns() - t) * 1e-9);
    }
  return rc;
}

int mt_limits_finish(mt_limit_rates *l, mt_session *s, mt_err *e) {
  size_t n = (size_t)mt_comm_size(s->comm), bytes = sizeof l->sample;
  double(*all)[MT_N_GAUGES][MT_LIMIT_SAMPLES] = mt_calloc(n, bytes);
  size_t *count = mt_calloc(2 * n, sizeof *count);
  int rc = all && count ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for the limits");
  rc = mt_comm_agree(s->comm, rc, e);
  for (size_t r = 0; !rc && r < n; r++) {
    count[r] = bytes;
    count[n + r] = r * bytes;
  }
  if (!rc) rc = mt_comm_gatherv(s->comm, l->sample, all, count, count + n, 0, e);
  for (size_t r = 1; !rc && s->root && r < n; r++)
    for (int g = 0; g < MT_N_GAUGES; g++)
      for (size_t i = 0; i < l->n; i++) l->sample[g][i] += all[r][g][i];
  l->fma_per_s = mt_bench_median(l->sample[MT_GAUGE_FMA], l->n);
  l->dot_per_s = mt_bench_median(l->sample[MT_GAUGE_DOT], l->n);
  for (int g = MT_GAUGE_READ_1; g <= MT_GAUGE_READ_8; g++) {
    double rate = mt_bench_median(l->sample[g], l->n);
    if (rate <= l->read_bytes_per_s) continue;
    l->read_bytes_per_s = rate;
    l->read = g;
  }
  free(all);
  free(count);
  return rc;
}

void mt_limits_close(mt_limit_rates *l) {
  mt_pages_free(l->buffer, l->buffer_bytes);
  l->buffer = NULL;
}
