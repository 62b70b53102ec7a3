/* The quantum of a row. */
#include <limits.h>
#include <string.h>

#include "mutirao/reduce.h"

enum { QUANTUM_BITS = 32, LEAST_EXP = -126 };

int mt_reduce_quantum_exp(float mean_square) {
  uint32_t bits;
  memcpy(&bits, &mean_square, sizeof bits);
  if (bits << 1 == 0) return LEAST_EXP - QUANTUM_BITS;
  int field = (int)(bits >> 23);
  if (field >= 255) return INT_MIN; /* infinite, NaN, or with the sign's bit */
  int exp = field - 127;
  if (!field) exp = 31 - __builtin_clz(bits) - 149; /* subnormal */
  return (exp >= 0 ? exp / 2 : -((1 - exp) / 2)) - QUANTUM_BITS;
}
