/* Panels of columns that are sorted by group. */
#include "backends/cpu/sorted.h"

static void put(uint8_t *codes, int bits, size_t quad, size_t e, int col, int q)
{
    if (bits == 8)
        codes[quad * 4 * PANEL + (size_t)col * 4 + e] = (uint8_t)q;
    else
        codes[quad * 2 * PANEL + (size_t)(col % 16) * 4 + e] |= (uint8_t)((q & 15) << col / 16 * 4);
}

static const struct sorted_chunk *all_chunks(const struct sorted_shape *s, const void *plan,
                                             int32_t *n)
{
    *n = 0;
    for (int i = 0; i < s->n_slices; i++)
        *n += ((const int32_t *)plan)[i];
    return sorted_chunks_of(s, plan);
}

void sorted_put_column(const struct sorted_shape *s, const void *plan, int bits, int col,
                       const int8_t *row, char *panel)
{
    int32_t n;
    const struct sorted_chunk *chunk = all_chunks(s, plan, &n), *end = chunk + n;
    const int32_t *order = sorted_order(plan);
    const int8_t *zeros = (const int8_t *)panel + sorted_zeros_at(s) + col;
    uint8_t *codes = (uint8_t *)panel + sorted_codes_at(s);
    for (size_t quad = 0; chunk < end; chunk++) {
        for (int e = 0; e < 4 * chunk->quads; e++) {
            bool pad = e >= 4 * chunk->quads - chunk->pads;
            put(codes, bits, quad + (size_t)e / 4, (size_t)e % 4, col,
                pad ? zeros[(size_t)chunk->group * PANEL] : row[order[e]]);
        }
        quad += chunk->quads;
        order += 4 * chunk->quads;
    }
}

void sorted_expand(const struct sorted_shape *s, const void *plan, int bits, const char *panel,
                   int col, float *out)
{
    int32_t n;
    const struct sorted_chunk *chunk = all_chunks(s, plan, &n), *end = chunk + n;
    const int32_t *order = sorted_order(plan);
    const char *codes = panel + sorted_codes_at(s);
    for (; chunk < end; chunk++) {
        size_t at = (size_t)chunk->group * PANEL + (size_t)col;
        float scale = ((const float *)(const void *)panel)[at];
        int zero = ((const int8_t *)panel + sorted_zeros_at(s))[at];
        for (int e = 0; e < 4 * chunk->quads - chunk->pads; e++)
            out[order[e]] =
                scale * (float)(sorted_element(bits, codes, (size_t)e / 4, e % 4, col) - zero);
        codes += (size_t)chunk->quads * PANEL / 2 * (size_t)bits;
        order += 4 * chunk->quads;
    }
}
