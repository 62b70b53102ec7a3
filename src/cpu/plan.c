/* The binding plan: which cores are a rank's, and which of them a thread's. */
#include "cpu_impl.h"

typedef struct run {
  int begin, end; /* cores */
} run;

/* [begin, end) of n items for part i of k: contiguous, as even as possible, the first have more. */
static run deal(int n, int k, int i) {
  int share = n / k, extra = n % k, begin = share * i + (i < extra ? i : extra);
  return (run){begin, begin + share + (i < extra)};
}

static int first_core(const mt_cpu *c, int domain) {
  int core = 0;
  while (core < c->n_cores && c->domain[core] < domain) core++;
  return core;
}

/* Domain of one of more ranks than there are domains: in proportion to their cores. */
static int domain_of_rank(const mt_cpu *c, int rank, int ranks) {
  return c->domain[(long long)rank * c->n_cores / ranks];
}

static run cores_of_rank(const mt_cpu *c, int rank, int ranks) {
  if (ranks <= c->n_domains) {
    run d = deal(c->n_domains, ranks, rank);
    return (run){first_core(c, d.begin), first_core(c, d.end)};
  }
  int domain = domain_of_rank(c, rank, ranks), before = 0, sharing = 0;
  for (int r = 0; r < ranks; r++) {
    if (domain_of_rank(c, r, ranks) != domain) continue;
    sharing++;
    before += r < rank;
  }
  int first = first_core(c, domain), n = first_core(c, domain + 1) - first;
  run own = deal(n, sharing, before);
  if (sharing > n) { /* more ranks than cores */
    own.begin = (int)((long long)before * n / sharing);
    own.end = own.begin + 1;
  }
  return (run){first + own.begin, first + own.end};
}

/* Spread over the rank's cores, so that threads use all of its caches and memory channels. */
static int core_of_thread(run cores, int thread, int n_threads) {
  return cores.begin + (int)((long long)thread * (cores.end - cores.begin) / n_threads);
}

static void alone(const mt_cpu *c, int *rank, int *ranks) {
  if (!c->own_mask && *ranks > 0 && *rank >= 0 && *rank < *ranks) return;
  *rank = 0;
  *ranks = 1;
}

int mt_cpu_plan(const mt_cpu *c, int local_rank, int local_ranks, int n_threads, int *core) {
  alone(c, &local_rank, &local_ranks);
  run own = cores_of_rank(c, local_rank, local_ranks);
  for (int t = 0; t < n_threads; t++) core[t] = core_of_thread(own, t, n_threads);
  int shared = 0;
  for (int t = 0; t < n_threads; t++) {
    int users = 0;
    for (int r = 0; r < local_ranks; r++) {
      run other = cores_of_rank(c, r, local_ranks);
      if (core[t] < other.begin || core[t] >= other.end) continue;
      for (int u = 0; u < n_threads; u++) users += core_of_thread(other, u, n_threads) == core[t];
    }
    shared += users > 1;
  }
  return shared;
}

int mt_cpu_default_threads(const mt_cpu *c, int local_rank, int local_ranks) {
  alone(c, &local_rank, &local_ranks);
  run own = cores_of_rank(c, local_rank, local_ranks);
  run quota = deal(c->quota_cores, local_ranks, local_rank);
  int n = own.end - own.begin, most = quota.end - quota.begin;
  if (c->quota_cores < c->n_cores && n > most) n = most;
  return n > 0 ? n : 1;
}
