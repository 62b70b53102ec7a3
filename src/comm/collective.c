/* The collectives. Inside a group through slots in shared memory, between groups by messages among
 * the leaders; what each rank has for each other one is sent directly. */
#include <string.h>

#include "comm_impl.h"

int mt_comm_enter(mt_comm *c, const char *what, mt_err *e) {
  if (c->broken) {
    if (e) *e = c->fault;
    return c->broken;
  }
  c->what = what;
  c->entered_ns = mt_clock_ns();
  c->stats.calls++;
  return MT_OK;
}

int mt_comm_leave(mt_comm *c, int rc, mt_err *e) {
  c->stats.ns += mt_clock_ns() - c->entered_ns;
  if (!rc) return MT_OK;
  c->broken = rc;
  if (e) *e = c->fault;
  return rc;
}

mt_comm_stats mt_comm_get_stats(const mt_comm *c) {
  return c->stats;
}

void mt_comm_add_stats(mt_comm *c, mt_comm_stats more) {
  c->stats.calls += more.calls;
  c->stats.sent_bytes += more.sent_bytes;
  c->stats.received_bytes += more.received_bytes;
  c->stats.ns += more.ns;
}

static bool leads(const mt_comm *c) {
  return c->group_rank == 0;
}

/* Dissemination barrier (Hensgen, Finkel and Manber, 1988). */
static int leaders_barrier(mt_comm *c) {
  char out = 0, in = 0;
  int rc = MT_OK;
  for (int d = 1; !rc && d < c->groups; d *= 2) {
    rc = mt_p2p_recv(c, &in, 1, c->leader[(c->group + c->groups - d % c->groups) % c->groups]);
    if (!rc) rc = mt_p2p_send(c, &out, 1, c->leader[(c->group + d) % c->groups]);
    if (!rc) rc = mt_p2p_wait(c, false);
  }
  return rc;
}

/* Length and first bytes together, so that a short message takes one turn. */
typedef struct short_message {
  uint64_t bytes;
  char head[4096 - sizeof(uint64_t)];
} short_message;

/* Instead of a number of bytes: a short_message, which says itself how long it is. */
static const size_t ITSELF = SIZE_MAX;

static size_t message_bytes(const void *buf, size_t bytes) {
  if (bytes != ITSELF) return bytes;
  uint64_t whole;
  memcpy(&whole, buf, sizeof whole);
  const size_t most = sizeof((short_message *)0)->head;
  return sizeof whole + (whole < most ? (size_t)whole : most);
}

/* Binomial tree from the leader of root_group. */
static int leaders_bcast(mt_comm *c, void *buf, size_t bytes, int root_group, bool idle) {
  int n = c->groups, me = (c->group - root_group + n) % n, bit = 1, rc = MT_OK;
  while (bit < n && !(me & bit)) bit *= 2; /* where me received from; beyond n for the root */
  if (me) {
    size_t most = bytes == ITSELF ? sizeof(short_message) : bytes;
    rc = mt_p2p_recv(c, buf, most, c->leader[(me - bit + root_group) % n]);
    if (!rc) rc = mt_p2p_wait(c, idle);
  }
  for (int b = bit / 2; !rc && b > 0; b /= 2)
    if (me + b < n)
      rc = mt_p2p_send(c, buf, message_bytes(buf, bytes), c->leader[(me + b + root_group) % n]);
  return rc ? rc : mt_p2p_wait(c, false);
}

/* From one member to the others of its group. */
static int group_bcast(mt_comm *c, char *buf, size_t bytes, int member, bool idle) {
  if (c->group_size == 1) return MT_OK;
  int rc = MT_OK;
  size_t least = bytes == ITSELF ? 1 : bytes;
  for (size_t at = 0; !rc && at < least; at += SLOT_BYTES) {
    size_t n = bytes == ITSELF || bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
    bool shows = c->group_rank == member;
    if (shows) rc = mt_group_claim(c);
    if (rc) break;
    if (shows) memcpy(mt_group_own_slot(c), buf + at, message_bytes(buf, n));
    mt_group_begin(c);
    if (!shows) rc = mt_group_await(c, member, idle);
    const char *slot = mt_group_slot(c, member);
    if (!shows && !rc) memcpy(buf + at, slot, message_bytes(slot, n));
  }
  return rc;
}

int mt_comm_barrier(mt_comm *c, mt_err *e) {
  int rc = mt_comm_enter(c, "a barrier", e);
  if (rc) return rc;
  if (c->groups == 1) {
    mt_group_begin(c);
    return mt_comm_leave(c, mt_group_await_all(c), e);
  }
  rc = mt_group_gather(c);
  if (!rc && leads(c)) rc = leaders_barrier(c);
  if (!rc) rc = mt_group_release(c);
  return mt_comm_leave(c, rc, e);
}

