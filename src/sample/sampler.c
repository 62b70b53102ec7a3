/* The chain of processors in its order, and the draw. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct mt_sampler {
  history seen;
  scratch *w;
};

static void scratch_release(scratch *w) {
  if (!w || --w->refs) return;
  free(w->cand);
  free(w->heap);
  free(w->prob);
  free(w);
}

static scratch *scratch_new(size_t vocab) {
  scratch *w = mt_calloc(1, sizeof *w);
  if (!w) return NULL;
  w->refs = 1;
  w->vocab = vocab;
  w->cand = mt_malloc(vocab, sizeof *w->cand);
  w->heap = mt_malloc(vocab, sizeof *w->heap);
  w->prob = mt_malloc(vocab, sizeof *w->prob);
  if (w->cand && w->heap && w->prob) return w;
  scratch_release(w);
  return NULL;
}

int mt_sampler_new(mt_sampler **out, size_t vocab, mt_err *e) {
  *out = NULL;
  if (!vocab || vocab > UINT32_MAX)
    return mt_err_set(e, MT_ERANGE, "a sampler for a vocabulary of %zu ids", vocab);
  mt_sampler *s = mt_calloc(1, sizeof *s);
  if (s) s->w = scratch_new(vocab);
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
  scratch_release(s->w);
  free(s);
}

void mt_sampler_reset(mt_sampler *s) {
  mt_sample_history_clear(&s->seen);
}

int mt_sampler_accept(mt_sampler *s, uint32_t id, bool generated) {
  if (id >= s->w->vocab) return MT_ERANGE;
  return mt_sample_history_add(&s->seen, id, generated);
}

int mt_sample_scratch_collect(scratch *w, mt_err *e) {
  w->n = 0;
  for (size_t i = 0; i < w->vocab; i++) {
    double v = w->prob[i];
    if (!(v < INFINITY))
      return mt_err_set(e, MT_ENUMERIC, "the logit of id %zu is %s", i,
                        v == v ? "infinite" : "not a number");
    if (v > -INFINITY) w->cand[w->n++] = (item){(uint32_t)i, v};
  }
  if (!w->n) return mt_err_set(e, MT_ENUMERIC, "no token is possible: every logit is -infinity");
  return MT_OK;
}

/* ---- reports ----------------------------------------------------------------------------- */

typedef struct chain {
  mt_sampler *s;
  const mt_sample_params *p;
  const mt_sample_trace *trace; /* NULL: none */
  item *top;                    /* [trace->n_top] */
  mt_err *e;
} chain;

static void report(const chain *c, const char *name) {
  if (!c->trace) return;
  scratch *w = c->s->w;
  norm z = mt_sample_scratch_softmax(w);
  mt_sample_stage st = {
      .name = name, .kept = w->n, .entropy = mt_sample_scratch_entropy(w, z), .top = c->top};
  st.nucleus_p = c->p->top_p < 1 ? c->p->top_p : 0.9;
  item last;
  st.nucleus = mt_sample_scratch_nucleus(w, st.nucleus_p, &last);
  memcpy(w->heap, w->cand, w->n * sizeof *w->heap);
  size_t rest = w->n;
  mt_sample_heap_make(w->heap, rest, false);
  double log_sum = mt_log64(z.sum);
  while (rest && st.n_top < c->trace->n_top) {
    item it = mt_sample_heap_pop(w->heap, &rest, false);
    c->top[st.n_top++] = (item){it.id, (it.logprob - z.max) - log_sum};
  }
  c->trace->fn(c->trace->arg, &st);
}

/* A report while the logits of all ids still lie in prob: they are put back afterwards. */
static int report_logits(const chain *c, const char *name) {
  if (!c->trace) return MT_OK;
  scratch *w = c->s->w;
  int rc = mt_sample_scratch_collect(w, c->e);
  if (rc) return rc;
  report(c, name);
  for (size_t i = 0; i < w->vocab; i++) w->prob[i] = -INFINITY;
  for (size_t i = 0; i < w->n; i++) w->prob[w->cand[i].id] = w->cand[i].logprob;
  return MT_OK;
}

/* ---- the chain --------------------------------------------------------------------------- */

static int add_bias(const chain *c) {
  const mt_sample_params *p = c->p;
  scratch *w = c->s->w;
  for (size_t i = 0; i < p->n_bias; i++) {
    if (p->bias[i].id >= w->vocab)
      return mt_err_set(c->e, MT_ERANGE, "logit_bias names id %u, the vocabulary has %zu",
                        p->bias[i].id, w->vocab);
    w->prob[p->bias[i].id] += (double)p->bias[i].bias;
  }
  return p->n_bias ? report_logits(c, "logit_bias") : MT_OK;
}

/* Keskar et al., "CTRL", 2019, as transformers has it. */
static int penalise_repetition(const chain *c) {
  double r = c->p->repetition_penalty, *y = c->s->w->prob;
  const history *h = &c->s->seen;
  if (r == 1) return MT_OK;
  for (size_t i = 0; i < h->n; i++) {
    double *v = &y[h->entry[i].id];
    *v = *v > 0 ? *v / r : *v * r;
  }
  return report_logits(c, "repetition_penalty");
}

static int penalise_presence(const chain *c) {
  double presence = c->p->presence_penalty, frequency = c->p->frequency_penalty, *y = c->s->w->prob;
  const history *h = &c->s->seen;
  if (presence == 0 && frequency == 0) return MT_OK;
  for (size_t i = 0; i < h->n; i++)
    if (h->entry[i].generated) y[h->entry[i].id] -= presence + frequency * h->entry[i].generated;
  return report_logits(c, "presence_frequency");
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

/* From the logits in prob [vocab] to the candidates and their probabilities. */
static int run_chain(const chain *c) {
  int rc = mt_sample_params_check(c->p, c->e);
  if (!rc) rc = report_logits(c, "logits");
  if (!rc) rc = add_bias(c);
  if (!rc) rc = penalise_repetition(c);
  if (!rc) rc = penalise_presence(c);
  if (!rc) rc = mt_sample_scratch_collect(c->s->w, c->e);
  if (rc) return rc;
  if (c->p->temperature > 0) {
    apply_filters(c);
  } else {
    mt_sample_filter_greedy(c->s->w);
    report(c, "greedy");
  }
  mt_sample_scratch_softmax(c->s->w);
  return MT_OK;
}

size_t mt_sample_draw(const double *prob, size_t n, double u) {
  double sum = 0;
  size_t last = n;
  for (size_t i = 0; i < n; i++) {
    if (!(prob[i] > 0)) continue;
    sum += prob[i];
    last = i;
    if (sum > u) return i;
  }
  return last;
}

static int choose(const chain *c, const float *logits, uint64_t position, uint32_t *id,
                  double *logprob) {
  scratch *w = c->s->w;
  for (size_t i = 0; i < w->vocab; i++) w->prob[i] = (double)logits[i];
  int rc = run_chain(c);
  if (rc) return rc;
  double u = mt_uniform(c->p->seed, c->p->choice, position, 0);
  *id = w->cand[mt_sample_draw(w->prob, w->n, u)].id;
  if (logprob) *logprob = mt_logprob(logits, w->vocab, *id);
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
  memcpy(w->prob, logits, w->vocab * sizeof *w->prob);
  int rc = run_chain(&c);
  if (rc) return rc;
  memset(prob, 0, w->vocab * sizeof *prob);
  for (size_t i = 0; i < w->n; i++) prob[w->cand[i].id] = w->prob[i];
  return MT_OK;
}
