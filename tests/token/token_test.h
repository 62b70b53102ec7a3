/* What the token tests share: where vectors and tokenizer files are, and opening them. Files under free licences are in
 * tests/data/tokenizers; the others are looked for in the reference data, and their tests say "skipped" without. */
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

/* Unpacks NAME's tokenizer.json and its config into a fresh directory; the caller removes it with drop_dir. */
static inline bool unpack_dir(const char *name, char *dir, size_t size) {
  char rest[256], path[4096], command[9000];
  snprintf(rest, sizeof rest, "files/%s/tokenizer.json.gz", name);
  if (!find_data(rest, path, sizeof path)) return false;
  snprintf(dir, size, "/tmp/mt-token-XXXXXX");
  if (!mkdtemp(dir)) return false;
  path[strlen(path) - strlen("/tokenizer.json.gz")] = 0;
  snprintf(command, sizeof command, "gzip -dc '%s/tokenizer.json.gz' > '%s/tokenizer.json' && cp '%s'/*_config.json '%s'",
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

#endif
