/* Plans and panels of columns that are sorted by group. */
#include "backends/cpu/sorted.h"

#include <assert.h>
#include <string.h>

/* Of the columns of a slice that a group has: how many, those seen so far, and the places of the first chunk and of the one
 * that is shorter than the others. */
struct sorted_group {
    int32_t n, seen, at, rest_at;
};

/* Chunks of that many quads that a group of n columns makes. */
static int32_t chunks_of(int32_t n, int quads)
{
    int32_t rest = (n % CHUNK + 3) / 4;
    return (quads == CHUNK / 4 ? n / CHUNK : 0) + (rest == quads);
}

/* Lays out the chunks of one slice from place `at` on; returns the place behind them. */
static int32_t place_chunks(struct sorted_group *g, int32_t n_groups, int32_t at,
                            struct sorted_chunk *out, int32_t *n_chunks)
{
    *n_chunks = 0;
    for (int quads = CHUNK / 4; quads > 0; quads--)
        for (int32_t i = 0; i < n_groups; i++) {
            int32_t n = chunks_of(g[i].n, quads), full = quads == CHUNK / 4 ? g[i].n / CHUNK : 0;
            g[i].at = full ? at : g[i].at;
            if (n > full)
                g[i].rest_at = at + full * CHUNK;
            for (int32_t c = 0; c < n; c++, at += 4 * quads)
                out[(*n_chunks)++] = (struct sorted_chunk){(uint16_t)i, (uint16_t)quads};
        }
    return at;
}

void sorted_make_plan(const struct sorted_shape *s, const uint16_t *index, void *plan)
{
    struct sorted_group g[SORTED_GROUPS];
    int32_t *n_chunks = plan, *order = n_chunks + SORTED_HEAD / sizeof(int32_t), places = 0;
    struct sorted_chunk *chunk = (struct sorted_chunk *)(void *)(order + sorted_places(s));
    assert(s->groups <= SORTED_GROUPS);
    for (int i = 0; i < s->n_slices; i++) {
        int32_t k0 = i ? s->slice_end[i - 1] : 0, from = places;
        memset(g, 0, sizeof *g * (size_t)s->groups);
        for (int32_t k = k0; k < s->slice_end[i]; k++)
            g[index[k]].n++;
        places = place_chunks(g, s->groups, places, chunk, &n_chunks[i]);
        chunk += n_chunks[i];
        for (; from < places; from++)
            order[from] = -1;
        for (int32_t k = k0; k < s->slice_end[i]; k++) {
            struct sorted_group *own = &g[index[k]];
            int32_t n = own->seen++, full = own->n / CHUNK * CHUNK;
            order[n < full ? own->at + n : own->rest_at + n - full] = k;
        }
    }
    n_chunks[N_SLICES] = places;
}

void sorted_put_column(const struct sorted_shape *s, const void *plan, int bits, int col,
                       const int8_t *row, char *panel)
{
    const int32_t *order = sorted_order(plan), places = ((const int32_t *)plan)[N_SLICES];
    uint8_t *codes = (uint8_t *)panel + sorted_codes_at(s);
    for (int32_t p = 0; p < places; p++) {
        size_t quad = (size_t)p / 4, e = (size_t)p % 4;
        if (order[p] < 0)
            continue;
        int8_t q = row[order[p]];
        if (bits == 8)
            codes[quad * 4 * PANEL + (size_t)col * 4 + e] = (uint8_t)q;
        else
            codes[quad * 2 * PANEL + (size_t)(col % 16) * 4 + e] |=
                (uint8_t)((q & 15) << col / 16 * 4);
    }
}

void sorted_expand(const struct sorted_shape *s, const void *plan, int bits, const char *panel,
                   int col, float *out)
{
    const int32_t *n_chunks = plan, *order = sorted_order(plan);
    const struct sorted_chunk *chunk = sorted_chunks_of(s, plan);
    size_t quad = 0;
    for (int i = 0; i < s->n_slices; i++)
        for (int32_t c = 0; c < n_chunks[i]; c++, chunk++) {
            size_t at = (size_t)chunk->group * PANEL + (size_t)col;
            float scale = ((const float *)(const void *)panel)[at];
            int zero = ((const int8_t *)panel + sorted_zeros_at(s))[at];
            for (int j = 0; j < chunk->quads; j++, quad++)
                for (int e = 0; e < 4; e++) {
                    int32_t k = order[quad * 4 + (size_t)e];
                    int q = sorted_element(bits, panel + sorted_codes_at(s), quad, e, col);
                    if (k >= 0)
                        out[k] = scale * (float)(q - zero);
                }
        }
}
