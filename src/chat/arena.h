/* Memory and failure of one compilation or one rendering. All memory belongs to an arena, so a
 * failure may jump straight out (mt_trap_throw) to the public function that set the trap; nothing
 * in between owns anything. */
#ifndef CHAT_ARENA_H
#define CHAT_ARENA_H

#include <setjmp.h>
#include <stdnoreturn.h>

#include "mutirao/base.h"

typedef struct trap {
  jmp_buf env;
  mt_err *e;
  const char *name;  /* of the template */
  unsigned line;     /* where we are */
  volatile int code; /* what was thrown */
} trap;

/* Fails with "name:line: ..."; trap_throw_bare without the place. */
noreturn void mt_trap_throw(trap *t, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
noreturn void mt_trap_throw_bare(trap *t, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct arena_chunk arena_chunk;
typedef struct arena {
  arena_chunk *all; /* doubly linked, newest first */
  char *at, *end;   /* what is free in the current small chunk */
  size_t used, limit;
  trap *trap; /* where MT_ELIMIT and MT_ENOMEM go */
} arena;

void mt_arena_init(arena *a, size_t limit_bytes, trap *t);
void mt_arena_free(arena *a);
/* n elements, cleared, 16-byte aligned; never NULL. */
void *mt_arena_alloc(arena *a, size_t n, size_t size);
/* Grows a block from arena_alloc or arena_grow (NULL allowed) to new_bytes; the new part is not
 * cleared. */
void *mt_arena_grow(arena *a, void *p, size_t old_bytes, size_t new_bytes);

#endif
