/* The thread team: persistent threads that wait for the next piece of work, spinning first, then
 * asleep on a futex. */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu_impl.h"

enum {
  SPIN_NS = 1000 * 1000, /* longer than what thread 0 does between two runs of a step */
  SPINS_PER_LOOK = 64,   /* at the clock */
  CROWDED_YIELDS = 8,
};

/* A counter that threads wait for, alone on its cache line. */
typedef struct gate {
  _Alignas(64) _Atomic uint32_t seq;
  _Atomic uint32_t sleepers;
} gate;

typedef struct member {
  mt_team *team;
  int thread;
} member;

/* What is left of a thread's share. */
typedef struct pile {
  _Alignas(64) _Atomic size_t next;
  size_t end, chunk;
} pile;

struct mt_team {
  gate work; /* another piece of work, or the end */
  gate done; /* all have finished it */
  gate barrier;
  _Alignas(64) _Atomic int running;
  _Alignas(64) _Atomic int at_barrier;
  int n, started;
  bool oversubscribed, stop;
  mt_team_fn fn;
  void *arg;
  const mt_cpu *cpu;
  int *core; /* NULL: threads are not bound */
  pthread_t *handle;
  member *member;
  pile *pile;          /* [MT_TEAM_DEALS][n] */
  _Atomic int unbound; /* threads that could not bind */
};

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

static uint32_t gate_read(gate *g) {
  return atomic_load_explicit(&g->seq, memory_order_acquire);
}

static bool spin(const mt_team *t, gate *g, uint32_t old) {
  if (t->oversubscribed) {
    for (int i = 0; i < CROWDED_YIELDS; i++) {
      if (gate_read(g) != old) return true;
      sched_yield();
    }
    return gate_read(g) != old;
  }
  uint64_t end = mt_clock_ns() + SPIN_NS;
  do {
    for (int i = 0; i < SPINS_PER_LOOK; i++) {
      if (gate_read(g) != old) return true;
      relax();
    }
  } while (mt_clock_ns() < end);
  return false;
}

/* Waits until the counter is no longer `old`. Announcing oneself, then looking again, against
 * raising, then looking for sleepers (all sequentially consistent): no wake-up is lost. */
