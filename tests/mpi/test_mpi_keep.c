/* Kept slices of several ranks where one rank's file is slow or bad: a watchdog shorter than the
 * time of writing or reading it lets the job go on, and progress that was of no use begins anew.
 * Files are slow here because pread and pwrite are this program's. */
#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi_test.h"
#include "mutirao/model.h"

enum { SLOW_MS = 1200, WATCHDOG_S = 2, MAX_TOLD = 4000 };
static bool slow;

/* Only the slice's data: the model is read at once. */
static void dawdle(int fd, size_t bytes) {
  char link[40], path[600];
  if (!slow || bytes <= 1u << 16) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  if (strstr(path, ".slice")) usleep(SLOW_MS * 1000);
}
ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at) {
  dawdle(fd, bytes);
  return syscall(SYS_pwrite64, fd, from, bytes, at);
}
ssize_t pread(int fd, void *to, size_t bytes, off_t at) {
  dawdle(fd, bytes);
  return syscall(SYS_pread64, fd, to, bytes, at);
}

static mt_comm *comm;
static char dir[300], model[500];

typedef struct told {
  uint64_t done[MAX_TOLD], total[MAX_TOLD];
  size_t n;
} told;

static void tell(void *arg, uint64_t done, uint64_t total) {
  told *t = arg;
  if (t->n == MAX_TOLD) exit(2);
  t->done[t->n] = done;
  t->total[t->n++] = total;
}

/* Loads; the file bytes that were read say where the weights came from. */
static uint64_t load(told *t) {
  mt_err e = {0};
  mt_team *team = NULL;
  mt_model *m = NULL;
  mt_model_options o = {.kv_type = MT_KV_F16,
                        .kv_tokens = 64,
                        .max_seqs = 1,
                        .max_rows = 4,
                        .pack_cache = dir,
                        .progress = tell,
                        .progress_arg = t};
  t->n = 0;
  int rc = mt_kernels_get(NULL, &o.kernels, &e);
  if (!rc) rc = mt_team_new(&team, NULL, 1, NULL, true, &e);
  if (!rc) rc = mt_model_load(&m, comm, team, model, &o, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
  if (rc) exit(1);
  uint64_t read = mt_model_file_bytes_read(m);
  mt_model_free(m);
  mt_team_free(team);
  return read;
}

/* This rank's file. */
static void slice_of(char path[600]) {
  char end[40];
  snprintf(end, sizeof end, "-%dof%d.slice", mt_comm_rank(comm), mt_comm_size(comm));
  path[0] = 0;
  DIR *d = opendir(dir);
  for (struct dirent *it; d && (it = readdir(d));)
    if (strstr(it->d_name, end)) snprintf(path, 600, "%s/%s", dir, it->d_name);
  if (d) closedir(d);
}

static void flip_last_byte(const char *path) {
  FILE *f = fopen(path, "r+b");
  CHECK(f != NULL);
  if (!f) return;
  fseek(f, -1, SEEK_END);
  int c = fgetc(f);
  fseek(f, -1, SEEK_END);
  fputc(c ^ 16, f);
  fclose(f);
}

static void test_slow(void) {
  static told t;
  bool last = mt_comm_rank(comm) == mt_comm_size(comm) - 1;
  char path[600];
  slow = false;
  uint64_t all = load(&t); /* how much that is */
  slice_of(path);
  CHECK(path[0]);
  if (last) remove(path);
  uint64_t start = mt_clock_ns();
  slow = last; /* the others have theirs, and wait while it is written */
  load(&t);
  CHECK(mt_clock_ns() - start > WATCHDOG_S * 1000000000ull); /* else nothing was tried */
  slice_of(path);
  CHECK(path[0]);
  uint64_t read = load(&t); /* read as slowly */
  slow = false;
  CHECK(read < all / 4);
}

/* The last rank's file is bad: all read the model, and the first begins to count anew. */
static void test_progress(void) {
  static told t;
  bool last = mt_comm_rank(comm) == mt_comm_size(comm) - 1;
  char path[600];
  load(&t);
  for (size_t i = 1; i < t.n; i++) CHECK(t.done[i] >= t.done[i - 1]);
  uint64_t kept = t.n ? t.total[0] : 0;
  slice_of(path);
  if (last) flip_last_byte(path);
  mt_log_set_level(-1);
  load(&t);
  mt_log_set_level(MT_LOG_ERROR);
  size_t turns = 0, at = 0;
  for (size_t i = 1; i < t.n; i++)
    if (t.done[i] < t.done[i - 1]) turns++, at = i;
  CHECK(turns == 1 && t.n > 2);
  if (t.n < 3) return;
  CHECK(t.total[0] == kept && t.total[at] == t.total[t.n - 1]);
  CHECK(t.done[at] < t.total[at] / 2);
  CHECK(t.done[t.n - 1] == t.total[t.n - 1]);
}

static void remove_all(void) {
  char path[600];
  DIR *d = opendir(dir);
  for (struct dirent *it; d && (it = readdir(d));) {
    snprintf(path, sizeof path, "%s/%s", dir, it->d_name);
    if (it->d_name[0] != '.') remove(path);
  }
  if (d) closedir(d);
  rmdir(dir);
}

int main(int argc, char **argv) {
  char seconds[12];
  const char *root = getenv("MUTIRAO_ROOT"), *tmp = getenv("TMPDIR");
  snprintf(seconds, sizeof seconds, "%d", WATCHDOG_S);
  setenv("MUTIRAO_WATCHDOG_ABORT_S", seconds, 1);
  comm = test_open(argc, argv);
  mt_comm_set_oversubscribed(comm, true);
  mt_log_set_level(MT_LOG_ERROR);
  snprintf(model, sizeof model, "%s/tests/data/gguf/tiny-llama-BF16.gguf", root ? root : ".");
  snprintf(dir, sizeof dir, "%s/mt-keep-XXXXXX", tmp ? tmp : "/tmp");
  if (mt_comm_rank(comm) == 0 && !mkdtemp(dir)) exit(2);
  if (mt_comm_bcast(comm, dir, sizeof dir, 0, NULL)) exit(2);
  test_slow();
  test_progress();
  if (mt_comm_barrier(comm, NULL)) exit(2);
  if (mt_comm_rank(comm) == 0) remove_all();
  return test_close(comm);
}
