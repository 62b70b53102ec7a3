/* A step of many rows, which between nodes is cut in two tiles whose sums travel while the other
 * computes: three prompts at once, and the text after them, have the bits that they have in steps
 * too short to be cut. Over the weights and layers that differ in what follows a sum: quantized
 * activations, biases, norms of the sum. That steps were cut is counted. */
#include "mpi_test.h"
#include "mutirao/engine.h"

enum { SEQUENCES = 3, LONGEST = 200, TOKENS = 3, ROOM = 768, WHOLE = 512, SHORT = 24 };

/* Tiles of 210 rows: the second begins within the second prompt. Lengths that no tile of rows or
 * block divides. */
static const size_t LENGTH[SEQUENCES] = {151, 130, 139};

static const char *root = ".";
static mt_comm *comm;

typedef struct result {
  size_t vocab;
  float *logits[SEQUENCES]; /* [LENGTH][vocab] */
  uint32_t id[SEQUENCES][TOKENS];
  size_t n_ids[SEQUENCES];
  uint64_t steps, tiled_steps; /* of rank 0 */
} result;

typedef struct sequence {
  result *r;
  int i;
} sequence;

static int keep_logits(void *arg, size_t position, const float *logits) {
  const sequence *s = arg;
  memcpy(s->r->logits[s->i] + position * s->r->vocab, logits, s->r->vocab * sizeof *logits);
  return 0;
}

static int keep_id(void *arg, const mt_token_event *ev) {
  const sequence *s = arg;
  s->r->id[s->i][s->r->n_ids[s->i]++] = ev->id;
  return 0;
}

static int lead(mt_engine *g, result *r, mt_err *e) {
  sequence seq[SEQUENCES];
  uint32_t ids[LONGEST];
  int rc = MT_OK;
  for (int i = 0; !rc && i < SEQUENCES; i++) {
    seq[i] = (sequence){r, i};
    for (size_t k = 0; k < LENGTH[i]; k++)
      ids[k] = (uint32_t)(mt_uniform(11, (uint32_t)i, k, 0) * (double)r->vocab);
    mt_request q = {.ids = ids,
                    .n_ids = LENGTH[i],
                    .max_tokens = TOKENS,
                    .on_prompt = keep_logits,
                    .on_token = keep_id,
                    .arg = &seq[i]};
    mt_sample_params_init(&q.sample);
    q.sample.temperature = 0;
    rc = mt_engine_submit(g, &q, e);
  }
  if (!rc) rc = mt_engine_run(g, e);
  mt_model_stats *stats = calloc((size_t)mt_comm_size(comm), sizeof *stats);
  if (!stats) exit(2);
  if (!rc) rc = mt_engine_stats(g, stats, e);
  for (int i = 1; i < mt_comm_size(comm); i++)
    CHECK(stats[i].steps == stats->steps && stats[i].tiled_steps == stats->tiled_steps);
  r->steps = stats->steps;
  r->tiled_steps = stats->tiled_steps;
  free(stats);
  int stop = mt_engine_stop(g, e);
  return rc ? rc : stop;
}

/* Steps of up to `chunk` prompt rows. */
static void run(const char *path, int threads, size_t chunk, result *r) {
  mt_err e = {0};
  mt_team *team = NULL;
  mt_model *m = NULL;
  mt_engine *g = NULL;
  mt_model_options o = {
      .kv_type = MT_KV_F16, .kv_tokens = ROOM, .max_seqs = SEQUENCES, .max_rows = WHOLE};
  *r = (result){0};
  int rc = mt_kernels_get(NULL, &o.kernels, &e);
  if (!rc) rc = mt_team_new(&team, NULL, threads, NULL, true, &e);
  if (!rc) rc = mt_model_load(&m, comm, team, path, &o, &e);
  if (!rc) rc = mt_engine_new(&g, m, chunk, &e);
  if (!rc) {
    r->vocab = mt_model_get_config(m)->vocab;
    for (int i = 0; i < SEQUENCES; i++)
      if (!(r->logits[i] = calloc(LENGTH[i] * r->vocab, sizeof(float)))) exit(2);
    rc = mt_comm_rank(comm) == 0 ? lead(g, r, &e) : mt_engine_follow(g, &e);
  }
  if (rc) fprintf(stderr, "%s: %s\n", path, e.msg);
  CHECK(rc == MT_OK);
  if (rc) exit(1);
  mt_engine_free(g);
  mt_model_free(m);
  mt_team_free(team);
}

static void check_model(const char *name, int threads) {
  char path[500];
  result tiled, whole;
  snprintf(path, sizeof path, "%s/tests/data/%s", root, name);
  run(path, threads, WHOLE, &tiled);
  run(path, 1, SHORT, &whole);
  bool nodes = mt_comm_groups(comm) > 1;
  for (int i = 0; i < SEQUENCES; i++) {
    bool same = !mt_comm_rank(comm) ? !memcmp(tiled.logits[i], whole.logits[i],
                                              LENGTH[i] * whole.vocab * sizeof(float))
                                    : true;
    if (!same) fprintf(stderr, "%s: other bits of prompt %d in tiles\n", name, i);
    CHECK(same);
    CHECK(mt_comm_rank(comm) || tiled.n_ids[i] == TOKENS);
    CHECK(!memcmp(tiled.id[i], whole.id[i], sizeof whole.id[i]));
    free(tiled.logits[i]);
    free(whole.logits[i]);
  }
  if (mt_comm_rank(comm)) return;
  CHECK(tiled.steps == TOKENS && tiled.tiled_steps == (nodes ? 1 : 0));
  CHECK(whole.steps > TOKENS && whole.tiled_steps == 0);
}

int main(int argc, char **argv) {
  static const char *const models[] = {
      "models/llama-gqa-f32",    "gguf/tiny-llama-Q4_0.gguf",    "gguf/tiny-llama-Q4_K.gguf",
      "models/gemma3-swa8-bf16", "models/llama-bias-bf16",       "models/qwen2-bias-tied-bf16",
      "models/phi3-fused-bf16",  "models/qwen3-qknorm-tied-bf16"};
  if (getenv("MUTIRAO_ROOT")) root = getenv("MUTIRAO_ROOT");
  comm = test_open(argc, argv);
  mt_comm_set_oversubscribed(comm, true);
  mt_log_set_level(MT_LOG_ERROR);
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
    check_model(models[i], 1 + (int)i % 3);
  return test_close(comm);
}
