/* Few tokens, of a matrix or of an expert: rows of e4m3, NVFP4 and levels stream from memory into registers
 * once, and are widened there. */
#include "backends/cuda/scaled_mma.h"

/* A block has 16 MT rows of w and 8 NT tokens. */
template <int MT, int NT> struct rows_shape {
    static const int rows = 16 * MT, n_out = rows * 8 * NT;
    static const int part = n_out + rows; /* floats of a warp: sums, then the rows' scales */
    static const int per_thread = (n_out + WARPS * 32 - 1) / (WARPS * 32); /* outputs */
    /* Blocks at once, as registers allow. */
    static const int per_sm = NT == 1 ? 3 : MT * NT > 2 ? 1 : 2;
};

/* A segment of 16 MT rows, as a lane holds it: row 8 r + g. */
template <int MT> struct segment_codes {
    struct step_codes w[SEGMENT_STEPS][2 * MT];
    float scale[2 * MT];
};

/* 16 MT rows: of a panel, from row0 on. */
struct panel_rows {
    const unsigned char *panel;
    int row0;
};

template <int MT>
DEVICE struct panel_rows rows_of(const struct scaled_job &a, const struct scaled_item &item)
{
    const int row = item.tile.i * 16 * MT;
    return {item.w + (size_t)(row / SCALED_PANEL) * a.m.at.panel_bytes, row % SCALED_PANEL};
}

template <int KIND, int MT>
DEVICE void load_step(struct segment_codes<MT> &to, const struct scaled_job &a,
                      const struct panel_rows &rows, const struct scaled_segment &s, int step)
{
    const int g = lane_id() >> 2, t = lane_id() & 3;
    if (step >= s.n_steps)
        return;
    const size_t at = (size_t)(s.step + step);
    const unsigned char *codes = rows.panel + a.m.at.codes_at + at * STEP_BYTES;
    const unsigned char *scales = rows.panel + mma_shape<KIND>::scales_at + at * SCALE_BYTES;
    UNROLL
    for (int r = 0; r < 2 * MT; r++) {
        const int row = rows.row0 + 8 * r + g;
        to.w[step][r].codes = ld_stream_128(codes + (t * SCALED_PANEL + row) * 16);
        if (mma_shape<KIND>::scales)
            to.w[step][r].scales =
                load_scales_of<KIND>(scales + row * (SCALE_BYTES / SCALED_PANEL), t);
    }
}

template <int KIND, int MT>
DEVICE void load_scales(struct segment_codes<MT> &to, const struct panel_rows &rows,
                        const struct scaled_segment &s)
{
    UNROLL
    for (int r = 0; r < 2 * MT; r++)
        if (s.n_steps > 0)
            to.scale[r] = segment_scale<KIND>(rows.panel, s, rows.row0 + 8 * r + (lane_id() >> 2));
}

/* The token of tile j of 8; beyond the last it is the last one again, and is not written. */
DEVICE int32_t token_of(const struct expert_tile &tile, int j, int i)
{
    const int32_t token = j * 8 + i;
    return tile.row0 + (token < tile.n_rows ? token : tile.n_rows - 1);
}

/* acc += one step. */
template <int KIND, int MT, int NT>
DEVICE void add_step(float (&acc)[MT][NT][4], const struct step_codes (&w)[2 * MT],
                     const struct scaled_job &a, const struct expert_tile &tile, int32_t step)
{
    constexpr int cols = mma_shape<KIND>::step;
    const uint16_t *x = a.packed + (size_t)step * cols;
    UNROLL
    for (int half = 0; half < mma_shape<KIND>::halves; half++) {
        uint32_t f[MT][QUADS][4];
        UNROLL
        for (int m = 0; m < MT; m++)
            widen_half<KIND>(f[m], a.m, w[2 * m], w[2 * m + 1], half);
        UNROLL
        for (int j = 0; j < NT; j++) {
            const uint16_t *p =
                x + (size_t)token_of(tile, j, lane_id() >> 2) * (size_t)a.k.at[a.k.n_slices] +
                lane_column<KIND>(lane_id() & 3, half);
            const uint4 b[2] = {ld_128(p), ld_128(p + 8)};
            UNROLL
            for (int m = 0; m < MT; m++)
                add_half<KIND>(acc[m][j], f[m], half_scale(w[2 * m], half),
                               half_scale(w[2 * m + 1], half), b);
        }
    }
}

