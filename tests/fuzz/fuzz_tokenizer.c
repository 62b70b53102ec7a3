/* Fuzzes the tokenizer. The first byte chooses: a tokenizer.json as it stands, or a text for one of
 * the built-in tokenizers, which must encode (or refuse bad UTF-8), and whose ids must decode and
 * stream to the same valid text. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mutirao/token.h"

#define VOCAB                                                                                    \
  "\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"ab\":3,\" "                                          \
  "\":4,\"\\u2581\":5,\"\\u2581a\":6,\"e\":7,\"\\u00e9\":8,"                                     \
  "\"ea\":9,\"\\u0120\":10,\"\\u0120a\":11,\"\\u00c3\":12,\"\\u00a9\":13,\"\\u00c3\\u00a9\":14," \
  "\"aa\":15,"                                                                                   \
  "\"<0xE2>\":16,\"<0x82>\":17}"
#define MERGES \
  "\"merges\":[\"a b\",\"\\u2581 a\",\"e a\",\"\\u0120 a\",\"\\u00c3 \\u00a9\",\"a a\"]"
#define ADDED                                                                               \
  "\"added_tokens\":[{\"id\":30,\"content\":\"<s>\",\"special\":true,\"normalized\":false," \
  "\"rstrip\":true},"                                                                       \
  "{\"id\":31,\"content\":\"aab\",\"special\":false,\"normalized\":true,\"single_word\":true}]"

static const char *const built_in[] = {
    "{" ADDED ",\"model\":{" VOCAB "," MERGES
    ",\"unk_token\":\"<unk>\",\"fuse_unk\":true},\"normalizer\":{\"type\":"
    "\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Prepend\",\"prepend\":"
    "\"\xE2\x96\x81\"},{\"type\":"
    "\"Replace\",\"pattern\":{\"String\":\" "
    "\"},\"content\":\"\xE2\x96\x81\"}]},\"decoder\":{\"type\":\"Sequence\","
    "\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
    "\" \",\"start\":1,"
    "\"stop\":0}]}}",
    "{" ADDED ",\"model\":{" VOCAB "," MERGES
    "},\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":"
    "\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}]},\"decoder\":{"
    "\"type\":"
    "\"ByteLevel\"}}",
    "{" ADDED ",\"model\":{" VOCAB "," MERGES
    ",\"byte_fallback\":true},\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\w+|\\\\s\"},\"behavior\":"
    "\"MergedWithNext\"},"
    "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}]},\"decoder\":{\"type\":"
    "\"Metaspace\",\"replacement\":"
    "\"\xE2\x96\x81\"}}"};
enum { N_BUILT_IN = sizeof built_in / sizeof built_in[0] };

static mt_tokenizer *open_json(const char *json, size_t n) {
  char path[] = "/tmp/mt-fuzz-XXXXXX";
  mt_tokenizer *t = NULL;
  int fd = mkstemp(path);
  if (fd < 0) abort();
  if (write(fd, json, n) != (ssize_t)n) abort();
  close(fd);
  mt_tokenizer_open_json(&t, path, NULL);
  unlink(path);
  return t;
}

static void must(bool ok) {
  if (!ok) abort();
}

static void stream_equals(const mt_tokenizer *t, const uint32_t *id, size_t n) {
  mt_buf whole = {0}, streamed = {0};
  mt_stream *s = NULL;
  must(!mt_tokenizer_decode(t, id, n, false, &whole, NULL) && !mt_stream_new(&s, t, false, NULL));
  for (size_t i = 0; i < n; i++) {
    size_t before = streamed.len;
    must(!mt_stream_push(s, id[i], &streamed, NULL));
    must(streamed.len == before ||
         mt_utf8_valid(streamed.data + before, streamed.len - before, NULL));
  }
  must(!mt_stream_finish(s, &streamed, NULL));
  must(whole.len == streamed.len && (!whole.len || !memcmp(whole.data, streamed.data, whole.len)));
  must(mt_utf8_valid(whole.data, whole.len, NULL));
  mt_stream_free(s);
  mt_buf_free(&whole);
  mt_buf_free(&streamed);
}

static void exercise(const mt_tokenizer *t, const char *s, size_t n) {
  mt_ids a = {0}, b = {0};
  mt_text text = {0};
  bool valid = mt_utf8_valid(s, n, NULL);
  int rc = mt_tokenizer_encode(t, s, n, MT_ENCODE_ADD_SPECIAL | MT_ENCODE_PARSE_SPECIAL, &a, NULL);
  must(valid || rc == MT_EFORMAT);
  for (size_t i = 0; i < a.n; i++) must(a.id[i] < mt_tokenizer_vocab(t));
  stream_equals(t, a.id, a.n);
  if (!mt_text_append(&text, s, n / 2, MT_SPAN_TEMPLATE) &&
      !mt_text_append(&text, s + n / 2, n - n / 2, MT_SPAN_USER))
    mt_tokenizer_encode_text(t, &text, MT_ENCODE_ADD_SPECIAL, &b, NULL);
  mt_text_free(&text);
  mt_ids_free(&a);
  mt_ids_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt_tokenizer *t[N_BUILT_IN];
  for (size_t i = 0; i < N_BUILT_IN; i++)
    if (!t[i]) must((t[i] = open_json(built_in[i], strlen(built_in[i]))) != NULL);
  if (!size) return 0;
  const char *s = (const char *)data + 1;
  size_t n = size - 1, which = data[0] % (N_BUILT_IN + 2);
  if (which < N_BUILT_IN) {
    exercise(t[which], s, n);
  } else if (which == N_BUILT_IN) {
    mt_tokenizer *own = open_json(s, n);
    if (own) exercise(own, "a <s>b\xC3\xA9 12 \xE2\x96\x81", 15);
    mt_tokenizer_free(own);
  } else { /* the bytes as ids */
    uint32_t id[64];
    size_t count = n < 64 ? n : 64;
    for (size_t i = 0; i < count; i++) id[i] = data[1 + i] % 40;
    for (size_t i = 0; i < N_BUILT_IN; i++) stream_equals(t[i], id, count);
  }
  return 0;
}
