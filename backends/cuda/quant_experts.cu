/* Experts whose matrices are quantised: quant_rows.cu for tiles of an expert's rows. */
#include "backends/cuda/moe_tile.h"
#include "backends/cuda/quant_device.h"

enum { WARPS = 8, NT = MOE_ROWS_TILE, DEPTH = 4 };

/* Grid: what runs at once; an item is a tile of one expert and the panels of a block.  A warp has one
 * panel and one slice, and writes its own sums.
 * Bytes: each expert that has a row, once from memory (once a tile from L2 beyond MOE_ROWS_TILE
 * rows); 1.5 K a row of packed for each panel, from L1 or L2.  Bound by memory to some 8 rows an
 * expert, then by instructions. */
template <int FORM> KERNEL(WARPS * 32, 2) quant_experts_kernel(struct quant_experts e)
{
    pdl_wait();
    const struct quant_job &a = e.job;
    const int warp = warp_id(), lane = lane_id(), per_block = WARPS / a.s.n_slices;
    const int n_panels = (a.m.n + QUANT_PANEL - 1) / QUANT_PANEL;
    const int n_groups = (n_panels + per_block - 1) / per_block, end = n_items(e.groups, n_groups);
    const int slice = warp % a.s.n_slices;
    const size_t x_step = (size_t)a.n_tokens * QUANT_RECORD;
    for (int item = (int)blockIdx.x; item < end; item += (int)gridDim.x) {
        const struct expert_tile tile = expert_tile_at(e.groups, n_groups, item);
        const int panel = tile.i * per_block + warp / a.s.n_slices;
        const size_t expert = (size_t)tile.expert * e.expert_bytes;
        const struct slice_groups groups = slice_groups_of<FORM>(a.s, a.m.head + expert, slice);
        const int32_t n = panel < n_panels ? groups.n : 0;
        struct group_reader<FORM> w = read_groups<FORM>(
            a.m, a.m.head + expert, a.m.w + expert + (size_t)panel * a.m.panel_bytes, groups.first,
            n > 0);
        const unsigned char *x =
            a.packed + (size_t)groups.x_at * x_step + (size_t)tile.row0 * QUANT_RECORD;
        struct quant_group<FORM> q[DEPTH];
        float acc[NT] = {};
        UNROLL
        for (int i = 0; i < DEPTH; i++)
            if (i < n)
                load_next<FORM>(q[i], a.m, w);
        for (int32_t g = 0; g < n; g += DEPTH) {
            UNROLL
            for (int i = 0; i < DEPTH; i++) {
                if (g + i >= n)
                    break;
                add_group<FORM, NT>(acc, q[i], a.m, x, tile.n_rows);
                x += x_step;
                if (g + i + DEPTH < n)
                    load_next<FORM>(q[i], a.m, w);
            }
        }
        const int32_t row = panel * QUANT_PANEL + lane;
        if (row < a.m.n)
            put_expert_rows(e, slice, tile, row, acc);
    }
}

template <int FORM> static enum status launch(struct backend *be, const struct quant_experts *e)
{
    const int per_block = WARPS / e->job.s.n_slices * QUANT_PANEL;
    const int64_t items = max_tiles(&e->groups) * ((e->job.m.n + per_block - 1) / per_block);
    const int64_t at_once = (int64_t)be->n_sm * 2;
    return LAUNCH_DEPENDENT(be, quant_experts_kernel<FORM>,
                            (unsigned)(items < at_once ? items : at_once), WARPS * 32, 0, *e);
}

extern "C" enum status quant_moe(struct backend *be, const struct quant_experts *e)
{
    switch (e->job.m.form) {
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
    case 4 + QUANT_SORTED:
        return launch<4 + QUANT_SORTED>(be, e);
    case 8 + QUANT_SORTED:
        return launch<8 + QUANT_SORTED>(be, e);
    default:
        return launch<8>(be, e);
    }
}
