/* Memory refused at every allocation in turn: a clean error each time, and nothing leaks. */
#include <errno.h>
#include <stdint.h>

#include "gguf_file.h"
#include "mutirao/json.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0 /* the sanitizer has its own malloc, which must stay */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#ifndef OWN_MALLOC
#define OWN_MALLOC 1
#endif

#if OWN_MALLOC
/* glibc's own names behind the ones that we replace. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static long allowed = -1; /* allocations that still succeed; -1: all */
static long live;         /* allocated and not yet freed */

static bool refuse(void) {
  if (allowed < 0 || (allowed && allowed--)) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t n) {
  if (refuse()) return NULL;
  live++;
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  if (refuse()) return NULL;
  live++;
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
  if (refuse()) return NULL;
  if (!p) live++;
  return __libc_realloc(p, n);
}
void free(void *p) {
  if (p) live--;
  __libc_free(p);
}

static int open_and_close(const char *path, mt_err *e) {
  mt_weights *w = NULL;
  int rc = mt_weights_open(&w, path, e);
  mt_weights_close(w);
  return rc;
}

/* Lets 0, 1, 2 … allocations succeed until the model opens. Returns how many it took. */
static long starve(const char *path) {
  for (long n = 0; n < 100000; n++) {
    mt_err e = {0};
    long before = live;
    allowed = n;
    int rc = open_and_close(path, &e);
    allowed = -1;
    CU_ASSERT_EQUAL(live, before);
    if (!rc) return n;
    if (rc != MT_ENOMEM || !e.msg[0]) printf("\n  %ld: %d %s\n", n, rc, e.msg);
    CU_ASSERT_EQUAL_FATAL(rc, MT_ENOMEM);
  }
  return -1;
}

static void test_gguf(void) {
  mt_buf b = {0};
  uint64_t dim = 4;
  put_head(&b, 3, 70, 72); /* more than the tables' first sizes */
  put_array(&b, "strings", STRING, 2), put_text(&b, "x"), put_text(&b, "yz");
  put_key(&b, "string", STRING), put_text(&b, "s");
  for (int i = 0; i < 70; i++) {
    char key[16];
    snprintf(key, sizeof key, "key %d", i);
    put_key(&b, key, U8), put(&b, "1", 1);
  }
  for (int i = 0; i < 70; i++) {
    char name[16];
    snprintf(name, sizeof name, "tensor %d", i);
    put_tensor(&b, name, 1, &dim, 0, (uint64_t)i * 32);
  }
  put_data(&b, 32, 70 * 32);
  CU_ASSERT(starve(write_file("model.gguf", b.data, b.len)) > 140);
  mt_buf_free(&b);
}

static void test_sharded(void) {
  char path[600];
  snprintf(path, sizeof path, "%s/tests/data/models/llama-sharded-f16", mt_test_root());
  CU_ASSERT(starve(path) > 50);
}

static void test_import(void) {
  char path[600];
  mt_err e;
  mt_weights *w, *x = NULL;
  mt_buf block = {0};
  snprintf(path, sizeof path, "%s/tests/data/gguf/tiny-llama-Q4_0.gguf", mt_test_root());
  w = expect_open(path);
  CU_ASSERT_EQUAL_FATAL(mt_weights_export(w, &block, &e), MT_OK);
  mt_weights_close(w);
  int rc = MT_ENOMEM;
  for (long n = 0; rc; n++) {
    long before = live;
    allowed = n;
    rc = mt_weights_import(&x, block.data, block.len, &e);
    allowed = -1;
    CU_ASSERT_FATAL(rc == MT_OK || rc == MT_ENOMEM);
    if (rc) CU_ASSERT_EQUAL(live, before);
  }
  mt_weights_close(x);
  mt_buf_free(&block);
}

static void test_json(void) {
  const char *text = "{\"a\": [1, 2.5, \"text\", {\"b\": null}], \"c\": {\"d\": [true, [], {}]}}";
  int rc = MT_ENOMEM;
  for (long n = 0; rc; n++) {
    mt_err e = {0};
    mt_json *j = NULL;
    long before = live;
    allowed = n;
    rc = mt_json_parse(&j, text, strlen(text), "text", &e);
    allowed = -1;
    mt_json_free(j);
    if (rc && rc != MT_ENOMEM) printf("\n  %ld: %d %s\n", n, rc, e.msg);
    CU_ASSERT_FATAL(rc == MT_OK || rc == MT_ENOMEM);
    CU_ASSERT_EQUAL(live, before);
  }
}

MT_TEST_MAIN("no memory", {"gguf", test_gguf}, {"sharded", test_sharded}, {"import", test_import},
             {"json", test_json})

#else
static void test_skipped(void) {
  printf("skipped (a sanitizer owns malloc) ");
  CU_ASSERT_FALSE(OWN_MALLOC);
}
MT_TEST_MAIN("no memory", {"skipped", test_skipped})
#endif
