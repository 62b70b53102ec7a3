/* generate: a prompt to text, streamed to standard output; what it took on standard error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "report.h"
#include "session.h"

typedef struct output {
  const mt_texts *t;
  mt_answer *answer;
  mt_buf text; /* all of it */
  mt_ids ids;
  double *logprob; /* [ids.n] with --json; before penalties and filters, as score has it */
  mt_finish why;
  bool stream; /* show text as it comes */
  mt_err *err;
  int rc;
  uint64_t start_ns, first_ns, last_ns; /* submitted, first token, last token */
} output;

static void show(output *o, size_t from) {
  if (!o->stream || o->text.len == from) return;
  int rc = mt_write_all("-", o->text.data + from, o->text.len - from, o->err);
  if (!o->rc) o->rc = rc;
}

static int on_token(void *arg, const mt_token_event *ev) {
  output *o = arg;
  o->last_ns = mt_clock_ns();
  if (!o->first_ns) o->first_ns = o->last_ns;
  if (mt_ids_push(&o->ids, ev->id))
    o->rc = mt_err_set(o->err, MT_ENOMEM, "no memory for the output");
  o->logprob[ev->index] = ev->logprob;
  bool stopped = false;
  size_t from = o->text.len;
  if (!o->rc && !o->answer) o->rc = mt_texts_decode(o->t, ev->id, &o->text, o->err);
  if (!o->rc && o->answer) o->rc = mt_answer_push(o->answer, ev->id, &o->text, &stopped, o->err);
  show(o, from);
  return stopped || o->rc;
}

static void on_finish(void *arg, mt_finish why) {
  output *o = arg;
  size_t from = o->text.len;
  o->why = why;
  if (!o->rc && o->answer) o->rc = mt_answer_finish(o->answer, &o->text, o->err);
  show(o, from);
}

/* ---- what is said afterwards ------------------------------------------------------------- */

static void warn_repetition(const output *o) {
  size_t period, times;
  if (mt_repeat_find(o->ids.id, o->ids.n, &period, &times))
    mt_log(MT_LOG_WARN,
           "the text repeats itself: its last %zu tokens stand there %zu times in a row", period,
           times);
}

static mt_json *choice_json(const output *o, size_t n_prompt) {
  mt_json *j = mt_json_new_object(), *ids = mt_json_new_array(), *logprobs = mt_json_new_array();
  int rc = j && ids && logprobs ? MT_OK : MT_ENOMEM;
  for (size_t i = 0; !rc && i < o->ids.n; i++) {
    rc = mt_json_append(ids, mt_json_new_int(o->ids.id[i]));
    if (!rc) rc = mt_json_append(logprobs, mt_json_new_real(o->logprob[i]));
  }
  if (!rc)
    rc = mt_json_set(j, "text", mt_json_new_string(o->text.data ? o->text.data : "", o->text.len));
  /* No shortcut: set takes each value, also on failure. */
  if (mt_json_set(j, "ids", ids)) rc = MT_ENOMEM;
  if (mt_json_set(j, "logprobs", logprobs)) rc = MT_ENOMEM;
  const char *why = mt_finish_name(o->why);
  if (!rc) rc = mt_json_set(j, "finish_reason", mt_json_new_string(why, strlen(why)));
  if (!rc) rc = mt_json_set(j, "prompt_tokens", mt_json_new_int((int64_t)n_prompt));
  if (!rc) rc = mt_json_set(j, "output_tokens", mt_json_new_int((int64_t)o->ids.n));
  if (!rc && o->first_ns)
    rc = mt_json_set(j, "ttft_s", mt_json_new_real((double)(o->first_ns - o->start_ns) * 1e-9));
  if (!rc) return j;
  mt_json_free(j);
  return NULL;
}

