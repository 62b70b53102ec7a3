/* Shared by cmd_trace.c, which runs, and trace_print.c, which shows. */
#ifndef MT_CMD_TRACE_H
#define MT_CMD_TRACE_H

#include "session.h"

/* The distribution after one processor. */
typedef struct trace_stage {
  const char *name;
  double temperature;
  size_t kept;
  double entropy; /* nats */
  size_t nucleus; /* fewest tokens that reach nucleus_p */
  double nucleus_p;
  size_t n_top;
  mt_candidate *top; /* [n_top], owned */
} trace_stage;

typedef struct trace_step {
  bool chosen;
  uint32_t id, position;
  double logprob, temperature;
  uint64_t total_ns, choice_ns, text_ns;
  trace_stage *stage; /* [n_stages], owned */
  size_t n_stages;
  mt_buf text;
  mt_model_stats *rank; /* [n_ranks] of this step */
  size_t n_keys;
  float *attention; /* [n_layers][n_heads][n_keys] or NULL */
  int rc;
} trace_step;

typedef struct trace_run {
  mt_session *s;
  mt_texts *texts;
  const mt_ids *prompt;
  uint64_t tokenize_ns;
  size_t number; /* of the step, from 0 */
  trace_step step;
  mt_ids ids; /* chosen so far */
  mt_finish why;
} trace_run;

/* The step as a table on standard output. */
int mt_trace_print_step(trace_run *t, mt_err *e);
/* The step as JSON; NULL when out of memory. The caller owns it. */
mt_json *mt_trace_step_json(trace_run *t);

#endif
