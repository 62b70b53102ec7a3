/* AVX-512 matrix products without VNNI. */
#define MT_SUFFIX avx512
#define MT_VNNI   0
#include "gemm_template.h"
