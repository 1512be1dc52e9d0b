/* Many tokens, of a matrix or of an expert: tiles of one slice's product; codes of e4m3, NVFP4 and levels
 * go through shared memory as they are, and are widened in registers. */
#include "backends/cuda/scaled_mma.h"
#include "backends/cuda/smem.h"

enum {
    THREADS = WARPS * 32,
    WARPS_N = 2, /* a tile's warps: 2 along the rows of w, 4 along the tokens */
    WARPS_T = 4,
    FACTOR_BYTES = 2 * THREADS * (int)sizeof(float), /* of shared memory, besides the stages */
};

/* A tile of 32 MT rows of w (bn) and 32 NT tokens (bt); a warp has 16 MT x 8 NT of it.  A stage: codes, the steps'
 * scales, x. */
template <int KIND, int MT, int NT> struct tile_shape {
    static const int bn = WARPS_N * 16 * MT, bt = WARPS_T * 8 * NT;
    static const int scales_at = bn * SCALED_STEP;
    static const int x_at =
        scales_at + (mma_shape<KIND>::scales ? bn / SCALED_PANEL * SCALE_BYTES : 0);
    static const int stage_bytes = x_at + bt * mma_shape<KIND>::x_bytes;
    /* steps of w and x in shared memory: 3, or as many as every device has room for */
    static const int stages = 3 * stage_bytes + FACTOR_BYTES <= BLOCK_SMEM ? 3 : 2;
    static_assert(stages * stage_bytes + FACTOR_BYTES <= BLOCK_SMEM, "every device has so much");
    static const int per_sm = MT * NT > 4 ? 1 : 2; /* blocks at once, as registers allow */
};

/* A panel's 16 codes of row `row` that lane t owns.  A quarter warp reads those of two rows: they are in
 * different banks. */
DEVICE int codes_at(int row, int t)
{
    return (t * SCALED_PANEL + (row ^ 2 * t)) * 16;
}

/* The 16 bytes g of a token's x in a stage; likewise. */
template <int KIND> DEVICE int granule_at(int token, int g)
{
    return token * mma_shape<KIND>::x_bytes + (g ^ (g >> 3) << 1 ^ (token & 1)) * 16;
}

/* Where the tile of a warp begins in the block's. */
template <int MT> DEVICE int warp_row()
{
    return warp_id() % WARPS_N * 16 * MT;
}

template <int NT> DEVICE int warp_token()
{
    return warp_id() / WARPS_N * 8 * NT;
}

/* A tile of an item; beyond the last panel or token it is the last one again, and is not written. */
struct tile_source {
    const unsigned char *w;
    const uint16_t *x;
    int32_t panel0, last_panel, last_token;
};

template <class E>
DEVICE const unsigned char *panel_at(const E &e, const struct tile_source &from, int i)
{
    const int32_t panel = from.panel0 + i < from.last_panel ? from.panel0 + i : from.last_panel;
    return from.w + (size_t)panel * e.job.m.at.panel_bytes;
}

/* Asks for one step of a tile, when it is before `end`. */
template <int KIND, int MT, int NT>
DEVICE void load_stage(unsigned char *smem, const struct scaled_experts &e,
                       const struct tile_source &from, int32_t step, int32_t end)
{
    using shape = tile_shape<KIND, MT, NT>;
    constexpr int granules = STEP_BYTES / 16, x_granules = mma_shape<KIND>::x_bytes / 16;
    const struct scaled_job &a = e.job;
    const int thread = (int)threadIdx.x;
    unsigned char *stage = smem + step % shape::stages * shape::stage_bytes;
    if (step < end) {
        UNROLL
        for (int i = 0; i < shape::bn / SCALED_PANEL * granules / THREADS; i++) {
            const int at = thread + i * THREADS, g = at % granules;
            cp_async_16(stage + at / granules * STEP_BYTES +
                            codes_at(g % SCALED_PANEL, g / SCALED_PANEL),
                        panel_at(e, from, at / granules) + a.m.at.codes_at +
                            (size_t)step * STEP_BYTES + g * 16);
        }
        if (mma_shape<KIND>::scales && thread < shape::bn / SCALED_PANEL * (SCALE_BYTES / 16))
            cp_async_16(stage + shape::scales_at + thread * 16,
                        panel_at(e, from, thread / (SCALE_BYTES / 16)) +
                            mma_shape<KIND>::scales_at + (size_t)step * SCALE_BYTES +
                            thread % (SCALE_BYTES / 16) * 16);
        UNROLL
        for (int i = 0; i < shape::bt * x_granules / THREADS; i++) {
            const int at = thread + i * THREADS, token = at / x_granules, g = at % x_granules;
            const int32_t real = token < from.last_token ? token : from.last_token;
            cp_async_16(stage + shape::x_at + granule_at<KIND>(token, g),
                        from.x + (size_t)real * (size_t)a.k.at[a.k.n_slices] +
                            (size_t)step * mma_shape<KIND>::step + g * 8);
        }
    }
    cp_async_commit(); /* also an empty group, so that the count stays right */
}

