/* sample: from logits to a token. Processors and filters in one documented order
 * (docs/sampling.md), the draw, log probabilities, stop strings, and a detector of verbatim
 * repetition. Layer 3; rank 0 only, nothing is collective. All arithmetic is in double with base's
 * own exp and log: the same bits on every machine, and with every table of kernels. */
#ifndef MUTIRAO_SAMPLE_H
#define MUTIRAO_SAMPLE_H

#include "mutirao/base.h"
#include "mutirao/kernel.h"

/* ---- options ----------------------------------------------------------------------------- */

typedef struct mt_logit_bias {
  uint32_t id;
  float bias; /* added to the logit; −infinity bans the token */
} mt_logit_bias;

typedef struct mt_sample_params {
  /* 0 … 100; 0: greedy, the highest logit after bias and penalties, the lowest id on ties */
  double temperature;
  uint32_t top_k;   /* keep exactly this many, ties to the lower id; 0: off */
  double top_p;     /* 0 … 1; keep the fewest, by probability, that reach it; 1: off */
  double min_p;     /* 0 … 1; keep those of at least this share of the best; 0: off */
  double typical_p; /* 0 … 1; keep the fewest, by nearness to the entropy, that reach it; 1: off */
  /* 0.01 … 100; logits of ids in prompt and output: divided where > 0, else multiplied; 1: off */
  double repetition_penalty;
  double presence_penalty;   /* −100 … 100; subtracted from the logits of ids in the output */
  double frequency_penalty;  /* −100 … 100; subtracted once each time that an id is there */
  const mt_logit_bias *bias; /* [n_bias] the caller's; an id listed twice gets both */
  size_t n_bias;
  bool temperature_last; /* temperature after the filters instead of before them */
  uint64_t seed;
  uint32_t choice; /* which of several answers to one prompt */
} mt_sample_params;

/* Everything off: temperature 1, no filter, no penalty, seed 0. */
void mt_sample_params_init(mt_sample_params *p);
/* MT_OK, or MT_ERANGE with the option's name, its value and its legal range. Ids of `bias` are
 * checked when used. */
int mt_sample_params_check(const mt_sample_params *p, mt_err *e);

/* ---- the sampler ------------------------------------------------------------------------- */

/* The ids that one sequence has seen, and scratch memory for a vocabulary (40 bytes an id, a
 * quarter of it touched only where something was traced or filters keep much). */
typedef struct mt_sampler mt_sampler;

int mt_sampler_new(mt_sampler **out, const mt_kernels *kn, size_t vocab, mt_err *e);
/* One more for another sequence: starts with a copy of what `from` has seen and shares its scratch
 * memory, so that neither may be used while the other is in use. Each is freed on its own, in any
 * order. */
int mt_sampler_fork(mt_sampler **out, const mt_sampler *from, mt_err *e);
void mt_sampler_free(mt_sampler *s);
/* Forgets the ids. */
void mt_sampler_reset(mt_sampler *s);
/* Adds an id that the sequence now contains. Ids of the prompt (generated false) count for the
 * repetition penalty only (as in transformers), generated ones for presence and frequency too (as
 * OpenAI defines these). MT_ERANGE for an id outside the vocabulary, MT_ENOMEM. */
int mt_sampler_accept(mt_sampler *s, uint32_t id, bool generated);

/* Chooses the token for `position` (tokens before it in the sequence) from logits [vocab];
 * −infinity marks a token that is not allowed. A pure function of its arguments and of the ids
 * seen: draws by mt_uniform(seed, choice, position, 0). *logprob (may be NULL) is that of the
 * chosen id under the softmax of the logits as given. MT_ENUMERIC where a logit is NaN or
 * +infinity, or every one is −infinity (or banned); MT_ERANGE for a bias id outside the vocabulary.
 * Does not accept the id. */
int mt_sampler_choose(mt_sampler *s, const mt_sample_params *p, const float *logits,
                      uint64_t position, uint32_t *id, double *logprob, mt_err *e);
/* prob [vocab]: the distribution that mt_sampler_choose draws from (one 1 where greedy). Errors as
 * there. */
int mt_sampler_distribution(mt_sampler *s, const mt_sample_params *p, const double *logits,
                            double *prob, mt_err *e);