static bool worse(const mt_note *a, const mt_note *b) {
  return a->code && (!b->code || a->rank < b->rank);
}

/* The verdict of this group, in *v, becomes that of all groups. */
static int leaders_agree(mt_comm *c, mt_note *v) {
  int rc = MT_OK;
  if (c->group > 0) {
    rc = mt_p2p_send(c, v, sizeof *v, c->leader[0]);
    if (!rc) rc = mt_p2p_wait(c, false);
  } else {
    for (int g = 1; !rc && g < c->groups; g++)
      rc = mt_p2p_recv(c, &c->notes[g], sizeof *v, c->leader[g]);
    if (!rc) rc = mt_p2p_wait(c, false);
    for (int g = 1; !rc && g < c->groups; g++)
      if (worse(&c->notes[g], v)) *v = c->notes[g];
  }
  return rc ? rc : leaders_bcast(c, v, sizeof *v, 0, false);
}

int mt_comm_agree(mt_comm *c, int code, mt_err *e) {
  if (c->size == 1) return code;
  int rc = mt_comm_enter(c, "an agreement", e);
  if (rc) return rc;
  mt_control *k = c->control;
  mt_note *own = &c->note[c->group_rank];
  own->rank = c->rank;
  own->code = code;
  memcpy(own->msg, code && e && e->code ? e->msg : "", code && e && e->code ? sizeof own->msg : 1);
  rc = mt_group_gather(c);
  if (!rc && leads(c)) {
    k->verdict = c->note[0];
    for (int m = 1; m < c->group_size; m++)
      if (worse(&c->note[m], &k->verdict)) k->verdict = c->note[m];
    rc = leaders_agree(c, &k->verdict);
  }
  if (!rc) rc = mt_group_release(c);
  rc = mt_comm_leave(c, rc, e);
  if (rc || !k->verdict.code) return rc;
  rc = k->verdict.code;
  const char *msg = k->verdict.msg[0] ? k->verdict.msg : mt_err_name(rc);
  if (!strncmp(msg, "rank ", 5)) return mt_err_set(e, rc, "%s", msg); /* agreed upon before */
  return mt_err_set(e, rc, "rank %d on %s: %s", (int)k->verdict.rank, c->peer[k->verdict.rank].host,
                    msg);
}

static int bcast_piece(mt_comm *c, char *buf, size_t n, int root) {
  int root_group = c->peer[root].group, rc = MT_OK;
  if (c->group == root_group) rc = group_bcast(c, buf, n, c->peer[root].group_rank, true);
  if (!rc && leads(c)) rc = leaders_bcast(c, buf, n, root_group, true);
  if (!rc && c->group != root_group) rc = group_bcast(c, buf, n, 0, true);
  return rc;
}

static int bcast(mt_comm *c, void *buf, size_t bytes, int root) {
  int rc = MT_OK;
  size_t least = bytes == ITSELF ? 1 : bytes;
  for (size_t at = 0; !rc && at < least; at += STAGE_BYTES) {
    size_t n = bytes == ITSELF || bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
    rc = bcast_piece(c, (char *)buf + at, n, root);
  }
  if (!rc) bytes = message_bytes(buf, bytes);
  if (c->rank == root)
    c->stats.sent_bytes += bytes * (size_t)(c->size - 1);
  else
    c->stats.received_bytes += bytes;
  return rc;
}

int mt_comm_bcast(mt_comm *c, void *buf, size_t bytes, int root, mt_err *e) {
  int rc = mt_comm_enter(c, "a broadcast", e);
  if (rc) return rc;
  if (c->size > 1) rc = bcast(c, buf, bytes, root);
  return mt_comm_leave(c, rc, e);
}

