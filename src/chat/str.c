/* Strings with origins, and their builder. */
#include <string.h>

#include "runtime.h"

static run *one_run(rt *r, size_t len, int origin) {
  run *u = mt_arena_alloc(&r->mem, 1, sizeof *u);
  *u = (run){len, origin};
  return u;
}

val mt_val_str(rt *r, const char *p, size_t n, int origin) {
  str *s = mt_arena_alloc(&r->mem, 1, sizeof *s);
  *s = (str){p, n, n ? 1 : 0, n ? one_run(r, n, origin) : NULL};
  return (val){.kind = V_STR, .u.s = s};
}

val mt_val_cstr(rt *r, const char *literal) {
  return mt_val_str(r, literal, strlen(literal), MT_SPAN_TEMPLATE);
}

/* Index of the run that holds the byte at offset `at` < len. */
static size_t run_at(const str *s, size_t at) {
  size_t lo = 0, hi = s->n_runs - 1;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (s->runs[mid].end > at)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

int mt_str_origin(const str *s, size_t at) {
  return s->runs[run_at(s, at)].origin;
}

int mt_str_worst_origin(const str *s) {
  return s->n_runs > 1 || (s->n_runs && s->runs[0].origin == MT_SPAN_USER) ? MT_SPAN_USER
                                                                           : MT_SPAN_TEMPLATE;
}

const str *mt_str_slice(rt *r, const str *s, size_t from, size_t to) {
  if (from == 0 && to == s->len) return s;
  if (from >= to) return mt_val_str(r, "", 0, MT_SPAN_TEMPLATE).u.s;
  size_t first = run_at(s, from), last = run_at(s, to - 1), n = last - first + 1;
  mt_chat_charge(r, n * sizeof(run));
  run *runs = mt_arena_alloc(&r->mem, n, sizeof *runs);
  for (size_t i = 0; i < n; i++) {
    size_t end = s->runs[first + i].end;
    runs[i] = (run){(end < to ? end : to) - from, s->runs[first + i].origin};
  }
  str *q = mt_arena_alloc(&r->mem, 1, sizeof *q);
  *q = (str){s->p + from, to - from, n, runs};
  return q;
}

val mt_val_slice(rt *r, const str *s, size_t from, size_t to) {
  return (val){.kind = V_STR, .u.s = mt_str_slice(r, s, from, to)};
}

bool mt_str_is(const str *s, const char *literal) {
  return s->len == strlen(literal) && !memcmp(s->p, literal, s->len);
}

int mt_str_cmp(const str *a, const str *b) {
  size_t n = a->len < b->len ? a->len : b->len;
  int c = n ? memcmp(a->p, b->p, n) : 0;
  return c ? (c < 0 ? -1 : 1) : a->len < b->len ? -1 : a->len > b->len;
}

size_t mt_str_find(rt *r, const str *a, const str *b, size_t from) {
  if (from > a->len) return SIZE_MAX;
  if (!b->len) return from;
  const char *q = memmem(a->p + from, a->len - from, b->p, b->len);
  mt_chat_charge(r, q ? (size_t)(q - a->p) - from : a->len - from);
  return q ? (size_t)(q - a->p) : SIZE_MAX;
}

size_t mt_str_rfind(rt *r, const str *a, const str *b, size_t end) {
  if (b->len > end) return SIZE_MAX;
  for (size_t i = end - b->len + 1; i-- > 0;) {
    if (i % 64 == 0) mt_chat_charge(r, b->len);
    if (!b->len || (a->p[i] == b->p[0] && !memcmp(a->p + i, b->p, b->len))) return i;
  }
  return SIZE_MAX;
}

size_t mt_str_chars(rt *r, const str *s) {
  mt_chat_charge(r, s->len);
  size_t n = 0;
  for (size_t i = 0; i < s->len; i++) n += ((unsigned char)s->p[i] & 0xC0) != 0x80;
  return n;
}

size_t mt_str_offset(rt *r, const str *s, size_t chars) {
  size_t i = 0;
  for (; i < s->len; i++)
    if (((unsigned char)s->p[i] & 0xC0) != 0x80 && chars-- == 0) break;
  mt_chat_charge(r, i);
  return i;
}

/* ---- builder ------------------------------------------------------------------------------- */

sb mt_sb_new(rt *r) {
  return (sb){.r = r};
}

static void sb_run(sb *b, size_t end, int origin) {
  if (b->n_runs && b->runs[b->n_runs - 1].origin == origin) {
    b->runs[b->n_runs - 1].end = end;
    return;
  }
  if (b->n_runs == b->cap_runs) {
    size_t cap = b->cap_runs ? 2 * b->cap_runs : 2;
    b->runs = mt_arena_grow(&b->r->mem, b->runs, b->cap_runs * sizeof(run), cap * sizeof(run));
    b->cap_runs = cap;
  }
  b->runs[b->n_runs++] = (run){end, origin};
}

void mt_sb_add(sb *b, const char *p, size_t n, int origin) {
  if (!n) return;
  mt_chat_charge(b->r, n);
  if (n > b->cap - b->len) {
    size_t cap = b->cap > SIZE_MAX / 4 ? SIZE_MAX : b->cap * 2;
    if (cap < 32) cap = 32;
    if (cap - b->len < n) cap = n > SIZE_MAX - b->len ? SIZE_MAX : b->len + n;
    b->p = mt_arena_grow(&b->r->mem, b->p, b->cap, cap);
    b->cap = cap;
  }
  memcpy(b->p + b->len, p, n);
  b->len += n;
  sb_run(b, b->len, origin);
}

void mt_sb_puts(sb *b, const char *s, int origin) {
  mt_sb_add(b, s, strlen(s), origin);
}

void mt_sb_part(sb *b, const str *s, size_t from, size_t to) {
  if (from >= to) return;
  for (size_t i = run_at(s, from); from < to; i++) {
    size_t end = s->runs[i].end < to ? s->runs[i].end : to;
    mt_sb_add(b, s->p + from, end - from, s->runs[i].origin);
    from = end;
  }
}

void mt_sb_str(sb *b, const str *s) {
  mt_sb_part(b, s, 0, s->len);
}

void mt_sb_cp(sb *b, uint32_t cp, int origin) {
  char c[MT_UTF8_MAX];
  mt_sb_add(b, c, (size_t)mt_utf8_encode(cp, c), origin);
}

val mt_sb_val(sb *b) {
  str *s = mt_arena_alloc(&b->r->mem, 1, sizeof *s);
  *s = (str){b->p ? b->p : "", b->len, b->n_runs, b->runs};
  return (val){.kind = V_STR, .u.s = s};
}
