/* A plan on its way from rank 0 to the others, and what every rank does with it. */
#include <stdlib.h>

#include "engine_impl.h"

int mt_plan_share(mt_engine *g, mt_err *e) {
  if (mt_comm_size(g->comm) == 1) return MT_OK;
  bool root = mt_comm_rank(g->comm) == 0;
  int rc = MT_OK;
  if (root) rc = mt_wire_pack_step(&g->plan, &g->wire, e);
  if (!rc) rc = mt_comm_bcast_buf(g->comm, &g->wire, 0, e);
  if (root) {
    g->plan.step++;
    return rc;
  }
  uint64_t expected = g->plan.step;
  mt_step_plan_free(&g->plan);
  if (!rc) rc = mt_wire_unpack_step(g->wire.data, g->wire.len, &g->plan, e);
  if (!rc && g->plan.step != expected)
    rc = mt_err_set(e, MT_EPEER, "step plan %llu came where %llu was due",
                    (unsigned long long)g->plan.step, (unsigned long long)expected);
  g->plan.step = expected + 1;
  return rc;
}

/* Every rank takes the same blocks, since the order of commands and rows is the same. */
static int prepare_cache(mt_engine *g, mt_err *e) {
  mt_kv *kv = mt_model_get_kv(g->m);
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < g->plan.n_commands; i++) {
    const mt_cache_command *c = &g->plan.command[i];
    if (c->sequence >= g->max_seqs)
      rc = mt_err_set(e, MT_EFORMAT, "a step plan names sequence %u of %zu", c->sequence,
                      g->max_seqs);
    else if (c->op == MT_CACHE_FREE)
      mt_kv_drop(kv, c->sequence);
    else if (c->op == MT_CACHE_TRUNCATE)
      mt_kv_truncate(kv, c->sequence, c->length);
    else
      rc = mt_kv_fork(kv, c->source, c->sequence, c->length, e);
  }
  for (size_t i = 0; !rc && i < g->plan.n_rows; i++)
    rc = mt_kv_grow(kv, g->plan.sequence[i], g->plan.position[i] + 1u, e);
  return rc;
}

static int take_rows(mt_engine *g, mt_err *e) {
  if (g->plan.n_rows > g->max_rows)
    return mt_err_set(e, MT_EFORMAT, "a step plan of %zu rows, %zu at most", g->plan.n_rows,
                      g->max_rows);
  for (size_t i = 0; i < g->plan.n_rows; i++) {
    g->row[i] = (mt_row){g->plan.token[i], g->plan.position[i], g->plan.sequence[i],
                         g->plan.planned[i], g->plan.flags[i] & MT_ROW_LOGITS};
    if (g->row[i].token >= g->vocab || g->row[i].seq >= g->max_seqs)
      return mt_err_set(e, MT_EFORMAT, "a step plan names token %u, sequence %u", g->row[i].token,
                        g->row[i].seq);
  }
  return MT_OK;
}

int mt_plan_run(mt_engine *g, mt_logits_fn sink, mt_err *e) {
  int rc = take_rows(g, e);
  if (!rc) rc = prepare_cache(g, e);
  return rc ? rc : mt_model_forward(g->m, g->row, g->plan.n_rows, sink, g, e);
}

int mt_plan_gather_stats(mt_engine *g, mt_model_stats *stats, mt_err *e) {
  int n = mt_comm_size(g->comm);
  mt_model_stats mine = mt_model_get_stats(g->m);
  size_t *bytes = mt_malloc(2 * (size_t)n, sizeof *bytes);
  int rc = mt_comm_agree(g->comm,
                         bytes ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for statistics"), e);
  for (int r = 0; !rc && r < n; r++) {
    bytes[r] = sizeof mine;
    bytes[n + r] = (size_t)r * sizeof mine;
  }
  if (!rc) rc = mt_comm_gatherv(g->comm, &mine, stats, bytes, bytes + n, 0, e);
  mt_model_reset_stats(g->m);
  free(bytes);
  return rc;
}

/* What the ranks agreed upon rank 0 knows too, and says what comes next: want of memory for what
 * was only asked about ends nothing here. */
static int known(int rc) {
  return rc == MT_ENOMEM ? MT_OK : rc;
}

int mt_engine_follow(mt_engine *g, mt_err *e) {
  for (;;) {
    int rc = mt_plan_share(g, e);
    if (rc) return rc;
    switch (g->plan.kind) {
      case MT_STEP_RUN: rc = mt_plan_run(g, NULL, e); break;
      case MT_STEP_STATS: rc = known(mt_plan_gather_stats(g, NULL, e)); break;
      case MT_STEP_PROBE: rc = known(mt_model_probe_attention(g->m, g->plan.argument, e)); break;
      case MT_STEP_ATTENTION:
        rc = known(mt_model_attention(g->m, g->plan.argument, NULL, e));
        break;
      case MT_STEP_STOP: return MT_OK;
    }
    if (rc) return rc;
  }
}