int mt_comm_bcast_buf(mt_comm *c, mt_buf *buf, int root, mt_err *e) {
  if (c->size == 1) return MT_OK;
  short_message m;
  size_t head = 0;
  int rc = mt_comm_enter(c, "a broadcast", e);
  if (rc) return rc;
  if (c->rank == root) {
    m.bytes = buf->len;
    head = buf->len < sizeof m.head ? buf->len : sizeof m.head;
    if (head) memcpy(m.head, buf->data, head);
  }
  rc = mt_comm_leave(c, bcast(c, &m, ITSELF, root), e);
  if (rc) return rc;
  size_t bytes = (size_t)m.bytes;
  if (c->rank != root) {
    mt_buf_clear(buf);
    rc = mt_buf_reserve(buf, bytes);
    if (rc) mt_err_set(e, rc, "no memory for a broadcast of %zu bytes", bytes);
    head = bytes < sizeof m.head ? bytes : sizeof m.head;
    if (!rc) rc = mt_buf_append(buf, m.head, head);
  }
  if (bytes <= sizeof m.head) return rc;
  rc = mt_comm_agree(c, rc, e);
  if (rc) return rc;
  rc = mt_comm_bcast(c, buf->data + head, bytes - head, root, e);
  if (!rc && c->rank != root) {
    buf->len = bytes;
    buf->data[bytes] = 0;
  }
  return rc;
}

static size_t piece(size_t bytes, size_t at) {
  return bytes <= at ? 0 : bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
}

/* The members' parts, bytes[rank] each, arrive on member `reader` of their group, or on all (−1),
 * at recv + offset[rank]. */
static int group_gather(mt_comm *c, const char *send, char *recv, const size_t *bytes,
                        const size_t *offset, int reader) {
  size_t most = 0;
  int rc = MT_OK;
  for (int m = 0; m < c->group_size; m++)
    if (bytes[c->member[m]] > most) most = bytes[c->member[m]];
  for (size_t at = 0; !rc && at < most && c->group_size > 1; at += SLOT_BYTES) {
    size_t mine = piece(bytes[c->rank], at);
    if (mine && reader != c->group_rank) {
      rc = mt_group_claim(c);
      if (rc) break;
      memcpy(mt_group_own_slot(c), send + at, mine);
    }
    mt_group_begin(c);
    for (int m = 0; !rc && m < c->group_size; m++) {
      size_t n = piece(bytes[c->member[m]], at);
      if (!n || m == c->group_rank || (reader >= 0 && reader != c->group_rank)) continue;
      rc = mt_group_await(c, m, false);
      if (!rc) memcpy(recv + offset[c->member[m]] + at, mt_group_slot(c, m), n);
    }
  }
  return rc;
}

int mt_comm_gatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                    const size_t *offset, int root, mt_err *e) {
  int rc = mt_comm_enter(c, "a gather", e);
  if (rc) return rc;
  size_t mine = bytes[c->rank];
  int root_group = c->peer[root].group;
  if (c->rank != root) {
    if (c->group != root_group) rc = mt_p2p_send(c, send, mine, root);
    c->stats.sent_bytes += mine;
  } else {
    for (int r = 0; !rc && r < c->size; r++) {
      if (r == root) continue;
      if (c->peer[r].group != root_group)
        rc = mt_p2p_recv(c, (char *)recv + offset[r], bytes[r], r);
      c->stats.received_bytes += bytes[r];
    }
    if (mine) memcpy((char *)recv + offset[root], send, mine);
  }
  if (!rc && c->group == root_group)
    rc = group_gather(c, send, recv, bytes, offset, c->peer[root].group_rank);
  if (!rc) rc = mt_p2p_wait(c, false);
  return mt_comm_leave(c, rc, e);
}

/* One participant's side of an exchange of everybody with everybody; rank[i] is the world rank of
 * participant i of n, and this is participant `me`. Partners are taken in turn from the next one
 * on, so that not everybody writes to the same one. */
typedef struct exchange {
  const int *rank; /* NULL: participants are the world's ranks */
  int n, me;
  const char *send;
  const size_t *send_bytes, *send_offset;
  char *recv;
  const size_t *recv_bytes, *recv_offset;
} exchange;

static int exchange_start(mt_comm *c, const exchange *x) {
  int rc = MT_OK;
  for (int k = 1; !rc && k < x->n; k++) {
    int i = (x->me + x->n - k) % x->n;
    rc = mt_p2p_recv(c, x->recv + x->recv_offset[i], x->recv_bytes[i], x->rank ? x->rank[i] : i);
    c->stats.received_bytes += x->recv_bytes[i];
  }
  for (int k = 1; !rc && k < x->n; k++) {
    int i = (x->me + k) % x->n;
    rc = mt_p2p_send(c, x->send + x->send_offset[i], x->send_bytes[i], x->rank ? x->rank[i] : i);
    c->stats.sent_bytes += x->send_bytes[i];
  }
  size_t own = x->recv_bytes[x->me];
  char *to = x->recv + x->recv_offset[x->me];
  const char *from = x->send + x->send_offset[x->me];
  if (!rc && own && to != from) memcpy(to, from, own);
  return rc;
}

