/* trace: one token's journey through the six stages: ids, embedding, layers, logits, choice, text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "trace.h"

/* ---- what happens at the choice ---------------------------------------------------------- */

static void keep_stage(void *arg, const mt_sample_stage *st) {
  trace_step *t = arg;
  trace_stage *p = mt_realloc(t->stage, t->n_stages + 1, sizeof *p);
  if (!p) {
    t->rc = MT_ENOMEM;
    return;
  }
  t->stage = p;
  trace_stage *s = &p[t->n_stages];
  *s = (trace_stage){.name = st->name,
                     .temperature = t->temperature,
                     .kept = st->kept,
                     .entropy = st->entropy,
                     .nucleus = st->nucleus,
                     .nucleus_p = st->nucleus_p,
                     .n_top = st->n_top,
                     .top = mt_malloc(st->n_top, sizeof *s->top)};
  if (!s->top) {
    t->rc = MT_ENOMEM;
    return;
  }
  memcpy(s->top, st->top, st->n_top * sizeof *s->top);
  t->n_stages++;
}

/* The same logits at each temperature asked for; then the choice that counts. */
static int choose(void *arg, mt_sampler *s, const mt_sample_params *p, const float *logits,
                  uint64_t position, uint32_t *id, double *logprob, mt_err *e) {
  trace_run *t = arg;
  const double *temperature;
  size_t n = mt_opt_doubles(t->s->opt, "temperatures", &temperature);
  uint64_t start = mt_clock_ns();
  mt_sample_trace tr = {
      .fn = keep_stage, .arg = &t->step, .n_top = (size_t)mt_opt_int(t->s->opt, "top")};
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < n; i++) {
    mt_sample_params at = *p;
    uint32_t other;
    at.temperature = t->step.temperature = temperature[i];
    rc = mt_sampler_choose_traced(s, &at, logits, position, &tr, &other, NULL, e);
  }
  t->step.temperature = p->temperature;
  if (!rc && !n) rc = mt_sampler_choose_traced(s, p, logits, position, &tr, id, logprob, e);
  if (!rc && n) rc = mt_sampler_choose(s, p, logits, position, id, logprob, e);
  t->step.choice_ns = mt_clock_ns() - start;
  return rc ? rc : t->step.rc;
}

static int on_token(void *arg, const mt_token_event *ev) {
  trace_run *t = arg;
  t->step.id = ev->id;
  t->step.position = ev->position;
  t->step.logprob = ev->logprob;
  t->step.chosen = true;
  if (mt_ids_push(&t->ids, ev->id)) t->step.rc = MT_ENOMEM;
  return t->step.rc;
}

static void on_finish(void *arg, mt_finish why) {
  ((trace_run *)arg)->why = why;
}

/* ---- a step ------------------------------------------------------------------------------ */

static void clear_step(trace_step *s) {
  for (size_t i = 0; i < s->n_stages; i++) free(s->stage[i].top);
  free(s->stage);
  free(s->attention);
  mt_buf_free(&s->text);
  mt_model_stats *rank = s->rank;
  *s = (trace_step){.rank = rank};
}

static int gather_attention(trace_run *t, mt_err *e) {
  const mt_model_config *c = mt_model_get_config(t->s->model);
  t->step.n_keys = t->step.position;
  t->step.attention = mt_malloc((size_t)c->n_layers * c->n_heads * t->step.n_keys, sizeof(float));
  if (!t->step.attention)
    return mt_err_set(e, MT_ENOMEM, "no memory for the attention of %zu keys", t->step.n_keys);
  return mt_engine_attention(t->s->engine, t->step.n_keys, t->step.attention, e);
}

