/* tokenizer.json: the model (BPE) and the added tokens; the other parts are in load_parts.c. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"

enum { MAX_FILE_BYTES = 1 << 30 };

static int malformed(const mt_tokenizer *t, mt_err *e, const char *what) {
  return mt_err_set(e, MT_EFORMAT, "%s: %s", t->name.data, what);
}

static bool get_bool(const mt_json *object, const char *key) {
  bool v = false;
  return mt_json_bool(mt_json_get(object, key), &v) && v;
}

static int load_vocab(mt_tokenizer *t, const mt_json *vocab, mt_err *e) {
  if (!mt_json_is(vocab, MT_JSON_OBJECT)) return malformed(t, e, "model.vocab is not an object");
  for (const mt_json_member *m = mt_json_first(vocab); m; m = mt_json_next(vocab, m)) {
    int64_t id;
    const char *key = mt_json_member_key(m);
    if (!mt_json_int(mt_json_member_value(m), &id) || id < 0)
      return mt_err_set(e, MT_EFORMAT, "%s: id of token \"%.80s\" is not a count", t->name.data,
                        key);
    int rc = mt_token_put(t, (uint64_t)id, key, strlen(key), MT_TOKEN_MODEL, e);
    if (rc) return rc;
  }
  return MT_OK;
}

/* A merge is "left right" or ["left", "right"]. */
static bool merge_parts(const mt_json *m, const char **left, size_t *left_len, const char **right,
                        size_t *right_len) {
  if (mt_json_is(m, MT_JSON_ARRAY)) {
    *left = mt_json_string(mt_json_at(m, 0), left_len);
    *right = mt_json_string(mt_json_at(m, 1), right_len);
    return mt_json_len(m) == 2 && *left && *right;
  }
  size_t n;
  const char *s = mt_json_string(m, &n);
  const char *space = s ? memchr(s, ' ', n) : NULL;
  if (!space) return false;
  *left = s;
  *left_len = (size_t)(space - s);
  *right = space + 1;
  *right_len = n - *left_len - 1;
  return !memchr(*right, ' ', *right_len);
}

static int load_merges(mt_tokenizer *t, const mt_json *merges, mt_err *e) {
  if (!mt_json_is(merges, MT_JSON_ARRAY)) return malformed(t, e, "model.merges is not an array");
  mt_buf both = {0};
  size_t n = mt_json_len(merges);
  int rc = n > UINT32_MAX - 1 ? malformed(t, e, "too many merges") : MT_OK;
  for (size_t i = 0; i < n && !rc; i++) {
    const char *left, *right;
    size_t left_len, right_len;
    if (!merge_parts(mt_json_at(merges, i), &left, &left_len, &right, &right_len)) {
      rc = mt_err_set(e, MT_EFORMAT, "%s: merge %zu is not a pair of tokens", t->name.data, i);
      break;
    }
    mt_buf_clear(&both);
    if (mt_buf_append(&both, left, left_len) || mt_buf_append(&both, right, right_len)) {
      rc = mt_err_set(e, MT_ENOMEM, "%s: no memory for the merges", t->name.data);
      break;
    }
    uint32_t a = mt_token_lookup(t, left, left_len, MT_TOKEN_MODEL), b, c;
    b = mt_token_lookup(t, right, right_len, MT_TOKEN_MODEL);
    c = mt_token_lookup(t, both.data, both.len, MT_TOKEN_MODEL);
    if (a == MT_TOKEN_NONE || b == MT_TOKEN_NONE || c == MT_TOKEN_NONE)
      rc = mt_err_set(e, MT_EFORMAT,
                      "%s: merge %zu (\"%.40s\" + \"%.40s\") names a token outside the vocabulary",
                      t->name.data, i, left, right);
    else if (mt_token_put_pair(t, a, b, (uint32_t)i, c))
      rc = mt_err_set(e, MT_ENOMEM, "%s: no memory for the merges", t->name.data);
  }
  mt_buf_free(&both);
  return rc;
}

/* What changes the result and is not done here. */
static int refuse_options(const mt_tokenizer *t, const mt_json *model, mt_err *e) {
  static const char *const affix[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  const char *type = mt_json_string(mt_json_get(model, "type"), NULL);
  if (type && strcmp(type, "BPE"))
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: tokenizer model %.80s is not supported, only BPE",
                      t->name.data, type);
  double dropout;
  if (mt_json_number(mt_json_get(model, "dropout"), &dropout) && dropout != 0)
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: BPE dropout is not supported", t->name.data);
  for (size_t i = 0; i < 2; i++) {
    size_t len;
    if (mt_json_string(mt_json_get(model, affix[i]), &len) && len)
      return mt_err_set(e, MT_EUNSUPPORTED, "%s: BPE with a %s is not supported", t->name.data,
                        affix[i]);
  }
  return MT_OK;
}

