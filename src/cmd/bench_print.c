/* What `bench` prints: a table for people or one JSON object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Medians over the repeats of one load. */
typedef struct summary {
  mt_bench_load load;
  double prefill_per_s, decode_per_s; /* tokens of all sequences */
  double ttft_s, ttft_last_s, prefill_s, decode_s, host_share;
  double weight_bytes, kv_bytes;                         /* of a decode step, all ranks */
  double prefill_weight_bytes;                           /* of a run */
  double collective_share, phase_share[MT_BENCH_PHASES]; /* of the time in the model */
  double *prefill, *decode;                              /* [repeat] samples of the first two */
} summary;

typedef double (*figure_fn)(mt_bench_load load, const mt_bench_time *t);

static double prefill_rate(mt_bench_load load, const mt_bench_time *t) {
  return (double)(load.batch * load.prompt) / t->prefill_s;
}
static double decode_rate(mt_bench_load load, const mt_bench_time *t) {
  return (double)(load.batch * load.generate) / t->decode_s;
}
static double get_ttft(mt_bench_load load, const mt_bench_time *t) {
  (void)load;
  return t->ttft_s;
}
static double get_ttft_last(mt_bench_load load, const mt_bench_time *t) {
  (void)load;
  return t->ttft_last_s;
}
static double get_prefill_s(mt_bench_load load, const mt_bench_time *t) {
  (void)load;
  return t->prefill_s;
}
static double get_decode_s(mt_bench_load load, const mt_bench_time *t) {
  (void)load;
  return t->decode_s;
}
static double get_host_share(mt_bench_load load, const mt_bench_time *t) {
  (void)load;
  return t->host_s / t->decode_s;
}

static double summarize(const mt_bench_plan *p, size_t i, figure_fn figure, double *v) {
  for (size_t r = 0; r < p->repeat; r++) v[r] = figure(p->load[i], &p->time[i * p->repeat + r]);
  return mt_bench_median(v, p->repeat);
}

static void summary_free(summary *s) {
  free(s->prefill);
  free(s->decode);
}

/* Of rank 0's time in the model: in collectives, waiting for the others included. */
static void sum_collectives(summary *s, const mt_bench_plan *p, size_t i) {
  double model_ns = 0, collective_ns = 0;
  for (int k = 0; k < MT_BENCH_PHASES; k++) {
    double model = 0, collective = 0;
    for (size_t r = 0; r < p->repeat; r++) {
      model += p->time[i * p->repeat + r].model_ns[k];
      collective += p->time[i * p->repeat + r].collective_ns[k];
    }
    s->phase_share[k] = model > 0 ? collective / model : 0;
    model_ns += model;
    collective_ns += collective;
  }
  s->collective_share = model_ns > 0 ? collective_ns / model_ns : 0;
}

static int summary_make(summary *s, const mt_bench_plan *p, size_t i, mt_err *e) {
  *s = (summary){.load = p->load[i],
                 .prefill = mt_malloc(p->repeat, sizeof(double)),
                 .decode = mt_malloc(p->repeat, sizeof(double))};
  double *v = mt_malloc(p->repeat, sizeof *v), steps = 0;
  if (!v || !s->prefill || !s->decode) {
    free(v);
    return mt_err_set(e, MT_ENOMEM, "no memory for %zu samples", p->repeat);
  }
  s->prefill_per_s = summarize(p, i, prefill_rate, s->prefill);
  s->decode_per_s = summarize(p, i, decode_rate, s->decode);
  s->ttft_s = summarize(p, i, get_ttft, v);
  s->ttft_last_s = summarize(p, i, get_ttft_last, v);
  s->prefill_s = summarize(p, i, get_prefill_s, v);
  s->decode_s = summarize(p, i, get_decode_s, v);
  s->host_share = summarize(p, i, get_host_share, v);
  free(v);
  for (size_t r = 0; r < p->repeat; r++) {
    const mt_bench_time *t = &p->time[i * p->repeat + r];
    steps += (double)t->decode_steps;
    s->weight_bytes += t->decode_weight_bytes;
    s->kv_bytes += t->decode_kv_bytes;
    s->prefill_weight_bytes += t->prefill_weight_bytes / (double)p->repeat;
  }
  s->weight_bytes /= steps;
  s->kv_bytes /= steps;
  sum_collectives(s, p, i);
  return MT_OK;
}

/* Of the memory's rate, while all sequences decode. */
static double bandwidth_share(const summary *s, const mt_limit_rates *l) {
  double steps_per_s = s->decode_per_s / (double)s->load.batch;
  return (s->weight_bytes + s->kv_bytes) * steps_per_s / l->read_bytes_per_s;
}

/* The time that the arithmetic of the prompts would take at its peak, in that which they took. */
static double peak_share(const summary *s, const mt_bench_work *w, const mt_limit_rates *l) {
  return (double)s->load.batch * (w->fma / l->fma_per_s + w->dot / l->dot_per_s) / s->prefill_s;
}

