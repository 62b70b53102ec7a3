/* chat: a conversation in the terminal. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "session.h"

enum { DEFAULT_ANSWER_TOKENS = 512 };

typedef struct talk {
  mt_session *s;
  const mt_texts *t;
  mt_json *messages; /* system message first, if any */
  size_t context;    /* tokens of the window: of the model or, if fewer, of the cache here */
  size_t model_context;
  size_t max_tokens; /* of an answer */
  mt_answer *answer;
  mt_buf text;
  mt_finish why;
  uint64_t turn; /* of the conversation: another seed for each */
  mt_err *err;
  int rc;
} talk;

static volatile sig_atomic_t interrupted;
static void on_interrupt(int sig) {
  (void)sig;
  interrupted = 1;
}

/* ---- history ----------------------------------------------------------------------------- */

static const char *role_of(const mt_json *messages, size_t i) {
  const char *role = mt_json_string(mt_json_get(mt_json_at(messages, i), "role"), NULL);
  return role ? role : "";
}

/* A copy of messages without those in [from, to). */
static mt_json *without(const mt_json *messages, size_t from, size_t to) {
  mt_json *out = mt_json_new_array();
  for (size_t i = 0; out && i < mt_json_len(messages); i++)
    if ((i < from || i >= to) && mt_json_append(out, mt_json_copy(mt_json_at(messages, i)))) {
      mt_json_free(out);
      return NULL;
    }
  return out;
}

/* Drops the oldest whole turn, a user message and what answers it; false where only the newest is
 * left. */
static bool drop_oldest(talk *k) {
  size_t n = mt_json_len(k->messages), from = !strcmp(role_of(k->messages, 0), "system"),
         to = from + 1;
  while (to < n && strcmp(role_of(k->messages, to), "user")) to++;
  if (to >= n) return false;
  mt_json *rest = without(k->messages, from, to);
  if (!rest) return false;
  mt_json_free(k->messages);
  k->messages = rest;
  return true;
}

/* The conversation as ids, cut down until an answer fits. */
static int fit(talk *k, mt_ids *ids, size_t *room) {
  size_t dropped = 0;
  for (;;) {
    ids->n = 0;
    int rc = mt_texts_encode_chat(k->t, k->messages, ids, k->err);
    if (rc) return rc;
    size_t want = k->max_tokens < k->context / 4 ? k->max_tokens : k->context / 4;
    if (ids->n + want <= k->context) break;
    if (!drop_oldest(k)) {
      if (ids->n < k->context) break; /* a shorter answer, then */
      return mt_err_set(k->err, MT_ERANGE, "this message has %zu tokens; the window has %zu",
                        ids->n, k->context);
    }
    dropped++;
  }
  if (dropped)
    fprintf(stderr, "[the window is full: the oldest %zu turn%s dropped]\n", dropped,
            dropped > 1 ? "s were" : " was");
  *room = k->context - ids->n < k->max_tokens ? k->context - ids->n : k->max_tokens;
  return MT_OK;
}

/* ---- an answer --------------------------------------------------------------------------- */

static void show(const talk *k, size_t from) {
  if (k->text.len == from) return;
  fwrite(k->text.data + from, 1, k->text.len - from, stdout);
  fflush(stdout);
}

static int on_token(void *arg, const mt_token_event *ev) {
  talk *k = arg;
  bool stopped = false;
  size_t from = k->text.len;
  k->rc = mt_answer_push(k->answer, ev->id, &k->text, &stopped, k->err);
  show(k, from);
  return k->rc || stopped || interrupted;
}

static void on_finish(void *arg, mt_finish why) {
  talk *k = arg;
  size_t from = k->text.len;
  k->why = why;
  if (!k->rc) k->rc = mt_answer_finish(k->answer, &k->text, k->err);
  show(k, from);
}

static int answer(talk *k) {
  mt_ids ids = {0};
  size_t room = 0;
  int rc = fit(k, &ids, &room);
  const char *const *stop;
  size_t n_stop = mt_opt_strings(k->s->opt, "stop", &stop);
  if (!rc) rc = mt_answer_new(&k->answer, k->t->tok, stop, n_stop, k->err);
  size_t planned = ids.n + k->max_tokens;
  mt_request r = {.ids = ids.id,
                  .n_ids = ids.n,
                  .max_tokens = room,
                  .planned_tokens = planned < k->model_context ? planned : k->model_context,
                  .sample = k->t->sample,
                  .on_token = on_token,
                  .on_finish = on_finish,
                  .arg = k};
  r.sample.seed += k->turn++;
  if (!mt_opt_flag(k->s->opt, "ignore-eos")) {
    r.eos = k->t->stop_ids;
    r.n_eos = k->t->n_stop_ids;
  }
  mt_buf_clear(&k->text);
  interrupted = 0;
  k->rc = MT_OK;
  if (!rc) rc = mt_engine_submit(k->s->engine, &r, k->err);
  if (!rc) rc = mt_engine_run(k->s->engine, k->err);
  if (!rc) rc = k->rc;
  if (!rc &&
      mt_texts_add_message(k->messages, "assistant", k->text.data ? k->text.data : "", k->text.len))
    rc = mt_err_set(k->err, MT_ENOMEM, "no memory for the conversation");
  if (!rc) {
    size_t used = ids.n + (size_t)mt_engine_get_counts(k->s->engine).output_tokens;
    putchar('\n');
    fflush(stdout);
    if (interrupted) fprintf(stderr, "[stopped]\n");
    if (k->why == MT_FINISH_LENGTH)
      fprintf(stderr, "[the answer was cut after %zu tokens]\n", room);
    fprintf(stderr, "[%zu of %zu tokens of the window used]\n", used, k->context);
  }
  mt_engine_reset_counts(k->s->engine);
  mt_answer_free(k->answer);
  k->answer = NULL;
  mt_ids_free(&ids);
  return rc;
}

