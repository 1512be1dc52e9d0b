/* Experts with few rows each: linear_rows.cu for tiles of experts. */
#include "backends/cuda/linear_rows.h"
#include "backends/cuda/moe_tile.h"

enum {
    MT = 1,
    NT = MOE_ROWS_TILE / 8,
    GROUP = 16 * MT, /* rows of w */
};
using shape = rows_shape<MT, NT>;
static_assert(shape::n_out == WARPS * 32, "every thread has one output");

/* A tile as a job to linear_rows.h.  packed and unscale are those of all rows, of which the tile's begin at row0: pointers
 * of its own would be registers. */
struct rows_job {
    const struct k_layout &k;
    const unsigned char *w;
    int32_t n_tokens, row0;
    const uint16_t *packed;
    const float *unscale;
};

DEVICE struct rows_job rows_job_of(const struct moe_product &p, const struct expert_tile &tile)
{
    const struct linear_job &j = p.job;
    return {j.k,         (const unsigned char *)j.w + (size_t)tile.expert * p.expert_bytes,
            tile.n_rows, tile.row0,
            j.packed,    j.unscale};
}

DEVICE int32_t token_of(const struct rows_job &a, int j, int g)
{
    const int32_t token = j * 8 + g;
    return a.row0 + (token < a.n_tokens ? token : a.n_tokens - 1);
}

template <bool HIDDEN> DEVICE auto rows_of(const struct moe_product &p, const struct expert_tile &t)
{
    if constexpr (HIDDEN)
        return gate_up_rows{t.i * (GROUP / 2), p.job.n / 2};
    else
        return plain_rows{t.i * GROUP, p.job.n - 1};
}

DEVICE void put_slice(const struct moe_product &p, const struct expert_tile &tile, int slice,
                      float sum)
{
    const struct output_at at = output_of<NT>((int)threadIdx.x);
    put_part(p, tile, slice, tile.i * GROUP + at.row, at.token, sum);
}

/* Every fourth output and the next one are of gate, those after them of up. */
DEVICE void put_row(const struct moe_product &p, const struct expert_tile &tile, float sum)
{
    const struct output_at at = output_of<NT>((int)threadIdx.x);
    const float up = shfl_down(sum, 2);
    if (at.row < GROUP / 2)
        put_hidden(p, tile, tile.i * (GROUP / 2) + at.row, at.token, sum, up);
}

/* Grid: what runs at once; an item is a tile of one expert and GROUP rows of its w.  As
 * rows_kernel, also with the next item's rows of w on their way; which they are is known when the
 * tiles are.
 * Shared memory: [2][WARPS][GROUP * MOE_ROWS_TILE] f32.
 * Bytes: 2 N K of each expert that has a row, once from memory (once a tile from L2 beyond
 * MOE_ROWS_TILE rows); 2 P K of packed for each group, from L1 or L2.
 * Bound: memory. */
template <class E, bool HIDDEN>
KERNEL(WARPS * 32, shape::per_sm)
moe_rows_kernel(struct moe_product p)
{
    DYN_SMEM(float, smem);
    /* f16's factors need registers: half as many steps of w under way, 64 KiB of a multiprocessor */
    constexpr int n_out = shape::n_out, depth = E::scaled ? SEG_STEPS / 2 : shape::depth;
    const struct k_layout &k = p.job.k;
    pdl_wait();
    const int n = HIDDEN ? p.job.n / 2 : p.job.n, cols = HIDDEN ? GROUP / 2 : GROUP;
    const int n_col_groups = (n + cols - 1) / cols, end = n_items(p.groups, n_col_groups);
    const int warp = warp_id(), rounds = (k.seg[k.n_slices] + WARPS - 1) / WARPS;
    float *part = smem;
    struct w_step<MT> w[depth];
    struct segment s = segment_at(k, warp);
    int item = (int)blockIdx.x;
    if (item >= end)
        return;
    struct expert_tile tile = expert_tile_at(p.groups, n_col_groups, item);
    UNROLL
    for (int step = 0; step < depth; step++)
        load_w(w[step], rows_job_of(p, tile), rows_of<HIDDEN>(p, tile), s, step);
    for (; item < end; item += (int)gridDim.x) {
        const bool more = item + (int)gridDim.x < end;
        const struct expert_tile next_tile =
            more ? expert_tile_at(p.groups, n_col_groups, item + (int)gridDim.x) : tile;
        running_sums<1> sums = {};
        const auto end_of_slice = [&] {
            if constexpr (!HIDDEN) /* x has one slice, which ends with the last segment */
                put_slice(p, tile, sums.slice, sums.sum[0]);
        };
        for (int round = 0; round < rounds; round++) {
            const bool last = round == rounds - 1;
            const struct expert_tile ahead = last ? next_tile : tile;
            struct segment next = segment_at(k, last ? warp : (round + 1) * WARPS + warp);
            if (last && !more)
                next.n_chunks = 0;
            const struct rows_job job = rows_job_of(p, tile);
            float acc[MT][NT][4] = {};
            UNROLL
            for (int step = 0; step < SEG_STEPS; step++) {
                if (step * CHUNKS < s.n_chunks)
                    step_packed<E, MT, NT>(acc, w[step % depth], job, s, step);
                if (step + depth < SEG_STEPS)
                    load_w(w[step % depth], job, rows_of<HIDDEN>(p, tile), s, step + depth);
                else
                    load_w(w[step % depth], rows_job_of(p, ahead), rows_of<HIDDEN>(p, ahead), next,
                           step + depth - SEG_STEPS);
            }
            if (s.n_chunks > 0)
                store_sums<E, MT, NT, false>(part + warp * n_out, acc, job, round * WARPS + warp,
                                             1.0f);
            SYNC_THREADS(); /* the round's sums are written, and the last but one's are read */
            add_segments(sums, part, n_out, k, round * WARPS, end_of_slice);
            part = part == smem ? smem + WARPS * n_out : smem;
            s = next;
        }
        if constexpr (HIDDEN)
            put_row(p, tile, sums.sum[0]);
        else
            while (sums.slice < k.n_slices)
                end_slice(sums, end_of_slice);
        tile = next_tile;
    }
}

template <class E, bool HIDDEN>
static enum status launch(struct backend *be, const struct moe_product *p)
{
    const unsigned grid = moe_grid(p, HIDDEN ? GROUP / 2 : GROUP, be->n_sm * shape::per_sm);
    return LAUNCH_DEPENDENT(be, (moe_rows_kernel<E, HIDDEN>), grid, WARPS * 32,
                            2 * WARPS * shape::n_out * sizeof(float), *p);
}

enum status moe_rows(struct backend *be, const struct moe_product *p)
{
    if (p->job.dtype == DT_BF16)
        return p->hidden ? launch<elem_bf16, true>(be, p) : launch<elem_bf16, false>(be, p);
    return p->hidden ? launch<elem_f16, true>(be, p) : launch<elem_f16, false>(be, p);
}
