/* What happens when things go wrong between ranks, and at the start of one. This program starts
 * mpirun on itself; with arguments it is such a rank. What MPI itself leaks is not looked for. */
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mt_test.h"
#include "mutirao/comm.h"

static char self[4096];

static void pause_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* ---- what a rank does; the last lines go to stdout for the parent to read ---- */

static int open_or_die(mt_comm **c) {
  mt_err e = {0};
  int rc = mt_comm_open(c, &e);
  if (rc) printf("open: %d %s\n", rc, e.msg);
  return rc;
}

/* Rank `victim` meets signal `sig` after some barriers; the others say what they are told. */
static int rank_fault(mt_comm *c, int victim, int sig) {
  mt_err e = {0};
  int rc = MT_OK;
  for (int i = 0; !rc && i < 100000; i++) {
    if (i == 100 && mt_comm_rank(c) == victim) {
      printf("victim is rank %d\n", victim);
      fflush(stdout);
      raise(sig);
    }
    rc = mt_comm_barrier(c, &e);
  }
  uint64_t start = mt_clock_ns();
  int again = mt_comm_bcast(c, &rc, sizeof rc, 0, NULL); /* fails at once now */
  bool quick = mt_clock_ns() - start < 50000000u;
  printf("rank %d: %d %s; then %d %s\n", mt_comm_rank(c), rc, e.msg, again,
         quick ? "at once" : "late");
  fflush(stdout);
  mt_comm_close(c);
  _exit(rc ? 1 : 0);
}

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int by_size(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Again and again ranks wait for a step plan while rank 0 does nothing for a while. Clocks are the
 * machine's, so that the plan can carry the time at which it left. */
static int rank_idle(mt_comm *c) {
  enum { ROUNDS = 7, IDLE_MS = 300 };
  uint64_t late[ROUNDS], sent = 0;
  int rc = mt_comm_barrier(c, NULL);
  double before = cpu_seconds();
  for (int i = 0; !rc && i < ROUNDS; i++) {
    if (mt_comm_rank(c) == 0) {
      pause_ms(IDLE_MS);
      sent = mt_clock_ns();
    }
    rc = mt_comm_bcast(c, &sent, sizeof sent, 0, NULL);
    late[i] = mt_clock_ns() - sent;
  }
  double used = cpu_seconds() - before;
  qsort(late, ROUNDS, sizeof late[0], by_size);
  printf("rank %d: %s, cpu %s (%.3f s), woke %s (%.3f ms)\n", mt_comm_rank(c), rc ? "failed" : "ok",
         used < 0.1 ? "idle" : "busy", used, late[ROUNDS / 2] < 50000000u ? "soon" : "late",
         (double)late[ROUNDS / 2] * 1e-6);
  mt_comm_close(c);
  return rc;
}

/* Rank 0 is stopped while the others wait for a plan, which may rightly last: only its state tells.
 */
static int rank_idle_stop(mt_comm *c) {
  mt_err e = {0};
  int rc = mt_comm_barrier(c, &e), plan = 0;
  if (mt_comm_rank(c) == 0) raise(SIGSTOP);
  if (!rc) rc = mt_comm_bcast(c, &plan, sizeof plan, 0, &e);
  printf("rank %d: %d %s\n", mt_comm_rank(c), rc, e.msg);
  fflush(stdout);
  mt_comm_close(c);
  _exit(rc ? 1 : 0);
}

/* Through MPI's profiling interface (a handle is at most a pointer), rank 1 is late for the first
 * exchange, as if the network did not carry it. */
int PMPI_Comm_rank(void *comm, int *rank);
int MPI_Comm_rank(void *comm, int *rank);
static bool late;
int MPI_Comm_rank(void *comm, int *rank) {
  int rc = PMPI_Comm_rank(comm, rank);
  if (late && *rank == 1) pause_ms(3000);
  return rc;
}

static int rank_absent(void) {
  mt_comm *c;
  late = true;
  int rc = open_or_die(&c);
  if (!rc) mt_comm_close(c);
  fflush(stdout);
  return rc ? 1 : 0;
}

static int rank_main(int argc, char **argv) {
  mt_comm *c;
  (void)argc;
  if (!strcmp(argv[1], "absent")) return rank_absent();
  if (open_or_die(&c)) return 3;
  if (!strcmp(argv[1], "kill")) return rank_fault(c, atoi(argv[2]), SIGKILL);
  if (!strcmp(argv[1], "stop")) return rank_fault(c, atoi(argv[2]), SIGSTOP);
  if (!strcmp(argv[1], "idle")) return rank_idle(c);
  if (!strcmp(argv[1], "idle-stop")) return rank_idle_stop(c);
  printf("opened: rank %d of %d, %s\n", mt_comm_rank(c), mt_comm_size(c),
         mt_comm_group_size(c) == 1 ? "alone" : "sharing memory");
  mt_comm_close(c);
  return 0;
}

/* ---- the parent ---- */

/* Runs a shell command with a deadline; its output and exit status (124: too late). */
static int run(const char *command, mt_buf *out) {
  char line[6000], chunk[4096];
  mt_buf_clear(out);
  mt_buf_puts(out, "");
  snprintf(line, sizeof line, "timeout 60 %s 2>&1", command);
  FILE *p = popen(line, "r");
  if (!p) return -1;
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, p)) > 0;) mt_buf_append(out, chunk, n);
  int status = pclose(p);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int mpirun(const char *env, const char *options, const char *args, mt_buf *out) {
  char command[5000];
  snprintf(command, sizeof command,
           "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
           "ASAN_OPTIONS=detect_leaks=0 %s mpirun --oversubscribe "
           "--bind-to none --mca plm isolated %s '%s' %s",
           env, options, self, args);
  return run(command, out);
}

