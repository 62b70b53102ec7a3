/* Pre-tokenizers: stages that cut a stretch of text, each piece handed on to the next stage at
 * once, so that a text of any size needs no list of pieces. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const char mt_pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static int run_stage(mt_encoder *x, size_t i, const char *s, size_t n, bool first);

mt_stage *mt_stage_add(mt_tokenizer *t, mt_stage_kind kind, mt_err *e) {
  if (t->n_stages == MT_TOKEN_MAX_STAGES) {
    mt_err_set(e, MT_EUNSUPPORTED, "%s: more than %d pre-tokenizers", t->name.data,
               MT_TOKEN_MAX_STAGES);
    return NULL;
  }
  mt_stage *g = &t->stage[t->n_stages++];
  g->kind = kind;
  return g;
}

int mt_stage_add_regex(mt_tokenizer *t, const char *pattern, size_t len, mt_behavior b, bool invert,
                       mt_err *e) {
  mt_scan_fn *scan = b == MT_SPLIT_ISOLATED ? mt_scan_find(pattern, len) : NULL;
  mt_stage *g = mt_stage_add(t, scan ? MT_STAGE_SCAN : MT_STAGE_REGEX, e);
  if (!g) return MT_EUNSUPPORTED;
  g->behavior = b;
  g->invert = invert;
  g->scan = scan;
  int rc = scan ? MT_OK : mt_regex_new(&g->regex, pattern, len, e);
  return rc ? mt_err_prefix(e, rc, "%s", t->name.data) : MT_OK;
}

int mt_stage_add_class(mt_tokenizer *t, unsigned classes, mt_behavior b, mt_err *e) {
  mt_stage *g = mt_stage_add(t, MT_STAGE_CLASS, e);
  if (!g) return MT_EUNSUPPORTED;
  g->behavior = b;
  g->classes = classes;
  return MT_OK;
}

/* Joins or drops the stretches that a stage finds, as its behavior says, and hands them on. One
 * stretch is kept back, since the next may still join it. */
typedef struct splitter {
  mt_encoder *x;
  size_t stage;
  const char *s;
  bool first;
  size_t begin, end; /* kept back; empty: none */
  bool is_match, joined;
} splitter;

static int flush(splitter *p) {
  if (p->begin == p->end) return MT_OK;
  return run_stage(p->x, p->stage + 1, p->s + p->begin, p->end - p->begin,
                   p->first && p->begin == 0);
}

static int feed(splitter *p, size_t begin, size_t end, bool match) {
  const mt_stage *g = &p->x->t->stage[p->stage];
  match ^= g->invert;
  bool join = false;
  switch (g->behavior) {
    case MT_SPLIT_REMOVED:
      if (match) begin = end;
      break;
    case MT_SPLIT_ISOLATED: break;
    case MT_SPLIT_WITH_PREVIOUS: join = match && !p->is_match; break;
    case MT_SPLIT_WITH_NEXT: join = p->is_match && !match; break;
    case MT_SPLIT_CONTIGUOUS: join = p->is_match == match; break;
  }
  if (join && p->begin < p->end) {
    p->end = end;
    p->is_match = match;
    return MT_OK;
  }
  int rc = flush(p);
  p->begin = begin;
  p->end = end;
  p->is_match = match;
  return rc;
}

static int run_regex(mt_encoder *x, size_t i, const char *s, size_t n, bool first) {
  splitter p = {.x = x, .stage = i, .s = s, .first = first};
  char *copy = NULL;
  if (mt_encoder_need_scratch(x)) return MT_ENOMEM;
  const char *subject = mt_unicode_for_regex(x, s, n, &copy);
  if (!subject) return mt_err_set(x->err, MT_ENOMEM, "no memory for the text");
  mt_matches it = MT_MATCHES_INIT;
  size_t done = 0, b, end;
  int rc = MT_OK, got = 0;
  while (!rc && (got = mt_regex_next(x->t->stage[i].regex, x->scratch, subject, n, &it, &b, &end,
                                     x->err)) > 0) {
    if (b > done) rc = feed(&p, done, b, false);
    if (!rc) rc = feed(&p, b, end, true);
    done = end;
  }
  if (!rc && got < 0) rc = got;
  if (!rc && done < n) rc = feed(&p, done, n, false);
  if (!rc) rc = flush(&p);
  free(copy);
  return rc;
}

static int run_scan(mt_encoder *x, size_t i, const char *s, size_t n, bool first) {
  mt_scan_fn *scan = x->t->stage[i].scan;
  bool last = i + 1 == x->t->n_stages;
  for (size_t at = 0; at < n;) {
    size_t len = scan(s + at, n - at);
    int rc =
        last ? mt_bpe_word(x, s + at, len) : run_stage(x, i + 1, s + at, len, first && at == 0);
    if (rc) return rc;
    at += len;
  }
  return MT_OK;
}

