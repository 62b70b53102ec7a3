/* score: log-probability of each token of a text and its perplexity, over a sliding window. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "session.h"

typedef struct scorer {
  const uint32_t *ids; /* the whole text */
  size_t vocab;
  const mt_kernels *kn;
  size_t base;     /* of the window in the text */
  double *logprob; /* [n_ids]; of token i given what the window holds before it */
  mt_err *err;
} scorer;

static int on_prompt(void *arg, size_t position, const float *logits) {
  scorer *s = arg;
  size_t next = s->base + position + 1;
  double lp = mt_logprob(s->kn, logits, s->vocab, s->ids[next]);
  if (lp != lp)
    return mt_err_set(s->err, MT_ENUMERIC, "the logits at position %zu are not numbers", next - 1);
  s->logprob[next] = lp;
  return MT_OK;
}

/* Windows [base, base + w) of the text; each scores the tokens that no earlier one did. The last
 * token of a window is only predicted, so its own row need not be computed. */
static int score(mt_session *s, scorer *sc, size_t n, size_t window, size_t stride, mt_err *e) {
  int rc = MT_OK;
  for (size_t done = 1; !rc && done < n;) {
    size_t end = sc->base + window < n ? sc->base + window : n;
    mt_request r = {.ids = sc->ids + sc->base,
                    .n_ids = end - 1 - sc->base,
                    .on_prompt = on_prompt,
                    .prompt_from = done - 1 - sc->base,
                    .arg = sc};
    mt_sample_params_init(&r.sample);
    rc = mt_engine_submit(s->engine, &r, e);
    if (!rc) rc = mt_engine_run(s->engine, e);
    done = end;
    sc->base += stride;
  }
  return rc;
}

static int print_token(const mt_texts *t, uint32_t id, size_t i, double logprob, mt_err *e) {
  mt_buf text = {0};
  int rc = mt_texts_decode(t, id, &text, e);
  if (!rc) printf("%zu\t%u\t%.6f\t", i, id, logprob);
  for (size_t k = 0; !rc && k < text.len; k++)
    if ((unsigned char)text.data[k] < 0x20)
      printf("\\x%02x", (unsigned)(unsigned char)text.data[k]);
    else
      putchar(text.data[k]);
  if (!rc) putchar('\n');
  mt_buf_free(&text);
  return rc;
}

static int print_json(const scorer *sc, size_t n, double sum, double perplexity, bool tokens,
                      mt_err *e) {
  mt_json *j = mt_json_new_object();
  int rc = j ? MT_OK : MT_ENOMEM;
  if (!rc) rc = mt_json_set(j, "tokens", mt_json_new_int((int64_t)n - 1));
  if (!rc) rc = mt_json_set(j, "logprob_sum", mt_json_new_real(sum));
  if (!rc) rc = mt_json_set(j, "logprob_mean", mt_json_new_real(sum / (double)(n - 1)));
  if (!rc) rc = mt_json_set(j, "perplexity", mt_json_new_real(perplexity));
  if (!rc && tokens) {
    mt_json *list = mt_json_new_array(), *ids = mt_json_new_array();
    for (size_t i = 1; list && ids && i < n; i++)
      if (mt_json_append(list, mt_json_new_real(sc->logprob[i])) ||
          mt_json_append(ids, mt_json_new_int(sc->ids[i])))
        rc = MT_ENOMEM;
    if (mt_json_set(j, "ids", ids) || mt_json_set(j, "logprobs", list)) rc = MT_ENOMEM;
  }
  if (!rc) return mt_print_json(j, e);
  mt_json_free(j);
  return mt_err_set(e, rc, "no memory for JSON");
}

static int print(const mt_session *s, const mt_texts *t, const scorer *sc, size_t n, mt_err *e) {
  bool per_token = mt_opt_flag(s->opt, "per-token");
  double sum = 0;
  for (size_t i = 1; i < n; i++) sum += sc->logprob[i];
  double perplexity = mt_exp64(-sum / (double)(n - 1));
  if (mt_opt_flag(s->opt, "json")) return print_json(sc, n, sum, perplexity, per_token, e);
  int rc = MT_OK;
  for (size_t i = 1; per_token && !rc && i < n; i++)
    rc = print_token(t, sc->ids[i], i, sc->logprob[i], e);
  if (!rc)
    printf("%zu tokens, log-probability %.6f, mean %.6f, perplexity %.6f\n", n - 1, sum,
           sum / (double)(n - 1), perplexity);
  return rc;
}