/* ---- for people -------------------------------------------------------------------------- */

static void print_one(const summary *s, const mt_bench_work *w, const mt_limit_rates *l) {
  printf("prefill %10.2f tokens/s, %5.1f %% of the arithmetic that the instructions reach\n",
         s->prefill_per_s, 100 * peak_share(s, w, l));
  printf("decode  %10.2f tokens/s, %5.1f %% of the memory's rate\n", s->decode_per_s,
         100 * bandwidth_share(s, l));
  printf("a token reads %.2f MB of weights and %.2f MB of KV cache, together %.2f GB/s\n",
         s->weight_bytes * 1e-6, s->kv_bytes * 1e-6,
         s->decode_per_s * (s->weight_bytes + s->kv_bytes) * 1e-9);
  printf("collectives take %.1f %% of rank 0's time in prefill and %.1f %% in decode\n",
         100 * s->phase_share[MT_BENCH_PREFILL], 100 * s->phase_share[MT_BENCH_DECODE]);
  printf("planning, choosing and text take %.1f %% of decode\n", 100 * s->host_share);
}

static void print_batches(const summary *s, size_t n) {
  printf("%8s %12s %12s %16s %14s %10s\n", "batch", "TTFT s", "last TTFT s", "tokens/s each",
         "tokens/s all", "all, ×");
  for (size_t i = 0; i < n; i++)
    printf("%8zu %12.3f %12.3f %16.2f %14.2f %9.2f\n", s[i].load.batch, s[i].ttft_s,
           s[i].ttft_last_s, s[i].decode_per_s / (double)s[i].load.batch, s[i].decode_per_s,
           s[i].decode_per_s / s[0].decode_per_s);
}

static void print_shapes(const summary *s, size_t n) {
  printf("%8s %8s %12s %12s %12s %16s\n", "in", "out", "prefill s", "decode s", "decode %",
         "ms a token out");
  for (size_t i = 0; i < n; i++)
    printf("%8zu %8zu %12.3f %12.3f %12.1f %16.3f\n", s[i].load.prompt, s[i].load.generate,
           s[i].prefill_s, s[i].decode_s, 100 * s[i].decode_s / (s[i].prefill_s + s[i].decode_s),
           1e3 * s[i].decode_s / (double)s[i].load.generate);
}

/* ---- JSON -------------------------------------------------------------------------------- */

/* Sets members until one fails; then `failed`. */
typedef struct writer {
  mt_json *j;
  bool failed;
} writer;

static void put_real(writer *w, const char *key, double v) {
  if (mt_json_set(w->j, key, mt_json_new_real(v))) w->failed = true;
}
static void put_int(writer *w, const char *key, double v) {
  if (mt_json_set(w->j, key, mt_json_new_int((int64_t)v))) w->failed = true;
}
static void put_list(writer *w, const char *key, const double *v, size_t n) {
  mt_json *list = mt_json_new_array();
  for (size_t i = 0; list && i < n; i++)
    if (mt_json_append(list, mt_json_new_real(v[i]))) w->failed = true;
  if (mt_json_set(w->j, key, list)) w->failed = true;
}

static void put_summary(writer *w, const summary *s, const mt_limit_rates *l, size_t repeat) {
  put_int(w, "batch", (double)s->load.batch);
  put_int(w, "prompt", (double)s->load.prompt);
  put_int(w, "generate", (double)s->load.generate);
  put_real(w, "prefill_tokens_per_s", s->prefill_per_s);
  put_real(w, "decode_tokens_per_s", s->decode_per_s);
  put_list(w, "prefill_samples", s->prefill, repeat);
  put_list(w, "decode_samples", s->decode, repeat);
  put_real(w, "stream_tokens_per_s", s->decode_per_s / (double)s->load.batch);
  put_real(w, "ttft_s", s->ttft_s);
  put_real(w, "ttft_last_s", s->ttft_last_s);
  put_real(w, "prefill_s", s->prefill_s);
  put_real(w, "decode_s", s->decode_s);
  put_int(w, "weight_bytes_per_token", s->weight_bytes / (double)s->load.batch);
  put_int(w, "kv_bytes_per_token", s->kv_bytes / (double)s->load.batch);
  put_real(w, "bandwidth_share", bandwidth_share(s, l));
  put_real(w, "collective_share", s->collective_share);
  put_real(w, "prefill_collective_share", s->phase_share[MT_BENCH_PREFILL]);
  put_real(w, "decode_collective_share", s->phase_share[MT_BENCH_DECODE]);
  put_real(w, "host_share", s->host_share);
}

