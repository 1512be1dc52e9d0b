/* AVX2, FMA, F16C, AVX-VNNI */
#define DOT_VNNI
#include "backends/cpu/bytes_avx2.h"

#include "backends/cpu/quant_kernels.h"

const struct quant_kernels quant_avxvnni = QUANT_KERNELS;