/* Of LEVELS scales.x is the half's alone. */
template <int KIND, class SHAPE>
DEVICE struct step_codes staged_codes(const unsigned char *stage, int row, int half)
{
    const int t = lane_id() & 3, panel = row / SCALED_PANEL;
    const unsigned char *scales = stage + SHAPE::scales_at + row * (SCALE_BYTES / SCALED_PANEL);
    struct step_codes c = {ld_128(stage + panel * STEP_BYTES + codes_at(row % SCALED_PANEL, t)),
                           {0, 0}};
    if (KIND == SCALED_LEVELS)
        c.scales.x = ((const uint32_t *)scales)[half];
    else if (mma_shape<KIND>::scales)
        c.scales = load_scales_of<KIND>(scales, t);
    return c;
}

/* acc += the stage's step. */
template <int KIND, int MT, int NT>
DEVICE void add_step(float (&acc)[MT][NT][4], const struct scaled_matrix &w_of,
                     const unsigned char *stage)
{
    using shape = tile_shape<KIND, MT, NT>;
    constexpr int halves = mma_shape<KIND>::halves;
    const int g = lane_id() >> 2, t = lane_id() & 3;
    UNROLL
    for (int half = 0; half < halves; half++) {
        uint4 x[NT][2];
        UNROLL
        for (int j = 0; j < NT; j++) {
            UNROLL
            for (int i = 0; i < 2; i++)
                x[j][i] = ld_128(stage + shape::x_at +
                                 granule_at<KIND>(warp_token<NT>() + 8 * j + g,
                                                  lane_column<KIND>(t, half) / 8 + i));
        }
        UNROLL
        for (int m = 0; m < MT; m++) {
            const int row = warp_row<MT>() + 16 * m + g;
            uint32_t w[QUADS][4];
            const struct step_codes lo = staged_codes<KIND, shape>(stage, row, half),
                                    hi = staged_codes<KIND, shape>(stage, row + 8, half);
            widen_half<KIND>(w, w_of, lo, hi, half);
            UNROLL
            for (int j = 0; j < NT; j++)
                add_half<KIND>(acc[m][j], w, half_scale(lo, 0), half_scale(hi, 0), x[j]);
        }
    }
}

/* What the segment's sums are multiplied with: the thread's one of the bn scales of rows and the bt of
 * tokens behind them. */
template <int KIND, int MT, int NT>
DEVICE float load_factor(const struct scaled_experts &e, const struct tile_source &from,
                         const float *unscale, const struct scaled_segment &s, int32_t seg)
{
    using shape = tile_shape<KIND, MT, NT>;
    const int i = (int)threadIdx.x, token = i - shape::bn;
    const int32_t real = token < from.last_token ? token : from.last_token;
    if (i < shape::bn)
        return segment_scale<KIND>(panel_at(e, from, i / SCALED_PANEL), s, i % SCALED_PANEL);
    return unscale[(size_t)real * (size_t)e.job.k.seg[e.job.k.n_slices] + (size_t)seg];
}

template <int KIND, int MT, int NT>
DEVICE void end_segment(float (&sum)[MT][NT][4], float (&acc)[MT][NT][4], const float *factors)
{
    const int g = lane_id() >> 2, t = lane_id() & 3;
    UNROLL
    for (int m = 0; m < MT; m++) {
        const float *rows = factors + warp_row<MT>() + 16 * m + g;
        const float scale[2] = {rows[0], rows[8]};
        UNROLL
        for (int j = 0; j < NT; j++) {
            const float *tokens =
                factors + tile_shape<KIND, MT, NT>::bn + warp_token<NT>() + 8 * j + 2 * t;
            const float unscale[2] = {tokens[0], tokens[1]};
            UNROLL
            for (int i = 0; i < 4; i++) {
                sum[m][j][i] = fmaf(acc[m][j][i] * unscale[i % 2], scale[i / 2], sum[m][j][i]);
                acc[m][j][i] = 0.0f;
            }
        }
    }
}

