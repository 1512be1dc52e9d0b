/* How a matrix of sorted columns (backends/sorted_plan.h) is stored in device memory: a head, then panels of QUANT_PANEL
 * rows, one row for each lane of a warp; what the lanes of a warp load together is one run of bytes.
 *
 *   head   first [N_SLICES + 1] i32: the first chunk of each slice; zeros to SORTED_HEAD bytes
 *          order [places] i32: the column of each place
 *          quad [chunks] i32: the first quad of each chunk
 *          chunks [chunks + SORTED_CHUNK] struct sorted_chunk
 *   panel  scales [groups][32] f32, zero points [groups][32] int8, zeros to 64 bytes
 *          the elements of chunk after chunk.  A chunk of 8 quads is a piece; of fewer, pieces of 4, 2 and 1 quads, as the bits
 *          of their number say, one behind the other:
 *          4 bits  a piece of 8, 4 or 2 quads [32][quads / 2][4] bytes: the elements of two quads, the first one's in the
 *                  low halves; of one quad [32][2] bytes: elements 0 and 1 in the low halves, 2 and 3 in the high ones
 *          8 bits  a piece of 8 [2][32][16] int8: four quads each; of fewer [32][quads][4]
 *
 * A chunk has 8 slots in registers and in a record of x (quant_kernels.h): quads 0 to 7 of 8; else slots 0 to 3 are the
 * piece of 4, slots 4 and 5 that of 2, slot 6 that of 1, the others zeros.
 * Sizes are bounds that do not depend on the index; places of padding and rows beyond the last are zero. */
#ifndef BACKENDS_CUDA_SORTED_LAYOUT_H
#define BACKENDS_CUDA_SORTED_LAYOUT_H

#include "backends/sorted_plan.h"
#include "common/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sorted_place {
    int32_t bits;                   /* of an element: 4 or 8; 0: another type */
    int32_t groups;                 /* of a row */
    int32_t n_chunks;               /* most chunks */
    uint32_t quad_at, chunk_at;     /* in the head */
    uint32_t zeros_at, codes_at;    /* in a panel */
    size_t head_bytes, panel_bytes; /* 0: no columns */
};

/* The quad of a chunk of so many that is in a slot, -1: none. */
NUMBER_FN int sorted_quad_of(int quads, int slot)
{
    if (quads == 8)
        return slot;
    if (slot < 4)
        return quads & 4 ? slot : -1;
    if (slot < 6)
        return quads & 2 ? (quads & 4) + slot - 4 : -1;
    return slot == 6 && (quads & 1) ? quads & 6 : -1;
}

/* Of src's first part over src's columns. */
struct sorted_place sorted_place_of(const struct weight_src *src);

/* The columns of src's first part. */
struct sorted_shape sorted_shape_of_src(const struct weight_src *src);

/* out [head_bytes] is written whole. */
void sorted_store_head(const struct sorted_place *at, const struct sorted_shape *s,
                       const void *plan, char *out);

/* Rows [row, row + n) of src, n <= QUANT_PANEL, whose parts have one index.  out [panel_bytes] is written whole. */
void sorted_store_panel(const struct weight_src *src, const struct sorted_place *at,
                        const void *plan, int32_t row, int32_t n, char *out);

#ifdef __cplusplus
}
#endif

#endif