static int run_literal(mt_encoder *x, size_t i, const char *s, size_t n, bool first) {
  splitter p = {.x = x, .stage = i, .s = s, .first = first};
  const mt_buf *what = &x->t->stage[i].pattern;
  size_t done = 0;
  int rc = MT_OK;
  while (!rc && done < n && what->len) {
    const char *hit = memmem(s + done, n - done, what->data, what->len);
    if (!hit) break;
    size_t at = (size_t)(hit - s);
    if (at > done) rc = feed(&p, done, at, false);
    if (!rc) rc = feed(&p, at, at + what->len, true);
    done = at + what->len;
  }
  if (!rc && done < n) rc = feed(&p, done, n, false);
  return rc ? rc : flush(&p);
}

static int run_class(mt_encoder *x, size_t i, const char *s, size_t n, bool first) {
  splitter p = {.x = x, .stage = i, .s = s, .first = first};
  unsigned classes = x->t->stage[i].classes;
  size_t done = 0;
  int rc = MT_OK;
  for (size_t at = 0, next = 0; at < n && !rc; at = next) {
    if (!(mt_unicode_class(mt_unicode_step(s, &next)) & classes)) continue;
    if (at > done) rc = feed(&p, done, at, false);
    if (!rc) rc = feed(&p, at, next, true);
    done = next;
  }
  if (!rc && done < n) rc = feed(&p, done, n, false);
  return rc ? rc : flush(&p);
}

static int run_prefix_space(mt_encoder *x, size_t i, const char *s, size_t n, bool first) {
  if (!n || s[0] == ' ') return run_stage(x, i + 1, s, n, first);
  char *copy = mt_malloc(n + 1, 1);
  if (!copy) return mt_err_set(x->err, MT_ENOMEM, "no memory for the text");
  copy[0] = ' ';
  memcpy(copy + 1, s, n);
  int rc = run_stage(x, i + 1, copy, n + 1, first);
  free(copy);
  return rc;
}

/* Spaces become the replacement, one is put first as `prepend` says; then, if asked, a cut before
 * each. */
static int run_metaspace(mt_encoder *x, size_t i, const char *s, size_t n, bool first) {
  const mt_stage *g = &x->t->stage[i];
  const mt_buf *mark = &g->pattern;
  mt_buf b = {0};
  int rc = MT_OK;
  bool has = n >= mark->len && !memcmp(s, mark->data, mark->len);
  bool wanted = g->prepend == MT_PREPEND_ALWAYS || (g->prepend == MT_PREPEND_FIRST && first);
  if (n && wanted && !has && s[0] != ' ') rc = mt_buf_append(&b, mark->data, mark->len);
  for (size_t k = 0; k < n && !rc;) {
    const char *hit = memchr(s + k, ' ', n - k);
    size_t end = hit ? (size_t)(hit - s) : n;
    rc = mt_buf_append(&b, s + k, end - k);
    if (hit && !rc) rc = mt_buf_append(&b, mark->data, mark->len);
    k = end + (hit ? 1 : 0);
  }
  if (rc) rc = mt_err_set(x->err, MT_ENOMEM, "no memory for the text");
  for (size_t k = 0; k < b.len && !rc;) {
    const char *hit = NULL;
    if (g->split && b.len - k > 1)
      hit = memmem(b.data + k + 1, b.len - k - 1, mark->data, mark->len);
    size_t end = hit ? (size_t)(hit - b.data) : b.len;
    rc = run_stage(x, i + 1, b.data + k, end - k, first && k == 0);
    k = end;
  }
  mt_buf_free(&b);
  return rc;
}

static int run_stage(mt_encoder *x, size_t i, const char *s, size_t n, bool first) {
  if (i == x->t->n_stages) return mt_bpe_word(x, s, n);
  switch (x->t->stage[i].kind) {
    case MT_STAGE_REGEX: return run_regex(x, i, s, n, first);
    case MT_STAGE_SCAN: return run_scan(x, i, s, n, first);
    case MT_STAGE_LITERAL: return run_literal(x, i, s, n, first);
    case MT_STAGE_CLASS: return run_class(x, i, s, n, first);
    case MT_STAGE_PREFIX_SPACE: return run_prefix_space(x, i, s, n, first);
    case MT_STAGE_METASPACE: return run_metaspace(x, i, s, n, first);
  }
  return MT_OK;
}

int mt_pretok_run(mt_encoder *x, const char *s, size_t n, bool first) {
  return run_stage(x, 0, s, n, first);
}
