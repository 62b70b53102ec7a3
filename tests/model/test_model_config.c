/* Configurations: both spellings give one model; what is not supported is refused by name; memory
 * adds up. */
#include "mt_test.h"
#include "mutirao/model.h"

static const char *const dense[] = {
    "llama-gqa-f32",        "llama-odd-tied-bf16",    "llama31-rope-bf16",  "mistral-swa8-bf16",
    "qwen2-bias-tied-bf16", "qwen3-qknorm-tied-bf16", "gemma3-swa8-bf16",   "smollm3-nope-bf16",
    "phi3-fused-bf16",      "llama-sharded-f16",      "gemma3-gguf-bf16",   "llama-linear-bf16",
    "llama-dynamic-bf16",   "llama-yarn-bf16",        "phi3-longrope-bf16", "phi3-partial-bf16",
    "llama-bias-bf16",      "qwen2-window-bf16"};
enum { N_DENSE = sizeof dense / sizeof dense[0] };

static void model_path(const char *name, char out[512]) {
  snprintf(out, 512, "%s/tests/data/models/%s", mt_test_root(), name);
}

static int read_config(mt_weights *w, const char *dir, const char *file, mt_model_config *cfg,
                       mt_err *e) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", dir, file);
  mt_buf text = {0};
  int rc = mt_buf_read_file(&text, path, 1 << 20, e);
  if (!rc) rc = mt_model_config_read(cfg, w, text.data, text.len, e);
  mt_buf_free(&text);
  return rc;
}

/* Everything but the pointers, then what they point to. */
static void assert_same(const mt_model_config *a, const mt_model_config *b) {
  CU_ASSERT_STRING_EQUAL(a->family, b->family);
  CU_ASSERT_EQUAL(a->n_layers, b->n_layers);
  CU_ASSERT_EQUAL(a->head_dim, b->head_dim);
  CU_ASSERT_EQUAL(a->context, b->context);
  CU_ASSERT_EQUAL(a->rotary_dim, b->rotary_dim);
  CU_ASSERT_EQUAL(a->tied, b->tied);
  CU_ASSERT_EQUAL(a->n_ropes, b->n_ropes);
  CU_ASSERT_EQUAL(a->attention_scale, b->attention_scale);
  for (uint32_t i = 0; i < a->n_layers; i++) {
    CU_ASSERT_EQUAL(a->layer[i].window, b->layer[i].window);
    CU_ASSERT_EQUAL(a->layer[i].rope, b->layer[i].rope);
  }
  for (int r = 0; r < a->n_ropes; r++) {
    float fa[64], fb[64], sa, sb;
    mt_model_rope_frequencies(a, r, 100, fa, &sa);
    mt_model_rope_frequencies(b, r, 100, fb, &sb);
    CU_ASSERT_EQUAL(memcmp(fa, fb, a->rotary_dim / 2 * sizeof(float)), 0);
    CU_ASSERT_EQUAL(sa, sb);
  }
}

static void test_both_spellings(void) {
  for (int i = 0; i < N_DENSE; i++) {
    char dir[512];
    model_path(dense[i], dir);
    mt_err e = {0};
    mt_weights *w = NULL;
    mt_model_config a, b;
    CU_ASSERT_EQUAL_FATAL(mt_weights_open(&w, dir, &e), MT_OK);
    CU_ASSERT_EQUAL_FATAL(read_config(w, dir, "config.json", &a, &e), MT_OK);
    CU_ASSERT_EQUAL_FATAL(read_config(w, dir, "config.alt.json", &b, &e), MT_OK);
    assert_same(&a, &b);
    mt_model_config_free(&a);
    mt_model_config_free(&b);
    mt_weights_close(w);
  }
}

