/* Ranks that are threads of one process, in the place of module comm: what loading a model calls,
 * with one group whose ranks share memory or a group for each rank. The rest aborts. */
#ifndef TESTS_FUZZ_COMM_H
#define TESTS_FUZZ_COMM_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mutirao/comm.h"

enum { FUZZ_RANKS = 8 };

/* What the ranks of a job share. */
typedef struct fuzz_world {
  int size;
  bool shared;        /* memory, among all */
  int cut_fd;         /* a file that is cut short … */
  size_t cut_bytes;   /* … to so many … */
  int cut_agreements; /* … once so many outcomes were agreed upon; 0: never */
  pthread_barrier_t meeting;
  const void *send[FUZZ_RANKS]; /* what a rank brings to a meeting */
  const size_t *bytes[FUZZ_RANKS], *offset[FUZZ_RANKS];
  int code[FUZZ_RANKS];
  mt_err err[FUZZ_RANKS];
} fuzz_world;

struct mt_comm {
  fuzz_world *world;
  int rank;
};

struct mt_comm_window {
  mt_comm *comm;
  char *mem; /* [size][bytes], of rank 0 or the own */
  size_t bytes;
};

static void fuzz_meet(mt_comm *c) {
  pthread_barrier_wait(&c->world->meeting);
}

int mt_comm_rank(const mt_comm *c) {
  return c->rank;
}
int mt_comm_size(const mt_comm *c) {
  return c->world->size;
}
int mt_comm_groups(const mt_comm *c) {
  return c->world->shared ? 1 : c->world->size;
}
int mt_comm_group(const mt_comm *c) {
  return c->world->shared ? 0 : c->rank;
}
int mt_comm_group_rank(const mt_comm *c) {
  return c->world->shared ? c->rank : 0;
}
int mt_comm_group_size(const mt_comm *c) {
  return c->world->shared ? c->world->size : 1;
}
int mt_comm_group_member(const mt_comm *c, int i) {
  return c->world->shared ? i : c->rank;
}
const char *mt_comm_rank_host(const mt_comm *c, int rank) {
  (void)c, (void)rank;
  return "here";
}

int mt_comm_agree(mt_comm *c, int code, mt_err *e) {
  fuzz_world *w = c->world;
  mt_err none = {0};
  w->code[c->rank] = code;
  w->err[c->rank] = code && e ? *e : none;
  if (c->rank == 0 && w->cut_agreements && !--w->cut_agreements &&
      ftruncate(w->cut_fd, (off_t)w->cut_bytes))
    abort();
  fuzz_meet(c);
  int first = 0;
  while (first < w->size && !w->code[first]) first++;
  int rc = first < w->size ? w->code[first] : MT_OK;
  if (rc && e) *e = w->err[first];
  fuzz_meet(c);
  return rc;
}

int mt_comm_bcast(mt_comm *c, void *buf, size_t bytes, int root, mt_err *e) {
  (void)e;
  if (c->rank == root) c->world->send[0] = buf;
  fuzz_meet(c);
  if (c->rank != root && bytes) memcpy(buf, c->world->send[0], bytes);
  fuzz_meet(c);
  return MT_OK;
}

int mt_comm_bcast_buf(mt_comm *c, mt_buf *buf, int root, mt_err *e) {
  (void)e;
  if (c->rank == root) c->world->send[0] = buf;
  fuzz_meet(c);
  const mt_buf *from = c->world->send[0];
  if (c->rank != root) {
    buf->len = 0;
    if (mt_buf_append(buf, from->data, from->len)) abort();
  }
  fuzz_meet(c);
  return MT_OK;
}

/* Sizes must be those that the senders say, and nothing may overlap what another sends. */
int mt_comm_alltoallv(mt_comm *c, const void *send, const size_t *send_bytes,
                      const size_t *send_offset, void *recv, const size_t *recv_bytes,
                      const size_t *recv_offset, mt_err *e) {
  fuzz_world *w = c->world;
  (void)e;
  w->send[c->rank] = send;
  w->bytes[c->rank] = send_bytes;
  w->offset[c->rank] = send_offset;
  fuzz_meet(c);
  for (int r = 0; r < w->size; r++) {
    if (w->bytes[r][c->rank] != recv_bytes[r]) abort();
    if (recv_bytes[r])
      memcpy((char *)recv + recv_offset[r], (const char *)w->send[r] + w->offset[r][c->rank],
             recv_bytes[r]);
  }
  fuzz_meet(c);
  return MT_OK;
}

int mt_comm_window_new(mt_comm_window **out, mt_comm *c, size_t bytes, mt_err *e) {
  mt_comm_window *w = calloc(1, sizeof *w);
  (void)e;
  if (!w) abort();
  *w = (mt_comm_window){c, NULL, bytes};
  bool owner = !c->world->shared || c->rank == 0;
  if (owner && !(w->mem = mt_pages_alloc((size_t)mt_comm_group_size(c) * bytes))) abort();
  if (c->rank == 0) c->world->send[0] = w->mem;
  fuzz_meet(c);
  if (!owner) w->mem = (char *)(uintptr_t)c->world->send[0];
  fuzz_meet(c);
  *out = w;
  return MT_OK;
}

void mt_comm_window_free(mt_comm_window *w) {
  if (!w) return;
  fuzz_meet(w->comm);
  if (!w->comm->world->shared || w->comm->rank == 0)
    mt_pages_free(w->mem, (size_t)mt_comm_group_size(w->comm) * w->bytes);
  free(w);
}

void *mt_comm_window_at(mt_comm_window *w, int i) {
  return w->mem + (size_t)i * w->bytes;
}

int mt_comm_group_meet(mt_comm *c, int32_t word, int32_t *least, mt_err *e) {
  (void)e;
  *least = word; /* nobody looks at it while loading */
  if (c->world->shared) fuzz_meet(c);
  return MT_OK;
}

mt_comm_stats mt_comm_get_stats(const mt_comm *c) {
  (void)c;
  return (mt_comm_stats){0};
}
void mt_comm_add_stats(mt_comm *c, mt_comm_stats more) {
  (void)c, (void)more;
}

/* ---- of the forward pass alone ----------------------------------------------------------- */

int mt_comm_gatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                    const size_t *offset, int root, mt_err *e) {
  (void)c, (void)send, (void)recv, (void)bytes, (void)offset, (void)root, (void)e;
  abort();
}
int mt_comm_allgatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                       const size_t *offset, mt_err *e) {
  (void)c, (void)send, (void)recv, (void)bytes, (void)offset, (void)e;
  abort();
}
int mt_comm_leaders_start(mt_comm *c, const void *send, const size_t *send_bytes,
                          const size_t *send_offset, void *recv, const size_t *recv_bytes,
                          const size_t *recv_offset, mt_err *e) {
  (void)c, (void)send, (void)send_bytes, (void)send_offset;
  (void)recv, (void)recv_bytes, (void)recv_offset, (void)e;
  abort();
}
int mt_comm_leaders_poll(mt_comm *c, bool *done, mt_err *e) {
  (void)c, (void)done, (void)e;
  abort();
}
int mt_comm_leaders_wait(mt_comm *c, mt_err *e) {
  (void)c, (void)e;
  abort();
}
int mt_comm_leaders_swap(mt_comm *c, int group, const void *send, size_t send_bytes, void *recv,
                         size_t recv_bytes, mt_err *e) {
  (void)c, (void)group, (void)send, (void)send_bytes, (void)recv, (void)recv_bytes, (void)e;
  abort();
}

#endif
