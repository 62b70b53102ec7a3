/* AVX-512 matrix products with vpdpbusd. */
#define MT_SUFFIX avx512vnni
#define MT_VNNI   1
#include "gemm_template.h"
