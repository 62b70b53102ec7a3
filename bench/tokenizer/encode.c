/* encode MODEL TEXT-FILE lines|whole ROUNDS: bytes, ids and the best processor time of encoding a
 * file, line by line or at once, on one thread. bench/tokenizer/run compares it with the Hugging
 * Face tokenizers library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mutirao/token.h"

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t encode_lines(const mt_tokenizer *t, const mt_buf *text) {
  size_t total = 0;
  for (const char *p = text->data, *end = text->data + text->len; p < end;) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    size_t n = (size_t)((nl ? nl : end) - p);
    mt_ids ids = {0};
    if (mt_tokenizer_encode(t, p, n, MT_ENCODE_PARSE_SPECIAL, &ids, NULL)) exit(1);
    total += ids.n;
    mt_ids_free(&ids);
    p += n + 1;
  }
  return total;
}

static size_t encode_whole(const mt_tokenizer *t, const mt_buf *text) {
  mt_ids ids = {0};
  if (mt_tokenizer_encode(t, text->data, text->len, MT_ENCODE_PARSE_SPECIAL, &ids, NULL)) exit(1);
  size_t n = ids.n;
  mt_ids_free(&ids);
  return n;
}

int main(int argc, char **argv) {
  mt_tokenizer *t;
  mt_buf text = {0};
  mt_err e;
  if (argc != 5) return fprintf(stderr, "usage: encode MODEL TEXT-FILE lines|whole ROUNDS\n"), 2;
  if (mt_tokenizer_open(&t, argv[1], &e) || mt_buf_read_file(&text, argv[2], (size_t)1 << 31, &e))
    return fprintf(stderr, "%s\n", e.msg), 1;
  double best = 1e9;
  size_t n = 0;
  for (int i = 0; i < atoi(argv[4]); i++) {
    double start = cpu_seconds();
    n = strcmp(argv[3], "lines") ? encode_whole(t, &text) : encode_lines(t, &text);
    double took = cpu_seconds() - start;
    if (took < best) best = took;
  }
  printf("%zu %zu %.6f\n", text.len, n, best);
  mt_buf_free(&text);
  mt_tokenizer_free(t);
  return 0;
}
