/* NEON matrix products for any aarch64. */
#define MT_SUFFIX neon
#define MT_DOT    0
#include "gemm_template.h"
