/* The collectives on any number of ranks and groups: every byte arrives, sizes from nothing to
 * several pieces, agreement, windows, counters. */
#include <sched.h>

#include "mpi_test.h"

enum { RANKS_MOST = 64, MIB = 1 << 20 };

/* What byte i of a message from rank `from` to rank `to` (−1: all) is. */
static char byte_of(size_t i, int from, int to, size_t round) {
  return (char)(i * 131 + (i >> 8) * 7 + (size_t)(from + 1) * 37 + (size_t)(to + 2) * 11 + round);
}
static void fill(char *p, size_t n, int from, int to, size_t round) {
  for (size_t i = 0; i < n; i++) p[i] = byte_of(i, from, to, round);
}
static bool holds(const char *p, size_t n, int from, int to, size_t round) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != byte_of(i, from, to, round)) return false;
  return true;
}

static void check_bcast(mt_comm *c) {
  static const size_t sizes[] = {0, 1, 63, 4096, 100000, MIB, MIB + 1, 3 * MIB + 5};
  char *buf = mt_malloc(4 * MIB, 1);
  for (size_t s = 0; buf && s < sizeof sizes / sizeof sizes[0]; s++)
    for (int root = 0; root < mt_comm_size(c); root++) {
      memset(buf, 0, sizes[s] + 1);
      if (mt_comm_rank(c) == root) fill(buf, sizes[s], root, -1, s);
      CHECK(mt_comm_bcast(c, buf, sizes[s], root, NULL) == MT_OK);
      CHECK(holds(buf, sizes[s], root, -1, s) && buf[sizes[s]] == 0);
    }
  free(buf);
}

static void check_bcast_buf(mt_comm *c) {
  static const size_t sizes[] = {0, 5, 4087, 4088, 4089, 2 * MIB + 3};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
    for (int root = 0; root < mt_comm_size(c); root++) {
      mt_buf b = {0};
      CHECK(mt_buf_puts(&b, "left over from before") == MT_OK);
      if (mt_comm_rank(c) == root) {
        mt_buf_clear(&b);
        CHECK(mt_buf_reserve(&b, sizes[s] + 1) == MT_OK);
        fill(b.data, sizes[s], root, -1, s);
        b.len = sizes[s];
        b.data[b.len] = 0;
      }
      CHECK(mt_comm_bcast_buf(c, &b, root, NULL) == MT_OK);
      CHECK(b.len == sizes[s] && holds(b.data, b.len, root, -1, s));
      CHECK(b.data[b.len] == 0);
      mt_buf_free(&b);
    }
}

/* Uneven parts, some empty, in an order that is not that of the ranks. */
static size_t parts(mt_comm *c, size_t unit, size_t *bytes, size_t *offset) {
  size_t at = 3;
  for (int r = mt_comm_size(c) - 1; r >= 0; r--) {
    bytes[r] = r % 3 == 1 ? 0 : unit * (size_t)(r + 1);
    offset[r] = at;
    at += bytes[r] + 1;
  }
  return at;
}

static void check_gather(mt_comm *c) {
  size_t bytes[RANKS_MOST], offset[RANKS_MOST];
  int n = mt_comm_size(c), me = mt_comm_rank(c);
  for (size_t unit = 1; unit < 70000; unit = unit * 41 + 1) {
    size_t total = parts(c, unit, bytes, offset);
    char *send = mt_malloc(bytes[me], 1), *recv = mt_malloc(total, 1);
    fill(send, bytes[me], me, -1, unit);
    for (int root = 0; root <= n; root++) { /* n: all of them */
      memset(recv, 'x', total);
      CHECK((root < n ? mt_comm_gatherv(c, send, recv, bytes, offset, root, NULL)
                      : mt_comm_allgatherv(c, send, recv, bytes, offset, NULL)) == MT_OK);
      for (int r = 0; r < n && (root == me || root == n); r++) {
        CHECK(holds(recv + offset[r], bytes[r], r, -1, unit));
        CHECK(recv[offset[r] + bytes[r]] == 'x' || offset[r] + bytes[r] == total);
      }
      if (root < n && root != me) CHECK(recv[3] == 'x');
    }
    free(send);
    free(recv);
  }
}

static size_t pair_bytes(int from, int to, size_t unit) {
  return (size_t)((from * 5 + to * 3) % 4) * unit;
}

