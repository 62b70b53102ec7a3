/* How many ranks, and what starts them. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"
#include "mutirao/json.h"

int mt_launcher_find_rank(char path[4096], mt_err *e) {
  char exe[4000];
  ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (len < 0)
    return mt_err_set(e, MT_ESYSTEM, "cannot find this program's own path: %s", strerror(errno));
  exe[len] = 0;
  snprintf(path, 4096, "%s/mutirao-rank", dirname(exe));
  if (access(path, X_OK)) return mt_err_set(e, MT_ESYSTEM, "%s: %s", path, strerror(errno));
  return MT_OK;
}

/* Runs `mutirao-rank --describe` and appends what it prints. Its own message goes to standard
 * error. */
static int ask_rank(const char *rank_path, mt_buf *out, mt_err *e) {
  int fd[2], status = 0;
  if (pipe(fd)) return mt_err_set(e, MT_ESYSTEM, "cannot make a pipe: %s", strerror(errno));
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fd[1], STDOUT_FILENO);
    close(fd[0]);
    close(fd[1]);
    execl(rank_path, rank_path, "--describe", (char *)NULL);
    _exit(127);
  }
  close(fd[1]);
  int rc =
      pid < 0 ? mt_err_set(e, MT_ESYSTEM, "cannot start a process: %s", strerror(errno)) : MT_OK;
  for (char chunk[4096]; !rc;) {
    ssize_t n = read(fd[0], chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rc = mt_buf_append(out, chunk, (size_t)n);
  }
  close(fd[0]);
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (rc) return rc;
  if (status || !out->len) return mt_err_set(e, MT_ESYSTEM, "%s --describe failed", rank_path);
  return MT_OK;
}

/* One rank per NUMA domain of this machine. */
static int default_ranks(const char *rank_path, int *ranks, mt_err *e) {
  mt_buf text = {0};
  mt_json *j = NULL;
  int64_t n = 0;
  int rc = ask_rank(rank_path, &text, e);
  if (!rc) rc = mt_json_parse(&j, text.data, text.len, "mutirao-rank --describe", e);
  if (!rc && (!mt_json_int(mt_json_get(j, "numa_domains"), &n) || n < 1 || n > 65536))
    rc = mt_err_set(e, MT_EFORMAT, "mutirao-rank --describe does not tell numa_domains");
  *ranks = (int)n;
  mt_json_free(j);
  mt_buf_free(&text);
  return rc;
}

int mt_launcher_rank_args(const mt_opt *o, const char *rank_path, mt_args *out, mt_err *e) {
  const mt_opt_row *row;
  const char *text;
  int rc = mt_args_add(out, rank_path, e);
  if (!rc) rc = mt_args_add(out, mt_opt_command_name(mt_opt_get_command(o)), e);
  for (size_t i = 0; !rc && mt_opt_get_given(o, i, &row, &text); i++) {
    if (mt_opt_row_is_launcher(row)) continue;
    rc = text ? mt_args_addf(out, e, "--%s=%s", row->name, text)
              : mt_args_addf(out, e, "--%s", row->name);
  }
  return rc;
}

static bool is_stdin(const char *s) {
  return s && (!strcmp(s, "-") || !strcmp(s, "/dev/stdin"));
}

/* True if the command reads standard input. mpirun reads it greedily otherwise, and would swallow
 * the rest of a script's `while read` loop. */
static bool reads_stdin(const mt_opt *o) {
  return mt_opt_get_command(o) == MT_CMD_CHAT || is_stdin(mt_opt_string(o, "prompt-file")) ||
         is_stdin(mt_opt_string(o, "file"));
}

static int starter_args(const mt_opt *o, const char *via, int ranks, mt_args *out, mt_err *e) {
  const char *hostfile = mt_opt_string(o, "hostfile");
  int rc = mt_args_add(out, via, e);
  if (!strcmp(via, "srun")) {
    static const char *const flags[] = {"--mpi=pmix", "--cpu-bind=none", "--kill-on-bad-exit=1",
                                        "--quiet", "--unbuffered"};
    for (size_t i = 0; !rc && i < sizeof flags / sizeof *flags; i++)
      rc = mt_args_add(out, flags[i], e);
    if (!rc) rc = mt_args_add(out, reads_stdin(o) ? "--input=0" : "--input=none", e);
  } else {
    if (!rc) rc = mt_args_add(out, "--bind-to", e);
    if (!rc) rc = mt_args_add(out, "none", e);
    if (!rc && hostfile) rc = mt_args_add(out, "--hostfile", e);
    if (!rc && hostfile) rc = mt_args_add(out, hostfile, e);
    if (!rc && hostfile && getenv("MUTIRAO_STDERR_TERMINAL")) { /* rank 0 may be elsewhere */
      rc = mt_args_add(out, "-x", e);
      if (!rc) rc = mt_args_add(out, "MUTIRAO_STDERR_TERMINAL", e);
    }
  }
  if (!rc && ranks) rc = mt_args_add(out, "-n", e);
  if (!rc && ranks) rc = mt_args_addf(out, e, "%d", ranks);
  return rc;
}

