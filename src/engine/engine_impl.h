/* Shared inside module engine: the engine, its sequences, and how a plan is carried out. */
#ifndef MT_ENGINE_IMPL_H
#define MT_ENGINE_IMPL_H

#include "mutirao/engine.h"
#include "mutirao/wire.h"

typedef struct sequence {
  bool used, finished;
  mt_request r;    /* ids and eos are copies */
  uint32_t *token; /* [n_ids + max_tokens] prompt, then output */
  size_t n_tokens, n_cached, n_out;
  size_t blocks;    /* reserved for it */
  size_t step_rows; /* rows in the step under way */
  bool step_chose;  /* the step under way chose a token: its last row was there */
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
  mt_step_plan plan; /* what every rank does next; rank 0's arrays have room for a full step */
  mt_row *row;       /* [max_rows] the plan's rows as the model takes them */
  mt_buf wire;
  bool broken; /* a step failed on all ranks: nobody follows any more */
  int sink_rc; /* rank 0's own failure inside a step */
  mt_err *sink_err;
  mt_engine_counts counts;
};

/* plan.c. Sends (rank 0) or receives (others) g->plan. Collective. */
int mt_plan_share(mt_engine *g, mt_err *e);
/* Carries out a plan of kind RUN: cache commands, room for the rows, the rows. Collective. */
int mt_plan_run(mt_engine *g, mt_logits_fn sink, mt_err *e);
/* Statistics of all ranks to rank 0 (stats [n_ranks], NULL elsewhere), and new ones from here.
 * Collective. */
int mt_plan_gather_stats(mt_engine *g, mt_model_stats *stats, mt_err *e);

#endif
