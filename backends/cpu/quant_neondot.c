/* AArch64 with the dot product instructions */
#include "backends/cpu/bytes_neon.h"

#include "backends/cpu/quant_kernels.h"

const struct quant_kernels quant_neondot = QUANT_KERNELS;
