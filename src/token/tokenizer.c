/* The tokenizer as an object: making, freeing, asking. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

mt_tokenizer *mt_tokenizer_new_empty(const char *name) {
  mt_tokenizer *t = mt_calloc(1, sizeof *t);
  if (!t) return NULL;
  mt_unicode_init();
  t->model_unk = MT_TOKEN_NONE;
  t->bos = t->eos = t->unk = t->pad = -1;
  t->lock = mt_calloc(1, sizeof *t->lock);
  if (!t->lock || mt_buf_puts(&t->name, name) || mt_buf_reserve(&t->spellings, 1)) {
    mt_tokenizer_free(t);
    return NULL;
  }
  pthread_mutex_init(t->lock, NULL);
  return t;
}

static void free_step(mt_decode_step *d) {
  mt_buf_free(&d->pattern);
  mt_buf_free(&d->with);
}

void mt_tokenizer_free(mt_tokenizer *t) {
  if (!t) return;
  for (size_t i = 0; i < t->n_norms; i++) {
    mt_buf_free(&t->norm[i].pattern);
    mt_buf_free(&t->norm[i].with);
    mt_regex_free(t->norm[i].regex);
  }
  for (size_t i = 0; i < t->n_stages; i++) {
    mt_buf_free(&t->stage[i].pattern);
    mt_regex_free(t->stage[i].regex);
  }
  for (size_t i = 0; i < t->decoder.n_steps; i++) free_step(&t->decoder.step[i]);
  for (size_t i = 0; i < t->decoder.n_after; i++) free_step(&t->decoder.after[i]);
  for (size_t i = 0; i < t->n_templates; i++) {
    mt_buf_free(&t->templates[i].name);
    mt_buf_free(&t->templates[i].text);
  }
  mt_trie_free(&t->raw);
  mt_trie_free(&t->normalized);
  mt_buf_free(&t->name);
  mt_buf_free(&t->spellings);
  mt_buf_free(&t->decoded);
  mt_ids_free(&t->prefix);
  mt_ids_free(&t->suffix);
  mt_ids_free(&t->stops);
  if (t->lock) pthread_mutex_destroy(t->lock);
  free(t->lock);
  free(t->templates);
  free(t->token);
  free(t->by_text);
  free(t->pair);
  free(t->joins);
  free(t->added);
  free(t->cache);
  free(t);
}

size_t mt_tokenizer_vocab(const mt_tokenizer *t) {
  return t->n_tokens;
}

const char *mt_tokenizer_token(const mt_tokenizer *t, uint32_t id, size_t *len) {
  bool used = id < t->n_tokens && (t->token[id].flags & MT_TOKEN_USED);
  if (len) *len = used ? t->token[id].len : 0;
  return used ? mt_token_spelling(t, id) : NULL;
}

int64_t mt_tokenizer_find(const mt_tokenizer *t, const char *token, size_t len) {
  uint32_t id = mt_token_lookup(t, token, len, MT_TOKEN_USED);
  return id == MT_TOKEN_NONE ? -1 : (int64_t)id;
}

bool mt_tokenizer_is_special(const mt_tokenizer *t, uint32_t id) {
  return id < t->n_tokens && (t->token[id].flags & MT_TOKEN_SPECIAL);
}

bool mt_tokenizer_is_added(const mt_tokenizer *t, uint32_t id) {
  return id < t->n_tokens && (t->token[id].flags & MT_TOKEN_ADDED);
}

int64_t mt_tokenizer_bos(const mt_tokenizer *t) {
  return t->bos;
}
int64_t mt_tokenizer_eos(const mt_tokenizer *t) {
  return t->eos;
}
int64_t mt_tokenizer_unk(const mt_tokenizer *t) {
  return t->unk;
}
int64_t mt_tokenizer_pad(const mt_tokenizer *t) {
  return t->pad;
}
bool mt_tokenizer_adds_bos(const mt_tokenizer *t) {
  return t->prefix.n && t->bos >= 0 && t->prefix.id[0] == (uint32_t)t->bos;
}
bool mt_tokenizer_adds_eos(const mt_tokenizer *t) {
  return t->suffix.n > 0;
}
bool mt_tokenizer_is_byte_level(const mt_tokenizer *t) {
  return t->byte_level;
}

size_t mt_tokenizer_stops(const mt_tokenizer *t, const uint32_t **ids) {
  *ids = t->stops.id;
  return t->stops.n;
}

int mt_token_push_stop(mt_tokenizer *t, int64_t id) {
  if (id < 0 || (size_t)id >= t->n_tokens) return MT_OK;
  for (size_t i = 0; i < t->stops.n; i++)
    if (t->stops.id[i] == (uint32_t)id) return MT_OK;
  return mt_ids_push(&t->stops, (uint32_t)id);
}

int mt_token_find_stops(mt_tokenizer *t) {
  static const char *const known[] = {"<|eot_id|>",      "<|eom_id|>",   "<|im_end|>",
                                      "<end_of_turn>",   "<|end|>",      "<|return|>",
                                      "<|end_of_text|>", "<|endoftext|>"};
  /* where there is a <|return|>, <|end|> ends a message, not the turn */
  bool harmony = mt_token_lookup(t, "<|return|>", 10, MT_TOKEN_SPECIAL) != MT_TOKEN_NONE;
  int rc = mt_token_push_stop(t, t->eos);
  for (size_t i = 0; i < sizeof known / sizeof known[0] && !rc; i++) {
    uint32_t id = mt_token_lookup(t, known[i], strlen(known[i]), MT_TOKEN_SPECIAL);
    if (id != MT_TOKEN_NONE && !(harmony && !strcmp(known[i], "<|end|>")))
      rc = mt_token_push_stop(t, id);
  }
  return rc;
}

int mt_token_put_template(mt_tokenizer *t, const char *name, size_t name_len, const char *s,
                          size_t len) {
  mt_named_template *p = mt_realloc(t->templates, t->n_templates + 1, sizeof *p);
  if (!p) return MT_ENOMEM;
  t->templates = p;
  p = &p[t->n_templates++];
  *p = (mt_named_template){0};
  return mt_buf_append(&p->name, name, name_len) || mt_buf_append(&p->text, s, len) ? MT_ENOMEM
                                                                                    : MT_OK;
}

const char *mt_tokenizer_template(const mt_tokenizer *t, const char *name, size_t *len) {
  if (!name) name = "default";
  for (size_t i = 0; i < t->n_templates; i++) {
    if (strcmp(t->templates[i].name.data, name)) continue;
    if (len) *len = t->templates[i].text.len;
    return t->templates[i].text.data;
  }
  if (len) *len = 0;
  return NULL;
}

const char *mt_tokenizer_template_at(const mt_tokenizer *t, size_t i) {
  return i < t->n_templates ? t->templates[i].name.data : NULL;
}
