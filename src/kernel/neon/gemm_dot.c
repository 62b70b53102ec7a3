/* NEON matrix products with the dot-product extension (asimddp). */
#define MT_SUFFIX neondot
#define MT_DOT    1
#include "gemm_template.h"