static int write_ids(const char *path, const output *o, size_t n, mt_err *e) {
  mt_buf line = {0};
  int rc = MT_OK;
  for (size_t c = 0; !rc && c < n; c++) {
    for (size_t i = 0; !rc && i < o[c].ids.n; i++)
      rc = mt_buf_printf(&line, i ? ",%u" : "%u", o[c].ids.id[i]);
    if (!rc) rc = mt_buf_putc(&line, '\n');
  }
  if (rc) mt_err_set(e, rc, "no memory for the ids");
  if (!rc) rc = mt_write_all(path, line.data ? line.data : "", line.len, e);
  mt_buf_free(&line);
  return rc;
}

static int report(mt_session *s, output *o, size_t n, size_t n_prompt, mt_err *e) {
  mt_report r = {.prompt_tokens = n_prompt};
  for (size_t c = 0; c < n; c++) {
    r.output_tokens += o[c].ids.n;
    if (o[c].why == MT_FINISH_LENGTH)
      mt_log(MT_LOG_WARN,
             "stopped by --max-tokens or the end of the context after %zu tokens: the text is not "
             "finished",
             o[c].ids.n);
    warn_repetition(&o[c]);
    if (o[c].first_ns && (!r.ttft_ns || o[c].first_ns - o[c].start_ns < r.ttft_ns))
      r.ttft_ns = o[c].first_ns - o[c].start_ns;
    if (o[c].ids.n > 1) {
      r.decode_ns += o[c].last_ns - o[c].first_ns;
      r.decode_tokens += o[c].ids.n - 1;
    }
  }
  int rc = mt_report_gather(&r, s, e);
  if (!rc) mt_report_log(&r);
  mt_report_free(&r);
  return rc;
}

/* The text may hold any byte, NUL too. */
static void print_choice(size_t c, const mt_buf *text) {
  printf("--- choice %zu\n", c);
  if (text->len) fwrite(text->data, 1, text->len, stdout);
  putchar('\n');
}

static int print_results(const mt_opt *opt, output *o, size_t n, size_t n_prompt, mt_err *e) {
  int rc = MT_OK;
  if (mt_opt_flag(opt, "json")) {
    mt_json *all = mt_json_new_object(), *list = mt_json_new_array();
    for (size_t c = 0; all && list && c < n; c++)
      if (mt_json_append(list, choice_json(&o[c], n_prompt))) rc = MT_ENOMEM;
    if (!all || mt_json_set(all, "choices", list)) rc = MT_ENOMEM;
    if (!rc)
      rc = mt_print_json(all, e);
    else
      mt_json_free(all);
  } else if (n > 1) {
    for (size_t c = 0; c < n; c++) print_choice(c, &o[c].text);
  } else if (!o->text.len || o->text.data[o->text.len - 1] != '\n') {
    putchar('\n');
  }
  if (!rc) rc = mt_write_all("-", NULL, 0, e);
  const char *ids_out = mt_opt_string(opt, "ids-out");
  if (!rc && ids_out) rc = write_ids(ids_out, o, n, e);
  return rc;
}

/* ---- the run ----------------------------------------------------------------------------- */

static int echo_prompt(const mt_texts *t, const mt_ids *prompt, mt_err *e) {
  mt_buf text = {0};
  int rc = t->tok ? mt_tokenizer_decode(t->tok, prompt->id, prompt->n, true, &text, e) : MT_OK;
  if (!rc && text.len) rc = mt_write_all("-", text.data, text.len, e);
  mt_buf_free(&text);
  return rc;
}

/* What is planned is the request's, not the machine's: without --max-tokens all of the model's
 * context, also where the cache here ends sooner. */
