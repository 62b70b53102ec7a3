/* bench: prefill and decode tokens/s, the read bandwidth of the same machine in the same run, the
 * share of time spent in collectives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_collectives.h"
#include "cmd.h"
#include "session.h"

/* ---- read bandwidth ---------------------------------------------------------------------- */

enum { PASSES = 5 };
static const size_t BANDWIDTH_MIN_BYTES = 64u << 20, BANDWIDTH_MAX_BYTES = 1u << 30;

typedef struct reader {
  uint64_t *word;
  size_t n;
  uint64_t sum; /* keeps the reads from being left out */
} reader;

static void fill_thread(void *arg, int thread, int n_threads) {
  reader *r = arg;
  size_t begin, end;
  mt_team_share(r->n, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) r->word[i] = i;
}

static void read_thread(void *arg, int thread, int n_threads) {
  reader *r = arg;
  size_t begin, end;
  mt_team_share(r->n / 8, thread, n_threads, &begin, &end);
  uint64_t s[8] = {0};
  for (size_t i = begin; i < end; i++)
    for (int k = 0; k < 8; k++) s[k] += r->word[8 * i + (size_t)k];
  for (int k = 1; k < 8; k++) s[0] += s[k];
  __atomic_fetch_add(&r->sum, s[0], __ATOMIC_RELAXED);
}

/* Bytes a second that all ranks together read from memory, over buffers as large as their weights.
 * Collective. */
static int measure_bandwidth(mt_session *s, double *bytes_per_s, mt_err *e) {
  size_t bytes = mt_model_weight_bytes(s->model);
  if (bytes < BANDWIDTH_MIN_BYTES) bytes = BANDWIDTH_MIN_BYTES;
  if (bytes > BANDWIDTH_MAX_BYTES) bytes = BANDWIDTH_MAX_BYTES;
  reader r = {.word = mt_pages_alloc(bytes), .n = bytes / sizeof(uint64_t)};
  int n = mt_comm_size(s->comm),
      rc = r.word ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to measure its bandwidth");
  double best = 0, *all = mt_calloc((size_t)n, sizeof *all);
  size_t *count = mt_calloc(2 * (size_t)n, sizeof *count);
  if (!all || !count) rc = mt_err_set(e, MT_ENOMEM, "no memory to measure its bandwidth");
  rc = mt_comm_agree(s->comm, rc, e);
  if (!rc) mt_team_run(s->team, fill_thread, &r);
  for (int i = 0; !rc && i < PASSES; i++) {
    rc = mt_comm_barrier(s->comm, e);
    uint64_t t = mt_clock_ns();
    mt_team_run(s->team, read_thread, &r);
    double now = (double)bytes / ((double)(mt_clock_ns() - t) * 1e-9);
    if (now > best) best = now;
  }
  for (int i = 0; !rc && i < n; i++) {
    count[i] = sizeof(double);
    count[n + i] = (size_t)i * sizeof(double);
  }
  if (!rc) rc = mt_comm_gatherv(s->comm, &best, all, count, count + n, 0, e);
  *bytes_per_s = 0;
  for (int i = 0; !rc && i < n; i++) *bytes_per_s += all[i];
  mt_pages_free(r.word, bytes);
  free(all);
  free(count);
  return rc;
}

/* ---- tokens a second --------------------------------------------------------------------- */

typedef struct timing {
  uint64_t first_ns, last_ns;
  size_t n;
} timing;

static int on_token(void *arg, const mt_token_event *ev) {
  timing *t = arg;
  (void)ev;
  t->last_ns = mt_clock_ns();
  if (!t->n++) t->first_ns = t->last_ns;
  return 0;
}

typedef struct samples {
  int n;
  double *prefill, *decode; /* [n] tokens/s */
  double collective_share;  /* of rank 0's time in steps, all runs */
} samples;

static int run_once(mt_session *s, const uint32_t *ids, size_t n_prompt, size_t n_generate,
                    double *prefill, double *decode, mt_err *e) {
  timing t = {0};
  mt_request r = {
      .ids = ids, .n_ids = n_prompt, .max_tokens = n_generate + 1, .on_token = on_token, .arg = &t};
  mt_sample_params_init(&r.sample);
  r.sample.temperature = 0;
  uint64_t start = mt_clock_ns();
  int rc = mt_engine_submit(s->engine, &r, e);
  if (!rc) rc = mt_engine_run(s->engine, e);
  if (rc) return rc;
  *prefill = (double)n_prompt / ((double)(t.first_ns - start) * 1e-9);
  *decode = (double)n_generate / ((double)(t.last_ns - t.first_ns) * 1e-9);
  return MT_OK;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *v, int n) {
  double *c = mt_malloc((size_t)n, sizeof *c);
  if (!c) return 0;
  memcpy(c, v, (size_t)n * sizeof *c);
  qsort(c, (size_t)n, sizeof *c, compare_doubles);
  double m = n % 2 ? c[n / 2] : (c[n / 2 - 1] + c[n / 2]) / 2;
  free(c);
  return m;
}

