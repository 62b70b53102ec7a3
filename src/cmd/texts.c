/* The tokenizer, the chat template, and the defaults of generation_config.json. */
#include "session.h"
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT_MAX_BYTES = 1 << 30, CONFIG_MAX_BYTES = 1 << 20, TEMPLATE_MAX_BYTES = 1 << 20 };

/* ---- the template ------------------------------------------------------------------------ */

/* A template whose role markers fall apart into several tokens belongs to another model. */
static void warn_misfit(const mt_texts *t) {
  mt_json *markers = NULL;
  if (mt_chat_template_markers(t->tmpl, t->bos, t->eos, &markers, NULL)) return;
  for (size_t i = 0; i < mt_json_len(markers); i++) {
    size_t len;
    const char *s = mt_json_string(mt_json_at(markers, i), &len);
    if (s && mt_tokenizer_find(t->tok, s, len) < 0)
      mt_log(MT_LOG_WARN, "template and model do not fit: %s is not one token of this tokenizer",
             s);
  }
  mt_json_free(markers);
}

static int open_template(mt_texts *t, const mt_opt *o, mt_err *e) {
  const char *file = mt_opt_string(o, "chat-template");
  mt_buf own = {0};
  size_t len = 0;
  const char *source = NULL, *name = "chat template";
  int rc = MT_OK;
  if (file) {
    rc = mt_buf_read_file(&own, file, TEMPLATE_MAX_BYTES, e);
    source = own.data;
    len = own.len;
    name = file;
  } else {
    source = mt_tokenizer_template(t->tok, NULL, &len);
  }
  if (!rc && source) rc = mt_chat_template_compile(&t->tmpl, source, len, name, e);
  if (!rc && t->tmpl) warn_misfit(t);
  mt_buf_free(&own);
  return rc;
}

/* ---- generation_config.json -------------------------------------------------------------- */

static int add_stop(mt_texts *t, uint32_t id) {
  for (size_t i = 0; i < t->n_stop_ids; i++)
    if (t->stop_ids[i] == id) return MT_OK;
  uint32_t *p = mt_realloc(t->stop_ids, t->n_stop_ids + 1, sizeof *p);
  if (!p) return MT_ENOMEM;
  t->stop_ids = p;
  p[t->n_stop_ids++] = id;
  return MT_OK;
}

static int read_stops(mt_texts *t, const mt_json *j) {
  const uint32_t *known = NULL;
  size_t n = t->tok ? mt_tokenizer_stops(t->tok, &known) : 0;
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < n; i++) rc = add_stop(t, known[i]);
  const mt_json *eos = mt_json_get(j, "eos_token_id");
  int64_t id;
  if (mt_json_int(eos, &id) && id >= 0 && id <= INT32_MAX) rc = add_stop(t, (uint32_t)id);
  if (mt_json_is(eos, MT_JSON_ARRAY))
    for (size_t i = 0; !rc && i < mt_json_len(eos); i++)
      if (mt_json_int(mt_json_at(eos, i), &id) && id >= 0 && id <= INT32_MAX)
        rc = add_stop(t, (uint32_t)id);
  return rc;
}

/* As transformers reads it: without do_sample the model's default is greedy; with it, a top_k that
 * is not named is 50. */
static void read_sampling(mt_sample_params *p, const mt_json *j) {
  bool sample = false;
  (void)mt_json_bool(mt_json_get(j, "do_sample"), &sample);
  (void)mt_json_number(mt_json_get(j, "repetition_penalty"), &p->repetition_penalty);
  if (!sample) {
    p->temperature = 0;
    return;
  }
  int64_t k = 50;
  (void)mt_json_number(mt_json_get(j, "temperature"), &p->temperature);
  (void)mt_json_number(mt_json_get(j, "top_p"), &p->top_p);
  (void)mt_json_number(mt_json_get(j, "min_p"), &p->min_p);
  (void)mt_json_number(mt_json_get(j, "typical_p"), &p->typical_p);
  (void)mt_json_int(mt_json_get(j, "top_k"), &k);
  p->top_k = k > 0 && k <= INT32_MAX ? (uint32_t)k : 0;
}

static int open_generation_config(mt_texts *t, const char *path, mt_err *e) {
  mt_sample_params_init(&t->sample);
  t->sample.temperature = 0;
  mt_buf name = {0};
  mt_json *j = NULL;
  int rc = mt_buf_printf(&name, "%s/generation_config.json", path) ? MT_ENOMEM : MT_OK;
  FILE *there = rc ? NULL : fopen(name.data, "rb");
  if (there) {
    fclose(there);
    rc = mt_json_read_file(&j, name.data, CONFIG_MAX_BYTES, e);
    if (!rc) read_sampling(&t->sample, j);
  }
  if (!rc && read_stops(t, j)) rc = mt_err_set(e, MT_ENOMEM, "no memory for the end tokens");
  if (!rc) {
    rc = mt_sample_params_check(&t->sample, e);
    if (rc) mt_err_prefix(e, rc, "%s", name.data);
  }
  mt_json_free(j);
  mt_buf_free(&name);
  return rc;
}

