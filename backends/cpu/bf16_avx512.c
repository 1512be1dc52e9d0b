/* AVX-512 (F, BW, VL, DQ) */
#include "backends/cpu/simd_avx512.h"

enum { EMULATED_ROWS_PAIRS = 12, EMULATED_ROWS_TILES = 6 };
#include "backends/cpu/bf16_emulate.h"

const struct bf16_kernels bf16_avx512[BF16_ORDERS] = EMULATED("avx512, emulated");
