/* The bits of the sampler. Its whole chain written out plainly (everything sorted, one sum after
 * the other) must give the same ids, probabilities and log-probabilities by memcmp, over rows of
 * many kinds; and hashes of ids, probabilities and reports are pinned. Whoever changes the recipe
 * on purpose changes both. */
#include <math.h>

#include "mt_test.h"
#include "mutirao/sample.h"

/* ---- rows of logits ------------------------------------------------------------------------- */

typedef enum row_kind {
  ROW_FLAT,
  ROW_PEAKED,
  ROW_TIES,
  ROW_HOLES,
  ROW_EQUAL,
  ROW_ONE,     /* one candidate */
  ROW_EXTREME, /* the ends of f32 */
  ROW_WIDE,
  ROW_TINY, /* probabilities that are subnormal numbers, or 0 */
  N_ROW_KINDS,
  /* The first two of each four, of which the sampler takes its samples, are unlike the others: less
   * probable by far, or a little more probable. */
  ROW_DECOY_LOW = N_ROW_KINDS,
  ROW_DECOY_HIGH
} row_kind;

static double gauss(uint64_t seed, uint32_t stream, size_t i) { /* near enough: a sum of four */
  double g = 0;
  for (uint32_t k = 0; k < 4; k++) g += mt_uniform(seed, stream, i, k) - 0.5;
  return g * 1.73;
}

static float row_value(row_kind kind, uint64_t seed, uint32_t stream, size_t n, size_t i) {
  static const float extreme[] = {3e38f, -3e38f, 0x1p-149f, -0.0f, 0, 2.9e38f, -1, 1e-30f};
  double g = gauss(seed, stream, i), u = mt_uniform(seed, stream, i, 4);
  switch (kind) {
    case ROW_FLAT: return (float)(0.3 * g);
    case ROW_PEAKED: return (float)(2 * g + (u < 0.01 ? 6 + 600 * u : 0));
    case ROW_TIES: return (float)(rint(6 * g) / 4);
    case ROW_HOLES: return u < 0.5 || i / 64 % 3 == 1 ? -INFINITY : (float)(3 * g);
    case ROW_EQUAL: return 1.25f;
    case ROW_ONE: return i == n / 3 ? (float)g : -INFINITY;
    case ROW_EXTREME: return u < 0.2 ? -INFINITY : extreme[(size_t)(8000 * u) % 8];
    case ROW_WIDE: return (float)(60 * g);
    case ROW_DECOY_LOW: return (float)(0.3 * g - (i % 4 < 2 ? 4 : 0));
    case ROW_DECOY_HIGH: return (float)(0.05 * g + (i % 4 < 2 ? 0.5 : 0));
    default: return (float)(3 * g - (i % 5 ? 738 : 0));
  }
}

static void fill_row(float *x, row_kind kind, uint64_t seed, uint32_t stream, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = row_value(kind, seed, stream, n, i);
  if (kind == ROW_HOLES || kind == ROW_EXTREME) x[n / 2] = 0.5f; /* never all −infinity */
}

/* ---- the chain, plainly --------------------------------------------------------------------- */

enum { BLOCK = 64 };

/* prob [n] ← softmax of y; −infinity is no candidate. */
static void plain_softmax(const double *y, size_t n, double *prob, double *max, double *sum) {
  *max = -INFINITY;
  *sum = 0;
  for (size_t b = 0; b < n; b += BLOCK) {
    size_t end = b + BLOCK < n ? b + BLOCK : n;
    double m = -INFINITY, t = 0;
    for (size_t i = b; i < end; i++) m = y[i] > m ? y[i] : m;
    for (size_t i = b; i < end; i++) {
      prob[i] = m == -INFINITY ? 0 : mt_exp64(y[i] - m);
      t += prob[i];
    }
    if (t == 0) continue;
    *sum = m > *max ? *sum * mt_exp64(*max - m) + t : *sum + t * mt_exp64(m - *max);
    *max = m > *max ? m : *max;
  }
  for (size_t b = 0; b < n; b += BLOCK) {
    size_t end = b + BLOCK < n ? b + BLOCK : n;
    double m = -INFINITY;
    for (size_t i = b; i < end; i++) m = y[i] > m ? y[i] : m;
    double share = mt_exp64(m - *max) / *sum;
    for (size_t i = b; i < end; i++) prob[i] *= share;
  }
}

