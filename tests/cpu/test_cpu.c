/* Topologies (captured and described), limits of control groups, the binding plan. */
#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mt_test.h"
#include "mutirao/cpu.h"

enum { CORES_MOST = 64, RANKS_MOST = 20 };

static mt_cpu *open_file(const char *name, const char *root, const char *mask) {
  char path[1000];
  mt_err e = {0};
  mt_cpu *c = NULL;
  if (strncmp(name, "synthetic:", 10))
    snprintf(path, sizeof path, "%s/tests/data/topology/%s", mt_test_root(), name);
  else
    snprintf(path, sizeof path, "%s", name);
  if (mt_cpu_open_at(&c, path, root, mask, &e)) printf("\n%s\n", e.msg);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  return c;
}

typedef struct machine {
  const char *name, *mask;
  int cores, domains;
} machine;

static const machine machines[] = {
    {"zen-two-cores.xml", NULL, 2, 1},
    {"two-sockets.xml", NULL, 16, 2},
    {"two-sockets-eight-domains.xml", NULL, 64, 8},
    {"two-sockets-eight-domains.xml", "0-15,32-35,127", 11,
     3},                                 /* a cpuset smaller than the machine */
    {"hbm-beside-dram.xml", NULL, 8, 1}, /* two memories, one set of cores */
    {"two-sockets.xml", "0-4,8", 6, 2},  /* uneven domains */
    {"two-sockets.xml", "3", 1, 1},
    {"synthetic:numa:2 core:4 pu:2", NULL, 8, 2},
    {"synthetic:package:2 numa:4 l3:1 core:8 pu:2", NULL, 64, 8},
    {"synthetic:numa:3 core:5 pu:1", NULL, 15, 3},
    {"synthetic:pu:6", NULL, 6, 1}, /* no cores known: hardware threads count */
};
enum { MACHINES = sizeof machines / sizeof machines[0] };

static void test_shapes(void) {
  for (int i = 0; i < MACHINES; i++) {
    mt_cpu *c = open_file(machines[i].name, NULL, machines[i].mask);
    CU_ASSERT_EQUAL(mt_cpu_cores(c), machines[i].cores);
    CU_ASSERT_EQUAL(mt_cpu_numa_domains(c), machines[i].domains);
    CU_ASSERT_EQUAL(mt_cpu_quota_cores(c), machines[i].cores);
    int last = 0;
    for (int k = 0; k < mt_cpu_cores(c); k++) {
      int d = mt_cpu_core_numa(c, k);
      CU_ASSERT(d == last || d == last + 1);
      last = d;
    }
    CU_ASSERT_EQUAL(last, machines[i].domains - 1);
    mt_cpu_close(c);
  }
}

static void test_facts(void) {
  mt_cpu *c = open_file("two-sockets.xml", NULL, NULL);
  CU_ASSERT_EQUAL(mt_cpu_memory_bytes(c), 2ull * 68719476736);
  CU_ASSERT_EQUAL(mt_cpu_memory_available_bytes(c), 2ull * 68719476736);
  CU_ASSERT_EQUAL(mt_cpu_cache_bytes(c, 1), 49152);
  CU_ASSERT_EQUAL(mt_cpu_cache_bytes(c, 2), 1048576);
  CU_ASSERT_EQUAL(mt_cpu_cache_bytes(c, 3), 33554432);
  CU_ASSERT_EQUAL(mt_cpu_cache_bytes(c, 4), 0);
  CU_ASSERT_STRING_EQUAL(mt_cpu_name(c), "unknown CPU");
  mt_cpu_close(c);
  c = open_file("zen-two-cores.xml", NULL, NULL);
  CU_ASSERT(strstr(mt_cpu_name(c), "AMD EPYC") != NULL);
  mt_cpu_close(c);
}

static void test_refuses(void) {
  mt_cpu *c = NULL;
  mt_err e = {0};
  CU_ASSERT_EQUAL(mt_cpu_open(&c, "synthetic:no such thing", &e), MT_EINVAL);
  CU_ASSERT(mt_cpu_open(&c, "/nowhere/topology.xml", &e) < 0);
  CU_ASSERT(strstr(e.msg, "/nowhere/topology.xml") != NULL);
  CU_ASSERT_EQUAL(mt_cpu_open_at(&c, "synthetic:core:2 pu:1", NULL, "99", &e), MT_EINVAL);
  CU_ASSERT_PTR_NULL(c);
}

/* ---- the plan ---- */

