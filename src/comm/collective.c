/* The collectives. Inside a group through the stage in shared memory, between groups by messages
 * among the leaders; what goes from everybody to everybody is sent directly. */
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

/* Binomial tree from the leader of root_group. */
static int leaders_bcast(mt_comm *c, void *buf, size_t bytes, int root_group, bool idle) {
  int n = c->groups, me = (c->group - root_group + n) % n, bit = 1, rc = MT_OK;
  while (bit < n && !(me & bit)) bit *= 2; /* where me received from; beyond n for the root */
  if (me) {
    rc = mt_p2p_recv(c, buf, bytes, c->leader[(me - bit + root_group) % n]);
    if (!rc) rc = mt_p2p_wait(c, idle);
  }
  for (int b = bit / 2; !rc && b > 0; b /= 2)
    if (me + b < n) rc = mt_p2p_send(c, buf, bytes, c->leader[(me + b + root_group) % n]);
  return rc ? rc : mt_p2p_wait(c, false);
}

int mt_comm_barrier(mt_comm *c, mt_err *e) {
  int rc = mt_comm_enter(c, "a barrier", e);
  if (rc) return rc;
  rc = mt_group_gather(c);
  if (!rc && leads(c)) rc = leaders_barrier(c);
  if (!rc) rc = mt_group_release(c, false);
  return mt_comm_leave(c, rc, e);
}

int mt_comm_group_barrier(mt_comm *c, mt_err *e) {
  int rc = mt_comm_enter(c, "a barrier of the node", e);
  if (rc) return rc;
  rc = mt_group_gather(c);
  if (!rc) rc = mt_group_release(c, false);
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
  mt_note *own = &k->member[c->group_rank].note;
  own->rank = c->rank;
  own->code = code;
  memcpy(own->msg, code && e && e->code ? e->msg : "", code && e && e->code ? sizeof own->msg : 1);
  rc = mt_group_gather(c);
  if (!rc && leads(c)) {
    k->verdict = k->member[0].note;
    for (int m = 1; m < c->group_size; m++)
      if (worse(&k->member[m].note, &k->verdict)) k->verdict = k->member[m].note;
    rc = leaders_agree(c, &k->verdict);
  }
  if (!rc) rc = mt_group_release(c, false);
  rc = mt_comm_leave(c, rc, e);
  if (rc || !k->verdict.code) return rc;
  rc = k->verdict.code;
  const char *msg = k->verdict.msg[0] ? k->verdict.msg : mt_err_name(rc);
  if (!strncmp(msg, "rank ", 5)) return mt_err_set(e, rc, "%s", msg); /* agreed upon before */
  return mt_err_set(e, rc, "rank %d on %s: %s", (int)k->verdict.rank, c->peer[k->verdict.rank].host,
                    msg);
}

/* At most STAGE_BYTES. The root of a group that it does not lead puts its bytes onto the stage when
 * all have left it. */
static int bcast_piece(mt_comm *c, char *buf, size_t n, int root) {
  int root_group = c->peer[root].group;
  bool alone = c->group_size == 1, is_root = c->rank == root;
  char *stage = alone ? buf : c->control->stage;
  int rc = mt_group_gather(c);
  if (!rc && c->group == root_group && c->leader[root_group] != root) {
    rc = mt_group_release(c, true);
    if (!rc && is_root) memcpy(stage, buf, n);
    if (!rc) rc = mt_group_gather(c);
  } else if (!rc && is_root && !alone) {
    memcpy(stage, buf, n);
  }
  if (!rc && leads(c)) rc = leaders_bcast(c, stage, n, root_group, true);
  if (!rc) rc = mt_group_release(c, true);
  if (!rc && !is_root && !alone) memcpy(buf, stage, n);
  return rc;
}

