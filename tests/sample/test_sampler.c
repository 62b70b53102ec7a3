/* The sampler's laws: known percentages, options and their ranges, a naive reference at a real
 * vocabulary's size, history, seeds, errors, reports. */
#include <math.h>

#include "mt_test.h"
#include "mutirao/sample.h"

static const mt_kernels *kernels(void) {
  const mt_kernels *kn = NULL;
  CU_ASSERT_FATAL(mt_kernels_get(NULL, &kn, NULL) == MT_OK);
  return kn;
}

static mt_sampler *sampler(size_t vocab) {
  mt_sampler *s = NULL;
  CU_ASSERT_FATAL(mt_sampler_new(&s, kernels(), vocab, NULL) == MT_OK);
  return s;
}

static mt_sample_params neutral(void) {
  mt_sample_params p;
  mt_sample_params_init(&p);
  return p;
}

static uint32_t choose(mt_sampler *s, const mt_sample_params *p, const float *logits,
                       uint64_t position) {
  uint32_t id = UINT32_MAX;
  mt_err e = {0};
  int rc = mt_sampler_choose(s, p, logits, position, &id, NULL, &e);
  if (rc) printf("%s\n", e.msg);
  CU_ASSERT_FATAL(rc == MT_OK);
  return id;
}

/* ---- known numbers -------------------------------------------------------------------------- */

static void test_percentages(void) {
  const double logits[] = {2, 1, 0.1};
  static const struct {
    double t, percent[3];
  } table[] = {{1, {65.90, 24.24, 9.86}}, {0.5, {86.38, 11.69, 1.93}}, {2, {50.17, 30.43, 19.40}}};
  static const struct {
    double t, top;
  } top[] = {{0.1, 100.0}, {0.3, 96.4}, {0.5, 86.4}, {0.7, 76.6},
             {1, 65.9},    {1.5, 55.7}, {2, 50.2}};
  mt_sampler *s = sampler(3);
  mt_sample_params p = neutral();
  double prob[3];
  for (size_t i = 0; i < 3; i++) {
    p.temperature = table[i].t;
    CU_ASSERT(mt_sampler_distribution(s, &p, logits, prob, NULL) == MT_OK);
    for (int k = 0; k < 3; k++) CU_ASSERT(fabs(100 * prob[k] - table[i].percent[k]) <= 0.005);
  }
  for (size_t i = 0; i < sizeof top / sizeof top[0]; i++) {
    p.temperature = top[i].t;
    CU_ASSERT(mt_sampler_distribution(s, &p, logits, prob, NULL) == MT_OK);
    CU_ASSERT(fabs(100 * prob[0] - top[i].top) <= 0.05);
  }
  mt_sampler_free(s);
}

/* Frequencies of many draws follow the distribution, and so the answer depends on the position. */
static void test_frequencies(void) {
  const float logits[] = {2, 1, 0.1f};
  enum { N = 100000 };
  mt_sampler *s = sampler(3);
  mt_sample_params p = neutral();
  p.seed = mt_test_seed();
  int n[3] = {0};
  for (uint64_t i = 0; i < N; i++) n[choose(s, &p, logits, i)]++;
  const double want[] = {0.6590, 0.2424, 0.0986};
  for (int k = 0; k < 3; k++) CU_ASSERT(fabs(n[k] / (double)N - want[k]) < 0.008);
  mt_sampler_free(s);
}

static void test_draw(void) {
  const double prob[] = {0, 0.25, 0, 0.5, 0.25, 0};
  CU_ASSERT(mt_sample_draw(prob, 6, 0) == 1);
  CU_ASSERT(mt_sample_draw(prob, 6, 0.2499) == 1);
  CU_ASSERT(mt_sample_draw(prob, 6, 0.25) == 3);
  CU_ASSERT(mt_sample_draw(prob, 6, 0.75) == 4);
  CU_ASSERT(mt_sample_draw(prob, 6, 1 - 0x1p-53) == 4);
  const double short_of_one[] = {0.3, 0.3, 0.3, 0};
  CU_ASSERT(mt_sample_draw(short_of_one, 4, 0.95) == 2);
  const double none[] = {0, 0};
  CU_ASSERT(mt_sample_draw(none, 2, 0.5) == 2);
}