/* ---- the command line over it ------------------------------------------------------------ */

static uint64_t fresh_seed(void) {
  uint64_t t = mt_clock_ns();
  return mt_hash64(MT_HASH_INIT, &t, sizeof t) & 0xFFFFFFFFu; /* short enough to type again */
}

static int apply_options(mt_texts *t, const mt_opt *o, mt_err *e) {
  mt_sample_params *p = &t->sample;
  const struct {
    const char *name;
    double *at;
  } number[] = {{"top-p", &p->top_p},
                {"min-p", &p->min_p},
                {"typical-p", &p->typical_p},
                {"temperature", &p->temperature},
                {"repetition-penalty", &p->repetition_penalty},
                {"presence-penalty", &p->presence_penalty},
                {"frequency-penalty", &p->frequency_penalty}};
  enum { N = sizeof number / sizeof number[0], FILTERS = 3 };
  bool filter = mt_opt_is_set(o, "top-k");
  for (int i = 0; i < N; i++) {
    if (!mt_opt_is_set(o, number[i].name)) continue;
    *number[i].at = mt_opt_double(o, number[i].name);
    filter |= i < FILTERS;
  }
  if (mt_opt_is_set(o, "top-k")) p->top_k = (uint32_t)mt_opt_int(o, "top-k");
  /* Whoever asks for a filter wants to sample. */
  if (filter && p->temperature == 0 && !mt_opt_is_set(o, "temperature")) p->temperature = 1;
  p->temperature_last = mt_opt_flag(o, "temperature-last");
  p->seed = mt_opt_is_set(o, "seed") ? mt_opt_u64(o, "seed") : fresh_seed();
  const mt_opt_bias *bias;
  size_t n = mt_opt_biases(o, "logit-bias", &bias);
  t->bias = mt_malloc(n, sizeof *t->bias);
  if (!t->bias) return mt_err_set(e, MT_ENOMEM, "no memory for %zu biases", n);
  for (size_t i = 0; i < n; i++) t->bias[i] = (mt_logit_bias){bias[i].id, bias[i].value};
  p->bias = t->bias;
  p->n_bias = n;
  return mt_sample_params_check(p, e);
}

int mt_texts_open(mt_texts *t, const mt_opt *o, const char *path, mt_err *e) {
  *t = (mt_texts){0};
  int rc = mt_tokenizer_open(&t->tok, path, e);
  if (rc && mt_opt_is_set(o, "ids") && !mt_opt_is_set(o, "stop")) {
    snprintf(t->no_tokenizer, sizeof t->no_tokenizer, "%s", e ? e->msg : "");
    rc = open_generation_config(t, path, e);
    return rc ? rc : apply_options(t, o, e);
  }
  if (rc) return rc;
  int64_t bos = mt_tokenizer_bos(t->tok), eos = mt_tokenizer_eos(t->tok);
  t->bos = bos >= 0 ? mt_tokenizer_token(t->tok, (uint32_t)bos, NULL) : NULL;
  t->eos = eos >= 0 ? mt_tokenizer_token(t->tok, (uint32_t)eos, NULL) : NULL;
  rc = open_template(t, o, e);
  if (!rc && t->tmpl) rc = mt_template_special(&t->special, path, e);
  if (!rc) rc = open_generation_config(t, path, e);
  return rc ? rc : apply_options(t, o, e);
}

void mt_texts_free(mt_texts *t) {
  mt_chat_template_free(t->tmpl);
  mt_json_free(t->special);
  mt_tokenizer_free(t->tok);
  free(t->stop_ids);
  free(t->bias);
  *t = (mt_texts){0};
}

int mt_texts_decode(const mt_texts *t, uint32_t id, mt_buf *out, mt_err *e) {
  if (t->tok) return mt_tokenizer_decode(t->tok, &id, 1, false, out, e);
  return mt_buf_printf(out, "%u ", id) ? mt_err_set(e, MT_ENOMEM, "no memory for a token") : MT_OK;
}