static void check_alltoall(mt_comm *c) {
  size_t sb[RANKS_MOST], so[RANKS_MOST], rb[RANKS_MOST], ro[RANKS_MOST];
  int n = mt_comm_size(c), me = mt_comm_rank(c);
  for (size_t unit = 1; unit < 200000; unit = unit * 53 + 1) {
    size_t s = 0, r = 0;
    for (int k = 0; k < n; k++) {
      sb[k] = pair_bytes(me, k, unit);
      rb[k] = pair_bytes(k, me, unit);
      so[k] = s;
      ro[k] = r;
      s += sb[k];
      r += rb[k];
    }
    char *send = mt_malloc(s, 1), *recv = mt_calloc(r, 1);
    for (int k = 0; k < n; k++) fill(send + so[k], sb[k], me, k, unit);
    CHECK(mt_comm_alltoallv(c, send, sb, so, recv, rb, ro, NULL) == MT_OK);
    for (int k = 0; k < n; k++) CHECK(holds(recv + ro[k], rb[k], k, me, unit));
    free(send);
    free(recv);
  }
}

static void check_agree(mt_comm *c) {
  int n = mt_comm_size(c), me = mt_comm_rank(c);
  mt_err e = {0};
  CHECK(mt_comm_agree(c, MT_OK, &e) == MT_OK && e.code == 0);
  for (int bad = 0; bad < n; bad++) {
    char want[200];
    bool fails = me == bad || me == bad + 2;
    e = (mt_err){0};
    if (fails) mt_err_set(&e, MT_EFORMAT, "file of rank %d is cut", me);
    CHECK(mt_comm_agree(c, fails ? MT_EFORMAT : MT_OK, &e) == MT_EFORMAT);
    if (n == 1)
      snprintf(want, sizeof want, "file of rank 0 is cut");
    else
      snprintf(want, sizeof want, "rank %d on %s: file of rank %d is cut", bad,
               mt_comm_rank_host(c, bad), bad);
    CHECK(e.code == MT_EFORMAT && !strcmp(e.msg, want));
  }
  CHECK(mt_comm_agree(c, me == n - 1 ? MT_ENOMEM : MT_OK, NULL) == MT_ENOMEM);
  CHECK(mt_comm_agree(c, MT_OK, &e) == MT_OK);
}

/* Each member writes into every segment; after a barrier all is there. */
static void check_window(mt_comm *c) {
  mt_comm_window *w = NULL;
  int n = mt_comm_group_size(c), me = mt_comm_group_rank(c);
  CHECK(mt_comm_group_member(c, me) == mt_comm_rank(c));
  CHECK(mt_comm_window_new(&w, c, 5000 * (size_t)n, NULL) == MT_OK);
  if (!w) return;
  for (int i = 0; i < n; i++) CHECK(((char *)mt_comm_window_at(w, i))[5000 * me] == 0);
  int32_t least = 0;
  CHECK(mt_comm_group_meet(c, 40 - me, &least, NULL) == MT_OK && least == 41 - n);
  for (int i = 0; i < n; i++) fill((char *)mt_comm_window_at(w, i) + 5000 * me, 5000, me, i, 9);
  CHECK(mt_comm_group_meet(c, me - 40, &least, NULL) == MT_OK && least == -40);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      CHECK(holds((char *)mt_comm_window_at(w, i) + 5000 * k, 5000, k, i, 9));
  mt_comm_window_free(w);
  mt_err e = {0};
  CHECK(mt_comm_window_new(&w, c, SIZE_MAX / 3, &e) == MT_ENOMEM && !w);
  bool hungry = mt_comm_rank(c) == 0; /* fails on one rank only, and all learn of it */
  CHECK(mt_comm_window_new(&w, c, hungry ? SIZE_MAX : 100, &e) == MT_ENOMEM && !w);
  CHECK(mt_comm_window_new(&w, c, 0, &e) == MT_OK && w);
  mt_comm_window_free(w);
}

static void check_leaders(mt_comm *c) {
  size_t bytes[RANKS_MOST], offset[RANKS_MOST];
  int n = mt_comm_groups(c), me = mt_comm_group(c);
  if (mt_comm_group_rank(c) == 0) {
    char *send = mt_malloc((size_t)n, 1000), *recv = mt_calloc((size_t)n, 1000);
    for (int g = 0; g < n; g++) {
      bytes[g] = 1000;
      offset[g] = 1000 * (size_t)g;
      fill(send + offset[g], 1000, me, g, 4);
    }
    CHECK(mt_comm_leaders_alltoallv(c, send, bytes, offset, recv, bytes, offset, NULL) == MT_OK);
    for (int g = 0; g < n; g++) CHECK(holds(recv + offset[g], 1000, g, me, 4));
    free(send);
    free(recv);
  }
  CHECK(mt_comm_barrier(c, NULL) == MT_OK);
}

/* Any operation after any other, of any size, while ranks are late in turn: nobody overwrites what
 * another has not read yet. */