static int read_text(const mt_texts *t, const mt_opt *o, mt_ids *ids, mt_err *e) {
  const uint32_t *given;
  size_t n = mt_opt_ids(o, "ids", &given), bad;
  if (mt_opt_is_set(o, "ids")) {
    for (size_t i = 0; i < n; i++)
      if (mt_ids_push(ids, given[i])) return mt_err_set(e, MT_ENOMEM, "no memory for %zu ids", n);
    return MT_OK;
  }
  mt_buf file = {0};
  const char *text = mt_opt_string(o, "prompt"), *name = "--prompt";
  int rc = MT_OK;
  if (!text) {
    name = mt_opt_string(o, "file");
    rc = mt_buf_read_file(&file, name, 1 << 30, e);
    if (!strcmp(name, "-")) name = "standard input";
  } else if (mt_buf_puts(&file, text)) {
    rc = mt_err_set(e, MT_ENOMEM, "no memory for the text");
  }
  text = file.data ? file.data : "";
  if (!rc && !mt_utf8_valid(text, file.len, &bad))
    rc = mt_err_set(e, MT_EFORMAT, "%s: not UTF-8 at byte %zu", name, bad);
  if (!rc)
    rc = mt_tokenizer_encode(t->tok, text, file.len, MT_ENCODE_ADD_SPECIAL | MT_ENCODE_ONE_BOS, ids,
                             e);
  mt_buf_free(&file);
  return rc;
}

/* Window and stride from the options; the model's context bounds them. */
static int window_of(const mt_opt *o, size_t context, size_t n, size_t *window, size_t *stride,
                     mt_err *e) {
  *window = mt_opt_is_set(o, "window") ? (size_t)mt_opt_int(o, "window") : context;
  if (*window > context)
    return mt_err_set(e, MT_EINVAL, "--window %zu is more than the model's context of %zu", *window,
                      context);
  if (*window > n) *window = n > 2 ? n : 2;
  *stride = mt_opt_is_set(o, "stride") ? (size_t)mt_opt_int(o, "stride") : (*window + 1) / 2;
  if (*stride >= *window && n > *window)
    return mt_err_set(e, MT_EINVAL, "--stride %zu must be less than the window of %zu", *stride,
                      *window);
  return MT_OK;
}

static int prepare(mt_session *s, mt_texts *t, mt_ids *ids, size_t *window, size_t *stride,
                   mt_err *e) {
  mt_weights *w = NULL;
  mt_model_config cfg;
  int rc = mt_texts_open(t, s->opt, s->path, e);
  if (!rc) rc = read_text(t, s->opt, ids, e);
  if (!rc && ids->n < 2)
    rc =
        mt_err_set(e, MT_EINVAL, "a text of %zu tokens has nothing to score; 2 are needed", ids->n);
  if (rc) return rc;
  rc = mt_model_open(s->path, &w, &cfg, e);
  if (rc) return rc;
  rc = window_of(s->opt, cfg.context, ids->n, window, stride, e);
  mt_model_config_free(&cfg);
  mt_weights_close(w);
  return rc;
}

static int lead(mt_session *s, const mt_texts *t, const mt_ids *ids, size_t window, size_t stride,
                mt_err *e) {
  scorer sc = {
      .ids = ids->id, .vocab = mt_model_get_config(s->model)->vocab, .kn = s->kn, .err = e};
  int rc = mt_texts_check_vocab(t, sc.vocab, e);
  for (size_t i = 0; !rc && i < ids->n; i++)
    if (ids->id[i] >= sc.vocab)
      rc = mt_err_set(e, MT_EINVAL, "token id %u is outside the vocabulary of %zu", ids->id[i],
                      sc.vocab);
  sc.logprob = mt_calloc(ids->n, sizeof *sc.logprob);
  if (!rc && !sc.logprob) rc = mt_err_set(e, MT_ENOMEM, "no memory for %zu scores", ids->n);
  if (!rc) rc = score(s, &sc, ids->n, window, stride, e);
  if (!rc) rc = print(s, t, &sc, ids->n, e);
  free(sc.logprob);
  return rc;
}

int mt_cmd_score(const mt_opt *opt) {
  mt_err e = {0};
  mt_session s;
  mt_texts t = {0};
  mt_ids ids = {0};
  size_t window = 0, stride = 0;
  int rc = mt_session_open(&s, opt, &e), own = MT_OK;
  if (!rc) {
    if (s.root) own = prepare(&s, &t, &ids, &window, &stride, &e);
    rc = mt_session_load(&s, own, (mt_room){.tokens = window, .seqs = 1}, &e);
  }
  if (!rc) {
    if (s.root) own = lead(&s, &t, &ids, window, stride, &e);
    rc = mt_session_follow(&s, own, &e);
  }
  mt_texts_free(&t);
  mt_ids_free(&ids);
  return mt_session_close(&s, rc, &e);
}