/* acc, unscaled, [MT * NT][lane][4], and the rows' scales to the warp's place in shared memory. */
template <int MT, int NT>
DEVICE void store_part(float *part, const float (&acc)[MT][NT][4], const float (&scale)[2 * MT],
                       const struct scaled_job &a, const struct expert_tile &tile, int32_t seg)
{
    const int g = lane_id() >> 2, t = lane_id() & 3;
    UNROLL
    for (int j = 0; j < NT; j++) {
        float f[2]; /* of tokens 2t and 2t + 1 */
        UNROLL
        for (int i = 0; i < 2; i++)
            f[i] = a.unscale[(size_t)token_of(tile, j, 2 * t + i) * (size_t)a.k.seg[a.k.n_slices] +
                             (size_t)seg];
        UNROLL
        for (int m = 0; m < MT; m++) {
            const float(&c)[4] = acc[m][j];
            st_f32x4(part + ((m * NT + j) * 32 + lane_id()) * 4,
                     {c[0] * f[0], c[1] * f[1], c[2] * f[0], c[3] * f[1]});
        }
    }
    UNROLL
    for (int r = 0; r < 2 * MT; r++)
        if (t == 0)
            part[rows_shape<MT, NT>::n_out + 8 * r + g] = scale[r];
}

/* Row of the group and token of output e of [MT * NT][lane][4]. */
struct output_at {
    int32_t row, token;
};

template <int NT> DEVICE struct output_at output_of(int e)
{
    const int tile = e / 128, lane = e / 4 % 32;
    return {tile / NT * 16 + (lane >> 2) + (e & 2) * 4, tile % NT * 8 + (lane & 3) * 2 + (e & 1)};
}

/* The outputs threadIdx.x + i WARPS 32 of a group, which a thread adds up. */
template <int N> struct group_sums {
    int slice;
    float sum[N]; /* of the slice so far */
    float stack[N][STACK_LEVELS], total[N];
};

template <int MT, int NT, bool EXPERTS, int N>
DEVICE void end_slice(struct group_sums<N> &s, const struct scaled_experts &e,
                      const struct expert_tile &tile)
{
    UNROLL
    for (int i = 0; i < N; i++) {
        const int out = (int)threadIdx.x + i * WARPS * 32;
        const struct output_at at = output_of<NT>(out);
        if (!EXPERTS)
            s.total[i] = tree_push(s.stack[i], s.slice, s.sum[i]);
        else if (out < rows_shape<MT, NT>::n_out)
            put_slice(e, s.slice, tile, tile.i * 16 * MT + at.row, at.token, s.sum[i]);
        s.sum[i] = 0.0f;
    }
    s.slice++;
}

/* Adds the segments seg, seg + 1, ... that the warps left in part. */
template <int MT, int NT, bool EXPERTS, int N>
DEVICE void add_parts(struct group_sums<N> &s, const float *part, const struct scaled_experts &e,
                      const struct expert_tile &tile, int32_t seg)
{
    using shape = rows_shape<MT, NT>;
    const struct k_layout &k = e.job.k;
    for (int w = 0; w < WARPS && seg + w < k.seg[k.n_slices]; w++) {
        while (seg + w >= k.seg[s.slice + 1])
            end_slice<MT, NT, EXPERTS>(s, e, tile);
        UNROLL
        for (int i = 0; i < N; i++) {
            const int out = (int)threadIdx.x + i * WARPS * 32;
            const float *p = part + w * shape::part;
            if (out < shape::n_out)
                s.sum[i] = fmaf(p[out], p[shape::n_out + output_of<NT>(out).row], s.sum[i]);
        }
    }
}

template <int MT, int NT, int N>
DEVICE void write_out(const float (&total)[N], const struct scaled_job &a, int group)
{
    UNROLL
    for (int i = 0; i < N; i++) {
        const int out = (int)threadIdx.x + i * WARPS * 32;
        const struct output_at at = output_of<NT>(out);
        const int32_t row = group * 16 * MT + at.row;
        if (out < rows_shape<MT, NT>::n_out && row < a.m.n && at.token < a.n_tokens)
            a.out[(size_t)at.token * a.out_stride + (size_t)row] =
                a.bias ? total[i] + a.bias[row] : total[i];
    }
}

/* Grid: what runs at once at most; an item is 16 MT rows of w and all tokens, or a tile of an expert's
 * and its slices are written.  Warp i has the segments i, i + WARPS, ...; while one is used, the next one
 * is on its way, also over the border of two items.  Each round of WARPS segments ends with one
 * barrier, then all threads add the sums in order.
 * Shared memory: [2][WARPS] sums of the group and scales.  Bytes: w once from memory (once a tile from
 * L2 beyond MOE_ROWS_TILE rows of an expert); packed for each group of rows from L1 or L2.
 * Bound by memory bandwidth to some 16 tokens. */