static void test_greedy(void) {
  const float logits[] = {1, 7, -3, 7, 2};
  mt_sampler *s = sampler(5);
  mt_sample_params p = neutral();
  p.temperature = 0;
  p.typical_p = 0.1; /* filters do not matter: typical sampling would not keep the best here */
  double logprob = 0;
  uint32_t id;
  CU_ASSERT(mt_sampler_choose(s, &p, logits, 3, &id, &logprob, NULL) == MT_OK);
  CU_ASSERT(id == 1); /* lowest on ties */
  CU_ASSERT(logprob == mt_logprob(kernels(), logits, 5, 1));
  double sum = 0;
  for (int i = 0; i < 5; i++) sum += exp((double)logits[i]);
  CU_ASSERT(fabs(logprob - (7 - log(sum))) < 1e-14);
  const mt_logit_bias ban[] = {{1, -INFINITY}, {0, 6.5f}};
  p.bias = ban;
  p.n_bias = 2;
  CU_ASSERT(mt_sampler_choose(s, &p, logits, 3, &id, &logprob, NULL) == MT_OK);
  CU_ASSERT(id == 0);                                        /* 7.5 */
  CU_ASSERT(logprob == mt_logprob(kernels(), logits, 5, 0)); /* of the logits as given */
  mt_sampler_free(s);
}

/* S5: −100 bans and +100 forces, at every step and temperature. */
static void test_bias(void) {
  const float logits[] = {3, 2, 1, 0};
  mt_sampler *s = sampler(4);
  mt_sample_params p = neutral();
  const mt_logit_bias ban[] = {{0, -100}}, force[] = {{3, 100}};
  p.bias = ban;
  p.n_bias = 1;
  p.temperature = 1.5;
  for (uint64_t i = 0; i < 500; i++) CU_ASSERT(choose(s, &p, logits, i) != 0);
  p.bias = force;
  for (uint64_t i = 0; i < 500; i++) CU_ASSERT(choose(s, &p, logits, i) == 3);
  mt_sampler_free(s);
}

/* ---- options -------------------------------------------------------------------------------- */

static void check_range(const char *name, mt_sample_params p, bool legal) {
  mt_err e = {0};
  int rc = mt_sample_params_check(&p, &e);
  CU_ASSERT(rc == (legal ? MT_OK : MT_ERANGE));
  if (!legal) CU_ASSERT(strstr(e.msg, name) != NULL);
}

static void test_params(void) {
  check_range("", neutral(), true);
  static const struct {
    const char *name;
    size_t at;
    double good[2], bad[2];
  } option[] = {
#define OPTION(f, a, b, c, d)                     \
  {                                               \
#f, offsetof(mt_sample_params, f), {a, b }, { \
      c, d                                        \
    }                                             \
  }
      OPTION(temperature, 0, 100, -0.1, 101),
      OPTION(top_p, 0, 1, -0.1, 1.1),
      OPTION(min_p, 0, 1, -0.1, 1.1),
      OPTION(typical_p, 0, 1, -0.1, 1.1),
      OPTION(repetition_penalty, 0.01, 100, 0, -1),
      OPTION(presence_penalty, -2, 2, -101, 101),
      OPTION(frequency_penalty, -2, 2, -101, 101),
  };
  for (size_t i = 0; i < sizeof option / sizeof option[0]; i++)
    for (int k = 0; k < 4; k++) {
      const double value[] = {option[i].good[0], option[i].good[1], option[i].bad[0],
                              option[i].bad[1]};
      mt_sample_params p = neutral();
      memcpy((char *)&p + option[i].at, &value[k], sizeof value[k]);
      check_range(option[i].name, p, k < 2);
      const double never[] = {NAN, INFINITY};
      memcpy((char *)&p + option[i].at, &never[k & 1], sizeof never[0]);
      check_range(option[i].name, p, false);
    }
  const float bias[] = {NAN, INFINITY, -INFINITY, 100};
  for (int k = 0; k < 4; k++) {
    mt_logit_bias b = {77, bias[k]};
    mt_sample_params p = neutral();
    p.bias = &b;
    p.n_bias = 1;
    check_range("id 77", p, k >= 2);
  }
}

