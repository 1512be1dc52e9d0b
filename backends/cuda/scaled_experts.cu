/* Experts whose matrices have scales in f32: scaled_linear.cu for tiles of an expert's rows. */
#include "backends/cuda/moe_tile.h"
#include "backends/cuda/scaled_device.h"

enum { WARPS = SCALED_WARPS, NT = MOE_ROWS_TILE, PER_SM = 2 };

/* Grid: what runs at once; an item is a tile of one expert and the panels of a block.  A warp has one
 * panel and one slice, and writes its own sums.
 * Bytes: each expert that has a row, once from memory (once a tile from L2 beyond MOE_ROWS_TILE
 * rows); x for each panel from L1 or L2.  Bound as scaled_kernel with NT tokens. */
template <int KIND> KERNEL(WARPS * 32, PER_SM) scaled_experts_kernel(struct scaled_experts e)
{
    SHARED(float, x_tile, [WARPS][NT][SCALED_CHUNK]);
    SHARED(float, levels, [16]);
    const struct scaled_job &a = e.job;
    pdl_wait();
    stage_levels(levels, a.m);
    SYNC_THREADS(); /* levels are written */
    const int warp = warp_id(), per_block = WARPS / a.k.n_slices, slice = warp % a.k.n_slices;
    const int n_panels = (a.m.n + SCALED_PANEL - 1) / SCALED_PANEL;
    const int n_groups = (n_panels + per_block - 1) / per_block, end = n_items(e.groups, n_groups);
    const int32_t begin = a.k.col[slice];
    for (int item = (int)blockIdx.x; item < end; item += (int)gridDim.x) {
        const struct expert_tile tile = expert_tile_at(e.groups, n_groups, item);
        const int panel = tile.i * per_block + warp / a.k.n_slices;
        const int32_t row = panel * SCALED_PANEL + lane_id();
        float acc[NT] = {};
        scaled_chain<KIND, NT, false>(
            acc, a.m,
            a.m.w + (size_t)tile.expert * e.expert_bytes + (size_t)panel * a.m.at.panel_bytes,
            begin, panel < n_panels ? a.k.col[slice + 1] : begin,
            a.rows ? a.x : a.x + (size_t)tile.row0 * a.x_stride, a.x_stride,
            a.rows ? a.rows + tile.row0 : nullptr, tile.n_rows, levels, x_tile[warp]);
        if (row < a.m.n)
            put_expert_rows(e, slice, tile, row, acc);
    }
}

template <int KIND> static enum status launch(struct backend *be, const struct scaled_experts *e)
{
    const int per_block = WARPS / e->job.k.n_slices * SCALED_PANEL;
    const int64_t items = max_tiles(&e->groups) * ((e->job.m.n + per_block - 1) / per_block);
    const int64_t at_once = (int64_t)be->n_sm * PER_SM;
    return LAUNCH_DEPENDENT(be, scaled_experts_kernel<KIND>,
                            (unsigned)(items < at_once ? items : at_once), WARPS * 32, 0, *e);
}

extern "C" enum status scaled_moe(struct backend *be, const struct scaled_experts *e)
{
    switch (e->job.m.at.kind) {
    case SCALED_E4M3:
        return launch<SCALED_E4M3>(be, e);
    case SCALED_INT8:
        return launch<SCALED_INT8>(be, e);
    case SCALED_INT4:
        return launch<SCALED_INT4>(be, e);
    case SCALED_SMALL:
        return launch<SCALED_SMALL>(be, e);
    default:
        return launch<SCALED_LEVELS>(be, e);
    }
}
