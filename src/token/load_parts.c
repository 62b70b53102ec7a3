/* tokenizer.json: normalizer, pre-tokenizer, post-processor and decoder. Every kind is either done
 * as the reference does it or refused by name. */
#include <string.h>

#include "internal.h"

enum { MAX_NESTING = 16 };

static int refuse(const mt_tokenizer *t, const char *part, const char *kind, mt_err *e) {
  return mt_err_set(e, MT_EUNSUPPORTED, "%s: %s %.80s is not supported", t->name.data, part,
                    kind ? kind : "(no type)");
}

static int no_memory(const mt_tokenizer *t, mt_err *e) {
  return mt_err_set(e, MT_ENOMEM, "%s: no memory for the tokenizer", t->name.data);
}

static bool flag(const mt_json *j, const char *key, bool otherwise) {
  bool v;
  return mt_json_bool(mt_json_get(j, key), &v) ? v : otherwise;
}

static bool is(const char *a, const char *b) {
  return a && !strcmp(a, b);
}

static bool absent(const mt_json *j) {
  return mt_json_get_kind(j) == MT_JSON_NULL;
}

static int copy_string(const mt_tokenizer *t, const mt_json *j, mt_buf *out, const char *what,
                       mt_err *e) {
  size_t n;
  const char *s = mt_json_string(j, &n);
  if (!s) return mt_err_set(e, MT_EFORMAT, "%s: %s is not a string", t->name.data, what);
  return mt_buf_append(out, s, n) ? no_memory(t, e) : MT_OK;
}

/* ---- normalizer ------------------------------------------------------------------------------ */

static int load_replace(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  mt_norm *n = mt_norm_add(t, MT_NORM_REPLACE, e);
  if (!n) return MT_EUNSUPPORTED;
  const mt_json *pattern = mt_json_get(j, "pattern"), *regex = mt_json_get(pattern, "Regex");
  int rc =
      copy_string(t, mt_json_get(j, "content"), &n->with, "content of a Replace normalizer", e);
  if (rc) return rc;
  if (!regex)
    return copy_string(t, mt_json_get(pattern, "String"), &n->pattern,
                       "pattern of a Replace normalizer", e);
  size_t len;
  const char *s = mt_json_string(regex, &len);
  if (!s) return refuse(t, "Replace normalizer", "with a pattern that is no string", e);
  rc = mt_regex_new(&n->regex, s, len, e);
  return rc ? mt_err_prefix(e, rc, "%s", t->name.data) : MT_OK;
}

static int load_normalizer(mt_tokenizer *t, const mt_json *j, int depth, mt_err *e) {
  static const char *const form[] = {"NFC", "NFD", "NFKC", "NFKD"};
  if (absent(j)) return MT_OK;
  const char *kind = mt_json_string(mt_json_get(j, "type"), NULL);
  if (depth > MAX_NESTING) return refuse(t, "normalizer", "nested this deeply", e);
  if (is(kind, "Sequence")) {
    const mt_json *list = mt_json_get(j, "normalizers");
    int rc = MT_OK;
    for (size_t i = 0; i < mt_json_len(list) && !rc; i++)
      rc = load_normalizer(t, mt_json_at(list, i), depth + 1, e);
    return rc;
  }
  if (is(kind, "Replace")) return load_replace(t, j, e);
  mt_norm_kind k = MT_NORM_FORM;
  int which = 0;
  for (; which < 4; which++)
    if (is(kind, form[which])) break;
  if (is(kind, "Prepend"))
    k = MT_NORM_PREPEND;
  else if (is(kind, "Lowercase"))
    k = MT_NORM_LOWERCASE;
  else if (is(kind, "Strip"))
    k = MT_NORM_STRIP;
  else if (is(kind, "StripAccents"))
    k = MT_NORM_STRIP_ACCENTS;
  else if (which == 4)
    return refuse(t, "normalizer", kind, e);
  mt_norm *n = mt_norm_add(t, k, e);
  if (!n) return MT_EUNSUPPORTED;
  n->form = which;
  n->left = flag(j, "strip_left", true);
  n->right = flag(j, "strip_right", true);
  return k == MT_NORM_PREPEND
             ? copy_string(t, mt_json_get(j, "prepend"), &n->with, "prepend of a normalizer", e)
             : MT_OK;
}

int mt_load_normalizer(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  return load_normalizer(t, j, 0, e);
}

/* ---- pre-tokenizer --------------------------------------------------------------------------- */

static int load_behavior(const mt_tokenizer *t, const mt_json *j, mt_behavior *out, mt_err *e) {
  static const char *const name[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                     "Contiguous"};
  const char *s = mt_json_string(j, NULL);
  for (size_t i = 0; i < 5; i++) {
    if (!is(s, name[i])) continue;
    *out = (mt_behavior)i;
    return MT_OK;
  }
  return refuse(t, "split behavior", s, e);
}

