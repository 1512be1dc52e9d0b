/* What the product kernels of moe_*.cu share: which tile a block has, and what it writes. */
#ifndef BACKENDS_CUDA_MOE_TILE_H
#define BACKENDS_CUDA_MOE_TILE_H

#include "backends/cuda/linear_mma.h"
#include "backends/cuda/moe_kernels.h"
#include "backends/gpu/activated.h"

/* Rows row0 .. row0 + n_rows - 1, which are one expert's, and the i-th group of its columns. */
struct expert_tile {
    int32_t expert, row0, n_rows, i;
};

DEVICE int n_items(const struct moe_groups &g, int n_col_groups)
{
    return g.first_tile[g.n_experts] * n_col_groups;
}

/* Tiles of one expert that read the same rows of w follow each other: w comes from memory once. */
DEVICE struct expert_tile expert_tile_at(const struct moe_groups &g, int n_col_groups, int item)
{
    const int32_t e = g.expert[item / n_col_groups], first = g.first_tile[e];
    const int32_t n_tiles = g.first_tile[e + 1] - first, at = item - first * n_col_groups;
    const int32_t row0 = g.start[e] + at % n_tiles * g.tile_rows, left = g.start[e + 1] - row0;
    return {e, row0, left < g.tile_rows ? left : g.tile_rows, at / n_tiles};
}

/* A tile as a linear_job to linear_rows.h, linear_tiles.h and linear_f32.h. */
struct tile_job {
    const struct k_layout &k;
    const unsigned char *w;
    int32_t n, n_tokens;
    const uint16_t *packed;
    const float *unscale, *x;
    const int32_t *rows;
    size_t x_stride;
};

DEVICE struct tile_job tile_job_of(const struct moe_product &p, const struct expert_tile &tile)
{
    const struct linear_job &j = p.job;
    const size_t row0 = (size_t)tile.row0;
    return {j.k,
            (const unsigned char *)j.w + (size_t)tile.expert * p.expert_bytes,
            j.n,
            tile.n_rows,
            j.packed + row0 * (size_t)j.k.at[j.k.n_slices],
            j.unscale + row0 * (size_t)j.k.seg[j.k.n_slices],
            j.rows ? j.x : j.x + row0 * j.x_stride,
            j.rows ? j.rows + row0 : nullptr,
            j.x_stride};
}

/* Column f of the hidden rows' row `token` of the tile. */
DEVICE void put_hidden(const struct moe_product &p, const struct expert_tile &tile, int32_t f,
                       int32_t token, float gate, float up)
{
    if (f < p.job.n / 2 && token < tile.n_rows)
        p.job.out[(size_t)(tile.row0 + token) * p.job.out_stride + (size_t)f] =
            activated(p.act, gate) * up;
}

/* Column c of a slice's product. */
DEVICE void put_part(const struct moe_product &p, const struct expert_tile &tile, int slice,
                     int32_t c, int32_t token, float v)
{
    const size_t row = (size_t)slice * (size_t)p.job.n_tokens + (size_t)(tile.row0 + token);
    if (c < p.job.n && token < tile.n_rows)
        p.job.out[row * p.job.out_stride + (size_t)c] = v;
}

/* acc [NT] of row `row` of the matrix to the tile's rows of a slice's product, or of up.  E is struct
 * quant_experts or scaled_experts. */
template <class E, int NT>
DEVICE void put_expert_rows(const E &e, int slice, const struct expert_tile &tile, int32_t row,
                            const float (&acc)[NT])
{
    float *out = e.job.out;
    size_t stride = e.job.out_stride;
    if (e.up && row >= e.ffn) {
        out = e.up;
        stride = (size_t)e.ffn;
        row -= e.ffn;
    }
    out += ((size_t)slice * (size_t)e.job.n_tokens + (size_t)tile.row0) * stride + (size_t)row;
    UNROLL
    for (int t = 0; t < NT; t++)
        if (t < tile.n_rows)
            out[(size_t)t * stride] = acc[t];
}

/* Tiles that there may be: full ones, and one more of each expert that has a row. */
static inline int64_t max_tiles(const struct moe_groups *g)
{
    const int64_t pairs = (int64_t)g->n_tokens * g->top_k;
    return pairs / g->tile_rows + (g->n_experts < pairs ? g->n_experts : pairs);
}

/* Blocks for a product in groups of `cols` columns of its output. */
static inline unsigned moe_grid(const struct moe_product *p, int cols, int at_once)
{
    const int64_t n = p->hidden ? p->job.n / 2 : p->job.n;
    const int64_t items = max_tiles(&p->groups) * ((n + cols - 1) / cols);
    return (unsigned)(items < at_once ? items : at_once);
}

#endif
