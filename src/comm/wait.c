/* How a rank waits: it spins for as long as a step may take, then sleeps; now and then it looks
 * whether those that it waits for still live. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm_impl.h"

enum {
  BRIEF_TURNS = 100,            /* looks before the first look at the clock */
  SPIN_NS = 50 * 1000,          /* then yield */
  STEP_NS = 3 * 1000 * 1000,    /* then sleep */
  CHECK_NS = 200 * 1000 * 1000, /* between looks at the others */
  CROWDED_YIELDS = 3,           /* when oversubscribed: yields before the first sleep */
};

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

char mt_process_state(int pid, uint64_t *start_ticks) {
  char path[40], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : '?';
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return n < 0 && errno == ESRCH ? 0 : '?';
  text[n] = 0;
  char *p = strrchr(text, ')'); /* the name before it may hold anything */
  if (!p || !p[1] || !p[2]) return '?';
  char state = p[2];
  char *at = p + 3;
  for (int field = 4; field < 22 && at; field++) at = strchr(at + 1, ' ');
  uint64_t ticks = at ? strtoull(at + 1, NULL, 10) : 0;
  if (*start_ticks == 0) *start_ticks = ticks;
  if (state == 'Z' || state == 'X' || ticks != *start_ticks) return 0;
  return state;
}

mt_wait mt_wait_begin(const mt_comm *c, bool idle) {
  uint64_t now = mt_clock_ns();
  return (mt_wait){.start_ns = now,
                   .next_check_ns = now + CHECK_NS,
                   .next_warn_ns = c->watchdog_ns ? now + c->watchdog_ns : UINT64_MAX,
                   .idle = idle};
}

/* Looks at everybody waited for. */
static int look(mt_comm *c, mt_wait *w, uint64_t now, mt_missing_fn missing) {
  if (getppid() != c->parent)
    return mt_err_set(&c->fault, MT_EPEER, "the process that started this rank has gone (in %s)",
                      c->what);
  bool stopped = false;
  for (int i = 0, r; (r = missing(c, i)) >= 0; i++) {
    const mt_peer *p = &c->peer[r];
    if (!p->here) continue;
    uint64_t ticks = p->start_ticks;
    char state = mt_process_state(p->pid, &ticks);
    if (!state)
      return mt_err_set(&c->fault, MT_EPEER, "rank %d on %s has gone (process %d ended), in %s", r,
                        p->host, (int)p->pid, c->what);
    if (i == 0) stopped = state == 'T' || state == 't';
  }
  int r = missing(c, 0);
  if (r < 0) return MT_OK;
  unsigned long long seconds = (now - w->start_ns) / 1000000000u;
  const char *host = c->peer[r].host[0] ? c->peer[r].host : "an unknown host";
  if (c->deadline_ns && now > c->deadline_ns)
    return mt_err_set(&c->fault, MT_EPEER, "rank %d on %s did not answer in %llu s", r, host,
                      seconds);
  if (w->idle && !stopped) return MT_OK;
  if (c->watchdog_abort_ns && now - w->start_ns >= c->watchdog_abort_ns)
    return mt_err_set(&c->fault, MT_EPEER, "rank %d on %s did not answer in %llu s, in %s%s", r,
                      host, seconds, c->what, stopped ? "; its process is stopped" : "");
  if (now >= w->next_warn_ns) {
    mt_log(MT_LOG_WARN, "waiting for rank %d on %s since %llu s, in %s%s", r, host, seconds,
           c->what, stopped ? "; its process is stopped" : "");
    w->next_warn_ns = now + c->watchdog_ns;
  }
  return MT_OK;
}

int mt_wait_turn(mt_comm *c, mt_wait *w, mt_missing_fn missing) {
  uint64_t now = mt_clock_ns(), waited = now - w->start_ns;
  if (now >= w->next_check_ns) {
    w->next_check_ns = now + CHECK_NS;
    int rc = look(c, w, now, missing);
    if (rc) return rc;
  }
  if (c->oversubscribed ? w->turns++ >= CROWDED_YIELDS : waited >= STEP_NS) return 1;
  if (c->oversubscribed || waited >= SPIN_NS)
    sched_yield();
  else
    relax();
  return 0;
}

/* Waits, CHECK_NS at most, while *at is `seen`. The futex is not a private one: processes share it.
 */
static void futex_wait(_Atomic uint32_t *at, uint32_t seen) {
  struct timespec t = {.tv_nsec = CHECK_NS};
  syscall(SYS_futex, at, FUTEX_WAIT, seen, &t, NULL, 0);
}

static bool reached(uint32_t v, uint32_t want) {
  return (int32_t)(v - want) >= 0;
}

/* The order sleepers++, read seq here and write seq, read sleepers in mt_flag_set (all sequentially
 * consistent) is what no wake-up can slip through. */
int mt_flag_wait(mt_comm *c, mt_flag *f, uint32_t want, bool idle, mt_missing_fn missing) {
  for (int i = 0; i < (c->oversubscribed ? 1 : BRIEF_TURNS); i++) {
    if (reached(atomic_load_explicit(&f->seq, memory_order_acquire), want)) return MT_OK;
    relax();
  }
  mt_wait w = mt_wait_begin(c, idle);
  while (!reached(atomic_load_explicit(&f->seq, memory_order_acquire), want)) {
    int rc = mt_wait_turn(c, &w, missing);
    if (rc < 0) return rc;
    if (!rc) continue;
    atomic_fetch_add(&f->sleepers, 1);
    uint32_t seen = atomic_load(&f->seq);
    if (!reached(seen, want)) futex_wait(&f->seq, seen);
    atomic_fetch_sub(&f->sleepers, 1);
  }
  return MT_OK;
}

void mt_flag_set(mt_flag *f, uint32_t value) {
  atomic_store(&f->seq, value);
  if (atomic_load(&f->sleepers)) syscall(SYS_futex, &f->seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
