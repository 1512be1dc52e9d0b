/* How a weight lies in memory: panels of PANEL output columns (rows of the matrix), k-major.
 *   F32, F16   [K][PANEL] elements
 *   BF16       the same with columns j and j + 16 as neighbours, (0, 16, 1, 17, ...): one shift and
 * one mask widen 32 of them to two vectors in order Q8, Q4     groups of k that share scales:
 * [PANEL] f32 scales, with MIN [PANEL] f32 minima, then for each k [PANEL] int8, or 16 bytes of
 * 4-bit values plus 8 for Q4 and plus 0 for Q4_MIN: column j in the low half of byte j, column j +
 * 16 in the high half.  skip: elements of the first group that are before the first k, where a
 * rank's share begins inside a group. Columns beyond N are zero. */
#ifndef BACKENDS_CPU_PANELS_H
#define BACKENDS_CPU_PANELS_H

#include <math.h>

#include "common/dtype.h"

enum { PANEL = 32 }; /* columns of a panel */

enum pack { PACK_F32, PACK_F16, PACK_BF16, PACK_Q8, PACK_Q8_MIN, PACK_Q4, PACK_Q4_MIN, PACK_N };

struct panel_form {
    enum pack pack;
    int32_t group, skip; /* of quantised ones */
};

static inline int pack_is_quant(enum pack p)
{
    return p >= PACK_Q8;
}

static inline int pack_has_min(enum pack p)
{
    return p == PACK_Q8_MIN || p == PACK_Q4_MIN;
}

/* Bytes of one k. */
static inline size_t pack_row_bytes(enum pack p)
{
    static const unsigned char bytes[PACK_N] = {4 * PANEL, 2 * PANEL, 2 * PANEL, PANEL,
                                                PANEL,     PANEL / 2, PANEL / 2};
    return bytes[p];
}

static inline size_t pack_head_bytes(enum pack p)
{
    return (pack_is_quant(p) ? PANEL * sizeof(float) : 0) << pack_has_min(p);
}

static inline size_t panel_group_bytes(const struct panel_form *f)
{
    return pack_head_bytes(f->pack) + (size_t)f->group * pack_row_bytes(f->pack);
}

static inline size_t panel_bytes(const struct panel_form *f, size_t k)
{
    if (!pack_is_quant(f->pack))
        return k * pack_row_bytes(f->pack);
    size_t group = (size_t)f->group;
    return k ? ((size_t)f->skip + k + group - 1) / group * panel_group_bytes(f) : 0;
}

/* Where column col stands in a row of elements. */
static inline size_t panel_at(enum pack p, int col)
{
    if (p != PACK_BF16)
        return (size_t)col;
    return (size_t)(col < PANEL / 2 ? 2 * col : 2 * (col - PANEL / 2) + 1);
}

static inline float panel_quant_value(const struct panel_form *f, const void *panel, size_t k,
                                      int col)
{
    size_t at = k + (size_t)f->skip, group = (size_t)f->group;
    const char *head = (const char *)panel + at / group * panel_group_bytes(f);
    const float *scale = (const float *)(const void *)head;
    const char *row = head + pack_head_bytes(f->pack) + at % group * pack_row_bytes(f->pack);
    float q;
    if (f->pack == PACK_Q8 || f->pack == PACK_Q8_MIN) {
        q = (float)((const int8_t *)row)[col];
    } else {
        int byte = ((const uint8_t *)row)[col % 16];
        q = (float)((col < 16 ? byte & 15 : byte >> 4) - (f->pack == PACK_Q4 ? 8 : 0));
    }
    return pack_has_min(f->pack) ? fmaf(q, scale[col], scale[PANEL + col]) : q * scale[col];
}

/* The weight of column col at k: the specification's value. */
static inline float panel_value(const struct panel_form *f, const void *panel, size_t k, int col)
{
    size_t at = k * PANEL + panel_at(f->pack, col);
    switch (f->pack) {
    case PACK_F32:
        return ((const float *)panel)[at];
    case PACK_F16:
        return f32_of_f16(((const uint16_t *)panel)[at]);
    case PACK_BF16:
        return f32_of_bf16(((const uint16_t *)panel)[at]);
    default:
        return panel_quant_value(f, panel, k, col);
    }
}

#endif
