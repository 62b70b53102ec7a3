/* What mpirun and srun leave in the environment, and what we tell mpirun through it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher.h"

extern char **environ;

static const char *rank_text(void) {
  static const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *s = getenv(names[i]);
    if (s && *s) return s;
  }
  return NULL;
}

bool mt_launcher_is_rank(int *rank) {
  const char *s = rank_text();
  *rank = s ? atoi(s) : 0;
  return s != NULL;
}

int mt_launcher_world_size(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *s = getenv(names[i]);
    if (s && *s) return atoi(s);
  }
  return 0;
}

int mt_launcher_check_slurm(mt_err *e) {
  const char *step = getenv("SLURM_STEP_ID"), *tasks = getenv("SLURM_STEP_NUM_TASKS");
  if (!tasks) tasks = getenv("SLURM_NTASKS");
  /* Slurm numbers the batch, extern and interactive steps, which are one process each, from the top
   * of 32 bits. */
  if (rank_text() || !step || !tasks || strtoul(step, NULL, 10) >= 0xfffffff0ul || atoi(tasks) <= 1)
    return MT_OK;
  return mt_err_set(
      e, MT_EINVAL,
      "srun started %d tasks that no MPI connects; use srun --mpi=pmix, or let mutirao "
      "start them with --via srun",
      atoi(tasks));
}

static bool starts_with(const char *s, const char *prefix) {
  return !strncmp(s, prefix, strlen(prefix));
}

/* True if a running mpirun, srun or PMIx server put this variable there. MCA parameters of the
 * user's own (network interfaces, transports) do not match. */
static bool inherited(const char *name) {
  static const char *const prefixes[] = {"PMIX_",
                                         "PMI_",
                                         "PMI2_",
                                         "HYDI_",
                                         "HYDRA_",
                                         "MPI_LOCAL",
                                         "MPIEXEC_",
                                         "ORTE_",
                                         "PRTE_",
                                         "OMPI_COMM_WORLD_",
                                         "OMPI_UNIVERSE_SIZE",
                                         "OMPI_APP_CTX",
                                         "OMPI_NUM_APP_CTX",
                                         "OMPI_FIRST_RANKS",
                                         "OMPI_ARGV",
                                         "OMPI_COMMAND",
                                         "OMPI_FILE_LOCATION",
                                         "OMPI_MCA_orte_",
                                         "OMPI_MCA_ess",
                                         "OMPI_MCA_pmix",
                                         "OMPI_MCA_shmem_RUNTIME",
                                         "OMPI_MCA_initial_wdir",
                                         "OMPI_MCA_mpi_oversubscribe",
                                         "SLURM_PROCID",
                                         "SLURM_LOCALID",
                                         "SLURM_NODEID",
                                         "SLURM_STEP",
                                         "SLURM_GTIDS",
                                         "SLURM_TASK_PID",
                                         "SLURM_LAUNCH_NODE",
                                         "SLURM_SRUN_COMM",
                                         "SLURM_MPI_TYPE",
                                         "SLURM_PMI"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (starts_with(name, prefixes[i])) return true;
  return false;
}

void mt_launcher_scrub_env(void) {
  for (size_t i = 0; environ[i];) {
    char name[256];
    size_t len = strcspn(environ[i], "=");
    snprintf(name, sizeof name, "%.*s", (int)(len < 250 ? len : 250), environ[i]);
    if (inherited(name) && unsetenv(name) == 0)
      i = 0; /* environ was rearranged */
    else
      i++;
  }
}

bool mt_launcher_in_path(const char *program) {
  const char *path = getenv("PATH");
  while (path && *path) {
    char file[4096];
    size_t len = strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)len, len ? path : ".", program);
    if (!access(file, X_OK)) return true;
    path += len + (path[len] == ':');
  }
  return false;
}

/* True inside an allocation of a resource manager, which knows how to start processes on its hosts.
 */
static bool in_allocation(void) {
  return getenv("SLURM_JOB_ID") || getenv("SLURM_JOBID") || getenv("PBS_JOBID") ||
         getenv("LSB_JOBID") || getenv("PE_HOSTFILE");
}

void mt_launcher_set_mpi_env(bool local) {
  if (geteuid() == 0) {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
  setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
  if (!local) return;
  /* On one host mpirun need not complain of more ranks than cores (our waits yield then), nor talk
   * over TCP, nor comment on an exit status that our own message explains. */
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  setenv("OMPI_MCA_orte_execute_quiet", "1", 0);
  /* Open MPI 4 asks for ssh even where there is one host. */
  if (!in_allocation() && !mt_launcher_in_path("ssh") && !mt_launcher_in_path("rsh"))
    setenv("OMPI_MCA_plm", "isolated", 0);
}
