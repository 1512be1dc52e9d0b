/* Mixtures of experts: the pairs by expert, and a token's experts together again. */
#include "backends/cuda/linear_mma.h"
#include "backends/cuda/moe_kernels.h"

enum { THREADS = 256, N_WARPS = THREADS / 32 };

/* Thread j: is pair first + j one of expert e? */
DEVICE bool pair_is(const struct moe_groups &g, const int32_t *ids, int32_t id_stride, int32_t pair,
                    int32_t e)
{
    return pair < g.n_tokens * g.top_k &&
           ids[(size_t)(pair / g.top_k) * (size_t)id_stride + pair % g.top_k] == e;
}

/* Expert e's rows, from row `at` on, in the order of the pairs. */
DEVICE void place_pairs(const struct moe_groups &g, const int32_t *ids, int32_t id_stride,
                        int32_t e, int32_t at)
{
    SHARED(int32_t, of_warp, [2][N_WARPS]);
    const int32_t n_pairs = g.n_tokens * g.top_k;
    for (int32_t first = 0, turn = 0; first < n_pairs; first += THREADS, turn ^= 1) {
        const int32_t pair = first + (int32_t)threadIdx.x;
        const bool mine = pair_is(g, ids, id_stride, pair, e);
        const uint32_t lanes = warp_ballot(mine);
        if (lane_id() == 0)
            of_warp[turn][warp_id()] = popcount(lanes);
        SYNC_THREADS(); /* the counts are written, and those of two turns ago are read */
        int32_t row = at + popcount(lanes & ((1U << lane_id()) - 1));
        for (int w = 0; w < N_WARPS; w++) {
            row += w < warp_id() ? of_warp[turn][w] : 0;
            at += of_warp[turn][w];
        }
        if (mine) {
            g.token[row] = pair / g.top_k;
            g.row[pair] = row;
        }
    }
}

/* Grid: E; block e counts all pairs and places those of expert e.  Atomics count only.
 * Bytes: 8 P for each expert, from L2.  Bound by latency. */
KERNEL(THREADS) moe_group_kernel(struct moe_groups g, const int32_t *ids, int32_t id_stride)
{
    SHARED(uint32_t, n, [MOE_MAX_EXPERTS]);
    SHARED(uint32_t, before, [2]); /* rows and tiles of the experts before e */
    const int32_t e = (int32_t)blockIdx.x, n_pairs = g.n_tokens * g.top_k;
    pdl_wait();
    for (int32_t i = (int32_t)threadIdx.x; i < g.n_experts; i += THREADS)
        n[i] = 0;
    if (threadIdx.x < 2)
        before[threadIdx.x] = 0;
    SYNC_THREADS(); /* the counters are zero */
    for (int32_t i = (int32_t)threadIdx.x; i < n_pairs; i += THREADS)
        atomic_add_u32(&n[ids[(size_t)(i / g.top_k) * (size_t)id_stride + i % g.top_k]], 1);
    SYNC_THREADS(); /* every expert's pairs are counted */
    const uint32_t tile_rows = (uint32_t)g.tile_rows;
    for (int32_t i = (int32_t)threadIdx.x; i < e; i += THREADS)
        if (n[i] > 0) {
            atomic_add_u32(&before[0], n[i]);
            atomic_add_u32(&before[1], (n[i] + tile_rows - 1) / tile_rows);
        }
    SYNC_THREADS(); /* before is written */
    const int32_t start = (int32_t)before[0], first = (int32_t)before[1];
    const int32_t rows = (int32_t)n[e], tiles = (rows + g.tile_rows - 1) / g.tile_rows;
    if (threadIdx.x == 0) {
        g.start[e] = start;
        g.first_tile[e] = first;
        if (e + 1 == g.n_experts) {
            g.start[e + 1] = start + rows;
            g.first_tile[e + 1] = first + tiles;
        }
    }
    for (int32_t i = (int32_t)threadIdx.x; i < tiles; i += THREADS)
        g.expert[first + i] = e;
    if (rows > 0)
        place_pairs(g, ids, id_stride, e, start);
}

enum status moe_group(struct backend *be, const struct moe_groups *g, const int32_t *ids,
                      int32_t id_stride)
{
    return LAUNCH_DEPENDENT(be, moe_group_kernel, (unsigned)g->n_experts, THREADS, 0, *g, ids,
                            id_stride);
}

/* The token's rows and weights, in ascending order of its experts: that of the rows. */
DEVICE void sort_rows(const struct moe_sums &s, int32_t token, int32_t *row, float *weight)
{
    const int i = lane_id();
    const bool real = i < s.top_k;
    const int32_t mine = real ? s.row[token * s.top_k + i] : INT32_MAX;
    int place = 0;
    for (int j = 0; j < s.top_k; j++)
        place += shfl(mine, j) < mine;
    if (real) {
        row[place] = mine;
        weight[place] =
            s.weights ? s.weights[(size_t)token * (size_t)s.weight_stride + (size_t)i] : 1.0f;
    }
}

static_assert(MOE_MAX_TOP_K <= 32, "a lane for each expert of a token");
static_assert((int)N_SLICES <= (int)N_WARPS, "a warp for each slice");
static_assert(MOE_SUMS_COLS == 32 * 4, "four columns a lane");

/* Grid: [T, n / MOE_SUMS_COLS]; warp s adds the experts within slice s, then the slices are added.
 * Bytes: 4 n_slices k n a token read, 4 n written; from L2 where the parts fit.  Bound by memory.
 */
KERNEL(THREADS) moe_add_kernel(struct moe_sums s)
{
    SHARED(float, acc, [N_SLICES][MOE_SUMS_COLS]);
    SHARED(int32_t, row, [MOE_MAX_TOP_K]);
    SHARED(float, weight, [MOE_MAX_TOP_K]);
    const int32_t token = (int32_t)blockIdx.x, col0 = (int32_t)blockIdx.y * MOE_SUMS_COLS;
    const int32_t slice = warp_id(), col = col0 + 4 * lane_id();
    pdl_wait();
    if (warp_id() == 0)
        sort_rows(s, token, row, weight);
    SYNC_THREADS(); /* row and weight are written */
    if (slice < s.n_slices && col < s.n) {
        const float *part = s.part +
                            (size_t)slice * (size_t)s.n_tokens * (size_t)s.top_k * s.part_stride +
                            (size_t)col;
        float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int i = 0; i < s.top_k; i++) {
            const float4 v = ld_f32x4(part + (size_t)row[i] * s.part_stride);
            sum = {fmaf(weight[i], v.x, sum.x), fmaf(weight[i], v.y, sum.y),
                   fmaf(weight[i], v.z, sum.z), fmaf(weight[i], v.w, sum.w)};
        }
        st_f32x4(&acc[slice][4 * lane_id()], sum);
    }
    SYNC_THREADS(); /* acc is written */
    const int c = (int)threadIdx.x;
    if (c < MOE_SUMS_COLS && col0 + c < s.n) {
        float stack[STACK_LEVELS], sum = 0.0f;
        for (int i = 0; i < s.n_slices; i++)
            sum = tree_push(stack, i, acc[i][c]);
        s.out[(size_t)token * (size_t)s.out_stride + (size_t)(col0 + c)] = sum;
    }
}

enum status moe_add(struct backend *be, const struct moe_sums *s)
{
    const dim3 grid((unsigned)s->n_tokens, (unsigned)blocks_for(s->n, MOE_SUMS_COLS));
    return LAUNCH_DEPENDENT(be, moe_add_kernel, grid, THREADS, 0, *s);
}
