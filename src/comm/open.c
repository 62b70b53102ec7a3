/* Opening and closing the world: who started us, who is there, who can share memory with whom. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "comm_impl.h"

enum {
  WATCHDOG_S = 30,
  START_TIMEOUT_S = 60,
  SHM_BYTES_A_RANK = 8 << 20, /* Open MPI takes 4 MiB a rank, and some more */
};

/* A non-negative whole number from the environment; anything else is said and left out. */
long mt_comm_env(const char *name, long fallback) {
  const char *s = getenv(name);
  if (!s || !*s) return fallback;
  char *end;
  errno = 0;
  long v = strtol(s, &end, 10);
  if (!errno && !*end && v >= 0 && v < 1000000000) return v;
  mt_log(MT_LOG_WARN, "%s=%s is no number, %ld is used", name, s, fallback);
  return fallback;
}

bool mt_comm_is_rank(void) {
  return getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK");
}

/* Tasks of the Slurm step whose launch of MPI went wrong, where this process sees only itself; else
 * 1. Under mpirun (which sets OMPI_COMM_WORLD_SIZE) Slurm's variables are those of mpirun's
 * daemons, and in a plain batch script SLURM_PROCID is 0 and there is no step. */
static long lost_slurm_tasks(void) {
  if (getenv("OMPI_COMM_WORLD_SIZE")) return 1;
  long step = mt_comm_env("SLURM_STEP_NUM_TASKS", 0), all = mt_comm_env("SLURM_NTASKS", 1);
  if (step) return step;
  bool in_step = mt_comm_is_rank() || mt_comm_env("SLURM_PROCID", 0) > 0;
  return in_step && all > 1 ? all : 1;
}

static int check_slurm(mt_err *e) {
  long tasks = lost_slurm_tasks();
  if (tasks <= 1) return MT_OK;
  return mt_err_set(e, MT_EINVAL,
                    "Slurm started %ld tasks, but MPI sees only this one: start them with "
                    "srun --mpi=pmix (srun --mpi=list shows what this Slurm has), or with mpirun",
                    tasks);
}

/* True if this process may read another's memory; filters of system calls, which containers have,
 * refuse even its own. */
static bool may_read_processes(void) {
  char from = 1, to = 0;
  struct iovec local = {&to, 1}, remote = {&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

/* Before MPI_Init: settings of Open MPI that the user has not made. In containers the kernel may
 * refuse to read another process's memory, and /dev/shm may be too small. Over TCP, long messages
 * that two ranks exchange with "put" go in one direction after the other, which takes twice the
 * time of "send". */
static void prepare_environment(void) {
  setenv("OMPI_MCA_btl_tcp_flags", "send", 0);
  if (!may_read_processes()) setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  struct statvfs v;
  long ranks = mt_comm_env("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  if (statvfs("/dev/shm", &v)) return;
  unsigned long long have = (unsigned long long)v.f_blocks * v.f_frsize;
  if (have >= (unsigned long long)ranks * SHM_BYTES_A_RANK) return;
  const char *tmp = getenv("TMPDIR");
  setenv("OMPI_MCA_btl_vader_backing_directory", tmp && *tmp ? tmp : "/tmp", 0);
  if (mt_comm_env("OMPI_COMM_WORLD_LOCAL_RANK", 0) == 0)
    mt_log(MT_LOG_INFO, "/dev/shm has %llu MiB, too few for %ld ranks: MPI uses %s instead",
           have >> 20, ranks, getenv("OMPI_MCA_btl_vader_backing_directory"));
}

static int start_mpi(mt_comm *c, mt_err *e) {
  int provided = 0, done = 0;
  MPI_Initialized(&done);
  if (done) return mt_err_set(e, MT_EINVAL, "MPI is open already");
  prepare_environment();
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    return mt_err_set(e, MT_ESYSTEM, "MPI did not start");
  c->mpi = true;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_size(MPI_COMM_WORLD, &c->size);
  MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
  if (provided < MPI_THREAD_FUNNELED)
    return mt_err_set(e, MT_EUNSUPPORTED, "this MPI library allows no threads");
  return c->size == 1 ? check_slurm(e) : MT_OK;
}

static void read_line(const char *path, char *out, size_t n) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? 0 : read(fd, out, n - 1);
  if (fd >= 0) close(fd);
  out[got > 0 ? got : 0] = 0;
  out[strcspn(out, "\n")] = 0;
}

static void describe_self(mt_peer *p) {
  struct stat st;
  memset(p, 0, sizeof *p);
  if (gethostname(p->host, sizeof p->host - 1)) strcpy(p->host, "localhost");
  read_line("/proc/sys/kernel/random/boot_id", p->boot, sizeof p->boot);
  if (!stat("/proc/self/ns/pid", &st)) p->pid_namespace = (uint64_t)st.st_ino;
  p->pid = (int32_t)getpid();
  mt_process_state(p->pid, &p->start_ticks);
}

/* Names of this host's network interfaces that are up, for the hint. */
static void list_interfaces(char *out, size_t n) {
  struct ifaddrs *all = NULL;
  size_t at = 0;
  out[0] = 0;
  if (getifaddrs(&all)) return;
  for (struct ifaddrs *i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)) continue;
    int m = snprintf(out + at, n - at, "%s%s", at ? ", " : "", i->ifa_name);
    if (m < 0 || (size_t)m >= n - at) break;
    at += (size_t)m;
  }
  freeifaddrs(all);
}

