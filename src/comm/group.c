/* Inside a group: arrive and release. */
#include "comm_impl.h"

static bool arrived(const mt_comm *c, int member) {
  uint32_t seq = atomic_load_explicit(&c->control->member[member].arrive.seq, memory_order_acquire);
  return (int32_t)(seq - c->seq) >= 0;
}

/* Members that have not arrived; then, for one that waits for the release, the leader. */
static int missing_member(const mt_comm *c, int i) {
  for (int m = 1; m < c->group_size; m++)
    if (!arrived(c, m) && i-- == 0) return c->member[m];
  return i == 0 && c->group_rank > 0 ? c->member[0] : -1;
}

int mt_group_gather(mt_comm *c) {
  if (c->group_size == 1) return MT_OK;
  c->seq++;
  if (c->group_rank > 0) {
    mt_flag_set(&c->control->member[c->group_rank].arrive, c->seq);
    return MT_OK;
  }
  for (int m = 1; m < c->group_size; m++) {
    int rc = mt_flag_wait(c, &c->control->member[m].arrive, c->seq, false, missing_member);
    if (rc) return rc;
  }
  return MT_OK;
}

int mt_group_release(mt_comm *c, bool idle) {
  if (c->group_size == 1) return MT_OK;
  if (c->group_rank > 0) return mt_flag_wait(c, &c->control->release, c->seq, idle, missing_member);
  mt_flag_set(&c->control->release, c->seq);
  return MT_OK;
}