/* Replaces this process by argv[0], looked up in PATH. */
static int become(char *const *argv, mt_err *e) {
  fflush(NULL);
  execvp(argv[0], argv);
  return mt_err_set(e, MT_ESYSTEM, "cannot start %s: %s", argv[0], strerror(errno));
}

static int close_stdin(mt_err *e) {
  int fd = open("/dev/null", O_RDONLY);
  if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
    return mt_err_set(e, MT_ESYSTEM, "/dev/null: %s", strerror(errno));
  if (fd != STDIN_FILENO) close(fd);
  return MT_OK;
}

/* mpirun or srun with the ranks behind it. ranks 0: as many as the hosts or the allocation have
 * places. */
static int start_many(const mt_opt *o, const char *via, int ranks, const char *rank_path,
                      mt_err *e) {
  mt_args args = {0};
  const char *hostfile = mt_opt_string(o, "hostfile");
  int rc = MT_OK;
  if (!strcmp(via, "srun") && hostfile)
    return mt_err_set(e, MT_EINVAL,
                      "--hostfile is for mpirun; under Slurm the allocation says where ranks run");
  if (hostfile && access(hostfile, R_OK))
    return mt_err_set(e, MT_EIO, "%s: %s", hostfile, strerror(errno));
  if (!mt_launcher_in_path(via))
    return mt_err_set(e, MT_ESYSTEM, "%s is not in PATH, and more than one rank needs it%s", via,
                      !strcmp(via, "mpirun") ? " (Debian: apt-get install openmpi-bin)" : "");
  if (isatty(STDERR_FILENO)) setenv("MUTIRAO_STDERR_TERMINAL", "1", 1);
  if (!reads_stdin(o)) rc = close_stdin(e);
  if (!rc) rc = starter_args(o, via, ranks, &args, e);
  if (!rc) rc = mt_launcher_rank_args(o, rank_path, &args, e);
  if (!rc) {
    mt_launcher_set_mpi_env(!hostfile && !strcmp(via, "mpirun"));
    if (mt_opt_get_command(o) == MT_CMD_CHAT) {
      int status;
      rc = mt_launcher_converse(args.v, &status, e);
      if (!rc) exit(status);
    } else {
      rc = become(args.v, e);
    }
  }
  mt_args_free(&args);
  return rc;
}

static int start_one(const mt_opt *o, const char *rank_path, mt_err *e) {
  mt_args args = {0};
  int rc = mt_launcher_rank_args(o, rank_path, &args, e);
  if (!rc) rc = become(args.v, e);
  mt_args_free(&args);
  return rc;
}

/* Under mpirun or srun: the rank itself. */
static int start_as_rank(const mt_opt *o, const char *rank_path, mt_err *e) {
  int size = mt_launcher_world_size(), ranks = mt_opt_int(o, "ranks");
  if (mt_opt_is_set(o, "hostfile") || mt_opt_is_set(o, "via"))
    return mt_err_set(
        e, MT_EINVAL,
        "--hostfile and --via start ranks, but this is a rank already (mpirun or srun "
        "started it)");
  if (mt_opt_is_set(o, "ranks") && size && ranks != size)
    return mt_err_set(e, MT_EINVAL, "-n %d, but mpirun or srun started %d ranks; leave -n out",
                      ranks, size);
  return start_one(o, rank_path, e);
}

int mt_launcher_start(const mt_opt *o, mt_err *e) {
  int rank, ranks = mt_opt_int(o, "ranks");
  char rank_path[4096];
  int rc = mt_launcher_find_rank(rank_path, e);
  if (rc) return rc;
  bool is_rank = mt_launcher_is_rank(&rank),
       needs_ranks = mt_opt_command_needs_ranks(mt_opt_get_command(o));
  if (is_rank && needs_ranks) return start_as_rank(o, rank_path, e);
  if (is_rank && rank > 0) exit(0); /* rank 0 alone does what needs no ranks */
  if ((rc = mt_launcher_check_slurm(e))) return rc;
  mt_launcher_scrub_env();
  if (!needs_ranks) return start_one(o, rank_path, e);

  const char *via = mt_opt_string(o, "via");
  bool elsewhere = mt_opt_is_set(o, "hostfile") || (via && !strcmp(via, "srun"));
  if (!ranks && !elsewhere && (rc = default_ranks(rank_path, &ranks, e))) return rc;
  if (ranks == 1 && !via && !elsewhere) return start_one(o, rank_path, e);
  return start_many(o, via ? via : "mpirun", ranks, rank_path, e);
}
