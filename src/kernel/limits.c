/* The limits of a table, found by its name. */
#include <string.h>

#include "impl.h"
#include "limits.h"

static const mt_limits LIMITS[] = {
#if defined(__x86_64__)
    {"avx512vnni", mt_limit_fma_avx512, mt_limit_dot_avx512vnni, mt_limit_read_avx512},
    {"avx512", mt_limit_fma_avx512, mt_limit_dot_avx512, mt_limit_read_avx512},
    {"avxvnni", mt_limit_fma_avx2, mt_limit_dot_avxvnni, mt_limit_read_avx2},
    {"avx2", mt_limit_fma_avx2, mt_limit_dot_avx2, mt_limit_read_avx2},
#elif defined(__aarch64__)
    {"neondot", mt_limit_fma_neon, mt_limit_dot_neondot, mt_limit_read_neon},
    {"neon", mt_limit_fma_neon, mt_limit_dot_neon, mt_limit_read_neon},
#endif
    {"ref", mt_limit_fma_ref, mt_limit_dot_ref, mt_limit_read_ref},
};
enum { N_LIMITS = sizeof LIMITS / sizeof LIMITS[0] };

static const mt_limits *limits_of(const mt_kernels *kn) {
  const char *isa = kn->exact ? kn->isa : mt_openblas_exact()->isa;
  size_t i = 0;
  while (i + 1 < N_LIMITS && strcmp(LIMITS[i].isa, isa)) i++;
  return &LIMITS[i];
}

uint64_t mt_kernels_run_fma(const mt_kernels *kn, uint64_t rounds) {
  return limits_of(kn)->fma(rounds);
}

uint64_t mt_kernels_run_dot(const mt_kernels *kn, uint64_t rounds) {
  return limits_of(kn)->dot(rounds);
}

void mt_kernels_run_read(const mt_kernels *kn, const void *p, size_t bytes, size_t streams) {
  limits_of(kn)->read(p, bytes, streams);
}
