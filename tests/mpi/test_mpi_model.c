/* The promise, over every architecture and weight type in tests/data (and ../shared/reference where it is there): the
 * bits of the logits are those of tests/data/bits.txt for any number of ranks (one mpirun each), threads, prefill chunk,
 * instruction set, cache type and whatever else is in the batch; they agree with the float32 transformers logits and
 * with a float64 evaluation; a token changes no logit before it; greedy text is transformers'.
 *   --update   (one rank) writes tests/data/bits.txt anew: only when a recipe changed on purpose */
#include <math.h>
#include <unistd.h>

#include "mpi_test.h"
#include "mutirao/engine.h"

enum { MAX_TOKENS = 256, MAX_MODELS = 64 };

typedef struct fixture {
  char name[64];      /* in bits.txt */
  char path[400], golden[400], greedy[400], golden64[400];
  double tolerance;   /* of the spread of the reference logits */
} fixture;

typedef struct config {
  int threads;
  size_t chunk;       /* 0: all */
  const char *isa;
  mt_kv_type kv;
  bool neighbours;    /* three other sequences in the batch */
} config;

static const char *root = ".", *shared_dir;
static mt_comm *comm;
static mt_cpu *cpu;
static bool update;
static mt_buf updated;

static bool exists(const char *path) { return access(path, R_OK) == 0; }

/* ---- reference values -------------------------------------------------------------------------------------------------- */

typedef struct golden {
  uint32_t ids[MAX_TOKENS];
  size_t n, vocab;
  float *logits;   /* [n][vocab] of float32 transformers, or NULL */
  double *logits64; /* [n][vocab] of the float64 evaluation, or NULL */
  double spread;
} golden;

static void *read_tensor(mt_weights *w, const char *name, size_t *dim0, size_t *dim1) {
  const mt_tensor_info *t = mt_weights_find(w, name);
  if (!t) return NULL;
  void *p = malloc(t->bytes);
  mt_err e = {0};
  if (!p || mt_weights_read(w, t, 0, t->bytes, p, &e)) exit(2);
  *dim0 = t->shape.dim[0];
  *dim1 = t->shape.n > 1 ? t->shape.dim[1] : 1;
  return p;
}

static void read_golden(const fixture *f, golden *g) {
  mt_weights *w = NULL;
  mt_err e = {0};
  size_t one, rows, cols;
  *g = (golden){0};
  if (mt_weights_open(&w, f->golden, &e)) {
    fprintf(stderr, "%s\n", e.msg);
    exit(2);
  }
  int64_t *ids = read_tensor(w, "input_ids", &g->n, &one);
  g->logits = read_tensor(w, "logits", &rows, &g->vocab);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < g->n; i++) g->ids[i] = (uint32_t)ids[i];
  for (size_t i = 0; i < g->n * g->vocab; i++) {
    sum += g->logits[i];
    squares += (double)g->logits[i] * g->logits[i];
  }
  double mean = sum / (double)(g->n * g->vocab);
  g->spread = sqrt(squares / (double)(g->n * g->vocab) - mean * mean);
  free(ids);
  mt_weights_close(w);
  if (!exists(f->golden64) || mt_weights_open(&w, f->golden64, &e)) return;
  g->logits64 = read_tensor(w, "logits", &rows, &cols);
  CHECK(rows == g->n && cols == g->vocab);
  mt_weights_close(w);
}