/* config.json of llama-gqa-f32 with one text replaced. */
static int read_changed_context(const char *from, const char *to, uint32_t *context, mt_err *e) {
  char dir[512], path[600];
  model_path("llama-gqa-f32", dir);
  snprintf(path, sizeof path, "%s/config.json", dir);
  mt_weights *w = NULL;
  mt_buf text = {0}, changed = {0};
  mt_model_config cfg = {0};
  CU_ASSERT_EQUAL_FATAL(mt_weights_open(&w, dir, e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_buf_read_file(&text, path, 1 << 20, e), MT_OK);
  const char *at = strstr(text.data, from);
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  mt_buf_append(&changed, text.data, (size_t)(at - text.data));
  mt_buf_puts(&changed, to);
  mt_buf_puts(&changed, at + strlen(from));
  int rc = mt_model_config_read(&cfg, w, changed.data, changed.len, e);
  *context = cfg.context;
  mt_model_config_free(&cfg);
  mt_buf_free(&text);
  mt_buf_free(&changed);
  mt_weights_close(w);
  return rc;
}

static int read_changed(const char *from, const char *to, mt_err *e) {
  uint32_t context;
  return read_changed_context(from, to, &context, e);
}

static void test_refused_by_name(void) {
  static const struct {
    const char *from, *to;
    int code;
    const char *says;
  } bad[] = {
      {"LlamaForCausalLM", "BartModel", MT_EUNSUPPORTED, "BartModel"},
      {"\"silu\"", "\"relu\"", MT_EUNSUPPORTED, "relu"},
      {"\"vocab_size\": 320", "\"vocab_size\": 321", MT_EFORMAT, "embed_tokens"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", MT_EFORMAT, "layers.2"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", MT_EUNSUPPORTED, "layers.1"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 99999999", MT_EFORMAT,
       "99999999 layers"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", MT_EFORMAT, "0 layers"},
      {"\"num_attention_heads\": 8", "\"num_attention_heads\": 7", MT_EFORMAT, ""},
      {"\"num_attention_heads\": 8", "\"num_attention_heads\": -8", MT_EFORMAT,
       "num_attention_heads"},
      {"\"hidden_size\"", "\"hidden\"", MT_EFORMAT, "hidden_size"},
      {"\"rms_norm_eps\"", "\"quantization_config\": {\"bits\": 4}, \"rms_norm_eps\"",
       MT_EUNSUPPORTED, "quantization_config"},
      {"\"rms_norm_eps\"", "\"final_logit_softcapping\": 30.0, \"rms_norm_eps\"", MT_EUNSUPPORTED,
       "softcapping"},
      {"\"attention_bias\": false", "\"attention_bias\": true", MT_EFORMAT, "bias"},
      {"{", "{ oops", MT_EFORMAT, "config.json:"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    mt_err e = {0};
    int rc = read_changed(bad[i].from, bad[i].to, &e);
    if (rc != bad[i].code || !strstr(e.msg, bad[i].says))
      printf("%s -> %s: %d %s\n", bad[i].from, bad[i].to, rc, e.msg);
    CU_ASSERT_EQUAL(rc, bad[i].code);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, bad[i].says));
  }
}

static void test_rope_types(void) {
  mt_err e = {0};
  const char *scaling[][2] = {{"{\"rope_type\": \"wavelet\", \"factor\": 2.0}", "wavelet"},
                              {"{\"factor\": 2.0}", "rope_type"},
                              {"{\"type\": \"linear\", \"factor\": 0.0}", "factor"}};
  for (size_t i = 0; i < 3; i++) {
    char to[200];
    snprintf(to, sizeof to, "\"rope_scaling\": %s", scaling[i][0]);
    CU_ASSERT_NOT_EQUAL(read_changed("\"rope_scaling\": null", to, &e), MT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, scaling[i][1]));
  }
}

/* Scaling that begins at max_position_embeddings makes room beyond it; yarn does where it adds to
 * it. */
static void test_stretched_context(void) {
  static const struct {
    const char *scaling;
    uint32_t context;
  } c[] = {
      {"{\"type\": \"dynamic\", \"factor\": 4.0, \"original_max_position_embeddings\": 9}", 2048},
      {"{\"type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 512}", 2048},
      {"{\"type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 128}", 512},
      {"{\"type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 128}, "
       "\"original_max_position_embeddings\": 256",
       1024},
      {"{\"type\": \"linear\", \"factor\": 4.0}", 512}};
  for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
    mt_err e = {0};
    char to[200];
    uint32_t context = 0;
    snprintf(to, sizeof to, "\"rope_scaling\": %s", c[i].scaling);
    CU_ASSERT_EQUAL(read_changed_context("\"rope_scaling\": null", to, &context, &e), MT_OK);
    CU_ASSERT_EQUAL(context, c[i].context);
  }
}

