/* The chain of processors in its order, and the draw. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct mt_sampler {
  history seen;
  scratch *w;
};

int mt_sampler_new(mt_sampler **out, const mt_kernels *kn, size_t vocab, mt_err *e) {
  *out = NULL;
  if (!vocab || vocab > UINT32_MAX)
    return mt_err_set(e, MT_ERANGE, "a sampler for a vocabulary of %zu ids", vocab);
  mt_sampler *s = mt_calloc(1, sizeof *s);
  if (s) s->w = mt_sample_scratch_new(kn, vocab);
  if (!s || !s->w) {
    free(s);
    return mt_err_set(e, MT_ENOMEM, "no memory for a sampler of %zu ids", vocab);
  }
  *out = s;
  return MT_OK;
}

int mt_sampler_fork(mt_sampler **out, const mt_sampler *from, mt_err *e) {
  *out = NULL;
  mt_sampler *s = mt_calloc(1, sizeof *s);
  if (!s || mt_sample_history_copy(&s->seen, &from->seen)) {
    free(s);
    return mt_err_set(e, MT_ENOMEM, "no memory for a sampler");
  }
  s->w = from->w;
  s->w->refs++;
  *out = s;
  return MT_OK;
}

void mt_sampler_free(mt_sampler *s) {
  if (!s) return;
  mt_sample_history_free(&s->seen);
  mt_sample_scratch_release(s->w);
  free(s);
}

void mt_sampler_reset(mt_sampler *s) {
  mt_sample_history_clear(&s->seen);
}

int mt_sampler_accept(mt_sampler *s, uint32_t id, bool generated) {
  if (id >= s->w->vocab) return MT_ERANGE;
  return mt_sample_history_add(&s->seen, id, generated);
}

/* ---- reports ----------------------------------------------------------------------------- */

typedef struct chain {
  mt_sampler *s;
  const mt_sample_params *p;
  const mt_sample_trace *trace; /* NULL: none */
  item *top;                    /* [trace->n_top] */
  mt_err *e;
} chain;

/* All candidates into the heap. Returns how many. */
static size_t list_candidates(scratch *w) {
  size_t n = 0;
  for (size_t k = 0; k < w->n_live; k++) {
    size_t at = w->live[k] * (size_t)BLOCK;
    for (size_t i = at; i < at + BLOCK; i++)
      if (w->value[i] > -INFINITY) w->heap[n++] = (item){(uint32_t)i, w->value[i]};
  }
  return n;
}

/* How many are not after `last`, which is one of the n candidates in the heap. */
static size_t count_until(const scratch *w, size_t n, const item *last) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += !item_before(last, &w->heap[i]);
  return count;
}

static void report(const chain *c, const char *name) {
  if (!c->trace) return;
  scratch *w = c->s->w;
  norm z = mt_sample_row_softmax(w);
  mt_sample_stage st = {.name = name, .entropy = mt_sample_row_entropy(w, z), .top = c->top};
  st.nucleus_p = c->p->top_p < 1 ? c->p->top_p : 0.9;
  item last = mt_sample_cut_nucleus(w, z, st.nucleus_p);
  size_t rest = st.kept = list_candidates(w);
  st.nucleus = count_until(w, rest, &last);
  mt_sample_heap_make(w->heap, rest, false);
  double log_sum = mt_log64(z.sum);
  while (rest && st.n_top < c->trace->n_top) {
    item it = mt_sample_heap_pop(w->heap, &rest, false);
    c->top[st.n_top++] = (item){it.id, ((it.logprob - z.max) + 0.0) - log_sum};
  }
  c->trace->fn(c->trace->arg, &st);
}

/* After values were changed. */
static int settle(const chain *c, const char *name) {
  int rc = mt_sample_row_refresh(c->s->w, c->e);
  if (!rc) report(c, name);
  return rc;
}

/* ---- the chain --------------------------------------------------------------------------- */

/* The value of an id, which the caller changes. */
static double *value_of(scratch *w, uint32_t id) {
  w->max[id / BLOCK] = w->base[id / BLOCK] = (double)NAN;
  return &w->value[id];
}

static int add_bias(const chain *c) {
  const mt_sample_params *p = c->p;
  scratch *w = c->s->w;
  if (!p->n_bias) return MT_OK;
  for (size_t i = 0; i < p->n_bias; i++) {
    if (p->bias[i].id >= w->vocab)
      return mt_err_set(c->e, MT_ERANGE, "logit_bias names id %u, the vocabulary has %zu",
                        p->bias[i].id, w->vocab);
    *value_of(w, p->bias[i].id) += (double)p->bias[i].bias;
  }
  return settle(c, "logit_bias");
}

