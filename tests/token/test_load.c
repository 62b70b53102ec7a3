/* Opening: what is refused, and how it is said; directories; damaged files. The scanners against
 * the regular expressions that they stand for. */
#include "token_test.h"

static mt_tokenizer *open_text(const char *json, size_t n, mt_err *e) {
  char path[] = "/tmp/mt-load-XXXXXX";
  int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0 && write(fd, json, n) == (ssize_t)n);
  close(fd);
  mt_tokenizer *t = NULL;
  *e = (mt_err){0};
  int rc = mt_tokenizer_open_json(&t, path, e);
  CU_ASSERT(rc == e->code && (rc == MT_OK) == (t != NULL));
  unlink(path);
  return t;
}

#define MODEL \
  "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"

static void refused(const char *json, int code, const char *says) {
  mt_err e;
  mt_tokenizer *t = open_text(json, strlen(json), &e);
  CU_ASSERT_EQUAL(e.code, code);
  if (!strstr(e.msg, says)) printf("message: %s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, says));
  mt_tokenizer_free(t);
}

static void unsupported(void) {
  static const struct {
    const char *json, *says;
  } c[] = {
      {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "Unigram"},
      {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece"},
      {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", "WordLevel"},
      {"{" MODEL ",\"end_of_word_suffix\":\"</w>\"}}", "end_of_word_suffix"},
      {"{" MODEL ",\"continuing_subword_prefix\":\"##\"}}", "continuing_subword_prefix"},
      {"{" MODEL ",\"dropout\":0.1}}", "dropout"},
      {"{" MODEL "},\"normalizer\":{\"type\":\"Precompiled\"}}", "Precompiled"},
      {"{" MODEL "},\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"}]}}",
       "Nmt"},
      {"{" MODEL "},\"normalizer\":{}}", "no type"},
      {"{" MODEL "},\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", "UnicodeScripts"},
      {"{" MODEL "},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}", "BertPreTokenizer"},
      {"{" MODEL "},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
       "\"ByteLevel\"},{\"type\":"
       "\"Digits\"}]}}",
       "Digits after ByteLevel"},
      {"{" MODEL "},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
       "\"behavior\":\"Isolated\"}}",
       "pattern ("},
      {"{" MODEL
       "},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":"
       "\"Isolated\"}}",
       "&&"},
      {"{" MODEL "},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}+"
       "\"},\"behavior\":"
       "\"Isolated\"}}",
       "{n,m}"},
      {"{" MODEL "},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},"
       "\"behavior\":\"Sideways\"}}",
       "Sideways"},
      {"{" MODEL "},\"post_processor\":{\"type\":\"Odd\"}}", "Odd"},
      {"{" MODEL "},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}}",
       "sequence"},
      {"{" MODEL "},\"decoder\":{\"type\":\"CTC\"}}", "CTC"},
      {"{" MODEL "},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
       "\"ByteFallback\"}]}}",
       "ByteFallback"},
  };
  for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
    refused(c[i].json, MT_EUNSUPPORTED, c[i].says);
}

static void malformed(void) {
  static const struct {
    const char *json, *says;
  } c[] = {
      {"", ":1:"},
      {"[]", "model"},
      {"{}", "model"},
      {"{\"model\":{\"type\":\"BPE\"}}", "vocab"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "merges"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "empty"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "\"a\""},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"b\"},\"merges\":[]}}", "\"a\""},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "comes twice"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
       "merge 0"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", "merge 0"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "merge 0"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"?\"}}",
       "\"?\""},
      {"{" MODEL "},\"added_tokens\":7}", "added_tokens"},
      {"{" MODEL "},\"added_tokens\":[{\"content\":\"x\"}]}", "added token 0"},
      {"{" MODEL "},\"added_tokens\":[{\"content\":\"x\",\"id\":1}]}", "comes twice"},
      {"{" MODEL
       "},\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"x\",9],\"sep\":[\"y\",1]}}",
       "cls"},
  };
  for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) refused(c[i].json, MT_EFORMAT, c[i].says);
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}", MT_ERANGE,
          "99999999999");
  refused("{" MODEL "},\"added_tokens\":[{\"content\":\"x\",\"id\":99999999}]}", MT_ERANGE,
          "99999999");
}