static int run_all(mt_session *s, samples *out, uint64_t *weight_bytes, mt_err *e) {
  size_t p = (size_t)mt_opt_int(s->opt, "prompt"), g = (size_t)mt_opt_int(s->opt, "generate");
  uint32_t vocab = mt_model_get_config(s->model)->vocab;
  uint32_t *ids = mt_malloc(p, sizeof *ids);
  mt_model_stats *st = mt_calloc((size_t)mt_comm_size(s->comm), sizeof *st);
  int rc = ids && st ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for a prompt of %zu tokens", p);
  for (size_t i = 0; !rc && i < p; i++) ids[i] = (uint32_t)(mt_uniform(1, 0, i, 0) * vocab);
  double warm[2], step_ns = 0, collective_ns = 0;
  if (!rc)
    rc = run_once(s, ids, p, g < 4 ? g : 4, &warm[0], &warm[1], e); /* warms caches, not counted */
  if (!rc) rc = mt_engine_stats(s->engine, st, e);
  for (int i = 0; !rc && i < out->n; i++)
    rc = run_once(s, ids, p, g, &out->prefill[i], &out->decode[i], e);
  if (!rc) rc = mt_engine_stats(s->engine, st, e);
  if (!rc) {
    step_ns = (double)(st[0].embed_ns + st[0].attention_ns + st[0].ffn_ns + st[0].head_ns);
    collective_ns = (double)st[0].collective_ns;
    *weight_bytes = 0;
    for (int r = 0; r < mt_comm_size(s->comm); r++)
      *weight_bytes += st[r].weight_bytes / (st[r].steps ? st[r].steps : 1);
  }
  out->collective_share = step_ns > 0 ? collective_ns / step_ns : 0;
  free(ids);
  free(st);
  return rc;
}

static int set_list(mt_json *j, const char *key, const double *v, int n) {
  mt_json *list = mt_json_new_array();
  for (int i = 0; list && i < n; i++)
    if (mt_json_append(list, mt_json_new_real(v[i]))) {
      mt_json_free(list);
      return MT_ENOMEM;
    }
  return mt_json_set(j, key, list);
}

static int print_bench(const mt_session *s, const samples *m, uint64_t weight_bytes,
                       double bandwidth, mt_err *e) {
  double prefill = median(m->prefill, m->n), decode = median(m->decode, m->n);
  if (!mt_opt_flag(s->opt, "json")) {
    printf("%d ranks × %d threads, kernels %s\n", mt_comm_size(s->comm), mt_team_size(s->team),
           s->kn->isa);
    printf("prefill %10.2f tokens/s\ndecode  %10.2f tokens/s\n", prefill, decode);
    printf("weights %10.2f MB a token, read at %.2f GB/s; memory gives %.2f GB/s\n",
           (double)weight_bytes * 1e-6, decode * (double)weight_bytes * 1e-9, bandwidth * 1e-9);
    printf("collectives take %.1f %% of rank 0's time\n", 100 * m->collective_share);
    return MT_OK;
  }
  mt_json *j = mt_json_new_object();
  int rc = j ? MT_OK : MT_ENOMEM;
  if (!rc) rc = mt_json_set(j, "prefill_tokens_per_s", mt_json_new_real(prefill));
  if (!rc) rc = mt_json_set(j, "decode_tokens_per_s", mt_json_new_real(decode));
  if (!rc) rc = set_list(j, "prefill_samples", m->prefill, m->n);
  if (!rc) rc = set_list(j, "decode_samples", m->decode, m->n);
  if (!rc) rc = mt_json_set(j, "weight_bytes_per_token", mt_json_new_int((int64_t)weight_bytes));
  if (!rc) rc = mt_json_set(j, "read_bandwidth_bytes_per_s", mt_json_new_real(bandwidth));
  if (!rc) rc = mt_json_set(j, "collective_share", mt_json_new_real(m->collective_share));
  if (!rc) rc = mt_json_set(j, "ranks", mt_json_new_int(mt_comm_size(s->comm)));
  if (!rc) rc = mt_json_set(j, "threads", mt_json_new_int(mt_team_size(s->team)));
  if (!rc) rc = mt_json_set(j, "isa", mt_json_new_string(s->kn->isa, strlen(s->kn->isa)));
  if (!rc) return mt_print_json(j, e);
  mt_json_free(j);
  return mt_err_set(e, rc, "no memory for JSON");
}

static int lead(mt_session *s, double bandwidth, mt_err *e) {
  samples m = {.n = mt_opt_int(s->opt, "repeat")};
  m.prefill = mt_calloc((size_t)m.n, sizeof *m.prefill);
  m.decode = mt_calloc((size_t)m.n, sizeof *m.decode);
  uint64_t weight_bytes = 0;
  int rc =
      m.prefill && m.decode ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for %d samples", m.n);
  if (!rc) rc = run_all(s, &m, &weight_bytes, e);
  if (!rc) rc = print_bench(s, &m, weight_bytes, bandwidth, e);
  free(m.prefill);
  free(m.decode);
  return rc;
}

int mt_cmd_bench(const mt_opt *opt) {
  mt_err e = {0};
  mt_session s;
  int rc = mt_session_open(&s, opt, &e), own = MT_OK;
  if (!rc && mt_opt_flag(opt, "collectives"))
    return mt_session_close(&s, mt_bench_collectives(&s, &e), &e);
  size_t tokens = (size_t)mt_opt_int(opt, "prompt") + (size_t)mt_opt_int(opt, "generate") + 1;
  double bandwidth = 0;
  if (!rc) rc = mt_session_load(&s, MT_OK, (mt_room){.tokens = tokens, .seqs = 1}, &e);
  if (!rc) rc = measure_bandwidth(&s, &bandwidth, &e);
  if (!rc) {
    if (s.root) own = lead(&s, bandwidth, &e);
    rc = mt_session_follow(&s, own, &e);
  }
  return mt_session_close(&s, rc, &e);
}
