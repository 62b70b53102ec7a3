/* Checked sizes, heap, pages, growing bytes, files. */
#include <unistd.h>

#include "mt_test.h"
#include "mutirao/base.h"

static void test_sizes(void) {
  size_t r = 7;
  CU_ASSERT(mt_size_mul(6, 7, &r) && r == 42);
  CU_ASSERT(mt_size_mul(0, SIZE_MAX, &r) && r == 0);
  CU_ASSERT(mt_size_mul(SIZE_MAX, 1, &r) && r == SIZE_MAX);
  r = 5;
  CU_ASSERT(!mt_size_mul(SIZE_MAX / 2 + 1, 2, &r) && r == 5);
  CU_ASSERT(!mt_size_mul((size_t)1 << 32, (size_t)1 << 32, &r) && r == 5);
  CU_ASSERT(mt_size_add(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX);
  r = 5;
  CU_ASSERT(!mt_size_add(SIZE_MAX, 1, &r) && r == 5);
  CU_ASSERT(!mt_size_add(SIZE_MAX, SIZE_MAX, &r) && r == 5);
}

static void test_heap(void) {
  CU_ASSERT(mt_malloc(SIZE_MAX / 2 + 1, 2) == NULL);
  CU_ASSERT(mt_calloc(SIZE_MAX / 2 + 1, 2) == NULL);
  void *none = mt_malloc(0, 8);
  CU_ASSERT(none != NULL);
  free(none);
  unsigned char *p = mt_calloc(100, 3);
  CU_ASSERT_FATAL(p != NULL);
  for (int i = 0; i < 300; i++) CU_ASSERT(p[i] == 0);
  p[0] = 42;
  CU_ASSERT(mt_realloc(p, SIZE_MAX, 2) == NULL); /* p stays */
  CU_ASSERT(p[0] == 42);
  p = mt_realloc(p, 1000, 3);
  CU_ASSERT_FATAL(p != NULL);
  CU_ASSERT(p[0] == 42);
  free(p);
}

static void test_pages(void) {
  const size_t sizes[] = {
      0, 1, 63, 4096, 5000, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (6 << 20) + 123};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *p = mt_pages_alloc(sizes[i]);
    CU_ASSERT_FATAL(p != NULL);
    CU_ASSERT((uintptr_t)p % (sizes[i] >= 4 << 20 ? 2 << 20 : 64) == 0);
    unsigned sum = 0;
    for (size_t k = 0; k < sizes[i]; k += 1000) sum += p[k];
    if (sizes[i]) {
      sum += p[sizes[i] - 1];
      p[0] = p[sizes[i] - 1] = 1; /* writable to the end */
    }
    CU_ASSERT(sum == 0);
    mt_pages_free(p, sizes[i]);
  }
  mt_pages_free(NULL, 100);
  CU_ASSERT(mt_pages_alloc(SIZE_MAX) == NULL);
  CU_ASSERT(mt_pages_alloc(SIZE_MAX - (1 << 20)) == NULL);
}

static void test_buf(void) {
  mt_buf b = {0};
  CU_ASSERT(mt_buf_append(&b, NULL, 0) == MT_OK && b.len == 0);
  CU_ASSERT(mt_buf_puts(&b, "mutir") == MT_OK && mt_buf_putc(&b, 'a') == MT_OK);
  CU_ASSERT(mt_buf_printf(&b, "%s-%d", "o", 42) == MT_OK);
  CU_ASSERT_STRING_EQUAL(b.data, "mutirao-42");
  CU_ASSERT(b.len == 10);
  size_t cap = b.cap;
  CU_ASSERT(mt_buf_reserve(&b, SIZE_MAX) == MT_ENOMEM);
  CU_ASSERT(mt_buf_reserve(&b, SIZE_MAX - b.len) == MT_ENOMEM);
  CU_ASSERT(b.cap == cap && b.len == 10);
  CU_ASSERT_STRING_EQUAL(b.data, "mutirao-42");
  mt_buf_clear(&b);
  CU_ASSERT(b.len == 0 && b.data[0] == 0);
  for (int i = 0; i < 10000; i++) CU_ASSERT_FATAL(mt_buf_printf(&b, "%d,", i) == MT_OK);
  CU_ASSERT(b.data[b.len] == 0 && strlen(b.data) == b.len &&
            b.len == 10 * 2 + 90 * 3 + 900 * 4 + 9000 * 5);
  CU_ASSERT(mt_buf_append(&b, "a\0b", 3) == MT_OK && !memcmp(b.data + b.len - 3, "a\0b", 4));
  mt_buf_free(&b);
  CU_ASSERT(b.data == NULL && b.len == 0 && b.cap == 0);
  mt_buf_clear(&b);
}

