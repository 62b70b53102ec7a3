/* From ids to text. There is one decoder, the streaming one; decoding a whole list is pushing each
 * id and finishing, so that both are equal by construction. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define REPLACEMENT "\xEF\xBF\xBD"

struct mt_stream {
  const mt_tokenizer *t;
  bool skip_special;
  bool any;       /* a token was pushed */
  bool run_bad;   /* byte fallback: the present run is known to be malformed */
  size_t checked; /* bytes of `pending` that are whole characters */
  size_t strip_left[MT_TOKEN_MAX_STAGES]; /* for each step of `after`: how many may still be
                                             stripped */
  mt_buf pending;                         /* bytes whose text is not certain yet */
  mt_buf scratch[2];
};

/* ---- what a token stands for ----------------------------------------------------------------- */

static int step_replace(const mt_decode_step *d, const char *s, size_t n, mt_buf *out) {
  size_t done = 0;
  while (done < n && d->pattern.len) {
    const char *hit = memmem(s + done, n - done, d->pattern.data, d->pattern.len);
    if (!hit) break;
    size_t at = (size_t)(hit - s);
    if (mt_buf_append(out, s + done, at - done) || mt_buf_append(out, d->with.data, d->with.len))
      return MT_ENOMEM;
    done = at + d->pattern.len;
  }
  return mt_buf_append(out, s + done, n - done);
}

/* Drops up to *left leading pattern characters; what is left of the text otherwise ends the search
 * for them. */
static void strip_start(const mt_buf *pattern, const char **s, size_t *n, size_t *left) {
  while (*left && *n >= pattern->len && !memcmp(*s, pattern->data, pattern->len)) {
    *s += pattern->len;
    *n -= pattern->len;
    --*left;
  }
  if (*n) *left = 0;
}

static void strip_stop(const mt_buf *pattern, const char *s, size_t *n, size_t count) {
  for (; count && *n >= pattern->len && !memcmp(s + *n - pattern->len, pattern->data, pattern->len);
       count--)
    *n -= pattern->len;
}

/* A byte-level token is the bytes of its symbols, or, where one character is no symbol, its
 * spelling. */
static int append_symbols(const char *s, size_t n, mt_buf *out) {
  size_t before = out->len;
  for (size_t i = 0; i < n;) {
    uint32_t cp = 0;
    i += (size_t)mt_utf8_decode(s + i, n - i, &cp);
    int b = mt_byte_of_symbol(cp);
    if (b < 0) {
      out->len = before;
      return mt_buf_append(out, s, n);
    }
    if (mt_buf_putc(out, (char)b)) return MT_ENOMEM;
  }
  return MT_OK;
}

static int prepare_token(mt_tokenizer *t, mt_token_entry *k, mt_buf turn[2]) {
  const mt_decoder *d = &t->decoder;
  const char *s = t->spellings.data + k->offset;
  size_t n = k->len;
  for (size_t i = 0; i < d->n_steps; i++) {
    const mt_decode_step *step = &d->step[i];
    if (step->kind == MT_DECODE_STRIP) {
      size_t left = step->start;
      strip_start(&step->pattern, &s, &n, &left);
      strip_stop(&step->pattern, s, &n, step->stop);
      continue;
    }
    mt_buf *to = &turn[i % 2];
    mt_buf_clear(to);
    if (step_replace(step, s, n, to)) return MT_ENOMEM;
    s = to->data;
    n = to->len;
  }
  k->raw_offset = (uint32_t)t->decoded.len;
  int byte = d->byte_fallback ? mt_byte_of_fallback(s, n) : -1;
  int rc;
  if (byte >= 0) {
    k->flags |= MT_TOKEN_BYTE_OUT;
    rc = mt_buf_putc(&t->decoded, (char)byte);
  } else {
    rc = d->byte_level ? append_symbols(s, n, &t->decoded) : mt_buf_append(&t->decoded, s, n);
  }
  k->raw_len = (uint32_t)(t->decoded.len - k->raw_offset);
  return rc || t->decoded.len > UINT32_MAX ? MT_ENOMEM : MT_OK;
}

