/* Forming of groups: who is on one host, and can share memory there. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm_impl.h"

static bool same_host(const mt_peer *a, const mt_peer *b) {
  return !strcmp(a->host, b->host) && !strcmp(a->boot, b->boot);
}

/* Memory is found through process numbers, which mean nothing in another PID namespace. */
static bool may_share(const mt_peer *a, const mt_peer *b) {
  return same_host(a, b) && a->pid_namespace == b->pid_namespace;
}

/* Position of rank r among those that it has this relation with, and their number. */
static int place_among(const mt_comm *c, int r, bool (*related)(const mt_peer *, const mt_peer *),
                       int *number) {
  int before = 0;
  *number = 0;
  for (int s = 0; s < c->size; s++) {
    if (!related(&c->peer[r], &c->peer[s])) continue;
    before += s < r;
    ++*number;
  }
  return before;
}

/* Lowest rank that may share memory with r and falls into the same of `parts` parts. */
static int lowest_of_part(const mt_comm *c, int r, int parts) {
  int number, before = place_among(c, r, may_share, &number), i = 0;
  if (parts > number) parts = number;
  for (int s = 0; s < r; s++)
    if (may_share(&c->peer[r], &c->peer[s]) && i++ * parts / number == before * parts / number)
      return s;
  return r;
}

/* Until all know who can share memory, a peer's `group` is the lowest rank of its group. */
static void find_hosts(mt_comm *c) {
  long fake = mt_comm_env("MUTIRAO_FAKE_NODES", 1);
  int parts = fake < 1 ? 1 : fake > c->size ? c->size : (int)fake;
  for (int r = 0; r < c->size; r++) {
    mt_peer *p = &c->peer[r];
    int on_host;
    uint64_t ticks = p->start_ticks;
    c->nodes += place_among(c, r, same_host, &on_host) == 0;
    p->here = may_share(p, &c->peer[c->rank]) && mt_process_state(p->pid, &ticks) != '?';
    p->group = lowest_of_part(c, r, parts);
  }
  c->local_rank = place_among(c, c->rank, same_host, &c->local_size);
}

/* The lowest rank of a group makes the control block, the others attach to it. Returns only faults
 * of communication; c->control stays NULL where sharing fails. */
static int share_control(mt_comm *c, int lowest, int members, mt_offer *offer) {
  bool off = mt_comm_env("MUTIRAO_SHARED_MEMORY", 1) == 0;
  mt_err why = {0};
  void *map = NULL;
  int rc = MT_OK;
  *offer = (mt_offer){.fd = -1};
  if (c->rank == lowest) {
    if (!off) mt_share_create(&map, mt_group_control_bytes(members), offer, &why);
    for (int r = lowest + 1; !rc && r < c->size; r++)
      if (c->peer[r].group == lowest) rc = mt_p2p_send(c, offer, sizeof *offer, r);
  } else {
    rc = mt_p2p_recv(c, offer, sizeof *offer, lowest);
  }
  if (!rc) rc = mt_p2p_wait(c, false);
  if (!rc && c->rank != lowest && !off) mt_share_attach(&map, offer, &why);
  if (!map && !off)
    mt_log(MT_LOG_WARN, "rank %d on %s cannot share memory, MPI messages are used: %s", c->rank,
           c->peer[c->rank].host, why.msg);
  c->control = map;
  c->control_bytes = map ? mt_group_control_bytes(members) : 0;
  return rc;
}

/* Where one member cannot share, the whole group falls apart into single ranks. */
static void dissolve_failed(mt_comm *c, const int32_t *shares) {
  for (int r = 0; r < c->size; r++) {
    int lowest = c->peer[r].group;
    if (shares[r]) continue;
    for (int s = lowest; s < c->size; s++)
      if (c->peer[s].group == lowest) c->peer[s].group = s;
  }
}

/* From lowest ranks to numbers. */
static int number_groups(mt_comm *c, mt_err *e) {
  int lowest = c->peer[c->rank].group, at = 0;
  for (int r = 0; r < c->size; r++) {
    c->groups += c->peer[r].group == r;
    c->group_size += c->peer[r].group == lowest;
  }
  c->member = mt_calloc((size_t)c->group_size, sizeof *c->member);
  c->leader = mt_calloc((size_t)c->groups, sizeof *c->leader);
  c->notes = mt_calloc((size_t)c->groups, sizeof *c->notes);
  if (!c->member || !c->leader || !c->notes)
    return mt_err_set(e, MT_ENOMEM, "no memory for %d groups of ranks", c->groups);
  for (int r = 0; r < c->size; r++)
    if (c->peer[r].group == lowest) {
      if (r == c->rank) c->group_rank = at;
      c->member[at++] = r;
    }
  at = 0;
  for (int r = 0; r < c->size; r++) { /* a group's lowest rank comes before its other members */
    mt_peer *p = &c->peer[r];
    if (p->group == r) {
      c->leader[at] = r;
      p->group = at++;
    } else {
      p->group = c->peer[p->group].group;
    }
  }
  c->group = c->peer[c->rank].group;
  for (int r = 0; r < c->size; r++)
    for (int q = 0; q < r; q++) c->peer[r].group_rank += c->peer[q].group == c->peer[r].group;
  return MT_OK;
}

/* A group of one shows nobody anything: it has no use for slots. */
static int own_control(mt_comm *c, mt_err *e) {
  mt_share_detach(c->control, c->control_bytes);
  c->control_bytes = 0;
  size_t bytes = mt_group_control_bytes(0) + CACHE_LINE + sizeof(mt_note);
  c->control = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  if (!c->control) return mt_err_set(e, MT_ENOMEM, "no memory for the communicator");
  memset(c->control, 0, bytes);
  return MT_OK;
}

int mt_form_groups(mt_comm *c, mt_err *e) {
  find_hosts(c);
  int32_t *shares = mt_calloc((size_t)c->size, sizeof *shares);
  if (!shares) return mt_err_set(e, MT_ENOMEM, "no memory for %d ranks", c->size);
  mt_offer offer = {.fd = -1};
  int rc = MT_OK, lowest = c->peer[c->rank].group, members = 0;
  for (int r = 0; r < c->size; r++) members += c->peer[r].group == lowest;
  if (members > 1) rc = share_control(c, lowest, members, &offer);
  int32_t own = members == 1 || c->control;
  if (!rc && c->size > 1) rc = mt_p2p_table(c, &own, sizeof own, shares);
  if (c->rank == lowest && offer.fd >= 0) close(offer.fd);
  if (rc) {
    if (e) *e = c->fault;
  } else if (c->size > 1) {
    dissolve_failed(c, shares);
  }
  free(shares);
  if (!rc) rc = number_groups(c, e);
  if (!rc && c->group_size == 1) rc = own_control(c, e);
  if (rc) return rc;
  mt_group_attach(c);
  if (c->group_rank == 0) c->control->offer.fd = -1;
  return MT_OK;
}
