/* GGUF metadata of converted models against the configuration that they were converted from. */
#include <stdint.h>

#include "files.h"
#include "mutirao/json.h"

static double of_config(const mt_json *config, const char *key) {
  double v = -1;
  const mt_json *rope = mt_json_get(config, "rope_parameters");
  const mt_json *j = mt_json_get(config, key);
  CU_ASSERT(mt_json_number(j ? j : mt_json_get(rope, key), &v));
  return v;
}

static void check(const char *root, const char *name, const char *arch) {
  static const struct {
    const char *gguf, *config;
  } same[] = {{"block_count", "num_hidden_layers"},
              {"embedding_length", "hidden_size"},
              {"feed_forward_length", "intermediate_size"},
              {"attention.head_count", "num_attention_heads"},
              {"attention.head_count_kv", "num_key_value_heads"},
              {"context_length", "max_position_embeddings"},
              {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
              {"rope.freq_base", "rope_theta"},
              {"vocab_size", "vocab_size"}};
  char path[700];
  mt_err e = {0};
  mt_json *config = NULL;
  mt_bytes s;
  snprintf(path, sizeof path, "%s/models/%s/config.json", root, name);
  CU_ASSERT_EQUAL_FATAL(mt_json_read_file(&config, path, 1 << 20, &e), MT_OK);
  snprintf(path, sizeof path, "%s/gguf/arch/%s.gguf", root, name);
  mt_weights *w = expect_open(path);
  CU_ASSERT(mt_gguf_string(w, "general.architecture", &s) && !strcmp(s.ptr, arch));
  CU_ASSERT(mt_gguf_string(w, "tokenizer.ggml.model", &s) && !strcmp(s.ptr, "none"));
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
    char key[100];
    double v = -2, want = of_config(config, same[i].config);
    snprintf(key, sizeof key, "%s.%s", arch, same[i].gguf);
    bool ok = mt_gguf_number(w, key, &v) && (v == want || v == (double)(float)want);
    if (!ok) printf("\n  %s: %s is %g, wanted %g\n", name, key, v, want);
    CU_ASSERT(ok);
  }
  for (size_t i = 0; mt_gguf_key_at(w, i); i++) CU_ASSERT(mt_gguf_has(w, mt_gguf_key_at(w, i)));
  mt_weights_close(w);
  mt_json_free(config);
}

static void test_dense(void) {
  char root[600];
  snprintf(root, sizeof root, "%s/tests/data", mt_test_root());
  check(root, "llama-odd-tied-bf16", "llama");
  check(root, "qwen3-qknorm-tied-bf16", "qwen3");
  check(root, "gemma3-gguf-bf16", "gemma3");
}

static void test_shared(void) {
  const char *root = reference_root();
  if (!root) {
    printf("skipped (no reference data) ");
    return;
  }
  check(root, "mixtral-4x2-bf16", "llama");
}

MT_TEST_MAIN("gguf arch", {"dense", test_dense}, {"shared", test_shared})
