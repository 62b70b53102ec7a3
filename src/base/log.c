/* Lines on stderr, one write each so that ranks and threads do not interleave inside a line. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mutirao/base.h"

static int log_level = MT_LOG_WARN;
static int log_rank = -1;

void mt_log_set_level(int level) {
  log_level = level;
}
int mt_log_level(void) {
  return log_level;
}
void mt_log_set_rank(int rank) {
  log_rank = rank;
}

void mt_log(int level, const char *fmt, ...) {
  if (level > log_level) return;
  static const char *const prefix[] = {"error: ", "warning: ", "", ""};
  char line[2048];
  int n = log_rank < 0
              ? snprintf(line, sizeof line, "mutirao: %s", prefix[level & 3])
              : snprintf(line, sizeof line, "mutirao: rank %d: %s", log_rank, prefix[level & 3]);
  va_list ap;
  va_start(ap, fmt);
  int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
  va_end(ap);
  if (m < 0) return;
  size_t len = strlen(line);
  line[len++] = '\n';
  for (size_t at = 0; at < len;) {
    ssize_t w = write(STDERR_FILENO, line + at, len - at);
    if (w <= 0) return;
    at += (size_t)w;
  }
}
