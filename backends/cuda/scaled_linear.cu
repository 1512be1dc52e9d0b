/* linear and embed of matrices with scales in f32. */
#include "backends/cuda/linear_mma.h"
#include "backends/cuda/scaled_device.h"

enum { WARPS = SCALED_WARPS, THREADS = WARPS * 32, EMBED_THREADS = 256 };

/* Few tokens.  Grid: groups of panels x tiles of NT tokens, those of the same panels next to each other.  A warp
 * has a panel, a slice and NT tokens, so a block WARPS / n_slices panels.
 * Shared memory: [WARPS][NT][32] f32, of x and then of the slices' sums.  Bytes: w once from memory,
 * from L2 for each further tile of tokens; x [T, K] for each panel from L1 or L2.  Bound by memory
 * bandwidth, or the chain's latency (4 K cycles), at a token; else by the fp32 units: a code costs
 * some 8 instructions to widen, and one more a token. */
template <int KIND, int NT>
KERNEL(WARPS * 32, 2)
scaled_kernel(struct scaled_job a, int32_t n_tiles)
{
    SHARED(float, tile, [WARPS][NT][SCALED_CHUNK]);
    SHARED(float, levels, [16]);
    const int warp = warp_id(), lane = lane_id(), per_block = WARPS / a.k.n_slices;
    const int slice = warp % a.k.n_slices, n_panels = (a.m.n + SCALED_PANEL - 1) / SCALED_PANEL;
    const int group = (int)blockIdx.x / n_tiles;
    const int32_t token0 = (int32_t)blockIdx.x % n_tiles * NT, left = a.n_tokens - token0;
    const int n_tokens = left < NT ? left : NT, panel = group * per_block + warp / a.k.n_slices;
    const int32_t begin = a.k.col[slice];
    float acc[NT] = {};
    stage_levels(levels, a.m);
    SYNC_THREADS(); /* levels are written */
    scaled_chain<KIND, NT, true>(acc, a.m, a.m.w + (size_t)panel * a.m.at.panel_bytes, begin,
                                 panel < n_panels ? a.k.col[slice + 1] : begin,
                                 a.rows ? a.x : a.x + (size_t)token0 * a.x_stride, a.x_stride,
                                 a.rows ? a.rows + token0 : nullptr, n_tokens, levels, tile[warp]);
    sync_warp(); /* the last chunk has been read */
    UNROLL
    for (int t = 0; t < NT; t++)
        tile[warp][t][lane] = acc[t];
    SYNC_THREADS(); /* the slices' sums are written */
    for (int e = (int)threadIdx.x; e < per_block * n_tokens * SCALED_PANEL; e += WARPS * 32) {
        const int in_block = e / (n_tokens * SCALED_PANEL), t = e / SCALED_PANEL % n_tokens;
        const int32_t row = (group * per_block + in_block) * SCALED_PANEL + e % SCALED_PANEL;
        float stack[STACK_LEVELS], sum = 0.0f;
        for (int i = 0; i < a.k.n_slices; i++)
            sum = tree_push(stack, i, tile[in_block * a.k.n_slices + i][t][e % SCALED_PANEL]);
        if (row < a.m.n)
            a.out[(size_t)(token0 + t) * a.out_stride + (size_t)row] =
                a.bias ? sum + a.bias[row] : sum;
    }
}

template <int KIND, int NT>
static enum status launch_nt(struct backend *be, const struct scaled_job *job)
{
    const int64_t panels = (job->m.n + SCALED_PANEL - 1) / SCALED_PANEL;
    const int32_t n_tiles = (job->n_tokens + NT - 1) / NT;
    return LAUNCH_DEPENDENT(be, (scaled_kernel<KIND, NT>),
                            (unsigned)blocks_for(panels, WARPS / job->k.n_slices) *
                                (unsigned)n_tiles,
                            WARPS * 32, 0, *job, n_tiles);
}

/* A tile of TILE_ROWS rows and 16 NT tokens; a thread has EACH rows and NT tokens of it. */
enum { TILE_ROWS = 64, EACH = 4, W_PITCH = TILE_ROWS + 4 };
static_assert(TILE_ROWS / EACH * 16 == THREADS, "every thread has its outputs");
static_assert(THREADS == 4 * TILE_ROWS, "a row has four threads, of eight columns each");

template <int NT> struct many_shape {
    static const int tokens = 16 * NT, x_pitch = tokens + 4;
    static const int x_each =
        tokens / WARPS; /* of x that a thread loads: one of every WARPS tokens */
};

/* What a thread loads of a chunk: the codes of columns 4 q to 4 q + 3 and 16 more of its row, and x. */
template <int KIND, int NT> struct tile_part {
    uint32_t codes[scaled_shape<KIND>::runs];
    float x[many_shape<NT>::x_each];
};