static void free_golden(golden *g) {
  free(g->logits);
  free(g->logits64);
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

typedef struct run {
  float *logits; /* [n][vocab] */
  size_t vocab;
  uint32_t *out; /* generated ids */
  size_t n_out;
} run;

static int keep_logits(void *arg, size_t position, const float *logits) {
  run *r = arg;
  memcpy(r->logits + position * r->vocab, logits, r->vocab * sizeof *logits);
  return 0;
}

static int keep_id(void *arg, const mt_token_event *ev) {
  run *r = arg;
  r->out[r->n_out++] = ev->id;
  return 0;
}

typedef struct loaded {
  mt_team *team;
  mt_model *model;
  mt_engine *engine;
} loaded;

static void load(loaded *l, const fixture *f, const config *c) {
  mt_err e = {0};
  mt_model_options o = {.kv_type = c->kv, .kv_tokens = 4 * MAX_TOKENS, .max_seqs = 4,
                        .max_rows = c->chunk ? (c->chunk < 4 ? 4 : c->chunk) : 160};
  int rc = mt_kernels_get(c->isa, &o.kernels, &e);
  if (!rc) rc = mt_team_new(&l->team, cpu, c->threads, NULL, true, &e);
  if (!rc) rc = mt_model_load(&l->model, comm, l->team, f->path, &o, &e);
  if (!rc) rc = mt_engine_new(&l->engine, l->model, c->chunk, &e);
  if (rc) fprintf(stderr, "%s: %s\n", f->path, e.msg);
  CHECK(rc == MT_OK);
  if (rc) exit(1);
}

static void unload(loaded *l) {
  mt_engine_free(l->engine);
  mt_model_free(l->model);
  mt_team_free(l->team);
}

static void submit(loaded *l, const mt_request *r) {
  mt_err e = {0};
  int rc = mt_engine_submit(l->engine, r, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
}

/* Rank 0 submits and runs, the others follow; afterwards all go on. */
static void finish(loaded *l) {
  mt_err e = {0};
  bool leader = mt_comm_rank(comm) == 0;
  int rc = leader ? mt_engine_run(l->engine, &e) : MT_OK;
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
  rc = leader ? mt_engine_stop(l->engine, &e) : mt_engine_follow(l->engine, &e);
  CHECK(rc == MT_OK);
}

/* Logits of ids on rank 0, with neighbours of other lengths and contents, one of them generating, if asked for. */
static void logits_of(const fixture *f, const golden *g, const config *c, const uint32_t *ids, float *out) {
  loaded l = {0};
  load(&l, f, c);
  run r = {.logits = out, .vocab = g->vocab}, other = {.out = malloc(MAX_TOKENS * sizeof(uint32_t))};
  uint32_t backwards[MAX_TOKENS];
  for (size_t i = 0; i < g->n; i++) backwards[i] = g->ids[g->n - 1 - i];
  if (mt_comm_rank(comm) == 0) {
    mt_request q = {.ids = backwards, .n_ids = g->n / 2 + 1, .max_tokens = 9, .on_token = keep_id, .arg = &other};
    mt_sample_params_init(&q.sample);
    q.sample.temperature = 0;
    if (c->neighbours) submit(&l, &q);
    mt_request mine = q;
    mine.ids = ids;
    mine.n_ids = g->n;
    mine.max_tokens = 0;
    mine.on_token = NULL;
    mine.on_prompt = keep_logits;
    mine.arg = &r;
    submit(&l, &mine);
    q.n_ids = 3;
    q.max_tokens = 0;
    q.on_token = NULL;
    if (c->neighbours) submit(&l, &q);
    q.n_ids = g->n;
    if (c->neighbours) submit(&l, &q);
  }
  finish(&l);
  unload(&l);
  free(other.out);
}

/* ---- checks ------------------------------------------------------------------------------------------------------------------ */

static double worst_error(const float *a, const float *b, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - b[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/* No more than twice as far from a float64 evaluation as float32 transformers. */
static void check_against_float64(const fixture *f, const golden *g, const float *got) {
  double ours = 0, theirs = 0;
  for (size_t i = 0; i < g->n * g->vocab; i++) {
    double a = fabs(got[i] - g->logits64[i]), b = fabs(g->logits[i] - g->logits64[i]);
    if (!(a <= ours)) ours = a;
    if (b > theirs) theirs = b;
  }
  if (!(ours <= 2 * theirs)) fprintf(stderr, "%s: float64 error %g, transformers has %g\n", f->name, ours, theirs);
  CHECK(ours <= 2 * theirs);
}

static const char *kv_name(mt_kv_type t) { return t == MT_KV_F32 ? "f32" : t == MT_KV_F16 ? "f16" : "q8"; }

static uint64_t known_bits(const char *name, mt_kv_type kv) {
  static mt_buf file;
  char path[500], key[100];
  snprintf(path, sizeof path, "%s/tests/data/bits.txt", root);
  if (!file.data && mt_buf_read_file(&file, path, 1 << 20, NULL)) return 0;
  snprintf(key, sizeof key, "\n%s %s ", name, kv_name(kv));
  const char *at = strstr(file.data, key);
  return at ? strtoull(at + strlen(key), NULL, 16) : 0;
}

static void check_bits(const fixture *f, const config *c, const float *got, size_t n) {
  uint64_t h = mt_hash64(MT_HASH_INIT, got, n * sizeof *got);
  if (update) {
    mt_buf_printf(&updated, "%s %s %016llx\n", f->name, kv_name(c->kv), (unsigned long long)h);
    return;
  }
  uint64_t want = known_bits(f->name, c->kv);
  if (h != want)
    fprintf(stderr, "%s: other bits: %d ranks, %d threads, chunk %zu, %s, cache %s%s: %016llx, not %016llx\n", f->name,
            mt_comm_size(comm), c->threads, c->chunk, c->isa, kv_name(c->kv), c->neighbours ? ", neighbours" : "",
            (unsigned long long)h, (unsigned long long)want);
  CHECK(h == want);
}

/* Changing token j leaves every logit before j as it was, and changes those at j. */
static void check_causal(const fixture *f, const golden *g, const config *c, const float *base, float *out) {
  uint32_t ids[MAX_TOKENS];
  size_t j = g->n / 2;
  memcpy(ids, g->ids, sizeof ids);
  ids[j] = (ids[j] + 1) % (uint32_t)g->vocab;
  logits_of(f, g, c, ids, out);
  if (mt_comm_rank(comm)) return;
  CHECK(memcmp(out, base, j * g->vocab * sizeof *out) == 0);
  CHECK(memcmp(out + j * g->vocab, base + j * g->vocab, g->vocab * sizeof *out) != 0);
}

static void check_greedy(const fixture *f, const config *c) {
  mt_json *j = NULL;
  mt_err e = {0};
  if (!exists(f->greedy)) return;
  CHECK(mt_json_read_file(&j, f->greedy, 1 << 20, &e) == MT_OK);
  const mt_json *prompt = mt_json_get(j, "prompt_ids"), *want = mt_json_get(j, "generated_ids");
  uint32_t ids[MAX_TOKENS], out[MAX_TOKENS];
  int64_t v;
  for (size_t i = 0; i < mt_json_len(prompt); i++) ids[i] = mt_json_int(mt_json_at(prompt, i), &v) ? (uint32_t)v : 0;
  loaded l = {0};
  run r = {.out = out};
  load(&l, f, c);
  if (mt_comm_rank(comm) == 0) {
    mt_request q = {.ids = ids, .n_ids = mt_json_len(prompt), .max_tokens = mt_json_len(want), .on_token = keep_id, .arg = &r};
    mt_sample_params_init(&q.sample);
    q.sample.temperature = 0;
    submit(&l, &q);
  }
  finish(&l);
  unload(&l);
  if (mt_comm_rank(comm) == 0) {
    CHECK(r.n_out == mt_json_len(want) && r.n_out > 0);
    for (size_t i = 0; i < r.n_out; i++) CHECK(mt_json_int(mt_json_at(want, i), &v) && out[i] == (uint32_t)v);
  }
  mt_json_free(j);
}

/* Pairwise over threads, chunk, instruction set and neighbours; the cache types with the first. */
static const config configs[] = {
    {1, 0, "ref", MT_KV_F32, false}, {2, 1, "auto", MT_KV_F32, true},  {3, 7, "auto", MT_KV_F32, false},
    {1, 32, "auto", MT_KV_F32, true}, {2, 7, "ref", MT_KV_F16, true},  {1, 0, "auto", MT_KV_F16, false},
    {3, 32, "ref", MT_KV_Q8, false}, {2, 0, "auto", MT_KV_Q8, true},
};
enum { N_CONFIGS = sizeof configs / sizeof configs[0] };

/* Every other instruction set that this CPU has, on the first rank count only: "auto" is the best of them. */
static void check_other_isas(const fixture *f, const golden *g, float *out) {
  const char *const *names = mt_kernels_names();
  for (size_t i = 1; names[0] && names[i]; i++) {
    if (!strcmp(names[i], "ref")) continue;
    config c = {2, 7, names[i], MT_KV_F32, true};
    logits_of(f, g, &c, g->ids, out);
    if (mt_comm_rank(comm) == 0) check_bits(f, &c, out, g->n * g->vocab);
  }
}

static void check_model(const fixture *f) {
  golden g;
  read_golden(f, &g);
  size_t n = g.n * g.vocab;
  float *out = calloc(n, sizeof *out), *first = calloc(n, sizeof *first);
  for (size_t i = 0; i < N_CONFIGS; i++) {
    bool new_type = i == 0 || configs[i].kv != configs[i - 1].kv;
    if (update && !new_type) continue;
    logits_of(f, &g, &configs[i], g.ids, out);
    if (mt_comm_rank(comm)) continue;
    check_bits(f, &configs[i], out, n);
    if (i) continue;
    memcpy(first, out, n * sizeof *out);
    double error = worst_error(out, g.logits, n) / g.spread;
    if (!(error <= f->tolerance)) fprintf(stderr, "%s: error %g of the spread\n", f->name, error);
    CHECK(error <= f->tolerance);
    if (g.logits64) check_against_float64(f, &g, out);
  }
  if (!update) {
    check_causal(f, &g, &configs[2], first, out);
    check_greedy(f, &configs[1]);
    if (mt_comm_size(comm) == 1) check_other_isas(f, &g, out);
  }
  free(out);
  free(first);
  free_golden(&g);
}

/* ---- the list ---------------------------------------------------------------------------------------------------------------- */

static fixture list[MAX_MODELS];
static size_t n_models;

static void add(const char *name, const char *dir, const char *path, const char *golden_path, double tolerance) {
  fixture *f = &list[n_models];
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(f->path, sizeof f->path, "%s/%s", dir, path);
  snprintf(f->golden, sizeof f->golden, "%s/%s/golden.safetensors", dir, golden_path);
  if (!exists(f->golden)) snprintf(f->golden, sizeof f->golden, "%s/%s.golden.safetensors", dir, golden_path);
  snprintf(f->greedy, sizeof f->greedy, "%s/%s/greedy.json", dir, golden_path);
  snprintf(f->golden64, sizeof f->golden64, "%s/tests/data/golden64/%s.safetensors", root, name);
  f->tolerance = tolerance;
  if (exists(f->path) && exists(f->golden)) n_models++;
}

static void list_models(void) {
  static const char *const dense[] = {"llama-gqa-f32",     "llama-odd-tied-bf16",    "llama31-rope-bf16",
                                      "mistral-swa8-bf16", "qwen2-bias-tied-bf16",   "qwen3-qknorm-tied-bf16",
                                      "gemma3-swa8-bf16",  "smollm3-nope-bf16",      "phi3-fused-bf16",
                                      "llama-sharded-f16", "gemma3-gguf-bf16"};
  static const char *const types[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0",
                                      "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
  static const char *const arch[] = {"llama-odd-tied-bf16", "qwen3-qknorm-tied-bf16", "gemma3-gguf-bf16"};
  char dir[300], name[80], path[120], golden_path[120];
  snprintf(dir, sizeof dir, "%s/tests/data", root);
  for (size_t i = 0; i < sizeof dense / sizeof dense[0]; i++) {
    snprintf(path, sizeof path, "models/%s", dense[i]);
    add(dense[i], dir, path, path, 1e-4);
  }
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    snprintf(name, sizeof name, "gguf-%s", types[i]);
    snprintf(path, sizeof path, "gguf/tiny-llama-%s.gguf", types[i]);
    snprintf(golden_path, sizeof golden_path, "gguf/tiny-llama-%s", types[i]);
    add(name, i ? dir : shared_dir, path, golden_path, i < 3 ? 1e-4 : 1e-3);
  }
  for (size_t i = 0; i < sizeof arch / sizeof arch[0]; i++) {
    snprintf(name, sizeof name, "gguf-%s", arch[i]);
    snprintf(path, sizeof path, "gguf/arch/%s.gguf", arch[i]);
    snprintf(golden_path, sizeof golden_path, "models/%s", arch[i]);
    add(name, dir, path, golden_path, 1e-4);
  }
}

int main(int argc, char **argv) {
  char reference[300];
  if (getenv("MUTIRAO_ROOT")) root = getenv("MUTIRAO_ROOT");
  snprintf(reference, sizeof reference, "%s/../shared/reference", root);
  shared_dir = getenv("MT_REFERENCE") ? getenv("MT_REFERENCE") : reference;
  comm = test_open(argc, argv);
  for (int i = 1; i < argc; i++) update |= !strcmp(argv[i], "--update");
  mt_err e = {0};
  if (mt_cpu_open(&cpu, NULL, &e)) return 2;
  mt_comm_set_oversubscribed(comm, true);
  mt_log_set_level(MT_LOG_ERROR); /* more threads than cores is what is tested here */
  list_models();
  if (mt_comm_rank(comm) == 0) printf("%zu models\n", n_models);
  CHECK(n_models >= 26);
  for (size_t i = 0; i < n_models; i++) check_model(&list[i]);
  if (update) {
    char path[500];
    snprintf(path, sizeof path, "%s/tests/data/bits.txt", root);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "# Hash of the logits' bits: model, cache type, FNV-1a 64. By test_mpi_model --update on one rank.\n%s",
            updated.data ? updated.data : "");
    fclose(f);
  }
  mt_cpu_close(cpu);
  return test_close(comm);
}
