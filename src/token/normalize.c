/* Normalizers: each maps a stretch of text to another; two buffers take turns. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

mt_norm *mt_norm_add(mt_tokenizer *t, mt_norm_kind kind, mt_err *e) {
  if (t->n_norms == MT_TOKEN_MAX_STAGES) {
    mt_err_set(e, MT_EUNSUPPORTED, "%s: more than %d normalizers", t->name.data,
               MT_TOKEN_MAX_STAGES);
    return NULL;
  }
  mt_norm *n = &t->norm[t->n_norms++];
  n->kind = kind;
  return n;
}

static int replace_literal(const mt_norm *m, const char *s, size_t n, mt_buf *out) {
  size_t done = 0;
  while (done < n && m->pattern.len) {
    const char *hit = memmem(s + done, n - done, m->pattern.data, m->pattern.len);
    if (!hit) break;
    size_t at = (size_t)(hit - s);
    if (mt_buf_append(out, s + done, at - done) || mt_buf_append(out, m->with.data, m->with.len))
      return MT_ENOMEM;
    done = at + m->pattern.len;
  }
  return mt_buf_append(out, s + done, n - done);
}

static int replace_regex(mt_encoder *x, const mt_norm *m, const char *s, size_t n, mt_buf *out) {
  size_t done = 0, b, end;
  mt_matches it = MT_MATCHES_INIT;
  int got = 0, rc = mt_encoder_need_scratch(x);
  char *copy = NULL;
  if (rc) return rc;
  const char *subject = mt_unicode_for_regex(x, s, n, &copy);
  if (!subject) rc = MT_ENOMEM;
  while (!rc &&
         (got = mt_regex_next(m->regex, x->scratch, subject, n, &it, &b, &end, x->err)) > 0) {
    if (mt_buf_append(out, s + done, b - done) || mt_buf_append(out, m->with.data, m->with.len))
      rc = MT_ENOMEM;
    done = end;
  }
  if (!rc && got >= 0) rc = mt_buf_append(out, s + done, n - done);
  free(copy);
  if (rc) return mt_err_set(x->err, rc, "no memory for the normalized text");
  return got < 0 ? got : MT_OK;
}

static int strip(const mt_norm *m, const char *s, size_t n, mt_buf *out) {
  size_t b = 0, end = n;
  while (m->left && b < end) {
    uint32_t cp = 0;
    int len = mt_utf8_decode(s + b, end - b, &cp);
    if (!(mt_unicode_class(cp) & MT_UC_SPACE)) break;
    b += (size_t)len;
  }
  while (m->right && end > b) {
    size_t i = end;
    do i--;
    while (i > b && ((unsigned char)s[i] & 0xC0) == 0x80);
    uint32_t cp = 0;
    mt_utf8_decode(s + i, end - i, &cp);
    if (!(mt_unicode_class(cp) & MT_UC_SPACE)) break;
    end = i;
  }
  return mt_buf_append(out, s + b, end - b);
}

static int apply(mt_encoder *x, const mt_norm *m, const char *s, size_t n, mt_buf *out) {
  int rc = MT_OK;
  switch (m->kind) {
    case MT_NORM_FORM: return mt_unicode_normalize(m->form, s, n, out, x->err);
    case MT_NORM_PREPEND:
      rc =
          n && mt_buf_append(out, m->with.data, m->with.len) ? MT_ENOMEM : mt_buf_append(out, s, n);
      break;
    case MT_NORM_REPLACE:
      if (m->regex) return replace_regex(x, m, s, n, out);
      rc = replace_literal(m, s, n, out);
      break;
    case MT_NORM_LOWERCASE: rc = mt_unicode_lowercase(s, n, out); break;
    case MT_NORM_STRIP: rc = strip(m, s, n, out); break;
    case MT_NORM_STRIP_ACCENTS: rc = mt_unicode_strip_accents(s, n, out); break;
  }
  return rc ? mt_err_set(x->err, rc, "no memory for the normalized text") : MT_OK;
}

int mt_norm_run(mt_encoder *x, const char *s, size_t n, const char **out, size_t *out_n) {
  for (size_t i = 0; i < x->t->n_norms; i++) {
    mt_buf *to = &x->norm[i % 2];
    mt_buf_clear(to);
    if (mt_buf_reserve(to, n))
      return mt_err_set(x->err, MT_ENOMEM, "no memory for the normalized text");
    int rc = apply(x, &x->t->norm[i], s, n, to);
    if (rc) return rc;
    s = to->data ? to->data : "";
    n = to->len;
  }
  *out = s;
  *out_n = n;
  return MT_OK;
}
