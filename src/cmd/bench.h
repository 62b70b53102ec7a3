/* What the parts of `bench` share: limits of the machine, the work of a prompt, timed runs, and
 * what is printed of them. */
#ifndef MT_CMD_BENCH_H
#define MT_CMD_BENCH_H

#include "session.h"

double mt_bench_median(const double *v, size_t n); /* 0 where n is 0 or memory is short */

/* ---- limits (bench_limits.c) ------------------------------------------------------------- */

/* What is measured: reading as 1, 2, 4 or 8 runs side by side, and two kinds of arithmetic. */
enum {
  MT_GAUGE_READ_1,
  MT_GAUGE_READ_2,
  MT_GAUGE_READ_4,
  MT_GAUGE_READ_8,
  MT_GAUGE_FMA,
  MT_GAUGE_DOT,
  MT_N_GAUGES,
  MT_LIMIT_PASSES = 5, /* of a measurement */
  MT_LIMIT_SAMPLES = 2 * MT_LIMIT_PASSES
};

/* Rates of all ranks together. Rank 0's after mt_limits_finish. */
typedef struct mt_limit_rates {
  size_t n;                                      /* samples so far, the same on all ranks */
  double sample[MT_N_GAUGES][MT_LIMIT_SAMPLES];  /* a second: this rank's, later all ranks' */
  int read;                                      /* the gauge that read fastest */
  double read_bytes_per_s, fma_per_s, dot_per_s; /* medians */
  uint8_t *buffer;                               /* this rank's, as large as its weights */
  size_t buffer_bytes;
} mt_limit_rates;

/* Takes the buffer: as large as this rank's weights, at least 64 MiB, at most half of what memory
 * is left. Collective. */
int mt_limits_open(mt_limit_rates *l, mt_session *s, mt_err *e);
/* MT_LIMIT_PASSES samples more of every gauge, MT_LIMIT_SAMPLES in all. Collective. */
int mt_limits_measure(mt_limit_rates *l, mt_session *s, mt_err *e);
/* Sums up over the ranks. Collective. */
int mt_limits_finish(mt_limit_rates *l, mt_session *s, mt_err *e);
void mt_limits_close(mt_limit_rates *l);

/* ---- the work of a token (bench_work.c) ------------------------------------------------- */

/* Multiplications and additions of the matrices and of attention (norms and the like are not
 * counted): f32, and of bytes, where a 16-bit activation counts as two. */
typedef struct mt_bench_work {
  double fma, dot;
} mt_bench_work;
/* Of the tokens at positions [begin, end) of a sequence, with logits for the last one. Reads the
 * headers of the model. */
int mt_bench_count(const mt_session *s, size_t begin, size_t end, mt_bench_work *out, mt_err *e);

/* ---- runs (bench_run.c) ------------------------------------------------------------------ */

/* `batch` prompts at once, then decode steps until each has `generate` tokens more. */
typedef struct mt_bench_load {
  size_t batch, prompt, generate;
} mt_bench_load;

enum { MT_BENCH_PREFILL, MT_BENCH_DECODE, MT_BENCH_PHASES };

typedef struct mt_bench_time {
  double ttft_s, ttft_last_s; /* time to first token: median and last of the batch */
  double prefill_s;           /* until all have their first token */
  double decode_s;            /* of the steps in which all decode */
  size_t decode_steps;
  double host_s; /* of decode_s: planning, choosing, turning into text */
  double model_ns[MT_BENCH_PHASES], collective_ns[MT_BENCH_PHASES]; /* rank 0's */
  double decode_weight_bytes, decode_kv_bytes; /* read in decode by all ranks */
  double prefill_weight_bytes;
} mt_bench_time;

typedef struct mt_bench {
  mt_session *s;
  mt_tokenizer *tok; /* NULL where the model has none */
  uint64_t runs;     /* so far: no two have the same prompt */
} mt_bench;

/* Tokens of KV cache that a load needs. */
size_t mt_bench_room(const mt_opt *o, mt_bench_load load);
/* Rank 0, while the others follow. */
int mt_bench_run(mt_bench *b, mt_bench_load load, mt_bench_time *out, mt_err *e);

/* ---- modes (bench_modes.c) --------------------------------------------------------------- */

/* The runs of one invocation: loads, and `repeat` timings of each. */
typedef struct mt_bench_plan {
  mt_bench_load *load; /* [n_loads] */
  size_t n_loads, repeat;
  mt_bench_time *time; /* [n_loads][repeat] */
  double tokenize_s;   /* of the first load's prompt as text; 0: no tokenizer */
} mt_bench_plan;

/* Loads from --prompt and --generate, --batch or --shapes. MT_EINVAL names what is wrong. */
int mt_bench_plan_open(mt_bench_plan *p, const mt_opt *o, mt_err *e);
void mt_bench_plan_close(mt_bench_plan *p);
mt_room mt_bench_plan_room(const mt_bench_plan *p, const mt_opt *o);
/* Rank 0: warms up and runs everything, while the others follow. */
int mt_bench_plan_run(mt_bench_plan *p, mt_session *s, mt_err *e);
/* Rank 0: table or JSON. */
int mt_bench_plan_print(const mt_bench_plan *p, const mt_session *s, const mt_limit_rates *l,
                        mt_err *e);

#endif
