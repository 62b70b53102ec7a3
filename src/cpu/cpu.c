/* The machine: cores in order of their NUMA domains, limits, names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu_impl.h"

static const char synthetic[] = "synthetic:";

static int load_topology(mt_cpu *c, const char *xml, mt_err *e) {
  if (hwloc_topology_init(&c->topology))
    return mt_err_set(e, MT_ENOMEM, "no memory for the topology");
  bool is_synthetic = xml && !strncmp(xml, synthetic, sizeof synthetic - 1);
  if (is_synthetic && hwloc_topology_set_synthetic(c->topology, xml + sizeof synthetic - 1))
    return mt_err_set(e, MT_EINVAL, "malformed synthetic topology: %s", xml);
  if (xml && !is_synthetic && hwloc_topology_set_xml(c->topology, xml))
    return mt_err_set(e, MT_EIO, "cannot read the topology %s", xml);
  if (hwloc_topology_load(c->topology))
    return mt_err_set(e, xml ? MT_EFORMAT : MT_EIO, "cannot load the topology%s%s", xml ? " " : "",
                      xml ? xml : "");
  c->here = !xml;
  return MT_OK;
}

/* True if srun bound this task to CPUs of its own. */
static bool slurm_bound(void) {
  const char *type = getenv("SLURM_CPU_BIND_TYPE"), *tasks = getenv("SLURM_STEP_NUM_TASKS");
  return type && *type && strncmp(type, "none", 4) && tasks && atoi(tasks) > 1;
}

/* Cuts the topology to this process's mask, where it has a narrower one and may not undo it. The
 * calling thread's mask tells: threads of libraries and sanitizers may have others. */
static int restrict_to_self(mt_cpu *c, mt_err *e) {
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  int rc = MT_OK;
  if (!mask) return mt_err_set(e, MT_ENOMEM, "no memory for the topology");
  hwloc_const_bitmap_t all = hwloc_topology_get_allowed_cpuset(c->topology);
  if (!hwloc_get_cpubind(c->topology, mask, HWLOC_CPUBIND_THREAD) &&
      !hwloc_bitmap_isincluded(all, mask)) {
    const char *by_mpirun = getenv("OMPI_MCA_orte_bound_at_launch");
    if (by_mpirun && atoi(by_mpirun))
      mt_log(MT_LOG_INFO, "mpirun bound this rank to %d of %d CPUs; its threads bind themselves",
             hwloc_bitmap_weight(mask), hwloc_bitmap_weight(all));
    else if (hwloc_topology_restrict(c->topology, mask, 0))
      rc = mt_err_set(e, MT_EIO, "cannot cut the topology to this process's CPUs");
    else
      c->own_mask = slurm_bound();
  }
  hwloc_bitmap_free(mask);
  return rc;
}

static int restrict_to_list(mt_cpu *c, const char *list, mt_err *e) {
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  int rc = MT_OK;
  if (!mask) return mt_err_set(e, MT_ENOMEM, "no memory for the topology");
  if (hwloc_bitmap_list_sscanf(mask, list) || hwloc_topology_restrict(c->topology, mask, 0))
    rc = mt_err_set(e, MT_EINVAL, "no CPUs of this machine: %s", list);
  hwloc_bitmap_free(mask);
  return rc;
}

/* The NUMA node with the smallest set of CPUs that holds the core. Memory nodes without CPUs of
 * their own (CXL, or HBM beside DRAM) hang beside others and make no domain. */