/* ---- lines ------------------------------------------------------------------------------- */

static int reset(talk *k, const char *system) {
  mt_json *fresh = mt_json_new_array();
  int rc = fresh ? MT_OK : MT_ENOMEM;
  if (!rc && system && *system) rc = mt_texts_add_message(fresh, "system", system, strlen(system));
  if (rc) {
    mt_json_free(fresh);
    return mt_err_set(k->err, MT_ENOMEM, "no memory for the conversation");
  }
  mt_json_free(k->messages);
  k->messages = fresh;
  return MT_OK;
}

/* A command of the conversation: true if the line was one. */
static bool command(talk *k, const char *line, int *rc) {
  if (!strcmp(line, "/reset")) {
    const char *system = NULL;
    mt_buf keep = {0};
    if (!strcmp(role_of(k->messages, 0), "system"))
      system = mt_json_string(mt_json_get(mt_json_at(k->messages, 0), "content"), NULL);
    if (system && mt_buf_puts(&keep, system)) *rc = mt_err_set(k->err, MT_ENOMEM, "no memory");
    if (!*rc) *rc = reset(k, keep.data);
    mt_buf_free(&keep);
    fprintf(stderr, "[forgotten]\n");
    return true;
  }
  if (!strncmp(line, "/system", 7) && (line[7] == ' ' || !line[7])) {
    *rc = reset(k, line[7] ? line + 8 : "");
    fprintf(stderr, "[new conversation with %s system message]\n",
            line[7] && line[8] ? "this" : "no");
    return true;
  }
  if (line[0] != '/') return false;
  fprintf(stderr,
          "[/reset forgets the conversation, /system TEXT begins a new one, Ctrl-D ends]\n");
  return true;
}

/* Turns fail one by one (a message too long, a template that refuses) and leave the conversation as
 * it was, also where room was made for them; only a failed step ends it. */
static int say(talk *k, const char *line, size_t len) {
  size_t bad;
  if (!mt_utf8_valid(line, len, &bad)) {
    fprintf(stderr, "[not UTF-8 at byte %zu]\n", bad);
    return MT_OK;
  }
  mt_json *before = mt_json_copy(k->messages);
  int rc = before ? mt_texts_add_message(k->messages, "user", line, len) : MT_ENOMEM;
  if (rc) {
    mt_json_free(before);
    return mt_err_set(k->err, rc, "no memory for the conversation");
  }
  rc = answer(k);
  if (rc != MT_ERANGE && rc != MT_EINVAL) {
    mt_json_free(before);
    return rc;
  }
  fprintf(stderr, "[%s]\n", k->err->msg);
  mt_json_free(k->messages);
  k->messages = before;
  return MT_OK;
}

static int converse(talk *k) {
  char *line = NULL;
  size_t cap = 0;
  int rc = reset(k, mt_opt_string(k->s->opt, "system"));
  struct sigaction act = {.sa_handler = on_interrupt}, old;
  sigemptyset(&act.sa_mask);
  act.sa_flags = SA_RESTART;
  sigaction(SIGINT, &act, &old);
  sigaction(SIGUSR1, &act,
            NULL); /* Ctrl-C by way of the launcher and mpirun, which forwards this signal */
  bool terminal = isatty(STDIN_FILENO) || getenv("MUTIRAO_TERMINAL");
  while (!rc) {
    if (terminal) fputs("> ", stderr);
    ssize_t n = getline(&line, &cap, stdin);
    if (n < 0) break;
    while (n && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
    if (n && !command(k, line, &rc) && !rc) rc = say(k, line, (size_t)n);
  }
  sigaction(SIGINT, &old, NULL);
  free(line);
  mt_json_free(k->messages);
  mt_buf_free(&k->text);
  return rc;
}

static int lead(mt_session *s, const mt_texts *t, mt_err *e) {
  const mt_model_options *o = mt_model_get_options(s->model);
  size_t context = mt_model_get_config(s->model)->context;
  talk k = {.s = s,
            .t = t,
            .err = e,
            .context = o->kv_tokens < context ? o->kv_tokens : context,
            .model_context = context};
  k.max_tokens = mt_opt_is_set(s->opt, "max-tokens") ? (size_t)mt_opt_int(s->opt, "max-tokens")
                                                     : DEFAULT_ANSWER_TOKENS;
  int rc = mt_texts_check_vocab(t, mt_model_get_config(s->model)->vocab, e);
  return rc ? rc : converse(&k);
}

int mt_cmd_chat(const mt_opt *opt) {
  mt_err e = {0};
  mt_session s;
  mt_texts t = {0};
  int rc = mt_session_open(&s, opt, &e), own = MT_OK;
  if (!rc) {
    if (s.root) own = mt_texts_open(&t, opt, s.path, &e);
    if (s.root && !own && !t.tmpl)
      own = mt_err_set(&e, MT_EINVAL,
                       "this model has no chat template; give one with --chat-template FILE");
    if (s.root && !own) mt_texts_log_sampling(&t);
    rc = mt_session_load(&s, own, (mt_room){.seqs = 1}, &e);
  }
  if (!rc) {
    /* Ctrl-C stops the answer, which is rank 0's business; the other ranks wait for its plans. */
    if (!s.root) {
      signal(SIGINT, SIG_IGN);
      signal(SIGUSR1, SIG_IGN);
    }
    if (s.root) own = lead(&s, &t, &e);
    rc = mt_session_follow(&s, own, &e);
  }
  mt_texts_free(&t);
  return mt_session_close(&s, rc, &e);
}