/* Grid: as many blocks as run at once; a block takes every gridDim.x-th item, a tile of one slice; tiles
 * of the same rows of w follow each other, so that w comes from memory once and x stays in L2.
 * Shared memory: `stages` steps of w and x, filled by cp.async stages - 1 steps ahead.
 * Registers: the segment's and the slice's sums, 16 MT NT bytes each a thread.
 * Bytes: w and packed once from memory; from L2 (1 / bt + 2 / bn) T N K; what is written, of each slice.
 * Bound by tensor cores, shared memory and the widening (3.5 instructions an mma of 4 x 4). */
template <int KIND, int MT, int NT, bool EXPERTS>
KERNEL(THREADS, tile_shape<KIND, MT, NT>::per_sm)
scaled_tiles_kernel(struct scaled_experts e)
{
    DYN_SMEM(unsigned char, smem);
    SHARED(float, factors, [2][THREADS]); /* of this segment, and of the one before */
    using shape = tile_shape<KIND, MT, NT>;
    constexpr int step_cols = mma_shape<KIND>::step;
    const struct scaled_job &a = e.job;
    const struct k_layout &k = a.k;
    pdl_wait();
    const int tiles_t = (a.n_tokens + shape::bt - 1) / shape::bt;
    const int groups = (a.m.n + shape::bn - 1) / shape::bn * k.n_slices;
    /* of experts it is read again for each item, as no register is left for it */
    const auto end_item = [&] { return EXPERTS ? n_items(e.groups, groups) : groups * tiles_t; };
    for (int i = (int)blockIdx.x; i < end_item(); i += (int)gridDim.x) {
        const struct scaled_item item = scaled_item_at<EXPERTS>(e, groups, tiles_t, shape::bt, i);
        const int slice = item.tile.i % k.n_slices, row0 = item.tile.i / k.n_slices * shape::bn;
        const int32_t token0 = item.tile.row0;
        const struct tile_source from = {
            item.w, a.packed + (size_t)token0 * (size_t)k.at[k.n_slices], row0 / SCALED_PANEL,
            (a.m.n - 1) / SCALED_PANEL, item.tile.n_rows - 1};
        const float *unscale = a.unscale + (size_t)token0 * (size_t)k.seg[k.n_slices];
        const int32_t end = k.at[slice + 1] / step_cols;
        int32_t step = k.at[slice] / step_cols;
        SYNC_THREADS(); /* the stages of the item before have been read */
        for (int n = 0; n < shape::stages - 1; n++)
            load_stage<KIND, MT, NT>(smem, e, from, step + n, end);
        float sum[MT][NT][4] = {}, acc[MT][NT][4] = {};
        for (int32_t seg = k.seg[slice]; seg < k.seg[slice + 1]; seg++) {
            const struct scaled_segment s = scaled_segment_at<KIND>(a, seg);
            const bool has_factor = (int)threadIdx.x < shape::bn + shape::bt;
            const float factor =
                has_factor ? load_factor<KIND, MT, NT>(e, from, unscale, s, seg) : 0.0f;
            for (int n = 0; n < s.n_steps; n++, step++) {
                cp_async_wait<shape::stages - 2>();
                if (n + 1 == s.n_steps)
                    factors[seg % 2][threadIdx.x] = factor;
                SYNC_THREADS(); /* the step has arrived for all; the one before has been read; the last
                                   one's factors are written */
                load_stage<KIND, MT, NT>(smem, e, from, step + shape::stages - 1, end);
                add_step<KIND, MT, NT>(acc, a.m, smem + step % shape::stages * shape::stage_bytes);
            }
            end_segment<KIND, MT, NT>(sum, acc, factors[seg % 2]);
        }
        UNROLL
        for (int o = 0; o < MT * NT * 4; o++) {
            const int m = o / 4 / NT, j = o / 4 % NT, c = o % 4;
            const int32_t row = row0 + warp_row<MT>() + 16 * m + (lane_id() >> 2) + c / 2 * 8;
            const int32_t token = warp_token<NT>() + 8 * j + (lane_id() & 3) * 2 + c % 2;
            const float bias = a.bias && row < a.m.n ? a.bias[row] : 0.0f;
            put_slice(e, slice, item.tile, row, token, a.bias ? sum[m][j][c] + bias : sum[m][j][c]);
        }
    }
}

