/* Which table: what the CPU has, what the user asked for. */
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "impl.h"

typedef struct candidate {
  const mt_kernels *table;
  bool (*usable)(void);
} candidate;

static bool always(void) {
  return true;
}

#if defined(__x86_64__)
/* By CPUID, since clang's __builtin_cpu_supports does not know the name. */
static bool has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
static bool has_avxvnni(void) {
  unsigned a, b, c, d;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bit_AVXVNNI);
}
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static bool has_avx512vnni(void) {
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
static bool has_neondot(void) {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
#endif

/* Best first. */
static const candidate CANDIDATES[] = {
#if defined(__x86_64__)
    {&mt_kernels_avx512vnni, has_avx512vnni},
    {&mt_kernels_avxvnni, has_avxvnni},
    {&mt_kernels_avx512, has_avx512},
    {&mt_kernels_avx2, has_avx2},
#elif defined(__aarch64__)
    {&mt_kernels_neondot, has_neondot},
    {&mt_kernels_neon, always}, /* part of every aarch64 */
#endif
    {&mt_kernels_ref, always},
};
enum { N_CANDIDATES = sizeof CANDIDATES / sizeof CANDIDATES[0] };

const char *const *mt_kernels_names(void) {
  static _Thread_local const char *name[N_CANDIDATES + 1];
  size_t n = 0;
  for (size_t i = 0; i < N_CANDIDATES; i++)
    if (CANDIDATES[i].usable()) name[n++] = CANDIDATES[i].table->isa;
  name[n] = NULL;
  return name;
}

const mt_kernels *mt_kernels_best(void) {
  size_t i = 0;
  while (!CANDIDATES[i].usable()) i++;
  return CANDIDATES[i].table;
}

int mt_kernels_get(const char *isa, const mt_kernels **out, mt_err *e) {
  const char *asked = isa;
  if (!asked || !strcmp(asked, "auto")) asked = getenv("MUTIRAO_ISA");
  if (!asked || !*asked || !strcmp(asked, "auto")) {
    *out = mt_kernels_best();
    return MT_OK;
  }
  char there[80] = "";
  for (size_t i = 0; i < N_CANDIDATES; i++) {
    const mt_kernels *kn = CANDIDATES[i].table;
    if (!CANDIDATES[i].usable()) continue;
    if (!strcmp(asked, kn->isa)) {
      *out = kn;
      return MT_OK;
    }
    size_t n = strlen(there);
    snprintf(there + n, sizeof there - n, "%s%s", n ? ", " : "", kn->isa);
  }
  return mt_err_set(e, MT_EINVAL, "no instruction set '%s' here, but %s", asked, there);
}

size_t mt_walk_rows = MT_WALK_ROWS;

/* A quarter of the cache for a chain of the rows, in f32; the rest is the weights' and the sums'.
 */
void mt_kernels_set_cache(uint64_t l2_bytes) {
  enum { LEAST = 12, CHAIN_BYTES = MT_CHAIN * sizeof(float) };
  uint64_t rows = l2_bytes / 4 / CHAIN_BYTES;
  if (rows < LEAST) rows = LEAST;
  mt_walk_rows = !l2_bytes || rows > MT_WALK_ROWS ? MT_WALK_ROWS : (size_t)rows;
}

void mt_kernels_set_fp_control(void) {
#if defined(__x86_64__)
  enum { FTZ = 0x8000, DAZ = 0x0040, ROUND = 0x6000, FLAGS = 0x003f };
  _mm_setcsr(_mm_getcsr() & ~(unsigned)(FTZ | DAZ | ROUND | FLAGS));
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)0));
#endif
}

size_t mt_kv_k_bytes(mt_kv_type type, size_t head_dim) {
  size_t n = MT_KV_BLOCK * head_dim;
  if (type == MT_KV_Q8) return n + MT_KV_BLOCK * sizeof(float);
  return n * (type == MT_KV_F32 ? 4 : 2);
}

size_t mt_kv_v_bytes(mt_kv_type type, size_t head_dim) {
  return mt_kv_k_bytes(type, head_dim);
}
