/* comm: moves bytes between ranks. MPI and shared memory behind one interface, with byte and time counters, agreement
 * on errors, and a single-process backend that never touches MPI. Layer 1; the only module that includes mpi.h.
 * All functions are called from one thread of each rank (MPI_THREAD_FUNNELED). "Collective" means: every rank of the
 * communicator calls it, in the same order, with matching arguments. */
#ifndef MUTIRAO_COMM_H
#define MUTIRAO_COMM_H

#include "mutirao/base.h"

typedef struct mt_comm mt_comm;

/* True if this process was started as an MPI rank (PMIX_RANK, OMPI_COMM_WORLD_RANK or PMI_RANK is set). */
bool mt_comm_is_rank(void);
/* Opens the world. Under mpirun or srun: MPI_Init_thread; otherwise one rank, no MPI. A Slurm step of several tasks
 * whose MPI has size 1 is MT_EINVAL with the --mpi=pmix hint. Collective. */
int mt_comm_open(mt_comm **out, mt_err *e);
/* Finalizes. Collective. */
void mt_comm_close(mt_comm *c);
/* Ends every rank at once with this exit status; for failures that others cannot learn of otherwise. */
void mt_comm_abort(mt_comm *c, int status) __attribute__((noreturn));

int mt_comm_rank(const mt_comm *c);
int mt_comm_size(const mt_comm *c);
int mt_comm_local_rank(const mt_comm *c); /* among the ranks of this node */
int mt_comm_local_size(const mt_comm *c);
int mt_comm_nodes(const mt_comm *c);
const char *mt_comm_host(const mt_comm *c); /* this rank's host name */
/* Says that ranks and threads outnumber cores: waits then yield instead of spinning. Default: spin briefly first. */
void mt_comm_set_oversubscribed(mt_comm *c, bool oversubscribed);

/* Agreement: every rank passes its own outcome; all return the same code: MT_OK if all were MT_OK, else the code of
 * the lowest rank that failed, and e (everywhere) holds that rank's message prefixed "rank R on HOST: ". Collective. */
int mt_comm_agree(mt_comm *c, int code, mt_err *e);

int mt_comm_barrier(mt_comm *c, mt_err *e);                                          /* collective */
int mt_comm_bcast(mt_comm *c, void *buf, size_t bytes, int root, mt_err *e);         /* collective */
/* Broadcasts a buffer of a length that only root knows; elsewhere its content is replaced. Collective. */
int mt_comm_bcast_buf(mt_comm *c, mt_buf *buf, int root, mt_err *e);
/* Rank r's bytes[r] bytes arrive at recv + offset[r] (on root only, or on all). bytes and offset have one entry a rank
 * and are the same everywhere. send and recv must not overlap. Collective. */
int mt_comm_gatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes, const size_t *offset, int root,
                    mt_err *e);
int mt_comm_allgatherv(mt_comm *c, const void *send, void *recv, const size_t *bytes, const size_t *offset,
                       mt_err *e);
/* Every rank sends send_bytes[r] bytes at send + send_offset[r] to rank r. Collective. */
int mt_comm_alltoallv(mt_comm *c, const void *send, const size_t *send_bytes, const size_t *send_offset, void *recv,
                      const size_t *recv_bytes, const size_t *recv_offset, mt_err *e);

/* The exact sum of 64-bit integers: rank r ends with out[0 … count[r]) = sum over ranks of their
 * in[offset[r] … offset[r] + count[r]). Sums wrap silently here: the caller bounds its addends. Counts and offsets in
 * elements, the same everywhere. Within a node through shared memory, between nodes through MPI. Collective. */
int mt_comm_reduce_scatter_i64(mt_comm *c, const int64_t *in, int64_t *out, const size_t *count,
                               const size_t *offset, mt_err *e);

typedef struct mt_comm_stats {
  uint64_t calls, sent_bytes, received_bytes; /* payload of this rank, shared memory included */
  uint64_t ns;                                /* time inside collectives, waiting included */
} mt_comm_stats;
mt_comm_stats mt_comm_get_stats(const mt_comm *c);

#endif
