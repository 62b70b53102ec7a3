/* GGUF vocabularies: the tokenizers of the vectors, written as GGUF the way converters do, must
 * give the same ids; what we do not know is refused by name; hostile metadata never passes. */
#include "format/gguf_file.h"
#include "token_test.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

static mt_tokenizer *open_bytes(const mt_buf *b, mt_err *e) {
  char path[] = "/tmp/mt-vocab-XXXXXX.gguf";
  int fd = mkstemps(path, 5);
  CU_ASSERT_FATAL(fd >= 0 && write(fd, b->data, b->len) == (ssize_t)b->len);
  close(fd);
  mt_tokenizer *t = NULL;
  *e = (mt_err){0};
  int rc = mt_tokenizer_open(&t, path, e);
  CU_ASSERT_EQUAL(rc == MT_OK, t != NULL);
  CU_ASSERT_EQUAL(rc, e->code);
  unlink(path);
  return t;
}

static void put_counted(mt_buf *b, const char *s, size_t n) {
  put_u64(b, n);
  put(b, s, n);
}

/* Tokens by id with their types, taken from an open tokenizer; holes become unused tokens. */
static void put_tokens(mt_buf *b, const mt_tokenizer *t) {
  size_t n = mt_tokenizer_vocab(t), len;
  put_array(b, "tokenizer.ggml.tokens", STRING, n);
  for (uint32_t id = 0; id < n; id++) {
    char hole[32];
    const char *s = mt_tokenizer_token(t, id, &len);
    if (!s) len = (size_t)snprintf(hole, sizeof hole, "[PAD%u]", (unsigned)id), s = hole;
    put_counted(b, s, len);
  }
  put_array(b, "tokenizer.ggml.token_type", I32, n);
  for (uint32_t id = 0; id < n; id++) {
    const char *s = mt_tokenizer_token(t, id, &len);
    uint32_t type = !s ? UNUSED : NORMAL;
    if (mt_tokenizer_is_added(t, id))
      type = mt_tokenizer_is_special(t, id) ? CONTROL : USER_DEFINED;
    if (id == (uint32_t)mt_tokenizer_unk(t) && !mt_tokenizer_is_byte_level(t)) type = UNKNOWN;
    if (s && len == 6 && !memcmp(s, "<0x", 3)) type = BYTE;
    put_u32(b, type);
  }
}

static void put_merges(mt_buf *b, const mt_json *merges) {
  put_array(b, "tokenizer.ggml.merges", STRING, mt_json_len(merges));
  for (size_t i = 0; i < mt_json_len(merges); i++) {
    const mt_json *m = mt_json_at(merges, i);
    size_t n;
    const char *s = mt_json_string(m, &n);
    char pair[2048];
    if (!s) {
      n = (size_t)snprintf(pair, sizeof pair, "%s %s", mt_json_string(mt_json_at(m, 0), NULL),
                           mt_json_string(mt_json_at(m, 1), NULL));
      s = pair;
    }
    put_counted(b, s, n);
  }
}

