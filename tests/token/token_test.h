/* What the token tests share: where vectors and tokenizer files are, and opening them. Files under
 * free licences are in tests/data/tokenizers; the others are looked for in the reference data, and
 * their tests say "skipped" without. */
#ifndef TOKEN_TEST_H
#define TOKEN_TEST_H

#include <unistd.h>

#include "mt_test.h"
#include "mutirao/json.h"
#include "mutirao/token.h"

static inline const char *reference_dir(void) {
  static char dir[1024];
  const char *r = getenv("MT_REFERENCE");
  if (r)
    snprintf(dir, sizeof dir, "%s", r);
  else
    snprintf(dir, sizeof dir, "%s/../shared/reference", mt_test_root());
  return dir;
}

/* The first of the two places that has the file; false if neither. */
static inline bool find_data(const char *rest, char *path, size_t size) {
  snprintf(path, size, "%s/tests/data/tokenizers/%s", mt_test_root(), rest);
  if (!access(path, R_OK)) return true;
  snprintf(path, size, "%s/tokenizers/%s", reference_dir(), rest);
  return !access(path, R_OK);
}

/* Unpacks NAME's tokenizer.json and its config into a fresh directory; the caller removes it with
 * drop_dir. */
static inline bool unpack_dir(const char *name, char *dir, size_t size) {
  char rest[256], path[4096], command[9000];
  snprintf(rest, sizeof rest, "files/%s/tokenizer.json.gz", name);
  if (!find_data(rest, path, sizeof path)) return false;
  snprintf(dir, size, "/tmp/mt-token-XXXXXX");
  if (!mkdtemp(dir)) return false;
  path[strlen(path) - strlen("/tokenizer.json.gz")] = 0;
  snprintf(command, sizeof command,
           "gzip -dc '%s/tokenizer.json.gz' > '%s/tokenizer.json' && cp '%s'/*_config.json '%s'",
           path, dir, path, dir);
  return system(command) == 0;
}

static inline void drop_dir(const char *dir) {
  char path[4096];
  const char *file[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"};
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, file[i]);
    unlink(path);
  }
  rmdir(dir);
}

/* Opens a tokenizer by its reference name; NULL (and "skipped") where its file is not here. */
static inline mt_tokenizer *open_named(const char *name) {
  char dir[64];
  mt_tokenizer *t = NULL;
  mt_err e = {0};
  if (!unpack_dir(name, dir, sizeof dir)) {
    printf("%s: skipped, no file\n", name);
    return NULL;
  }
  if (mt_tokenizer_open(&t, dir, &e)) printf("%s: %s\n", name, e.msg);
  CU_ASSERT_PTR_NOT_NULL(t);
  drop_dir(dir);
  return t;
}

static inline mt_ids encode_flags(const mt_tokenizer *t, const char *s, size_t n, int flags) {
  mt_ids ids = {0};
  mt_err e = {0};
  int rc = mt_tokenizer_encode(t, s, n, flags, &ids, &e);
  if (rc) printf("encode: %s\n", e.msg);
  CU_ASSERT_EQUAL(rc, MT_OK);
  return ids;
}

static inline mt_ids encode_plain(const mt_tokenizer *t, const char *s) {
  return encode_flags(t, s, strlen(s), MT_ENCODE_PARSE_SPECIAL);
}

static inline mt_ids ids_of(const mt_json *j) {
  mt_ids ids = {0};
  for (size_t i = 0; i < mt_json_len(j); i++) {
    int64_t v = -1;
    mt_json_int(mt_json_at(j, i), &v);
    mt_ids_push(&ids, (uint32_t)v);
  }
  return ids;
}

static inline bool equal(const uint32_t *a, size_t n, const mt_ids *b) {
  return n == b->n && (!n || !memcmp(a, b->id, n * sizeof *a));
}

static inline bool encodes(const mt_tokenizer *t, const char *s, size_t n, int flags,
                           const mt_json *want) {
  mt_ids got = encode_flags(t, s, n, flags), w = ids_of(want);
  bool ok = equal(got.id, got.n, &w);
  mt_ids_free(&got);
  mt_ids_free(&w);
  return ok;
}

/* Without "ids_special" they are the plain ids; long cases give only what stands before and behind
 * the plain ids. */