int mt_decode_prepare(mt_tokenizer *t) {
  mt_buf turn[2] = {{0}, {0}};
  int rc = mt_buf_reserve(&t->decoded, 1);
  for (size_t i = 0; i < t->n_tokens && !rc; i++)
    if (t->token[i].flags & MT_TOKEN_USED) rc = prepare_token(t, &t->token[i], turn);
  mt_buf_free(&turn[0]);
  mt_buf_free(&turn[1]);
  return rc;
}

/* ---- streaming ------------------------------------------------------------------------------- */

/* Text that is certain, whole characters: through the steps for the fused text into out. */
static int emit(mt_stream *s, const char *p, size_t n, mt_buf *out) {
  const mt_decoder *d = &s->t->decoder;
  for (size_t i = 0; i < d->n_after; i++) {
    if (d->after[i].kind == MT_DECODE_STRIP) {
      strip_start(&d->after[i].pattern, &p, &n, &s->strip_left[i]);
      continue;
    }
    mt_buf *to = &s->scratch[i % 2];
    mt_buf_clear(to);
    if (step_replace(&d->after[i], p, n, to)) return MT_ENOMEM;
    p = to->data;
    n = to->len;
  }
  return mt_buf_append(out, p, n);
}

static int emit_replacements(mt_stream *s, size_t count, mt_buf *out) {
  for (; count; count--)
    if (emit(s, REPLACEMENT, 3, out)) return MT_ENOMEM;
  return MT_OK;
}

static void forget_pending(mt_stream *s, size_t n) {
  memmove(s->pending.data, s->pending.data + n, s->pending.len - n);
  s->pending.len -= n;
  s->checked = 0;
}

/* Byte level: gives out all whole characters, a replacement for each malformed part, and keeps an
 * unfinished one. */
static int push_bytes(mt_stream *s, const char *p, size_t n, mt_buf *out) {
  if (!s->pending.len && mt_utf8_valid(p, n, NULL)) return emit(s, p, n, out);
  if (mt_buf_append(&s->pending, p, n)) return MT_ENOMEM;
  size_t at = 0, kept = 0; /* [kept, at) are whole characters not given out yet */
  const char *b = s->pending.data;
  int len = 1;
  while (at < s->pending.len) {
    uint32_t cp;
    len = mt_utf8_decode(b + at, s->pending.len - at, &cp);
    if (len == 0) break;
    if (len > 0) {
      at += (size_t)len;
      continue;
    }
    if (emit(s, b + kept, at - kept, out) || emit_replacements(s, 1, out)) return MT_ENOMEM;
    at += (size_t)-len;
    kept = at;
  }
  if (emit(s, b + kept, at - kept, out)) return MT_ENOMEM;
  forget_pending(s, at);
  return MT_OK;
}

/* Byte fallback: a run of byte tokens counts as a whole, so it is held until it ends or is surely
 * malformed. */
static int push_fallback(mt_stream *s, char byte, mt_buf *out) {
  if (s->run_bad) return emit_replacements(s, 1, out);
  if (mt_buf_putc(&s->pending, byte)) return MT_ENOMEM;
  while (s->checked < s->pending.len) {
    uint32_t cp;
    int len = mt_utf8_decode(s->pending.data + s->checked, s->pending.len - s->checked, &cp);
    if (len == 0) return MT_OK;
    if (len < 0) {
      s->run_bad = true;
      size_t count = s->pending.len;
      forget_pending(s, count);
      return emit_replacements(s, count, out);
    }
    s->checked += (size_t)len;
  }
  return MT_OK;
}

static int end_run(mt_stream *s, mt_buf *out) {
  size_t n = s->pending.len;
  bool whole = s->checked == n;
  s->run_bad = false;
  if (!n) return MT_OK;
  int rc = whole ? emit(s, s->pending.data, n, out) : emit_replacements(s, n, out);
  forget_pending(s, n);
  return rc;
}