static int load_split(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  mt_behavior b = MT_SPLIT_ISOLATED;
  int rc = load_behavior(t, mt_json_get(j, "behavior"), &b, e);
  if (rc) return rc;
  bool invert = flag(j, "invert", false);
  size_t n;
  const mt_json *pattern = mt_json_get(j, "pattern");
  const char *regex = mt_json_string(mt_json_get(pattern, "Regex"), &n);
  if (regex) return mt_stage_add_regex(t, regex, n, b, invert, e);
  mt_stage *g = mt_stage_add(t, MT_STAGE_LITERAL, e);
  if (!g) return MT_EUNSUPPORTED;
  g->behavior = b;
  g->invert = invert;
  return copy_string(t, mt_json_get(pattern, "String"), &g->pattern,
                     "pattern of a Split pre-tokenizer", e);
}

static int load_metaspace(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  mt_stage *g = mt_stage_add(t, MT_STAGE_METASPACE, e);
  if (!g) return MT_EUNSUPPORTED;
  const char *scheme = mt_json_string(mt_json_get(j, "prepend_scheme"), NULL);
  g->split = flag(j, "split", true);
  g->prepend = flag(j, "add_prefix_space", true) ? MT_PREPEND_ALWAYS : MT_PREPEND_NEVER;
  if (is(scheme, "always"))
    g->prepend = MT_PREPEND_ALWAYS;
  else if (is(scheme, "first"))
    g->prepend = MT_PREPEND_FIRST;
  else if (is(scheme, "never"))
    g->prepend = MT_PREPEND_NEVER;
  else if (scheme)
    return refuse(t, "Metaspace prepend_scheme", scheme, e);
  int rc =
      copy_string(t, mt_json_get(j, "replacement"), &g->pattern, "replacement of Metaspace", e);
  return !rc && !g->pattern.len ? refuse(t, "Metaspace", "without a replacement", e) : rc;
}

static int load_byte_level(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  if (flag(j, "add_prefix_space", true) && !mt_stage_add(t, MT_STAGE_PREFIX_SPACE, e))
    return MT_EUNSUPPORTED;
  t->byte_level = true;
  if (!flag(j, "use_regex", true)) return MT_OK;
  return mt_stage_add_regex(t, mt_pattern_gpt2, strlen(mt_pattern_gpt2), MT_SPLIT_ISOLATED, false,
                            e);
}

static int load_pre_tokenizer(mt_tokenizer *t, const mt_json *j, int depth, mt_err *e) {
  if (absent(j)) return MT_OK;
  const char *kind = mt_json_string(mt_json_get(j, "type"), NULL);
  if (depth > MAX_NESTING) return refuse(t, "pre-tokenizer", "nested this deeply", e);
  if (is(kind, "Sequence")) {
    const mt_json *list = mt_json_get(j, "pretokenizers");
    int rc = MT_OK;
    for (size_t i = 0; i < mt_json_len(list) && !rc; i++)
      rc = load_pre_tokenizer(t, mt_json_at(list, i), depth + 1, e);
    return rc;
  }
  if (t->byte_level) /* it would see the byte alphabet instead of the text */
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "%s: pre-tokenizer %.80s after ByteLevel is not supported", t->name.data,
                      kind ? kind : "(no type)");
  if (is(kind, "ByteLevel")) return load_byte_level(t, j, e);
  if (is(kind, "Split")) return load_split(t, j, e);
  if (is(kind, "Metaspace")) return load_metaspace(t, j, e);
  if (is(kind, "Digits"))
    return mt_stage_add_class(
        t, MT_UC_NUMBER,
        flag(j, "individual_digits", false) ? MT_SPLIT_ISOLATED : MT_SPLIT_CONTIGUOUS, e);
  if (is(kind, "WhitespaceSplit")) return mt_stage_add_class(t, MT_UC_SPACE, MT_SPLIT_REMOVED, e);
  if (is(kind, "CharDelimiterSplit")) {
    mt_stage *g = mt_stage_add(t, MT_STAGE_LITERAL, e);
    return g ? copy_string(t, mt_json_get(j, "delimiter"), &g->pattern, "delimiter", e)
             : MT_EUNSUPPORTED;
  }
  return refuse(t, "pre-tokenizer", kind, e);
}

int mt_load_pre_tokenizer(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  return load_pre_tokenizer(t, j, 0, e);
}

/* ---- post-processor -------------------------------------------------------------------------- */