/* How many of the n threads in `own` share a core with another of the node. */
static int count_sharing(const int *all, int total, const int *own, int n) {
  int shared = 0;
  for (int t = 0; t < n; t++) {
    int users = 0;
    for (int u = 0; u < total; u++) users += all[u] == own[t];
    shared += users > 1;
  }
  return shared;
}

static bool one_domain(const mt_cpu *c, const int *core, int n) {
  for (int t = 1; t < n; t++)
    if (mt_cpu_core_numa(c, core[t]) != mt_cpu_core_numa(c, core[0])) return false;
  return true;
}

/* Ranks with `threads` threads each (0: their default number). */
static void check_plan(const mt_cpu *c, int ranks, int threads) {
  static int all[RANKS_MOST * CORES_MOST];
  int at[RANKS_MOST + 1] = {0}, shared[RANKS_MOST], domain_of_last = 0;
  for (int r = 0; r < ranks; r++) {
    int n = threads ? threads : mt_cpu_default_threads(c, r, ranks);
    CU_ASSERT_FATAL(n >= 1 && n <= CORES_MOST);
    int *core = all + at[r];
    shared[r] = mt_cpu_plan(c, r, ranks, n, core);
    at[r + 1] = at[r] + n;
    for (int t = 0; t < n; t++) {
      CU_ASSERT_FATAL(core[t] >= 0 && core[t] < mt_cpu_cores(c));
      CU_ASSERT(t == 0 || core[t] >= core[t - 1]);
      if (n <= mt_cpu_default_threads(c, r, ranks)) CU_ASSERT(t == 0 || core[t] > core[t - 1]);
    }
    if (ranks >= mt_cpu_numa_domains(c)) CU_ASSERT(one_domain(c, core, n));
    if (ranks == mt_cpu_numa_domains(c)) CU_ASSERT_EQUAL(mt_cpu_core_numa(c, core[0]), r);
    CU_ASSERT(mt_cpu_core_numa(c, core[0]) >= domain_of_last);
    domain_of_last = mt_cpu_core_numa(c, core[0]);
  }
  if (threads) /* the plan thinks that all have as many threads */
    for (int r = 0; r < ranks; r++)
      CU_ASSERT_EQUAL(shared[r], count_sharing(all, at[ranks], all + at[r], threads));
  if (ranks > mt_cpu_cores(c)) return;
  int used[CORES_MOST] = {0};
  for (int u = 0; !threads && u < at[ranks]; u++) CU_ASSERT_EQUAL(used[all[u]]++, 0);
}

static void test_plan_laws(void) {
  for (int i = 0; i < MACHINES; i++) {
    mt_cpu *c = open_file(machines[i].name, NULL, machines[i].mask);
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++)
      for (int threads = 0; threads <= 9; threads++) check_plan(c, ranks, threads);
    mt_cpu_close(c);
  }
}

static void expect_plan(const mt_cpu *c, int rank, int ranks, int threads, const int *want) {
  int core[CORES_MOST];
  mt_cpu_plan(c, rank, ranks, threads, core);
  for (int t = 0; t < threads; t++) CU_ASSERT_EQUAL(core[t], want[t]);
}

static void test_plan_examples(void) {
  mt_cpu *c = open_file("synthetic:numa:2 core:4 pu:2", NULL, NULL);
  expect_plan(c, 1, 2, 4, (int[]){4, 5, 6, 7}); /* a domain each, no hyper-threads */
  expect_plan(c, 0, 1, 2, (int[]){0, 4});       /* spread over the domains */
  expect_plan(c, 1, 4, 2, (int[]){2, 3});
  expect_plan(c, 2, 3, 4, (int[]){4, 5, 6, 7}); /* three ranks: two share domain 0 */
  expect_plan(c, 0, 2, 8, (int[]){0, 0, 1, 1, 2, 2, 3, 3});
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 0, 1), 8);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 2, 3), 4);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 0, 3), 2);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 15, 16), 1);
  mt_cpu_close(c);
  c = open_file("two-sockets.xml", NULL, "0-4,8"); /* five cores and one */
  expect_plan(c, 1, 2, 1, (int[]){5});
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 0, 2), 5);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 0, 3), 2);
  mt_cpu_close(c);
}

/* ---- limits ---- */

static char root[200];

static void put(const char *path, const char *text) {
  char full[1000];
  snprintf(full, sizeof full, "%s/%s", root, path);
  for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
    *p = 0;
    mkdir(full, 0700);
    *p = '/';
  }
  FILE *f = fopen(full, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs(text, f);
  fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *w) {
  (void)st, (void)type, (void)w;
  return remove(path);
}