static hwloc_const_bitmap_t domain_set(const mt_cpu *c, hwloc_obj_t core) {
  hwloc_const_bitmap_t best = NULL;
  hwloc_obj_t node = NULL;
  while ((node = hwloc_get_next_obj_by_type(c->topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
    if (!node->cpuset || !hwloc_bitmap_isincluded(core->cpuset, node->cpuset)) continue;
    if (!best || hwloc_bitmap_weight(node->cpuset) < hwloc_bitmap_weight(best)) best = node->cpuset;
  }
  return best;
}

/* Cores numbered domain by domain, the domains in order of their first core. */
static int number_cores(mt_cpu *c, mt_err *e) {
  hwloc_obj_type_t type = HWLOC_OBJ_CORE;
  int n = hwloc_get_nbobjs_by_type(c->topology, type);
  if (n <= 0) n = hwloc_get_nbobjs_by_type(c->topology, type = HWLOC_OBJ_PU);
  if (n <= 0) return mt_err_set(e, MT_EUNSUPPORTED, "the topology shows no cores");
  c->core = mt_calloc((size_t)n, sizeof(hwloc_obj_t));
  c->domain = mt_calloc((size_t)n, sizeof *c->domain);
  hwloc_const_bitmap_t *set = mt_calloc((size_t)n, sizeof *set);
  if (!c->core || !c->domain || !set) {
    free(set);
    return mt_err_set(e, MT_ENOMEM, "no memory for the topology");
  }
  for (int i = 0; i < n; i++)
    set[i] = domain_set(c, hwloc_get_obj_by_type(c->topology, type, (unsigned)i));
  for (int i = 0; i < n; i++) {
    bool seen = false;
    for (int j = 0; j < i && !seen; j++)
      seen = set[j] == set[i] || (set[j] && set[i] && hwloc_bitmap_isequal(set[j], set[i]));
    for (int j = i; j < n && !seen; j++) {
      if (set[j] != set[i] && !(set[j] && set[i] && hwloc_bitmap_isequal(set[j], set[i]))) continue;
      c->core[c->n_cores] = hwloc_get_obj_by_type(c->topology, type, (unsigned)j);
      c->domain[c->n_cores++] = c->n_domains;
    }
    c->n_domains += !seen;
  }
  free(set);
  return MT_OK;
}

static void read_limits(mt_cpu *c) {
  hwloc_obj_t machine = hwloc_get_root_obj(c->topology);
  c->memory_bytes = machine->total_memory;
  c->quota_cores = c->n_cores;
  if (!c->root) return;
  mt_cgroup g = mt_cgroup_read(c->root);
  if (g.memory_bytes < c->memory_bytes) c->memory_bytes = g.memory_bytes;
  if (g.cpus <= 0 || g.cpus >= c->n_cores) return;
  c->quota_cores = (int)g.cpus;
  if (c->quota_cores < g.cpus) c->quota_cores++;
}

static void read_name(mt_cpu *c) {
  hwloc_obj_t package = hwloc_get_obj_by_type(c->topology, HWLOC_OBJ_PACKAGE, 0);
  const char *name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  if (!name) name = hwloc_obj_get_info_by_name(hwloc_get_root_obj(c->topology), "CPUModel");
  snprintf(c->name, sizeof c->name, "%s", name ? name : "unknown CPU");
}

int mt_cpu_open_at(mt_cpu **out, const char *xml, const char *root, const char *mask, mt_err *e) {
  *out = NULL;
  mt_cpu *c = mt_calloc(1, sizeof *c);
  if (!c) return mt_err_set(e, MT_ENOMEM, "no memory for the topology");
  int rc = load_topology(c, xml, e);
  if (!rc && c->here) rc = restrict_to_self(c, e);
  if (!rc && mask) rc = restrict_to_list(c, mask, e);
  if (!rc) rc = number_cores(c, e);
  if (!rc && (c->here || root) && !(c->root = strdup(root ? root : "")))
    rc = mt_err_set(e, MT_ENOMEM, "no memory for the topology");
  if (rc) {
    mt_cpu_close(c);
    return rc;
  }
  read_limits(c);
  read_name(c);
  *out = c;
  return MT_OK;
}

int mt_cpu_open(mt_cpu **out, const char *xml, mt_err *e) {
  return mt_cpu_open_at(out, xml, NULL, NULL, e);
}

void mt_cpu_close(mt_cpu *c) {
  if (!c) return;
  if (c->topology) hwloc_topology_destroy(c->topology);
  free(c->core);
  free(c->domain);
  free(c->root);
  free(c);
}

int mt_cpu_cores(const mt_cpu *c) {
  return c->n_cores;
}
int mt_cpu_numa_domains(const mt_cpu *c) {
  return c->n_domains;
}
int mt_cpu_quota_cores(const mt_cpu *c) {
  return c->quota_cores;
}
uint64_t mt_cpu_memory_bytes(const mt_cpu *c) {
  return c->memory_bytes;
}
const char *mt_cpu_name(const mt_cpu *c) {
  return c->name;
}
int mt_cpu_core_numa(const mt_cpu *c, int core) {
  return c->domain[core];
}

uint64_t mt_cpu_memory_available_bytes(const mt_cpu *c) {
  if (!c->root) return c->memory_bytes;
  char path[4096];
  mt_cgroup g = mt_cgroup_read(c->root);
  uint64_t least = g.available_bytes < c->memory_bytes ? g.available_bytes : c->memory_bytes;
  if (snprintf(path, sizeof path, "%s/proc/meminfo", c->root) >= (int)sizeof path) return least;
  uint64_t free_kib = mt_cgroup_find(path, "MemAvailable:");
  return free_kib && free_kib < least >> 10 ? free_kib << 10 : least;
}

uint64_t mt_cpu_cache_bytes(const mt_cpu *c, int level) {
  static const hwloc_obj_type_t type[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
  if (level < 1 || level > 3) return 0;
  hwloc_obj_t o = hwloc_get_obj_by_type(c->topology, type[level - 1], 0);
  return o ? o->attr->cache.size : 0;
}

#if defined(__x86_64__)
/* x86-64-v3 as the psABI lists it, asked of cpuid directly, and of the system whether it saves the
 * wide registers. */
bool mt_cpu_baseline_ok(mt_err *e) {
  enum { FMA = 1 << 12, MOVBE = 1 << 22, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 };
  enum { BMI1 = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8, LZCNT = 1 << 5 };
  unsigned a, b, c1 = 0, b7 = 0, c81 = 0, d, t, lo = 0, hi;
  if (!__get_cpuid(1, &a, &b, &c1, &d)) c1 = 0;
  if (!__get_cpuid_count(7, 0, &a, &b7, &t, &d)) b7 = 0;
  if (!__get_cpuid(0x80000001u, &a, &b, &c81, &d)) c81 = 0;
  if (c1 & OSXSAVE) __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  const char *lack = (c1 & AVX) == 0                    ? "AVX"
                     : (b7 & AVX2) == 0                 ? "AVX2"
                     : (c1 & FMA) == 0                  ? "FMA"
                     : (c1 & F16C) == 0                 ? "F16C"
                     : (b7 & BMI1) == 0                 ? "BMI1"
                     : (b7 & BMI2) == 0                 ? "BMI2"
                     : (c81 & LZCNT) == 0               ? "LZCNT"
                     : (c1 & MOVBE) == 0                ? "MOVBE"
                     : !(c1 & OSXSAVE) || (lo & 6) != 6 ? "AVX support of the operating system"
                                                        : NULL;
  if (!lack) return true;
  mt_err_set(e, MT_EUNSUPPORTED,
             "this CPU lacks %s: mutirao needs x86-64-v3 (Intel Haswell 2013, AMD Zen 2017 or "
             "later) or aarch64",
             lack);
  return false;
}
#elif defined(__aarch64__)
bool mt_cpu_baseline_ok(mt_err *e) {
  (void)e;
  return true;
}
#else
bool mt_cpu_baseline_ok(mt_err *e) {
  mt_err_set(e, MT_EUNSUPPORTED, "mutirao needs x86-64-v3 or aarch64");
  return false;
}
#endif