typedef struct ranked {
  double key, weight;
  uint32_t id;
} ranked;

static int by_key(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Of the n ids of r keeps the shortest prefix by key, ties by id, whose weights reach `target`;
 * bans the others. */
static void plain_prefix(double *y, size_t vocab, ranked *r, size_t n, double target) {
  double *was = mt_malloc(vocab, sizeof *was), sum = 0;
  CU_ASSERT_FATAL(was != NULL);
  memcpy(was, y, vocab * sizeof *was);
  for (size_t i = 0; i < vocab; i++) y[i] = -INFINITY;
  qsort(r, n, sizeof *r, by_key);
  for (size_t i = 0; i < n && !(i && sum >= target); i++) {
    sum += r[i].weight;
    y[r[i].id] = was[r[i].id];
  }
  free(was);
}

typedef struct plain {
  const mt_sample_params *p;
  double *y, *prob; /* [n] */
  ranked *r;        /* [n] */
  size_t n;
} plain;

static void plain_temperature(plain *c) {
  double max = -INFINITY;
  if (c->p->temperature == 1) return;
  for (size_t i = 0; i < c->n; i++) max = c->y[i] > max ? c->y[i] : max;
  for (size_t i = 0; i < c->n; i++)
    if (c->y[i] > -INFINITY) c->y[i] = (c->y[i] - max) / c->p->temperature;
}

static void plain_top_k(plain *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++)
    if (c->y[i] > -INFINITY) c->r[n++] = (ranked){c->y[i], 1, (uint32_t)i};
  if (c->p->top_k < n) plain_prefix(c->y, c->n, c->r, n, c->p->top_k);
}

static void plain_typical_p(plain *c) {
  double max, sum, h = 0;
  size_t n = 0;
  plain_softmax(c->y, c->n, c->prob, &max, &sum);
  double log_sum = mt_log64(sum);
  for (size_t i = 0; i < c->n; i++)
    if (c->prob[i] > 0) h -= c->prob[i] * ((c->y[i] - max) - log_sum);
  for (size_t i = 0; i < c->n; i++) {
    double surprise = log_sum - (c->y[i] - max), far = surprise - h;
    if (c->prob[i] > 0) c->r[n++] = (ranked){far > 0 ? -far : far, c->prob[i], (uint32_t)i};
  }
  plain_prefix(c->y, c->n, c->r, n, c->p->typical_p - 1e-12);
}

static void plain_top_p(plain *c) {
  double max, sum;
  size_t n = 0;
  plain_softmax(c->y, c->n, c->prob, &max, &sum);
  for (size_t i = 0; i < c->n; i++)
    if (c->prob[i] > 0) c->r[n++] = (ranked){c->y[i], c->prob[i], (uint32_t)i};
  plain_prefix(c->y, c->n, c->r, n, c->p->top_p - 1e-12);
}

static void plain_min_p(plain *c) {
  double max = -INFINITY;
  for (size_t i = 0; i < c->n; i++) max = c->y[i] > max ? c->y[i] : max;
  for (size_t i = 0; i < c->n; i++)
    if (!(mt_exp64(c->y[i] - max) >= c->p->min_p)) c->y[i] = -INFINITY;
}

static void plain_greedy(plain *c) {
  size_t best = 0;
  for (size_t i = 1; i < c->n; i++) best = c->y[i] > c->y[best] ? i : best;
  for (size_t i = 0; i < c->n; i++)
    if (i != best) c->y[i] = -INFINITY;
}

/* count [n]: generated times + 1 of the ids seen, else 0. */
static void plain_chain(plain *c, const unsigned *count) {
  const mt_sample_params *p = c->p;
  double max, sum;
  for (size_t i = 0; i < p->n_bias; i++) c->y[p->bias[i].id] += (double)p->bias[i].bias;
  for (size_t i = 0; i < c->n; i++) {
    double *v = &c->y[i];
    if (!count[i]) continue;
    *v = *v > 0 ? *v / p->repetition_penalty : *v * p->repetition_penalty;
    if (count[i] > 1) *v -= p->presence_penalty + p->frequency_penalty * (count[i] - 1);
  }
  if (p->temperature > 0) {
    if (!p->temperature_last) plain_temperature(c);
    if (p->top_k) plain_top_k(c);
    if (p->typical_p < 1) plain_typical_p(c);
    if (p->top_p < 1) plain_top_p(c);
    if (p->min_p > 0) plain_min_p(c);
    if (p->temperature_last) plain_temperature(c);
  } else {
    plain_greedy(c);
  }
  plain_softmax(c->y, c->n, c->prob, &max, &sum);
}

