/* What an invocation of `bench` measures: one load, loads by batch, or loads by shape. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* ---- which loads ------------------------------------------------------------------------- */

static int add_load(mt_bench_plan *p, mt_bench_load load, mt_err *e) {
  mt_bench_load *more = mt_realloc(p->load, p->n_loads + 1, sizeof *more);
  if (!more) return mt_err_set(e, MT_ENOMEM, "no memory for %zu runs", p->n_loads + 1);
  p->load = more;
  p->load[p->n_loads++] = load;
  return MT_OK;
}

static int add_batches(mt_bench_plan *p, const mt_opt *o, mt_bench_load one, mt_err *e) {
  const uint32_t *batch;
  size_t n = mt_opt_ids(o, "batch", &batch);
  int rc = n ? MT_OK : mt_err_set(e, MT_EINVAL, "--batch: no number of sequences");
  for (size_t i = 0; !rc && i < n; i++) {
    one.batch = batch[i];
    rc = batch[i] ? add_load(p, one, e) : mt_err_set(e, MT_EINVAL, "--batch: 0 sequences");
  }
  return rc;
}

/* A count of at least 1 at *s, which moves behind it; 0 where there is none. */
static size_t scan_count(const char **s) {
  char *end;
  if (**s < '0' || **s > '9') return 0;
  unsigned long v = strtoul(*s, &end, 10);
  *s = end;
  return v <= INT32_MAX ? v : 0;
}

static int add_shapes(mt_bench_plan *p, const char *text, mt_err *e) {
  for (const char *s = text;;) {
    mt_bench_load load = {.batch = 1, .prompt = scan_count(&s)};
    if (*s == ':') {
      s++;
      load.generate = scan_count(&s);
    }
    if (!load.prompt || !load.generate || (*s && *s != ','))
      return mt_err_set(e, MT_EINVAL,
                        "--shapes: '%.60s' is not a list of IN:OUT, as in 5000:1,1:500", text);
    int rc = add_load(p, load, e);
    if (rc || !*s++) return rc;
  }
}

int mt_bench_plan_open(mt_bench_plan *p, const mt_opt *o, mt_err *e) {
  *p = (mt_bench_plan){.repeat = (size_t)mt_opt_int(o, "repeat")};
  mt_bench_load one = {1, (size_t)mt_opt_int(o, "prompt"), (size_t)mt_opt_int(o, "generate")};
  int rc = mt_opt_is_set(o, "batch")    ? add_batches(p, o, one, e)
           : mt_opt_is_set(o, "shapes") ? add_shapes(p, mt_opt_string(o, "shapes"), e)
                                        : add_load(p, one, e);
  size_t n;
  if (!rc && mt_size_mul(p->n_loads, p->repeat, &n)) p->time = mt_calloc(n, sizeof *p->time);
  return rc || p->time ? rc : mt_err_set(e, MT_ENOMEM, "no memory for the samples");
}

void mt_bench_plan_close(mt_bench_plan *p) {
  free(p->load);
  free(p->time);
}

mt_room mt_bench_plan_room(const mt_bench_plan *p, const mt_opt *o) {
  mt_room room = {.seqs = 1};
  for (size_t i = 0; i < p->n_loads; i++) {
    size_t tokens = mt_bench_room(o, p->load[i]);
    if (tokens > room.tokens) room.tokens = tokens;
    if (p->load[i].batch > room.seqs) room.seqs = p->load[i].batch;
  }
  return room;
}

/* ---- the runs ---------------------------------------------------------------------------- */

/* Seconds to encode a text of about as many tokens as the first load's prompt. */
static int time_tokenizer(mt_bench_plan *p, const mt_bench *b, mt_err *e) {
  mt_buf text = {0};
  mt_ids ids = {0};
  size_t vocab = mt_tokenizer_vocab(b->tok), n = p->load[0].prompt;
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < n; i++) {
    uint32_t id = (uint32_t)(mt_uniform(1, 0, i, 0) * (double)vocab);
    rc = mt_tokenizer_decode(b->tok, &id, 1, true, &text, e);
  }
  uint64_t t = mt_clock_ns();
  if (!rc) rc = mt_tokenizer_encode(b->tok, text.data ? text.data : "", text.len, 0, &ids, e);
  double s = (double)(mt_clock_ns() - t) * 1e-9;
  if (!rc && ids.n) p->tokenize_s = s * (double)n / (double)ids.n;
  mt_buf_free(&text);
  mt_ids_free(&ids);
  return rc;
}

int mt_bench_plan_run(mt_bench_plan *p, mt_session *s, mt_err *e) {
  mt_bench b = {.s = s};
  mt_err no_tokenizer;
  (void)mt_tokenizer_open(&b.tok, s->path, &no_tokenizer); /* its time is not measured then */
  mt_bench_load warm = p->load[0]; /* short: pages, caches and threads, not the figures */
  if (warm.prompt > 128) warm.prompt = 128;
  if (warm.generate > 4) warm.generate = 4;
  mt_bench_time dropped;
  int rc = b.tok ? time_tokenizer(p, &b, e) : MT_OK;
  if (!rc) rc = mt_bench_run(&b, warm, &dropped, e);
  /* Repeats outermost: what slows the machine for a while slows all loads alike. */
  for (size_t r = 0; !rc && r < p->repeat; r++)
    for (size_t i = 0; !rc && i < p->n_loads; i++)
      rc = mt_bench_run(&b, p->load[i], &p->time[i * p->repeat + r], e);
  mt_tokenizer_free(b.tok);
  return rc;
}
