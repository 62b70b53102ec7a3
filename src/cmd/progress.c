#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What is loaded at once needs no line; what changes too often cannot be read. */
enum { QUICK_NS = 200 * 1000000, CHANGE_NS = 100 * 1000000, PARTS = 4 };
static const uint64_t SMALL_BYTES = 50000000;

void mt_progress_begin(mt_progress *p, int n_ranks) {
  /* mpirun's ranks write into a pipe: the launcher knows what is at its end. */
  bool terminal = isatty(STDERR_FILENO) || getenv("MUTIRAO_STDERR_TERMINAL");
  *p = (mt_progress){.n_ranks = n_ranks, .terminal = terminal, .next_part = 1};
}

static void format(const mt_progress *p, uint64_t done, uint64_t total, uint64_t now,
                   char line[160]) {
  double s = (double)(now - p->start_ns) * 1e-9, gb = (double)done * 1e-9;
  double speed = s > 0 ? gb / s : 0, left = done ? s * (double)(total - done) / (double)done : 0;
  int n = snprintf(line, 160, "loading %.2f of %.2f GB", gb, (double)total * 1e-9);
  if (p->n_ranks > 1) n += snprintf(line + n, 160 - (size_t)n, " (rank 0 of %d)", p->n_ranks);
  if (done) snprintf(line + n, 160 - (size_t)n, ", %.2f GB/s, %.0f s left", speed, left);
}

void mt_progress_tell(void *progress, uint64_t done, uint64_t total) {
  mt_progress *p = progress;
  uint64_t now = mt_clock_ns();
  char line[160];
  if (!p->start_ns || done < p->done) { /* what was read was of no use: it starts anew */
    p->start_ns = now;
    p->next_ns = total < SMALL_BYTES ? now + QUICK_NS : now;
    p->next_part = 1;
  }
  p->done = done;
  bool due = p->terminal
                 ? now >= p->next_ns && mt_log_level() >= MT_LOG_WARN
                 : total >= SMALL_BYTES && done < total && done >= total / PARTS * p->next_part;
  if (!due) return;
  format(p, done, total, now, line);
  if (!p->terminal) {
    mt_log(MT_LOG_INFO, "%s", line);
    p->next_part = (unsigned)(done / (total / PARTS)) + 1;
    return;
  }
  fprintf(stderr, "\r%s\033[K", line);
  fflush(stderr);
  p->shown = true;
  p->next_ns = now + CHANGE_NS;
}

void mt_progress_end(mt_progress *p) {
  if (!p->shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  p->shown = false;
}
