/* Shared inside module engine: the engine, its sequences, and a step as plan. */
#ifndef MT_ENGINE_IMPL_H
#define MT_ENGINE_IMPL_H

#include "mutirao/engine.h"

typedef enum mt_plan_kind {
  MT_PLAN_ROWS,      /* compute rows */
  MT_PLAN_STOP,      /* leave */
  MT_PLAN_STATS,     /* send statistics, reset them */
  MT_PLAN_PROBE,     /* argument 0 or 1: attention probe off or on */
  MT_PLAN_ATTENTION, /* argument: keys; send what the probe kept */
  MT_PLAN_KINDS
} mt_plan_kind;

/* What every rank does next. Arrays are the engine's and reused. */
typedef struct mt_plan {
  mt_plan_kind kind;
  uint64_t argument;
  uint64_t number;   /* of the plan, from 0: a follower that missed one says so */
  uint32_t *drop;    /* [n_drop] sequences whose cache is given up before the rows */
  size_t n_drop;
  mt_row *row;       /* [n_rows] */
  size_t n_rows;
} mt_plan;

typedef struct sequence {
  bool used, finished;
  mt_request r;      /* ids and eos are copies */
  uint32_t *token;   /* [n_ids + max_tokens] prompt, then output */
  size_t n_tokens, n_cached, n_out;
  size_t blocks;     /* reserved for it */
  size_t step_rows;  /* rows in the step under way */
  mt_sampler *sampler;
  struct sequence *next; /* in the queue */
} sequence;

struct mt_engine {
  mt_model *m;
  mt_comm *comm;
  size_t chunk, max_rows, max_seqs, vocab;
  size_t blocks_total, blocks_reserved;
  sequence *seq;           /* [max_seqs], rank 0 */
  sequence *queue, **tail; /* not admitted yet, in order */
  mt_sampler *seen;        /* owns the scratch memory that samplers share */
  mt_plan plan;
  mt_buf wire;
  bool broken;             /* a step failed on all ranks: nobody follows any more */
  int sink_rc;             /* rank 0's own failure inside a step */
  mt_err *sink_err;
  mt_engine_counts counts;
};

/* Sends (rank 0) or receives (others) the plan in g->plan. Collective. plan.c */
int mt_plan_share(mt_engine *g, mt_err *e);
/* Drops and grows caches and runs the rows. Collective. */
int mt_plan_run_rows(mt_engine *g, mt_logits_fn sink, mt_err *e);
int mt_plan_gather_stats(mt_engine *g, mt_model_stats *stats, mt_err *e);

#endif
