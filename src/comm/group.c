/* Inside a group: operations through shared memory. */
#include "comm_impl.h"

static size_t up_to_line(size_t bytes) {
  return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

size_t mt_group_control_bytes(int members) {
  size_t n = (size_t)members;
  return sizeof(mt_control) + n * sizeof(mt_flag) + up_to_line(n * sizeof(mt_note)) +
         n * 2 * SLOT_BYTES;
}

void mt_group_attach(mt_comm *c) {
  size_t n = (size_t)c->group_size;
  c->flag = (mt_flag *)(void *)(c->control + 1);
  c->note = (mt_note *)(void *)(c->flag + n);
  c->slot = (char *)c->note + up_to_line(n * sizeof(mt_note));
}

static bool reached(uint32_t seq, uint32_t want) {
  return (int32_t)(seq - want) >= 0;
}

static uint32_t begun(const mt_comm *c, int member) {
  return atomic_load_explicit(&c->flag[member].seq, memory_order_acquire);
}

/* Members behind this rank; first the one that is furthest behind, for which the others may be
 * waiting too. */
static int missing_member(const mt_comm *c, int i) {
  int last = -1;
  uint32_t least = c->seq;
  for (int m = 0; m < c->group_size; m++) {
    uint32_t seq = begun(c, m);
    if (m == c->group_rank || reached(seq, least)) continue;
    least = seq;
    last = m;
  }
  if (last < 0 || i == 0) return last < 0 ? -1 : c->member[last];
  for (int m = 0; m < c->group_size; m++)
    if (m != c->group_rank && m != last && !reached(begun(c, m), c->seq) && --i == 0)
      return c->member[m];
  return -1;
}

/* Until all others have begun operation `want`, which this rank has begun too. */
static int await_seq(mt_comm *c, uint32_t want) {
  if (reached(c->seen, want)) return MT_OK;
  for (int m = 0; m < c->group_size; m++) {
    if (m == c->group_rank) continue;
    int rc = mt_flag_wait(c, &c->flag[m], want, false, missing_member);
    if (rc) return rc;
  }
  c->seen = want;
  return MT_OK;
}

/* free_at is at most the number of the operation before the coming one, since it is that of the one
 * with the same parity plus 1: nobody can be waiting for this rank before it gets there. */
int mt_group_claim(mt_comm *c) {
  uint32_t next = c->seq + 1;
  int rc = await_seq(c, c->free_at[next % 2]);
  if (!rc) c->free_at[next % 2] = next + 1;
  return rc;
}

static char *slot_of(const mt_comm *c, int member, uint32_t seq) {
  return c->slot + ((size_t)member * 2 + seq % 2) * SLOT_BYTES;
}

char *mt_group_own_slot(const mt_comm *c) {
  return slot_of(c, c->group_rank, c->seq + 1);
}
const char *mt_group_slot(const mt_comm *c, int member) {
  return slot_of(c, member, c->seq);
}

void mt_group_begin(mt_comm *c) {
  c->seq++;
  if (c->group_size > 1) mt_flag_set(&c->flag[c->group_rank], c->seq);
}

int mt_group_await(mt_comm *c, int member, bool idle) {
  return mt_flag_wait(c, &c->flag[member], c->seq, idle, missing_member);
}

int mt_group_await_all(mt_comm *c) {
  return await_seq(c, c->seq);
}

int mt_group_gather(mt_comm *c) {
  mt_group_begin(c);
  return c->group_rank == 0 ? mt_group_await_all(c) : MT_OK;
}

int mt_group_release(mt_comm *c) {
  mt_group_begin(c);
  return c->group_rank == 0 ? MT_OK : mt_group_await(c, 0, false);
}

int mt_comm_group_meet(mt_comm *c, int32_t word, int32_t *least, mt_err *e) {
  *least = word;
  if (c->group_size == 1) return MT_OK;
  if (c->broken) {
    if (e) *e = c->fault;
    return c->broken;
  }
  c->what = "a meeting of the node";
  int rc = mt_group_claim(c);
  if (!rc) {
    uint32_t half = (c->seq + 1) % 2;
    atomic_store_explicit(&c->flag[c->group_rank].word[half], word, memory_order_relaxed);
    mt_group_begin(c);
    rc = mt_group_await_all(c);
    for (int m = 0; !rc && m < c->group_size; m++) {
      int32_t w = atomic_load_explicit(&c->flag[m].word[half], memory_order_relaxed);
      if (w < *least) *least = w;
    }
  }
  if (!rc) return MT_OK;
  c->broken = rc;
  if (e) *e = c->fault;
  return rc;
}
