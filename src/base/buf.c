/* Growing bytes and texts with spans. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/base.h"

int mt_buf_reserve(mt_buf *b, size_t extra) {
  size_t need;
  if (!mt_size_add(b->len, extra, &need) || !mt_size_add(need, 1, &need)) return MT_ENOMEM;
  if (need <= b->cap) return MT_OK;
  size_t cap = b->cap ? b->cap : 64;
  while (cap < need)
    if (!mt_size_mul(cap, 2, &cap)) return MT_ENOMEM;
  char *p = mt_realloc(b->data, cap, 1);
  if (!p) return MT_ENOMEM;
  b->data = p;
  b->cap = cap;
  return MT_OK;
}

int mt_buf_append(mt_buf *b, const void *p, size_t n) {
  if (mt_buf_reserve(b, n)) return MT_ENOMEM;
  if (n) memcpy(b->data + b->len, p, n);
  b->len += n;
  b->data[b->len] = 0;
  return MT_OK;
}

int mt_buf_puts(mt_buf *b, const char *s) {
  return mt_buf_append(b, s, strlen(s));
}
int mt_buf_putc(mt_buf *b, char c) {
  return mt_buf_append(b, &c, 1);
}

int mt_buf_printf(mt_buf *b, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  int rc = n < 0 || mt_buf_reserve(b, (size_t)n) ? MT_ENOMEM : MT_OK;
  if (!rc) {
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    b->len += (size_t)n;
  }
  va_end(again);
  return rc;
}

void mt_buf_clear(mt_buf *b) {
  b->len = 0;
  if (b->data) b->data[0] = 0;
}

void mt_buf_free(mt_buf *b) {
  free(b->data);
  *b = (mt_buf){0};
}

int mt_buf_read_file(mt_buf *b, const char *path, size_t max_bytes, mt_err *e) {
  bool is_stdin = !strcmp(path, "-");
  FILE *f = is_stdin ? stdin : fopen(path, "rb");
  if (!f)
    return mt_err_set(e, errno == ENOMEM ? MT_ENOMEM : MT_EIO, "%s: %s", path, strerror(errno));
  int rc = MT_OK;
  size_t start = b->len;
  for (;;) {
    if (mt_buf_reserve(b, 65536)) {
      rc = mt_err_set(e, MT_ENOMEM, "%s: no memory for %zu bytes", path, b->len - start + 65536);
      break;
    }
    errno = 0;
    size_t n = fread(b->data + b->len, 1, 65536, f);
    b->len += n;
    b->data[b->len] = 0;
    if (b->len - start > max_bytes) {
      rc = mt_err_set(e, MT_ERANGE, "%s: larger than %zu bytes", path, max_bytes);
      break;
    }
    if (n == 65536) continue;
    if (ferror(f)) rc = mt_err_set(e, MT_EIO, "%s: %s", path, strerror(errno ? errno : EIO));
    break;
  }
  if (!is_stdin) fclose(f);
  return rc;
}

int mt_text_append(mt_text *t, const char *p, size_t n, int origin) {
  if (!n) return MT_OK;
  bool same = t->n_spans && t->span[t->n_spans - 1].origin == origin;
  if (!same && t->n_spans == t->cap_spans) {
    size_t cap = t->cap_spans ? 2 * t->cap_spans : 16;
    mt_span *s = mt_realloc(t->span, cap, sizeof *s);
    if (!s) return MT_ENOMEM;
    t->span = s;
    t->cap_spans = cap;
  }
  size_t begin = t->bytes.len;
  if (mt_buf_append(&t->bytes, p, n)) return MT_ENOMEM;
  if (same)
    t->span[t->n_spans - 1].end = t->bytes.len;
  else
    t->span[t->n_spans++] = (mt_span){begin, t->bytes.len, origin};
  return MT_OK;
}

void mt_text_free(mt_text *t) {
  mt_buf_free(&t->bytes);
  free(t->span);
  *t = (mt_text){0};
}
