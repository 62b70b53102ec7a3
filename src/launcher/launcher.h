/* The launcher: one process, no MPI. It reads the command line and the configuration file, decides
 * how many ranks there are, and becomes (execs) mpirun, srun or mutirao-rank. */
#ifndef MT_LAUNCHER_H
#define MT_LAUNCHER_H

#include "mutirao/opt.h"

/* A growing argument vector, NULL-terminated; strings are owned. Zero-initialize. */
typedef struct mt_args {
  char **v;
  size_t n, cap;
} mt_args;
int mt_args_add(mt_args *a, const char *s, mt_err *e);
int mt_args_addf(mt_args *a, mt_err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void mt_args_free(mt_args *a);

/* ---- environment ------------------------------------------------------------------------- */

/* True if mpirun or srun started this process as a rank; *rank is its number. */
bool mt_launcher_is_rank(int *rank);
/* Ranks of the job as its starter tells; 0 where it does not. */
int mt_launcher_world_size(void);
/* A Slurm step of several tasks that no MPI connects is MT_EINVAL with the --mpi=pmix hint. */
int mt_launcher_check_slurm(mt_err *e);
/* Forgets what an enclosing mpirun, srun or PMIx left in the environment; what the user set for MPI
 * stays. */
void mt_launcher_scrub_env(void);
/* Settings that mpirun reads from the environment (Open MPI; others ignore them). Nothing that is
 * already set is overridden. `local`: all ranks on this host. */
void mt_launcher_set_mpi_env(bool local);
/* True if `program` is an executable file in PATH. */
bool mt_launcher_in_path(const char *program);

/* ---- configuration file
 * ----------------------------------------------------------------------------------------- */

/* Appends "--name=value" to out for each option of the file at `path` that `command` takes and that
 * `given` (the scanned command line) does not hold. MT_EINVAL with file and line for an unknown key
 * or an illegal value; MT_EIO. */
int mt_launcher_read_config(const char *path, const mt_opt *given, mt_args *out, mt_err *e);

/* ---- starting ---------------------------------------------------------------------------- */

/* argv of the rank: its path, the command, and every given option that ranks take. */
int mt_launcher_rank_args(const mt_opt *o, const char *rank_path, mt_args *out, mt_err *e);
/* Path of mutirao-rank, beside this program. MT_ESYSTEM. */
int mt_launcher_find_rank(char path[4096], mt_err *e);
/* Runs argv (mpirun or srun) as a job whose standard input is this process's, passing on Ctrl-C as
 * SIGUSR1; *status is its exit status. */
int mt_launcher_converse(char *const *argv, int *status, mt_err *e);
/* Starts the ranks; returns only on failure. */
int mt_launcher_start(const mt_opt *o, mt_err *e);

#endif
