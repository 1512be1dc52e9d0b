/* Panels of sorted columns (backends/sorted_plan.h).  The plan is before the panels of its rows in a weight's data.
 * A panel of PANEL rows:
 *   scales [groups][PANEL] f32, zeros [groups][PANEL] int8
 *   the elements of chunk after chunk, 4 places of a column side by side: 4 bits [quads][16][4], columns c and c + 16 in
 *   the low and the high half of a byte; 8 bits [quads][PANEL][4] int8 */
#ifndef BACKENDS_CPU_SORTED_H
#define BACKENDS_CPU_SORTED_H

#include "backends/cpu/kernels.h"

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
    return sorted_places(s) + SORTED_CHUNK;
}

static inline size_t sorted_x_bytes(const struct sorted_shape *s)
{
    return (sorted_infos_at(s) + sorted_chunks(s) * sizeof(struct sorted_x) + 15) / 16 * 16;
}

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