static int push_ids(mt_tokenizer *t, const mt_json *ids, mt_ids *out, mt_err *e) {
  for (size_t i = 0; i < mt_json_len(ids); i++) {
    int64_t id;
    if (!mt_json_int(mt_json_at(ids, i), &id) || id < 0 || (size_t)id >= t->n_tokens)
      return mt_err_set(e, MT_EFORMAT, "%s: the post-processor names an id outside the vocabulary",
                        t->name.data);
    if (mt_ids_push(out, (uint32_t)id)) return no_memory(t, e);
  }
  return MT_OK;
}

/* Only one processor may add tokens: after the first, the reference counts what it added as texts
 * of their own. */
static int put_round(mt_tokenizer *t, mt_ids *before, mt_ids *after, mt_err *e) {
  if (t->prefix.n || t->suffix.n)
    return refuse(t, "post-processor", "that adds tokens after another", e);
  mt_ids none = {0};
  t->prefix = *before;
  t->suffix = *after;
  *before = *after = none;
  return MT_OK;
}

static int load_template(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  const mt_json *single = mt_json_get(j, "single"), *special = mt_json_get(j, "special_tokens");
  mt_ids before = {0}, after = {0};
  int sequences = 0, rc = MT_OK;
  for (size_t i = 0; i < mt_json_len(single) && !rc; i++) {
    const mt_json *piece = mt_json_at(single, i);
    if (mt_json_get(piece, "Sequence")) {
      sequences++;
      continue;
    }
    const char *id = mt_json_string(mt_json_get(mt_json_get(piece, "SpecialToken"), "id"), NULL);
    const mt_json *token = id ? mt_json_get(special, id) : NULL;
    rc = token ? push_ids(t, mt_json_get(token, "ids"), sequences ? &after : &before, e)
               : mt_err_set(e, MT_EFORMAT, "%s: post-processor template names no known token",
                            t->name.data);
  }
  if (!rc && sequences != 1)
    rc = refuse(t, "post-processor template", "without exactly one sequence", e);
  if (!rc) rc = put_round(t, &before, &after, e);
  mt_ids_free(&before);
  mt_ids_free(&after);
  return rc;
}

/* RobertaProcessing and BertProcessing: cls before, sep after. */
static int load_cls_sep(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  mt_ids id[2] = {{0}, {0}};
  static const char *const key[] = {"cls", "sep"};
  int rc = MT_OK;
  for (size_t i = 0; i < 2 && !rc; i++) {
    int64_t v;
    if (!mt_json_int(mt_json_at(mt_json_get(j, key[i]), 1), &v) || v < 0 ||
        (size_t)v >= t->n_tokens)
      rc = mt_err_set(e, MT_EFORMAT, "%s: post-processor without a valid %s", t->name.data, key[i]);
    else if (mt_ids_push(&id[i], (uint32_t)v))
      rc = no_memory(t, e);
  }
  if (!rc) rc = put_round(t, &id[0], &id[1], e);
  mt_ids_free(&id[0]);
  mt_ids_free(&id[1]);
  return rc;
}

static int load_post_processor(mt_tokenizer *t, const mt_json *j, int depth, mt_err *e) {
  if (absent(j)) return MT_OK;
  const char *kind = mt_json_string(mt_json_get(j, "type"), NULL);
  if (depth > MAX_NESTING) return refuse(t, "post-processor", "nested this deeply", e);
  if (is(kind, "Sequence")) {
    const mt_json *list = mt_json_get(j, "processors");
    int rc = MT_OK;
    for (size_t i = 0; i < mt_json_len(list) && !rc; i++)
      rc = load_post_processor(t, mt_json_at(list, i), depth + 1, e);
    return rc;
  }
  if (is(kind, "ByteLevel")) return MT_OK; /* concerns offsets only */
  if (is(kind, "TemplateProcessing")) return load_template(t, j, e);
  if (is(kind, "RobertaProcessing") || is(kind, "BertProcessing")) return load_cls_sep(t, j, e);
  return refuse(t, "post-processor", kind, e);
}

int mt_load_post_processor(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  return load_post_processor(t, j, 0, e);
}

/* ---- decoder --------------------------------------------------------------------------------- */

static mt_decode_step *add_step(mt_tokenizer *t, bool fused, mt_decode_kind kind, mt_err *e) {
  mt_decoder *d = &t->decoder;
  size_t *n = fused ? &d->n_after : &d->n_steps;
  if (*n == MT_TOKEN_MAX_STAGES) {
    refuse(t, "decoder", "with this many parts", e);
    return NULL;
  }
  mt_decode_step *s = fused ? &d->after[(*n)++] : &d->step[(*n)++];
  s->kind = kind;
  return s;
}

static bool one_character(const mt_buf *b) {
  uint32_t cp;
  return b->len && mt_utf8_decode(b->data, b->len, &cp) == (int)b->len;
}