/* The first messages of all. What is sent is the whole description, so that everybody knows who is
 * where. A network interface that does not reach the others shows here. */
static int meet(mt_comm *c, mt_err *e) {
  mt_peer self;
  describe_self(&self);
  c->peer = mt_calloc((size_t)c->size, sizeof *c->peer);
  if (!c->peer) return mt_err_set(e, MT_ENOMEM, "no memory for %d ranks", c->size);
  if (c->size == 1) {
    c->peer[0] = self;
    return MT_OK;
  }
  c->what = "the first exchange";
  uint64_t timeout_s = (uint64_t)mt_comm_env("MUTIRAO_START_TIMEOUT_S", START_TIMEOUT_S);
  c->deadline_ns = timeout_s ? mt_clock_ns() + timeout_s * 1000000000u : 0;
  int rc = mt_p2p_table(c, &self, sizeof self, c->peer);
  bool late = c->deadline_ns && mt_clock_ns() > c->deadline_ns;
  c->deadline_ns = 0;
  if (!rc) return MT_OK;
  char names[200];
  list_interfaces(names, sizeof names);
  if (!late) return mt_err_set(e, rc, "%s", c->fault.msg);
  return mt_err_set(e, rc,
                    "rank %d on %s: %s. MPI may have chosen an interface that does not reach the "
                    "other hosts (docker0, virbr0); name the right one: mpirun --mca "
                    "btl_tcp_if_include NAME --mca oob_tcp_if_include NAME. Up here: %s",
                    c->rank, self.host, c->fault.msg, names);
}

static void read_settings(mt_comm *c) {
  c->watchdog_ns = (uint64_t)mt_comm_env("MUTIRAO_WATCHDOG_S", WATCHDOG_S) * 1000000000u;
  c->watchdog_abort_ns = (uint64_t)mt_comm_env("MUTIRAO_WATCHDOG_ABORT_S", 0) * 1000000000u;
}

int mt_comm_open(mt_comm **out, mt_err *e) {
  *out = NULL;
  mt_comm *c = mt_calloc(1, sizeof *c);
  if (!c) return mt_err_set(e, MT_ENOMEM, "no memory for the communicator");
  c->size = 1;
  c->parent = getppid();
  c->what = "the start";
  read_settings(c);
  int rc = mt_comm_is_rank() ? start_mpi(c, e) : check_slurm(e);
  if (!rc) rc = meet(c, e);
  if (!rc) rc = mt_form_groups(c, e);
  if (rc) {
    if (c->size > 1) c->broken = rc; /* the others know nothing of it: MPI_Finalize would hang */
    mt_comm_close(c);
    return rc;
  }
  c->oversubscribed = c->local_size > sysconf(_SC_NPROCESSORS_ONLN);
  *out = c;
  return MT_OK;
}

void mt_comm_close(mt_comm *c) {
  if (!c) return;
  if (c->mpi && !c->broken) MPI_Finalize();
  if (c->control_bytes)
    mt_share_detach(c->control, c->control_bytes);
  else
    free(c->control);
  free(c->member);
  free(c->leader);
  free(c->peer);
  free(c->notes);
  free(c->request);
  free(c->request_peer);
  free(c->request_done);
  free(c);
}

void mt_comm_abort(mt_comm *c, int status) {
  if (c && c->mpi) MPI_Abort(MPI_COMM_WORLD, status);
  _exit(status);
}

int mt_comm_rank(const mt_comm *c) {
  return c->rank;
}
int mt_comm_size(const mt_comm *c) {
  return c->size;
}
int mt_comm_local_rank(const mt_comm *c) {
  return c->local_rank;
}
int mt_comm_local_size(const mt_comm *c) {
  return c->local_size;
}
int mt_comm_nodes(const mt_comm *c) {
  return c->nodes;
}
const char *mt_comm_host(const mt_comm *c) {
  return c->peer[c->rank].host;
}
const char *mt_comm_rank_host(const mt_comm *c, int rank) {
  return c->peer[rank].host;
}
void mt_comm_set_oversubscribed(mt_comm *c, bool oversubscribed) {
  c->oversubscribed = oversubscribed;
}
int mt_comm_group(const mt_comm *c) {
  return c->group;
}
int mt_comm_groups(const mt_comm *c) {
  return c->groups;
}
int mt_comm_group_rank(const mt_comm *c) {
  return c->group_rank;
}
int mt_comm_group_size(const mt_comm *c) {
  return c->group_size;
}
int mt_comm_group_member(const mt_comm *c, int i) {
  return c->member[i];
}
