/* AVX-512 (F, BW, VL, DQ) with VBMI, by which e4m3 weights are looked up, and VNNI, by which attention
 * multiplies int8 entries. */
#include "backends/cpu/words_avx512.h"

#define TILE_ROWS_14
#include "backends/cpu/attn_kernels.h"
#include "backends/cpu/delta_kernels.h"

const struct kernels kernels_avx512vbmi = {
    .name = "avx512",
    .tile_rows = TILE_ROWS,
    .attn_scratch = sizeof(struct attn_scratch) / sizeof(float),
    .linear_tile = fast_linear_tile,
    .attn_split = fast_attn_split,
    .delta_head = fast_delta_head,
    ROW_KERNELS,
};
