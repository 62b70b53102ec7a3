/* AVX2 matrix products without VNNI. */
#define MT_SUFFIX avx2
#define MT_VNNI   0
#include "gemm_template.h"