/* Grid: T blocks; adds the slices' products and the bias.  Bytes: (n_slices + 1) T N 4, in L2. */
KERNEL(THREADS) scaled_join_kernel(struct scaled_job a)
{
    pdl_wait();
    const size_t n = (size_t)a.m.n, token = blockIdx.x, part = (size_t)a.n_tokens * n;
    for (size_t row = threadIdx.x; row < n; row += THREADS) {
        float stack[STACK_LEVELS], sum = 0.0f;
        for (int i = 0; i < a.k.n_slices; i++)
            sum = tree_push(stack, i, a.part[(size_t)i * part + token * n + row]);
        a.out[token * a.out_stride + row] = a.bias ? sum + a.bias[row] : sum;
    }
}

template <int KIND, int MT, int NT, bool EXPERTS>
static enum status launch(struct backend *be, const struct scaled_experts *e)
{
    using shape = tile_shape<KIND, MT, NT>;
    const struct scaled_job *a = &e->job;
    const int64_t groups = (int64_t)((a->m.n + shape::bn - 1) / shape::bn) * a->k.n_slices;
    const int64_t tiles =
        EXPERTS ? max_tiles(&e->groups) : (a->n_tokens + shape::bt - 1) / shape::bt;
    const int64_t items = groups * tiles, at_once = (int64_t)be->n_sm * shape::per_sm;
    return LAUNCH_DEPENDENT(be, (scaled_tiles_kernel<KIND, MT, NT, EXPERTS>),
                            (unsigned)(items < at_once ? items : at_once), THREADS,
                            shape::stages * shape::stage_bytes, *e);
}

/* Large tiles: those of codes of 4 bits of fewer rows, as registers allow. */
template <int KIND> struct large_tile {
    static const int mt = KIND == SCALED_E4M3 ? 4 : 2, nt = 4;
    using shape = tile_shape<KIND, mt, nt>;
};

/* Large tiles where they give every multiprocessor work. */
template <int KIND>
static enum status launch_linear(struct backend *be, const struct scaled_experts *e)
{
    using large = large_tile<KIND>;
    const struct scaled_job *a = &e->job;
    constexpr int bn = large::shape::bn, bt = large::shape::bt;
    const int64_t tiles = (int64_t)((a->m.n + bn - 1) / bn) * ((a->n_tokens + bt - 1) / bt);
    return a->n_tokens > 64 && tiles * a->k.n_slices >= be->n_sm
               ? launch<KIND, large::mt, large::nt, false>(be, e)
               : launch<KIND, 2, 2, false>(be, e);
}

template <int KIND>
static enum status launch_experts(struct backend *be, const struct scaled_experts *e)
{
    using large = large_tile<KIND>;
    static_assert(tile_shape<KIND, 2, 2>::bt == MOE_TILES_TILE, "a tile's tokens");
    static_assert(large::shape::bt == MOE_TILES_TILE_MOST, "a tile's tokens");
    return e->groups.tile_rows == MOE_TILES_TILE_MOST
               ? launch<KIND, large::mt, large::nt, true>(be, e)
               : launch<KIND, 2, 2, true>(be, e);
}

extern "C" enum status scaled_tiles(struct backend *be, const struct scaled_job *job)
{
    struct scaled_experts e = {};
    const bool join = job->k.n_slices > 1;
    e.job = *job;
    if (join) {
        e.job.out = job->part;
        e.job.out_stride = (size_t)job->m.n;
        e.job.bias = NULL;
    }
    switch (job->m.at.kind) {
    case SCALED_E4M3:
        TRY(launch_linear<SCALED_E4M3>(be, &e));
        break;
    case SCALED_SMALL:
        TRY(launch_linear<SCALED_SMALL>(be, &e));
        break;
    default:
        TRY(launch_linear<SCALED_LEVELS>(be, &e));
    }
    if (!join)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, scaled_join_kernel, (unsigned)job->n_tokens, THREADS, 0, *job);
}

extern "C" enum status scaled_moe_tiles(struct backend *be, const struct scaled_experts *e)
{
    switch (e->job.m.at.kind) {
    case SCALED_E4M3:
        return launch_experts<SCALED_E4M3>(be, e);
    case SCALED_SMALL:
        return launch_experts<SCALED_SMALL>(be, e);
    default:
        return launch_experts<SCALED_LEVELS>(be, e);
    }
}
