/* The order of columns of matrices whose columns are in groups in any order (GPTQ's desc_act, compressed-tensors' actorder),
 * sorted so that they meet activations in 8 bits.  Within each slice of K the columns of a group, ascending, are cut into chunks
 * of SORTED_CHUNK, the last of them shorter; a chunk is padded to a multiple of 4 columns by its first
 * column again, whose weights there are 0 (the element is the zero point).  Chunks are in the order of
 * their lengths, the longest first, those of one length by group, then by column: a kernel's loop over one then ends as
 * it did for the chunk before.  Slices never share one, so the bits do not depend on the number of ranks.
 *
 * Each chunk of a row of x is converted to 8 bits as a group of quantised weights' x is, and
 *   acc = fmaf((float)(sum of (element - zero) a), scale * d, acc)
 * for the chunks of a slice in that order, from acc = +0; the sum in integers, exact.  The tree of slices and the bias follow
 * as for other weights.
 *
 * The plan says this of the columns, once for all rows:
 *   n_chunks [N_SLICES] int32, n_places int32, zeros to 64 bytes
 *   order    [sorted_places + SORTED_CHUNK] int32: the column of each place of a row
 *   chunks   [sorted_chunks] struct sorted_chunk
 * Sizes are bounds that do not depend on the index: what is behind the used part is zero and never read. */
#ifndef BACKENDS_SORTED_PLAN_H
#define BACKENDS_SORTED_PLAN_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/weight_src.h"

enum { SORTED_CHUNK = 32, SORTED_HEAD = 64 };

/* The columns of a matrix on this rank. */
struct sorted_shape {
    int32_t groups;
    int n_slices;
    const int32_t *slice_end; /* [n_slices] */
};

struct sorted_chunk {
    uint16_t group;
    uint8_t quads, pads; /* of 4 places: 1 to 8; places of the last quad that are padding */
};

static inline size_t sorted_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Most places of a row. */
static inline size_t sorted_places(const struct sorted_shape *s)
{
    size_t n = 0;
    for (int i = 0; i < s->n_slices; i++) {
        size_t cols = (size_t)(s->slice_end[i] - (i ? s->slice_end[i - 1] : 0));
        n += cols + 3 * (cols < (size_t)s->groups ? cols : (size_t)s->groups);
    }
    return (n + 15) / 16 * 16;
}

static inline size_t sorted_chunks(const struct sorted_shape *s)
{
    size_t n = 0;
    for (int i = 0; i < s->n_slices; i++) {
        size_t cols = (size_t)(s->slice_end[i] - (i ? s->slice_end[i - 1] : 0));
        n += cols / SORTED_CHUNK + (cols < (size_t)s->groups ? cols : (size_t)s->groups);
    }
    return n;
}

static inline size_t sorted_plan_bytes(const struct sorted_shape *s)
{
    return sorted_up(SORTED_HEAD + (sorted_places(s) + SORTED_CHUNK) * sizeof(int32_t) +
                     sorted_chunks(s) * sizeof(struct sorted_chunk));
}

static inline const int32_t *sorted_order(const void *plan)
{
    return (const int32_t *)plan + SORTED_HEAD / sizeof(int32_t);
}

static inline const struct sorted_chunk *sorted_chunks_of(const struct sorted_shape *s,
                                                          const void *plan)
{
    return (const struct sorted_chunk *)(const void *)(sorted_order(plan) + sorted_places(s) +
                                                       SORTED_CHUNK);
}

static inline int sorted_bits(enum dtype t)
{
    return t == DT_INT4_SORTED ? 4 : 8;
}

/* index [k]: groups below s->groups <= SORTED_GROUPS.  plan: sorted_plan_bytes of zeros. */
void sorted_make_plan(const struct sorted_shape *s, const uint16_t *index, void *plan);

#ifdef __cplusplus
}
#endif

#endif
