/* Rows of x to BF16: one source for all instruction sets, as row_kernels.h. */
#ifndef BACKENDS_CPU_BF16_ROUND_H
#define BACKENDS_CPU_BF16_ROUND_H

#include "common/dtype.h"

static void bf16_round_row(const float *x, int n, uint16_t *out)
{
    for (int i = 0; i < n; i++) {
        uint32_t u = bits_of_f32(x[i]), nearest = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
        uint32_t nan = (u >> 16) | 0x40U;
        out[i] = (uint16_t)((u & 0x7fffffffU) > 0x7f800000U ? nan : nearest);
    }
}

#endif