static void test_errors(void) {
  mt_sampler *s = sampler(4), *none = NULL;
  mt_sample_params p = neutral();
  mt_err e = {0};
  uint32_t id;
  CU_ASSERT(mt_sampler_new(&none, kernels(), 0, &e) == MT_ERANGE && none == NULL);
  CU_ASSERT(mt_sampler_new(&none, kernels(), (size_t)1 << 40, &e) == MT_ERANGE && none == NULL);
  const float nan_logit[] = {1, 2, NAN, 0}, inf_logit[] = {1, INFINITY, 2, 0},
              nothing[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  const float *bad[] = {nan_logit, inf_logit, nothing};
  for (int t = 0; t < 2; t++) {
    p.temperature = t;
    for (int i = 0; i < 3; i++) {
      CU_ASSERT(mt_sampler_choose(s, &p, bad[i], 0, &id, NULL, &e) == MT_ENUMERIC);
      CU_ASSERT(isnan(mt_logprob(kernels(), bad[i], 4, 0)));
      CU_ASSERT(mt_top_logprobs(kernels(), bad[i], 4, 2, (mt_candidate[2]){{0, 0}}) == MT_ENUMERIC);
    }
  }
  CU_ASSERT(mt_sampler_choose(s, &p, nan_logit, 0, &id, NULL, &e) == MT_ENUMERIC &&
            strstr(e.msg, "id 2") != NULL);
  const float fine[] = {1, 2, -INFINITY, -INFINITY};
  const mt_logit_bias all[] = {{0, -INFINITY}, {1, -INFINITY}}, outside[] = {{4, 1}};
  p.bias = all;
  p.n_bias = 2;
  CU_ASSERT(mt_sampler_choose(s, &p, fine, 0, &id, NULL, &e) == MT_ENUMERIC);
  p.bias = outside;
  p.n_bias = 1;
  CU_ASSERT(mt_sampler_choose(s, &p, fine, 0, &id, NULL, &e) == MT_ERANGE &&
            strstr(e.msg, "4") != NULL);
  p = neutral();
  p.top_p = 2;
  CU_ASSERT(mt_sampler_choose(s, &p, fine, 0, &id, NULL, &e) == MT_ERANGE &&
            strstr(e.msg, "top_p") != NULL);
  CU_ASSERT(mt_sampler_accept(s, 4, true) == MT_ERANGE);
  CU_ASSERT(isnan(mt_logprob(kernels(), fine, 4, 4)));
  CU_ASSERT(mt_logprob(kernels(), fine, 4, 2) == -INFINITY);
  mt_sampler_free(s);
  mt_sampler_free(NULL);
}

/* Extremes leave one token or all, and nothing overflows. */
static void test_extremes(void) {
  const float logits[] = {3e38f, -3e38f, 1, 3e38f, 0, 2.9e38f};
  mt_sampler *s = sampler(6);
  static const double t[] = {5e-324, 1e-300, 0.01, 1, 100};
  for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
    for (int last = 0; last < 2; last++) {
      mt_sample_params p = neutral();
      p.temperature = t[i];
      p.temperature_last = last;
      p.top_p = 0;
      p.typical_p = 0;
      p.min_p = 1;
      p.top_k = UINT32_MAX;
      CU_ASSERT(choose(s, &p, logits, 0) == 0); /* the first of the two best */
      p = neutral();
      p.temperature = t[i];
      p.temperature_last = last;
      uint32_t id = choose(s, &p, logits, i);
      CU_ASSERT(id == 0 || id == 3);
    }
  mt_sampler_free(s);
}

/* ---- a naive reference ---------------------------------------------------------------------- */

typedef struct ranked {
  double key;
  size_t id;
} ranked;

static int by_key(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static void naive_softmax(const double *y, size_t n, double *q) {
  double max = -INFINITY, sum = 0;
  for (size_t i = 0; i < n; i++) max = fmax(max, y[i]);
  for (size_t i = 0; i < n; i++) sum += exp(y[i] - max);
  for (size_t i = 0; i < n; i++) q[i] = exp(y[i] - max) / sum;
}

/* Keeps the shortest prefix by `key`, all sorted, of at most `most` tokens, whose probabilities
 * reach p. */
static void naive_prefix(double *y, const double *q, const double *key, size_t n, size_t most,
                         double p) {
  ranked *r = mt_malloc(n, sizeof *r);
  CU_ASSERT_FATAL(r != NULL);
  for (size_t i = 0; i < n; i++) r[i] = (ranked){key[i], i};
  qsort(r, n, sizeof *r, by_key);
  double sum = 0;
  size_t kept = 0;
  while (kept < n && kept < most && !(kept && sum >= p - 1e-12)) sum += q[r[kept++].id];
  for (size_t i = kept; i < n; i++) y[r[i].id] = -INFINITY;
  free(r);
}

static void naive_chain(const mt_sample_params *p, double *y, size_t n, double *q) {
  double *key = mt_malloc(n, sizeof *key);
  CU_ASSERT_FATAL(key != NULL);
  for (size_t i = 0; i < n && !p->temperature_last; i++) y[i] /= p->temperature;
  naive_softmax(y, n, q);
  if (p->top_k) naive_prefix(y, q, y, n, p->top_k, 9);
  naive_softmax(y, n, q);
  if (p->typical_p < 1) {
    double h = 0;
    for (size_t i = 0; i < n; i++) h -= q[i] > 0 ? q[i] * log(q[i]) : 0;
    for (size_t i = 0; i < n; i++) key[i] = q[i] > 0 ? -fabs(-log(q[i]) - h) : -INFINITY;
    naive_prefix(y, q, key, n, n, p->typical_p);
  }
  naive_softmax(y, n, q);
  if (p->top_p < 1) naive_prefix(y, q, y, n, n, p->top_p);
  naive_softmax(y, n, q);
  double max = 0;
  for (size_t i = 0; i < n; i++) max = fmax(max, q[i]);
  for (size_t i = 0; i < n; i++)
    if (q[i] < p->min_p * max) y[i] = -INFINITY;
  for (size_t i = 0; i < n && p->temperature_last; i++) y[i] /= p->temperature;
  naive_softmax(y, n, q);
  free(key);
}

static double gauss(unsigned long long seed, uint32_t stream,
                    size_t i) { /* near enough: a sum of four */
  double g = 0;
  for (uint32_t k = 0; k < 4; k++) g += mt_uniform(seed, stream, i, k) - 0.5;
  return g * 1.73;
}

static void test_large_vocabulary(void) {
  enum { N = 128256 };
  unsigned long long seed = mt_test_seed();
  static const mt_sample_params chain[] = {
      {.temperature = 1, .top_p = 1, .typical_p = 1},
      {.temperature = 0.8, .top_k = 50, .top_p = 0.95, .typical_p = 1, .min_p = 0.05},
      {.temperature = 1.3, .top_p = 0.9, .typical_p = 1},
      {.temperature = 0.7, .top_p = 1, .typical_p = 0.6, .temperature_last = true},
      {.temperature = 2,
       .top_k = 100000,
       .top_p = 0.99,
       .typical_p = 0.97,
       .min_p = 1e-4,
       .temperature_last = true},
      {.temperature = 1, .top_k = 1, .top_p = 1, .typical_p = 1},
  };
  double *x = mt_malloc(N, sizeof *x), *y = mt_malloc(N, sizeof *y), *q = mt_malloc(N, sizeof *q);
  double *prob = mt_malloc(N, sizeof *prob);
  CU_ASSERT_FATAL(x && y && q && prob);
  mt_sampler *s = sampler(N);
  for (uint32_t c = 0; c < sizeof chain / sizeof chain[0]; c++) {
    for (size_t i = 0; i < N; i++) {
      x[i] = 3 * gauss(seed, c, i);
      if (c & 1) x[i] = round(x[i] * 10) / 10; /* ties */
      if (i % 1000 == 7) x[i] = -INFINITY;
    }
    memcpy(y, x, N * sizeof *y);
    naive_chain(&chain[c], y, N, q);
    mt_sample_params p = chain[c];
    p.repetition_penalty = 1;
    CU_ASSERT(mt_sampler_distribution(s, &p, x, prob, NULL) == MT_OK);
    size_t differ = 0, kept = 0;
    for (size_t i = 0; i < N; i++) {
      kept += prob[i] > 0;
      differ += (prob[i] > 0) != (q[i] > 0) || fabs(prob[i] - q[i]) > 1e-10 * q[i];
    }
    if (differ) printf("chain %u: %zu of %zu differ\n", c, differ, kept);
    CU_ASSERT(differ == 0 && kept > 0);
  }
  mt_sampler_free(s);
  free(x);
  free(y);
  free(q);
  free(prob);
}

static void test_top_logprobs(void) {
  enum { N = 3000 };
  unsigned long long seed = mt_test_seed();
  float *x = mt_malloc(N, sizeof *x);
  ranked *r = mt_malloc(N, sizeof *r);
  mt_candidate *top = mt_malloc(N, sizeof *top);
  CU_ASSERT_FATAL(x && r && top);
  for (size_t i = 0; i < N; i++)
    x[i] = i % 10 == 3 ? -INFINITY : (float)(round(20 * gauss(seed, 0, i)) / 4);
  for (size_t i = 0; i < N; i++) r[i] = (ranked){(double)x[i], i};
  qsort(r, N, sizeof *r, by_key);
  const size_t ks[] = {0, 1, 2, 20, 2699, 2700, 2701, N};
  for (size_t c = 0; c < sizeof ks / sizeof ks[0]; c++) {
    int n = mt_top_logprobs(kernels(), x, N, ks[c], top);
    CU_ASSERT_FATAL(n == (int)(ks[c] < 2700 ? ks[c] : 2700));
    for (int i = 0; i < n; i++) {
      CU_ASSERT(top[i].id == r[i].id);
      CU_ASSERT(top[i].logprob == mt_logprob(kernels(), x, N, top[i].id));
    }
  }
  double sum = 0;
  for (int i = 0; i < 2700; i++) sum += exp(top[i].logprob);
  CU_ASSERT(fabs(sum - 1) < 1e-12);
  free(x);
  free(r);
  free(top);
}

/* The recipe of blocks: the same bits from the parts that two, three … ranks would send. */
static void test_softmax_blocks(void) {
  enum { N = 1000 };
  unsigned long long seed = mt_test_seed();
  float x[N];
  for (size_t i = 0; i < N; i++) x[i] = (float)(5 * gauss(seed, 9, i));
  double max = -INFINITY, sum = 0;
  for (size_t b = 0; b < N; b += 64) {
    double m = -INFINITY, t = 0;
    for (size_t i = b; i < N && i < b + 64; i++) m = fmax(m, (double)x[i]);
    for (size_t i = b; i < N && i < b + 64; i++) t += mt_exp64((double)x[i] - m);
    if (m > max) {
      sum = sum * mt_exp64(max - m) + t;
      max = m;
    } else {
      sum += t * mt_exp64(m - max);
    }
  }
  for (uint32_t i = 0; i < N; i += 37)
    CU_ASSERT(mt_logprob(kernels(), x, N, i) == ((double)x[i] - max) - mt_log64(sum));
}

/* ---- history -------------------------------------------------------------------------------- */

static void test_history(void) {
  const double logits[] = {2, 1, -1, 0};
  mt_sampler *s = sampler(4), *f = NULL;
  double got[4], q[4];
  mt_sampler_accept(s, 0, false); /* prompt */
  mt_sampler_accept(s, 0, false);
  mt_sampler_accept(s, 2, false);
  mt_sampler_accept(s, 1, true);
  mt_sampler_accept(s, 1, true);
  mt_sampler_accept(s, 2, true);
  mt_sample_params p = neutral();
  p.repetition_penalty = 2;
  naive_softmax((double[]){1, 0.5, -2, 0}, 4, q); /* once each, prompt too; 0 stays 0 */
  CU_ASSERT(mt_sampler_distribution(s, &p, logits, got, NULL) == MT_OK);
  for (int i = 0; i < 4; i++) CU_ASSERT(fabs(got[i] - q[i]) < 1e-14);
  p = neutral();
  p.presence_penalty = 0.5;
  p.frequency_penalty = 0.25;
  naive_softmax((double[]){2, 0, -1.75, 0}, 4, q); /* output only, frequency by count */
  CU_ASSERT(mt_sampler_distribution(s, &p, logits, got, NULL) == MT_OK);
  for (int i = 0; i < 4; i++) CU_ASSERT(fabs(got[i] - q[i]) < 1e-14);
  CU_ASSERT(mt_sampler_fork(&f, s, NULL) == MT_OK);
  mt_sampler_reset(s); /* does not touch the fork */
  CU_ASSERT(mt_sampler_distribution(f, &p, logits, got, NULL) == MT_OK);
  for (int i = 0; i < 4; i++) CU_ASSERT(fabs(got[i] - q[i]) < 1e-14);
  naive_softmax(logits, 4, q);
  CU_ASSERT(mt_sampler_distribution(s, &p, logits, got, NULL) == MT_OK);
  for (int i = 0; i < 4; i++) CU_ASSERT(fabs(got[i] - q[i]) < 1e-14);
  mt_sampler_free(s); /* the fork keeps the scratch memory */
  CU_ASSERT(mt_sampler_distribution(f, &p, logits, got, NULL) == MT_OK);
  mt_sampler_free(f);
}

/* Counts against a plain array, over enough ids that the table grows several times. */
static void test_history_large(void) {
  enum { N = 5000 };
  unsigned long long seed = mt_test_seed();
  unsigned count[N] = {0};
  double logits[N] = {0}, got[N], y[N], q[N];
  mt_sampler *s = sampler(N), *f = NULL;
  for (uint64_t i = 0; i < 20000; i++) {
    double u = mt_uniform(seed, 0, i, 0);
    uint32_t id = (uint32_t)(u * u * N);
    count[id]++;
    CU_ASSERT(mt_sampler_accept(s, id, true) == MT_OK);
  }
  CU_ASSERT_FATAL(mt_sampler_fork(&f, s, NULL) == MT_OK);
  mt_sample_params p = neutral();
  p.frequency_penalty = 0.01;
  for (int i = 0; i < N; i++) y[i] = -0.01 * count[i];
  naive_softmax(y, N, q);
  for (int which = 0; which < 2; which++) {
    CU_ASSERT(mt_sampler_distribution(which ? f : s, &p, logits, got, NULL) == MT_OK);
    int differ = 0;
    for (int i = 0; i < N; i++) differ += fabs(got[i] - q[i]) > 1e-15;
    CU_ASSERT(differ == 0);
  }
  mt_sampler_free(f);
  mt_sampler_free(s);
}

/* A model that loves to say again what it just said: greedy loops, and each penalty breaks the
 * loop. */
static void test_loop_broken(void) {
  enum { V = 50, STEPS = 200 };
  for (int which = 0; which < 4; which++) {
    mt_sampler *s = sampler(V);
    mt_sample_params p = neutral();
    p.temperature = 0;
    if (which == 1) p.repetition_penalty = 1.3;
    if (which == 2) p.frequency_penalty = 0.5;
    if (which == 3) p.presence_penalty = 3;
    uint32_t ids[STEPS], last = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
      float logits[V];
      for (uint32_t i = 0; i < V; i++)
        logits[i] = i == (last + 1) % 3 ? 5 : 4 - (float)((i * 7 + last) % V) / 20;
      ids[step] = last = choose(s, &p, logits, step);
      mt_sampler_accept(s, last, true);
    }
    size_t period = 0, times = 0;
    bool loops = mt_repeat_find(ids, 60, &period, &times);
    CU_ASSERT(loops == (which == 0));
    if (which == 0) CU_ASSERT(period == 3 && times == 20);
    mt_sampler_free(s);
  }
}

/* ---- seeds ---------------------------------------------------------------------------------- */

/* S7: the same seed twice gives the same; another seed, choice or position another. */
static void test_seeds(void) {
  enum { V = 100, N = 200 };
  float logits[V];
  for (int i = 0; i < V; i++) logits[i] = (float)(i % 7) / 4;
  mt_sampler *s = sampler(V);
  mt_sample_params p = neutral();
  uint32_t a[N], b[N], c[N], d[N];
  for (uint64_t i = 0; i < N; i++) {
    p.seed = 42;
    p.choice = 0;
    a[i] = choose(s, &p, logits, i);
    b[N - 1 - i] = choose(s, &p, logits, N - 1 - i); /* in any order */
    p.choice = 1;
    c[i] = choose(s, &p, logits, i);
    p.seed = 43;
    d[i] = choose(s, &p, logits, i);
  }
  int same_c = 0, same_d = 0, same_next = 0;
  for (int i = 0; i < N; i++) {
    CU_ASSERT(a[i] == b[i]);
    same_c += a[i] == c[i];
    same_d += c[i] == d[i];
    same_next += i && a[i] == a[i - 1];
  }
  CU_ASSERT(same_c < 20 && same_d < 20 && same_next < 20);
  mt_sampler_free(s);
}

/* ---- reports -------------------------------------------------------------------------------- */

typedef struct stages {
  size_t n, kept[16], nucleus[16];
  char names[200];
  double entropy[16], top_prob[16];
  uint32_t top_id[16];
} stages;

static void note(void *arg, const mt_sample_stage *st) {
  stages *l = arg;
  CU_ASSERT_FATAL(l->n < 16);
  l->kept[l->n] = st->kept;
  l->nucleus[l->n] = st->nucleus;
  l->entropy[l->n] = st->entropy;
  CU_ASSERT(st->n_top == (st->kept < 3 ? st->kept : 3));
  for (size_t i = 1; i < st->n_top; i++) CU_ASSERT(st->top[i].logprob <= st->top[i - 1].logprob);
  l->top_prob[l->n] = exp(st->top[0].logprob);
  l->top_id[l->n] = st->top[0].id;
  strcat(strcat(l->names, l->n ? " " : ""), st->name);
  l->n++;
}

static void test_trace(void) {
  const float logits[] = {2, 1, 0.1f, 0, -1, -INFINITY, 1.5f, -2};
  const mt_logit_bias bias[] = {{4, 0.5f}};
  mt_sampler *s = sampler(8);
  mt_sampler_accept(s, 0, true);
  mt_sample_params p = {.temperature = 0.7,
                        .top_k = 6,
                        .top_p = 0.8,
                        .min_p = 0.2,
                        .typical_p = 0.95,
                        .repetition_penalty = 1.2,
                        .presence_penalty = 0.1,
                        .bias = bias,
                        .n_bias = 1,
                        .seed = 5};
  for (uint64_t position = 0; position < 50; position++) {
    stages l = {0};
    const mt_sample_trace trace = {note, &l, 3};
    uint32_t id, want;
    double lp, want_lp;
    p.temperature_last = position & 1;
    CU_ASSERT(mt_sampler_choose_traced(s, &p, logits, position, &trace, &id, &lp, NULL) == MT_OK);
    CU_ASSERT(mt_sampler_choose(s, &p, logits, position, &want, &want_lp, NULL) == MT_OK);
    CU_ASSERT(id == want && lp == want_lp);
    const char *names[] = {
        "logits logit_bias repetition_penalty presence_frequency temperature top_k typical_p top_p "
        "min_p",
        "logits logit_bias repetition_penalty presence_frequency top_k typical_p top_p min_p "
        "temperature"};
    CU_ASSERT_STRING_EQUAL(l.names, names[position & 1]);
    CU_ASSERT(l.kept[0] == 7 && l.kept[l.n - 1] <= 6);
    CU_ASSERT(l.top_id[0] == 0 && l.nucleus[0] >= 2 && l.nucleus[0] <= 7);
    for (size_t i = 1; i < l.n; i++)
      CU_ASSERT(l.kept[i] <= l.kept[i - 1] && l.nucleus[i] <= l.kept[i]);
  }
  stages l = {0};
  const mt_sample_trace trace = {note, &l, 3};
  uint32_t id;
  p = neutral();
  const float three[] = {2, 1, 0.1f, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  CU_ASSERT(mt_sampler_choose_traced(s, &p, three, 0, &trace, &id, NULL, NULL) == MT_OK);
  CU_ASSERT(l.n == 1 && fabs(l.top_prob[0] - 0.6590) < 1e-4 &&
            fabs(l.entropy[0] - 0.84674) < 1e-5 && l.nucleus[0] == 2);
  p.temperature = 0;
  l = (stages){0};
  CU_ASSERT(mt_sampler_choose_traced(s, &p, three, 0, &trace, &id, NULL, NULL) == MT_OK && id == 0);
  CU_ASSERT_STRING_EQUAL(l.names, "logits greedy");
  CU_ASSERT(l.kept[1] == 1 && l.entropy[1] == 0 && l.nucleus[1] == 1);
  mt_sampler_free(s);
}

MT_TEST_MAIN("sample: sampler", {"percentages", test_percentages},
             {"frequencies", test_frequencies}, {"draw", test_draw}, {"greedy", test_greedy},
             {"bias", test_bias}, {"params", test_params}, {"errors", test_errors},
             {"extremes", test_extremes}, {"large vocabulary", test_large_vocabulary},
             {"top logprobs", test_top_logprobs}, {"softmax blocks", test_softmax_blocks},
             {"history", test_history}, {"history, large", test_history_large},
             {"loop broken", test_loop_broken}, {"seeds", test_seeds}, {"trace", test_trace})
