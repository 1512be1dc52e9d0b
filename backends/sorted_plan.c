/* Plans of sorted columns. */
#include "backends/sorted_plan.h"

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
    int32_t rest = (n % SORTED_CHUNK + 3) / 4;
    return (quads == SORTED_CHUNK / 4 ? n / SORTED_CHUNK : 0) + (rest == quads);
}

/* Lays out the chunks of one slice from place `at` on; returns the place behind them. */
static int32_t place_chunks(struct sorted_group *g, int32_t n_groups, int32_t at,
                            struct sorted_chunk *out, int32_t *n_chunks)
{
    *n_chunks = 0;
    for (int quads = SORTED_CHUNK / 4; quads > 0; quads--)
        for (int32_t i = 0; i < n_groups; i++) {
            int32_t n = chunks_of(g[i].n, quads),
                    full = quads == SORTED_CHUNK / 4 ? g[i].n / SORTED_CHUNK : 0;
            g[i].at = full ? at : g[i].at;
            if (n > full)
                g[i].rest_at = at + full * SORTED_CHUNK;
            for (int32_t c = 0; c < n; c++, at += 4 * quads)
                out[(*n_chunks)++] = (struct sorted_chunk){
                    (uint16_t)i, (uint8_t)quads,
                    (uint8_t)(c < full ? 0 : (SORTED_CHUNK - g[i].n % SORTED_CHUNK) % 4)};
        }
    return at;
}

/* Where column number n of a group is. */
static int32_t place_of(const struct sorted_group *g, int32_t n)
{
    int32_t full = g->n / SORTED_CHUNK * SORTED_CHUNK;
    return n < full ? g->at + n : g->rest_at + n - full;
}

void sorted_make_plan(const struct sorted_shape *s, const uint16_t *index, void *plan)
{
    struct sorted_group g[SORTED_GROUPS];
    int32_t *n_chunks = plan, *order = n_chunks + SORTED_HEAD / sizeof(int32_t), places = 0;
    struct sorted_chunk *chunk =
        (struct sorted_chunk *)(void *)(order + sorted_places(s) + SORTED_CHUNK);
    assert(s->groups <= SORTED_GROUPS);
    for (int i = 0; i < s->n_slices; i++) {
        int32_t k0 = i ? s->slice_end[i - 1] : 0;
        memset(g, 0, sizeof *g * (size_t)s->groups);
        for (int32_t k = k0; k < s->slice_end[i]; k++)
            g[index[k]].n++;
        places = place_chunks(g, s->groups, places, chunk, &n_chunks[i]);
        chunk += n_chunks[i];
        for (int32_t k = k0; k < s->slice_end[i]; k++) {
            struct sorted_group *own = &g[index[k]];
            order[place_of(own, own->seen++)] = k;
        }
        for (int32_t j = 0; j < s->groups; j++)
            for (int32_t n = g[j].n; n % 4; n++) /* behind the shorter chunk's columns */
                order[g[j].rest_at + n % SORTED_CHUNK] = order[g[j].rest_at];
    }
    n_chunks[N_SLICES] = places;
}
