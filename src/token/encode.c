/* From text to ids: added tokens out of the raw text, normalizers, added tokens out of the
 * normalized text, pre-tokenizers, BPE; then what the post-processor puts round it. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MAX_TEXT_BYTES = 0x7FFFFFFF };

int mt_ids_push(mt_ids *ids, uint32_t id) {
  if (ids->n == ids->cap) {
    size_t cap = ids->cap ? 2 * ids->cap : 64;
    uint32_t *p = mt_realloc(ids->id, cap, sizeof *p);
    if (!p) return MT_ENOMEM;
    ids->id = p;
    ids->cap = cap;
  }
  ids->id[ids->n++] = id;
  return MT_OK;
}

void mt_ids_free(mt_ids *ids) {
  free(ids->id);
  *ids = (mt_ids){0};
}

static int push_token(mt_encoder *x, uint32_t id) {
  if (mt_ids_push(x->out, id)) return mt_err_set(x->err, MT_ENOMEM, "no memory for the ids");
  if (x->explain) {
    mt_explain_event ev = {.kind = MT_EXPLAIN_TOKEN, .id = id};
    x->explain(x->explain_arg, &ev);
  }
  return MT_OK;
}

static bool only_template(const mt_text *text, size_t begin, size_t end) {
  for (size_t i = 0; i < text->n_spans; i++)
    if (text->span[i].origin != MT_SPAN_TEMPLATE && text->span[i].begin < end &&
        text->span[i].end > begin)
      return false;
  return true;
}

/* In the normalized text the spans of the raw one hold only if nothing was changed. Otherwise the
 * special tokens that are looked for there are recognised where the whole stretch is the
 * template's, and stay text where a part is not. */
static mt_added_scope normalized_scope(const mt_added_scope *scope, size_t at, size_t n,
                                       bool changed) {
  mt_added_scope local = *scope;
  local.offset = at;
  if (!scope->text || !changed) return local;
  local.parse_special = scope->parse_special && only_template(scope->text, at, at + n);
  local.text = NULL;
  return local;
}

/* One stretch of the raw text that is no added token; `at` is its place in the text. */
static int encode_stretch(mt_encoder *x, const mt_added_scope *scope, const char *s, size_t n,
                          size_t at) {
  const char *norm;
  size_t norm_n;
  int rc = mt_norm_run(x, s, n, &norm, &norm_n);
  if (rc) return rc;
  if (!x->t->normalized.n) return mt_pretok_run(x, norm, norm_n, at == 0);
  mt_added_scan scan = {.t = x->t, .trie = &x->t->normalized, .s = norm, .n = norm_n};
  scan.scope = normalized_scope(scope, at, n, norm_n != n || memcmp(s, norm, n));
  mt_added_match m;
  while (!rc && mt_added_next(&scan, &m)) {
    if (m.id != MT_TOKEN_NONE)
      rc = push_token(x, m.id);
    else
      rc = mt_pretok_run(x, norm + m.begin, m.end - m.begin, at == 0 && m.begin == 0);
  }
  return rc;
}

static int encode_all(mt_encoder *x, const mt_added_scope *scope, const char *s, size_t n) {
  mt_added_scan scan = {.t = x->t, .trie = &x->t->raw, .scope = *scope, .s = s, .n = n};
  mt_added_match m;
  int rc = MT_OK;
  while (!rc && mt_added_next(&scan, &m)) {
    if (m.id != MT_TOKEN_NONE)
      rc = push_token(x, m.id);
    else
      rc = encode_stretch(x, scope, s + m.begin, m.end - m.begin, m.begin);
  }
  return rc;
}

/* Puts the post-processor's prefix before what was encoded from `start` on, and its suffix after
 * it. */