static bool says(const mt_buf *out, const char *text) {
  bool found = out->data && strstr(out->data, text);
  if (!found) printf("\nno \"%s\" in:\n%s\n", text, out->data ? out->data : "");
  return found;
}

/* mpirun usually ends the others first; with --enable-recovery it leaves them to us. */
static void test_killed(void) {
  mt_buf out = {0};
  for (int victim = 0; victim < 3; victim++) {
    char args[40], want[80];
    snprintf(args, sizeof args, "kill %d", victim);
    snprintf(want, sizeof want, "rank %d on ", victim);
    CU_ASSERT_NOT_EQUAL(mpirun("", "--enable-recovery -n 3", args, &out), 124);
    CU_ASSERT(says(&out, want));
    CU_ASSERT(says(&out, "has gone (process"));
    CU_ASSERT(says(&out, "at once"));
    CU_ASSERT(strstr(out.data, "late") == NULL);
  }
  CU_ASSERT_NOT_EQUAL(mpirun("", "-n 3", "kill 1", &out), 0);
  CU_ASSERT_NOT_EQUAL(mpirun("MUTIRAO_FAKE_NODES=2", "--enable-recovery -n 4", "kill 3", &out),
                      124);
  CU_ASSERT(says(&out, "rank 3 on "));
  mt_buf_free(&out);
}

static void test_stopped(void) {
  mt_buf out = {0};
  int rc = mpirun("MUTIRAO_WATCHDOG_S=1 MUTIRAO_WATCHDOG_ABORT_S=3", "-n 3", "stop 1", &out);
  CU_ASSERT_NOT_EQUAL(rc, 0);
  CU_ASSERT_NOT_EQUAL(rc, 124);
  CU_ASSERT(says(&out, "warning: waiting for rank 1 on "));
  CU_ASSERT(says(&out, "in a barrier; its process is stopped"));
  CU_ASSERT(says(&out, "did not answer in 3 s"));
  CU_ASSERT_NOT_EQUAL(mpirun("MUTIRAO_WATCHDOG_ABORT_S=1", "-n 2", "idle-stop", &out), 0);
  CU_ASSERT(says(&out, "rank 1: -8 rank 0 on "));
  CU_ASSERT(says(&out, "in a broadcast; its process is stopped"));
  mt_buf_free(&out);
}

/* Process numbers of another PID namespace mean nothing here: memory is not shared with it. */
static void test_namespaces(void) {
  mt_buf out = {0};
  char command[6000];
  snprintf(
      command, sizeof command,
      "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "ASAN_OPTIONS=detect_leaks=0 mpirun --oversubscribe "
      "--bind-to none --mca plm isolated -n 2 sh -c 'p=; if [ $OMPI_COMM_WORLD_RANK = 1 ]; then "
      "unshare --pid --fork true || exit 77; p=\"unshare --pid --fork --mount-proc\"; fi; "
      "exec $p \"%s\" open'",
      self);
  int rc = run(command, &out);
  if (rc == 77) {
    printf("\nskipped: no right to make a PID namespace\n");
  } else {
    CU_ASSERT_EQUAL(rc, 0);
    CU_ASSERT(says(&out, "opened: rank 1 of 2, alone"));
    CU_ASSERT(says(&out, "opened: rank 0 of 2, alone"));
  }
  mt_buf_free(&out);
}