/* ---- requests ------------------------------------------------------------------------------- */

static const mt_logit_bias BIAS[] = {{0, -INFINITY}, {3, 2.5f}, {3, -0.25f}, {4, -100}};

static const struct {
  double temperature;
  uint32_t top_k;
  double typical_p, top_p, min_p, repetition, presence, frequency;
  bool temperature_last, bias;
} REQUEST[] = {
    {1, 0, 1, 1, 0, 1, 0, 0, false, false},
    {0, 0, 1, 1, 0, 1, 0, 0, false, false},
    {0.7, 0, 1, 1, 0, 1, 0, 0, false, false},
    {1, 0, 1, 0.9, 0, 1, 0, 0, false, false},
    {0.8, 0, 1, 0.5, 0, 1, 0, 0, false, false},
    {1.7, 0, 1, 0.95, 0, 1, 0, 0, true, false},
    {1, 0, 1, 0.25, 0, 1, 0, 0, false, false}, /* equal ones may meet it but for rounding */
    {1, 0, 1, 0, 0, 1, 0, 0, false, false},
    {1, 0, 1, 0.9999999999, 0, 1, 0, 0, false, false},
    {1, 1, 1, 1, 0, 1, 0, 0, false, false},
    {1, 40, 1, 1, 0, 1, 0, 0, false, false},
    {0.6, 40, 1, 0.9, 0, 1, 0, 0, false, false},
    {5e-324, 900, 1, 1, 0, 1, 0, 0, false, false},
    {100, 2500, 1, 1, 0, 1, 0, 0, false, false},
    {1, 0, 1, 1, 0.05, 1, 0, 0, false, false},
    {1, 0, 1, 1, 5e-324, 1, 0, 0, false, false},
    {1.5, 0, 1, 1, 1, 1, 0, 0, false, false},
    {1, 0, 0.9, 1, 0, 1, 0, 0, false, false},
    {0.7, 0, 0.3, 1, 0, 1, 0, 0, true, false},
    {1, 300, 0.8, 0.9, 0.02, 1, 0, 0, false, false},
    {1, 0, 1, 0.9, 0, 1.3, 0, 0, false, false},
    {0, 0, 1, 1, 0, 1, 0.6, 0.3, false, false},
    {1, 20, 1, 1, 0, 0.5, 0, 0, false, true},
};
enum { N_REQUESTS = sizeof REQUEST / sizeof REQUEST[0] };

static mt_sample_params request(size_t i) {
  return (mt_sample_params){.temperature = REQUEST[i].temperature,
                            .top_k = REQUEST[i].top_k,
                            .top_p = REQUEST[i].top_p,
                            .min_p = REQUEST[i].min_p,
                            .typical_p = REQUEST[i].typical_p,
                            .repetition_penalty = REQUEST[i].repetition,
                            .presence_penalty = REQUEST[i].presence,
                            .frequency_penalty = REQUEST[i].frequency,
                            .bias = BIAS,
                            .n_bias = REQUEST[i].bias ? sizeof BIAS / sizeof BIAS[0] : 0,
                            .temperature_last = REQUEST[i].temperature_last,
                            .seed = i + 1,
                            .choice = (uint32_t)i % 3};
}

/* A history that the penalties see; count as plain_chain wants it. */
static void make_history(mt_sampler *s, unsigned *count, size_t n, uint64_t seed) {
  mt_sampler_reset(s);
  memset(count, 0, n * sizeof *count);
  for (uint64_t i = 0; i < 40; i++) {
    uint32_t id = (uint32_t)(mt_uniform(seed, 99, i, 0) * (double)n);
    bool generated = i >= 15;
    CU_ASSERT_FATAL(mt_sampler_accept(s, id, generated) == MT_OK);
    if (!count[id]) count[id] = 1;
    count[id] += generated;
  }
}

/* BIAS names ids up to 4, and a row of one candidate, or of a few, must not be banned as a whole.
 */
static bool fits(size_t which, row_kind kind, size_t n) {
  return !REQUEST[which].bias || (n > 64 && kind != ROW_ONE);
}

