/* engine: the scheduler and the decode loop. Layer 5. Rank 0 leads: it decides each step and sends
 * it as a plan; the other ranks follow. A step is a mix of decode rows and prefill chunks of
 * several sequences; what a sequence gets does not depend on who else is in the step (DESIGN
 * section 1). */
#ifndef MUTIRAO_ENGINE_H
#define MUTIRAO_ENGINE_H

#include "mutirao/base.h"
#include "mutirao/model.h"
#include "mutirao/sample.h"
#include "mutirao/token.h"

typedef struct mt_engine mt_engine;

typedef enum mt_finish {
  MT_FINISH_NONE,
  MT_FINISH_LENGTH, /* max_tokens reached */
  MT_FINISH_EOS,    /* the model ended its text; the token is not part of it */
  MT_FINISH_STOP    /* the caller's on_token asked to stop: a stop string, or the user */
} mt_finish;
const char *mt_finish_name(mt_finish f); /* "length", "eos", "stop", "" */

typedef struct mt_token_event {
  uint32_t id;
  size_t index;        /* of this token in the output, from 0 */
  uint32_t position;   /* in the sequence */
  double logprob;      /* under the softmax of the raw logits; NaN where none was asked for */
  const float *logits; /* [vocab], valid during the call */
} mt_token_event;

typedef struct mt_request {
  const uint32_t *ids;     /* [n_ids] the prompt; copied */
  size_t n_ids;            /* at least 1 */
  size_t max_tokens;       /* 0: only the prompt's logits are wanted */
  size_t planned_tokens;   /* in all, for ropes that depend on it; 0: n_ids + max_tokens. Give it
                              where max_tokens comes from what memory allows here */
  mt_sample_params sample; /* bias list is the caller's until the request is finished */
  const uint32_t *eos;     /* [n_eos] ids that end the text; copied; none: goes on to max_tokens */
  size_t n_eos;
  bool logprobs;    /* events say log-probabilities: one more pass over the logits for each token */
  bool no_kv_cache; /* recompute the whole sequence for each token: the same bytes, for teaching and
                       tests */
  /* Logits of every prompt position from prompt_from on are reported (positions in ascending
   * order). NULL: none. A non-zero answer is an error that ends the run. */
  int (*on_prompt)(void *arg, size_t position, const float *logits);
  size_t prompt_from;
  /* Each token as it is chosen, before it counts as output; returning non-zero finishes with
   * MT_FINISH_STOP. */
  int (*on_token)(void *arg, const mt_token_event *ev);
  /* Replaces the sampler's choice where not NULL (trace reports the stages through it). logprob is
   * NULL where none was asked for. */
  int (*choose)(void *arg, mt_sampler *s, const mt_sample_params *p, const float *logits,
                uint64_t position, uint32_t *id, double *logprob, mt_err *e);
  void (*on_finish)(void *arg, mt_finish why);
  void *arg;
} mt_request;

typedef struct mt_engine_counts {
  uint64_t prompt_tokens, output_tokens;
  uint64_t passes;                /* steps: passes through the layers */
  uint64_t prefill_ns, decode_ns; /* of steps with, and without, prompt rows */
} mt_engine_counts;

/* `chunk`: most prompt rows of a step (0: the model's max_rows). Not collective. The model must
 * outlive it. */
int mt_engine_new(mt_engine **out, mt_model *m, size_t chunk, mt_err *e);
void mt_engine_free(mt_engine *g);

/* Rank 0. Refuses up front (MT_ERANGE, with both counts) what can never fit the cache or the
 * model's context, and (MT_EINVAL) an empty prompt or an id outside the vocabulary. */
int mt_engine_submit(mt_engine *g, const mt_request *r, mt_err *e);
/* Rank 0: steps until every request is finished. An error ends all of them. Collective with
 * mt_engine_follow. */
int mt_engine_run(mt_engine *g, mt_err *e);
/* Rank 0: one step; *busy says whether requests are left after it. Without requests nothing is
 * sent. */
int mt_engine_step(mt_engine *g, bool *busy, mt_err *e);
/* Rank 0: releases the followers, who return. Call it once, also after a failed run. */
int mt_engine_stop(mt_engine *g, mt_err *e);
/* Other ranks: does as the plans say until the stop. The failure of a step is every rank's and is
 * returned; want of memory on one of them for statistics, probe or attention is returned by rank
 * 0's call alone, after which work may go on. */
int mt_engine_follow(mt_engine *g, mt_err *e);

/* Rank 0: statistics of every rank [n_ranks] since the last reset, and reset. Collective with
 * mt_engine_follow. */
int mt_engine_stats(mt_engine *g, mt_model_stats *stats, mt_err *e);
/* Rank 0: switches the attention probe on all ranks; and its weights (mt_model_attention). */
int mt_engine_probe(mt_engine *g, bool on, mt_err *e);
int mt_engine_attention(mt_engine *g, size_t n_keys, float *weight, mt_err *e);

mt_engine_counts mt_engine_get_counts(const mt_engine *g);
void mt_engine_reset_counts(mt_engine *g);
mt_model *mt_engine_get_model(const mt_engine *g);

/* ---- an answer as text ------------------------------------------------------------------- */

/* Turns the ids of one output into text that may be shown: whole characters, nothing of a stop
 * string. */
typedef struct mt_answer mt_answer;
int mt_answer_new(mt_answer **out, const mt_tokenizer *t, const char *const *stop, size_t n_stop,
                  mt_err *e);
void mt_answer_free(mt_answer *a);
/* Appends to `out` what the id makes certain; *stopped says that a stop string is complete. */
int mt_answer_push(mt_answer *a, uint32_t id, mt_buf *out, bool *stopped, mt_err *e);
/* The end for another reason: what was held back. */
int mt_answer_finish(mt_answer *a, mt_buf *out, mt_err *e);

#endif