static void test_read_file(void) {
  char path[] = "/tmp/mutirao-test-XXXXXX";
  int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0);
  char *data = mt_malloc(200000, 1);
  CU_ASSERT_FATAL(data != NULL);
  for (int i = 0; i < 200000; i++) data[i] = (char)(i * 7);
  CU_ASSERT_FATAL(write(fd, data, 200000) == 200000);
  close(fd);
  mt_buf b = {0};
  mt_err e = {0};
  CU_ASSERT(mt_buf_puts(&b, "head") == MT_OK);
  CU_ASSERT(mt_buf_read_file(&b, path, 200000, &e) == MT_OK);
  CU_ASSERT(b.len == 200004 && !memcmp(b.data, "head", 4) && !memcmp(b.data + 4, data, 200000));
  mt_buf_clear(&b);
  CU_ASSERT(mt_buf_read_file(&b, path, 199999, &e) == MT_ERANGE && strstr(e.msg, path) != NULL);
  unlink(path);
  CU_ASSERT(mt_buf_read_file(&b, path, 10, &e) == MT_EIO && strstr(e.msg, path) != NULL);
  CU_ASSERT(mt_buf_read_file(&b, "/", 10, &e) == MT_EIO);
  free(data);
  mt_buf_free(&b);
}

static void check_spans(const mt_text *t) {
  size_t at = 0;
  for (size_t i = 0; i < t->n_spans; i++) {
    CU_ASSERT(t->span[i].begin == at && t->span[i].end > at);
    CU_ASSERT(i == 0 || t->span[i].origin != t->span[i - 1].origin);
    at = t->span[i].end;
  }
  CU_ASSERT(at == t->bytes.len);
}

static void test_spans(void) {
  mt_text t = {0};
  CU_ASSERT(mt_text_append(&t, "<|user|>", 8, MT_SPAN_TEMPLATE) == MT_OK);
  CU_ASSERT(mt_text_append(&t, "", 0, MT_SPAN_USER) == MT_OK && t.n_spans == 1);
  CU_ASSERT(mt_text_append(&t, "hi", 2, MT_SPAN_USER) == MT_OK);
  CU_ASSERT(mt_text_append(&t, " there", 6, MT_SPAN_USER) == MT_OK);
  CU_ASSERT(mt_text_append(&t, "<|end|>", 7, MT_SPAN_TEMPLATE) == MT_OK);
  CU_ASSERT(t.n_spans == 3 && t.span[1].origin == MT_SPAN_USER && t.span[1].begin == 8 &&
            t.span[1].end == 16);
  CU_ASSERT_STRING_EQUAL(t.bytes.data, "<|user|>hi there<|end|>");
  check_spans(&t);
  for (int i = 0; i < 1000; i++)
    CU_ASSERT_FATAL(mt_text_append(&t, "xy", (size_t)(i % 3), i / 5 % 2) == MT_OK);
  check_spans(&t);
  CU_ASSERT(t.n_spans > 100);
  mt_text_free(&t);
  CU_ASSERT(t.span == NULL && t.n_spans == 0 && t.bytes.data == NULL);
}

MT_TEST_MAIN("base: memory", {"sizes", test_sizes}, {"heap", test_heap}, {"pages", test_pages},
             {"buf", test_buf}, {"read file", test_read_file}, {"spans", test_spans})
