/* AVX2, FMA */
#include "backends/cpu/simd_avx2.h"

enum { EMULATED_ROWS_PAIRS = 4, EMULATED_ROWS_TILES = 2 };
#include "backends/cpu/bf16_emulate.h"

const struct bf16_kernels bf16_avx2[BF16_ORDERS] = EMULATED("avx2, emulated");
