/* The promise, over every architecture and weight type in tests/data (and ../shared/reference where
 * it is there): the bits of the logits are those of tests/data/bits.txt for any number of ranks
 * (one mpirun each), threads, prefill chunk, instruction set, cache type and whatever else is in
 * the batch; they agree with the float32 transformers logits and with a float64 evaluation
 * (tests/data/generators/golden64.py); a token changes no logit before it; greedy text is
 * transformers'.
 *   --update   (one rank) writes tests/data/bits.txt anew: only when a recipe changed on purpose */
#include <math.h>
#include <unistd.h>

#include "mpi_test.h"
#include "mutirao/engine.h"

enum { MAX_TOKENS = 1312, ROOM_TOKENS = 1024, MAX_MODELS = 80 };

typedef struct fixture {
  char name[64]; /* in bits.txt */
  char path[400], golden[400], greedy[400], golden64[400];
  double tolerance; /* of the spread of the reference logits */
  unsigned configs; /* bit i: configs[i] is run */
  bool int8;        /* activations */
} fixture;

typedef struct config {
  int threads;
  size_t chunk; /* 0: all */
  const char *isa;
  mt_kv_type kv;
  bool neighbours; /* three other sequences in the batch */
} config;

static const char *root = ".", *shared_dir;
static mt_comm *comm;
static mt_cpu *cpu;
static bool update;
static mt_buf updated;

static bool exists(const char *path) {
  return access(path, R_OK) == 0;
}

/* ---- reference values -------------------------------------------------------------------- */

typedef struct golden {
  uint32_t ids[MAX_TOKENS];
  size_t n, vocab;
  size_t from;      /* the first position that has logits: 0, or of long prompts the last few */
  size_t n_values;  /* (n - from) * vocab */
  float *logits;    /* [n - from][vocab] of float32 transformers */
  double *logits64; /* [n - from][vocab] of the float64 evaluation, or NULL */
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

static double spread_of(const float *x, size_t n) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) {
    sum += x[i];
    squares += (double)x[i] * x[i];
  }
  return sqrt(squares / (double)n - sum / (double)n * (sum / (double)n));
}

static void read_golden(const fixture *f, golden *g) {
  mt_weights *w = NULL;
  mt_err e = {0};
  size_t one, rows, rows64, cols;
  *g = (golden){0};
  if (mt_weights_open(&w, f->golden, &e)) {
    fprintf(stderr, "%s\n", e.msg);
    exit(2);
  }
  const char *key = mt_weights_find(w, "logits") ? "logits" : "last_logits";
  int64_t *ids = read_tensor(w, "input_ids", &g->n, &one);
  g->logits = read_tensor(w, key, &rows, &g->vocab);
  if (!ids || !g->logits || g->n > MAX_TOKENS || rows > g->n) exit(2);
  for (size_t i = 0; i < g->n; i++) g->ids[i] = (uint32_t)ids[i];
  g->from = g->n - rows;
  g->n_values = rows * g->vocab;
  g->spread = spread_of(g->logits, g->n_values);
  free(ids);
  mt_weights_close(w);
  if (!exists(f->golden64) || mt_weights_open(&w, f->golden64, &e)) return;
  g->logits64 = read_tensor(w, key, &rows64, &cols);
  CHECK(g->logits64 && rows64 == rows && cols == g->vocab);
  mt_weights_close(w);
}

static void free_golden(golden *g) {
  free(g->logits);
  free(g->logits64);
}

/* ---- running ----------------------------------------------------------------------------- */

typedef struct run {
  float *logits; /* [n - from][vocab] */
  size_t vocab, from;
  uint32_t *out; /* generated ids */
  size_t n_out;
} run;

static int keep_logits(void *arg, size_t position, const float *logits) {
  run *r = arg;
  memcpy(r->logits + (position - r->from) * r->vocab, logits, r->vocab * sizeof *logits);
  return 0;
}

static int keep_id(void *arg, const mt_token_event *ev) {
  run *r = arg;
  r->out[r->n_out++] = ev->id;
  return 0;
}

/* What attention is told that a thread reads next, is what it reads next. */
static const mt_kernels *inner;
static _Thread_local const void *promised;
static _Atomic size_t kept, broken;

static void attend_watched(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                           float scale, const void *const *k_block, const void *const *v_block,
                           const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                           float *scratch) {
  size_t first = lo[0];
  for (size_t t = 1; t < n; t++) first = lo[t] < first ? lo[t] : first;
  if (promised && promised == k_block[first / MT_KV_BLOCK])
    kept++;
  else if (promised)
    broken++;
  promised = next;
  inner->attend_many(type, head_dim, n, q, scale, k_block, v_block, lo, hi, next, out, scratch);
}

