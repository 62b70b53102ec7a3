/* Ids and decoded text against the vectors that the Hugging Face tokenizers library gave, case by case. */
#include "token_test.h"

static mt_ids ids_of(const mt_json *j) {
  mt_ids ids = {0};
  for (size_t i = 0; i < mt_json_len(j); i++) {
    int64_t v = -1;
    mt_json_int(mt_json_at(j, i), &v);
    mt_ids_push(&ids, (uint32_t)v);
  }
  return ids;
}

static bool equal(const uint32_t *a, size_t n, const mt_ids *b) {
  return n == b->n && (!n || !memcmp(a, b->id, n * sizeof *a));
}

static bool encodes(const mt_tokenizer *t, const char *s, size_t n, int flags, const mt_json *want) {
  mt_ids got = encode_flags(t, s, n, flags), w = ids_of(want);
  bool ok = equal(got.id, got.n, &w);
  mt_ids_free(&got);
  mt_ids_free(&w);
  return ok;
}

/* Long cases give only what stands before and behind the plain ids. */
static bool encodes_special(const mt_tokenizer *t, const char *s, size_t n, const mt_json *c) {
  if (mt_json_get(c, "ids_special"))
    return encodes(t, s, n, MT_ENCODE_PARSE_SPECIAL | MT_ENCODE_ADD_SPECIAL, mt_json_get(c, "ids_special"));
  mt_ids all = ids_of(mt_json_get(c, "ids_special_prefix")), plain = ids_of(mt_json_get(c, "ids"));
  mt_ids after = ids_of(mt_json_get(c, "ids_special_suffix"));
  for (size_t i = 0; i < plain.n; i++) mt_ids_push(&all, plain.id[i]);
  for (size_t i = 0; i < after.n; i++) mt_ids_push(&all, after.id[i]);
  mt_ids got = encode_flags(t, s, n, MT_ENCODE_PARSE_SPECIAL | MT_ENCODE_ADD_SPECIAL);
  bool ok = equal(got.id, got.n, &all);
  mt_ids_free(&got);
  mt_ids_free(&all);
  mt_ids_free(&plain);
  mt_ids_free(&after);
  return ok;
}

static bool decodes(const mt_tokenizer *t, const mt_ids *ids, size_t n, bool skip, const char *want, size_t len) {
  mt_buf whole = {0}, piece = {0}, streamed = {0};
  mt_stream *s = NULL;
  bool ok = !mt_tokenizer_decode(t, ids->id, n, skip, &whole, NULL) && !mt_stream_new(&s, t, skip, NULL);
  for (size_t i = 0; ok && i <= n; i++) { /* the last round finishes */
    mt_buf_clear(&piece);
    ok = i < n ? !mt_stream_push(s, ids->id[i], &piece, NULL) : !mt_stream_finish(s, &piece, NULL);
    if (ok && piece.len) ok = mt_utf8_valid(piece.data, piece.len, NULL) && !mt_buf_append(&streamed, piece.data, piece.len);
  }
  ok = ok && whole.len == len && (!len || !memcmp(whole.data, want, len));
  ok = ok && streamed.len == len && (!len || !memcmp(streamed.data, want, len));
  mt_stream_free(s);
  mt_buf_free(&whole);
  mt_buf_free(&piece);
  mt_buf_free(&streamed);
  return ok;
}

static bool check_case(const mt_tokenizer *t, const mt_json *c) {
  size_t n, len;
  const char *s = mt_json_string(mt_json_get(c, "text"), &n);
  mt_ids ids = ids_of(mt_json_get(c, "ids"));
  const mt_json *prefixes = mt_json_get(c, "decoded_prefixes"), *plain = mt_json_get(c, "ids_noparse");
  bool ok = true;
  if (s) {
    ok = encodes(t, s, n, MT_ENCODE_PARSE_SPECIAL, mt_json_get(c, "ids"));
    ok = ok && encodes(t, s, n, 0, plain ? plain : mt_json_get(c, "ids"));
    if (!prefixes) ok = ok && encodes_special(t, s, n, c);
  }
  const char *d = mt_json_string(mt_json_get(c, "decoded"), &len);
  if (!d && s) d = s, len = n;
  if (d) ok = ok && decodes(t, &ids, ids.n, false, d, len);
  size_t skip_len = len;
  const char *skip = mt_json_string(mt_json_get(c, "decoded_skip"), &skip_len);
  if (!prefixes) ok = ok && decodes(t, &ids, ids.n, true, skip ? skip : d, skip ? skip_len : len);
  for (size_t k = 0; k < mt_json_len(prefixes); k++) {
    d = mt_json_string(mt_json_at(prefixes, k), &len);
    ok = ok && decodes(t, &ids, k, false, d, len);
  }
  mt_ids_free(&ids);
  return ok;
}

static void check_vectors(const mt_tokenizer *t, const char *name) {
  char rest[256], path[4096];
  mt_buf file = {0};
  size_t cases = 0, bad = 0;
  snprintf(rest, sizeof rest, "%s.jsonl", name);
  if (!find_data(rest, path, sizeof path) || mt_buf_read_file(&file, path, 1 << 26, NULL)) {
    printf("%s: skipped, no vectors\n", name);
    return;
  }
  for (char *line = file.data, *end; line && *line; line = end) {
    end = strchr(line, '\n');
    size_t n = end ? (size_t)(end - line) : strlen(line);
    if (end) end++;
    mt_json *c = NULL;
    CU_ASSERT_EQUAL_FATAL(mt_json_parse(&c, line, n, name, NULL), MT_OK);
    cases++;
    if (!check_case(t, c)) {
      bad++;
      printf("%s: case %s differs\n", name, mt_json_string(mt_json_get(c, "id"), NULL));
    }
    mt_json_free(c);
  }
  printf("%s: %zu of %zu cases hold\n", name, cases - bad, cases);
  CU_ASSERT_EQUAL(bad, 0);
  CU_ASSERT(cases > 400);
  mt_buf_free(&file);
}

static void check_named(const char *name) {
  mt_tokenizer *t = open_named(name);
  if (t) check_vectors(t, name);
  mt_tokenizer_free(t);
}

static void smollm2(void) { check_named("smollm2"); }
static void mistral(void) { check_named("mistral7b_v1"); }
static void qwen3(void) { check_named("qwen3"); }
static void tiny512(void) { check_named("tiny512"); }
static void llama31(void) { check_named("llama3_1"); }

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
static void smollm2_gguf(void) { check_gguf(getenv("MT_SMOLLM2_GGUF"), "smollm2"); }
static void gemma3_gguf(void) { check_gguf(getenv("MT_GEMMA3_GGUF"), "gemma3"); }

MT_TEST_MAIN("token vectors", {"smollm2", smollm2}, {"mistral7b_v1", mistral}, {"qwen3", qwen3}, {"tiny512", tiny512},
             {"llama3_1", llama31}, {"from packages", from_packages}, {"tiny-llama GGUF", tiny_gguf},
             {"SmolLM2 GGUF", smollm2_gguf}, {"Gemma 3 GGUF", gemma3_gguf})
