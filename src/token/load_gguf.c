/* The vocabulary inside a GGUF: byte-level BPE ("gpt2", cut as the name in tokenizer.ggml.pre says)
 * and the SentencePiece type ("llama", whose merges follow from the scores). */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define LETTERS_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LETTERS_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define ENDINGS       "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD_START    "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3(digits) \
  ENDINGS "|" WORD_START "\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define O200K(endings, digits)                                                        \
  WORD_START LETTERS_UPPER "*" LETTERS_LOWER "+" endings "|" WORD_START LETTERS_UPPER \
                           "+" LETTERS_LOWER "*" endings "|" digits                   \
                           "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

/* What stands behind the names of pre-tokenizers. Patterns cut one after the other; NULL ends them;
 * "gpt2" is mt_pattern_gpt2. Names whose rule we do not know for certain are not here and are
 * refused. */
typedef struct pre_rule {
  const char *names; /* separated and enclosed by spaces */
  const char *pattern[4];
  bool nfc, ignore_merges, adds_bos;
} pre_rule;
static const pre_rule rules[] = {
    {" gpt-2 phi-2 mpt olmo jais ", {"gpt2"}, false, false, false},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b ",
     {"\\p{N}", "gpt2"},
     false,
     false,
     false},
    {" llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 ",
     {LLAMA3("\\p{N}{1,3}")},
     false,
     true,
     true},
    {" dbrx smaug-bpe ", {LLAMA3("\\p{N}{1,3}")}, false, false, false},
    {" qwen2 deepseek-r1-qwen ", {LLAMA3("\\p{N}")}, true, false, false},
    {" gpt-4o llama4 ", {O200K(ENDINGS "?", "\\p{N}{1,3}")}, false, true, false},
    {" tekken ", {O200K("", "\\p{N}")}, false, true, true},
    {" deepseek-v3 ",
     {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
      "[!\"#$%&'()*+,\\-./"
      ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
      "?[\\p{P}\\p{S}]+[\r\n]*|" SPACES},
     false,
     false,
     false},
};

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };
enum { MAX_SCORED_TOKEN_BYTES = 4096 };

static const char key_tokens[] = "tokenizer.ggml.tokens", key_types[] = "tokenizer.ggml.token_type",
                  key_merges[] = "tokenizer.ggml.merges", key_scores[] = "tokenizer.ggml.scores";

static int no_memory(mt_err *e) {
  return mt_err_set(e, MT_ENOMEM, "no memory for the vocabulary");
}

static const pre_rule *find_rule(const mt_bytes *name) {
  char quoted[64];
  if (!name->len || name->len > sizeof quoted - 3 || memchr(name->ptr, ' ', name->len)) return NULL;
  quoted[0] = ' ';
  memcpy(quoted + 1, name->ptr, name->len);
  memcpy(quoted + 1 + name->len, " ", 2);
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if (strstr(rules[i].names, quoted)) return &rules[i];
  return NULL;
}

/* Phi-3's control tokens swallow the white space behind them; the file does not say so, the
 * architecture does. */
static bool swallows_space(const mt_weights *w, const mt_bytes *text) {
  mt_bytes arch;
  if (!mt_gguf_string(w, "general.architecture", &arch) || arch.len != 4 ||
      memcmp(arch.ptr, "phi3", 4))
    return false;
  return !(text->len == 5 && !memcmp(text->ptr, "<unk>", 5)) &&
         !(text->len == 3 && !memcmp(text->ptr, "<s>", 3)) &&
         !(text->len == 13 && !memcmp(text->ptr, "<|endoftext|>", 13));
}

static int load_token(mt_tokenizer *t, const mt_weights *w, size_t i, const mt_bytes *text,
                      uint64_t type, mt_err *e) {
  bool added = type == TYPE_UNKNOWN || type == TYPE_CONTROL || type == TYPE_USER_DEFINED;
  unsigned flags = 0;
  if (type == TYPE_NORMAL || (type == TYPE_USER_DEFINED && !t->byte_level)) flags = MT_TOKEN_MODEL;
  if (type == TYPE_BYTE) flags = MT_TOKEN_BYTE;
  int rc = mt_token_put(t, i, text->ptr, text->len, flags, e);
  if (rc || !added) return rc;
  mt_added a = {
      .id = (uint32_t)i, .special = type != TYPE_USER_DEFINED, .rstrip = swallows_space(w, text)};
  return mt_token_put_added(t, &a, text->ptr, text->len, e);
}

