/* How a matrix of floats is stored: panels of PANEL output columns (rows of the matrix), k-major.
 *   F32, F16   [K][PANEL] elements
 *   BF16       [pairs][PANEL][2]: two neighbours of k, as dot-product instructions take them; one
 *              shift and one mask widen them to two vectors in order.  Pairs begin at a slice's
 *              start (struct weight_src); an odd slice's last pair has a zero behind its element
 *   E4M3       scales [fp8_blocks(skip, K)][PANEL] f32, then [K][PANEL] bytes
 *   INT8       scales [groups][PANEL] f32, minima likewise, the groups of the columns [K] u16 (K as
 *              a multiple of 32), then [K][PANEL] int8
 *   INT4       the same with [K][16] bytes: columns c and c + 16 in the low and the high half
 *   NF4, FP4   scales [scale_blocks(block, skip, K)][PANEL] f32, then the codes as those of INT4
 *   NVFP4      factors [PANEL] f32, divisors [PANEL] f32, scales [scale_blocks(...)][PANEL] e4m3, then
 *              the codes likewise
 * Columns beyond N are zero.  Quantised ones: quant_panels.h. */
#ifndef BACKENDS_CPU_PANELS_H
#define BACKENDS_CPU_PANELS_H

#include <math.h>

#include "backends/backend.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { PANEL = 32 }; /* columns of a panel */

enum pack {
    PACK_F32,
    PACK_F16,
    PACK_BF16,
    PACK_E4M3,
    PACK_INT8,
    PACK_INT4,
    PACK_NF4,
    PACK_FP4,
    PACK_NVFP4,
    PACK_N
};

static inline enum pack pack_of(enum dtype t)
{
    switch (t) {
    case DT_F16:
        return PACK_F16;
    case DT_BF16:
        return PACK_BF16;
    case DT_E4M3:
        return PACK_E4M3;
    case DT_INT8_INDEX:
        return PACK_INT8;
    case DT_INT4_INDEX:
        return PACK_INT4;
    case DT_NF4:
        return PACK_NF4;
    case DT_FP4:
        return PACK_FP4;
    case DT_NVFP4:
        return PACK_NVFP4;
    default:
        return PACK_F32;
    }
}

static inline bool pack_has_levels(enum pack p)
{
    return p == PACK_NF4 || p == PACK_FP4 || p == PACK_NVFP4;
}

/* The 16 levels of those. */
static inline const float *pack_levels(enum pack p)
{
    return dtype_levels(p == PACK_NF4 ? DT_NF4 : p == PACK_FP4 ? DT_FP4 : DT_NVFP4);
}

/* Columns c and c + 16 share a byte. */
static inline bool pack_nibbles(enum pack p)
{
    return p == PACK_INT4 || pack_has_levels(p);
}

/* Bytes of one k, of a pair's half for BF16. */
static inline size_t pack_row_bytes(enum pack p)
{
    if (pack_nibbles(p))
        return PANEL / 2;
    return PANEL * (p == PACK_F32                      ? sizeof(float)
                    : p == PACK_E4M3 || p == PACK_INT8 ? 1
                                                       : sizeof(uint16_t));
}

/* Rows of a panel before column `end` of slice s: K itself, or, for BF16, K and one row for each odd
 * slice that ends before it. */
static inline size_t pack_rows(enum pack p, const int32_t *slice_end, int s, int32_t end)
{
    size_t rows = (size_t)end;
    for (int i = 0; p == PACK_BF16 && i < s; i++)
        rows += (size_t)(slice_end[i] - (i ? slice_end[i - 1] : 0)) % 2;
    return rows;
}

/* What is before the elements of a panel, besides its pack and K. */
struct pack_head {
    int32_t skip;   /* E4M3, NF4, FP4, NVFP4: elements of the first block before k = 0 */
    int32_t groups; /* INT8, INT4 */
    int32_t block;  /* NF4, FP4, NVFP4: columns that share a scale */
};