/* With the table of kernels of this name; NULL: what the CPU has. */
static mt_sampler *sampler(const char *isa, size_t vocab) {
  const mt_kernels *kn = NULL;
  mt_sampler *s = NULL;
  CU_ASSERT_FATAL(mt_kernels_get(isa, &kn, NULL) == MT_OK);
  CU_ASSERT_FATAL(mt_sampler_new(&s, kn, vocab, NULL) == MT_OK);
  return s;
}

/* ---- against the plain chain ---------------------------------------------------------------- */

enum { MAX_VOCAB = 131072 };

typedef struct memory {
  float x[MAX_VOCAB];
  double y[MAX_VOCAB], prob[MAX_VOCAB], got[MAX_VOCAB], z[MAX_VOCAB];
  ranked r[MAX_VOCAB];
  unsigned count[MAX_VOCAB];
} memory;

static void compare(memory *b, mt_sampler *s, size_t which, row_kind kind, size_t n,
                    uint64_t seed) {
  const mt_sample_params params = request(which), *p = &params;
  uint32_t id;
  double logprob, max, sum, draw = 0;
  size_t want = n;
  fill_row(b->x, kind, seed, 0, n);
  make_history(s, b->count, n, seed);
  for (size_t i = 0; i < n; i++) b->z[i] = b->y[i] = (double)b->x[i];
  plain_chain(&(plain){p, b->y, b->prob, b->r, n}, b->count);
  double u = mt_uniform(p->seed, p->choice, seed, 0);
  for (size_t i = 0; i < n && draw <= u; i++) {
    draw += b->prob[i];
    if (b->prob[i] > 0) want = i;
  }
  mt_err e = {0};
  int rc = mt_sampler_distribution(s, p, b->z, b->got, &e);
  bool same = !rc && !memcmp(b->got, b->prob, n * sizeof *b->got);
  rc = mt_sampler_choose(s, p, b->x, seed, &id, &logprob, &e);
  plain_softmax(b->z, n, b->got, &max, &sum);
  bool right = !rc && id == want && logprob == ((double)b->x[id] - max) - mt_log64(sum);
  if (!same || !right)
    printf("request %zu, row kind %d of %zu ids, seed %llu: %s %s %s\n", which, kind, n,
           (unsigned long long)seed, same ? "" : "other probabilities", right ? "" : "other choice",
           e.msg);
  CU_ASSERT(same && right);
}

static void test_plain(void) {
  static const size_t VOCAB[] = {1, 2, 63, 64, 65, 130, 1000, 4096, 5000};
  uint64_t seed = mt_test_seed();
  memory *b = mt_malloc(1, sizeof *b);
  CU_ASSERT_FATAL(b != NULL);
  for (size_t v = 0; v < sizeof VOCAB / sizeof VOCAB[0]; v++) {
    mt_sampler *s = sampler(NULL, VOCAB[v]);
    for (size_t i = 0; i < N_REQUESTS; i++)
      for (row_kind kind = 0; kind < N_ROW_KINDS; kind++)
        for (uint64_t k = 0; fits(i, kind, VOCAB[v]) && k < 3; k++)
          compare(b, s, i, kind, VOCAB[v], seed + k);
    mt_sampler_free(s);
  }
  free(b);
}

/* Where sums are long: a vocabulary as models have it, and a power of two, of which halves and
 * quarters of equal tokens meet p exactly. */
static void test_plain_large(void) {
  static const size_t VOCAB[] = {128256, MAX_VOCAB};
  static const row_kind KINDS[] = {ROW_FLAT,  ROW_PEAKED,    ROW_TIES,
                                   ROW_EQUAL, ROW_DECOY_LOW, ROW_DECOY_HIGH};
  static const size_t REQUESTS[] = {0, 1, 3, 4, 6, 10, 13, 17, 20};
  uint64_t seed = mt_test_seed();
  memory *b = mt_malloc(1, sizeof *b);
  CU_ASSERT_FATAL(b != NULL);
  for (size_t v = 0; v < 2; v++) {
    mt_sampler *s = sampler(NULL, VOCAB[v]);
    for (size_t i = 0; i < sizeof REQUESTS / sizeof REQUESTS[0]; i++)
      for (size_t k = 0; k < sizeof KINDS / sizeof KINDS[0]; k++)
        compare(b, s, REQUESTS[i], KINDS[k], VOCAB[v], seed + i);
    mt_sampler_free(s);
  }
  free(b);
}

