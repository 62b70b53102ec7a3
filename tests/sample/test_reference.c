/* Every vector of tests/data/sampling/sampling.json (float64, checked against transformers'
 * processors). */
#include <math.h>

#include "mt_test.h"
#include "mutirao/json.h"
#include "mutirao/sample.h"

static mt_json *root;
static const mt_json *cases;

static const mt_json *load(void) {
  if (cases) return cases;
  char path[4096];
  mt_err e = {0};
  snprintf(path, sizeof path, "%s/tests/data/sampling/sampling.json", mt_test_root());
  if (mt_json_read_file(&root, path, 16u << 20, &e)) printf("%s\n", e.msg);
  cases = mt_json_get(root, "cases");
  CU_ASSERT_FATAL(mt_json_len(cases) >= 30);
  return cases;
}

static double number(const mt_json *j, const char *key) {
  double v = NAN;
  CU_ASSERT_FATAL(mt_json_number(mt_json_get(j, key), &v));
  return v;
}

/* A list of numbers, null for −infinity. The caller frees it. */
static double *numbers(const mt_json *list, size_t *n) {
  *n = mt_json_len(list);
  double *x = mt_malloc(*n, sizeof *x);
  CU_ASSERT_FATAL(x != NULL);
  for (size_t i = 0; i < *n; i++)
    if (!mt_json_number(mt_json_at(list, i), &x[i])) x[i] = -INFINITY;
  return x;
}

typedef struct vector {
  const mt_json *j;
  const char *name;
  double *logits, *prob;
  size_t n;
  const mt_kernels *kn;
  mt_sampler *s;
} vector;

static void for_each(void (*fn)(vector *v)) {
  const mt_json *all = load();
  for (size_t i = 0; i < mt_json_len(all); i++) {
    vector v = {.j = mt_json_at(all, i)};
    v.name = mt_json_string(mt_json_get(v.j, "name"), NULL);
    v.logits = numbers(mt_json_get(v.j, "logits"), &v.n);
    v.prob = mt_calloc(v.n, sizeof *v.prob);
    CU_ASSERT_FATAL(v.n > 0 && v.prob != NULL && !mt_kernels_get(NULL, &v.kn, NULL) &&
                    !mt_sampler_new(&v.s, v.kn, v.n, NULL));
    fn(&v);
    mt_sampler_free(v.s);
    free(v.logits);
    free(v.prob);
  }
}

static void distribution(vector *v, const mt_sample_params *p) {
  mt_err e = {0};
  int rc = mt_sampler_distribution(v->s, p, v->logits, v->prob, &e);
  if (rc) printf("%s: %s\n", v->name, e.msg);
  CU_ASSERT_FATAL(rc == 0);
}

static void accept_previous(vector *v, const mt_json *ids) {
  mt_sampler_reset(v->s);
  for (size_t i = 0; i < mt_json_len(ids); i++) {
    int64_t id = -1;
    CU_ASSERT_FATAL(mt_json_int(mt_json_at(ids, i), &id));
    CU_ASSERT(mt_sampler_accept(v->s, (uint32_t)id, true) == 0);
  }
}

static void check_near(const vector *v, const char *what, double got, double want,
                       double tolerance) {
  bool ok = got == want || fabs(got - want) <= tolerance;
  if (!ok) printf("%s, %s: %.17g, want %.17g\n", v->name, what, got, want);
  CU_ASSERT(ok);
}

static bool holds(const mt_json *list, size_t id) {
  for (size_t i = 0; i < mt_json_len(list); i++) {
    int64_t x = -1;
    if (mt_json_int(mt_json_at(list, i), &x) && x == (int64_t)id) return true;
  }
  return false;
}

/* Every kept id that the distribution can show is in `kept`, and the reverse. */
static void check_kept(const vector *v, const char *what, const mt_json *kept) {
  size_t n = 0;
  bool same = true;
  for (size_t i = 0; i < v->n; i++) {
    n += v->prob[i] > 0;
    if (v->prob[i] > 0 && !holds(kept, i)) same = false;
  }
  /* a kept id so improbable that its probability is 0 in double does not show */
  for (size_t i = 0; i < mt_json_len(kept); i++) {
    int64_t id = -1;
    CU_ASSERT_FATAL(mt_json_int(mt_json_at(kept, i), &id) && id >= 0 && (size_t)id < v->n);
    if (v->prob[id] > 0) continue;
    double max = v->logits[id];
    for (size_t k = 0; k < v->n; k++) max = fmax(max, v->logits[k]);
    if (v->logits[id] > max - 745) same = false;
  }
  if (!same || !n)
    printf("%s, %s: other ids kept (%zu, want %zu)\n", v->name, what, n, mt_json_len(kept));
  CU_ASSERT(same && n);
}

static void softmax(vector *v) {
  const mt_json *by_t = mt_json_get(v->j, "softmax");
  size_t seen = 0;
  for (const mt_json_member *m = mt_json_first(by_t); m; m = mt_json_next(by_t, m), seen++) {
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.temperature = strtod(mt_json_member_key(m), NULL);
    distribution(v, &p);
    size_t n;
    double *want = numbers(mt_json_member_value(m), &n);
    CU_ASSERT_FATAL(n == v->n);
    for (size_t i = 0; i < n; i++)
      check_near(v, "softmax", v->prob[i], want[i], 1e-13 * want[i] + 1e-300);
    free(want);
  }
  CU_ASSERT(seen == 3);
}