/* Keskar et al., "CTRL", 2019, as transformers has it. */
static int penalise_repetition(const chain *c) {
  double r = c->p->repetition_penalty;
  const history *h = &c->s->seen;
  if (r == 1) return MT_OK;
  for (size_t i = 0; i < h->n; i++) {
    double *v = value_of(c->s->w, h->entry[i].id);
    *v = *v > 0 ? *v / r : *v * r;
  }
  return settle(c, "repetition_penalty");
}

static int penalise_presence(const chain *c) {
  double presence = c->p->presence_penalty, frequency = c->p->frequency_penalty;
  const history *h = &c->s->seen;
  if (presence == 0 && frequency == 0) return MT_OK;
  for (size_t i = 0; i < h->n; i++)
    if (h->entry[i].generated)
      *value_of(c->s->w, h->entry[i].id) -= presence + frequency * h->entry[i].generated;
  return settle(c, "presence_frequency");
}

static void apply_temperature(const chain *c) {
  if (c->p->temperature == 1) return;
  mt_sample_filter_temperature(c->s->w, c->p->temperature);
  report(c, "temperature");
}

static void apply_filters(const chain *c) {
  const mt_sample_params *p = c->p;
  scratch *w = c->s->w;
  if (!p->temperature_last) apply_temperature(c);
  if (p->top_k) {
    mt_sample_filter_top_k(w, p->top_k);
    report(c, "top_k");
  }
  if (p->typical_p < 1) {
    mt_sample_filter_typical_p(w, p->typical_p);
    report(c, "typical_p");
  }
  if (p->top_p < 1) {
    mt_sample_filter_top_p(w, p->top_p);
    report(c, "top_p");
  }
  if (p->min_p > 0) {
    mt_sample_filter_min_p(w, p->min_p);
    report(c, "min_p");
  }
  if (p->temperature_last) apply_temperature(c);
}

/* From loaded logits to the probabilities of what is left. */
static int run_chain(const chain *c) {
  report(c, "logits");
  int rc = add_bias(c);
  if (!rc) rc = penalise_repetition(c);
  if (!rc) rc = penalise_presence(c);
  if (rc) return rc;
  if (c->p->temperature > 0) {
    apply_filters(c);
  } else {
    mt_sample_filter_greedy(c->s->w);
    report(c, "greedy");
  }
  mt_sample_row_softmax(c->s->w);
  return MT_OK;
}

static int choose(const chain *c, const float *logits, uint64_t position, uint32_t *id,
                  double *logprob) {
  scratch *w = c->s->w;
  int rc = mt_sample_params_check(c->p, c->e);
  if (!rc) rc = mt_sample_row_load(w, logits, c->e);
  if (!rc) rc = run_chain(c);
  if (rc) return rc;
  *id = mt_sample_row_draw(w, mt_uniform(c->p->seed, c->p->choice, position, 0));
  if (logprob) *logprob = mt_logprob(w->kn, logits, w->vocab, *id);
  return MT_OK;
}

int mt_sampler_choose(mt_sampler *s, const mt_sample_params *p, const float *logits,
                      uint64_t position, uint32_t *id, double *logprob, mt_err *e) {
  const chain c = {.s = s, .p = p, .e = e};
  return choose(&c, logits, position, id, logprob);
}

int mt_sampler_choose_traced(mt_sampler *s, const mt_sample_params *p, const float *logits,
                             uint64_t position, const mt_sample_trace *trace, uint32_t *id,
                             double *logprob, mt_err *e) {
  chain c = {.s = s, .p = p, .trace = trace, .e = e};
  size_t n_top = trace->n_top < s->w->vocab ? trace->n_top : s->w->vocab;
  c.top = mt_malloc(n_top, sizeof *c.top);
  if (!c.top) return mt_err_set(e, MT_ENOMEM, "no memory for %zu candidates", n_top);
  int rc = choose(&c, logits, position, id, logprob);
  free(c.top);
  return rc;
}

int mt_sampler_distribution(mt_sampler *s, const mt_sample_params *p, const double *logits,
                            double *prob, mt_err *e) {
  const chain c = {.s = s, .p = p, .e = e};
  scratch *w = s->w;
  int rc = mt_sample_params_check(p, e);
  if (!rc) rc = mt_sample_row_load_f64(w, logits, e);
  if (!rc) rc = run_chain(&c);
  if (rc) return rc;
  memset(prob, 0, w->vocab * sizeof *prob);
  for (size_t k = 0; k < w->n_live; k++) {
    size_t at = w->live[k] * (size_t)BLOCK;
    for (size_t i = at; i < at + BLOCK && i < w->vocab; i++)
      prob[i] = w->e[i] * w->share[w->live[k]];
  }
  return MT_OK;
}