template <int KIND, int MT, int NT, bool EXPERTS>
KERNEL(WARPS * 32, rows_shape<MT, NT>::per_sm)
scaled_rows_kernel(struct scaled_experts e)
{
    DYN_SMEM(float, smem);
    using shape = rows_shape<MT, NT>;
    const struct scaled_job &a = e.job;
    if (EXPERTS)
        pdl_wait(); /* which experts: of the step */
    const int n_groups = (a.m.n + 16 * MT - 1) / (16 * MT), n_seg = a.k.seg[a.k.n_slices];
    const int end = EXPERTS ? n_items(e.groups, n_groups) : n_groups;
    const int warp = warp_id(), rounds = (n_seg + WARPS - 1) / WARPS;
    if ((int)blockIdx.x >= end)
        return;
    struct scaled_item item = scaled_item_at<EXPERTS>(e, n_groups, 1, 8 * NT, (int)blockIdx.x);
    struct scaled_segment s = scaled_segment_at<KIND>(a, warp);
    struct segment_codes<MT> w;
    UNROLL
    for (int step = 0; step < SEGMENT_STEPS; step++)
        load_step<KIND>(w, a, rows_of<MT>(a, item), s, step);
    load_scales<KIND>(w, rows_of<MT>(a, item), s);
    if (!EXPERTS)
        pdl_wait(); /* w is never written in a step, x is */
    float *part = smem;
    for (int i = (int)blockIdx.x; i < end; i += (int)gridDim.x) {
        const bool more = i + (int)gridDim.x < end;
        const struct scaled_item next_item =
            more ? scaled_item_at<EXPERTS>(e, n_groups, 1, 8 * NT, i + (int)gridDim.x) : item;
        struct group_sums<shape::per_thread> sums = {
        };
        for (int round = 0; round < rounds; round++) {
            const bool last = round == rounds - 1;
            const struct panel_rows ahead = rows_of<MT>(a, last ? next_item : item);
            struct scaled_segment next =
                scaled_segment_at<KIND>(a, last ? warp : (round + 1) * WARPS + warp);
            if (last && !more)
                next.n_steps = 0;
            float acc[MT][NT][4] = {};
            UNROLL
            for (int step = 0; step < SEGMENT_STEPS; step++) {
                if (step < s.n_steps)
                    add_step<KIND, MT, NT>(acc, w.w[step], a, item.tile, s.step + step);
                load_step<KIND>(w, a, ahead, next, step);
            }
            if (s.n_steps > 0)
                store_part(part + warp * shape::part, acc, w.scale, a, item.tile,
                           round * WARPS + warp);
            load_scales<KIND>(w, ahead, next);
            SYNC_THREADS(); /* the round's sums are written, and the last but one's are read */
            add_parts<MT, NT, EXPERTS>(sums, part, e, item.tile, round * WARPS);
            part = part == smem ? smem + WARPS * shape::part : smem;
            s = next;
        }
        while (sums.slice < a.k.n_slices)
            end_slice<MT, NT, EXPERTS>(sums, e, item.tile);
        if (!EXPERTS)
            write_out<MT, NT>(sums.total, a, item.tile.i);
        item = next_item;
    }
}

template <int KIND, int MT, int NT, bool EXPERTS>
static enum status launch(struct backend *be, const struct scaled_experts *e)
{
    using shape = rows_shape<MT, NT>;
    const int64_t groups = (e->job.m.n + 16 * MT - 1) / (16 * MT);
    const int64_t items = EXPERTS ? groups * max_tiles(&e->groups) : groups;
    const int64_t at_once = (int64_t)be->n_sm * shape::per_sm;
    return LAUNCH_DEPENDENT(be, (scaled_rows_kernel<KIND, MT, NT, EXPERTS>),
                            (unsigned)(items < at_once ? items : at_once), WARPS * 32,
                            2 * WARPS * shape::part * sizeof(float), *e);
}

template <int KIND>
static enum status launch_linear(struct backend *be, const struct scaled_job *job)
{
    struct scaled_experts e = {};
    e.job = *job;
    if (job->n_tokens <= 8)
        return launch<KIND, 1, 1, false>(be, &e);
    return job->n_tokens <= 16 ? launch<KIND, 2, 2, false>(be, &e)
                               : launch<KIND, 2, 4, false>(be, &e);
}

extern "C" enum status scaled_rows(struct backend *be, const struct scaled_job *job)
{
    switch (job->m.at.kind) {
    case SCALED_E4M3:
        return launch_linear<SCALED_E4M3>(be, job);
    case SCALED_SMALL:
        return launch_linear<SCALED_SMALL>(be, job);
    default:
        return launch_linear<SCALED_LEVELS>(be, job);
    }
}

extern "C" enum status scaled_moe_rows(struct backend *be, const struct scaled_experts *e)
{
    static_assert(MOE_ROWS_TILE == 16, "two tiles of 8 tokens");
    switch (e->job.m.at.kind) {
    case SCALED_E4M3:
        return launch<SCALED_E4M3, 1, 2, true>(be, e);
    case SCALED_SMALL:
        return launch<SCALED_SMALL, 1, 2, true>(be, e);
    default:
        return launch<SCALED_LEVELS, 1, 2, true>(be, e);
    }
}