/* A real file cut off anywhere, and with single bytes changed: refused or opened, never worse. */
static void damaged(void) {
  char dir[64], path[128];
  mt_buf file = {0};
  CU_ASSERT_FATAL(unpack_dir("tiny512", dir, sizeof dir));
  snprintf(path, sizeof path, "%s/tokenizer.json", dir);
  CU_ASSERT_EQUAL_FATAL(mt_buf_read_file(&file, path, 1 << 24, NULL), MT_OK);
  drop_dir(dir);
  unsigned long long seed = mt_test_seed();
  for (uint32_t i = 0; i < 120; i++) {
    mt_err e;
    size_t at = (size_t)(mt_uniform(seed, 0, i, 0) * (double)file.len);
    char was = file.data[at];
    mt_tokenizer *t = open_text(file.data, at, &e);
    CU_ASSERT(t == NULL && e.code == MT_EFORMAT);
    mt_tokenizer_free(t);
    file.data[at] = (char)(32 + (int)(mt_uniform(seed, 0, i, 1) * 90));
    t = open_text(file.data, file.len, &e);
    mt_tokenizer_free(t);
    file.data[at] = was;
  }
  mt_buf_free(&file);
}

static void write_file(const char *dir, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  CU_ASSERT_FATAL(f != NULL);
  fputs(text, f);
  fclose(f);
}

static void directories(void) {
  char dir[64];
  mt_tokenizer *t = NULL;
  mt_err e = {0};
  CU_ASSERT_FATAL(unpack_dir("tiny512", dir, sizeof dir));
  write_file(
      dir, "tokenizer_config.json",
      "{\"bos_token\":{\"content\":\"<|im_start|>\",\"special\":true},\"eos_token\":\"<|im_end|>\","
      "\"pad_token\":null,\"model_max_length\":1000000000000000019884624838656,"
      "\"chat_template\":[{\"name\":\"default\",\"template\":\"A\"},{\"name\":\"tool_use\","
      "\"template\":\"BB\"}]}");
  CU_ASSERT_EQUAL_FATAL(mt_tokenizer_open(&t, dir, &e), MT_OK);
  size_t len;
  CU_ASSERT(mt_tokenizer_bos(t) == 1 && mt_tokenizer_eos(t) == 2 && mt_tokenizer_pad(t) == -1);
  CU_ASSERT_STRING_EQUAL(mt_tokenizer_template(t, NULL, NULL), "A");
  CU_ASSERT_STRING_EQUAL(mt_tokenizer_template(t, "tool_use", &len), "BB");
  CU_ASSERT(len == 2 && !strcmp(mt_tokenizer_template_at(t, 1), "tool_use"));
  mt_tokenizer_free(t);
  write_file(dir, "chat_template.jinja", "from the file"); /* comes before the configuration's */
  CU_ASSERT_EQUAL_FATAL(mt_tokenizer_open(&t, dir, &e), MT_OK);
  CU_ASSERT_STRING_EQUAL(mt_tokenizer_template(t, "default", NULL), "from the file");
  mt_tokenizer_free(t);
  write_file(dir, "tokenizer_config.json", "{\"eos_token\":\"<|nowhere|>\"}");
  CU_ASSERT_EQUAL(mt_tokenizer_open(&t, dir, &e), MT_EFORMAT);
  CU_ASSERT(t == NULL && strstr(e.msg, "<|nowhere|>"));
  drop_dir(dir);
  CU_ASSERT_EQUAL(mt_tokenizer_open(&t, dir, &e), MT_EIO); /* gone */
}

/* ---- scanners -------------------------------------------------------------------------------- */

