/* What the files of comm share. Layers inside, lowest first: wait (how to wait, who is gone), share
 * (memory between processes), group (barriers inside a group), p2p (MPI messages), then open and
 * collective. All of them leave the detail of a failure in c->fault. */
#ifndef MUTIRAO_COMM_IMPL_H
#define MUTIRAO_COMM_IMPL_H

#include <mpi.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "mutirao/comm.h"

enum {
  CACHE_LINE = 64,
  COOKIE_BYTES = 16,
  SLOT_BYTES = 64 << 10,    /* what a member can show the others at a time */
  STAGE_BYTES = 1 << 20,    /* a long broadcast goes from node to node in pieces of this size */
  MESSAGE_BYTES = 16 << 20, /* longer messages are cut: MPI counts are int, and parts that come
                               show that a transfer is alive */
};

/* How many operations of its group a member has begun: a counter that the others wait for, alone on
 * its cache line with what it says to everybody. */
typedef struct mt_flag {
  _Alignas(CACHE_LINE) _Atomic uint32_t seq;
  _Atomic uint32_t sleepers; /* futex waiters: only then does the writer enter the kernel */
  _Atomic int32_t word[2];   /* of odd and of even operations, mt_comm_group_meet */
} mt_flag;

/* One rank's outcome in mt_comm_agree. */
typedef struct mt_note {
  int32_t rank, code;
  char msg[sizeof((mt_err *)0)->msg];
} mt_note;

/* How to find a piece of shared memory: descriptor `fd` of process `pid`; the cookie proves that it
 * is the right one (process numbers mean nothing across PID namespaces). */
typedef struct mt_offer {
  int32_t pid, fd;
  uint64_t bytes;
  unsigned char cookie[COOKIE_BYTES];
} mt_offer;

/* Shared by the group; the leader alone writes verdict and offer. Behind it lie, for each member, a
 * flag, then a note, then two slots. */
typedef struct mt_control {
  _Alignas(CACHE_LINE) mt_note verdict;
  mt_offer offer;
} mt_control;

typedef struct mt_peer {
  char host[64], boot[40]; /* boot: the kernel's boot id, so that equal host names do not deceive */
  uint64_t pid_namespace, start_ticks;
  int32_t pid;
  int32_t group, group_rank; /* filled after the exchange, like `here` */
  bool here;                 /* on this host, and its /proc entry can be read */
} mt_peer;

struct mt_comm {
  int rank, size, local_rank, local_size, nodes;
  int group, groups, group_rank, group_size;
  int *member;   /* [group_size] world ranks */
  int *leader;   /* [groups] world ranks */
  mt_peer *peer; /* [size] */
  mt_control *control;
  size_t control_bytes; /* 0: on the heap, because the group is one rank */
  mt_flag *flag;        /* [group_size], like the next two in the control block */
  mt_note *note;
  char *slot;          /* [group_size][2][SLOT_BYTES] */
  uint32_t seq;        /* operations of the group that this rank has begun */
  uint32_t seen;       /* operations that all others have begun, as far as this rank has looked */
  uint32_t free_at[2]; /* what the others must have begun before this rank's slot and word of odd
                          (even) operations may be overwritten */
  mt_note *notes;      /* [groups], used by the first leader */

  MPI_Request *request; /* messages under way */
  int *request_peer;
  int *request_done; /* MPI_Testsome's answer */
  size_t request_bytes;
  int n_requests, cap_requests;

  bool mpi, oversubscribed;
  pid_t parent;
  uint64_t watchdog_ns, watchdog_abort_ns, deadline_ns; /* deadline: 0 but while opening */
  const char *what;                                     /* the collective under way, for messages */
  uint64_t entered_ns;
  int broken; /* code of the failure that ended it all; its text is in fault */
  mt_err fault;
  mt_comm_stats stats;
};

struct mt_comm_window {
  mt_comm *comm;
  char *base;
  size_t segment_bytes, map_bytes;
};

/* ---- wait -------------------------------------------------------------------------------- */

/* Names those waited for: the world rank of the i-th, −1 after the last; the first is the one to
 * blame. */
