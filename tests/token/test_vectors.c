/* Ids and decoded text against the vectors that the Hugging Face tokenizers library gave, case by
 * case. */
#include "token_test.h"

static void check_named(const char *name) {
  mt_tokenizer *t = open_named(name);
  if (t) check_vectors(t, name);
  mt_tokenizer_free(t);
}

static void smollm2(void) {
  check_named("smollm2");
}
static void mistral(void) {
  check_named("mistral7b_v1");
}
static void qwen3(void) {
  check_named("qwen3");
}
static void tiny512(void) {
  check_named("tiny512");
}
static void llama31(void) {
  check_named("llama3_1");
}

/* Tokenizers whose files we may not carry: MT_TOKENIZERS_DIR/NAME/tokenizer.json. */
static void from_packages(void) {
  static const char *const name[] = {"gemma3", "gptoss", "deepseek_v3"};
  const char *dir = getenv("MT_TOKENIZERS_DIR");
  if (!dir) {
    printf("gemma3, gptoss, deepseek_v3: skipped, no MT_TOKENIZERS_DIR\n");
    return;
  }
  for (size_t i = 0; i < 3; i++) {
    char path[4096];
    mt_tokenizer *t = NULL;
    mt_err e = {0};
    snprintf(path, sizeof path, "%s/%s/tokenizer.json", dir, name[i]);
    if (mt_tokenizer_open_json(&t, path, &e)) printf("%s\n", e.msg);
    CU_ASSERT_PTR_NOT_NULL(t);
    if (t) check_vectors(t, name[i]);
    mt_tokenizer_free(t);
  }
}

static void check_gguf(const char *path, const char *vectors) {
  mt_tokenizer *t = NULL;
  mt_err e = {0};
  if (!path || access(path, R_OK)) {
    printf("%s from GGUF: skipped, no file\n", vectors);
    return;
  }
  if (mt_tokenizer_open(&t, path, &e)) printf("%s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL(t);
  if (t) check_vectors(t, vectors);
  mt_tokenizer_free(t);
}

static void tiny_gguf(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/gguf/tiny-llama-Q4_0.gguf", reference_dir());
  check_gguf(path, "tiny512");
}
static void smollm2_gguf(void) {
  check_gguf(getenv("MT_SMOLLM2_GGUF"), "smollm2");
}
/* The GGUF counts <mask> and the unused tokens as special, and spells the added token "▁▁" as two
 * spaces, so that it is not found where a text has two "▁" by themselves. */
static void gemma3_gguf(void) {
  only_ids = true;
  but_for = "odd-197";
  check_gguf(getenv("MT_GEMMA3_GGUF"), "gemma3");
  only_ids = false;
  but_for = NULL;
}

MT_TEST_MAIN("token vectors", {"smollm2", smollm2}, {"mistral7b_v1", mistral}, {"qwen3", qwen3},
             {"tiny512", tiny512}, {"llama3_1", llama31}, {"from packages", from_packages},
             {"tiny-llama GGUF", tiny_gguf}, {"SmolLM2 GGUF", smollm2_gguf},
             {"Gemma 3 GGUF", gemma3_gguf})