/* The first id whose cumulative probability, ids ascending, exceeds u; the last with prob > 0 where
 * rounding lets none exceed it; n where all are 0. mt_sampler_choose draws so. */
size_t mt_sample_draw(const double *prob, size_t n, double u);

/* ---- log-probabilities ------------------------------------------------------------------- */

typedef struct mt_candidate {
  uint32_t id;
  double logprob;
} mt_candidate;

/* The softmax over a vocabulary by DESIGN's recipe: blocks of 64 ids, each with its maximum and its
 * sum relative to it, merged in ascending order. ln p of `id`; NaN where a logit is NaN or
 * +infinity, where all are −infinity, or id ≥ n. */
double mt_logprob(const mt_kernels *kn, const float *logits, size_t n, uint32_t id);
/* The k most probable (fewer where fewer are possible), most probable first, ties by ascending id,
 * into out [k]. Returns how many, or MT_ENUMERIC as above. */
int mt_top_logprobs(const mt_kernels *kn, const float *logits, size_t n, size_t k,
                    mt_candidate *out);

/* ---- how a choice came about ------------------------------------------------------------- */

/* The distribution after one processor. */
typedef struct mt_sample_stage {
  const char *name; /* "logits", then those that are on: "logit_bias", "repetition_penalty",
                       "presence_frequency", "temperature", "top_k", "typical_p", "top_p", "min_p",
                       "greedy" */
  size_t kept;      /* tokens still possible */
  double entropy;   /* nats */
  size_t nucleus;   /* fewest tokens whose probabilities reach nucleus_p */
  double nucleus_p; /* the top_p asked for, or 0.9 where that is off */
  size_t n_top;
  const mt_candidate *top; /* [n_top] most probable first; valid during the call only */
} mt_sample_stage;
typedef struct mt_sample_trace {
  void (*fn)(void *arg, const mt_sample_stage *stage); /* called once a stage, in order */
  void *arg;
  size_t n_top; /* candidates wanted at each stage */
} mt_sample_trace;
/* mt_sampler_choose, with a report of every stage; the choice is the same. */
int mt_sampler_choose_traced(mt_sampler *s, const mt_sample_params *p, const float *logits,
                             uint64_t position, const mt_sample_trace *trace, uint32_t *id,
                             double *logprob, mt_err *e);

/* ---- stop strings ------------------------------------------------------------------------ */

/* Watches the bytes of the output for any of a set of strings, which may begin and end anywhere
 * within tokens. The stop that is complete first wins; of those complete at the same byte, the
 * longest. So the result does not depend on how the bytes are cut into tokens. Source: Knuth,
 * Morris, Pratt, "Fast pattern matching in strings", 1977. */
typedef struct mt_stop mt_stop;
/* The strings are copied. n may be 0: then all bytes pass. MT_EINVAL for an empty string. */
int mt_stop_new(mt_stop **out, const char *const *string, const size_t *len, size_t n, mt_err *e);
void mt_stop_free(mt_stop *m);
void mt_stop_reset(mt_stop *m);
/* Takes the next n bytes and appends to `out` what may be shown now: everything but an end that may
 * begin a stop, and nothing of a stop or after it. MT_OK or MT_ENOMEM. */
int mt_stop_push(mt_stop *m, const char *bytes, size_t n, mt_buf *out);
/* The output ended otherwise: appends what was held back. */
int mt_stop_flush(mt_stop *m, mt_buf *out);
/* True once a stop was found; *which (may be NULL) is its index. */
bool mt_stop_found(const mt_stop *m, size_t *which);

/* ---- repetition -------------------------------------------------------------------------- */

/* A passage counts as repeating itself when it stands there so often and covers so many ids. */
enum {
  MT_REPEAT_MIN_TIMES = 4,
  MT_REPEAT_MIN_IDS = 32,
  MT_REPEAT_MAX_PERIOD = 256 /* longest passage looked for, in ids */
};
/* True if ids [n] end in a passage that repeats itself verbatim; *period is the shortest such
 * passage's length and *times how often it stands there, whole ones only (either may be NULL). */
bool mt_repeat_find(const uint32_t *ids, size_t n, size_t *period, size_t *times);

#endif