static void check_mixed(mt_comm *c) {
  enum { ROUNDS = 1500, MOST = 150000 };
  int n = mt_comm_size(c), me = mt_comm_rank(c);
  size_t bytes[RANKS_MOST], offset[RANKS_MOST];
  char *send = mt_malloc(MOST, 1), *recv = mt_malloc(MOST, RANKS_MOST);
  for (uint64_t i = 0; send && recv && i < ROUNDS; i++) {
    int op = (int)(mt_uniform(7, 0, i, 0) * 6), root = (int)(mt_uniform(7, 0, i, 1) * n);
    size_t unit = (size_t)(mt_uniform(7, 0, i, 2) < 0.9 ? mt_uniform(7, 0, i, 3) * 400
                                                        : mt_uniform(7, 0, i, 3) * (MOST - 1));
    for (double y = mt_uniform(7, 1 + (uint32_t)me, i, 0) * 3; y > 1; y--) sched_yield();
    for (int r = 0; r < n; r++) {
      bytes[r] = mt_uniform(8, (uint32_t)r, i, 0) < 0.3 ? 0 : unit;
      offset[r] = (size_t)r * MOST;
    }
    fill(send, unit, me, -1, i);
    int32_t word = (int32_t)(me * 7 + (int)i) % 11, least = 0, want = 11;
    for (int k = 0; k < mt_comm_group_size(c); k++) {
      int32_t w = (int32_t)(mt_comm_group_member(c, k) * 7 + (int)i) % 11;
      want = w < want ? w : want;
    }
    switch (op) {
      case 0: CHECK(mt_comm_bcast(c, send, unit, root, NULL) == MT_OK); break;
      case 1: CHECK(mt_comm_gatherv(c, send, recv, bytes, offset, root, NULL) == MT_OK); break;
      case 2: CHECK(mt_comm_allgatherv(c, send, recv, bytes, offset, NULL) == MT_OK); break;
      case 3: CHECK(mt_comm_barrier(c, NULL) == MT_OK); break;
      case 4: CHECK(mt_comm_group_meet(c, word, &least, NULL) == MT_OK && least == want); break;
      default: CHECK(mt_comm_agree(c, MT_OK, NULL) == MT_OK); break;
    }
    if (op == 0) CHECK(holds(send, unit, root, -1, i));
    for (int r = 0; r < n && (op == 2 || (op == 1 && me == root)); r++)
      CHECK(holds(recv + offset[r], bytes[r], r, -1, i));
  }
  free(send);
  free(recv);
}

static void check_sent_is_received(mt_comm *c) {
  mt_comm_stats s = mt_comm_get_stats(c), all[RANKS_MOST];
  size_t bytes[RANKS_MOST], offset[RANKS_MOST];
  uint64_t sent = 0, received = 0;
  for (int r = 0; r < mt_comm_size(c); r++) {
    bytes[r] = sizeof s;
    offset[r] = sizeof s * (size_t)r;
  }
  CHECK(mt_comm_allgatherv(c, &s, all, bytes, offset, NULL) == MT_OK);
  for (int r = 0; r < mt_comm_size(c); r++) {
    sent += all[r].sent_bytes;
    received += all[r].received_bytes;
  }
  CHECK(sent == received && (sent > 0) == (mt_comm_size(c) > 1));
  CHECK(s.calls > 50 && s.ns > 0);
}

static void check_shape(mt_comm *c) {
  int n = mt_comm_size(c);
  CHECK(mt_comm_rank(c) >= 0 && mt_comm_rank(c) < n && n <= RANKS_MOST);
  CHECK(mt_comm_local_size(c) == n && mt_comm_local_rank(c) == mt_comm_rank(c)); /* one machine */
  CHECK(mt_comm_nodes(c) == 1);
  const char *fake = getenv("MUTIRAO_FAKE_NODES"), *shared = getenv("MUTIRAO_SHARED_MEMORY");
  int want = shared ? n : fake ? atoi(fake) : 1;
  CHECK(mt_comm_groups(c) == (want < n ? want : n));
  CHECK(!strcmp(mt_comm_host(c), mt_comm_rank_host(c, mt_comm_rank(c))));
}

int main(int argc, char **argv) {
  mt_comm *c = test_open(argc, argv);
  check_shape(c);
  for (int round = 0; round < 2; round++) {
    mt_comm_set_oversubscribed(c, round == 0);
    check_bcast(c);
    check_bcast_buf(c);
    check_gather(c);
    check_alltoall(c);
    check_agree(c);
    check_window(c);
    check_leaders(c);
    check_mixed(c);
    for (int i = 0; i < 200; i++) CHECK(mt_comm_barrier(c, NULL) == MT_OK);
  }
  check_sent_is_received(c);
  return test_close(c);
}
