/* The reference models: tables against what independent writers put in, values against golden ones.
 */
#include <math.h>
#include <stdint.h>

#include "files.h"
#include "mutirao/json.h"

static const char *data_path(const char *format, const char *name) {
  static char path[4][600];
  static int next;
  char *p = path[next++ % 4];
  int n = snprintf(p, sizeof path[0], "%s/tests/data/", mt_test_root());
  snprintf(p + n, sizeof path[0] - (size_t)n, format, name);
  return p;
}

static mt_json *read_json(const char *path) {
  mt_err e = {0};
  mt_json *j = NULL;
  if (mt_json_read_file(&j, path, 1 << 24, &e)) printf("\n  %s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL_FATAL(j);
  return j;
}

static uint64_t count_of(const mt_json *j) {
  int64_t v = -1;
  CU_ASSERT(mt_json_int(j, &v));
  return (uint64_t)v;
}

/* The whole tensor; the caller frees. */
static void *read_all(mt_weights *w, const char *name, const mt_tensor_info **info) {
  const mt_tensor_info *t = mt_weights_find(w, name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  void *p = malloc(t->bytes + 1);
  mt_err e;
  CU_ASSERT_EQUAL_FATAL(mt_weights_read(w, t, 0, t->bytes, p, &e), MT_OK);
  if (info) *info = t;
  return p;
}

static double from_f16(uint16_t h) {
  int exp = h >> 10 & 31, frac = h & 1023;
  double m = exp ? ldexp(1024 + frac, exp - 25) : ldexp(frac, -24);
  return h >> 15 ? -m : m;
}

static double from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return (double)f;
}

/* Element i < 8 of what is stored; only types whose values need no kernel. */
static bool element(const unsigned char *p, mt_dtype type, size_t i, double *out) {
  uint16_t h;
  float f, d;
  memcpy(&h, p + (type == MT_Q8_0 ? 0 : 2 * i), 2);
  switch (type) {
    case MT_F32: memcpy(&f, p + 4 * i, 4), *out = (double)f; return true;
    case MT_F16: *out = from_f16(h); return true;
    case MT_BF16: *out = from_bf16(h); return true;
    case MT_Q8_0:
      d = (float)from_f16(h), *out = (double)(d * (float)(signed char)p[2 + i]);
      return true;
    default: return false;
  }
}

/* One tensor against its entry in gguf/index.json. Returns values compared. */
static size_t check_tensor(mt_weights *w, const char *name, const mt_json *entry) {
  const mt_tensor_info *t;
  unsigned char *p = read_all(w, name, &t);
  const mt_json *shape = mt_json_get(entry, "shape"), *first = mt_json_get(entry, "first8");
  size_t compared = 0;
  CU_ASSERT_STRING_EQUAL(mt_dtype_get(t->type)->name,
                         mt_json_string(mt_json_get(entry, "type"), NULL));
  CU_ASSERT_EQUAL(t->bytes, count_of(mt_json_get(entry, "raw_bytes")));
  CU_ASSERT_EQUAL((size_t)t->shape.n, mt_json_len(shape));
  for (int i = 0; i < t->shape.n; i++)
    CU_ASSERT_EQUAL(t->shape.dim[i], count_of(mt_json_at(shape, (size_t)i)));
  for (size_t i = 0; i < 8; i++) {
    double got, want = NAN;
    if (!element(p, t->type, i, &got)) break;
    CU_ASSERT(mt_json_number(mt_json_at(first, i), &want) && got == want);
    compared++;
  }
  free(p);
  return compared;
}

static void check_tokenizer(const mt_weights *w) {
  uint64_t v;
  double d;
  size_t n;
  mt_bytes s;
  mt_json *c = read_json(data_path("gguf/%s/tokenizer_config.json", "tiny-llama-tokenizer"));
  const char *template = mt_json_string(mt_json_get(c, "chat_template"), NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(template);
  CU_ASSERT(mt_gguf_string(w, "tokenizer.chat_template", &s) && !strcmp(s.ptr, template));
  CU_ASSERT(mt_gguf_string(w, "general.architecture", &s) && !strcmp(s.ptr, "llama"));
  CU_ASSERT(mt_gguf_array_len(w, "tokenizer.ggml.tokens", &n) && n == 512);
  CU_ASSERT(mt_gguf_array_u64(w, "tokenizer.ggml.token_type", 0, &v) && v == 3);
  CU_ASSERT(mt_gguf_u64(w, "llama.block_count", &v) && v == 2);
  CU_ASSERT(mt_gguf_number(w, "llama.rope.freq_base", &d) && d == 1e5);
  mt_json_free(c);
}

static void test_gguf_types(void) {
  mt_json *index = read_json(data_path("gguf/%s", "index.json"));
  size_t files = 0, compared = 0;
  for (const mt_json_member *m = mt_json_first(index); m; m = mt_json_next(index, m)) {
    const mt_json *v = mt_json_member_value(m), *tensors = mt_json_get(v, "tensors");
    const char *path = data_path("gguf/%s", mt_json_string(mt_json_get(v, "file"), NULL));
    if (!strcmp(mt_json_member_key(m), "F32"))
      continue; /* left out of the repository for its size */
    mt_weights *w = expect_open(path);
    files++;
    CU_ASSERT_EQUAL(mt_weights_count(w), mt_json_len(tensors));
    CU_ASSERT_EQUAL(mt_weights_file_bytes(w), count_of(mt_json_get(v, "bytes")));
    for (const mt_json_member *t = mt_json_first(tensors); t; t = mt_json_next(tensors, t))
      compared += check_tensor(w, mt_json_member_key(t), mt_json_member_value(t));
    check_tokenizer(w);
    mt_weights_close(w);
  }
  CU_ASSERT_EQUAL(files, 15);
  CU_ASSERT_EQUAL(compared,
                  8 * (3 * 20 + 12 * 5)); /* norms in every file, all of F16, BF16 and Q8_0 */
  mt_json_free(index);
}

static const char *const models[] = {
    "gemma3-gguf-bf16",     "gemma3-swa8-bf16",       "llama-gqa-f32",     "llama-odd-tied-bf16",
    "llama-sharded-f16",    "llama31-rope-bf16",      "mistral-swa8-bf16", "phi3-fused-bf16",
    "qwen2-bias-tied-bf16", "qwen3-qknorm-tied-bf16", "smollm3-nope-bf16"};

/* The embedding has the configured shape; the golden file's ids begin with the prompt of
 * greedy.json. */
static void test_models(void) {
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    char rel[200];
    mt_weights *w = expect_open(data_path("models/%s", models[i]));
    snprintf(rel, sizeof rel, "models/%s/config.json", models[i]);
    mt_json *config = read_json(data_path("%s", rel));
    snprintf(rel, sizeof rel, "models/%s/greedy.json", models[i]);
    mt_json *greedy = read_json(data_path("%s", rel));
    snprintf(rel, sizeof rel, "models/%s/golden.safetensors", models[i]);
    mt_weights *golden = expect_open(data_path("%s", rel));
    uint64_t vocab = count_of(mt_json_get(config, "vocab_size")),
             hidden = count_of(mt_json_get(config, "hidden_size"));
    const mt_tensor_info *t = mt_weights_find(w, "model.embed_tokens.weight"), *ids_info;
    CU_ASSERT(t && t->shape.n == 2 && t->shape.dim[0] == vocab && t->shape.dim[1] == hidden);
    int64_t *ids = read_all(golden, "input_ids", &ids_info);
    const mt_json *prompt = mt_json_get(greedy, "prompt_ids");
    CU_ASSERT_EQUAL(mt_json_len(prompt), 8);
    for (size_t k = 0; k < 8; k++)
      CU_ASSERT_EQUAL((uint64_t)ids[k], count_of(mt_json_at(prompt, k)));
    t = mt_weights_find(golden, "logits");
    CU_ASSERT(t && t->type == MT_F32 && t->shape.dim[0] == ids_info->shape.dim[0] &&
              t->shape.dim[1] == vocab);
    free(ids);
    mt_json_free(config);
    mt_json_free(greedy);
    mt_weights_close(golden);
    mt_weights_close(w);
  }
}

/* The two formats hold the same bits where one was converted from the other. */
static void test_conversions(void) {
  static const struct {
    const char *model, *gguf_name, *hf_name;
  } table[] = {
      {"llama-odd-tied-bf16", "token_embd.weight", "model.embed_tokens.weight"},
      {"llama-odd-tied-bf16", "blk.2.ffn_down.weight", "model.layers.2.mlp.down_proj.weight"},
      {"qwen3-qknorm-tied-bf16", "blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight"},
      {"gemma3-gguf-bf16", "blk.6.ffn_up.weight", "model.layers.6.mlp.up_proj.weight"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    char rel[200];
    snprintf(rel, sizeof rel, "gguf/arch/%s.gguf", table[i].model);
    mt_weights *g = expect_open(data_path("%s", rel)),
               *h = expect_open(data_path("models/%s", table[i].model));
    const mt_tensor_info *a, *b;
    void *pa = read_all(g, table[i].gguf_name, &a), *pb = read_all(h, table[i].hf_name, &b);
    CU_ASSERT(a->type == MT_BF16 && b->type == MT_BF16 && a->shape.n == 2 && b->shape.n == 2);
    CU_ASSERT(a->shape.dim[0] == b->shape.dim[0] && a->shape.dim[1] == b->shape.dim[1]);
    CU_ASSERT(a->bytes == b->bytes && !memcmp(pa, pb, a->bytes));
    free(pa);
    free(pb);
    mt_weights_close(g);
    mt_weights_close(h);
  }
}

/* Reading every tensor reads each byte of the file about once. */
static void test_bytes_read(void) {
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    mt_weights *w = expect_open(data_path("models/%s", models[i]));
    for (size_t k = 0; k < mt_weights_count(w); k++)
      free(read_all(w, mt_weights_at(w, k)->name, NULL));
    CU_ASSERT(mt_weights_bytes_read(w) >= mt_weights_file_bytes(w));
    CU_ASSERT(mt_weights_bytes_read(w) <= mt_weights_file_bytes(w) + 4096); /* and the index */
    mt_weights_close(w);
  }
}

/* Models outside the repository: whatever the reference has must open. */
static void test_shared(void) {
  static const char *const more[] = {
      "models/mixtral-4x2-bf16",        "models/qwen3moe-8x3-bf16",
      "models/gptoss-4x2-bf16",         "models/gptoss-4x2-mxfp4",
      "gguf/tiny-llama-F32.gguf",       "gguf/arch/mixtral-4x2-bf16.gguf",
      "gguf/arch/gptoss-4x2-mxfp4.gguf"};
  const char *root = reference_root();
  char path[700];
  if (!root) {
    printf("skipped (no reference data) ");
    return;
  }
  for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", root, more[i]);
    mt_weights *w = expect_open(path);
    CU_ASSERT(mt_weights_count(w) > 10);
    mt_weights_close(w);
  }
}

MT_TEST_MAIN("golden", {"gguf types", test_gguf_types}, {"models", test_models},
             {"conversions", test_conversions}, {"bytes read", test_bytes_read},
             {"shared", test_shared})
