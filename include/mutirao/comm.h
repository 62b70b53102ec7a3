/* comm: moves bytes between ranks. MPI and shared memory behind one interface, with byte and time
 * counters, agreement on errors, and a single-process backend that never touches MPI. Layer 1; the
 * only module that includes mpi.h. All functions are called from one thread of each rank
 * (MPI_THREAD_FUNNELED). "Collective" means: every rank of the communicator calls it, in the same
 * order, with matching arguments.
 *
 * A collective fails with MT_EPEER when another rank has gone or does not answer; the message names
 * it and its host. After that the communicator is of no more use: every later call fails at once
 * with the same error, and the process should end with a non-zero status, upon which mpirun ends
 * the others. mt_comm_agree carries ordinary failures, after which work may go on.
 *
 * Environment: MUTIRAO_WATCHDOG_S (30): after so many seconds a warning names the rank waited for;
 * 0 is never. MUTIRAO_WATCHDOG_ABORT_S (0, never): after so many the wait fails with MT_EPEER.
 * MUTIRAO_START_TIMEOUT_S (60): the same for the first messages. MUTIRAO_SHARED_MEMORY=0: ranks of
 * a node use MPI messages. MUTIRAO_FAKE_NODES=k: the ranks of a host are split into k groups that
 * share no memory, to test on one machine what happens between nodes. */
#ifndef MUTIRAO_COMM_H
#define MUTIRAO_COMM_H

#include "mutirao/base.h"

typedef struct mt_comm mt_comm;

/* True if this process was started as an MPI rank (PMIX_RANK, OMPI_COMM_WORLD_RANK or PMI_RANK is
 * set). */
bool mt_comm_is_rank(void);
/* Opens the world. Under mpirun or srun: MPI_Init_thread; otherwise one rank, no MPI. A Slurm step
 * of several tasks whose MPI has size 1 is MT_EINVAL with the --mpi=pmix hint. Ranks that do not
 * answer in time are MT_EPEER with a hint about network interfaces. Collective. */
int mt_comm_open(mt_comm **out, mt_err *e);
/* Finalizes; NULL allowed. After MT_EPEER it frees only what is ours, so that it cannot hang.
 * Collective. */
void mt_comm_close(mt_comm *c);
/* Ends every rank at once with this exit status; for failures that others cannot learn of
 * otherwise. */
void mt_comm_abort(mt_comm *c, int status) __attribute__((noreturn));

int mt_comm_rank(const mt_comm *c);
int mt_comm_size(const mt_comm *c);
int mt_comm_local_rank(const mt_comm *c); /* among the ranks of this host */
int mt_comm_local_size(const mt_comm *c);
int mt_comm_nodes(const mt_comm *c);
const char *mt_comm_host(const mt_comm *c);                /* this rank's host name */
const char *mt_comm_rank_host(const mt_comm *c, int rank); /* that of another */
/* Says that ranks and threads outnumber cores: waits then yield a few times and sleep,
 * instead of spinning. Default: spin
 * briefly first, unless the ranks of this host alone outnumber its CPUs. */
void mt_comm_set_oversubscribed(mt_comm *c, bool oversubscribed);

/* Agreement: every rank passes its own outcome; all return the same code: MT_OK if all were MT_OK,
 * else the code of the lowest rank that failed, and e (everywhere) holds that rank's message
 * prefixed "rank R on HOST: " (no prefix where there is one rank only). Collective. */
int mt_comm_agree(mt_comm *c, int code, mt_err *e);

int mt_comm_barrier(mt_comm *c, mt_err *e); /* collective */
/* Ranks that wait for a broadcast may wait for hours (for the next step plan, say): they spin for
 * the length of a step, then sleep, and the watchdog leaves them alone. Collective. */
int mt_comm_bcast(mt_comm *c, void *buf, size_t bytes, int root, mt_err *e);
/* Broadcasts a buffer of a length that only root knows; elsewhere its content is replaced.
 * Collective. */
int mt_comm_bcast_buf(mt_comm *c, mt_buf *buf, int root, mt_err *e);
/* Rank r's bytes[r] bytes arrive at recv + offset[r] (on root only, or on all). bytes and offset
 * have one entry a rank and are the same everywhere. send and recv must not overlap. Collective. */