static int put_work(writer *out, const summary *s, const mt_session *session,
                    const mt_limit_rates *l, mt_err *e) {
  mt_bench_work prompt, token;
  size_t middle = s->load.prompt + s->load.generate / 2;
  int rc = mt_bench_count(session, 0, s->load.prompt, &prompt, e);
  if (!rc) rc = mt_bench_count(session, middle, middle + 1, &token, e);
  if (rc) return rc;
  put_real(out, "prefill_fma_operations", (double)s->load.batch * prompt.fma);
  put_real(out, "prefill_dot_operations", (double)s->load.batch * prompt.dot);
  put_int(out, "prefill_weight_bytes", s->prefill_weight_bytes);
  put_real(out, "decode_fma_operations_per_token", token.fma);
  put_real(out, "decode_dot_operations_per_token", token.dot);
  put_real(out, "peak_share", peak_share(s, &prompt, l));
  return MT_OK;
}

static void put_text(writer *w, const char *key, const char *text) {
  if (mt_json_set(w->j, key, mt_json_new_string(text, strlen(text)))) w->failed = true;
}

static void put_machine(writer *w, const mt_bench_plan *p, const mt_session *s,
                        const mt_limit_rates *l) {
  put_real(w, "read_bandwidth_bytes_per_s", l->read_bytes_per_s);
  put_list(w, "read_bandwidth_samples", l->sample[l->read], l->n);
  put_int(w, "read_buffer_bytes", (double)l->buffer_bytes);
  put_real(w, "peak_fma_operations_per_s", l->fma_per_s);
  put_real(w, "peak_dot_operations_per_s", l->dot_per_s);
  if (p->tokenize_s > 0) put_real(w, "tokenize_s", p->tokenize_s);
  put_int(w, "ranks", mt_comm_size(s->comm));
  put_int(w, "threads", mt_team_size(s->team));
  put_text(w, "isa", s->kn->isa);
  put_text(w, "activations",
           mt_model_activations(mt_model_get_weights(s->model), mt_session_int8(s->opt)));
}

static int print_json(const summary *sum, const mt_bench_plan *p, const mt_session *s,
                      const mt_limit_rates *l, const char *list, mt_err *e) {
  writer w = {.j = mt_json_new_object()};
  mt_json *rows = mt_json_new_array();
  int rc = MT_OK;
  w.failed = !w.j || !rows;
  for (size_t i = 0; !rc && !w.failed && i < p->n_loads; i++) {
    writer one = {.j = list ? mt_json_new_object() : w.j};
    put_summary(&one, &sum[i], l, p->repeat);
    rc = put_work(&one, &sum[i], s, l, e);
    w.failed |= one.failed || (list && mt_json_append(rows, one.j));
  }
  if (list && !w.failed)
    w.failed |= mt_json_set(w.j, list, rows) != MT_OK;
  else
    mt_json_free(rows);
  if (!rc && !w.failed) put_machine(&w, p, s, l);
  if (!rc && !w.failed) return mt_print_json(w.j, e);
  mt_json_free(w.j);
  return rc ? rc : mt_err_set(e, MT_ENOMEM, "no memory for JSON");
}

/* ---- both -------------------------------------------------------------------------------- */

static int print_table(const summary *sum, const mt_bench_plan *p, const mt_session *s,
                       const mt_limit_rates *l, const char *list, mt_err *e) {
  mt_bench_work work;
  int rc = mt_bench_count(s, 0, sum->load.prompt, &work, e);
  if (rc) return rc;
  printf("%d ranks × %d threads, kernels %s, activations %s\n", mt_comm_size(s->comm),
         mt_team_size(s->team), s->kn->isa,
         mt_model_activations(mt_model_get_weights(s->model), mt_session_int8(s->opt)));
  printf("memory gives %.2f GB/s, registers %.1f GFLOP/s and %.1f GOP/s of integer dot products\n",
         l->read_bytes_per_s * 1e-9, l->fma_per_s * 1e-9, l->dot_per_s * 1e-9);
  if (!list)
    print_one(sum, &work, l);
  else if (!strcmp(list, "batches"))
    print_batches(sum, p->n_loads);
  else
    print_shapes(sum, p->n_loads);
  return MT_OK;
}

int mt_bench_plan_print(const mt_bench_plan *p, const mt_session *s, const mt_limit_rates *l,
                        mt_err *e) {
  const char *list = mt_opt_is_set(s->opt, "batch")    ? "batches"
                     : mt_opt_is_set(s->opt, "shapes") ? "shapes"
                                                       : NULL;
  summary *sum = mt_calloc(p->n_loads, sizeof *sum);
  int rc = sum ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for %zu runs", p->n_loads);
  for (size_t i = 0; !rc && i < p->n_loads; i++) rc = summary_make(&sum[i], p, i, e);
  if (!rc && mt_opt_flag(s->opt, "json"))
    rc = print_json(sum, p, s, l, list, e);
  else if (!rc)
    rc = print_table(sum, p, s, l, list, e);
  for (size_t i = 0; sum && i < p->n_loads; i++) summary_free(&sum[i]);
  free(sum);
  return rc;
}
