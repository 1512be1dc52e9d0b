/* AVX2, FMA, F16C */
#include "backends/cpu/bytes_avx2.h"

#include "backends/cpu/quant_kernels.h"

const struct quant_kernels quant_avx2 = QUANT_KERNELS;