int mt_comm_gatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                    const size_t *offset, int root, mt_err *e);
int mt_comm_allgatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes,
                       const size_t *offset, mt_err *e);
/* Every rank sends send_bytes[r] bytes at send + send_offset[r] to rank r. Collective. */
int mt_comm_alltoallv(mt_comm *c, const void *send, const size_t *send_bytes,
                      const size_t *send_offset, void *recv, const size_t *recv_bytes,
                      const size_t *recv_offset, mt_err *e);

/* MPI's own sum over the ranks, to compare with: out [n] = Σ in [n], int64 or f32 (whose bits then
 * depend on the library). Nobody watches over it: a rank that dies meanwhile is not noticed. Where
 * there is no MPI, the one rank's in is the sum. Collective. */
int mt_comm_mpi_sum(mt_comm *c, const void *in, void *out, size_t n, bool f32, mt_err *e);

/* ---- groups: ranks that share memory ------------------------------------------------------------
 * Normally the ranks of a host; where they cannot share memory, each rank is a group of its own.
 * Groups are numbered by their lowest rank, which leads the group; members by ascending rank. */

int mt_comm_group(const mt_comm *c);      /* number of this rank's group */
int mt_comm_groups(const mt_comm *c);     /* how many there are */
int mt_comm_group_rank(const mt_comm *c); /* this rank among its group; 0 leads */
int mt_comm_group_size(const mt_comm *c);
int mt_comm_group_member(const mt_comm *c, int i); /* world rank of member i of this group */

/* Memory that the ranks of a group share: a segment of `bytes` (rounded up to whole pages; the same
 * everywhere) for each, cleared and not yet touched. MT_ENOMEM is agreed upon. Both collective. */
typedef struct mt_comm_window mt_comm_window;
int mt_comm_window_new(mt_comm_window **out, mt_comm *c, size_t bytes, mt_err *e);
void mt_comm_window_free(mt_comm_window *w);
/* Segment of member i of this group. What was written before a meeting of the group is seen after
 * it. */
void *mt_comm_window_at(mt_comm_window *w, int i);
/* All ranks of this group wait for each other, and learn the least of their words. Adds nothing to
 * the counters: who moves bytes through a window counts them, and the time, by mt_comm_add_stats.
 */
int mt_comm_group_meet(mt_comm *c, int32_t word, int32_t *least, mt_err *e);
/* Like mt_comm_alltoallv, among the leaders only (one entry a group); all leaders call it. Parts of
 * send may overlap each other, and the own part may lie in recv where it will end. */
int mt_comm_leaders_alltoallv(mt_comm *c, const void *send, const size_t *send_bytes,
                              const size_t *send_offset, void *recv, const size_t *recv_bytes,
                              const size_t *recv_offset, mt_err *e);

/* mt_comm_leaders_alltoallv in parts, so that messages travel while the leader computes: all
 * leaders start it, poll it as often as they like (each time moves the messages on; *done: all have
 * gone and come) and wait for it. Buffers stay as they are until then; in between, the leaders may
 * meet their groups, but send no other messages. */
int mt_comm_leaders_start(mt_comm *c, const void *send, const size_t *send_bytes,
                          const size_t *send_offset, void *recv, const size_t *recv_bytes,
                          const size_t *recv_offset, mt_err *e);
int mt_comm_leaders_poll(mt_comm *c, bool *done, mt_err *e);
int mt_comm_leaders_wait(mt_comm *c, mt_err *e);

/* The leaders of this and of another group send each other bytes, either number may be 0; both of
 * them call it. */
int mt_comm_leaders_swap(mt_comm *c, int group, const void *send, size_t send_bytes, void *recv,
                         size_t recv_bytes, mt_err *e);

/* ---- counters ---------------------------------------------------------------------------- */

/* Payload of this rank, shared memory included, counted once for each receiver whatever the route:
 * over all ranks, sent equals received. */
typedef struct mt_comm_stats {
  uint64_t calls, sent_bytes, received_bytes;
  uint64_t ns; /* time inside collectives, waiting included */
} mt_comm_stats;
mt_comm_stats mt_comm_get_stats(const mt_comm *c);
/* Adds what a user of a window moved by itself. */
void mt_comm_add_stats(mt_comm *c, mt_comm_stats more);

#endif
