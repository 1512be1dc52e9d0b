/* AVX2, FMA, F16C */
#include "backends/cpu/words_avx2.h"

#include "backends/cpu/attn_kernels.h"
#include "backends/cpu/delta_kernels.h"

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .tile_rows = TILE_ROWS,
    .attn_scratch = sizeof(struct attn_scratch) / sizeof(float),
    .linear_tile = fast_linear_tile,
    .attn_split = fast_attn_split,
    .delta_head = fast_delta_head,
    ROW_KERNELS,
};
