/* f32 experts. */
#include "backends/cuda/linear_f32.h"
#include "backends/cuda/moe_tile.h"

static_assert((int)MOE_F32_TILE == (int)TILE, "a tile's tokens");

enum { PER_SM = 2 };

/* Of output o of this thread. */
DEVICE int32_t token_of(int o)
{
    return (int32_t)threadIdx.x / TILE + o * (THREADS / TILE);
}

DEVICE void hidden_tile(const struct moe_product &p, const struct expert_tile &tile)
{
    struct tile_job gate = tile_job_of(p, tile);
    gate.n /= 2;
    const size_t row_bytes = (size_t)gate.k.at[gate.k.n_slices] * sizeof(float);
    struct tile_job up = gate;
    up.w += (size_t)gate.n * row_bytes;
    float g[OUTPUTS] = {}, u[OUTPUTS] = {};
    slice_chain(g, gate, 0, tile.i * TILE, 0);
    slice_chain(u, up, 0, tile.i * TILE, 0);
    UNROLL
    for (int o = 0; o < OUTPUTS; o++)
        put_hidden(p, tile, tile.i * TILE + (int)threadIdx.x % TILE, token_of(o), g[o], u[o]);
}

DEVICE void part_tile(const struct moe_product &p, const struct expert_tile &tile)
{
    const struct tile_job job = tile_job_of(p, tile);
    for (int i = 0; i < job.k.n_slices; i++) {
        float sum[OUTPUTS] = {};
        slice_chain(sum, job, i, tile.i * TILE, 0);
        UNROLL
        for (int o = 0; o < OUTPUTS; o++)
            put_part(p, tile, i, tile.i * TILE + (int)threadIdx.x % TILE, token_of(o), sum[o]);
    }
}

/* Grid: what runs at once; an item is a tile and TILE columns of its output.  Bytes and bound as
 * f32_kernel. */
KERNEL(THREADS, PER_SM) moe_f32_kernel(struct moe_product p)
{
    pdl_wait();
    const int n = p.hidden ? p.job.n / 2 : p.job.n, n_col_groups = (n + TILE - 1) / TILE;
    const int end = n_items(p.groups, n_col_groups);
    for (int item = (int)blockIdx.x; item < end; item += (int)gridDim.x) {
        const struct expert_tile tile = expert_tile_at(p.groups, n_col_groups, item);
        if (p.hidden)
            hidden_tile(p, tile);
        else
            part_tile(p, tile);
    }
}

enum status moe_f32(struct backend *be, const struct moe_product *p)
{
    return LAUNCH_DEPENDENT(be, moe_f32_kernel, moe_grid(p, TILE, be->n_sm * PER_SM), THREADS, 0,
                            *p);
}