/* Steps after ByteFallback but before Fuse would see single bytes' text; those on fused text must
 * not look ahead, or a stream would have to wait. */
static int load_decode_step(mt_tokenizer *t, const mt_json *j, const char *kind, mt_err *e) {
  mt_decoder *d = &t->decoder;
  bool fused = d->fuse || d->byte_level;
  if (!fused && d->byte_fallback) return refuse(t, "decoder order: after ByteFallback,", kind, e);
  mt_decode_step *s =
      add_step(t, fused, is(kind, "Strip") ? MT_DECODE_STRIP : MT_DECODE_REPLACE, e);
  if (!s) return MT_EUNSUPPORTED;
  if (is(kind, "Strip")) {
    int64_t start = 0, stop = 0;
    if (!mt_json_int(mt_json_get(j, "start"), &start) ||
        !mt_json_int(mt_json_get(j, "stop"), &stop) || start < 0 || stop < 0)
      return mt_err_set(e, MT_EFORMAT, "%s: Strip decoder without start and stop", t->name.data);
    if (fused && stop) return refuse(t, "decoder Strip with a stop after", "Fuse", e);
    s->start = (size_t)start;
    s->stop = (size_t)stop;
    int rc =
        copy_string(t, mt_json_get(j, "content"), &s->pattern, "content of a Strip decoder", e);
    return !rc && !one_character(&s->pattern)
               ? refuse(t, "decoder Strip", "of other than one character", e)
               : rc;
  }
  int rc = copy_string(t, mt_json_get(j, "content"), &s->with, "content of a Replace decoder", e);
  if (rc) return rc;
  const mt_json *pattern = mt_json_get(mt_json_get(j, "pattern"), "String");
  if (!pattern) return refuse(t, "decoder Replace", "with a regular expression", e);
  rc = copy_string(t, pattern, &s->pattern, "pattern of a Replace decoder", e);
  return !rc && fused && !one_character(&s->pattern)
             ? refuse(t, "decoder Replace after Fuse", "of more than one character", e)
             : rc;
}

static int load_metaspace_decoder(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  mt_decoder *d = &t->decoder;
  if (d->n_steps || d->byte_fallback || d->fuse)
    return refuse(t, "decoder order: not first,", "Metaspace", e);
  mt_decode_step *s = add_step(t, false, MT_DECODE_REPLACE, e);
  if (!s) return MT_EUNSUPPORTED;
  const char *scheme = mt_json_string(mt_json_get(j, "prepend_scheme"), NULL);
  d->metaspace_first = scheme ? !is(scheme, "never") : flag(j, "add_prefix_space", true);
  if (mt_buf_putc(&s->with, ' ')) return no_memory(t, e);
  int rc =
      copy_string(t, mt_json_get(j, "replacement"), &s->pattern, "replacement of Metaspace", e);
  return !rc && !one_character(&s->pattern)
             ? refuse(t, "decoder Metaspace", "with this replacement", e)
             : rc;
}

static int load_decoder(mt_tokenizer *t, const mt_json *j, int depth, mt_err *e) {
  mt_decoder *d = &t->decoder;
  const char *kind = mt_json_string(mt_json_get(j, "type"), NULL);
  if (depth > MAX_NESTING) return refuse(t, "decoder", "nested this deeply", e);
  if (is(kind, "Sequence")) {
    const mt_json *list = mt_json_get(j, "decoders");
    int rc = MT_OK;
    for (size_t i = 0; i < mt_json_len(list) && !rc; i++)
      rc = load_decoder(t, mt_json_at(list, i), depth + 1, e);
    return rc;
  }
  if (d->metaspace_first && !is(kind, "Fuse"))
    return refuse(t, "decoder order: after Metaspace,", kind, e);
  if (is(kind, "ByteLevel")) {
    if (d->byte_fallback || d->fuse || d->byte_level)
      return refuse(t, "decoder order: not first,", kind, e);
    d->byte_level = true;
    return MT_OK;
  }
  if (is(kind, "ByteFallback")) {
    if (d->fuse || d->byte_level) return refuse(t, "decoder order: after Fuse,", kind, e);
    d->byte_fallback = true;
    return MT_OK;
  }
  if (is(kind, "Fuse")) {
    d->fuse = true;
    return MT_OK;
  }
  if (is(kind, "Metaspace")) return load_metaspace_decoder(t, j, e);
  if (is(kind, "Replace") || is(kind, "Strip")) return load_decode_step(t, j, kind, e);
  return refuse(t, "decoder", kind, e);
}

int mt_load_decoder(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  t->decoder.joined_by_space = absent(j);
  return absent(j) ? MT_OK : load_decoder(t, j, 0, e);
}
