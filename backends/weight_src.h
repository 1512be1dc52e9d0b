/* A matrix or vector as a backend loads it: where its elements are in host memory, how they are stored and in which slices
 * its products are summed.  Part of backend.h. */
#ifndef BACKENDS_WEIGHT_SRC_H
#define BACKENDS_WEIGHT_SRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/limits.h"
#include "common/dtype.h"

enum { SORTED_GROUPS = 4096 /* most groups of a row of INT4_SORTED and INT8_SORTED */ };

/* How the rows of a matrix's input are rounded before the product: a group of neighbouring columns has a scale, and each
 * of its values becomes scale times the nearest number of the grid to value / scale, ties to even.  The scale is the
 * group's peak, its greatest magnitude, divided by 127.5 (INT8, -128 to 127) or by 448 (E4M3); a group of zeros stays
 * so.  All in f32, each operation rounded. */
struct input_rule {
    enum input_grid grid; /* limits.h */
    float scale;          /* > 0: of every value, in place of the peak's */
    int32_t group; /* columns that share a scale, counted from the first of all ranks; 0: all */
    int32_t first, all; /* this rank's first column, and those of all ranks */
    bool shared; /* a group has columns of several ranks, and the peaks come from all of them */
};

static inline int32_t input_groups(const struct input_rule *r)
{
    return r->group > 0 ? (r->all + r->group - 1) / r->group : 1;
}

/* Rows of one stored tensor.  Several parts, stacked by rows, make one fused weight (q|k|v,
 * gate|up). */
struct weight_part {
    const void *data; /* host memory, unaligned: the share's first element, or its block */
    size_t row_bytes; /* from one row to the next in the file */
    enum dtype
        dtype; /* F32, F16, BF16; E4M3, a type in blocks, an indexed one or one with levels (not for
                         a vector or a bias) */
    int32_t skip;     /* elements of the first block before the share; plain types: 0 */
    int32_t rows;     /* of this rank */
    const void *bias; /* [rows] in bias_dtype, or NULL */
    enum dtype bias_dtype;
    /* E4M3: [rows, scale_stride > 0], finite, of which the first fp8_blocks(skip, cols) of a row are
     * used: a weight is element * scale, rounded to f32.  data is the share's first element. */
    const float *scale;
    size_t scale_stride;
    /* INT4_INDEX, INT8_INDEX: data is a byte for each element, int8 (0 to 15; -128 to 127); index [cols]
     * is below scale_stride > 0, the number of groups; scale and min are [rows, scale_stride]: a
     * weight is fmaf(element, scale, min) of its column's group. */
    const float *min;
    const uint16_t *index;
    /* INT4_SORTED, INT8_SORTED, see FEATURE_SORTED: the same, but scale_stride is at most SORTED_GROUPS, and zero
     * [rows, scale_stride] is in place of min: a weight is scale (element - zero). */
    const int8_t *zero;
    /* NF4, FP4, NVFP4: data is a byte for each element, 0 to 15; `block` columns share a scale, of
     * which the first scale_blocks(block, skip, cols) of a row are used.  A weight is its level
     * (dtype_levels) times the scale, rounded to f32.  NF4, FP4: `scale`, as of E4M3.  NVFP4: small_scale
     * [rows, scale_stride] e4m3, and the scale is (small_scale * factor) / divisor, each rounded to
     * f32; factor is 1 or divisor is. */
    int32_t block;
    const uint8_t *small_scale;
    float factor, divisor;
    struct input_rule input; /* for the caller of linear, not for load_weight */
};

/* A matrix [rows, cols] = [N, K], already cut to this rank's share, or a vector (vector = true, one
 * part with rows 1).
 *
 * n_slices and slice_end describe a row-parallel matrix, whose K is divided among the ranks.  The
 * model's whole K is cut at fixed borders into N_SLICES slices.  A rank of a power-of-two world has
 * N_SLICES / world neighbouring slices.  slice_end[i] is the end of slice i in local columns;
 * slices may be empty.  The product over one slice is summed in fp32 in the backend's order.  Then
 * neighbouring slices are added pairwise, level by level, and the all-reduce continues the same
 * tree.  n_slices is a power of two; it is 1 for a matrix that is not divided. */
struct weight_src {
    const char *name; /* for errors */
    bool vector;
    int32_t cols; /* K */
    int32_t n_parts;
    struct weight_part part[3];
    int32_t n_slices;
    int32_t slice_end[N_SLICES];
    float add; /* of a vector: added to each element, in f32 */
};

/* Of all parts. */
static inline int64_t weight_src_rows(const struct weight_src *src)
{
    int64_t n = 0;
    for (int i = 0; i < src->n_parts; i++)
        n += src->part[i].rows;
    return n;
}

static inline bool weight_src_has_bias(const struct weight_src *src)
{
    for (int i = 0; i < src->n_parts; i++)
        if (src->part[i].bias)
            return true;
    return false;
}

#endif