static int submit(mt_session *s, const mt_texts *t, const mt_ids *prompt, size_t max_tokens,
                  output *o, size_t n, mt_err *e) {
  size_t planned = mt_opt_is_set(s->opt, "max-tokens") ? 0 : mt_model_get_config(s->model)->context;
  const char *const *stop;
  size_t n_stop = mt_opt_strings(s->opt, "stop", &stop);
  int rc = MT_OK;
  for (size_t c = 0; !rc && c < n; c++) {
    mt_request r = {.ids = prompt->id,
                    .n_ids = prompt->n,
                    .max_tokens = max_tokens,
                    .planned_tokens = planned,
                    .sample = t->sample,
                    .on_token = on_token,
                    .on_finish = on_finish,
                    .arg = &o[c],
                    .logprobs = mt_opt_flag(s->opt, "json"),
                    .no_kv_cache = mt_opt_flag(s->opt, "no-kv-cache")};
    r.sample.choice = (uint32_t)c;
    if (!mt_opt_flag(s->opt, "ignore-eos")) {
      r.eos = t->stop_ids;
      r.n_eos = t->n_stop_ids;
    }
    o[c] = (output){.t = t,
                    .err = e,
                    .start_ns = mt_clock_ns(),
                    .stream = n == 1 && !mt_opt_flag(s->opt, "json")};
    if (t->tok) rc = mt_answer_new(&o[c].answer, t->tok, stop, n_stop, e);
    if (!rc) rc = mt_engine_submit(s->engine, &r, e);
    if (!rc) o[c].logprob = mt_malloc(max_tokens, sizeof *o[c].logprob);
    if (!rc && !o[c].logprob) rc = mt_err_set(e, MT_ENOMEM, "no memory for %zu tokens", max_tokens);
  }
  return rc;
}

static int lead(mt_session *s, const mt_texts *t, const mt_ids *prompt, size_t n, mt_err *e) {
  const mt_model_options *room = mt_model_get_options(s->model);
  size_t context = mt_model_get_config(s->model)->context;
  if (room->kv_tokens < context) context = room->kv_tokens;
  size_t max_tokens = mt_opt_is_set(s->opt, "max-tokens") ? (size_t)mt_opt_int(s->opt, "max-tokens")
                      : context > prompt->n               ? context - prompt->n
                                                          : 1;
  output *o = mt_calloc(n, sizeof *o);
  int rc = o ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for %zu choices", n);
  if (!rc) rc = mt_texts_check_vocab(t, mt_model_get_config(s->model)->vocab, e);
  if (!rc) rc = submit(s, t, prompt, max_tokens, o, n, e);
  if (!rc && mt_opt_flag(s->opt, "echo")) rc = echo_prompt(t, prompt, e);
  if (!rc) rc = mt_engine_run(s->engine, e);
  for (size_t c = 0; !rc && c < n; c++) rc = o[c].rc;
  if (!rc) rc = print_results(s->opt, o, n, prompt->n, e);
  if (!rc) rc = report(s, o, n, prompt->n, e);
  for (size_t c = 0; o && c < n; c++) {
    mt_answer_free(o[c].answer);
    mt_buf_free(&o[c].text);
    mt_ids_free(&o[c].ids);
    free(o[c].logprob);
  }
  free(o);
  return rc;
}

int mt_cmd_generate(const mt_opt *opt) {
  mt_err e = {0};
  mt_session s;
  mt_texts t = {0};
  mt_ids prompt = {0};
  size_t n = (size_t)mt_opt_int(opt, "choices");
  int rc = mt_session_open(&s, opt, &e), own = MT_OK;
  if (!rc) {
    mt_room room = {.seqs = n};
    if (s.root) {
      own = mt_texts_open(&t, opt, s.path, &e);
      if (!own) own = mt_texts_prompt(&t, opt, &prompt, &e);
      if (!own) mt_texts_log_sampling(&t);
      if (mt_opt_is_set(opt, "max-tokens"))
        room.tokens =
            n * mt_kv_blocks_for(prompt.n + (size_t)mt_opt_int(opt, "max-tokens")) * MT_KV_BLOCK;
    }
    rc = mt_session_load(&s, own, room, &e);
  }
  if (!rc) {
    if (s.root) own = lead(&s, &t, &prompt, n, &e);
    rc = mt_session_follow(&s, own, &e);
  }
  mt_texts_free(&t);
  mt_ids_free(&prompt);
  return mt_session_close(&s, rc, &e);
}
