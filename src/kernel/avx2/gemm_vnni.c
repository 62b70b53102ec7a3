/* AVX2 matrix products with the VEX form of vpdpbusd (AVX-VNNI). */
#define MT_SUFFIX avxvnni
#define MT_VNNI   1
#include "gemm_template.h"
