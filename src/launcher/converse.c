/* chat on several ranks. Ctrl-C must stop the answer, not the job: mpirun ends all ranks on SIGINT,
 * but forwards SIGUSR1. So the ranks run in a process group of their own, which the terminal does
 * not interrupt, this process passes the lines of the terminal on, and turns an interrupt into
 * SIGUSR1. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"

static volatile sig_atomic_t interrupted, terminated, ended;

static void on_signal(int sig) {
  if (sig == SIGINT) interrupted = 1;
  if (sig == SIGTERM) terminated = 1;
  if (sig == SIGCHLD) ended = 1;
}

/* What this process was told, told to the job. */
static void pass_signals(pid_t job) {
  if (interrupted) kill(job, SIGUSR1);
  if (terminated) kill(job, SIGTERM);
  interrupted = terminated = 0;
}

static void child(char *const *argv, const int fd[2], const sigset_t *mask) {
  setpgid(0, 0);
  sigprocmask(SIG_SETMASK, mask, NULL);
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* the job ends with its launcher */
  dup2(fd[0], STDIN_FILENO);
  close(fd[0]);
  close(fd[1]);
  execvp(argv[0], argv);
  _exit(127);
}

static bool write_all(int fd, const char *p, size_t n) {
  while (n) {
    ssize_t w = write(fd, p, n);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return false;
    p += w;
    n -= (size_t)w;
  }
  return true;
}

/* Standard input to the ranks, until either ends. Signals are blocked except while it waits, so
 * none comes between a look at the flags and the wait. */
static void relay(int to, pid_t job, const sigset_t *waiting) {
  char chunk[4096];
  while (!ended) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = ppoll(&in, 1, NULL, waiting);
    pass_signals(job);
    if (ready < 0 && errno == EINTR) continue;
    ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
    if (n <= 0 || !write_all(to, chunk, (size_t)n)) return;
  }
}

int mt_launcher_converse(char *const *argv, int *status, mt_err *e) {
  int fd[2];
  if (pipe(fd)) return mt_err_set(e, MT_EIO, "cannot make a pipe: %s", strerror(errno));
  if (isatty(STDIN_FILENO)) setenv("MUTIRAO_TERMINAL", "1", 1);
  struct sigaction act = {.sa_handler = on_signal};
  sigset_t ours, before;
  sigemptyset(&act.sa_mask);
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ours, &before);
  sigaction(SIGINT, &act, NULL);
  sigaction(SIGTERM, &act, NULL);
  sigaction(SIGCHLD, &act, NULL);
  signal(SIGPIPE, SIG_IGN);
  pid_t job = fork();
  if (job == 0) child(argv, fd, &before);
  close(fd[0]);
  if (job < 0) {
    close(fd[1]);
    return mt_err_set(e, MT_EIO, "cannot start a process: %s", strerror(errno));
  }
  relay(fd[1], job, &before);
  sigprocmask(SIG_SETMASK, &before, NULL);
  close(fd[1]);
  int how = 0;
  pid_t done;
  while ((done = waitpid(job, &how, 0)) < 0 && errno == EINTR)
    pass_signals(job); /* it may still be answering */
  *status = done < 0 || !WIFEXITED(how) ? 1 : WEXITSTATUS(how);
  return MT_OK;
}