/* A block's tile of the output. */
struct many_tile {
    int32_t token0, n_tokens;
    const unsigned char *panel; /* of the thread's row */
};

template <int KIND, int NT>
DEVICE void load_part(struct tile_part<KIND, NT> &p, const struct scaled_job &a,
                      const struct many_tile &tile, int32_t chunk, int32_t begin, int32_t end)
{
    constexpr int runs = scaled_shape<KIND>::runs;
    const int q = (int)threadIdx.x / TILE_ROWS, row = (int)threadIdx.x % SCALED_PANEL;
    const int32_t col = chunk * SCALED_CHUNK + lane_id();
    UNROLL
    for (int i = 0; i < runs; i++)
        p.codes[i] =
            *(const uint32_t *)(tile.panel + a.m.at.codes_at +
                                (((size_t)chunk * runs + i) * SCALED_PANEL + (size_t)row) * 16 +
                                4 * q);
    UNROLL
    for (int i = 0; i < many_shape<NT>::x_each; i++) {
        const int32_t t = warp_id() + i * WARPS;
        const bool there = t < tile.n_tokens && col >= begin && col < end;
        const size_t token = (size_t)(tile.token0 + (there ? t : 0));
        p.x[i] = there ? a.x[(a.rows ? (size_t)a.rows[token] : token) * a.x_stride + (size_t)col]
                       : -0.0f;
    }
}

/* The chunk's weights and x to shared memory; columns outside [begin, end) as in scaled_chain. */
template <int KIND, int NT>
DEVICE void store_tiles(float (&w)[SCALED_CHUNK][W_PITCH],
                        float (&x)[SCALED_CHUNK][many_shape<NT>::x_pitch],
                        const struct tile_part<KIND, NT> &p, struct held_scale &held,
                        const struct scaled_matrix &m, const struct many_tile &tile, int32_t chunk,
                        int32_t begin, int32_t end, const float *levels)
{
    const int q = (int)threadIdx.x / TILE_ROWS, row = (int)threadIdx.x % TILE_ROWS;
    UNROLL
    for (int i = 0; i < 8; i++) {
        const int at = i / 4 * 16 + 4 * q + i % 4;
        const int32_t col = chunk * SCALED_CHUNK + at;
        const uint32_t word = scaled_shape<KIND>::bytes ? p.codes[i / 4 % scaled_shape<KIND>::runs]
                                                        : p.codes[0] >> i / 4 * 4 & 0x0f0f0f0fU;
        int32_t group = 0;
        if (scaled_shape<KIND>::indexed)
            group = ((const uint16_t *)(tile.panel + m.at.index_at))[col];
        hold_scale<KIND>(held, m, tile.panel, col, group, row % SCALED_PANEL);
        const float v = scaled_value<KIND>(word >> i % 4 * 8 & 255U, held, levels);
        w[at][row] = col >= begin && col < end ? v : 0.0f;
    }
    UNROLL
    for (int i = 0; i < many_shape<NT>::x_each; i++)
        x[lane_id()][warp_id() + i * WARPS] = p.x[i];
}

/* NT neighbours of a column of x in shared memory, at a multiple of NT elements. */
template <int NT> DEVICE void load_tokens(float (&v)[NT], const float *x)
{
    static_assert(NT == 1 || NT == 4, "one load");
    if constexpr (NT == 1) {
        v[0] = x[0];
    } else {
        const float4 f = ld_f32x4(x);
        v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
    }
}

/* Grid: tiles of rows x tiles of tokens, those of the same rows next to each other; a block goes through all slices.
 * As scaled_kernel, the same chains: weights are widened once for 16 NT tokens.
 * Shared memory: a chunk of columns of w and of x, f32; the next chunk is on its way in registers.  Bytes: w once
 * from memory, from L2 for each further tile of tokens; x for each tile of rows from L2.  Bound by the fp32 units:
 * two loads from shared memory for EACH x NT products, or by the widening (NT = 1). */