/* Where one rank cannot share memory, its whole group goes without. */
static void test_one_alone(void) {
  mt_buf out = {0};
  char command[6000];
  snprintf(command, sizeof command,
           "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
           "ASAN_OPTIONS=detect_leaks=0 MUTIRAO_FAKE_NODES=2 mpirun "
           "--oversubscribe --bind-to none --mca plm isolated -n 4 sh -c '"
           "[ $OMPI_COMM_WORLD_RANK = 1 ] && export MUTIRAO_SHARED_MEMORY=0; exec \"%s\" open'",
           self);
  CU_ASSERT_EQUAL(run(command, &out), 0);
  CU_ASSERT(says(&out, "rank 0 of 4, alone"));
  CU_ASSERT(says(&out, "rank 1 of 4, alone"));
  CU_ASSERT(says(&out, "rank 2 of 4, sharing memory"));
  CU_ASSERT(says(&out, "rank 3 of 4, sharing memory"));
  mt_buf_free(&out);
}

static void test_idle(void) {
  mt_buf out = {0};
  static const char *const env[] = {"", "MUTIRAO_FAKE_NODES=3"};
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(mpirun(env[i], "-n 3", "idle", &out), 0);
    CU_ASSERT(says(&out, "rank 1: ok, cpu idle"));
    CU_ASSERT(says(&out, "rank 2: ok, cpu idle"));
    CU_ASSERT(strstr(out.data, "woke late") == NULL);
  }
  mt_buf_free(&out);
}

static void test_absent(void) {
  mt_buf out = {0};
  CU_ASSERT_NOT_EQUAL(mpirun("MUTIRAO_START_TIMEOUT_S=1", "-n 2", "absent", &out), 0);
  CU_ASSERT(says(&out, "rank 1"));
  CU_ASSERT(says(&out, "btl_tcp_if_include"));
  mt_buf_free(&out);
}

/* Containers give /dev/shm 64 MB or less. */
static void test_small_shm(void) {
  mt_buf out = {0};
  char command[5000];
  snprintf(command, sizeof command,
           "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
           "ASAN_OPTIONS=detect_leaks=0 unshare -m sh -c "
           "\"mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 77; env ASAN_OPTIONS=detect_leaks=0 "
           "mpirun --oversubscribe --bind-to "
           "none --mca plm isolated -n 4 '%s' open\"",
           self);
  int rc = run(command, &out);
  if (rc == 77 || (rc && geteuid())) {
    printf("\nskipped: no right to mount a small /dev/shm\n");
    CU_PASS("skipped");
  } else {
    CU_ASSERT_EQUAL(rc, 0);
    CU_ASSERT(says(&out, "opened: rank 3 of 4, sharing memory"));
  }
  mt_buf_free(&out);
}

static void test_slurm(void) {
  static const struct {
    const char *env, *says;
    int status;
  } cases[] = {
      {"SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2", "--mpi=pmix", 3},
      {"SLURM_NTASKS=4 SLURM_PROCID=2", "Slurm started 4 tasks", 3},
      {"SLURM_NTASKS=4 SLURM_PROCID=0", "opened: rank 0 of 1", 0}, /* a batch script */
      {"SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", "opened: rank 0 of 1", 0},
      {"SLURM_NTASKS=x SLURM_PROCID=-2", "is no number", 0},
      {"", "opened: rank 0 of 1", 0},
  };
  mt_buf out = {0};
  char command[5000];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    snprintf(command, sizeof command, "env %s '%s' open", cases[i].env, self);
    CU_ASSERT_EQUAL(run(command, &out), cases[i].status);
    CU_ASSERT(says(&out, cases[i].says));
  }
  /* mpirun inside a Slurm job sees Slurm's variables too. */
  CU_ASSERT_EQUAL(mpirun("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0", "-n 1", "open", &out), 0);
  CU_ASSERT(says(&out, "opened: rank 0 of 1"));
  mt_buf_free(&out);
}

static void test_is_rank(void) {
  static const char *const name[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  for (int i = 0; i < 3; i++) unsetenv(name[i]);
  CU_ASSERT_FALSE(mt_comm_is_rank());
  for (int i = 0; i < 3; i++) {
    setenv(name[i], "0", 1);
    CU_ASSERT_TRUE(mt_comm_is_rank());
    unsetenv(name[i]);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) return rank_main(argc, argv);
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return 2;
  const mt_test tests[] = {{"is rank", test_is_rank},
                           {"Slurm without PMIx", test_slurm},
                           {"small /dev/shm", test_small_shm},
                           {"rank killed", test_killed},
                           {"rank stopped", test_stopped},
                           {"PID namespaces", test_namespaces},
                           {"one rank cannot share", test_one_alone},
                           {"idle ranks sleep", test_idle},
                           {"rank absent", test_absent}};
  return mt_test_run("comm", tests, sizeof tests / sizeof tests[0]);
}
