/* What a run took, for people. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int mt_report_gather(mt_report *r, mt_session *s, mt_err *e) {
  r->n_ranks = mt_comm_size(s->comm);
  r->counts = mt_engine_get_counts(s->engine);
  r->rank = mt_calloc((size_t)r->n_ranks, sizeof *r->rank);
  if (!r->rank) return mt_err_set(e, MT_ENOMEM, "no memory for the statistics");
  return mt_engine_stats(s->engine, r->rank, e);
}

void mt_report_free(mt_report *r) {
  free(r->rank);
  r->rank = NULL;
}

static void format_bytes(double n, char out[32]) {
  static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  int u = 0;
  while (n >= 1000 && u < 5) {
    n /= 1000;
    u++;
  }
  snprintf(out, 32, u ? "%.2f %s" : "%.0f %s", n, unit[u]);
}

/* mpirun carries standard output and standard error through two pipes of its own: the text gets a
 * head start, so that a terminal shows its end before what was counted. */
static void let_text_pass(void) {
  const struct timespec pause = {.tv_nsec = 30000000};
  nanosleep(&pause, NULL);
}

void mt_report_log(const mt_report *r) {
  if (mt_log_level() < MT_LOG_WARN) return;
  if (r->n_ranks > 1) let_text_pass();
  double decode_s = (double)r->decode_ns * 1e-9;
  fprintf(stderr, "%llu prompt tokens, %llu output tokens, TTFT %.3f s",
          (unsigned long long)r->prompt_tokens, (unsigned long long)r->output_tokens,
          (double)r->ttft_ns * 1e-9);
  if (r->decode_tokens && decode_s > 0)
    fprintf(stderr, ", %.2f tokens/s", (double)r->decode_tokens / decode_s);
  uint64_t weights = 0, kv = 0, most_w = 0, most_kv = 0;
  for (int i = 0; i < r->n_ranks; i++) {
    weights += r->rank[i].weight_bytes;
    kv += r->rank[i].kv_bytes;
    if (r->rank[i].weight_bytes > most_w) most_w = r->rank[i].weight_bytes;
    if (r->rank[i].kv_bytes > most_kv) most_kv = r->rank[i].kv_bytes;
  }
  char w[32], k[32], mw[32], mk[32];
  format_bytes((double)weights, w);
  format_bytes((double)kv, k);
  format_bytes((double)most_w, mw);
  format_bytes((double)most_kv, mk);
  fprintf(stderr, "\n%llu passes through the layers on %d rank%s",
          (unsigned long long)r->counts.passes, r->n_ranks, r->n_ranks > 1 ? "s" : "");
  if (r->rank[0].tiled_steps)
    fprintf(stderr, ", %llu of them in two tiles", (unsigned long long)r->rank[0].tiled_steps);
  fprintf(stderr, "; read: weights %s, KV cache %s", w, k);
  if (r->n_ranks > 1) fprintf(stderr, " (a rank at most %s and %s)", mw, mk);
  fputc('\n', stderr);
}
