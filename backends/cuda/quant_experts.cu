/* Experts whose matrices are quantised: quant_rows.cu for tiles of an expert's rows. */
#include "backends/cuda/moe_tile.h"
#include "backends/cuda/quant_device.h"

enum { WARPS = 8, NT = MOE_ROWS_TILE, DEPTH = 4 };

/* Grid: what runs at once; an item is a tile of one expert and the panels of a block.  A warp has one
 * panel and one slice, and writes its own sums.
 * Bytes: each expert that has a row, once from memory (once a tile from L2 beyond MOE_ROWS_TILE
 * rows); 1.5 K a row of packed for each panel, from L1 or L2.  Bound by memory to some 8 rows an
 * expert, then by instructions. */
template <int BITS> KERNEL(WARPS * 32, 2) quant_experts_kernel(struct quant_experts e)
{
    pdl_wait();
    const struct quant_job &a = e.job;
    const int warp = warp_id(), lane = lane_id(), per_block = WARPS / a.s.n_slices;
    const int n_panels = (a.m.n + QUANT_PANEL - 1) / QUANT_PANEL;
    const int n_groups = (n_panels + per_block - 1) / per_block, end = n_items(e.groups, n_groups);
    const int slice = warp % a.s.n_slices;
    const int32_t first = a.s.first[slice];
    const size_t x_step = (size_t)a.n_tokens * QUANT_RECORD;
    for (int item = (int)blockIdx.x; item < end; item += (int)gridDim.x) {
        const struct expert_tile tile = expert_tile_at(e.groups, n_groups, item);
        const int panel = tile.i * per_block + warp / a.s.n_slices;
        const int32_t n = panel < n_panels ? a.s.x_at[slice + 1] - a.s.x_at[slice] : 0;
        const unsigned char *w =
            a.m.w + (size_t)tile.expert * e.expert_bytes + (size_t)panel * a.m.at.panel_bytes;
        const unsigned char *x =
            a.packed + (size_t)a.s.x_at[slice] * x_step + (size_t)tile.row0 * QUANT_RECORD;
        struct quant_group<BITS> q[DEPTH];
        float acc[NT] = {};
        UNROLL
        for (int i = 0; i < DEPTH; i++)
            if (i < n)
                load_group(q[i], a.m, w, first + i, lane);
        for (int32_t g = 0; g < n; g += DEPTH) {
            UNROLL
            for (int i = 0; i < DEPTH; i++) {
                if (g + i >= n)
                    break;
                add_group<BITS, NT>(acc, q[i], a.m, x, tile.n_rows);
                x += x_step;
                if (g + i + DEPTH < n)
                    load_group(q[i], a.m, w, first + g + i + DEPTH, lane);
            }
        }
        const int32_t row = panel * QUANT_PANEL + lane;
        if (row < a.m.n)
            put_expert_rows(e, slice, tile, row, acc);
    }
}

template <int BITS> static enum status launch(struct backend *be, const struct quant_experts *e)
{
    const int per_block = WARPS / e->job.s.n_slices * QUANT_PANEL;
    const int64_t items = max_tiles(&e->groups) * ((e->job.m.n + per_block - 1) / per_block);
    const int64_t at_once = (int64_t)be->n_sm * 2;
    return LAUNCH_DEPENDENT(be, quant_experts_kernel<BITS>,
                            (unsigned)(items < at_once ? items : at_once), WARPS * 32, 0, *e);
}

extern "C" enum status quant_moe(struct backend *be, const struct quant_experts *e)
{
    switch (e->job.m.bits) {
    case 2:
        return launch<2>(be, e);
    case 3:
        return launch<3>(be, e);
    case 4:
        return launch<4>(be, e);
    case 5:
        return launch<5>(be, e);
    case 6:
        return launch<6>(be, e);
    default:
        return launch<8>(be, e);
    }
}