typedef struct loaded {
  mt_team *team;
  mt_model *model;
  mt_engine *engine;
} loaded;

/* A cache that four sequences of n tokens fit. */
static void load(loaded *l, const fixture *f, const config *c, size_t n) {
  mt_err e = {0};
  size_t room = 4 * (n + MT_KV_BLOCK);
  mt_model_options o = {.kv_type = c->kv,
                        .int8_activations = f->int8,
                        .kv_tokens = room < ROOM_TOKENS ? ROOM_TOKENS : room,
                        .max_seqs = 4,
                        .max_rows = c->chunk ? (c->chunk < 4 ? 4 : c->chunk) : 160};
  static mt_kernels watched;
  int rc = mt_kernels_get(c->isa, &inner, &e);
  if (!rc) watched = *inner;
  watched.attend_many = attend_watched;
  o.kernels = &watched;
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

/* Logits of ids on rank 0, with neighbours of other lengths and contents, one of them generating,
 * if asked for. */
static void logits_of(const fixture *f, const golden *g, const config *c, const uint32_t *ids,
                      float *out) {
  loaded l = {0};
  load(&l, f, c, g->n);
  run r = {.logits = out, .vocab = g->vocab, .from = g->from},
      other = {.out = malloc(MAX_TOKENS * sizeof(uint32_t))};
  uint32_t backwards[MAX_TOKENS];
  for (size_t i = 0; i < g->n; i++) backwards[i] = g->ids[g->n - 1 - i];
  if (mt_comm_rank(comm) == 0) {
    mt_request q = {.ids = backwards,
                    .n_ids = g->n / 2 + 1,
                    .max_tokens = 9,
                    .on_token = keep_id,
                    .arg = &other};
    mt_sample_params_init(&q.sample);
    q.sample.temperature = 0;
    if (c->neighbours) submit(&l, &q);
    mt_request mine = q;
    mine.ids = ids;
    mine.n_ids = g->n;
    mine.max_tokens = 0;
    mine.on_token = NULL;
    mine.on_prompt = keep_logits;
    mine.prompt_from = g->from;
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

/* ---- checks ------------------------------------------------------------------------------ */

static double worst_error(const float *a, const float *b, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - b[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/* No more than twice as far from a float64 evaluation as float32 transformers: the worst logit of a
 * whole prompt. Four positions are too few for a worst one (one position in ten errs twice as much
 * as the median, in both programs): there the root of the mean square. */
static void check_against_float64(const fixture *f, const golden *g, const float *got) {
  double ours = 0, theirs = 0;
  for (size_t i = 0; i < g->n_values; i++) {
    double a = fabs(got[i] - g->logits64[i]), b = fabs(g->logits[i] - g->logits64[i]);
    if (g->from) {
      ours += a * a;
      theirs += b * b;
      continue;
    }
    if (!(a <= ours)) ours = a;
    if (b > theirs) theirs = b;
  }
  double times = g->from ? sqrt(ours / theirs) : ours / theirs;
  if (!(times <= 2))
    fprintf(stderr, "%s: %g times as far from float64 as float32 transformers\n", f->name, times);
  CHECK(times <= 2);
}

static const char *kv_name(mt_kv_type t) {
  return t == MT_KV_F32 ? "f32" : t == MT_KV_F16 ? "f16" : "q8";
}

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
    fprintf(
        stderr,
        "%s: other bits: %d ranks, %d threads, chunk %zu, %s, cache %s%s: %016llx, not %016llx\n",
        f->name, mt_comm_size(comm), c->threads, c->chunk, c->isa, kv_name(c->kv),
        c->neighbours ? ", neighbours" : "", (unsigned long long)h, (unsigned long long)want);
  CHECK(h == want);
}

/* Changing token j leaves every logit before j as it was, and changes those at j. */
static void check_causal(const fixture *f, const golden *g, const config *c, const float *base,
                         float *out) {
  uint32_t ids[MAX_TOKENS];
  size_t j = g->n / 2;
  memcpy(ids, g->ids, sizeof ids);
  ids[j] = (ids[j] + 1) % (uint32_t)g->vocab;
  logits_of(f, g, c, ids, out);
  if (mt_comm_rank(comm)) return;
  CHECK(memcmp(out, base, j * g->vocab * sizeof *out) == 0);
  CHECK(memcmp(out + j * g->vocab, base + j * g->vocab, g->vocab * sizeof *out) != 0);
}

typedef struct continuation {
  uint32_t prompt[MAX_TOKENS], want[MAX_TOKENS];
  size_t n_prompt, n_want;
} continuation;

static size_t ids_of(const mt_json *list, uint32_t *out) {
  int64_t v;
  for (size_t i = 0; i < mt_json_len(list) && i < MAX_TOKENS; i++) {
    CHECK(mt_json_int(mt_json_at(list, i), &v));
    out[i] = (uint32_t)v;
  }
  return mt_json_len(list);
}

/* transformers' greedy text: of the first ids from greedy.json, of a long prompt from the file of
 * its logits. */
static bool read_greedy(const fixture *f, const golden *g, continuation *k) {
  mt_err e = {0};
  k->n_want = 0;
  if (!g->from && exists(f->greedy)) {
    mt_json *j = NULL;
    CHECK(mt_json_read_file(&j, f->greedy, 1 << 20, &e) == MT_OK);
    k->n_prompt = ids_of(mt_json_get(j, "prompt_ids"), k->prompt);
    k->n_want = ids_of(mt_json_get(j, "generated_ids"), k->want);
    mt_json_free(j);
    CHECK(k->n_want > 0);
  }
  if (g->from) {
    mt_weights *w = NULL;
    size_t one;
    CHECK(mt_weights_open(&w, f->golden, &e) == MT_OK);
    int64_t *ids = read_tensor(w, "greedy_ids", &k->n_want, &one);
    if (!ids)
      k->n_want =
          0; /* dynamic rope: transformers changes the frequencies at each step, we do not */
    for (size_t i = 0; i < k->n_want; i++) k->want[i] = (uint32_t)ids[i];
    memcpy(k->prompt, g->ids, sizeof g->ids);
    k->n_prompt = g->n;
    free(ids);
    mt_weights_close(w);
  }
  return k->n_want > 0;
}

static void check_greedy(const fixture *f, const golden *g, const config *c) {
  static continuation k;
  if (!read_greedy(f, g, &k)) return;
  uint32_t out[MAX_TOKENS];
  loaded l = {0};
  run r = {.out = out};
  load(&l, f, c, k.n_prompt + k.n_want);
  if (mt_comm_rank(comm) == 0) {
    mt_request q = {.ids = k.prompt,
                    .n_ids = k.n_prompt,
                    .max_tokens = k.n_want,
                    .on_token = keep_id,
                    .arg = &r};
    mt_sample_params_init(&q.sample);
    q.sample.temperature = 0;
    submit(&l, &q);
  }
  finish(&l);
  unload(&l);
  if (mt_comm_rank(comm) == 0)
    CHECK(r.n_out == k.n_want && !memcmp(out, k.want, k.n_want * sizeof *out));
}

/* Pairwise over threads, chunk, instruction set and neighbours; the cache types with the first. */
static const config configs[] = {
    {1, 0, "ref", MT_KV_F32, false},  {2, 1, "auto", MT_KV_F32, true},
    {3, 7, "auto", MT_KV_F32, false}, {1, 32, "auto", MT_KV_F32, true},
    {2, 7, "ref", MT_KV_F16, true},   {1, 0, "auto", MT_KV_F16, false},
    {3, 32, "ref", MT_KV_Q8, false},  {2, 0, "auto", MT_KV_Q8, true},
};
enum { N_CONFIGS = sizeof configs / sizeof configs[0] };

/* Which of them are run: all of each architecture and type; of variations of these a few that still
 * hold every value of every column but the single-row chunk; of prompts over several attention
 * segments the cheap ones. */
enum {
  ALL = 255,
  FEW = 1 << 0 | 1 << 3 | 1 << 4 | 1 << 7,
  LONG = 1 << 0 | 1 << 3 | 1 << 5 | 1 << 6
};

/* Every other instruction set that this CPU has, on the first rank count only: "auto" is the best
 * of them. */
static void check_other_isas(const fixture *f, const golden *g, float *out) {
  const char *const *names = mt_kernels_names();
  for (size_t i = 1; names[0] && names[i]; i++) {
    if (!strcmp(names[i], "ref")) continue;
    config c = {2, 7, names[i], MT_KV_F32, true};
    logits_of(f, g, &c, g->ids, out);
    if (mt_comm_rank(comm) == 0) check_bits(f, &c, out, g->n_values);
  }
}

static void check_values(const fixture *f, const golden *g, const float *got) {
  double error = worst_error(got, g->logits, g->n_values) / g->spread;
  if (!(error <= f->tolerance)) fprintf(stderr, "%s: error %g of the spread\n", f->name, error);
  CHECK(error <= f->tolerance);
  if (g->logits64) check_against_float64(f, g, got);
}

static void check_model(const fixture *f) {
  static golden g;
  read_golden(f, &g);
  size_t n = g.n_values;
  unsigned types = 0;
  float *out = calloc(n, sizeof *out), *first = calloc(n, sizeof *first);
  for (size_t i = 0; i < N_CONFIGS; i++) {
    bool new_type = !(types & 1u << configs[i].kv);
    if (!(f->configs & 1u << i) || (update && !new_type)) continue;
    types |= 1u << configs[i].kv;
    logits_of(f, &g, &configs[i], g.ids, out);
    if (mt_comm_rank(comm)) continue;
    check_bits(f, &configs[i], out, n);
    if (i) continue;
    memcpy(first, out, n * sizeof *out);
    check_values(f, &g, out);
  }
  if (!update) {
    if (!g.from) check_causal(f, &g, &configs[2], first, out);
    check_greedy(f, &g, &configs[g.from ? 3 : 1]);
    if (mt_comm_size(comm) == 1) check_other_isas(f, &g, out);
  }
  free(out);
  free(first);
  free_golden(&g);
}

/* ---- the list ---------------------------------------------------------------------------- */

static fixture list[MAX_MODELS];
static size_t n_models;

/* The golden file is GOLDEN/golden.safetensors, GOLDEN.golden.safetensors or, for the model that
 * ships, GOLDEN/golden_logits.safetensors; for LONG GOLDEN/golden_long.safetensors. A name that
 * ends in -int8 asks for such activations. */
static void add(const char *name, const char *dir, const char *path, const char *golden_path,
                double tolerance, unsigned set) {
  fixture *f = &list[n_models];
  const char *base = strrchr(golden_path, '/') + 1;
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(f->path, sizeof f->path, "%s/%s", dir, path);
  snprintf(f->golden, sizeof f->golden, "%s/%s/golden%s.safetensors", dir, golden_path,
           set == LONG ? "_long" : "");
  if (!exists(f->golden))
    snprintf(f->golden, sizeof f->golden, "%s/%s.golden.safetensors", dir, golden_path);
  if (!exists(f->golden))
    snprintf(f->golden, sizeof f->golden, "%s/%s/golden_logits.safetensors", dir, golden_path);
  snprintf(f->greedy, sizeof f->greedy, "%s/%s/greedy.json", dir, golden_path);
  snprintf(f->golden64, sizeof f->golden64, "%s/tests/data/golden64/%s.safetensors", root, base);
  f->tolerance = tolerance;
  f->configs = set;
  f->int8 = strstr(name, "-int8") != NULL;
  if (exists(f->path) && exists(f->golden)) n_models++;
}

static void add_hf(const char *const *names, size_t n, const char *dir, unsigned set) {
  char path[120], name[80];
  for (size_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "models/%s", names[i]);
    snprintf(name, sizeof name, "%s%s", names[i], set == LONG ? "-long" : "");
    add(name, dir, path, path, 1e-4, set);
  }
}

/* With 8-bit activations: every shape of record, blocks cut by units, and one model of plain
 * weights, whose bits are those without. They err 257 times as much as 16-bit ones: up to 0.14 of
 * the spread in these. */
static void list_int8(const char *dir) {
  static const char *const of[] = {"tiny-llama-Q8_0",  "tiny-llama-Q4_1", "tiny-llama-Q5_0",
                                   "tiny-llama-Q3_K",  "tiny-llama-Q4_K", "tiny-llama-Q6_K",
                                   "tiny-llama-MXFP4", "head80-Q4_0",     "tiny-llama-F16"};
  char name[80], path[120], golden_path[120];
  for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
    snprintf(name, sizeof name, "%s-int8", of[i]);
    snprintf(path, sizeof path, "gguf/%s.gguf", of[i]);
    snprintf(golden_path, sizeof golden_path, "gguf/%s", of[i]);
    add(name, dir, path, golden_path, strstr(name, "F16") ? 1e-4 : 0.2, FEW);
  }
}

static void list_models(const char *dir) {
  static const char *const dense[] = {
      "llama-gqa-f32",        "llama-odd-tied-bf16",    "llama31-rope-bf16", "mistral-swa8-bf16",
      "qwen2-bias-tied-bf16", "qwen3-qknorm-tied-bf16", "gemma3-swa8-bf16",  "smollm3-nope-bf16",
      "phi3-fused-bf16",      "llama-sharded-f16",      "gemma3-gguf-bf16"};
  static const char *const few[] = {
      "llama-linear-bf16",  "llama-dynamic-bf16", "llama-yarn-bf16",
      "phi3-longrope-bf16", "phi3-partial-bf16",  "llama-bias-bf16",
      "qwen2-window-bf16",  "llama-12heads-bf16", "llama-head20-bf16"};
  static const char *const longer[] = {
      "llama-gqa-f32",   "mistral-swa8-bf16",  "llama-linear-bf16", "llama-dynamic-bf16",
      "llama-yarn-bf16", "phi3-longrope-bf16", "phi3-partial-bf16", "qwen2-window-bf16",
      "llama-long-bf16", "mistral-long-bf16"};
  static const char *const types[] = {"F32",  "F16",    "BF16",   "Q8_0", "Q4_0", "Q4_1",
                                      "Q5_0", "Q5_1",   "Q2_K",   "Q3_K", "Q4_K", "Q5_K",
                                      "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
  static const char *const arch[] = {
      "llama-odd-tied-bf16", "qwen3-qknorm-tied-bf16", "gemma3-gguf-bf16",  "qwen2-bias-tied-bf16",
      "smollm3-nope-bf16",   "phi3-longrope-bf16",     "phi3-partial-bf16", "llama-bias-bf16",
      "llama-yarn-bf16",     "llama-linear-bf16",      "llama31-rope-bf16"};
  static const char *const head80[] = {"head80-Q8_0", "head80-Q4_0", "head80-Q4_1"};
  char name[80], path[120], golden_path[120];
  add_hf(dense, sizeof dense / sizeof dense[0], dir, ALL);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    snprintf(name, sizeof name, "gguf-%s", types[i]);
    snprintf(path, sizeof path, "gguf/tiny-llama-%s.gguf", types[i]);
    snprintf(golden_path, sizeof golden_path, "gguf/tiny-llama-%s", types[i]);
    add(name, i ? dir : shared_dir, path, golden_path, i < 3 ? 1e-4 : 1e-3, ALL);
  }
  for (size_t i = 0; i < sizeof arch / sizeof arch[0]; i++) {
    snprintf(name, sizeof name, "gguf-%s", arch[i]);
    snprintf(path, sizeof path, "gguf/arch/%s.gguf", arch[i]);
    snprintf(golden_path, sizeof golden_path, "models/%s", arch[i]);
    add(name, dir, path, golden_path, 1e-4, i < 3 ? ALL : FEW);
    snprintf(name, sizeof name, "gguf-%s-long", arch[i]);
    if (!strcmp(arch[i], "phi3-longrope-bf16")) add(name, dir, path, golden_path, 1e-4, LONG);
  }
  add_hf(few, sizeof few / sizeof few[0], dir, FEW);
  add_hf(longer, sizeof longer / sizeof longer[0], dir, LONG);
  for (size_t i = 0; i < sizeof head80 / sizeof head80[0]; i++) {
    snprintf(path, sizeof path, "gguf/%s.gguf", head80[i]);
    snprintf(golden_path, sizeof golden_path, "gguf/%s", head80[i]);
    add(head80[i], dir, path, golden_path, 1e-3, FEW);
  }
  list_int8(dir);
  add("mirim", root, "models/mirim", "models/mirim", 1e-4, FEW);
}

int main(int argc, char **argv) {
  char reference[300], data[300];
  if (getenv("MUTIRAO_ROOT")) root = getenv("MUTIRAO_ROOT");
  snprintf(reference, sizeof reference, "%s/../shared/reference", root);
  shared_dir = getenv("MT_REFERENCE") ? getenv("MT_REFERENCE") : reference;
  comm = test_open(argc, argv);
  for (int i = 1; i < argc; i++) update |= !strcmp(argv[i], "--update");
  mt_err e = {0};
  if (mt_cpu_open(&cpu, NULL, &e)) return 2;
  mt_comm_set_oversubscribed(comm, true);
  mt_log_set_level(MT_LOG_ERROR); /* more threads than cores is what is tested here */
  snprintf(data, sizeof data, "%s/tests/data", root);
  list_models(data);
  if (mt_comm_rank(comm) == 0) printf("%zu models\n", n_models);
  CHECK(n_models >= 70); /* 71 with ../shared/reference */
  for (size_t i = 0; i < n_models; i++) check_model(&list[i]);
  CHECK(broken == 0 && (kept > 0 || mt_comm_rank(comm)));
  if (update) {
    char path[500];
    snprintf(path, sizeof path, "%s/tests/data/bits.txt", root);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f,
            "# Hash of the logits' bits: model, cache type, FNV-1a 64. By test_mpi_model --update "
            "on one rank.\n%s",
            updated.data ? updated.data : "");
    fclose(f);
  }
  mt_cpu_close(cpu);
  return test_close(comm);
}
