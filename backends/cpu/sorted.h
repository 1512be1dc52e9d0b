/* Matrices of integers whose columns are in groups in any order (GPTQ's desc_act, compressed-tensors' actorder), sorted so
 * that they meet activations in 8 bits.  Within each slice of K the columns of a group, ascending, are cut into chunks of
 * CHUNK, the last of them shorter; a chunk is padded to a multiple of 4 columns by its first
 * column again, whose weights there are 0 (the element is the zero point).  Chunks are in the order of
 * their lengths, the longest first, those of one length by group, then by column: a kernel's loop over one then ends as
 * it did for the chunk before.  Slices never share one, so the bits do not depend on the number of ranks.
 *
 * Each chunk of a row of x is converted to 8 bits as a group of struct quant_x is, and
 *   acc = fmaf((float)(sum of (element - zero) a), scale * d, acc)
 * for the chunks of a slice in that order, from acc = +0; the sum in integers, exact.  The tree of slices and the bias follow
 * as for other weights.
 *
 * The plan says this of the columns, once for all rows.  It is before the panels of its rows in a weight's data:
 *   n_chunks [N_SLICES] int32, n_places int32, zeros to 64 bytes
 *   order    [sorted_places + CHUNK] int32: the column of each place of a row
 *   chunks   [sorted_chunks] struct sorted_chunk
 * A panel of PANEL rows:
 *   scales [groups][PANEL] f32, zeros [groups][PANEL] int8
 *   the elements of chunk after chunk, 4 places of a column side by side: 4 bits [quads][16][4], columns c and c + 16 in
 *   the low and the high half of a byte; 8 bits [quads][PANEL][4] int8
 * Sizes are bounds that do not depend on the index: what is behind the used part is zero and never read. */
#ifndef BACKENDS_CPU_SORTED_H
#define BACKENDS_CPU_SORTED_H

#include "backends/cpu/kernels.h"

enum { CHUNK = 32, SORTED_HEAD = 64 };

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
        n += cols / CHUNK + (cols < (size_t)s->groups ? cols : (size_t)s->groups);
    }
    return n;
}

static inline size_t sorted_plan_bytes(const struct sorted_shape *s)
{
    return sorted_up(SORTED_HEAD + (sorted_places(s) + CHUNK) * sizeof(int32_t) +
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
                                                       CHUNK);
}

/* Of a panel: the zero points, the elements, all of it. */
static inline size_t sorted_zeros_at(const struct sorted_shape *s)
{
    return (size_t)s->groups * PANEL * sizeof(float);
}

static inline size_t sorted_codes_at(const struct sorted_shape *s)
{
    return sorted_up(sorted_zeros_at(s) + (size_t)s->groups * PANEL);
}

static inline size_t sorted_panel_bytes(const struct sorted_shape *s, int bits)
{
    size_t places = sorted_places(s);
    return places ? sorted_up(sorted_codes_at(s) + places * PANEL / 8 * (size_t)bits) : 0;
}

/* A row of x: the places and room behind the last chunk, then a struct sorted_x for each chunk. */
static inline size_t sorted_infos_at(const struct sorted_shape *s)
{
    return sorted_places(s) + CHUNK;
}

static inline size_t sorted_x_bytes(const struct sorted_shape *s)
{
    return (sorted_infos_at(s) + sorted_chunks(s) * sizeof(struct sorted_x) + 15) / 16 * 16;
}

static inline int sorted_bits(enum dtype t)
{
    return t == DT_INT4_SORTED ? 4 : 8;
}

/* index [k]: groups below s->groups <= SORTED_GROUPS.  plan: sorted_plan_bytes of zeros. */
void sorted_make_plan(const struct sorted_shape *s, const uint16_t *index, void *plan);

/* Elements of column col of a panel, whose bytes are zero but for the zero points, from row [k]. */
void sorted_put_column(const struct sorted_shape *s, const void *plan, int bits, int col,
                       const int8_t *row, char *panel);

/* out [k] = the values of column col. */
void sorted_expand(const struct sorted_shape *s, const void *plan, int bits, const char *panel,
                   int col, float *out);

/* Element of column col in quad j of codes. */
static inline int sorted_element(int bits, const char *codes, size_t quad, int e, int col)
{
    if (bits == 8)
        return ((const int8_t *)codes)[quad * 4 * PANEL + (size_t)col * 4 + (size_t)e];
    return ((const uint8_t *)codes)[quad * 2 * PANEL + (size_t)(col % 16) * 4 + (size_t)e] >>
               col / 16 * 4 &
           15;
}

#endif
