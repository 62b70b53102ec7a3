/* Times what rank 0 does to turn one row of logits into a token: microseconds a token, the median.
 *
 *   build/bench/sampler [vocabulary [repeat [WORD]]]    only lines that contain WORD */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/sample.h"

enum { VOCAB = 128256, REPEAT = 101, ROWS = 7, SEEN = 1000 };

typedef enum shape { PEAKED, FLAT, EQUAL, N_SHAPES } shape;
static const char *const SHAPE[] = {"peaked", "flat", "equal"};

/* A sum of four is near enough to normal. Peaked as a trained model's (a nucleus of some dozens),
 * or flat as that of random weights. */
static float logit(shape kind, uint32_t row, size_t i) {
  double g = 0;
  if (kind == EQUAL) return 1;
  for (uint32_t k = 0; k < 4; k++) g += 1.73 * (mt_uniform(1, row, i, k) - 0.5);
  if (kind == FLAT) return (float)(0.5 * g);
  return (float)(2 * g + (i % 4999 == row ? 12 + 2 * g : 0));
}

static int by_size(const void *a, const void *b) {
  const double *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

typedef struct job {
  mt_sampler *s;
  float *row; /* [ROWS][vocab] */
  size_t vocab, repeat;
  double *us;       /* [repeat] */
  const char *word; /* or NULL */
} job;

static double time_choice(job *j, const mt_sample_params *p, bool logprob) {
  for (size_t r = 0; r < j->repeat; r++) {
    uint32_t id;
    double lp;
    mt_err e;
    uint64_t t = mt_clock_ns();
    if (mt_sampler_choose(j->s, p, j->row + r % ROWS * j->vocab, r, &id, logprob ? &lp : NULL,
                          &e)) {
      fprintf(stderr, "%s\n", e.msg);
      exit(1);
    }
    j->us[r] = (double)(mt_clock_ns() - t) * 1e-3;
  }
  qsort(j->us, j->repeat, sizeof *j->us, by_size);
  return j->us[j->repeat / 2];
}

static void time_shape(job *j, shape kind) {
  static const struct {
    const char *name;
    double temperature;
    uint32_t top_k;
    double top_p, min_p, typical_p;
    bool penalties;
  } request[] = {{"greedy", 0, 0, 1, 0, 1, false},
                 {"temperature 1", 1, 0, 1, 0, 1, false},
                 {"top-k 40", 1, 40, 1, 0, 1, false},
                 {"top-p 0.9", 1, 0, 0.9, 0, 1, false},
                 {"temperature 0.8, top-p 0.9", 0.8, 0, 0.9, 0, 1, false},
                 {"temperature 0.8, top-k 40, top-p 0.9", 0.8, 40, 0.9, 0, 1, false},
                 {"min-p 0.05", 1, 0, 1, 0.05, 1, false},
                 {"typical-p 0.9", 1, 0, 1, 0, 0.9, false},
                 {"greedy, penalties", 0, 0, 1, 0, 1, true},
                 {"top-p 0.9, penalties", 1, 0, 0.9, 0, 1, true}};
  for (uint32_t r = 0; r < ROWS; r++)
    for (size_t i = 0; i < j->vocab; i++) j->row[r * j->vocab + i] = logit(kind, r, i);
  for (size_t k = 0; k < sizeof request / sizeof request[0]; k++) {
    char line[64];
    snprintf(line, sizeof line, "%-7s %s", SHAPE[kind], request[k].name);
    if (j->word && !strstr(line, j->word)) continue;
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.temperature = request[k].temperature;
    p.top_k = request[k].top_k;
    p.top_p = request[k].top_p;
    p.min_p = request[k].min_p;
    p.typical_p = request[k].typical_p;
    if (request[k].penalties) {
      p.repetition_penalty = 1.1;
      p.presence_penalty = p.frequency_penalty = 0.1;
    }
    double without = time_choice(j, &p, false);
    printf("%-45s %9.1f us, with log-probability %9.1f us\n", line, without,
           time_choice(j, &p, true));
  }
}

int main(int argc, char **argv) {
  job j = {.vocab = argc > 1 ? strtoul(argv[1], NULL, 10) : VOCAB,
           .repeat = argc > 2 ? strtoul(argv[2], NULL, 10) : REPEAT,
           .word = argc > 3 ? argv[3] : NULL};
  const mt_kernels *kn;
  mt_err e = {0};
  if (mt_kernels_get(NULL, &kn, &e) || mt_sampler_new(&j.s, kn, j.vocab, &e)) {
    fprintf(stderr, "%s\n", e.msg);
    return 1;
  }
  j.row = mt_malloc(ROWS * j.vocab, sizeof *j.row);
  j.us = mt_malloc(j.repeat + 1, sizeof *j.us);
  if (!j.row || !j.us || !j.repeat) return 1;
  for (uint64_t i = 0; i < SEEN; i++) { /* what penalties look at */
    uint32_t id = (uint32_t)(mt_uniform(2, 0, i, 0) * (double)j.vocab);
    if (mt_sampler_accept(j.s, id, i % 2)) return 1;
  }
  for (shape kind = 0; kind < N_SHAPES; kind++) time_shape(&j, kind);
  free(j.row);
  free(j.us);
  mt_sampler_free(j.s);
  return 0;
}