static void greedy(vector *v) {
  mt_sample_params p;
  mt_sample_params_init(&p);
  p.temperature = 0;
  distribution(v, &p);
  size_t best = (size_t)number(v->j, "argmax");
  for (size_t i = 0; i < v->n; i++) CU_ASSERT(v->prob[i] == (i == best ? 1.0 : 0.0));
  p.temperature = 1e-300; /* T → 0: the same, but for exact ties */
  distribution(v, &p);
  CU_ASSERT(v->prob[best] > 0);
  for (size_t i = 0; i < v->n; i++) CU_ASSERT(v->prob[i] == 0 || v->logits[i] == v->logits[best]);
}

/* The public functions take the engine's f32 logits: exact where the vector is, else near. */
static void logprobs(vector *v) {
  float *x = mt_malloc(v->n, sizeof *x);
  CU_ASSERT_FATAL(x != NULL);
  double step = 0;
  bool exact = true;
  for (size_t i = 0; i < v->n; i++) {
    x[i] = (float)v->logits[i];
    if ((double)x[i] == v->logits[i]) continue;
    exact = false;
    step = fmax(step, fabs((double)x[i] - v->logits[i]));
  }
  const mt_json *top = mt_json_get(v->j, "logprobs_top5");
  mt_candidate got[5];
  int n = mt_top_logprobs(v->kn, x, v->n, 5, got);
  CU_ASSERT_FATAL(n == (int)mt_json_len(top) && n > 0);
  for (int i = 0; i < n; i++) {
    const mt_json *t = mt_json_at(top, (size_t)i);
    uint32_t id = (uint32_t)number(t, "id");
    if (exact || strcmp(v->name, "tiny-differences")) CU_ASSERT(got[i].id == id);
    double want = number(t, "logprob"), tolerance = 2 * step + 1e-14 * fabs(want) + 1e-14;
    check_near(v, "top logprob", got[i].logprob, want, tolerance);
    CU_ASSERT(mt_logprob(v->kn, x, v->n, got[i].id) == got[i].logprob);
  }
  double z = number(v->j, "logsumexp"), best = v->logits[(size_t)number(v->j, "argmax")];
  check_near(v, "logsumexp", best - got[0].logprob, z, 2 * step + 1e-14 * fabs(z) + 1e-14);
  free(x);
}

static void top_k(vector *v) {
  const mt_json *list = mt_json_get(v->j, "top_k");
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *t = mt_json_at(list, i);
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.top_k = (uint32_t)number(t, "k");
    distribution(v, &p);
    check_kept(v, "top_k", mt_json_get(t, "kept"));
  }
  CU_ASSERT(mt_json_len(list) == 3);
}

/* boundary_tie: our rule for ties is the vectors' own, so the sets are equal there too.
 * rounding_edge: the sum meets p to 1e-9; in double with the same 1e-12 of slack it still goes the
 * vectors' way. */
static void top_p(vector *v) {
  const mt_json *list = mt_json_get(v->j, "top_p");
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *t = mt_json_at(list, i);
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.top_p = number(t, "p");
    distribution(v, &p);
    check_kept(v, "top_p", mt_json_get(t, "kept"));
  }
  CU_ASSERT(mt_json_len(list) == 4);
}

static void min_p(vector *v) {
  const mt_json *list = mt_json_get(v->j, "min_p");
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *t = mt_json_at(list, i);
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.min_p = number(t, "min_p");
    distribution(v, &p);
    check_kept(v, "min_p", mt_json_get(t, "kept"));
  }
  CU_ASSERT(mt_json_len(list) == 3);
}

static void typical_p(vector *v) {
  const mt_json *list = mt_json_get(v->j, "typical_p");
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *t = mt_json_at(list, i);
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.typical_p = number(t, "p");
    distribution(v, &p);
    check_kept(v, "typical_p", mt_json_get(t, "kept"));
  }
  CU_ASSERT(mt_json_len(list) == 2);
}

/* The vectors give logits; we show the distribution that follows from them. */
static void check_logits(const vector *v, const char *what, const mt_json *list) {
  size_t n;
  double *want = numbers(list, &n), max = -INFINITY, sum = 0;
  CU_ASSERT_FATAL(n == v->n);
  for (size_t i = 0; i < n; i++) max = fmax(max, want[i]);
  for (size_t i = 0; i < n; i++) sum += exp(want[i] - max);
  for (size_t i = 0; i < n; i++) {
    double q = exp(want[i] - max) / sum;
    check_near(v, what, v->prob[i], q, 1e-12 * q + 1e-300);
  }
  free(want);
}

static double number_or(const mt_json *j, const char *key, double otherwise) {
  double v = otherwise;
  (void)mt_json_number(mt_json_get(j, key), &v);
  return v;
}

