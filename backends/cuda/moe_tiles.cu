/* Experts with many rows each: linear_tiles.cu for tiles of experts. */
#include "backends/cuda/linear_tiles.h"
#include "backends/cuda/moe_tile.h"

static_assert(tile_shape<2, 2>::bt == MOE_TILES_TILE, "a tile's tokens");
static_assert(tile_shape<4, 4>::bt == MOE_TILES_TILE_MOST, "a tile's tokens");

struct gate_up_offsets {
    struct gate_up_rows rows;
    size_t row_bytes;
};

DEVICE size_t offset_of(const struct gate_up_offsets &w, int r)
{
    return (size_t)w_row(w.rows, r) * w.row_bytes;
}

/* bn: rows of w that a tile has. */
template <bool HIDDEN>
DEVICE auto source_of(const struct moe_product &p, const struct expert_tile &tile, int bn)
{
    const struct tile_job j = tile_job_of(p, tile);
    const size_t row_bytes = (size_t)j.k.at[j.k.n_slices] * 2;
    const unsigned char *x = (const unsigned char *)j.packed;
    const near_rows x_rows = {j.n_tokens - 1, (uint32_t)row_bytes};
    if constexpr (HIDDEN) {
        const gate_up_offsets w = {{tile.i * (bn / 2), j.n / 2}, row_bytes};
        return tile_source<gate_up_offsets, near_rows>{j.w, x, w, x_rows};
    } else {
        const int32_t row0 = tile.i * bn;
        const near_rows w = {j.n - 1 - row0, (uint32_t)row_bytes};
        return tile_source<near_rows, near_rows>{j.w + (size_t)row0 * row_bytes, x, w, x_rows};
    }
}

/* use(block of 16 rows of the tile's w, row r of its first 8, token, sums of rows r and r + 8). */
template <int MT, int NT, class F> DEVICE void each_output(const float (&sum)[MT][NT][4], F use)
{
    const int block0 = warp_id() % WARPS_N * NT / 2, row = (lane_id() & 3) * 2;
    const int token0 = warp_id() / WARPS_N * 16 * MT + (lane_id() >> 2);
    static_assert(NT % 2 == 0, "a warp has whole blocks of 16 rows");
    UNROLL
    for (int m = 0; m < MT; m++) {
        UNROLL
        for (int j = 0; j < NT; j += 2) {
            UNROLL
            for (int i = 0; i < 4; i++)
                use(block0 + j / 2, row + i % 2, token0 + 16 * m + i / 2 * 8, sum[m][j][i],
                    sum[m][j + 1][i]);
        }
    }
}

/* Grid: what runs at once; an item is a tile of one expert and bn rows of its w.  As tiles_kernel,
 * but that each slice's sums are written.  Bytes: w of each expert that has a row and packed once
 * from memory; from L2 (1 / bt + 1 / bn) 2 P N K; the slices' products 4 n_slices P N are written.
 * Bound by tensor cores and L2. */
template <class E, int MT, int NT, bool HIDDEN>
KERNEL(THREADS, tile_shape<MT, NT>::per_sm)
moe_tiles_kernel(struct moe_product p)
{
    DYN_SMEM(unsigned char, smem);
    using shape = tile_shape<MT, NT>;
    const struct k_layout &k = p.job.k;
    pdl_wait();
    const int n = HIDDEN ? p.job.n / 2 : p.job.n, cols = HIDDEN ? shape::bn / 2 : shape::bn;
    const int n_col_groups = (n + cols - 1) / cols, end = n_items(p.groups, n_col_groups);
    const int32_t end_step = k.at[k.n_slices] / K_STEP;
    for (int item = (int)blockIdx.x; item < end; item += (int)gridDim.x) {
        const struct expert_tile tile = expert_tile_at(p.groups, n_col_groups, item);
        const struct tile_job job = tile_job_of(p, tile);
        const auto from = source_of<HIDDEN>(p, tile, shape::bn);
        struct tile_cursor cursor = {0, -1};
        SYNC_THREADS(); /* the stages of the item before have been read */
        for (int i = 0; i < STAGES - 1; i++)
            load_stage<MT, NT>(smem, from, i, end_step);
        float sum[MT][NT][4], acc[MT][NT][4] = {};
        for (int i = 0; i < k.n_slices; i++) {
            slice_sums<E, MT, NT, true>(sum, acc, smem, job, from, 0, i, cursor, end_step);
            if constexpr (!HIDDEN)
                each_output(sum, [&](int block, int row, int token, float lo, float hi) {
                    const int32_t c = tile.i * shape::bn + block * 16 + row;
                    put_part(p, tile, i, c, token, lo);
                    put_part(p, tile, i, c + 8, token, hi);
                });
        }
        if constexpr (HIDDEN)
            each_output(sum, [&](int block, int row, int token, float gate, float up) {
                const int32_t f = tile.i * (shape::bn / 2) + block * 8 + row;
                put_hidden(p, tile, f, token, gate, up);
            });
    }
}

template <class E, int MT, int NT, bool HIDDEN>
static enum status launch(struct backend *be, const struct moe_product *p)
{
    using shape = tile_shape<MT, NT>;
    const unsigned grid = moe_grid(p, HIDDEN ? shape::bn / 2 : shape::bn, be->n_sm * shape::per_sm);
    return LAUNCH_DEPENDENT(be, (moe_tiles_kernel<E, MT, NT, HIDDEN>), grid, THREADS,
                            STAGES * shape::stage_bytes, *p);
}

template <class E> static enum status launch_of(struct backend *be, const struct moe_product *p)
{
    if (p->groups.tile_rows == MOE_TILES_TILE_MOST)
        return p->hidden ? launch<E, 4, 4, true>(be, p) : launch<E, 4, 4, false>(be, p);
    return p->hidden ? launch<E, 2, 2, true>(be, p) : launch<E, 2, 2, false>(be, p);
}

enum status moe_tiles(struct backend *be, const struct moe_product *p)
{
    return p->job.dtype == DT_BF16 ? launch_of<elem_bf16>(be, p) : launch_of<elem_f16>(be, p);
}
