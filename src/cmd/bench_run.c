/* One timed run: prompts that come at once, then steps in which all of them decode. */
#include <stdlib.h>

#include "bench.h"

struct crowd;

/* One of the sequences. */
typedef struct stream {
  struct crowd *crowd;
  mt_stream *text;   /* NULL without a tokenizer */
  uint64_t first_ns; /* the clock at its first token; 0: not yet */
} stream;

typedef struct crowd {
  mt_bench *b;
  mt_bench_load load;
  stream *stream; /* [batch] */
  size_t n_started, n_tokens;
  bool stop;        /* enough: every sequence ends with its next token */
  uint64_t host_ns; /* choosing and turning into text */
  mt_buf out;
} crowd;

/* Sequences whose prompts are done decode while others still wait for theirs. A step has room for
 * a chunk or for all sequences, and decode rows come first: at worst this many are left for
 * prompts. */
static size_t head_start(const mt_opt *o, mt_bench_load load) {
  if (load.batch == 1) return 0;
  size_t chunk = mt_opt_is_set(o, "chunk") ? (size_t)mt_opt_int(o, "chunk") : MT_SESSION_CHUNK;
  size_t left = chunk > load.batch ? chunk - load.batch : 1;
  return load.batch * load.prompt / left + load.batch;
}

static size_t most_tokens(const mt_opt *o, mt_bench_load load) {
  return load.generate + 1 + head_start(o, load);
}

size_t mt_bench_room(const mt_opt *o, mt_bench_load load) {
  size_t one = load.prompt + most_tokens(o, load);
  return load.batch == 1 ? one : load.batch * mt_kv_blocks_for(one) * MT_KV_BLOCK;
}

/* ---- what the engine calls --------------------------------------------------------------- */

static int choose(void *arg, mt_sampler *s, const mt_sample_params *p, const float *logits,
                  uint64_t position, uint32_t *id, double *logprob, mt_err *e) {
  stream *st = arg;
  uint64_t t = mt_clock_ns();
  int rc = mt_sampler_choose(s, p, logits, position, id, logprob, e);
  st->crowd->host_ns += mt_clock_ns() - t;
  return rc;
}

static int on_token(void *arg, const mt_token_event *ev) {
  stream *st = arg;
  crowd *c = st->crowd;
  uint64_t t = mt_clock_ns();
  if (!st->first_ns) {
    st->first_ns = t;
    c->n_started++;
  }
  c->n_tokens++;
  mt_buf_clear(&c->out);
  if (st->text) (void)mt_stream_push(st->text, ev->id, &c->out, NULL);
  c->host_ns += mt_clock_ns() - t;
  return c->stop;
}

/* ---- the run ----------------------------------------------------------------------------- */

static int submit_one(crowd *c, size_t i, uint32_t *ids, mt_err *e) {
  mt_session *s = c->b->s;
  stream *st = &c->stream[i];
  uint32_t vocab = mt_model_get_config(s->model)->vocab;
  st->crowd = c;
  for (size_t k = 0; k < c->load.prompt; k++)
    ids[k] = (uint32_t)(mt_uniform(c->b->runs, (uint32_t)i, k, 0) * vocab);
  int rc = c->b->tok ? mt_stream_new(&st->text, c->b->tok, false, e) : MT_OK;
  mt_request r = {.ids = ids,
                  .n_ids = c->load.prompt,
                  .max_tokens = most_tokens(s->opt, c->load),
                  .choose = choose,
                  .on_token = on_token,
                  .arg = st};
  mt_sample_params_init(&r.sample);
  r.sample.temperature = mt_opt_double(s->opt, "temperature");
  r.sample.top_p = mt_opt_double(s->opt, "top-p");
  return rc ? rc : mt_engine_submit(s->engine, &r, e);
}

static int submit_all(crowd *c, mt_err *e) {
  uint32_t *ids = mt_malloc(c->load.prompt, sizeof *ids);
  int rc = ids ? MT_OK
               : mt_err_set(e, MT_ENOMEM, "no memory for a prompt of %zu tokens", c->load.prompt);
  for (size_t i = 0; !rc && i < c->load.batch; i++) rc = submit_one(c, i, ids, e);
  free(ids);
  c->b->runs++;
  return rc;
}

