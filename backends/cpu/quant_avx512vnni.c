/* AVX-512 (F, BW, VL, DQ, VNNI) */
#define DOT_VNNI
#include "backends/cpu/bytes_avx512.h"

#include "backends/cpu/quant_kernels.h"

const struct quant_kernels quant_avx512vnni = QUANT_KERNELS;