static int exchange_all(mt_comm *c, const exchange *x) {
  int rc = exchange_start(c, x);
  return rc ? rc : mt_p2p_wait(c, false);
}

/* Every leader gets what the ranks of the other groups have, from their leaders. */
static int leaders_allgather(mt_comm *c, char *recv, const size_t *bytes, const size_t *offset) {
  int rc = MT_OK;
  for (int r = 0; !rc && r < c->size; r++) {
    int g = c->peer[r].group;
    if (g != c->group) rc = mt_p2p_recv(c, recv + offset[r], bytes[r], c->leader[g]);
  }
  for (int k = 1; !rc && k < c->groups; k++)
    for (int m = 0; !rc && m < c->group_size; m++)
      rc = mt_p2p_send(c, recv + offset[c->member[m]], bytes[c->member[m]],
                       c->leader[(c->group + k) % c->groups]);
  return rc ? rc : mt_p2p_wait(c, false);
}

int mt_comm_allgatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                       const size_t *offset, mt_err *e) {
  int rc = mt_comm_enter(c, "an all-gather", e);
  if (rc) return rc;
  char *to = recv;
  size_t mine = bytes[c->rank];
  if (mine) memcpy(to + offset[c->rank], send, mine);
  rc = group_gather(c, send, to, bytes, offset, -1);
  if (!rc && leads(c)) rc = leaders_allgather(c, to, bytes, offset);
  for (int r = 0; r < c->size; r++) {
    if (!rc && c->peer[r].group != c->group)
      rc = group_bcast(c, to + offset[r], bytes[r], 0, false);
    c->stats.received_bytes += r == c->rank ? 0 : bytes[r];
  }
  c->stats.sent_bytes += mine * (size_t)(c->size - 1);
  return mt_comm_leave(c, rc, e);
}

int mt_comm_alltoallv(mt_comm *c, const void *send, const size_t *send_bytes,
                      const size_t *send_offset, void *recv, const size_t *recv_bytes,
                      const size_t *recv_offset, mt_err *e) {
  int rc = mt_comm_enter(c, "an all-to-all", e);
  if (rc) return rc;
  exchange x = {NULL,        c->size, c->rank,    send,       send_bytes,
                send_offset, recv,    recv_bytes, recv_offset};
  return mt_comm_leave(c, exchange_all(c, &x), e);
}

static const char BETWEEN[] = "an exchange between nodes";

int mt_comm_leaders_start(mt_comm *c, const void *send, const size_t *send_bytes,
                          const size_t *send_offset, void *recv, const size_t *recv_bytes,
                          const size_t *recv_offset, mt_err *e) {
  int rc = mt_comm_enter(c, BETWEEN, e);
  if (rc) return rc;
  exchange x = {c->leader,   c->groups, c->group,   send,       send_bytes,
                send_offset, recv,      recv_bytes, recv_offset};
  return mt_comm_leave(c, exchange_start(c, &x), e);
}

int mt_comm_leaders_poll(mt_comm *c, bool *done, mt_err *e) {
  int rc = mt_comm_enter(c, BETWEEN, e);
  if (rc) return rc;
  c->stats.calls--; /* the start was counted */
  return mt_comm_leave(c, mt_p2p_poll(c, done), e);
}

int mt_comm_leaders_wait(mt_comm *c, mt_err *e) {
  int rc = mt_comm_enter(c, BETWEEN, e);
  if (rc) return rc;
  c->stats.calls--;
  return mt_comm_leave(c, mt_p2p_wait(c, false), e);
}

int mt_comm_leaders_alltoallv(mt_comm *c, const void *send, const size_t *send_bytes,
                              const size_t *send_offset, void *recv, const size_t *recv_bytes,
                              const size_t *recv_offset, mt_err *e) {
  int rc =
      mt_comm_leaders_start(c, send, send_bytes, send_offset, recv, recv_bytes, recv_offset, e);
  return rc ? rc : mt_comm_leaders_wait(c, e);
}

int mt_comm_leaders_swap(mt_comm *c, int group, const void *send, size_t send_bytes, void *recv,
                         size_t recv_bytes, mt_err *e) {
  int rc = mt_comm_enter(c, BETWEEN, e);
  if (rc) return rc;
  rc = mt_p2p_recv(c, recv, recv_bytes, c->leader[group]);
  if (!rc) rc = mt_p2p_send(c, send, send_bytes, c->leader[group]);
  if (!rc) rc = mt_p2p_wait(c, false);
  c->stats.sent_bytes += send_bytes;
  c->stats.received_bytes += recv_bytes;
  return mt_comm_leave(c, rc, e);
}
