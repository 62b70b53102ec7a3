/* Small blocks are cut from chunks; a large block has a chunk of its own, so that it can grow in
 * place. */
#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 * 1024, LARGE = 16 * 1024 };

struct arena_chunk {
  arena_chunk *prev, *next;
  size_t bytes;
  size_t pad; /* keeps what follows 16-byte aligned */
};

static noreturn void throw_v(trap *t, int code, bool bare, const char *fmt, va_list ap) {
  char text[sizeof(((mt_err *)0)->msg)];
  vsnprintf(text, sizeof text, fmt, ap);
  if (bare)
    mt_err_set(t->e, code, "%s", text);
  else
    mt_err_set(t->e, code, "%s:%u: %s", t->name, t->line, text);
  t->code = code;
  longjmp(t->env, 1);
}

void mt_trap_throw(trap *t, int code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  throw_v(t, code, false, fmt, ap);
}

void mt_trap_throw_bare(trap *t, int code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  throw_v(t, code, true, fmt, ap);
}

void mt_arena_init(arena *a, size_t limit_bytes, trap *t) {
  *a = (arena){.limit = limit_bytes, .trap = t};
}

void mt_arena_free(arena *a) {
  for (arena_chunk *c = a->all; c;) {
    arena_chunk *next = c->next;
    free(c);
    c = next;
  }
  *a = (arena){0};
}

static void account(arena *a, size_t bytes) {
  if (bytes > a->limit - a->used)
    mt_trap_throw(a->trap, MT_ELIMIT, "the template needs more than %zu bytes of memory", a->limit);
  a->used += bytes;
}

static void *new_chunk(arena *a, size_t bytes) {
  account(a, bytes);
  arena_chunk *c = bytes > SIZE_MAX - sizeof *c ? NULL : mt_malloc(sizeof *c + bytes, 1);
  if (!c) mt_trap_throw(a->trap, MT_ENOMEM, "no memory for %zu bytes", bytes);
  *c = (arena_chunk){.next = a->all, .bytes = bytes};
  if (a->all) a->all->prev = c;
  a->all = c;
  return c + 1;
}

static void *alloc_raw(arena *a, size_t bytes) {
  if (bytes > a->limit) account(a, bytes);
  bytes = (bytes + 15) & ~(size_t)15;
  if (bytes >= LARGE) return new_chunk(a, bytes);
  if (bytes > (size_t)(a->end - a->at)) {
    a->at = new_chunk(a, CHUNK);
    a->end = a->at + CHUNK;
  }
  void *p = a->at;
  a->at += bytes;
  return p;
}

void *mt_arena_alloc(arena *a, size_t n, size_t size) {
  size_t bytes;
  if (!mt_size_mul(n, size, &bytes)) bytes = SIZE_MAX;
  return memset(alloc_raw(a, bytes), 0, bytes);
}

void *mt_arena_grow(arena *a, void *p, size_t old_bytes, size_t new_bytes) {
  if (((old_bytes + 15) & ~(size_t)15) < LARGE || new_bytes > a->limit) {
    void *q = alloc_raw(a, new_bytes);
    if (old_bytes) memcpy(q, p, old_bytes);
    return q;
  }
  arena_chunk *c = (arena_chunk *)p - 1;
  new_bytes = (new_bytes + 15) & ~(size_t)15;
  if (new_bytes <= c->bytes) return p;
  account(a, new_bytes - c->bytes);
  arena_chunk *moved = mt_realloc(c, sizeof *c + new_bytes, 1);
  if (!moved) mt_trap_throw(a->trap, MT_ENOMEM, "no memory for %zu bytes", new_bytes);
  moved->bytes = new_bytes;
  if (moved->prev)
    moved->prev->next = moved;
  else
    a->all = moved;
  if (moved->next) moved->next->prev = moved;
  return moved + 1;
}