static void gate_wait(const mt_team *t, gate *g, uint32_t old) {
  if (spin(t, g, old)) return;
  atomic_fetch_add(&g->sleepers, 1);
  while (atomic_load(&g->seq) == old)
    syscall(SYS_futex, &g->seq, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
  atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_raise(gate *g) {
  atomic_fetch_add(&g->seq, 1);
  if (atomic_load(&g->sleepers))
    syscall(SYS_futex, &g->seq, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Nearest-even rounding, subnormals kept: what a library left over would show in the bits. */
static void set_fp_control(void) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(0x1f80);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#endif
}

static void settle(mt_team *t, int thread) {
  set_fp_control();
  if (!t->core || !t->cpu || !t->cpu->here) return;
  hwloc_obj_t core = t->cpu->core[t->core[thread]];
  if (hwloc_set_cpubind(t->cpu->topology, core->cpuset, HWLOC_CPUBIND_THREAD))
    atomic_fetch_add(&t->unbound, 1);
}

static void *thread_main(void *arg) {
  member *m = arg;
  mt_team *t = m->team;
  settle(t, m->thread);
  for (uint32_t seen = 0;; seen++) {
    gate_wait(t, &t->work, seen);
    if (t->stop) return NULL;
    t->fn(t->arg, m->thread, t->n);
    if (atomic_fetch_sub(&t->running, 1) == 1) gate_raise(&t->done);
  }
}

void mt_team_run(mt_team *t, mt_team_fn fn, void *arg) {
  if (t->n == 1) {
    fn(arg, 0, 1);
    return;
  }
  uint32_t done = gate_read(&t->done);
  t->fn = fn;
  t->arg = arg;
  atomic_store(&t->running, t->n);
  gate_raise(&t->work);
  fn(arg, 0, t->n);
  if (atomic_fetch_sub(&t->running, 1) == 1)
    gate_raise(&t->done);
  else
    gate_wait(t, &t->done, done);
}

void mt_team_barrier(mt_team *t, int thread) {
  (void)thread; /* a central counter needs no names; the contract leaves room for a tree */
  if (t->n == 1) return;
  uint32_t turn = gate_read(&t->barrier);
  if (atomic_fetch_add(&t->at_barrier, 1) + 1 < t->n) {
    gate_wait(t, &t->barrier, turn);
    return;
  }
  atomic_store(&t->at_barrier, 0);
  gate_raise(&t->barrier);
}

static int copy_cores(mt_team *t, const mt_cpu *c, const int *core, mt_err *e) {
  if (!core || !c) return MT_OK;
  t->core = mt_calloc((size_t)t->n, sizeof *t->core);
  if (!t->core) return mt_err_set(e, MT_ENOMEM, "no memory for %d threads", t->n);
  for (int i = 0; i < t->n; i++) {
    if (core[i] < 0 || core[i] >= c->n_cores)
      return mt_err_set(e, MT_ERANGE, "thread %d: core %d of %d", i, core[i], c->n_cores);
    t->core[i] = core[i];
  }
  return MT_OK;
}

void mt_team_deal(mt_team *t, int slot, size_t n, size_t chunk) {
  for (int i = 0; i < t->n; i++) {
    pile *p = &t->pile[slot * t->n + i];
    size_t begin;
    mt_team_share(n, i, t->n, &begin, &p->end);
    p->chunk = chunk < p->end - begin ? chunk : p->end - begin; /* next cannot wrap around */
    if (!p->chunk) p->chunk = 1;
    atomic_store_explicit(&p->next, begin, memory_order_relaxed);
  }
}

bool mt_team_take(mt_team *t, int slot, int thread, size_t *begin, size_t *end) {
  for (int i = 0; i < t->n; i++) { /* its own pile first */
    pile *p = &t->pile[slot * t->n + (thread + i) % t->n];
    if (atomic_load_explicit(&p->next, memory_order_relaxed) >= p->end) continue;
    *begin = atomic_fetch_add_explicit(&p->next, p->chunk, memory_order_relaxed);
    if (*begin >= p->end) continue;
    *end = p->end - *begin < p->chunk ? p->end : *begin + p->chunk;
    return true;
  }
  return false;
}

static int start_threads(mt_team *t, mt_err *e) {
  t->handle = mt_calloc((size_t)t->n, sizeof *t->handle);
  t->member = mt_calloc((size_t)t->n, sizeof *t->member);
  if (!t->handle || !t->member) return mt_err_set(e, MT_ENOMEM, "no memory for %d threads", t->n);
  for (int i = 1; i < t->n; i++) {
    t->member[i] = (member){t, i};
    if (pthread_create(&t->handle[i], NULL, thread_main, &t->member[i]))
      return mt_err_set(e, MT_ENOMEM, "the system refuses thread %d of %d", i + 1, t->n);
    t->started++;
  }
  return MT_OK;
}

static void nothing(void *arg, int thread, int n_threads) {
  (void)arg, (void)thread, (void)n_threads;
}

int mt_team_new(mt_team **out, const mt_cpu *c, int n_threads, const int *core, bool oversubscribed,
                mt_err *e) {
  *out = NULL;
  if (n_threads < 1) return mt_err_set(e, MT_ERANGE, "%d threads", n_threads);
  mt_team *t = aligned_alloc(_Alignof(mt_team), sizeof *t);
  if (!t) return mt_err_set(e, MT_ENOMEM, "no memory for the threads");
  *t = (mt_team){.n = n_threads, .oversubscribed = oversubscribed, .cpu = c};
  if (c && n_threads > c->n_cores)
    mt_log(MT_LOG_WARN,
           "%d threads, but this process may use %d cores only (look at taskset, cgroup, or the "
           "binding of mpirun and srun: --bind-to none, --cpu-bind=none)",
           n_threads, c->n_cores);
  t->pile = aligned_alloc(_Alignof(pile), MT_TEAM_DEALS * (size_t)n_threads * sizeof *t->pile);
  int rc = t->pile ? copy_cores(t, c, core, e)
                   : mt_err_set(e, MT_ENOMEM, "no memory for %d threads", n_threads);
  if (!rc) settle(t, 0);
  if (!rc) rc = start_threads(t, e);
  if (rc) {
    mt_team_free(t);
    return rc;
  }
  mt_team_run(t, nothing, NULL); /* after it, all have tried to bind */
  int unbound = atomic_load(&t->unbound);
  if (unbound)
    mt_log(MT_LOG_WARN, "%d of %d threads could not be bound to their cores", unbound, t->n);
  *out = t;
  return MT_OK;
}

void mt_team_free(mt_team *t) {
  if (!t) return;
  t->stop = true;
  gate_raise(&t->work);
  for (int i = 1; i <= t->started; i++) pthread_join(t->handle[i], NULL);
  free(t->pile);
  free(t->core);
  free(t->handle);
  free(t->member);
  free(t);
}

int mt_team_size(const mt_team *t) {
  return t->n;
}

void mt_team_share(size_t n, int thread, int n_threads, size_t *begin, size_t *end) {
  size_t parts = (size_t)n_threads, i = (size_t)thread, share = n / parts, extra = n % parts;
  *begin = share * i + (i < extra ? i : extra);
  *end = *begin + share + (i < extra);
}
