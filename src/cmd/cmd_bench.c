/* bench: prefill and decode tokens/s beside what this machine's memory and arithmetic give in the
 * same run; by batch, by shape; and the exchange between ranks alone. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "cmd.h"
#include "mutirao/reduce.h"

/* ---- the exchange alone ------------------------------------------------------------------ */

/* Times the exact all-reduce of one row of each width. Collective. */
static int bench_collectives(mt_session *s, mt_err *e) {
  enum { WIDEST = 16384, TIMES = 200 };
  mt_reduce *r = NULL;
  float *out = mt_malloc(WIDEST, sizeof *out);
  int rc = mt_comm_agree(s->comm, out ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for a row"), e);
  mt_json *list = s->root ? mt_json_new_array() : NULL;
  for (size_t width = 512; !rc && width <= WIDEST; width *= 2) {
    rc = mt_reduce_new(&r, s->comm, s->team, 1, width, e);
    double us[TIMES];
    int exp = -32;
    for (int i = 0; !rc && i < TIMES; i++) {
      int64_t *acc = mt_reduce_acc(r);
      for (size_t k = 0; k < width; k++) acc[k] = (int64_t)k;
      rc = mt_comm_barrier(s->comm, e);
      uint64_t t = mt_clock_ns();
      if (!rc) rc = mt_reduce_sum(r, 1, &exp, 0, "bench", out, e);
      us[i] = (double)(mt_clock_ns() - t) * 1e-3;
    }
    mt_reduce_free(r);
    r = NULL;
    if (rc || !s->root) continue;
    double m = mt_bench_median(us, TIMES);
    mt_json *one = mt_json_new_object();
    if (!one || mt_json_set(one, "values", mt_json_new_int((int64_t)width)) ||
        mt_json_set(one, "microseconds", mt_json_new_real(m)) || mt_json_append(list, one))
      rc = mt_err_set(e, MT_ENOMEM, "no memory for JSON");
    if (!mt_opt_flag(s->opt, "json"))
      printf("exact all-reduce of %5zu values: %8.2f µs\n", width, m);
  }
  free(out);
  if (s->root && !rc && mt_opt_flag(s->opt, "json")) {
    mt_json *j = mt_json_new_object();
    if (!j || mt_json_set(j, "collectives", list))
      return mt_err_set(e, MT_ENOMEM, "no memory for JSON");
    return mt_print_json(j, e);
  }
  mt_json_free(list);
  return rc;
}

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
    return mt_session_close(&s, bench_collectives(&s, &e), &e);
  if (!rc) rc = mt_bench_plan_open(&p, opt, &e); /* the same on every rank */
  if (!rc) rc = bench_model(&s, &p, &e);
  mt_bench_plan_close(&p);
  return mt_session_close(&s, rc, &e);
}