static int load_model(mt_tokenizer *t, const mt_json *model, mt_err *e) {
  if (!mt_json_is(model, MT_JSON_OBJECT)) return malformed(t, e, "has no \"model\" object");
  int rc = refuse_options(t, model, e);
  if (!rc) rc = load_vocab(t, mt_json_get(model, "vocab"), e);
  if (!rc) rc = load_merges(t, mt_json_get(model, "merges"), e);
  if (rc) return rc;
  t->byte_fallback = get_bool(model, "byte_fallback");
  t->fuse_unk = get_bool(model, "fuse_unk");
  t->ignore_merges = get_bool(model, "ignore_merges");
  size_t len;
  const char *unk = mt_json_string(mt_json_get(model, "unk_token"), &len);
  if (!unk) return MT_OK;
  t->model_unk = mt_token_lookup(t, unk, len, MT_TOKEN_MODEL);
  if (t->model_unk == MT_TOKEN_NONE)
    return mt_err_set(e, MT_EFORMAT, "%s: unknown token \"%.80s\" is not in the vocabulary",
                      t->name.data, unk);
  t->unk = t->model_unk;
  return MT_OK;
}

/* An added token that the vocabulary has too goes by the vocabulary's id. */
static int load_added(mt_tokenizer *t, const mt_json *list, mt_err *e) {
  if (list && mt_json_get_kind(list) != MT_JSON_NULL && !mt_json_is(list, MT_JSON_ARRAY))
    return malformed(t, e, "added_tokens is not an array");
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *j = mt_json_at(list, i);
    size_t len;
    const char *s = mt_json_string(mt_json_get(j, "content"), &len);
    int64_t id;
    if (!s || !mt_json_int(mt_json_get(j, "id"), &id) || id < 0)
      return mt_err_set(e, MT_EFORMAT, "%s: added token %zu has no content or id", t->name.data, i);
    mt_added a = {.single_word = get_bool(j, "single_word"), .lstrip = get_bool(j, "lstrip")};
    a.rstrip = get_bool(j, "rstrip");
    a.special = get_bool(j, "special");
    bool normalized;
    a.normalized =
        mt_json_bool(mt_json_get(j, "normalized"), &normalized) ? normalized : !a.special;
    uint32_t known = mt_token_lookup(t, s, len, MT_TOKEN_MODEL);
    if (known == MT_TOKEN_NONE && id >= MT_TOKEN_MAX_ID)
      return mt_err_set(e, MT_ERANGE, "%s: token id %lld is too large", t->name.data,
                        (long long)id);
    a.id = known == MT_TOKEN_NONE ? (uint32_t)id : known;
    int rc = mt_token_put_added(t, &a, s, len, e);
    if (rc) return rc;
  }
  return MT_OK;
}

int mt_tokenizer_open_json(mt_tokenizer **out, const char *path, mt_err *e) {
  *out = NULL;
  mt_json *j = NULL;
  mt_tokenizer *t = NULL;
  int rc = mt_json_read_file(&j, path, MAX_FILE_BYTES, e);
  if (rc) return rc;
  t = mt_tokenizer_new_empty(path);
  if (!t) rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  if (!rc) rc = load_model(t, mt_json_get(j, "model"), e);
  if (!rc) rc = load_added(t, mt_json_get(j, "added_tokens"), e);
  if (!rc) rc = mt_load_normalizer(t, mt_json_get(j, "normalizer"), e);
  if (!rc) rc = mt_load_pre_tokenizer(t, mt_json_get(j, "pre_tokenizer"), e);
  if (!rc) rc = mt_load_post_processor(t, mt_json_get(j, "post_processor"), e);
  if (!rc) rc = mt_load_decoder(t, mt_json_get(j, "decoder"), e);
  if (!rc) rc = mt_tokenizer_seal(t, e);
  if (!rc && t->prefix.n == 1) t->bos = t->prefix.id[0];
  if (!rc && mt_token_find_stops(t)) rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  mt_json_free(j);
  if (rc)
    mt_tokenizer_free(t);
  else
    *out = t;
  return rc;
}

static int open_gguf_file(mt_tokenizer **out, const char *path, mt_err *e) {
  mt_weights *w;
  int rc = mt_weights_open(&w, path, e);
  if (rc) return rc;
  if (mt_weights_get_kind(w) == MT_WEIGHTS_GGUF)
    rc = mt_tokenizer_open_gguf(out, w, e);
  else
    rc = mt_err_set(e, MT_EUNSUPPORTED,
                    "%s: neither a directory with tokenizer.json nor a GGUF file", path);
  mt_weights_close(w);
  return rc;
}

int mt_tokenizer_open(mt_tokenizer **out, const char *path, mt_err *e) {
  *out = NULL;
  struct stat st;
  if (stat(path, &st)) return mt_err_set(e, MT_EIO, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(st.st_mode)) return open_gguf_file(out, path, e);
  mt_buf file = {0};
  int rc = mt_buf_printf(&file, "%s/tokenizer.json", path);
  if (rc) return mt_err_set(e, rc, "%s: no memory", path);
  mt_tokenizer *t = NULL;
  rc = mt_tokenizer_open_json(&t, file.data, e);
  if (!rc) rc = mt_load_config(t, path, e);
  mt_buf_free(&file);
  if (rc)
    mt_tokenizer_free(t);
  else
    *out = t;
  return rc;
}
