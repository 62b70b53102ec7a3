/* Checked sizes, heap and page memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mutirao/base.h"

enum { HUGE_FROM_BYTES = 4 << 20, HUGE_PAGE_BYTES = 2 << 20, CACHE_LINE = 64 };

#if defined(__SANITIZE_ADDRESS__)
#define HEAP_PAGES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEAP_PAGES
#endif
#endif

bool mt_size_mul(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

bool mt_size_add(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

void *mt_malloc(size_t n, size_t size) {
  size_t bytes;
  if (!mt_size_mul(n, size, &bytes)) return NULL;
  return malloc(bytes ? bytes : 1);
}

void *mt_calloc(size_t n, size_t size) {
  size_t bytes;
  if (!mt_size_mul(n, size, &bytes)) return NULL;
  return calloc(bytes ? bytes : 1, 1);
}

void *mt_realloc(void *p, size_t n, size_t size) {
  size_t bytes;
  if (!mt_size_mul(n, size, &bytes)) return NULL;
  return realloc(p, bytes ? bytes : 1);
}

#ifdef HEAP_PAGES /* AddressSanitizer sees a step beyond the end only in memory of its own */
void *mt_pages_alloc(size_t bytes) {
  void *p = NULL;
  if (bytes >> 36) return NULL; /* it ends a program that asks for more than it ever has */
  if (posix_memalign(&p, bytes >= HUGE_FROM_BYTES ? HUGE_PAGE_BYTES : CACHE_LINE, bytes))
    return NULL;
  return memset(p, 0, bytes);
}

void mt_pages_free(void *p, size_t bytes) {
  (void)bytes;
  free(p);
}

void mt_pages_clear(void *p, size_t bytes) {
  memset(p, 0, bytes);
}
#else
/* From HUGE_FROM_BYTES on, one huge page more is mapped and the ends are given back, so that the
 * kernel can use huge pages from the first byte. */
void *mt_pages_alloc(size_t bytes) {
  if (!bytes) bytes = 1;
  bool huge = bytes >= HUGE_FROM_BYTES;
  size_t want = bytes;
  if (huge && !mt_size_add(bytes, HUGE_PAGE_BYTES, &want)) return NULL;
  char *p = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (!huge) return p;
  size_t head = (HUGE_PAGE_BYTES - (uintptr_t)p % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
  size_t page = 4096, kept = (bytes + page - 1) / page * page;
  if (head) munmap(p, head);
  char *start = p + head, *end = p + want;
  end += (page - (uintptr_t)end % page) % page;
  if (start + kept < end) munmap(start + kept, (size_t)(end - (start + kept)));
  (void)madvise(start, kept,
                MADV_HUGEPAGE); /* advice only: without huge pages the bytes are the same */
  return start;
}

void mt_pages_free(void *p, size_t bytes) {
  if (p) munmap(p, bytes ? bytes : 1);
}

void mt_pages_clear(void *p, size_t bytes) {
  if (bytes) (void)madvise(p, bytes, MADV_DONTNEED); /* cannot fail on such memory */
}
#endif