/* The weights of all ranks together are those of one, and each holds about its share (L11). */
static void test_memory_divides(void) {
  const mt_kernels *kn;
  mt_err e = {0};
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get("ref", &kn, &e), MT_OK);
  char dir[512];
  model_path("llama-gqa-f32", dir);
  mt_weights *w = NULL;
  mt_model_config cfg;
  CU_ASSERT_EQUAL_FATAL(mt_model_open(dir, &w, &cfg, &e), MT_OK);
  mt_model_options opt = {
      .kernels = kn, .kv_type = MT_KV_F16, .kv_tokens = 640, .max_seqs = 2, .max_rows = 8};
  mt_model_memory one, part;
  CU_ASSERT_EQUAL(mt_model_predict(&cfg, w, 1, 0, &opt, &one, &e), MT_OK);
  uint64_t sum = 0, most = 0;
  for (uint32_t r = 0; r < 4; r++) {
    CU_ASSERT_EQUAL(mt_model_predict(&cfg, w, 4, r, &opt, &part, &e), MT_OK);
    sum += part.weights;
    if (part.weights > most) most = part.weights;
  }
  CU_ASSERT(sum >= one.weights);
  CU_ASSERT(sum < one.weights + one.weights / 4); /* KV heads of two ranks, short panels */
  /* The dealing is in whole units: 128 of 192 columns, 2 of 5 vocabulary blocks are rank 0's. */
  CU_ASSERT(most < one.weights * 6 / 10);
  /* The KV law: 2 · layers · KV heads · head size · bytes. */
  CU_ASSERT_EQUAL(one.kv_per_token, 2u * cfg.n_layers * cfg.n_kv_heads * cfg.head_dim * 2);
  CU_ASSERT_EQUAL(one.kv, one.kv_per_token * 640);
  mt_model_config_free(&cfg);
  mt_weights_close(w);
}

/* The sums that come from other nodes lie with the first rank of each, and nowhere else. */
static void test_memory_of_leaders(void) {
  mt_err e = {0};
  mt_model_options opt = {.kv_type = MT_KV_F16, .kv_tokens = 64, .max_seqs = 2};
  CU_ASSERT_EQUAL_FATAL(mt_kernels_get("ref", &opt.kernels, &e), MT_OK);
  char dir[512];
  model_path("llama-gqa-f32", dir);
  mt_weights *w = NULL;
  mt_model_config cfg;
  CU_ASSERT_EQUAL_FATAL(mt_model_open(dir, &w, &cfg, &e), MT_OK);
  for (opt.max_rows = 8; opt.max_rows <= 4096; opt.max_rows *= 8) {
    mt_model_memory alone, follower, leader;
    opt.groups = 1;
    opt.leads = true;
    CU_ASSERT_EQUAL(mt_model_predict(&cfg, w, 4, 2, &opt, &alone, &e), MT_OK);
    opt.groups = 3;
    CU_ASSERT_EQUAL(mt_model_predict(&cfg, w, 4, 2, &opt, &leader, &e), MT_OK);
    opt.leads = false;
    CU_ASSERT_EQUAL(mt_model_predict(&cfg, w, 4, 2, &opt, &follower, &e), MT_OK);
    uint64_t more = leader.total - follower.total, sums = opt.max_rows * cfg.hidden * 8;
    CU_ASSERT(follower.total >= alone.total && follower.total < alone.total + 1024);
    if (opt.max_rows > 64) CU_ASSERT(more >= sums && more < sums + 1024);
    /* Two short accumulators, one of the whole, and the rounded sum: what a step cannot do without.
     */
    if (opt.max_rows > 512)
      CU_ASSERT(alone.buffers > opt.max_rows * cfg.hidden * 12 + 2 * 16384 * 8);
  }
  mt_model_config_free(&cfg);
  mt_weights_close(w);
}

/* 7e9 f16 parameters, 500 tokens: 7 TB, divided by the ranks. */
static void test_bytes_read(void) {
  CU_ASSERT_EQUAL(mt_model_bytes_read(14000000000u, 500, 1), 7e12);
  CU_ASSERT_EQUAL(mt_model_bytes_read(14000000000u, 500, 8), 7e12 / 8);
}

MT_TEST_MAIN("model config", {"both spellings of a configuration", test_both_spellings},
             {"what is not supported is refused by name", test_refused_by_name},
             {"rope types", test_rope_types}, {"stretched context", test_stretched_context},
             {"memory divides by the ranks", test_memory_divides},
             {"memory of leaders", test_memory_of_leaders}, {"bytes read", test_bytes_read})