typedef int (*mt_missing_fn)(const mt_comm *c, int i);
typedef struct mt_wait {
  uint64_t start_ns, next_check_ns, next_warn_ns;
  unsigned turns;
  bool idle; /* waiting may rightly last for hours */
} mt_wait;
mt_wait mt_wait_begin(const mt_comm *c, bool idle);
/* One turn of waiting. 0: look again at once; 1: it has been long, sleep a little; or MT_EPEER. */
int mt_wait_turn(mt_comm *c, mt_wait *w, mt_missing_fn missing);
int mt_flag_wait(mt_comm *c, mt_flag *f, uint32_t want, bool idle, mt_missing_fn missing);
void mt_flag_set(mt_flag *f, uint32_t value);
/* State letter of a process ('R', 'S', 'T', …); 0 where it has ended, '?' where one cannot tell.
 * *start_ticks, where it is 0, receives the start time; else a process with another start time
 * counts as ended. */
char mt_process_state(int pid, uint64_t *start_ticks);

/* ---- share ------------------------------------------------------------------------------- */

/* Makes `bytes` of shared memory, cleared; offer tells others of it; offer->fd is to be closed once
 * they have come. MT_ENOMEM or MT_EUNSUPPORTED. */
int mt_share_create(void **map, size_t bytes, mt_offer *offer, mt_err *e);
int mt_share_attach(void **map, const mt_offer *offer, mt_err *e);
void mt_share_detach(void *map, size_t bytes);
size_t mt_share_round(size_t bytes); /* up to whole pages; 0 on overflow */

/* ---- open, form -------------------------------------------------------------------------- */

/* A non-negative whole number from the environment; anything else is said and left out. */
long mt_comm_env(const char *name, long fallback);
/* From c->peer: hosts, groups, and the control block of this rank's group. */
int mt_form_groups(mt_comm *c, mt_err *e);

/* ---- group -------------------------------------------------------------------------------
 * An operation of the group: each member puts what it has for the others where they find it, begins
 * the operation (its flag then says so), and awaits those whose part it needs. Having begun one, it
 * has done with what others showed it in all earlier ones. Operations are numbered alike on all
 * members; odd and even ones have a slot each, so that a member may run ahead. */

size_t mt_group_control_bytes(int members);
void mt_group_attach(mt_comm *c); /* flags, notes and slots, from c->control */
/* Waits until this rank's slot and word of the coming operation are free. */
int mt_group_claim(mt_comm *c);
/* Of the coming operation before mt_group_begin, of the one begun after it. */
char *mt_group_own_slot(const mt_comm *c);
const char *mt_group_slot(const mt_comm *c, int member);
void mt_group_begin(mt_comm *c);
/* Until the member has begun the operation that this rank has. */
int mt_group_await(mt_comm *c, int member, bool idle);
int mt_group_await_all(mt_comm *c);

/* Two operations: the leader returns from the first when all have come, the others from the second
 * when the leader has. */
int mt_group_gather(mt_comm *c);
int mt_group_release(mt_comm *c);

/* ---- collective -------------------------------------------------------------------------- */

/* Around every collective: an earlier failure is repeated, a new one is kept; time is counted. */
int mt_comm_enter(mt_comm *c, const char *what, mt_err *e);
int mt_comm_leave(mt_comm *c, int rc, mt_err *e);

/* ---- p2p --------------------------------------------------------------------------------- */

/* Starts a message; the buffer must stay until mt_p2p_wait. Nothing happens for 0 bytes. */
int mt_p2p_send(mt_comm *c, const void *buf, size_t bytes, int to);
int mt_p2p_recv(mt_comm *c, void *buf, size_t bytes, int from);
int mt_p2p_wait(mt_comm *c, bool idle);
int mt_p2p_poll(mt_comm *c, bool *done); /* like it, without waiting; *done: nothing is under way */
/* Everybody's record on everybody: table [size][bytes]. Through rank 0. */
int mt_p2p_table(mt_comm *c, const void *mine, size_t bytes, void *table);

#endif
