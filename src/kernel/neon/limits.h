/* What the loops of limits.c and limits_dot.c share. */
#ifndef MT_KERNEL_NEON_LIMITS_H
#define MT_KERNEL_NEON_LIMITS_H

#include "../limits.h"
#include "neon.h"

/* 24 chains cover the latency of four units and leave registers for the operands. */
enum { CHAINS = 24 };
#define EACH _Pragma("GCC unroll 24") for (int i = 0; i < CHAINS; i++)
/* The compiler must not see that the chains are alike. */
#define START(acc, zero)              \
  do {                                \
    acc = zero;                       \
    __asm__ volatile("" : "+w"(acc)); \
  } while (0)

#endif