/* Steps of the engine until a token is chosen: the prompt may take several. */
static int next_token(trace_run *t, bool *busy, mt_err *e) {
  clear_step(&t->step);
  int rc = MT_OK;
  uint64_t start = mt_clock_ns();
  while (!rc && *busy && !t->step.chosen && !t->why) rc = mt_engine_step(t->s->engine, busy, e);
  t->step.total_ns = mt_clock_ns() - start;
  if (!rc) rc = mt_engine_stats(t->s->engine, t->step.rank, e);
  if (!rc && t->step.chosen && mt_opt_flag(t->s->opt, "attention")) rc = gather_attention(t, e);
  start = mt_clock_ns();
  if (!rc && t->step.chosen) rc = mt_texts_decode(t->texts, t->step.id, &t->step.text, e);
  t->step.text_ns = mt_clock_ns() - start;
  return rc;
}

static int lead(mt_session *s, mt_texts *texts, const mt_ids *prompt, uint64_t tokenize_ns,
                mt_err *e) {
  trace_run t = {.s = s, .texts = texts, .prompt = prompt, .tokenize_ns = tokenize_ns};
  t.step.rank = mt_calloc((size_t)mt_comm_size(s->comm), sizeof *t.step.rank);
  size_t steps = (size_t)mt_opt_int(s->opt, "tokens");
  mt_request r = {.ids = prompt->id,
                  .n_ids = prompt->n,
                  .max_tokens = steps,
                  .sample = texts->sample,
                  .choose = choose,
                  .on_token = on_token,
                  .on_finish = on_finish,
                  .arg = &t,
                  .logprobs = true,
                  .eos = texts->stop_ids,
                  .n_eos = texts->n_stop_ids};
  int rc = t.step.rank ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for statistics");
  if (!rc) rc = mt_texts_check_vocab(texts, mt_model_get_config(s->model)->vocab, e);
  if (!rc && mt_opt_flag(s->opt, "attention")) rc = mt_engine_probe(s->engine, true, e);
  if (!rc) rc = mt_engine_submit(s->engine, &r, e);
  mt_json *list = mt_opt_flag(s->opt, "json") ? mt_json_new_array() : NULL;
  bool busy = true;
  for (t.number = 0; !rc && busy; t.number++) {
    rc = next_token(&t, &busy, e);
    if (rc || (!t.step.chosen && !t.step.n_stages)) break;
    if (list)
      rc = mt_json_append(list, mt_trace_step_json(&t))
               ? mt_err_set(e, MT_ENOMEM, "no memory for JSON")
               : MT_OK;
    else
      rc = mt_trace_print_step(&t, e);
  }
  if (!rc && list) {
    mt_json *all = mt_json_new_object();
    rc = mt_json_set(all, "steps", list) ? mt_err_set(e, MT_ENOMEM, "no memory for JSON")
                                         : mt_print_json(all, e);
  } else {
    mt_json_free(list);
  }
  clear_step(&t.step);
  free(t.step.rank);
  mt_ids_free(&t.ids);
  return rc;
}

int mt_cmd_trace(const mt_opt *opt) {
  mt_err e = {0};
  mt_session s;
  mt_texts t = {0};
  mt_ids prompt = {0};
  uint64_t tokenize_ns = 0;
  int rc = mt_session_open(&s, opt, &e), own = MT_OK;
  if (!rc) {
    mt_room room = {.seqs = 1};
    if (s.root) {
      own = mt_texts_open(&t, opt, s.path, &e);
      uint64_t start = mt_clock_ns();
      if (!own) own = mt_texts_prompt(&t, opt, &prompt, &e);
      tokenize_ns = mt_clock_ns() - start;
      room.tokens = prompt.n + (size_t)mt_opt_int(opt, "tokens");
    }
    rc = mt_session_load(&s, own, room, &e);
  }
  if (!rc) {
    if (s.root) own = lead(&s, &t, &prompt, tokenize_ns, &e);
    rc = mt_session_follow(&s, own, &e);
  }
  mt_texts_free(&t);
  mt_ids_free(&prompt);
  return mt_session_close(&s, rc, &e);
}