static int add_special(mt_encoder *x, size_t start, bool one_bos) {
  const mt_ids *pre = &x->t->prefix, *post = &x->t->suffix;
  size_t skip = one_bos && pre->n && x->out->n > start && x->out->id[start] == pre->id[0];
  size_t body = x->out->n - start, put = pre->n - skip;
  int rc = MT_OK;
  for (size_t i = 0; i < put && !rc; i++) rc = mt_ids_push(x->out, 0);
  if (!rc && put) {
    memmove(x->out->id + start + put, x->out->id + start, body * sizeof *x->out->id);
    memcpy(x->out->id + start, pre->id + skip, put * sizeof *x->out->id);
  }
  for (size_t i = 0; i < post->n && !rc; i++) rc = push_token(x, post->id[i]);
  return rc ? mt_err_set(x->err, MT_ENOMEM, "no memory for the ids") : MT_OK;
}

int mt_encoder_need_scratch(mt_encoder *x) {
  if (!x->scratch) x->scratch = mt_regex_scratch_new();
  return x->scratch ? MT_OK : mt_err_set(x->err, MT_ENOMEM, "no memory for a pattern");
}

static void encoder_fini(mt_encoder *x) {
  mt_regex_scratch_free(x->scratch);
  mt_buf_free(&x->norm[0]);
  mt_buf_free(&x->norm[1]);
  free(x->sym);
  free(x->prev);
  free(x->next);
  free(x->rank);
  free(x->best);
}

static int run(mt_encoder *x, const mt_added_scope *scope, const char *s, size_t n, int flags) {
  size_t start = x->out->n, bad;
  if (n > MAX_TEXT_BYTES)
    return mt_err_set(x->err, MT_ERANGE, "text of %zu bytes: at most %d", n, MAX_TEXT_BYTES);
  if (!mt_utf8_valid(s, n, &bad))
    return mt_err_set(x->err, MT_EFORMAT, "text is not UTF-8 at byte %zu", bad);
  x->has_newer = mt_unicode_has_newer(s, n);
  bool locked = !x->explain && !pthread_mutex_trylock(x->t->lock);
  x->cache = locked ? x->t->cache : NULL;
  int rc = encode_all(x, scope, s, n);
  if (locked) pthread_mutex_unlock(x->t->lock);
  if (!rc && (flags & MT_ENCODE_ADD_SPECIAL)) rc = add_special(x, start, flags & MT_ENCODE_ONE_BOS);
  if (rc) x->out->n = start;
  encoder_fini(x);
  return rc;
}

int mt_tokenizer_encode(const mt_tokenizer *t, const char *text, size_t len, int flags, mt_ids *ids,
                        mt_err *e) {
  mt_encoder x = {.t = t, .out = ids, .err = e};
  mt_added_scope scope = {.parse_special = flags & MT_ENCODE_PARSE_SPECIAL};
  return run(&x, &scope, text, len, flags);
}

int mt_tokenizer_encode_text(const mt_tokenizer *t, const mt_text *text, int flags, mt_ids *ids,
                             mt_err *e) {
  mt_encoder x = {.t = t, .out = ids, .err = e};
  mt_added_scope scope = {.parse_special = true, .text = text};
  return run(&x, &scope, text->bytes.data ? text->bytes.data : "", text->bytes.len,
             flags | MT_ENCODE_ONE_BOS);
}

int mt_tokenizer_explain(const mt_tokenizer *t, const char *text, size_t len, int flags,
                         mt_explain_fn *fn, void *arg, mt_err *e) {
  mt_ids ids = {0};
  mt_encoder x = {.t = t, .out = &ids, .err = e, .explain = fn, .explain_arg = arg};
  mt_added_scope scope = {.parse_special = flags & MT_ENCODE_PARSE_SPECIAL};
  int rc = MT_OK;
  for (size_t i = 0; (flags & MT_ENCODE_ADD_SPECIAL) && i < t->prefix.n && !rc; i++)
    rc = push_token(&x, t->prefix.id[i]);
  ids.n = 0;
  if (!rc) rc = run(&x, &scope, text, len, flags);
  mt_ids_free(&ids);
  return rc;
}
