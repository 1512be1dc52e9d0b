/* How matrices are stored whose weights have scales in f32: e4m3, integers whose columns name their
 * group, and codes of 4 bits that stand for one of 16 levels.
 * Panels of SCALED_PANEL rows; what the lanes of a warp load together is one run of bytes:
 *
 *   head   E4M3, LEVELS  scales [n_scales][32] f32
 *          INT8, INT4    scales [n_scales][32] f32, minima likewise, the groups of the columns u16
 *          SMALL         factors [32] f32, divisors [32] f32, scales [n_scales][32] e4m3
 *          SMALL, mma    factors, divisors and factor / divisor, [32] f32 each; for each step of a
 *                        row the e4m3 scales of its blocks [32][SCALED_STEP / 8]
 *          LEVELS, mma   for each step of a row the scales of its halves [32][2] f32
 *   codes  8 bits  for each 16 columns [32][16] bytes
 *          4 bits  for each SCALED_CHUNK columns [32][16] bytes: byte i has columns i (low half) and
 *                  i + 16
 *          LEVELS, mma  for each step four runs [32][16] bytes, run t of the columns 16 t .. 16 t + 15 of both
 *                  halves: byte 4 q + 2 h + e has columns 4 q + 2 e (low half) and 4 q + 2 e + 1 of half h
 *
 * Rows and columns beyond the last are zero.  A weight, rounded to f32:
 *   E4M3   element * scale, LEVELS level * scale, SMALL level * (scale * factor / divisor), of the
 *          column's block of `block` columns, the first of which began `skip` columns before
 *   INT8, INT4  fmaf(element, scale, minimum) of the column's group
 *
 * mma false (the products of scaled_linear.cu): columns are counted from the share's first one, and go
 * to a whole chunk.
 * mma true (E4M3, SMALL and LEVELS, the products of scaled_rows.cu and scaled_tiles.cu): as scaled_k_layout
 * has them.  A slice begins at a whole step, at the place within its first block that its first
 * column has (LEVELS: modulo SCALED_HALF, of which blocks are multiples), so a block begins at a multiple of its
 * size, and what is stored of a slice is the same on whatever rank it is.  NaN is none of the elements: an E4M3 block that has one has a scale of NaN, a SMALL
 * row with a scale of NaN has a factor / divisor of NaN. */
#ifndef BACKENDS_CUDA_SCALED_LAYOUT_H
#define BACKENDS_CUDA_SCALED_LAYOUT_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"
#include "backends/cuda/k_layout.h"

enum {
    SCALED_PANEL = 32,
    SCALED_CHUNK = 32,
    SCALED_STEP = 64,                 /* mma: bytes of a row's codes that kernels load at a time, */
    SCALED_SEGMENT = 2 * SCALED_STEP, /* and of a partial sum */
    SCALED_SMALL_BLOCK = 16,          /* columns of a scale of SMALL with mma, */
    SCALED_HALF = SCALED_STEP,        /* and of LEVELS: half of a step's */
};

enum scaled_kind {
    SCALED_NONE,
    SCALED_E4M3,
    SCALED_INT8,
    SCALED_INT4,
    SCALED_LEVELS,
    SCALED_SMALL
};

struct scaled_place {
    enum scaled_kind kind;
    bool mma;
    int32_t skip, block; /* of a scale (LEVELS with mma: of a half); INT8, INT4: 0 */
    int32_t n_scales;    /* of a row */
    size_t index_at, codes_at, panel_bytes;
};

/* SCALED_NONE: a type of another kind. */
enum scaled_kind scaled_kind_of(enum dtype t);

/* Is it multiplied in f16?  Elements times what they share in few columns are exact there but for a power of
 * two; levels are rounded. */
static inline bool scaled_has_mma(const struct weight_part *p)
{
    if (p->dtype == DT_NF4 || p->dtype == DT_FP4)
        return p->block % SCALED_HALF == 0;
    return p->dtype == DT_E4M3 || (p->dtype == DT_NVFP4 && p->block == SCALED_SMALL_BLOCK);
}

/* Columns of n bytes of codes. */
static inline int32_t scaled_columns(enum scaled_kind k, int32_t n)
{
    return k == SCALED_E4M3 || k == SCALED_INT8 ? n : 2 * n;
}

/* mma: where the slices of a row are, in elements; segments are counted from a slice's first element.
 * src: see k_layout_of. */
struct k_layout scaled_k_layout(const struct weight_src *src);

/* Of src's first part over src's columns; kind SCALED_NONE where its type is of another kind.  mma: the
 * type has that. */
struct scaled_place scaled_place_of(const struct weight_src *src, bool mma);

/* Rows [row, row + n) of src, n <= SCALED_PANEL, parts of one place.  k: with mma the layout.
 * out [panel_bytes] is written whole. */
void scaled_store_panel(const struct weight_src *src, const struct scaled_place *at,
                        const struct k_layout *k, int32_t row, int32_t n, char *out);

#ifdef __cplusplus
}
#endif

#endif
