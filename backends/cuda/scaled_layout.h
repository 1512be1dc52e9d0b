/* How matrices are stored whose weights have scales in f32 and meet activations in f32: e4m3,
 * integers whose columns name their group, and codes of 4 bits that stand for one of 16 levels.
 * Panels of SCALED_PANEL rows, one row for each lane of a warp; what the lanes load together is one
 * run of bytes:
 *
 *   head   E4M3, LEVELS  scales [n_scales][32] f32
 *          INT8, INT4    scales [n_scales][32] f32, minima likewise, the groups of the columns u16
 *          SMALL         factors [32] f32, divisors [32] f32, scales [n_scales][32] e4m3
 *   codes  8 bits  for each 16 columns [32][16] bytes
 *          4 bits  for each SCALED_CHUNK columns [32][16] bytes: byte i has columns i (low half) and
 *                  i + 16
 *
 * Columns are counted from the share's first one, and go to a whole chunk; rows and columns beyond
 * the last are zero.  A weight, rounded to f32:
 *   E4M3   element * scale, LEVELS level * scale, SMALL level * (scale * factor / divisor), of the
 *          column's block of `block` columns, the first of which began `skip` columns before
 *   INT8, INT4  fmaf(element, scale, minimum) of the column's group */
#ifndef BACKENDS_CUDA_SCALED_LAYOUT_H
#define BACKENDS_CUDA_SCALED_LAYOUT_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"

enum { SCALED_PANEL = 32, SCALED_CHUNK = 32 };

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
    int32_t skip, block; /* of a scale; INT8, INT4: 0 */
    int32_t n_scales;    /* of a row */
    size_t index_at, codes_at, panel_bytes;
};

/* SCALED_NONE: a type of another kind. */
enum scaled_kind scaled_kind_of(enum dtype t);

/* Of a part's rows over `cols` columns; kind SCALED_NONE where its type is of another kind. */
struct scaled_place scaled_place_of(const struct weight_part *p, int32_t cols);

/* Rows [row, row + n) of src, n <= SCALED_PANEL, parts of one place.  out [panel_bytes] is written
 * whole. */
void scaled_store_panel(const struct weight_src *src, const struct scaled_place *at, int32_t row,
                        int32_t n, char *out);

#ifdef __cplusplus
}
#endif

#endif