/* Steps until *count reaches `goal`; *busy says whether anything is left. */
static int step_until(crowd *c, const size_t *count, size_t goal, bool *busy, size_t *steps,
                      mt_err *e) {
  int rc = MT_OK;
  for (*busy = true; !rc && *busy && *count < goal; ++*steps)
    rc = mt_engine_step(c->b->s->engine, busy, e);
  return rc;
}

/* Statistics since the last call, of rank 0 and (bytes) of all ranks. */
static int take_stats(crowd *c, mt_bench_time *out, int phase, mt_err *e) {
  mt_session *s = c->b->s;
  int n = mt_comm_size(s->comm);
  mt_model_stats *st = mt_calloc((size_t)n, sizeof *st);
  if (!st) return mt_err_set(e, MT_ENOMEM, "no memory for statistics");
  int rc = mt_engine_stats(s->engine, st, e);
  out->model_ns[phase] = (double)(st->embed_ns + st->attention_ns + st->ffn_ns + st->head_ns);
  out->collective_ns[phase] = (double)st->collective_ns;
  bool decode = phase == MT_BENCH_DECODE;
  for (int r = 0; r < n; r++) {
    *(decode ? &out->decode_weight_bytes : &out->prefill_weight_bytes) +=
        (double)st[r].weight_bytes;
    if (decode) out->decode_kv_bytes += (double)st[r].kv_bytes;
  }
  free(st);
  return rc;
}

static int note_first_tokens(const crowd *c, uint64_t start, mt_bench_time *out, mt_err *e) {
  size_t n = c->load.batch;
  double *ttft = mt_malloc(n, sizeof *ttft);
  if (!ttft) return mt_err_set(e, MT_ENOMEM, "no memory for %zu sequences", n);
  for (size_t i = 0; i < n; i++) {
    ttft[i] = (double)(c->stream[i].first_ns - start) * 1e-9;
    if (ttft[i] > out->ttft_last_s) out->ttft_last_s = ttft[i];
  }
  out->ttft_s = mt_bench_median(ttft, n);
  free(ttft);
  return MT_OK;
}

static int time_crowd(crowd *c, mt_bench_time *out, mt_err *e) {
  bool busy;
  size_t steps = 0;
  uint64_t start = mt_clock_ns();
  int rc = step_until(c, &c->n_started, c->load.batch, &busy, &steps, e);
  out->prefill_s = (double)(mt_clock_ns() - start) * 1e-9;
  if (!rc) rc = note_first_tokens(c, start, out, e);
  if (!rc) rc = take_stats(c, out, MT_BENCH_PREFILL, e);
  if (rc) return rc;
  c->n_tokens = 0;
  c->host_ns = 0;
  start = mt_clock_ns();
  rc = step_until(c, &c->n_tokens, c->load.batch * c->load.generate, &busy, &out->decode_steps, e);
  out->decode_s = (double)(mt_clock_ns() - start) * 1e-9;
  double host_ns = (double)c->host_ns;
  if (!rc) rc = take_stats(c, out, MT_BENCH_DECODE, e);
  if (rc) return rc;
  /* What was chosen was chosen inside the model's time: its logits are handed over there. */
  out->host_s = out->decode_s - (out->model_ns[MT_BENCH_DECODE] - host_ns) * 1e-9;
  if (c->n_tokens != c->load.batch * c->load.generate)
    return mt_err_set(
        e, MT_ERANGE,
        "some sequences ended before all %zu had begun to decode: give a larger --chunk",
        c->load.batch);
  c->stop = true;
  return busy ? mt_engine_run(c->b->s->engine, e) : MT_OK;
}

int mt_bench_run(mt_bench *b, mt_bench_load load, mt_bench_time *out, mt_err *e) {
  *out = (mt_bench_time){0};
  crowd c = {.b = b, .load = load, .stream = mt_calloc(load.batch, sizeof *c.stream)};
  int rc = c.stream ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for %zu sequences", load.batch);
  if (!rc) rc = submit_all(&c, e);
  if (!rc) rc = time_crowd(&c, out, e);
  for (size_t i = 0; c.stream && i < load.batch; i++) mt_stream_free(c.stream[i].text);
  free(c.stream);
  mt_buf_free(&c.out);
  return rc;
}