template <int KIND, int NT>
KERNEL(THREADS, 2)
scaled_many_kernel(struct scaled_job a, int32_t n_tiles)
{
    constexpr int most = many_shape<NT>::tokens;
    SHARED(float, w, [SCALED_CHUNK][W_PITCH]);
    SHARED(float, x, [SCALED_CHUNK][many_shape<NT>::x_pitch]);
    SHARED(float, levels, [16]);
    pdl_wait();
    stage_levels(levels, a.m); /* the first barrier of a chunk follows */
    const int32_t last = (a.m.n - 1) / SCALED_PANEL, token0 = (int32_t)blockIdx.x % n_tiles * most;
    const int32_t row0 = (int32_t)blockIdx.x / n_tiles * TILE_ROWS, left = a.n_tokens - token0;
    const int32_t mine = row0 / SCALED_PANEL + (int32_t)threadIdx.x % TILE_ROWS / SCALED_PANEL;
    const struct many_tile tile = {token0, left < most ? left : most,
                                   a.m.w +
                                       (size_t)(mine < last ? mine : last) * a.m.at.panel_bytes};
    const int r = (int)threadIdx.x % 16 * EACH, t = (int)threadIdx.x / 16 * NT;
    float stack[NT][EACH][STACK_LEVELS], total[NT][EACH] = {};
    for (int slice = 0; slice < a.k.n_slices; slice++) {
        const int32_t begin = a.k.col[slice], end = a.k.col[slice + 1];
        const int32_t first = begin / SCALED_CHUNK;
        const int32_t behind = begin < end ? (end - 1) / SCALED_CHUNK + 1 : first;
        float acc[NT][EACH] = {};
        struct held_scale held = {0.0f, 0.0f, -1};
        struct tile_part<KIND, NT> part;
        if (first < behind)
            load_part(part, a, tile, first, begin, end);
        NO_UNROLL
        for (int32_t chunk = first; chunk < behind; chunk++) {
            SYNC_THREADS(); /* the chunk before has been read, levels are written */
            store_tiles<KIND, NT>(w, x, part, held, a.m, tile, chunk, begin, end, levels);
            SYNC_THREADS(); /* the chunk is written */
            if (chunk + 1 < behind)
                load_part(part, a, tile, chunk + 1, begin, end);
            UNROLL
            for (int c = 0; c < SCALED_CHUNK; c++) {
                const float4 wc = ld_f32x4(&w[c][r]);
                const float of_w[EACH] = {wc.x, wc.y, wc.z, wc.w};
                float of_x[NT];
                load_tokens(of_x, &x[c][t]);
                UNROLL
                for (int o = 0; o < NT * EACH; o++)
                    acc[o / EACH][o % EACH] =
                        fmaf(of_x[o / EACH], of_w[o % EACH], acc[o / EACH][o % EACH]);
            }
        }
        UNROLL
        for (int o = 0; o < NT * EACH; o++)
            total[o / EACH][o % EACH] =
                tree_push(stack[o / EACH][o % EACH], slice, acc[o / EACH][o % EACH]);
    }
    UNROLL
    for (int o = 0; o < NT * EACH; o++) {
        const int32_t row = row0 + r + o % EACH, token = t + o / EACH;
        const float v = total[o / EACH][o % EACH];
        if (row < a.m.n && token < tile.n_tokens)
            a.out[(size_t)(token0 + token) * a.out_stride + (size_t)row] =
                a.bias ? v + a.bias[row] : v;
    }
}

template <int KIND, int NT>
static enum status launch_many(struct backend *be, const struct scaled_job *job)
{
    const int32_t n_tiles = blocks_for(job->n_tokens, many_shape<NT>::tokens);
    return LAUNCH_DEPENDENT(be, (scaled_many_kernel<KIND, NT>),
                            (unsigned)blocks_for(job->m.n, TILE_ROWS) * (unsigned)n_tiles, THREADS,
                            0, *job, n_tiles);
}

template <int KIND>
static enum status launch_linear(struct backend *be, const struct scaled_job *job)
{
    if (job->n_tokens == 1)
        return launch_nt<KIND, 1>(be, job);
    if (job->n_tokens <= 4)
        return launch_nt<KIND, 4>(be, job);
    return job->n_tokens <= 16 ? launch_many<KIND, 1>(be, job) : launch_many<KIND, 4>(be, job);
}

extern "C" enum status scaled_linear(struct backend *be, const struct scaled_job *job)
{
    switch (job->m.at.kind) {
    case SCALED_E4M3:
        return launch_linear<SCALED_E4M3>(be, job);
    case SCALED_INT8:
        return launch_linear<SCALED_INT8>(be, job);
    case SCALED_INT4:
        return launch_linear<SCALED_INT4>(be, job);
    case SCALED_SMALL:
        return launch_linear<SCALED_SMALL>(be, job);
    default:
        return launch_linear<SCALED_LEVELS>(be, job);
    }
}

struct scaled_embed_args {
    struct scaled_matrix m;
    struct k_layout k;
    int32_t first_id, id_stride, out_stride;
    const int32_t *ids;
    float *out;
};

/* Where column col is stored. */
DEVICE int32_t stored_column(const struct scaled_embed_args &a, int32_t col)
{
    int32_t slice = 0;
    while (col >= a.k.col[slice + 1])
        slice++;
    const int32_t first = a.k.col[slice];
    return a.k.at[slice] + (a.m.at.skip + first) % a.m.at.block + col - first;
}

