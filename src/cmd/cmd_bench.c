/* bench: prefill and decode tokens/s beside what this machine's memory and arithmetic give in the
 * same run; by batch, by shape; and the exchange between ranks alone. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "bench_collectives.h"
#include "cmd.h"

/* ---- tokens a second --------------------------------------------------------------------- */

/* Limits before and after the runs, so that they are those of the same minutes. Collective. */
static int bench_model(mt_session *s, mt_bench_plan *p, mt_err *e) {
  mt_limit_rates limits = {0};
  int own = MT_OK, rc = mt_session_load(s, MT_OK, mt_bench_plan_room(p, s->opt), e);
  if (!rc) rc = mt_limits_open(&limits, s, e);
  if (!rc) rc = mt_limits_measure(&limits, s, e);
  if (!rc) {
    if (s->root) own = mt_bench_plan_run(p, s, e);
    rc = mt_session_follow(s, own, e);
  }
  if (!rc) rc = mt_limits_measure(&limits, s, e);
  if (!rc) rc = mt_limits_finish(&limits, s, e);
  if (!rc) rc = mt_comm_agree(s->comm, s->root ? mt_bench_plan_print(p, s, &limits, e) : MT_OK, e);
  mt_limits_close(&limits);
  return rc;
}

int mt_cmd_bench(const mt_opt *opt) {
  mt_err e = {0};
  mt_session s;
  mt_bench_plan p = {0};
  int rc = mt_session_open(&s, opt, &e);
  if (!rc && mt_opt_flag(opt, "collectives"))
    return mt_session_close(&s, mt_bench_collectives(&s, &e), &e);
  if (!rc) rc = mt_bench_plan_open(&p, opt, &e); /* the same on every rank */
  if (!rc) rc = bench_model(&s, &p, &e);
  mt_bench_plan_close(&p);
  return mt_session_close(&s, rc, &e);
}
