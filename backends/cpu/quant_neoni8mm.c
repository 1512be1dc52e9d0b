/* AArch64 with the matrix instructions for 8-bit integers */
#include "backends/cpu/bytes_neon.h"

#include "backends/cpu/quant_kernels.h"

const struct quant_kernels quant_neoni8mm = QUANT_KERNELS;