static void penalties(vector *v) {
  const mt_json *list = mt_json_get(v->j, "penalties");
  accept_previous(v, mt_json_get(v->j, "previous_ids"));
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *t = mt_json_at(list, i);
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.repetition_penalty = number_or(t, "repetition_penalty", 1);
    p.presence_penalty = number_or(t, "presence_penalty", 0);
    p.frequency_penalty = number_or(t, "frequency_penalty", 0);
    distribution(v, &p);
    check_logits(v, "penalties", mt_json_get(t, "logits"));
  }
  CU_ASSERT(mt_json_len(list) == 5);
}

static size_t read_bias(const mt_json *o, mt_logit_bias *out, size_t cap) {
  size_t n = 0;
  for (const mt_json_member *m = mt_json_first(o); m; m = mt_json_next(o, m)) {
    double b = 0;
    CU_ASSERT_FATAL(n < cap && mt_json_number(mt_json_member_value(m), &b));
    out[n++] = (mt_logit_bias){(uint32_t)strtoul(mt_json_member_key(m), NULL, 10), (float)b};
  }
  return n;
}

static void logit_bias(vector *v) {
  const mt_json *t = mt_json_get(v->j, "logit_bias");
  mt_logit_bias bias[8];
  mt_sample_params p;
  mt_sample_params_init(&p);
  p.bias = bias;
  p.n_bias = read_bias(mt_json_get(t, "bias"), bias, 8);
  CU_ASSERT(p.n_bias > 0);
  distribution(v, &p);
  check_logits(v, "logit_bias", mt_json_get(t, "logits"));
}

static void check_draws(const vector *v, const mt_json *t) {
  const mt_json *draws = mt_json_get(t, "draws");
  bool edge = number(t, "draw_edge") < 1e-12;
  CU_ASSERT(mt_json_len(draws) == 7);
  for (size_t i = 0; i < mt_json_len(draws); i++) {
    double u = number(mt_json_at(draws, i), "u");
    size_t want = (size_t)number(mt_json_at(draws, i), "id"),
           got = mt_sample_draw(v->prob, v->n, u);
    if (got != want && !edge) printf("%s, draw at %g: %zu, want %zu\n", v->name, u, got, want);
    CU_ASSERT(got == want || edge);
  }
}

static void composite(vector *v) {
  const mt_json *list = mt_json_get(v->j, "composite");
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *t = mt_json_at(list, i);
    mt_logit_bias bias[8];
    mt_sample_params p;
    mt_sample_params_init(&p);
    p.temperature = number(t, "temperature");
    p.top_k = (uint32_t)number(t, "top_k");
    p.top_p = number(t, "top_p");
    p.min_p = number(t, "min_p");
    p.typical_p = number(t, "typical_p");
    p.repetition_penalty = number(t, "repetition_penalty");
    p.presence_penalty = number(t, "presence_penalty");
    p.frequency_penalty = number(t, "frequency_penalty");
    p.temperature_last = !strcmp(mt_json_string(mt_json_get(t, "order"), NULL), "temperature_last");
    p.bias = bias;
    p.n_bias = read_bias(mt_json_get(t, "logit_bias"), bias, 8);
    accept_previous(v, mt_json_get(t, "previous_ids"));
    distribution(v, &p);
    const mt_json *want = mt_json_get(t, "probabilities");
    size_t n = 0;
    for (size_t k = 0; k < v->n; k++) n += v->prob[k] > 0;
    if (n != mt_json_len(want))
      printf("%s, composite %zu: %zu kept, want %zu\n", v->name, i, n, mt_json_len(want));
    CU_ASSERT(n == mt_json_len(want));
    for (const mt_json_member *m = mt_json_first(want); m; m = mt_json_next(want, m)) {
      double q = 0;
      CU_ASSERT_FATAL(mt_json_number(mt_json_member_value(m), &q));
      check_near(v, "composite", v->prob[strtoul(mt_json_member_key(m), NULL, 10)], q, 1e-12 * q);
    }
    check_draws(v, t);
  }
  CU_ASSERT(mt_json_len(list) == 4);
}

static void test_softmax(void) {
  for_each(softmax);
}
static void test_greedy(void) {
  for_each(greedy);
}
static void test_logprobs(void) {
  for_each(logprobs);
}
static void test_top_k(void) {
  for_each(top_k);
}
static void test_top_p(void) {
  for_each(top_p);
}
static void test_min_p(void) {
  for_each(min_p);
}
static void test_typical_p(void) {
  for_each(typical_p);
}
static void test_penalties(void) {
  for_each(penalties);
}
static void test_logit_bias(void) {
  for_each(logit_bias);
}
static void test_composite(void) {
  for_each(composite);
  mt_json_free(root);
  root = NULL;
  cases = NULL;
}

MT_TEST_MAIN("sample: reference vectors", {"softmax", test_softmax}, {"greedy", test_greedy},
             {"logprobs", test_logprobs}, {"top_k", test_top_k}, {"top_p", test_top_p},
             {"min_p", test_min_p}, {"typical_p", test_typical_p}, {"penalties", test_penalties},
             {"logit_bias", test_logit_bias}, {"composite, draws", test_composite})
