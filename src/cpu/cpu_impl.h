/* What the files of cpu share. */
#ifndef MUTIRAO_CPU_IMPL_H
#define MUTIRAO_CPU_IMPL_H

#include <hwloc.h>

#include "mutirao/cpu.h"

struct mt_cpu {
  hwloc_topology_t topology;
  hwloc_obj_t *core; /* [n_cores], domain by domain */
  int *domain;       /* [n_cores] ascending */
  int n_cores, n_domains, quota_cores;
  bool own_mask; /* a launcher gave this process cores that no other rank has */
  bool here;     /* this machine, not a captured one */
  char *root;    /* of cgroup and memory files; NULL where no limits apply */
  uint64_t memory_bytes;
  char name[128];
};

/* What the cgroups that hold this process allow; the least on the way up to the root. */
typedef struct mt_cgroup {
  double cpus;              /* cores' worth of time; 0: no limit */
  uint64_t memory_bytes;    /* UINT64_MAX: no limit */
  uint64_t available_bytes; /* the least of what each level has left */
} mt_cgroup;
/* Reads {root}/proc/self/cgroup and below {root}/sys/fs/cgroup, versions 1, 2 and mixed. Whatever
 * is absent or malformed sets no limit. */
mt_cgroup mt_cgroup_read(const char *root);
/* Number after `key` in a file of lines "key value"; 0 where absent. */
uint64_t mt_cgroup_find(const char *path, const char *key);

#endif