static inline size_t pack_head_bytes(enum pack p, struct pack_head h, int32_t k)
{
    if (p == PACK_INT8 || p == PACK_INT4)
        return (size_t)h.groups * 2 * PANEL * sizeof(float) +
               ((size_t)k + 31) / 32 * 32 * sizeof(uint16_t);
    if (p == PACK_NVFP4)
        return 2 * PANEL * sizeof(float) + (size_t)scale_blocks(h.block, h.skip, k) * PANEL;
    if (pack_has_levels(p))
        return (size_t)scale_blocks(h.block, h.skip, k) * PANEL * sizeof(float);
    return p == PACK_E4M3 ? (size_t)fp8_blocks(h.skip, k) * PANEL * sizeof(float) : 0;
}

/* INT8, INT4: the groups of the columns, in the head. */
static inline const uint16_t *pack_index(const void *panel, int32_t groups)
{
    return (const uint16_t *)((const float *)panel + (size_t)groups * 2 * PANEL);
}

/* Bytes of a panel of n_slices slices. */
static inline size_t pack_panel_bytes(enum pack p, struct pack_head h, int n_slices,
                                      const int32_t *slice_end)
{
    size_t rows = pack_rows(p, slice_end, n_slices, slice_end[n_slices - 1]);
    return pack_head_bytes(p, h, slice_end[n_slices - 1]) + rows * pack_row_bytes(p);
}

/* Index of column col in row `row` of a panel. */
static inline size_t panel_at(enum pack p, size_t row, int col)
{
    if (p == PACK_BF16)
        return (row / 2 * PANEL + (size_t)col) * 2 + row % 2;
    return row * PANEL + (size_t)col;
}

/* NF4, FP4, NVFP4: the scale of column col in a block. */
static inline float panel_level_scale(enum pack p, const void *panel, size_t block, int col)
{
    const float *head = (const float *)panel + col;
    if (p != PACK_NVFP4)
        return head[block * PANEL];
    float small = f32_of_e4m3(((const uint8_t *)panel)[(8 + block) * PANEL + (size_t)col]);
    return small * head[0] / head[PANEL];
}

/* Packs of pack_scaled: the weight of column col in row k of the K of a panel. */
static inline float panel_scaled_value(enum pack p, const void *panel, struct pack_head h,
                                       int32_t all, int32_t k, int col)
{
    const float *scale = (const float *)panel + col;
    const uint8_t *codes = (const uint8_t *)panel + pack_head_bytes(p, h, all);
    size_t at = (size_t)k * PANEL + (size_t)col;
    if (p == PACK_E4M3)
        return f32_of_e4m3(codes[at]) * scale[(size_t)((h.skip + k) / FP8_BLOCK) * PANEL];
    int half = codes[(size_t)k * (PANEL / 2) + (size_t)col % 16] >> col / 16 * 4 & 15;
    if (pack_has_levels(p))
        return pack_levels(p)[half] *
               panel_level_scale(p, panel, (size_t)((h.skip + k) / h.block), col);
    size_t group = pack_index(panel, h.groups)[k];
    int q = p == PACK_INT8 ? (int8_t)codes[at] : half;
    return fmaf((float)q, scale[group * PANEL], scale[((size_t)h.groups + group) * PANEL]);
}

/* Those packs. */
static inline bool pack_scaled(enum pack p)
{
    return p == PACK_E4M3 || p == PACK_INT8 || pack_nibbles(p);
}

/* The weight of column col in row `row` of the other packs, as the specification defines it. */
static inline float panel_value(enum pack p, const void *panel, size_t row, int col)
{
    size_t at = panel_at(p, row, col);
    switch (p) {
    case PACK_F16:
        return f32_of_f16(((const uint16_t *)panel)[at]);
    case PACK_BF16:
        return f32_of_bf16(((const uint16_t *)panel)[at]);
    default:
        return ((const float *)panel)[at];
    }
}

#endif
