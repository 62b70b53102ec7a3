/* The word that was probably meant: edit distance with swaps of neighbours (optimal string
 * alignment). */
#include <string.h>

#include "opt_priv.h"

enum { MAX_WORD = 40 };

static size_t min3(size_t a, size_t b, size_t c) {
  size_t m = a < b ? a : b;
  return m < c ? m : c;
}

static size_t distance(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b);
  if (na > MAX_WORD || nb > MAX_WORD) return MAX_WORD;
  size_t row[3][MAX_WORD + 1];
  for (size_t j = 0; j <= nb; j++) row[0][j] = j;
  for (size_t i = 1; i <= na; i++) {
    size_t *cur = row[i % 3], *one = row[(i + 2) % 3], *two = row[(i + 1) % 3];
    cur[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      cur[j] = min3(one[j] + 1, cur[j - 1] + 1, one[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two[j - 2] + 1 < cur[j])
        cur[j] = two[j - 2] + 1;
    }
  }
  return row[na % 3][nb];
}

const char *mt_opt_nearest(const char *word, const char *const *words, size_t n) {
  const char *best = NULL;
  size_t len = strlen(word), limit = len <= 4 ? 1 : len <= 8 ? 2 : 3, least = limit + 1;
  for (size_t i = 0; i < n; i++) {
    size_t d = distance(word, words[i]);
    /* What was typed begins the option's name: meant, however much is missing. */
    if (d > limit && len >= 3 && !strncmp(word, words[i], len)) d = limit;
    if (d < least) {
      least = d;
      best = words[i];
    }
  }
  return best;
}
