/* How a matrix of floats is stored: panels of PANEL output columns (rows of the matrix), k-major.
 *   F32, F16   [K][PANEL] elements
 *   BF16       the same with columns j and j + 16 as neighbours, (0, 16, 1, 17, ...): one shift and
 *              one mask widen 32 of them to two vectors in order
 * Columns beyond N are zero.  Quantised ones: quant_panels.h. */
#ifndef BACKENDS_CPU_PANELS_H
#define BACKENDS_CPU_PANELS_H

#include <math.h>

#include "common/dtype.h"

enum { PANEL = 32 }; /* columns of a panel */

enum pack { PACK_F32, PACK_F16, PACK_BF16, PACK_N };

static inline enum pack pack_of(enum dtype t)
{
    return t == DT_F16 ? PACK_F16 : t == DT_BF16 ? PACK_BF16 : PACK_F32;
}

/* Bytes of one k. */
static inline size_t pack_row_bytes(enum pack p)
{
    return PANEL * (p == PACK_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Index of column col among the PANEL elements of one k. */
static inline size_t panel_at(enum pack p, int col)
{
    if (p != PACK_BF16)
        return (size_t)col;
    return (size_t)(col < PANEL / 2 ? 2 * col : 2 * (col - PANEL / 2) + 1);
}

/* The weight of column col at k, as the specification defines it. */
static inline float panel_value(enum pack p, const void *panel, size_t k, int col)
{
    size_t at = k * PANEL + panel_at(p, col);
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