/* ---- pinned --------------------------------------------------------------------------------- */

static void hash_stage(void *arg, const mt_sample_stage *st) {
  uint64_t *h = arg, n[] = {st->kept, st->nucleus, st->n_top};
  *h = mt_hash64(*h, st->name, strlen(st->name));
  *h = mt_hash64(*h, n, sizeof n);
  *h = mt_hash64(*h, &st->entropy, sizeof st->entropy);
  for (size_t i = 0; i < st->n_top; i++) {
    *h = mt_hash64(*h, &st->top[i].id, sizeof st->top[i].id);
    *h = mt_hash64(*h, &st->top[i].logprob, sizeof st->top[i].logprob);
  }
}

static uint64_t hash_row(memory *b, mt_sampler *s, size_t which, row_kind kind, size_t n,
                         uint64_t h) {
  const mt_sample_params params = request(which), *p = &params;
  const mt_sample_trace trace = {hash_stage, &h, 5};
  uint32_t id = 0;
  double logprob = 0;
  fill_row(b->x, kind, 4711, (uint32_t)n, n);
  make_history(s, b->count, n, n);
  for (size_t i = 0; i < n; i++) b->z[i] = (double)b->x[i];
  CU_ASSERT(mt_sampler_distribution(s, p, b->z, b->got, NULL) == MT_OK);
  h = mt_hash64(h, b->got, n * sizeof *b->got);
  for (uint64_t position = 0; position < 5; position++) {
    CU_ASSERT(mt_sampler_choose(s, p, b->x, position, &id, &logprob, NULL) == MT_OK);
    h = mt_hash64(h, &id, sizeof id);
    h = mt_hash64(h, &logprob, sizeof logprob);
  }
  CU_ASSERT(mt_sampler_choose_traced(s, p, b->x, 7, &trace, &id, &logprob, NULL) == MT_OK);
  return mt_hash64(h, &id, sizeof id);
}

static const uint64_t PIN[N_REQUESTS] = {
    0xd3844ddc8d2f4d3full, 0x715cc16d3375c347ull, 0xb10bb17450c242efull, 0xfa1ec8294960a468ull,
    0x3f2740690ad0ae91ull, 0x7676df719adb9da2ull, 0x362f1c821038b20cull, 0x957deb0fed7e397aull,
    0x96f9fbfa4e5b94c6ull, 0x183bacf509b6da70ull, 0xc127948dde4db739ull, 0xc273b4d0196a6868ull,
    0x960686011d1b1335ull, 0x200deac96330cd46ull, 0xc98b42c2bee4a774ull, 0x7d11954485d228b4ull,
    0xf9a7cdfa9aa34bd0ull, 0xa7367827f3937c5full, 0x2b272fa83467fe53ull, 0xb562f1be994c77baull,
    0x6757770453795957ull, 0x9855886eb621882eull, 0x2144f92a0621b766ull,
};

static uint64_t hash_request(memory *b, const char *isa, size_t which) {
  static const size_t VOCAB[] = {1, 64, 100, 3000, 20011};
  uint64_t h = MT_HASH_INIT;
  for (size_t v = 0; v < sizeof VOCAB / sizeof VOCAB[0]; v++) {
    mt_sampler *s = sampler(isa, VOCAB[v]);
    for (row_kind kind = 0; kind < N_ROW_KINDS; kind++)
      if (fits(which, kind, VOCAB[v])) h = hash_row(b, s, which, kind, VOCAB[v], h);
    mt_sampler_free(s);
  }
  return h;
}

/* By every instruction set of this CPU. */
static void test_pinned(void) {
  memory *b = mt_malloc(1, sizeof *b);
  CU_ASSERT_FATAL(b != NULL);
  for (const char *const *isa = mt_kernels_names(); *isa; isa++)
    for (size_t i = 0; i < N_REQUESTS; i++) {
      uint64_t h = hash_request(b, *isa, i);
      if (h != PIN[i]) printf("%s: 0x%016llxull,\n", *isa, (unsigned long long)h);
      CU_ASSERT(h == PIN[i]);
    }
  free(b);
}

MT_TEST_MAIN("sample: recipe", {"plain", test_plain}, {"plain, large", test_plain_large},
             {"pinned", test_pinned})
