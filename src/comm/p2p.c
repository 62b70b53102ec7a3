/* MPI messages. Only point-to-point ones, so that we always know whom we wait for, and choose how
 * to wait. A pair's messages are matched by their order. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm_impl.h"

enum {
  TAG = 7,
  NAP_LEAST_NS = 50 * 1000,
  NAP_MOST_NS = 3 * 1000 * 1000,
  NAPS_PER_WAIT = 20,
  SMALL_BYTES = 64 << 10,
  YIELD_TURNS = 4, /* the kernel may need this very core to bring the message */
  STALLED_NS = 1000 * 1000 * 1000,
  NAP_STALLED_NS = 200 * 1000,
};

static int mpi_fault(mt_comm *c, int code, int peer) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int n = 0;
  MPI_Error_string(code, text, &n);
  if (peer < 0) return mt_err_set(&c->fault, MT_EPEER, "MPI failed in %s: %s", c->what, text);
  return mt_err_set(&c->fault, MT_EPEER, "MPI failed with rank %d on %s in %s: %s", peer,
                    c->peer[peer].host, c->what, text);
}

static int room(mt_comm *c) {
  if (c->n_requests < c->cap_requests) return MT_OK;
  int cap = c->cap_requests ? 2 * c->cap_requests : 64;
  MPI_Request *q = mt_realloc(c->request, (size_t)cap, sizeof *q);
  if (q) c->request = q;
  int *p = mt_realloc(c->request_peer, (size_t)cap, sizeof *p);
  if (p) c->request_peer = p;
  int *d = mt_realloc(c->request_done, (size_t)cap, sizeof *d);
  if (d) c->request_done = d;
  if (!q || !p || !d)
    return mt_err_set(&c->fault, MT_ENOMEM, "no memory for messages in %s", c->what);
  c->cap_requests = cap;
  return MT_OK;
}

static int start(mt_comm *c, bool send, char *buf, size_t bytes, int peer) {
  for (size_t at = 0; at < bytes;) {
    int rc = room(c);
    if (rc) return rc;
    int n = (int)(bytes - at < MESSAGE_BYTES ? bytes - at : MESSAGE_BYTES);
    MPI_Request *q = &c->request[c->n_requests];
    int m = send ? MPI_Isend(buf + at, n, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, q)
                 : MPI_Irecv(buf + at, n, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, q);
    if (m != MPI_SUCCESS) return mpi_fault(c, m, peer);
    c->request_peer[c->n_requests++] = peer;
    c->request_bytes += (size_t)n;
    at += (size_t)n;
  }
  return MT_OK;
}

int mt_p2p_send(mt_comm *c, const void *buf, size_t bytes, int to) {
  return start(c, true, (char *)(uintptr_t)buf, bytes, to); /* MPI_Isend only reads it */
}

int mt_p2p_recv(mt_comm *c, void *buf, size_t bytes, int from) {
  return start(c, false, buf, bytes, from);
}

/* Those whose messages are under way. */
static int missing_peer(const mt_comm *c, int i) {
  for (int k = 0; k < c->n_requests; k++)
    if (c->request[k] != MPI_REQUEST_NULL && i-- == 0) return c->request_peer[k];
  return -1;
}

/* MPI cannot sleep until a message comes; so the longer we have waited, the longer the naps. While
 * much is under way there are none, since messages move only when MPI is called; unless for long no
 * part of it has come, because a rank is late. */
static void nap(const mt_comm *c, uint64_t waited_ns) {
  uint64_t ns = waited_ns / NAPS_PER_WAIT, most = NAP_MOST_NS;
  if (c->request_bytes > SMALL_BYTES) {
    if (waited_ns < STALLED_NS) {
      sched_yield();
      return;
    }
    most = NAP_STALLED_NS;
  }
  if (ns < NAP_LEAST_NS) ns = NAP_LEAST_NS;
  if (ns > most) ns = most;
  struct timespec t = {.tv_nsec = (long)ns};
  nanosleep(&t, NULL);
}

/* *some: a message has come or gone; *all: none is under way any more. */
static int test(mt_comm *c, bool *some, bool *all) {
  int n = 0;
  *some = false;
  int m = MPI_Testsome(c->n_requests, c->request, &n, c->request_done, MPI_STATUSES_IGNORE);
  if (m != MPI_SUCCESS) return mpi_fault(c, m, missing_peer(c, 0));
  *all = n == MPI_UNDEFINED;
  *some = n != MPI_UNDEFINED && n > 0;
  return MT_OK;
}

int mt_p2p_wait(mt_comm *c, bool idle) {
  mt_wait w = mt_wait_begin(c, idle);
  bool some, all = c->n_requests == 0;
  int rc = MT_OK;
  unsigned turn = 0;
  while (!all) {
    /* Again where nothing came, because a test moves messages only after it has looked. */
    rc = test(c, &some, &all);
    if (!rc && !some && !all) rc = test(c, &some, &all);
    if (rc) break;
    if (some) w = mt_wait_begin(c, idle);
    if (some || all) continue;
    if (++turn % YIELD_TURNS == 0) sched_yield();
    rc = mt_wait_turn(c, &w, missing_peer);
    if (rc < 0) break;
    if (rc) nap(c, mt_clock_ns() - w.start_ns);
    rc = MT_OK;
  }
  c->n_requests = 0;
  c->request_bytes = 0;
  return rc;
}

int mt_p2p_poll(mt_comm *c, bool *done) {
  bool some;
  *done = c->n_requests == 0;
  int rc = *done ? MT_OK : test(c, &some, done);
  if (!rc && *done) {
    c->n_requests = 0;
    c->request_bytes = 0;
  }
  return rc;
}

int mt_p2p_table(mt_comm *c, const void *mine, size_t bytes, void *table) {
  char *row = table;
  int rc = MT_OK;
  memcpy(row + bytes * (size_t)c->rank, mine, bytes);
  if (c->rank > 0) {
    rc = mt_p2p_send(c, mine, bytes, 0);
    if (!rc) rc = mt_p2p_recv(c, table, bytes * (size_t)c->size, 0);
    return rc ? rc : mt_p2p_wait(c, false);
  }
  for (int r = 1; !rc && r < c->size; r++) rc = mt_p2p_recv(c, row + bytes * (size_t)r, bytes, r);
  if (!rc) rc = mt_p2p_wait(c, false);
  for (int r = 1; !rc && r < c->size; r++) rc = mt_p2p_send(c, table, bytes * (size_t)c->size, r);
  return rc ? rc : mt_p2p_wait(c, false);
}

int mt_comm_mpi_sum(mt_comm *c, const void *in, void *out, size_t n, bool f32, mt_err *e) {
  if (n > INT_MAX) return mt_err_set(e, MT_ERANGE, "a sum of %zu values", n);
  int rc = mt_comm_enter(c, "MPI's sum", e);
  if (rc) return rc;
  if (!c->mpi) {
    memcpy(out, in, n * (f32 ? sizeof(float) : sizeof(int64_t)));
  } else {
    int m = MPI_Allreduce(in, out, (int)n, f32 ? MPI_FLOAT : MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (m != MPI_SUCCESS) rc = mpi_fault(c, m, -1);
  }
  return mt_comm_leave(c, rc, e);
}