/* NAME's tokenizer.json as GGUF under the given pre-tokenizer name, against NAME's vectors. */
static void convert_byte_level(const char *name, const char *json_path, const char *pre,
                               bool adds_bos) {
  mt_tokenizer *t = NULL, *g;
  mt_json *j = NULL;
  mt_err e = {0};
  mt_buf b = {0};
  CU_ASSERT_EQUAL_FATAL(mt_tokenizer_open_json(&t, json_path, &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_json_read_file(&j, json_path, 1 << 28, &e), MT_OK);
  put_head(&b, 3, 0, 6);
  put_key(&b, "tokenizer.ggml.model", STRING);
  put_text(&b, "gpt2");
  put_key(&b, "tokenizer.ggml.pre", STRING);
  put_text(&b, pre);
  put_tokens(&b, t);
  put_merges(&b, mt_json_get(mt_json_get(j, "model"), "merges"));
  put_key(&b, "tokenizer.ggml.bos_token_id", U32);
  put_u32(&b, adds_bos ? (uint32_t)mt_tokenizer_bos(t) : 0);
  g = open_bytes(&b, &e);
  if (!g) printf("%s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL(g);
  if (g) check_vectors(g, name);
  mt_tokenizer_free(g);
  mt_tokenizer_free(t);
  mt_json_free(j);
  mt_buf_free(&b);
}

static void convert_named(const char *name, const char *pre, bool adds_bos) {
  char dir[64], path[128];
  if (!unpack_dir(name, dir, sizeof dir)) {
    printf("%s: skipped, no file\n", name);
    return;
  }
  snprintf(path, sizeof path, "%s/tokenizer.json", dir);
  convert_byte_level(name, path, pre, adds_bos);
  drop_dir(dir);
}

static void smollm2(void) {
  convert_named("smollm2", "smollm", false);
}
static void qwen3(void) {
  convert_named("qwen3", "qwen2", false);
}
static void llama31(void) {
  convert_named("llama3_1", "llama-bpe", true);
}

static void from_packages(void) {
  static const char *const name[] = {"gptoss", "deepseek_v3"}, *const pre[] = {"gpt-4o",
                                                                               "deepseek-v3"};
  const char *dir = getenv("MT_TOKENIZERS_DIR");
  for (size_t i = 0; i < 2; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/tokenizer.json", dir ? dir : "", name[i]);
    if (dir)
      convert_byte_level(name[i], path, pre[i], false);
    else
      printf("%s: skipped, no MT_TOKENIZERS_DIR\n", name[i]);
  }
}

/* The list of merges was made from the scores of the pieces, best first: so the place where a piece
 * is first made stands for its score. */
static void put_scores(mt_buf *b, const mt_tokenizer *t, const mt_json *merges) {
  size_t n = mt_tokenizer_vocab(t);
  float *score = calloc(n, sizeof *score);
  CU_ASSERT_PTR_NOT_NULL_FATAL(score);
  for (size_t i = 0; i < mt_json_len(merges); i++) {
    size_t len;
    const char *m = mt_json_string(mt_json_at(merges, i), &len), *space = memchr(m, ' ', len);
    char piece[1024];
    int joined = snprintf(piece, sizeof piece, "%.*s%s", (int)(space - m), m, space + 1);
    int64_t id = mt_tokenizer_find(t, piece, (size_t)joined);
    CU_ASSERT_FATAL(id >= 0);
    if (score[id] == 0) score[id] = -1 - (float)i;
  }
  put_array(b, "tokenizer.ggml.scores", F32, n);
  put(b, score, n * sizeof *score);
  free(score);
}

static void put_pieces(mt_buf *b, const mt_tokenizer *t, const mt_json *merges, bool prefix) {
  put_head(b, 3, 0, 8);
  put_key(b, "tokenizer.ggml.model", STRING);
  put_text(b, "llama");
  put_tokens(b, t);
  put_scores(b, t, merges);
  put_key(b, "tokenizer.ggml.bos_token_id", U32);
  put_u32(b, 1);
  put_key(b, "tokenizer.ggml.eos_token_id", U32);
  put_u32(b, 2);
  put_key(b, "tokenizer.ggml.unknown_token_id", U32);
  put_u32(b, 0);
  put_key(b, "tokenizer.ggml.add_space_prefix", BOOL);
  mt_buf_putc(b, prefix);
}

static void mistral(void) {
  mt_tokenizer *t = NULL;
  mt_json *j = NULL;
  mt_buf b = {0};
  mt_err e;
  char dir[64], path[128];
  CU_ASSERT_FATAL(unpack_dir("mistral7b_v1", dir, sizeof dir));
  snprintf(path, sizeof path, "%s/tokenizer.json", dir);
  CU_ASSERT_EQUAL_FATAL(mt_tokenizer_open(&t, dir, &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_json_read_file(&j, path, 1 << 28, &e), MT_OK);
  drop_dir(dir);
  const mt_json *merges = mt_json_get(mt_json_get(j, "model"), "merges");
  put_pieces(&b, t, merges, true);
  mt_tokenizer *g = open_bytes(&b, &e);
  if (!g) printf("%s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  check_vectors(g, "mistral7b_v1");
  CU_ASSERT(mt_tokenizer_bos(g) == 1 && mt_tokenizer_eos(g) == 2 && mt_tokenizer_unk(g) == 0);
  CU_ASSERT(mt_tokenizer_adds_bos(g) && !mt_tokenizer_adds_eos(g) &&
            !mt_tokenizer_is_byte_level(g));
  mt_tokenizer_free(g);
  mt_buf_clear(&b);
  put_pieces(&b, t, merges, false); /* without the space that is put first */
  g = open_bytes(&b, &e);
  mt_ids a = encode_plain(g, "hello"), c = encode_plain(t, "a hello");
  CU_ASSERT(a.n >= 1 && c.n >= 2 && a.id[0] != c.id[1]);
  mt_ids_free(&a);
  mt_ids_free(&c);
  mt_tokenizer_free(g);
  mt_tokenizer_free(t);
  mt_json_free(j);
  mt_buf_free(&b);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void put_small(mt_buf *b, const char *model, const char *pre, const char *merge,
                      uint32_t bos) {
  static const char *const token[] = {"a", "b", "ab"};
  mt_buf_clear(b);
  put_head(b, 3, 0, 5);
  put_key(b, "tokenizer.ggml.model", STRING);
  put_text(b, model);
  put_key(b, pre ? "tokenizer.ggml.pre" : "other.key", STRING);
  put_text(b, pre ? pre : "x");
  put_array(b, "tokenizer.ggml.tokens", STRING, 3);
  for (int i = 0; i < 3; i++) put_text(b, token[i]);
  put_array(b, "tokenizer.ggml.merges", STRING, 1);
  put_text(b, merge);
  put_key(b, "tokenizer.ggml.bos_token_id", U32);
  put_u32(b, bos);
}

static void refused(mt_buf *b, int code, const char *says) {
  mt_err e;
  mt_tokenizer *t = open_bytes(b, &e);
  CU_ASSERT_PTR_NULL(t);
  CU_ASSERT_EQUAL(e.code, code);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, says));
  if (!strstr(e.msg, says)) printf("message: %s\n", e.msg);
  mt_tokenizer_free(t);
}

static void refusals(void) {
  mt_buf b = {0};
  mt_err e;
  put_small(&b, "gpt2", "gpt-2", "a b", 2);
  mt_tokenizer *t = open_bytes(&b, &e);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  mt_ids ids = encode_plain(t, "abba");
  CU_ASSERT(ids.n == 3 && ids.id[0] == 2 && ids.id[1] == 1 && ids.id[2] == 0);
  mt_ids_free(&ids);
  mt_tokenizer_free(t);
  put_small(&b, "gpt2", "my-own-rule", "a b", 0);
  refused(&b, MT_EUNSUPPORTED, "my-own-rule");
  put_small(&b, "gpt2", "gpt", "a b", 0); /* not a part of a name either */
  refused(&b, MT_EUNSUPPORTED, "\"gpt\"");
  put_small(&b, "gpt2", "gpt-2 phi-2", "a b", 0);
  refused(&b, MT_EUNSUPPORTED, "gpt-2 phi-2");
  put_small(&b, "gpt2", NULL, "a b", 0);
  refused(&b, MT_EUNSUPPORTED, "tokenizer.ggml.pre");
  put_small(&b, "t5", "gpt-2", "a b", 0);
  refused(&b, MT_EUNSUPPORTED, "t5");
  put_small(&b, "none", "gpt-2", "a b", 0);
  refused(&b, MT_EUNSUPPORTED, "no tokenizer");
  put_small(&b, "gpt2", "gpt-2", "a c", 0);
  refused(&b, MT_EFORMAT, "merge 0");
  put_small(&b, "gpt2", "gpt-2", "ab", 0);
  refused(&b, MT_EFORMAT, "merge 0");
  put_small(&b, "gpt2", "gpt-2", "a b", 3);
  refused(&b, MT_EFORMAT, "outside the vocabulary");
  put_small(&b, "llama", "x", "a b", 0);
  refused(&b, MT_EFORMAT, "scores");
  mt_buf_free(&b);
}

MT_TEST_MAIN("token gguf", {"smollm2", smollm2}, {"qwen3", qwen3}, {"llama3_1", llama31},
             {"from packages", from_packages}, {"mistral7b_v1", mistral}, {"refusals", refusals})