int mt_texts_check_vocab(const mt_texts *t, size_t vocab, mt_err *e) {
  if (!t->tok) mt_log(MT_LOG_WARN, "no tokenizer, so ids instead of text: %s", t->no_tokenizer);
  size_t n = t->tok ? mt_tokenizer_vocab(t->tok) : 0;
  if (n <= vocab) return MT_OK;
  return mt_err_set(e, MT_EFORMAT,
                    "the tokenizer does not fit the model: it has %zu ids, the model %zu", n,
                    vocab);
}

void mt_texts_log_sampling(const mt_texts *t) {
  const mt_sample_params *p = &t->sample;
  mt_log(MT_LOG_INFO,
         "temperature %g, top-k %u, top-p %g, min-p %g, typical-p %g, repetition %g, presence %g, "
         "frequency %g, seed "
         "%llu",
         p->temperature, p->top_k, p->top_p, p->min_p, p->typical_p, p->repetition_penalty,
         p->presence_penalty, p->frequency_penalty, (unsigned long long)p->seed);
}

/* ---- prompts ----------------------------------------------------------------------------- */

int mt_texts_add_message(mt_json *messages, const char *role, const char *content, size_t len) {
  mt_json *m = mt_json_new_object();
  if (!m) return MT_ENOMEM;
  if (mt_json_set(m, "role", mt_json_new_string(role, strlen(role))) ||
      mt_json_set(m, "content", mt_json_new_string(content, len))) {
    mt_json_free(m);
    return MT_ENOMEM;
  }
  return mt_json_append(messages, m);
}

int mt_texts_encode_chat(const mt_texts *t, const mt_json *messages, mt_ids *ids, mt_err *e) {
  if (!t->tmpl)
    return mt_err_set(e, MT_EINVAL,
                      "this model has no chat template; give one with --chat-template FILE");
  mt_chat_input in = {.messages = messages,
                      .add_generation_prompt = true,
                      .bos_token = t->bos,
                      .eos_token = t->eos,
                      .special_tokens = t->special};
  mt_text text = {0};
  int rc = mt_chat_render(t->tmpl, &in, &text, e);
  if (!rc) rc = mt_tokenizer_encode_text(t->tok, &text, MT_ENCODE_PARSE_SPECIAL, ids, e);
  mt_text_free(&text);
  return rc;
}

static int chat_prompt(const mt_texts *t, const mt_opt *o, const char *text, size_t len,
                       mt_ids *ids, mt_err *e) {
  mt_json *messages = mt_json_new_array();
  const char *system = mt_opt_string(o, "system");
  int rc = messages ? MT_OK : MT_ENOMEM;
  if (!rc && system) rc = mt_texts_add_message(messages, "system", system, strlen(system));
  if (!rc) rc = mt_texts_add_message(messages, "user", text, len);
  if (rc) mt_err_set(e, rc, "no memory for the messages");
  if (!rc) rc = mt_texts_encode_chat(t, messages, ids, e);
  if (rc == MT_EINVAL &&
      t->tmpl) { /* what the template refuses is bad input, not a wrong command line */
    mt_err_prefix(e, rc, "chat template");
    rc = MT_EFORMAT;
  }
  mt_json_free(messages);
  return rc;
}

int mt_texts_prompt(const mt_texts *t, const mt_opt *o, mt_ids *ids, mt_err *e) {
  const uint32_t *given;
  size_t n = mt_opt_ids(o, "ids", &given), bad;
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < n; i++)
    if (mt_ids_push(ids, given[i])) rc = mt_err_set(e, MT_ENOMEM, "no memory for %zu ids", n);
  if (rc || mt_opt_is_set(o, "ids")) return rc;
  mt_buf file = {0};
  const char *text = mt_opt_string(o, "prompt"), *name = "--prompt";
  size_t len = text ? strlen(text) : 0;
  if (!text) {
    name = mt_opt_string(o, "prompt-file");
    rc = mt_buf_read_file(&file, name, PROMPT_MAX_BYTES, e);
    if (!strcmp(name, "-")) name = "standard input";
    text = file.data ? file.data : "";
    len = file.len;
  }
  if (!rc && !mt_utf8_valid(text, len, &bad))
    rc = mt_err_set(e, MT_EFORMAT, "%s: not UTF-8 at byte %zu", name, bad);
  if (!rc && mt_opt_flag(o, "chat")) {
    rc = chat_prompt(t, o, text, len, ids, e);
  } else if (!rc) {
    if (t->tmpl)
      mt_log(MT_LOG_WARN,
             "this is a chat model; the prompt goes in as it is, without its template (--chat)");
    rc = mt_tokenizer_encode(t->tok, text, len,
                             MT_ENCODE_ADD_SPECIAL | MT_ENCODE_PARSE_SPECIAL | MT_ENCODE_ONE_BOS,
                             ids, e);
  }
  mt_buf_free(&file);
  return rc;
}