/* Of SMALL with mma: the scale of the block that has a column stored at `at`. */
DEVICE float small_scale_at(const unsigned char *panel, int32_t at, int lane)
{
    constexpr int cols = 2 * SCALED_STEP, blocks = cols / SCALED_SMALL_BLOCK;
    const unsigned char *scales = panel + 3 * SCALED_PANEL * sizeof(float);
    const float *f = (const float *)panel + lane;
    const size_t of_lane = ((size_t)(at / cols) * SCALED_PANEL + (size_t)lane) * blocks;
    return f32_of_e4m3(scales[of_lane + (size_t)(at % cols / SCALED_SMALL_BLOCK)]) * f[0] /
           f[SCALED_PANEL];
}

/* Of LEVELS with mma: the code of a column stored at `at`, and its scale. */
DEVICE uint32_t level_code_at(const struct scaled_matrix &m, const unsigned char *panel, int32_t at,
                              int lane, float &scale)
{
    constexpr int cols = 2 * SCALED_HALF;
    const int half = at % cols / SCALED_HALF, in_half = at % SCALED_HALF;
    const size_t run = (size_t)(at / cols * 4 + in_half / 16);
    const unsigned char *codes = panel + m.at.codes_at + (run * SCALED_PANEL + (size_t)lane) * 16;
    scale = ((const float *)
                 panel)[((size_t)(at / cols) * SCALED_PANEL + (size_t)lane) * 2 + (size_t)half];
    return codes[in_half % 16 / 4 * 4 + 2 * half + in_half % 4 / 2] >> in_half % 2 * 4 & 15U;
}

/* grid (T, K / EMBED_THREADS): a thread has one column.  Bytes: the row's codes and scales, + 4 K. */
template <int KIND> KERNEL(EMBED_THREADS) scaled_embed_kernel(struct scaled_embed_args a)
{
    SHARED(float, levels, [16]);
    pdl_wait();
    stage_levels(levels, a.m);
    SYNC_THREADS(); /* levels are written */
    const int32_t col = (int32_t)(blockIdx.y * EMBED_THREADS + threadIdx.x);
    const int64_t row = (int64_t)a.ids[(int64_t)blockIdx.x * a.id_stride] - a.first_id;
    if (col >= a.m.k)
        return;
    float value = 0.0f;
    if (row >= 0 && row < a.m.n) {
        const unsigned char *panel = a.m.w + (size_t)(row / SCALED_PANEL) * a.m.at.panel_bytes;
        const int lane = (int)(row % SCALED_PANEL);
        const int32_t at = a.m.at.mma ? stored_column(a, col) : col;
        const int32_t run = at / (scaled_shape<KIND>::bytes ? 16 : SCALED_CHUNK);
        uint32_t code = panel[a.m.at.codes_at + (size_t)run * SCALED_RUN_BYTES + (size_t)lane * 16 +
                              (size_t)(at % 16)];
        if (!scaled_shape<KIND>::bytes)
            code = code >> at / 16 % 2 * 4 & 15U;
        int32_t group = 0;
        if (scaled_shape<KIND>::indexed)
            group = ((const uint16_t *)(panel + a.m.at.index_at))[col];
        struct held_scale held = {0.0f, 0.0f, -1};
        if (KIND == SCALED_LEVELS && a.m.at.mma)
            code = level_code_at(a.m, panel, at, lane, held.scale);
        else if (KIND == SCALED_SMALL && a.m.at.mma)
            held.scale = small_scale_at(panel, at, lane);
        else
            hold_scale<KIND>(held, a.m, panel, col, group, lane);
        value = scaled_value<KIND>(code, held, levels) + 0.0f;
    }
    a.out[(int64_t)blockIdx.x * a.out_stride + col] = value;
}

template <int KIND>
static enum status launch_embed(struct backend *be, const struct scaled_embed_args *a,
                                int32_t n_tokens)
{
    return LAUNCH_DEPENDENT(be, scaled_embed_kernel<KIND>,
                            dim3((unsigned)n_tokens, (unsigned)blocks_for(a->m.k, EMBED_THREADS)),
                            EMBED_THREADS, 0, *a);
}

extern "C" enum status scaled_embed(struct backend *be, const struct scaled_matrix *m,
                                    const struct k_layout *k, int32_t first_id, struct view ids,
                                    struct view out)
{
    const struct scaled_embed_args a = {
        *m, *k, first_id, ids.stride, out.stride, view_i32(ids), view_f32(out)};
    switch (m->at.kind) {
    case SCALED_E4M3:
        return launch_embed<SCALED_E4M3>(be, &a, out.rows);
    case SCALED_INT8:
        return launch_embed<SCALED_INT8>(be, &a, out.rows);
    case SCALED_INT4:
        return launch_embed<SCALED_INT4>(be, &a, out.rows);
    case SCALED_SMALL:
        return launch_embed<SCALED_SMALL>(be, &a, out.rows);
    default:
        return launch_embed<SCALED_LEVELS>(be, &a, out.rows);
    }
}