/* The first token loses its "▁"s: they stand for the space that encoding put there. */
static int push_first_metaspace(mt_stream *s, const mt_token_entry *k, mt_buf *out) {
  const mt_decode_step drop = {.kind = MT_DECODE_REPLACE, .pattern = s->t->decoder.step[0].pattern};
  mt_buf text = {0};
  int rc = step_replace(&drop, s->t->spellings.data + k->offset, k->len, &text);
  if (!rc) rc = emit(s, text.data, text.len, out);
  mt_buf_free(&text);
  return rc;
}

static int push(mt_stream *s, uint32_t id, mt_buf *out) {
  const mt_tokenizer *t = s->t;
  if (id >= t->n_tokens) return MT_OK;
  const mt_token_entry *k = &t->token[id];
  if (!(k->flags & MT_TOKEN_USED) || (s->skip_special && (k->flags & MT_TOKEN_SPECIAL)))
    return MT_OK;
  bool first = !s->any;
  s->any = true;
  const char *raw = t->decoded.data + k->raw_offset;
  if (t->decoder.byte_level) return push_bytes(s, raw, k->raw_len, out);
  if (k->flags & MT_TOKEN_BYTE_OUT) return push_fallback(s, raw[0], out);
  if (end_run(s, out)) return MT_ENOMEM;
  if (first && t->decoder.metaspace_first) return push_first_metaspace(s, k, out);
  if (!first && t->decoder.joined_by_space && emit(s, " ", 1, out)) return MT_ENOMEM;
  return emit(s, raw, k->raw_len, out);
}

static int finish(mt_stream *s, mt_buf *out) {
  int rc;
  if (s->t->decoder.byte_level) {
    rc = s->pending.len ? emit_replacements(s, 1, out)
                        : MT_OK; /* one unfinished character: one part */
    if (s->pending.len) forget_pending(s, s->pending.len);
  } else {
    rc = end_run(s, out);
  }
  s->any = false;
  for (size_t i = 0; i < s->t->decoder.n_after; i++)
    s->strip_left[i] = s->t->decoder.after[i].start;
  return rc;
}

int mt_stream_new(mt_stream **out, const mt_tokenizer *t, bool skip_special, mt_err *e) {
  mt_stream *s = *out = mt_calloc(1, sizeof *s);
  if (!s) return mt_err_set(e, MT_ENOMEM, "no memory to decode");
  s->t = t;
  s->skip_special = skip_special;
  for (size_t i = 0; i < t->decoder.n_after; i++) s->strip_left[i] = t->decoder.after[i].start;
  return MT_OK;
}

void mt_stream_free(mt_stream *s) {
  if (!s) return;
  mt_buf_free(&s->pending);
  mt_buf_free(&s->scratch[0]);
  mt_buf_free(&s->scratch[1]);
  free(s);
}

int mt_stream_push(mt_stream *s, uint32_t id, mt_buf *out, mt_err *e) {
  return push(s, id, out) ? mt_err_set(e, MT_ENOMEM, "no memory to decode") : MT_OK;
}

int mt_stream_finish(mt_stream *s, mt_buf *out, mt_err *e) {
  return finish(s, out) ? mt_err_set(e, MT_ENOMEM, "no memory to decode") : MT_OK;
}

int mt_tokenizer_decode(const mt_tokenizer *t, const uint32_t *ids, size_t n, bool skip_special,
                        mt_buf *out, mt_err *e) {
  mt_stream *s;
  int rc = mt_stream_new(&s, t, skip_special, e);
  if (!rc) rc = mt_buf_reserve(out, 1);
  for (size_t i = 0; i < n && !rc; i++) rc = push(s, ids[i], out);
  if (!rc) rc = finish(s, out);
  mt_stream_free(s);
  return rc ? mt_err_set(e, MT_ENOMEM, "no memory to decode %zu tokens", n) : MT_OK;
}

int mt_tokenizer_token_bytes(const mt_tokenizer *t, uint32_t id, mt_buf *out) {
  if (id >= t->n_tokens || !(t->token[id].flags & MT_TOKEN_USED)) return MT_OK;
  return mt_buf_append(out, t->decoded.data + t->token[id].raw_offset, t->token[id].raw_len);
}