static void new_root(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(root, sizeof root, "%.100s/mutirao-test-XXXXXX", tmp ? tmp : "/tmp");
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
}

static void expect_limits(int cores, uint64_t memory, uint64_t available) {
  mt_cpu *c = open_file("two-sockets.xml", root, NULL); /* 16 cores, 128 GiB */
  CU_ASSERT_EQUAL(mt_cpu_quota_cores(c), cores);
  CU_ASSERT_EQUAL(mt_cpu_memory_bytes(c), memory);
  CU_ASSERT_EQUAL(mt_cpu_memory_available_bytes(c), available);
  mt_cpu_close(c);
  nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

enum { GIB = 1 << 30 };

static void test_cgroup_v2(void) {
  new_root();
  put("proc/self/cgroup", "0::/jobs/ours\n");
  put("proc/meminfo", "MemTotal: 134217728 kB\nMemFree: 5 kB\nMemAvailable: 100663296 kB\n");
  put("sys/fs/cgroup/jobs/ours/cpu.max", "250000 100000\n");
  put("sys/fs/cgroup/jobs/ours/memory.max", "max\n");
  put("sys/fs/cgroup/jobs/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/jobs/memory.max", "8589934592\n"); /* the parent's limit binds too */
  put("sys/fs/cgroup/jobs/memory.current", "3221225472\n");
  put("sys/fs/cgroup/jobs/memory.stat", "anon 5\ninactive_file 1073741824\nactive_file 7\n");
  expect_limits(3, 8ull * GIB, 6ull * GIB); /* 2.5 cores rounded up; what is cache can go */

  new_root(); /* in a container: no such path, but the mount's own files */
  put("proc/self/cgroup", "0::/../elsewhere\n");
  put("sys/fs/cgroup/cpu.max", "50000 100000\n");
  put("sys/fs/cgroup/memory.max", "1073741824\n");
  expect_limits(1, GIB, GIB);
}

static void test_cgroup_v1(void) {
  new_root();
  put("proc/self/cgroup",
      "12:cpuset:/\n5:cpuacct,cpu:/docker/abc\n4:memory:/docker/abc\n1:name=x:/\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "400000\n");
  put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "3221225472\n");
  put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4294967296\n");
  put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "3221225472\n");
  put("sys/fs/cgroup/memory/docker/abc/memory.stat",
      "inactive_file 1\ntotal_inactive_file 1048576\n");
  expect_limits(4, 4ull * GIB, (1ull << 30) + (1 << 20));

  new_root(); /* mixed: version 2 beside, without controllers */
  put("proc/self/cgroup", "4:memory:/a\n0::/a\n");
  put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
  put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4147483648\n"); /* more than the limit */
  put("sys/fs/cgroup/unified/a/cpu.max", "1600000 100000\n");
  expect_limits(16, 2ull * GIB, 0);
}

static void test_cgroup_nonsense(void) {
  new_root();
  put("proc/self/cgroup", "garbage\n:\n7:cpu\n::::\n0::/a");
  put("proc/meminfo", "MemAvailable: many\n");
  put("sys/fs/cgroup/a/cpu.max", "0 0\n");
  put("sys/fs/cgroup/a/memory.max", "-5\n");
  put("sys/fs/cgroup/memory.max", "\n");
  put("sys/fs/cgroup/cpu.max", "99999999999999999999 1\n");
  expect_limits(16, 128ull * GIB, 128ull * GIB);
  new_root();
  expect_limits(16, 128ull * GIB, 128ull * GIB);
}

static void test_quota_threads(void) {
  new_root();
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "500000 100000\n");
  mt_cpu *c = open_file("two-sockets.xml", root, NULL);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 0, 1), 5);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 0, 2), 3);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 1, 2), 2);
  CU_ASSERT_EQUAL(mt_cpu_default_threads(c, 7, 8), 1);
  mt_cpu_close(c);
  nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- this machine ---- */