static mt_tokenizer *with_pattern(const char *pattern, bool group) {
  mt_buf b = {0};
  mt_err e;
  mt_buf_puts(&b,
              "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
              "\"behavior\":"
              "\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":");
  mt_buf text = {0};
  mt_buf_printf(&text, group ? "(?:%s)" : "%s", pattern);
  mt_json *s = mt_json_new_string(text.data, text.len);
  mt_json_write(s, 0, &b);
  mt_buf_puts(&b,
              "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}," MODEL
              "}}");
  mt_tokenizer *t = open_text(b.data, b.len, &e);
  if (!t) printf("%s\n", e.msg);
  mt_json_free(s);
  mt_buf_free(&text);
  mt_buf_free(&b);
  return t;
}

static void note_piece(void *arg, const mt_explain_event *ev) {
  mt_buf *b = arg;
  if (ev->kind != MT_EXPLAIN_PIECE) return;
  mt_buf_append(b, ev->text, ev->len);
  mt_buf_putc(b, '\1');
}

/* Characters of every class, among them all that the patterns name, in random order. */
static void random_text(unsigned long long seed, uint32_t round, mt_buf *out) {
  static const char *const part[] = {
      " ",      " ",      "  ",       "\n", "\r",     "\t",     "'", "s",      "S",      "ſ",
      "t",      "re",     "VE",       "m",  "Ll",     "d",      "a", "B",      "é",      "É",
      "ǅ",      "ʰ",      "中",       "あ", "\u0301", "\u0903", "1", "٣",      "Ⅷ",      "²",
      "12345",  "/",      "!",        "_",  "¿",      "€",      "😊", "\u200d", "\u00a0", "\u3000",
      "\u2028", "\u180e", "\xC2\x85", "ÀÉ", "don't",  "I'LL",   "x", "Z",      "-"};
  size_t n = 1 + (size_t)(mt_uniform(seed, round, 0, 0) * 24);
  mt_buf_clear(out);
  for (size_t i = 0; i < n; i++)
    mt_buf_puts(
        out,
        part[(size_t)(mt_uniform(seed, round, i + 1, 0) * (double)(sizeof part / sizeof part[0]))]);
}

#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static void scanners(void) {
  static const char *const pattern[] = {
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST,
      ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST,
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
      "+" ENDINGS
      "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
      "*" ENDINGS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" REST};
  unsigned long long seed = mt_test_seed();
  mt_buf text = {0}, a = {0}, b = {0};
  for (size_t k = 0; k < 4; k++) {
    mt_tokenizer *scan = with_pattern(pattern[k], false), *regex = with_pattern(pattern[k], true);
    CU_ASSERT_FATAL(scan && regex);
    size_t bad = 0;
    for (uint32_t i = 0; i < 20000; i++) {
      random_text(seed, i, &text);
      mt_buf_clear(&a);
      mt_buf_clear(&b);
      mt_tokenizer_explain(scan, text.data, text.len, 0, note_piece, &a, NULL);
      mt_tokenizer_explain(regex, text.data, text.len, 0, note_piece, &b, NULL);
      if (strcmp(a.data, b.data) && !bad++)
        printf("pattern %zu: text %u: %s | %s\n", k, i, a.data, b.data);
    }
    CU_ASSERT_EQUAL(bad, 0);
    mt_tokenizer_free(scan);
    mt_tokenizer_free(regex);
  }
  mt_buf_free(&text);
  mt_buf_free(&a);
  mt_buf_free(&b);
}

/* A pattern that backtracks without end is an error, not a hang. */
static void endless_pattern(void) {
  mt_tokenizer *t = with_pattern("(x+x+)+[yz]", false);
  char text[64];
  mt_ids ids = {0};
  mt_err e = {0};
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  memset(text, 'x', sizeof text);
  CU_ASSERT_EQUAL(mt_tokenizer_encode(t, text, sizeof text, 0, &ids, &e), MT_ELIMIT);
  CU_ASSERT(ids.n == 0 && strstr(e.msg, "(x+x+)+[yz]"));
  mt_ids_free(&ids);
  mt_tokenizer_free(t);
}

MT_TEST_MAIN("token load", {"unsupported", unsupported}, {"malformed", malformed},
             {"damaged", damaged}, {"directories", directories}, {"scanners", scanners},
             {"endless pattern", endless_pattern})
