/* Files that the tests of format make themselves: a scratch directory, and expectations of a
 * refusal. */
#ifndef TESTS_FORMAT_FILES_H
#define TESTS_FORMAT_FILES_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mt_test.h"
#include "mutirao/format.h"

static char scratch_dir[256];

static inline void scratch_remove(void) {
  DIR *d = opendir(scratch_dir);
  for (struct dirent *it; d && (it = readdir(d));) {
    char p[600];
    snprintf(p, sizeof p, "%s/%s", scratch_dir, it->d_name);
    if (it->d_name[0] != '.') remove(p);
  }
  if (d) closedir(d);
  rmdir(scratch_dir);
}

/* Path of a file in this process's own scratch directory, which goes when the process ends. */
static inline const char *scratch(const char *name) {
  static char path[8][600];
  static int next;
  if (!scratch_dir[0]) {
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%s/mt-format-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch_dir)) exit(2);
    atexit(scratch_remove);
  }
  char *p = path[next++ % 8];
  snprintf(p, sizeof path[0], "%s%s%s", scratch_dir, *name ? "/" : "", name);
  return p;
}

static inline const char *write_file(const char *name, const void *data, size_t n) {
  const char *path = scratch(name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, n, f) != n || fclose(f)) exit(2);
  return path;
}

/* Opening is refused with this code and a message that holds `words`; says so when it is not. */
static inline void expect_refusal(const char *path, int code, const char *words,
                                  const char *label) {
  mt_err e = {0};
  mt_weights *w = (mt_weights *)1;
  int rc = mt_weights_open(&w, path, &e);
  bool ok = rc == code && !w && e.code == code && strstr(e.msg, words) && !strchr(e.msg, '\n');
  if (!ok) printf("\n  %s: got %d '%s', wanted %d '%s'\n", label, rc, rc ? e.msg : "", code, words);
  CU_ASSERT(ok);
  if (!rc) mt_weights_close(w);
}

/* Opens or stops the test with the message. */
static inline mt_weights *expect_open(const char *path) {
  mt_err e = {0};
  mt_weights *w = NULL;
  if (mt_weights_open(&w, path, &e)) printf("\n  %s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL_FATAL(w);
  return w;
}

/* Folder of the reference data that is not in the repository, or NULL where it is absent. */
static inline const char *reference_root(void) {
  static char root[600];
  const char *env = getenv("MT_REFERENCE");
  struct stat st;
  if (env)
    snprintf(root, sizeof root, "%s", env);
  else
    snprintf(root, sizeof root, "%s/../shared/reference", mt_test_root());
  return stat(root, &st) ? NULL : root;
}

#endif
