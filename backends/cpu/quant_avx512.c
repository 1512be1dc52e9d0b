/* AVX-512 (F, BW, VL, DQ) */
#include "backends/cpu/bytes_avx512.h"

#include "backends/cpu/quant_kernels.h"

const struct quant_kernels quant_avx512 = QUANT_KERNELS;