static int load_tokens(mt_tokenizer *t, const mt_weights *w, mt_err *e) {
  size_t n, n_types = 0;
  if (!mt_gguf_array_len(w, key_tokens, &n) || n == 0 || n > MT_TOKEN_MAX_ID)
    return mt_err_set(e, MT_EFORMAT, "%s: %s is missing, empty or too long", t->name.data,
                      key_tokens);
  if (mt_gguf_array_len(w, key_types, &n_types) && n_types != n)
    return mt_err_set(e, MT_EFORMAT, "%s: %zu tokens but %zu token types", t->name.data, n,
                      n_types);
  for (size_t i = 0; i < n; i++) {
    mt_bytes text;
    uint64_t type = TYPE_NORMAL;
    if (!mt_gguf_array_string(w, key_tokens, i, &text) ||
        (n_types && !mt_gguf_array_u64(w, key_types, i, &type)))
      return mt_err_set(e, MT_EFORMAT, "%s: token %zu is not a string with a type", t->name.data,
                        i);
    int rc = load_token(t, w, i, &text, type, e);
    if (rc) return rc;
  }
  return MT_OK;
}

/* ---- byte level ------------------------------------------------------------------------------ */

static int load_merges(mt_tokenizer *t, const mt_weights *w, mt_err *e) {
  size_t n;
  if (!mt_gguf_array_len(w, key_merges, &n) || n > MT_TOKEN_MAX_ID)
    return mt_err_set(e, MT_EFORMAT, "%s: %s is missing or too long", t->name.data, key_merges);
  mt_buf both = {0};
  int rc = MT_OK;
  for (size_t i = 0; i < n && !rc; i++) {
    mt_bytes m;
    const char *space =
        mt_gguf_array_string(w, key_merges, i, &m) ? memchr(m.ptr, ' ', m.len) : NULL;
    size_t left = space ? (size_t)(space - m.ptr) : 0;
    if (!space) {
      rc = mt_err_set(e, MT_EFORMAT, "%s: merge %zu is not a pair of tokens", t->name.data, i);
      break;
    }
    mt_buf_clear(&both);
    if (mt_buf_append(&both, m.ptr, left) || mt_buf_append(&both, space + 1, m.len - left - 1)) {
      rc = no_memory(e);
      break;
    }
    uint32_t a = mt_token_lookup(t, m.ptr, left, MT_TOKEN_USED), b, c;
    b = mt_token_lookup(t, space + 1, m.len - left - 1, MT_TOKEN_USED);
    c = mt_token_lookup(t, both.data, both.len, MT_TOKEN_USED);
    if (a == MT_TOKEN_NONE || b == MT_TOKEN_NONE || c == MT_TOKEN_NONE)
      rc = mt_err_set(e, MT_EFORMAT, "%s: merge %zu (%.*s) names a token outside the vocabulary",
                      t->name.data, i, (int)(m.len < 80 ? m.len : 80), m.ptr);
    else if (mt_token_put_pair(t, a, b, (uint32_t)i, c))
      rc = no_memory(e);
  }
  mt_buf_free(&both);
  return rc;
}

static int load_byte_level(mt_tokenizer *t, const mt_weights *w, bool *adds_bos, mt_err *e) {
  mt_bytes name = {"", 0};
  if (!mt_gguf_string(w, "tokenizer.ggml.pre", &name))
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "%s: does not say by which rule text is cut (no tokenizer.ggml.pre)",
                      t->name.data);
  const pre_rule *rule = find_rule(&name);
  if (!rule)
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: pre-tokenizer \"%.*s\" is not known", t->name.data,
                      (int)(name.len < 80 ? name.len : 80), name.ptr);
  t->byte_level = t->decoder.byte_level = true;
  t->ignore_merges = rule->ignore_merges;
  *adds_bos = rule->adds_bos;
  int rc = MT_OK;
  mt_norm *nfc = rule->nfc ? mt_norm_add(t, MT_NORM_FORM, e) : NULL;
  if (nfc) nfc->form = MT_FORM_NFC;
  for (size_t i = 0; rule->pattern[i] && !rc; i++) {
    const char *p = !strcmp(rule->pattern[i], "gpt2") ? mt_pattern_gpt2 : rule->pattern[i];
    rc = mt_stage_add_regex(t, p, strlen(p), MT_SPLIT_ISOLATED, false, e);
  }
  if (!rc) rc = load_tokens(t, w, e);
  return rc ? rc : load_merges(t, w, e);
}

