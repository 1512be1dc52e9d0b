/* AArch64 */
#include "backends/cpu/bytes_neon.h"

#include "backends/cpu/quant_kernels.h"

const struct quant_kernels quant_neon = QUANT_KERNELS;
