/* Stop strings over a stream of bytes: one Knuth-Morris-Pratt matcher for each string. */
#include <stdlib.h>
#include <string.h>

#include "mutirao/sample.h"

typedef struct pattern {
  char *text;
  size_t len;
  size_t *border; /* [len] longest proper border of text[0 … i] */
  size_t matched; /* bytes of text that the stream now ends in; below len */
} pattern;

struct mt_stop {
  pattern *p; /* [n] */
  size_t n;
  mt_buf held;  /* the end of the stream that may begin a stop */
  size_t found; /* index of the stop; n: none yet */
};

static void advance(pattern *p, char c) {
  while (p->matched && p->text[p->matched] != c) p->matched = p->border[p->matched - 1];
  if (p->text[p->matched] == c) p->matched++;
}

static int pattern_init(pattern *p, const char *text, size_t len) {
  p->text = mt_malloc(len, 1);
  p->border = mt_calloc(len, sizeof *p->border);
  if (!p->text || !p->border) return MT_ENOMEM;
  memcpy(p->text, text, len);
  p->len = len;
  for (size_t i = 1; i < len; i++) {
    advance(p, text[i]);
    p->border[i] = p->matched;
  }
  p->matched = 0;
  return MT_OK;
}

int mt_stop_new(mt_stop **out, const char *const *string, const size_t *len, size_t n, mt_err *e) {
  *out = NULL;
  for (size_t i = 0; i < n; i++)
    if (!len[i]) return mt_err_set(e, MT_EINVAL, "stop string %zu is empty", i + 1);
  int rc = MT_ENOMEM;
  mt_stop *m = mt_calloc(1, sizeof *m);
  if (!m) goto out;
  m->p = mt_calloc(n, sizeof *m->p);
  if (!m->p) goto out;
  m->n = m->found = n;
  rc = MT_OK;
  for (size_t i = 0; i < n && !rc; i++) rc = pattern_init(&m->p[i], string[i], len[i]);
out:
  if (rc) {
    mt_stop_free(m);
    return mt_err_set(e, rc, "no memory for the stop strings");
  }
  *out = m;
  return MT_OK;
}

void mt_stop_free(mt_stop *m) {
  if (!m) return;
  for (size_t i = 0; i < m->n; i++) {
    free(m->p[i].text);
    free(m->p[i].border);
  }
  free(m->p);
  mt_buf_free(&m->held);
  free(m);
}

void mt_stop_reset(mt_stop *m) {
  for (size_t i = 0; i < m->n; i++) m->p[i].matched = 0;
  mt_buf_clear(&m->held);
  m->found = m->n;
}

/* Feeds one byte; true when a stop is complete, m->found is then the longest that is. *begun is the
 * length of the longest beginning of a stop that the stream ends in. */
static bool step(mt_stop *m, char c, size_t *begun) {
  *begun = 0;
  for (size_t i = 0; i < m->n; i++) {
    pattern *p = &m->p[i];
    advance(p, c);
    if (p->matched > *begun) *begun = p->matched;
    if (p->matched == p->len && (m->found == m->n || p->len > m->p[m->found].len)) m->found = i;
  }
  return m->found < m->n;
}

int mt_stop_push(mt_stop *m, const char *bytes, size_t n, mt_buf *out) {
  if (m->found < m->n) return MT_OK;
  size_t room;
  if (!mt_size_add(m->held.len, n, &room) || mt_buf_reserve(out, room) ||
      mt_buf_append(&m->held, bytes, n))
    return MT_ENOMEM;
  size_t before = m->held.len - n, begun = 0, done = 0;
  while (done < n && !step(m, bytes[done++], &begun)) continue;
  if (!n) return MT_OK;
  bool found = m->found < m->n;
  size_t shown = before + done - (found ? m->p[m->found].len : begun);
  (void)mt_buf_append(out, m->held.data, shown); /* room was made above */
  m->held.len -= shown;
  memmove(m->held.data, m->held.data + shown, m->held.len);
  if (found) mt_buf_clear(&m->held);
  return MT_OK;
}

int mt_stop_flush(mt_stop *m, mt_buf *out) {
  if (mt_buf_append(out, m->held.data, m->held.len)) return MT_ENOMEM;
  mt_buf_clear(&m->held);
  for (size_t i = 0; i < m->n; i++) m->p[i].matched = 0;
  return MT_OK;
}

bool mt_stop_found(const mt_stop *m, size_t *which) {
  if (m->found == m->n) return false;
  if (which) *which = m->found;
  return true;
}
