/* cpu: what this machine is (hwloc, cgroup limits), the binding plan, the pinned thread team.
 * Layer 1. Nothing here is collective; the caller says how many ranks share the node and which of
 * them it is. */
#ifndef MUTIRAO_CPU_H
#define MUTIRAO_CPU_H

#include "mutirao/base.h"

typedef struct mt_cpu mt_cpu;

/* Reads the topology that this process may use, or, where `xml` is not NULL, a captured one from
 * that file (hwloc XML), or, where xml starts with "synthetic:", hwloc's synthetic description
 * after it. What may be used is the cgroup's cpuset, cut to the process's own mask (taskset). Two
 * launchers set a mask for each rank: that of Open MPI is undone, since ranks bind their threads
 * themselves; that of Slurm (srun --cpu-bind) is kept and is the rank's own, so that the plan deals
 * it to nobody else. */
int mt_cpu_open(mt_cpu **out, const char *xml, mt_err *e);
/* The same, reading cgroup and memory files below `root` instead of "/" (NULL: "/"; limits apply to
 * captured topologies only where root is given), cut to the CPUs of `mask` (a list like "0-3,8";
 * NULL: none). For tests. */
int mt_cpu_open_at(mt_cpu **out, const char *xml, const char *root, const char *mask, mt_err *e);
void mt_cpu_close(mt_cpu *c); /* NULL allowed */

int mt_cpu_cores(const mt_cpu *c);        /* physical cores that we may use; at least 1 */
int mt_cpu_numa_domains(const mt_cpu *c); /* with at least one such core; at least 1 */
/* CPU time that the cgroup allows, in cores, rounded up; equals mt_cpu_cores where there is no
 * quota below it. */
int mt_cpu_quota_cores(const mt_cpu *c);
uint64_t mt_cpu_memory_bytes(
    const mt_cpu *c); /* the least of physical memory and the cgroup's limit */
uint64_t mt_cpu_memory_available_bytes(
    const mt_cpu *c); /* what may still be taken now, under the same limits */
uint64_t mt_cpu_cache_bytes(const mt_cpu *c, int level); /* 1 (data), 2, 3; 0 where unknown */
const char *mt_cpu_name(const mt_cpu *c); /* model name as the system gives it, never NULL */

/* True if this CPU has what every build needs (x86-64-v3, or aarch64); else writes one clear
 * sentence into e. */
bool mt_cpu_baseline_ok(mt_err *e);

/* The binding plan, pure arithmetic over the topology: core of each of n_threads threads of
 * node-local rank `local_rank` of `local_ranks` (each with as many threads). Ranks get whole NUMA
 * domains where there are enough of them, else contiguous runs of cores inside one domain as evenly
 * as possible; threads go to distinct cores, spread over the rank's run, and share cores only when
 * there are more threads than cores. core[n_threads] receives logical core numbers (0 …
 * mt_cpu_cores − 1, counted domain by domain). Returns how many of these threads share a core with
 * another thread of this node (0: none; then spinning is allowed). */
int mt_cpu_plan(const mt_cpu *c, int local_rank, int local_ranks, int n_threads, int *core);
/* NUMA domain (logical number among the usable ones) of a core of the plan. */
int mt_cpu_core_numa(const mt_cpu *c, int core);
/* Default threads of a rank: its share of the cores (no hyper-threads), at least 1, within the
 * cgroup's quota. */
int mt_cpu_default_threads(const mt_cpu *c, int local_rank, int local_ranks);

/* One persistent team per rank. Thread 0 is the caller. Every thread binds itself to its core of
 * the plan (skipped where `core` is NULL, or c is NULL or captured) and sets its floating-point
 * control word (nearest-even, no FTZ/DAZ). Waiting threads spin briefly, then sleep on a futex;
 * with `oversubscribed` they do not spin. More threads than cores that the process may use are
 * warned of. */
typedef struct mt_team mt_team;
int mt_team_new(mt_team **out, const mt_cpu *c, int n_threads, const int *core, bool oversubscribed,
                mt_err *e);
void mt_team_free(mt_team *t); /* NULL allowed */
int mt_team_size(const mt_team *t);
/* Runs fn(arg, thread, n_threads) on every thread of the team and returns when all have finished.
 * Not re-entrant. */
typedef void (*mt_team_fn)(void *arg, int thread, int n_threads);
void mt_team_run(mt_team *t, mt_team_fn fn, void *arg);
/* Inside fn: waits for all threads of the team. */
void mt_team_barrier(mt_team *t, int thread);
/* [*begin, *end) of `n` items for `thread` of `n_threads`: contiguous, as even as possible. */
void mt_team_share(size_t n, int thread, int n_threads, size_t *begin, size_t *end);

/* Work whose pieces take unequal time: n items are dealt as mt_team_share does, and each thread
 * takes its own in chunks (whole multiples from the start of the share on, so that the set of
 * chunks does not depend on who takes them), then what others have left. mt_team_deal is called by
 * one thread while no other takes from that slot (before mt_team_run, say); mt_team_take by any
 * thread inside fn: false when nothing is left. */
enum { MT_TEAM_DEALS = 4 };
void mt_team_deal(mt_team *t, int slot, size_t n, size_t chunk);
bool mt_team_take(mt_team *t, int slot, int thread, size_t *begin, size_t *end);

#endif
