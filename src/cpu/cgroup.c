/* Limits of the control groups that hold this process (Linux, cgroup v1 and v2). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_impl.h"

enum { FILE_BYTES_MOST = 1 << 16, PATH_BYTES = 4096 };

typedef struct files {               /* where one controller keeps what */
  const char *limit, *usage, *cache; /* cache: key in memory.stat of what can be dropped */
} files;
static const files memory_v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file "};
static const files memory_v2 = {"memory.max", "memory.current", "inactive_file "};

static bool read_file(const char *path, mt_buf *b) {
  mt_buf_clear(b);
  return mt_buf_read_file(b, path, FILE_BYTES_MOST, NULL) == MT_OK && b->len;
}

/* First number of a file; false for "max" and where there is none. */
static bool read_number(const char *dir, const char *file, int64_t *out) {
  char path[PATH_BYTES];
  mt_buf b = {0};
  bool ok =
      snprintf(path, sizeof path, "%s/%s", dir, file) < (int)sizeof path && read_file(path, &b);
  char *end = b.data;
  if (ok) *out = strtoll(b.data, &end, 10);
  ok = ok && end != b.data;
  mt_buf_free(&b);
  return ok;
}

uint64_t mt_cgroup_find(const char *path, const char *key) {
  mt_buf b = {0};
  uint64_t v = 0;
  if (read_file(path, &b)) {
    size_t n = strlen(key);
    for (char *line = b.data; line; line = strchr(line, '\n')) {
      line += *line == '\n';
      if (strncmp(line, key, n)) continue;
      v = strtoull(line + n, NULL, 10);
      break;
    }
  }
  mt_buf_free(&b);
  return v;
}

static void least_cpus(mt_cgroup *g, int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return;
  double cpus = (double)quota / (double)period;
  if (g->cpus <= 0 || cpus < g->cpus) g->cpus = cpus;
}

static void level_cpu_v1(mt_cgroup *g, const char *dir) {
  int64_t quota, period;
  if (read_number(dir, "cpu.cfs_quota_us", &quota) &&
      read_number(dir, "cpu.cfs_period_us", &period))
    least_cpus(g, quota, period);
}

static void level_cpu_v2(mt_cgroup *g, const char *dir) {
  char path[PATH_BYTES];
  mt_buf b = {0};
  long long quota, period;
  if (snprintf(path, sizeof path, "%s/cpu.max", dir) < (int)sizeof path && read_file(path, &b) &&
      sscanf(b.data, "%lld %lld", &quota, &period) == 2)
    least_cpus(g, quota, period);
  mt_buf_free(&b);
}

static void level_memory(mt_cgroup *g, const char *dir, const files *f) {
  int64_t limit, used;
  char path[PATH_BYTES];
  if (!read_number(dir, f->limit, &limit) || limit < 0) return;
  if ((uint64_t)limit < g->memory_bytes) g->memory_bytes = (uint64_t)limit;
  if (!read_number(dir, f->usage, &used) || used < 0) return;
  uint64_t cache = 0, held = (uint64_t)used;
  if (snprintf(path, sizeof path, "%s/memory.stat", dir) < (int)sizeof path)
    cache = mt_cgroup_find(path, f->cache);
  held = held > cache ? held - cache : 0;
  uint64_t left = (uint64_t)limit > held ? (uint64_t)limit - held : 0;
  if (left < g->available_bytes) g->available_bytes = left;
}

static void level_memory_v1(mt_cgroup *g, const char *dir) {
  level_memory(g, dir, &memory_v1);
}
static void level_memory_v2(mt_cgroup *g, const char *dir) {
  level_memory(g, dir, &memory_v2);
}

/* Visits mount + path and every directory above it up to the mount. In a container the path may
 * name directories that are not visible; they have no files, the mount's own do apply. */
static void walk_up(mt_cgroup *g, const char *mount, const char *path,
                    void (*level)(mt_cgroup *, const char *)) {
  char dir[PATH_BYTES];
  size_t keep = strlen(mount);
  if (strstr(path, "..") || snprintf(dir, sizeof dir, "%s%s", mount, path) >= (int)sizeof dir)
    path = "", snprintf(dir, sizeof dir, "%s", mount);
  for (;;) {
    level(g, dir);
    char *slash = strrchr(dir, '/');
    if (strlen(dir) <= keep || !slash || (size_t)(slash - dir) < keep) return;
    *slash = 0;
  }
}

/* True if `name` is in the comma-separated list of n bytes. */
static bool listed(const char *list, size_t n, const char *name) {
  size_t m = strlen(name);
  for (const char *p = list; p < list + n;) {
    const char *comma = memchr(p, ',', (size_t)(list + n - p));
    size_t len = comma ? (size_t)(comma - p) : (size_t)(list + n - p);
    if (len == m && !memcmp(p, name, m)) return true;
    p += len + 1;
  }
  return false;
}

static void visit(mt_cgroup *g, const char *root, const char *below, const char *path,
                  void (*level)(mt_cgroup *, const char *)) {
  char mount[PATH_BYTES];
  if (snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, below) < (int)sizeof mount)
    walk_up(g, mount, path, level);
}

/* One line "number:controllers:path"; version 2 has no controllers. */
static void read_line(mt_cgroup *g, const char *root, char *line) {
  char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
  if (!path) return;
  size_t n = (size_t)(path - ++list);
  path++;
  if (!strcmp(path, "/")) path = "";
  if (!n) {
    visit(g, root, "", path, level_cpu_v2);
    visit(g, root, "", path, level_memory_v2);
    visit(g, root, "/unified", path, level_cpu_v2);
    visit(g, root, "/unified", path, level_memory_v2);
  }
  if (listed(list, n, "cpu")) {
    visit(g, root, "/cpu", path, level_cpu_v1);
    visit(g, root, "/cpu,cpuacct", path, level_cpu_v1);
  }
  if (listed(list, n, "memory")) visit(g, root, "/memory", path, level_memory_v1);
}

mt_cgroup mt_cgroup_read(const char *root) {
  mt_cgroup g = {0, UINT64_MAX, UINT64_MAX};
  char path[PATH_BYTES];
  mt_buf b = {0};
  if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) < (int)sizeof path &&
      read_file(path, &b))
    for (char *line = b.data, *next; line && *line; line = next) {
      next = strchr(line, '\n');
      if (next) *next++ = 0;
      read_line(&g, root, line);
    }
  mt_buf_free(&b);
  return g;
}