static inline bool encodes_special(const mt_tokenizer *t, const char *s, size_t n,
                                   const mt_json *c) {
  const mt_json *whole = mt_json_get(c, "ids_special");
  if (!whole && !mt_json_get(c, "ids_special_prefix")) whole = mt_json_get(c, "ids");
  if (whole) return encodes(t, s, n, MT_ENCODE_PARSE_SPECIAL | MT_ENCODE_ADD_SPECIAL, whole);
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

static inline bool decodes(const mt_tokenizer *t, const mt_ids *ids, size_t n, bool skip,
                           const char *want, size_t len) {
  mt_buf whole = {0}, piece = {0}, streamed = {0};
  mt_stream *s = NULL;
  bool ok =
      !mt_tokenizer_decode(t, ids->id, n, skip, &whole, NULL) && !mt_stream_new(&s, t, skip, NULL);
  for (size_t i = 0; ok && i <= n; i++) { /* the last round finishes */
    mt_buf_clear(&piece);
    ok = i < n ? !mt_stream_push(s, ids->id[i], &piece, NULL) : !mt_stream_finish(s, &piece, NULL);
    if (ok && piece.len)
      ok = mt_utf8_valid(piece.data, piece.len, NULL) &&
           !mt_buf_append(&streamed, piece.data, piece.len);
  }
  ok = ok && whole.len == len && (!len || !memcmp(whole.data, want, len));
  ok = ok && streamed.len == len && (!len || !memcmp(streamed.data, want, len));
  mt_stream_free(s);
  mt_buf_free(&whole);
  mt_buf_free(&piece);
  mt_buf_free(&streamed);
  return ok;
}

/* Set where a file counts other tokens as special than the vectors' tokenizer does: only plain ids
 * and their text are compared then. */
static bool only_ids;
static const char *but_for; /* id of a case that cannot hold then */

static inline bool check_case(const mt_tokenizer *t, const mt_json *c) {
  size_t n, len;
  const char *s = mt_json_string(mt_json_get(c, "text"), &n);
  mt_ids ids = ids_of(mt_json_get(c, "ids"));
  const mt_json *prefixes = mt_json_get(c, "decoded_prefixes"),
                *plain = mt_json_get(c, "ids_noparse");
  bool ok = true;
  if (s) {
    ok = encodes(t, s, n, MT_ENCODE_PARSE_SPECIAL, mt_json_get(c, "ids"));
    ok = ok && (only_ids || encodes(t, s, n, 0, plain ? plain : mt_json_get(c, "ids")));
    if (!prefixes) ok = ok && encodes_special(t, s, n, c);
  }
  bool no_text =
      mt_json_get(c, "decoded") && !mt_json_is(mt_json_get(c, "decoded"), MT_JSON_STRING);
  const char *d = mt_json_string(mt_json_get(c, "decoded"), &len);
  if (no_text) goto out;
  if (!d && s) d = s, len = n;
  if (d) ok = ok && decodes(t, &ids, ids.n, false, d, len);
  size_t skip_len = len;
  const char *skip = mt_json_string(mt_json_get(c, "decoded_skip"), &skip_len);
  if (!prefixes && !only_ids)
    ok = ok && decodes(t, &ids, ids.n, true, skip ? skip : d, skip ? skip_len : len);
  for (size_t k = 0; k < mt_json_len(prefixes); k++) {
    d = mt_json_string(mt_json_at(prefixes, k), &len);
    ok = ok && decodes(t, &ids, k, false, d, len);
  }
out:
  mt_ids_free(&ids);
  return ok;
}

static inline void check_vectors(const mt_tokenizer *t, const char *name) {
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
    const char *id = mt_json_string(mt_json_get(c, "id"), NULL);
    cases++;
    if (!(but_for && !strcmp(id, but_for)) && !check_case(t, c)) {
      bad++;
      printf("%s: case %s differs\n", name, id);
    }
    mt_json_free(c);
  }
  printf("%s: %zu of %zu cases hold\n", name, cases - bad, cases);
  CU_ASSERT_EQUAL(bad, 0);
  CU_ASSERT(cases > 400);
  mt_buf_free(&file);
}

#endif
