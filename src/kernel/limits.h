/* What a CPU gives at most with the instructions of a table: one row for each instruction set. */
#ifndef MT_KERNEL_LIMITS_H
#define MT_KERNEL_LIMITS_H

#include "mutirao/kernel.h"

/* As mt_kernels_run_fma, mt_kernels_run_dot, mt_kernels_run_read say. */
typedef struct mt_limits {
  const char *isa;
  uint64_t (*fma)(uint64_t rounds), (*dot)(uint64_t rounds);
  void (*read)(const uint8_t *p, size_t bytes, size_t streams);
} mt_limits;

uint64_t mt_limit_fma_ref(uint64_t rounds);
uint64_t mt_limit_dot_ref(uint64_t rounds);
void mt_limit_read_ref(const uint8_t *p, size_t bytes, size_t streams);
#if defined(__x86_64__)
uint64_t mt_limit_fma_avx2(uint64_t rounds);
uint64_t mt_limit_dot_avx2(uint64_t rounds);
uint64_t mt_limit_dot_avxvnni(uint64_t rounds);
void mt_limit_read_avx2(const uint8_t *p, size_t bytes, size_t streams);
uint64_t mt_limit_fma_avx512(uint64_t rounds);
uint64_t mt_limit_dot_avx512(uint64_t rounds);
uint64_t mt_limit_dot_avx512vnni(uint64_t rounds);
void mt_limit_read_avx512(const uint8_t *p, size_t bytes, size_t streams);
#elif defined(__aarch64__)
uint64_t mt_limit_fma_neon(uint64_t rounds);
uint64_t mt_limit_dot_neon(uint64_t rounds);
uint64_t mt_limit_dot_neondot(uint64_t rounds);
void mt_limit_read_neon(const uint8_t *p, size_t bytes, size_t streams);
#endif

/* Bytes of each stream: whole steps of `step` bytes. */
static inline size_t mt_limit_stream_bytes(size_t bytes, size_t streams, size_t step) {
  return bytes / streams / step * step;
}

#endif