static int bcast(mt_comm *c, void *buf, size_t bytes, int root) {
  int rc = MT_OK;
  for (size_t at = 0; !rc && at < bytes; at += STAGE_BYTES) {
    size_t n = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
    rc = bcast_piece(c, (char *)buf + at, n, root);
  }
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

/* Length and first bytes together, so that a short message takes one turn. */
typedef struct short_message {
  uint64_t bytes;
  char head[4096 - sizeof(uint64_t)];
} short_message;

int mt_comm_bcast_buf(mt_comm *c, mt_buf *buf, int root, mt_err *e) {
  if (c->size == 1) return MT_OK;
  short_message m = {0};
  size_t head = 0;
  if (c->rank == root) {
    m.bytes = buf->len;
    head = buf->len < sizeof m.head ? buf->len : sizeof m.head;
    if (head) memcpy(m.head, buf->data, head);
  }
  int rc = mt_comm_bcast(c, &m, sizeof m, root, e);
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

int mt_comm_gatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                    const size_t *offset, int root, mt_err *e) {
  int rc = mt_comm_enter(c, "a gather", e);
  if (rc) return rc;
  size_t mine = bytes[c->rank];
  if (c->rank != root) {
    rc = mt_p2p_send(c, send, mine, root);
    c->stats.sent_bytes += mine;
  } else {
    for (int r = 0; !rc && r < c->size; r++) {
      if (r == root) continue;
      rc = mt_p2p_recv(c, (char *)recv + offset[r], bytes[r], r);
      c->stats.received_bytes += bytes[r];
    }
    if (mine) memcpy((char *)recv + offset[root], send, mine);
  }
  if (!rc) rc = mt_p2p_wait(c, false);
  return mt_comm_leave(c, rc, e);
}

/* One participant's side of an exchange of everybody with everybody; rank[i] is the world rank of
 * participant i of n, and this is participant `me`. Partners are taken in turn from the next one
 * on, so that not everybody writes to the same one. A NULL send_offset means that all get the same.
 */
typedef struct exchange {
  const int *rank; /* NULL: participants are the world's ranks */
  int n, me;
  const char *send;
  const size_t *send_bytes, *send_offset;
  char *recv;
  const size_t *recv_bytes, *recv_offset;
} exchange;

static int exchange_all(mt_comm *c, const exchange *x) {
  int rc = MT_OK;
  for (int k = 1; !rc && k < x->n; k++) {
    int i = (x->me + x->n - k) % x->n;
    rc = mt_p2p_recv(c, x->recv + x->recv_offset[i], x->recv_bytes[i], x->rank ? x->rank[i] : i);
    c->stats.received_bytes += x->recv_bytes[i];
  }
  for (int k = 1; !rc && k < x->n; k++) {
    int i = (x->me + k) % x->n;
    size_t bytes = x->send_bytes[x->send_offset ? i : x->me];
    const char *from = x->send_offset ? x->send + x->send_offset[i] : x->send;
    rc = mt_p2p_send(c, from, bytes, x->rank ? x->rank[i] : i);
    c->stats.sent_bytes += bytes;
  }
  size_t own = x->recv_bytes[x->me];
  char *to = x->recv + x->recv_offset[x->me];
  const char *from = x->send_offset ? x->send + x->send_offset[x->me] : x->send;
  if (!rc && own && to != from) memcpy(to, from, own);
  return rc ? rc : mt_p2p_wait(c, false);
}

int mt_comm_allgatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                       const size_t *offset, mt_err *e) {
  int rc = mt_comm_enter(c, "an all-gather", e);
  if (rc) return rc;
  exchange x = {NULL, c->size, c->rank, send, bytes, NULL, recv, bytes, offset};
  return mt_comm_leave(c, exchange_all(c, &x), e);
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

int mt_comm_leaders_alltoallv(mt_comm *c, const void *send, const size_t *send_bytes,
                              const size_t *send_offset, void *recv, const size_t *recv_bytes,
                              const size_t *recv_offset, mt_err *e) {
  int rc = mt_comm_enter(c, "an exchange between nodes", e);
  if (rc) return rc;
  exchange x = {c->leader,   c->groups, c->group,   send,       send_bytes,
                send_offset, recv,      recv_bytes, recv_offset};
  return mt_comm_leave(c, exchange_all(c, &x), e);
}
