/* Rows of sorted columns to the panels of device memory. */
#include "backends/cuda/sorted_layout.h"

#include <assert.h>
#include <string.h>

#include "backends/cuda/quant_layout.h"

enum { SLOTS = SORTED_CHUNK / 4 };

struct sorted_shape sorted_shape_of_src(const struct weight_src *src)
{
    return (struct sorted_shape){(int32_t)src->part[0].scale_stride, src->n_slices, src->slice_end};
}

struct sorted_place sorted_place_of(const struct weight_src *src)
{
    struct sorted_shape s = sorted_shape_of_src(src);
    struct sorted_place at = {0};
    if (src->vector || !is_sorted(src->part[0].dtype))
        return at;
    size_t places = sorted_places(&s), chunks = sorted_chunks(&s), groups = (size_t)s.groups;
    at.bits = sorted_bits(src->part[0].dtype);
    at.groups = s.groups;
    at.n_chunks = (int32_t)chunks;
    at.quad_at = (uint32_t)(SORTED_HEAD + places * sizeof(int32_t));
    at.chunk_at = (uint32_t)(at.quad_at + chunks * sizeof(int32_t));
    at.zeros_at = (uint32_t)(groups * QUANT_PANEL * sizeof(float));
    at.codes_at = (uint32_t)sorted_up(at.zeros_at + groups * QUANT_PANEL);
    if (src->cols == 0)
        return at;
    at.head_bytes = sorted_up(at.chunk_at + (chunks + SORTED_CHUNK) * sizeof(struct sorted_chunk));
    at.panel_bytes = sorted_up(at.codes_at + places * QUANT_PANEL / 8 * (size_t)at.bits);
    return at;
}

/* Chunks of all slices. */
static int32_t n_chunks_of(const void *plan)
{
    int32_t n = 0;
    for (int i = 0; i < N_SLICES; i++)
        n += ((const int32_t *)plan)[i];
    return n;
}

void sorted_store_head(const struct sorted_place *at, const struct sorted_shape *s,
                       const void *plan, char *out)
{
    const struct sorted_chunk *chunk = sorted_chunks_of(s, plan);
    int32_t n = n_chunks_of(plan), *first = (int32_t *)(void *)out,
            *quad = (int32_t *)(void *)(out + at->quad_at);
    memset(out, 0, at->head_bytes);
    for (int i = 0; i < N_SLICES; i++)
        first[i + 1] = first[i] + ((const int32_t *)plan)[i];
    memcpy(out + SORTED_HEAD, sorted_order(plan), sorted_places(s) * sizeof(int32_t));
    memcpy(out + at->chunk_at, chunk, (size_t)n * sizeof *chunk);
    for (int32_t c = 0, q = 0; c < n; q += chunk[c++].quads)
        quad[c] = q;
}

/* Where the elements of a slot of a chunk are, of a lane: 4 bits, the low halves of 4 bytes or the high ones. */
static char *slot_at(int bits, int quads, int slot, int lane, char *chunk)
{
    int quad = QUANT_PANEL * bits / 2; /* bytes */
    if (quads == 8 && bits == 8)
        return chunk + (slot / 4 * QUANT_PANEL + lane) * 16 + slot % 4 * 4;
    if (quads == 8)
        return chunk + lane * 16 + slot / 2 * 4;
    if (slot < 4)
        return chunk + lane * 2 * bits + (bits == 8 ? slot : slot / 2) * 4;
    if (slot < 6)
        return chunk + (quads & 4) * quad + lane * bits + (bits == 8 ? slot - 4 : 0) * 4;
    return chunk + (quads & 6) * quad + lane * bits / 2;
}

/* The elements of a quad, of which the row has n. */
static void store_quad(int bits, int quads, int slot, int lane, const uint8_t *row,
                       const int32_t *order, int n, char *chunk)
{
    char *to = slot_at(bits, quads, slot, lane, chunk);
    bool alone = bits == 4 && quads < 8 && slot == 6; /* in two bytes */
    for (int e = 0; e < n; e++) {
        uint8_t q = row[order[e]];
        if (bits == 8)
            to[e] = (char)q;
        else if (alone)
            to[e % 2] = (char)(to[e % 2] | (q & 15) << e / 2 * 4);
        else
            to[e] = (char)(to[e] | (q & 15) << slot % 2 * 4);
    }
}

static void store_row(const struct weight_part *p, const struct sorted_place *at,
                      const struct sorted_shape *s, const void *plan, int32_t r, int lane,
                      char *panel)
{
    const struct sorted_chunk *c = sorted_chunks_of(s, plan), *end = c + n_chunks_of(plan);
    const uint8_t *row = (const uint8_t *)p->data + (size_t)r * p->row_bytes;
    const int32_t *order = sorted_order(plan);
    char *chunk = panel + at->codes_at;
    size_t from = (size_t)r * p->scale_stride;
    for (int32_t g = 0; g < at->groups; g++) {
        ((float *)(void *)panel)[(size_t)g * QUANT_PANEL + (size_t)lane] =
            p->scale[from + (size_t)g];
        panel[at->zeros_at + (size_t)g * QUANT_PANEL + (size_t)lane] = p->zero[from + (size_t)g];
    }
    for (; c < end; c++) {
        int n = 4 * c->quads - c->pads;
        for (int slot = 0; slot < SLOTS; slot++) {
            int q = sorted_quad_of(c->quads, slot), left = n - 4 * q;
            if (q >= 0)
                store_quad(at->bits, c->quads, slot, lane, row, order + 4 * q, left < 4 ? left : 4,
                           chunk);
        }
        chunk += c->quads * QUANT_PANEL * at->bits / 2;
        order += 4 * c->quads;
    }
}

void sorted_store_panel(const struct weight_src *src, const struct sorted_place *at,
                        const void *plan, int32_t row, int32_t n, char *out)
{
    const struct sorted_shape s = sorted_shape_of_src(src);
    const struct weight_part *p = src->part;
    assert(n <= QUANT_PANEL);
    memset(out, 0, at->panel_bytes);
    for (int32_t i = 0; i < n; i++, row++) {
        for (; row >= p->rows; p++)
            row -= p->rows;
        store_row(p, at, &s, plan, row, i, out);
    }
}
