/* Plain f32 sums after O and down, in place of the exact ones, to measure what these cost
 * (bench/measure.py). Only a build with MT_PLAIN_SUMS calls it. The same kernels multiply, into
 * floats; the ranks of a node add them through shared memory, in the order of ranks: short sums
 * each for itself after one barrier, long ones in pieces. */
#include <string.h>

#include "forward.h"

enum {
  SHORT_MOST = 16384, /* elements that every rank adds for itself */
  BLOCK = 4096        /* elements added at a time, so that they stay in the first cache */
};

static mt_comm_window *window; /* of the one model that a benchmark loads, to its end */
static unsigned turn;

typedef struct plain_job {
  mt_step *s;
  const mt_matrix *w;
  const mt_act *act;
  size_t begin, end;
  float *to;
} plain_job;

/* A rank's segment: two products, written in turn so that the others may still read the last one,
 * and (the leader's is used) the board of long sums. */
static float *area(const mt_model *m, int member, unsigned i) {
  return (float *)mt_comm_window_at(window, member) + i * m->opt.max_rows * m->cfg.hidden;
}

static int make_window(mt_model *m, mt_err *e) {
  mt_log(MT_LOG_WARN, "plain f32 sums: this program is for make bench only");
  if (mt_comm_groups(m->comm) > 1)
    return mt_err_set(e, MT_EUNSUPPORTED, "plain f32 sums are for ranks that share memory");
  return mt_comm_window_new(&window, m->comm, 3 * m->opt.max_rows * m->cfg.hidden * sizeof(float),
                            e);
}

static void product_thread(void *arg, int thread, int n_threads) {
  const plain_job *j = arg;
  size_t begin, end;
  mt_team_share(j->w->n_panels, thread, n_threads, &begin, &end);
  if (begin < end)
    j->s->m->kn->gemm(j->w, begin, end, j->act, 0, j->s->n, j->to, j->s->m->cfg.hidden);
}

static void add_thread(void *arg, int thread, int n_threads) {
  const plain_job *j = arg;
  const mt_model *m = j->s->m;
  size_t begin, end;
  mt_team_share(j->end - j->begin, thread, n_threads, &begin, &end);
  for (size_t at = j->begin + begin, n; at < j->begin + end; at += n) {
    n = j->begin + end - at < BLOCK ? j->begin + end - at : BLOCK;
    memcpy(j->to + at, area(m, 0, turn) + at, n * sizeof(float));
    for (int r = 1; r < mt_comm_group_size(m->comm); r++)
      m->kn->add(j->to + at, area(m, r, turn) + at, n);
  }
}

static void copy_thread(void *arg, int thread, int n_threads) {
  const plain_job *j = arg;
  size_t begin, end;
  mt_team_share(j->end, thread, n_threads, &begin, &end);
  memcpy(j->s->b->sum + begin, j->to + begin, (end - begin) * sizeof(float));
}

/* What the ranks have written, into sum. */
static int exchange(plain_job *j, mt_err *e) {
  mt_model *m = j->s->m;
  size_t n = j->s->n * m->cfg.hidden;
  bool pieces = n > SHORT_MOST;
  int32_t unused;
  int rc = mt_comm_group_meet(m->comm, 0, &unused, e);
  if (rc) return rc;
  j->to = pieces ? area(m, 0, 2) : j->s->b->sum;
  j->end = n;
  if (pieces)
    mt_team_share(n, mt_comm_group_rank(m->comm), mt_comm_group_size(m->comm), &j->begin, &j->end);
  if (pieces)
    mt_team_run(m->team, add_thread, j);
  else
    add_thread(j, 0, 1);
  turn ^= 1;
  if (!pieces) return MT_OK;
  rc = mt_comm_group_meet(m->comm, 0, &unused, e);
  j->end = n;
  if (!rc) mt_team_run(m->team, copy_thread, j);
  return rc;
}

int mt_plain_sum(mt_step *s, const mt_matrix *w, const mt_act *act, const char *what, mt_err *e) {
  mt_model *m = s->m;
  int rc = window ? MT_OK : make_window(m, e);
  if (rc) return rc;
  if (s->failed) return mt_err_set(e, MT_ENUMERIC, "layer %u, %s: not a number", s->l, what);
  bool alone = mt_comm_size(m->comm) == 1;
  plain_job j = {.s = s,
                 .w = w,
                 .act = act,
                 .to = alone ? s->b->sum : area(m, mt_comm_group_rank(m->comm), turn)};
  mt_team_run(m->team, product_thread, &j);
  return alone ? MT_OK : exchange(&j, e);
}