/* ---- SentencePiece type ---------------------------------------------------------------------- */

typedef struct scored {
  double score;
  uint32_t id, rank;
} scored;

static int by_score(const void *a, const void *b) {
  const scored *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Any two tokens whose join is a token may merge; the better the score of the join, the earlier.
 * Equal scores are equal ranks: the leftmost place decides. */
static int put_splits(mt_tokenizer *t, const scored *k, mt_err *e) {
  const mt_token_entry *token = &t->token[k->id];
  const char *s = t->spellings.data + token->offset;
  if (token->len > MAX_SCORED_TOKEN_BYTES)
    return mt_err_set(e, MT_ERANGE, "%s: token %u is %u bytes long", t->name.data, (unsigned)k->id,
                      (unsigned)token->len);
  for (size_t cut = 1; cut < token->len; cut++) {
    if (((unsigned char)s[cut] & 0xC0) == 0x80) continue;
    uint32_t left = mt_token_lookup(t, s, cut, MT_TOKEN_MODEL), right;
    if (left == MT_TOKEN_NONE) continue;
    right = mt_token_lookup(t, s + cut, token->len - cut, MT_TOKEN_MODEL);
    if (right == MT_TOKEN_NONE) continue;
    if (mt_token_put_pair(t, left, right, k->rank, k->id)) return no_memory(e);
  }
  return MT_OK;
}

static int load_scores(mt_tokenizer *t, const mt_weights *w, mt_err *e) {
  size_t n, count = 0;
  if (!mt_gguf_array_len(w, key_scores, &n) || n != t->n_tokens)
    return mt_err_set(e, MT_EFORMAT, "%s: %zu tokens, but not as many scores", t->name.data,
                      t->n_tokens);
  scored *list = mt_malloc(n, sizeof *list);
  if (!list) return no_memory(e);
  int rc = MT_OK;
  for (size_t i = 0; i < n && !rc; i++) {
    double score;
    if (!mt_gguf_array_number(w, key_scores, i, &score) || score != score)
      rc = mt_err_set(e, MT_EFORMAT, "%s: score %zu is not a number", t->name.data, i);
    else if (t->token[i].flags & MT_TOKEN_MODEL)
      list[count++] = (scored){score, (uint32_t)i, 0};
  }
  if (!rc) qsort(list, count, sizeof *list, by_score);
  for (size_t i = 0; i < count && !rc; i++) {
    bool tie = i && list[i].score == list[i - 1].score;
    list[i].rank = tie ? list[i - 1].rank : (uint32_t)i;
    rc = put_splits(t, &list[i], e);
  }
  free(list);
  return rc;
}

static int load_pieces(mt_tokenizer *t, const mt_weights *w, mt_err *e) {
  static const char mark[] = "\xE2\x96\x81";
  bool prefix = true;
  mt_gguf_bool(w, "tokenizer.ggml.add_space_prefix", &prefix);
  t->byte_fallback = t->fuse_unk = true;
  mt_norm *n = prefix ? mt_norm_add(t, MT_NORM_PREPEND, e) : NULL;
  if (n && mt_buf_puts(&n->with, mark)) return no_memory(e);
  n = mt_norm_add(t, MT_NORM_REPLACE, e);
  if (!n || mt_buf_putc(&n->pattern, ' ') || mt_buf_puts(&n->with, mark)) return no_memory(e);
  mt_decoder *d = &t->decoder;
  d->byte_fallback = d->fuse = true;
  d->n_steps = 1;
  if (mt_buf_puts(&d->step[0].pattern, mark) || mt_buf_putc(&d->step[0].with, ' '))
    return no_memory(e);
  if (prefix) {
    d->n_after = 1;
    d->after[0].kind = MT_DECODE_STRIP;
    d->after[0].start = 1;
    if (mt_buf_putc(&d->after[0].pattern, ' ')) return no_memory(e);
  }
  int rc = load_tokens(t, w, e);
  return rc ? rc : load_scores(t, w, e);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int read_id(const mt_tokenizer *t, const mt_weights *w, const char *key, int64_t *id,
                   mt_err *e) {
  uint64_t v;
  if (!mt_gguf_u64(w, key, &v)) return MT_OK;
  if (v >= t->n_tokens)
    return mt_err_set(e, MT_EFORMAT, "%s: %s is %llu, outside the vocabulary", t->name.data, key,
                      (unsigned long long)v);
  *id = (int64_t)v;
  return MT_OK;
}

static int load_ids(mt_tokenizer *t, const mt_weights *w, bool adds_bos, mt_err *e) {
  int64_t eot = -1, eom = -1;
  int rc = read_id(t, w, "tokenizer.ggml.bos_token_id", &t->bos, e);
  if (!rc) rc = read_id(t, w, "tokenizer.ggml.eos_token_id", &t->eos, e);
  if (!rc) rc = read_id(t, w, "tokenizer.ggml.unknown_token_id", &t->unk, e);
  if (!rc) rc = read_id(t, w, "tokenizer.ggml.padding_token_id", &t->pad, e);
  if (!rc) rc = read_id(t, w, "tokenizer.ggml.eot_token_id", &eot, e);
  if (!rc) rc = read_id(t, w, "tokenizer.ggml.eom_token_id", &eom, e);
  if (rc) return rc;
  bool adds_eos = false;
  mt_gguf_bool(w, "tokenizer.ggml.add_bos_token", &adds_bos);
  mt_gguf_bool(w, "tokenizer.ggml.add_eos_token", &adds_eos);
  if (adds_bos && t->bos >= 0 && mt_ids_push(&t->prefix, (uint32_t)t->bos)) return no_memory(e);
  if (adds_eos && t->eos >= 0 && mt_ids_push(&t->suffix, (uint32_t)t->eos)) return no_memory(e);
  if (!t->byte_level && t->unk >= 0) t->model_unk = (uint32_t)t->unk;
  if (mt_token_push_stop(t, t->eos) || mt_token_push_stop(t, eot) || mt_token_push_stop(t, eom) ||
      mt_token_find_stops(t))
    return no_memory(e);
  return MT_OK;
}

static int load_templates(mt_tokenizer *t, const mt_weights *w, mt_err *e) {
  static const char prefix[] = "tokenizer.chat_template";
  mt_bytes text;
  if (mt_gguf_string(w, prefix, &text) &&
      mt_token_put_template(t, "default", 7, text.ptr, text.len))
    return no_memory(e);
  const char *key;
  for (size_t i = 0; (key = mt_gguf_key_at(w, i)); i++) {
    size_t n = sizeof prefix - 1;
    if (strncmp(key, prefix, n) || key[n] != '.' || !key[n + 1] || !mt_gguf_string(w, key, &text))
      continue;
    if (mt_token_put_template(t, key + n + 1, strlen(key + n + 1), text.ptr, text.len))
      return no_memory(e);
  }
  return MT_OK;
}

int mt_tokenizer_open_gguf(mt_tokenizer **out, const mt_weights *w, mt_err *e) {
  *out = NULL;
  mt_bytes model = {"", 0};
  const char *file = mt_weights_file_name(w, 0);
  if (!mt_gguf_string(w, "tokenizer.ggml.model", &model) || !strcmp(model.ptr, "none"))
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: has no tokenizer", file);
  bool byte_level = !strcmp(model.ptr, "gpt2"), adds_bos = true;
  if (!byte_level && strcmp(model.ptr, "llama"))
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "%s: tokenizer model \"%.*s\" is not supported, only gpt2 and llama", file,
                      (int)(model.len < 80 ? model.len : 80), model.ptr);
  mt_tokenizer *t = mt_tokenizer_new_empty(file);
  if (!t) return no_memory(e);
  int rc = byte_level ? load_byte_level(t, w, &adds_bos, e) : load_pieces(t, w, e);
  if (!rc) rc = load_ids(t, w, adds_bos, e);
  if (!rc) rc = load_templates(t, w, e);
  if (!rc) rc = mt_tokenizer_seal(t, e);
  if (rc)
    mt_tokenizer_free(t);
  else
    *out = t;
  return rc;
}