static void test_here(void) {
  mt_cpu *c = NULL;
  mt_err e = {0};
  CU_ASSERT_EQUAL_FATAL(mt_cpu_open(&c, NULL, &e), MT_OK);
  CU_ASSERT(mt_cpu_cores(c) >= 1 && mt_cpu_cores(c) <= sysconf(_SC_NPROCESSORS_CONF));
  CU_ASSERT(mt_cpu_numa_domains(c) >= 1 && mt_cpu_quota_cores(c) >= 1);
  CU_ASSERT(mt_cpu_memory_bytes(c) > 1 << 24);
  CU_ASSERT(mt_cpu_memory_available_bytes(c) <= mt_cpu_memory_bytes(c));
  CU_ASSERT(mt_cpu_name(c)[0] != 0);
  CU_ASSERT_TRUE(mt_cpu_baseline_ok(&e));
  mt_cpu_close(c);
}

/* A mask narrower than the machine: taskset's is kept, mpirun's undone, srun's is the rank's own.
 */
static void test_masks(void) {
  cpu_set_t old, one;
  mt_cpu *c = NULL;
  int core[2] = {9, 9};
  size_t first = 0;
  CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof old, &old), 0);
  if (CPU_COUNT(&old) < 2) {
    printf("\nskipped: masks, with one CPU only\n");
    return;
  }
  while (!CPU_ISSET(first, &old)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  CU_ASSERT_EQUAL_FATAL(mt_cpu_open(&c, NULL, NULL), MT_OK);
  int all = mt_cpu_cores(c);
  mt_cpu_close(c);
  sched_setaffinity(0, sizeof one, &one);
  CU_ASSERT_EQUAL_FATAL(mt_cpu_open(&c, NULL, NULL), MT_OK);
  CU_ASSERT_EQUAL(mt_cpu_cores(c), 1);
  CU_ASSERT_EQUAL(mt_cpu_plan(c, 1, 2, 1, core), 1); /* both ranks on that core */
  mt_cpu_close(c);
  setenv("SLURM_CPU_BIND_TYPE", "mask_cpu:", 1);
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  CU_ASSERT_EQUAL_FATAL(mt_cpu_open(&c, NULL, NULL), MT_OK);
  CU_ASSERT_EQUAL(mt_cpu_plan(c, 1, 2, 1, core), 0); /* the other rank has another */
  mt_cpu_close(c);
  setenv("OMPI_MCA_orte_bound_at_launch", "1", 1);
  CU_ASSERT_EQUAL_FATAL(mt_cpu_open(&c, NULL, NULL), MT_OK);
  CU_ASSERT_EQUAL(mt_cpu_cores(c), all);
  mt_cpu_close(c);
  unsetenv("SLURM_CPU_BIND_TYPE");
  unsetenv("SLURM_STEP_NUM_TASKS");
  unsetenv("OMPI_MCA_orte_bound_at_launch");
  sched_setaffinity(0, sizeof old, &old);
}

/* Under an emulated CPU of 2008 the sentence names what is missing. */
static void test_old_cpu(const char *self) {
  char command[5000], line[400] = "";
  snprintf(
      command, sizeof command,
      "command -v qemu-x86_64 > /dev/null || exit 77; timeout 60 qemu-x86_64 -cpu Nehalem '%s' "
      "baseline",
      self);
  FILE *p = popen(command, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  char *got = fgets(line, sizeof line, p);
  int status = pclose(p);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    printf("\nskipped: old CPU, without qemu-x86_64\n");
    return;
  }
  CU_ASSERT(got && strstr(line, "lacks AVX") && strstr(line, "x86-64-v3"));
  CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static char self[4096];
static void test_baseline(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("\nskipped: old CPU, since sanitizers do not run under qemu\n"); /* gcc's; clang's say so
                                                                             themselves */
#elif defined(__x86_64__)
  test_old_cpu(self);
#else
  mt_err e;
  CU_ASSERT_TRUE(mt_cpu_baseline_ok(&e));
#endif
}

int main(int argc, char **argv) {
  mt_err e = {0};
  if (argc > 1 && !strcmp(argv[1], "baseline")) {
    bool ok = mt_cpu_baseline_ok(&e);
    puts(ok ? "ok" : e.msg);
    return !ok;
  }
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 2;
  const mt_test tests[] = {{"shapes", test_shapes},
                           {"facts", test_facts},
                           {"refuses", test_refuses},
                           {"laws of the plan", test_plan_laws},
                           {"plans", test_plan_examples},
                           {"cgroup v2", test_cgroup_v2},
                           {"cgroup v1", test_cgroup_v1},
                           {"cgroup nonsense", test_cgroup_nonsense},
                           {"threads within the quota", test_quota_threads},
                           {"this machine", test_here},
                           {"masks", test_masks},
                           {"old CPU", test_baseline}};
  return mt_test_run("cpu", tests, sizeof tests / sizeof tests[0]);
}
