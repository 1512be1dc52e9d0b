/* Many tokens: tiles of the output, cut by groups of slices where they are too few. */
#include "backends/cuda/linear_tiles.h"

struct tiles_args {
    struct linear_job job;
    int n_tiles_t, n_items;  /* an item: a tile and slice_group of the slices */
    int groups, slice_group; /* groups of slice_group slices each */
    int stack_levels;        /* log2(slice_group) */
    float *stack;            /* [gridDim.x][stack_levels][tile] sums that wait for a neighbour */
    float *partial;          /* [groups][T][N] if groups > 1: to be added by join_kernel */
};

/* Where one tile is. */
struct tile_at {
    int32_t row0, token0;
    int group;
};

DEVICE struct tile_at tile_of(const struct tiles_args &a, int item, int bn, int bt)
{
    const int tile = item / a.groups;
    return {tile / a.n_tiles_t * bn, tile % a.n_tiles_t * bt, item % a.groups};
}

/* A tile of sums on the stack: [MT * NT][THREADS][4].  Each thread reads what it wrote itself. */
template <int MT, int NT, typename F> DEVICE void each_vector(float *tile, F use)
{
    UNROLL
    for (int m = 0; m < MT; m++) {
        UNROLL
        for (int j = 0; j < NT; j++)
            use(m, j, tile + ((size_t)(m * NT + j) * THREADS + threadIdx.x) * 4);
    }
}

/* Slice i of n in the tree, as tree_push, for the whole tile. */
template <int MT, int NT>
DEVICE void push_slice(float (&sum)[MT][NT][4], float *stack, int i, int n)
{
    const size_t tile = (size_t)tile_shape<MT, NT>::bn * tile_shape<MT, NT>::bt;
    for (; i & 1; i /= 2, n /= 2, stack += tile)
        each_vector<MT, NT>(stack, [&](int m, int j, const float *p) {
            const float4 left = ld_f32x4(p);
            float(&s)[4] = sum[m][j];
            s[0] = left.x + s[0], s[1] = left.y + s[1];
            s[2] = left.z + s[2], s[3] = left.w + s[3];
        });
    if (i + 1 < n)
        each_vector<MT, NT>(stack, [&](int m, int j, float *p) {
            const float(&s)[4] = sum[m][j];
            st_f32x4(p, {s[0], s[1], s[2], s[3]});
        });
}

template <int MT, int NT>
DEVICE void write_tile(const struct tiles_args &a, const struct tile_at &at,
                       const float (&sum)[MT][NT][4])
{
    const struct linear_job &job = a.job;
    const bool whole = a.groups == 1;
    float *out =
        whole ? job.out : a.partial + (size_t)at.group * (size_t)job.n_tokens * (size_t)job.n;
    const size_t stride = whole ? job.out_stride : (size_t)job.n;
    const int32_t row0 = at.row0 + warp_id() % WARPS_N * 8 * NT + (lane_id() & 3) * 2;
    const int32_t token0 = at.token0 + warp_id() / WARPS_N * 16 * MT + (lane_id() >> 2);
    UNROLL
    for (int j = 0; j < NT; j++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            const int32_t row = row0 + 8 * j + i % 2;
            const float bias = whole && job.bias && row < job.n ? job.bias[row] : 0.0f;
            UNROLL
            for (int m = 0; m < MT; m++) {
                const int32_t token = token0 + 16 * m + i / 2 * 8;
                const float v = sum[m][j][i];
                if (row < job.n && token < job.n_tokens)
                    out[(size_t)token * stride + (size_t)row] = whole && job.bias ? v + bias : v;
            }
        }
    }
}

/* Grid: as many blocks as run at once; a block takes every gridDim.x-th item, a tile with one group
 * of slices.  Tiles of the same rows of w follow each other, so that w comes from memory once and x
 * stays in L2.  Shared memory: STAGES steps of w and x, filled by cp.async STAGES - 1 steps ahead.
 * Registers: the segment's and the slice's sums, 32 MT NT bytes each a thread.
 * Bytes: w and x once from memory, and from L2 (1 / bt + 1 / bn) 2 T N K; a border of slices writes
 * and reads a tile of sums in L2.  Bound by tensor cores and L2 (large T) or memory (small T). */
template <class E, int MT, int NT>
KERNEL(THREADS, tile_shape<MT, NT>::per_sm)
tiles_kernel(struct tiles_args a)
{
    DYN_SMEM(unsigned char, smem);
    using shape = tile_shape<MT, NT>;
    const struct k_layout &k = a.job.k;
    pdl_wait();
    float *stack = a.stack + (size_t)blockIdx.x * (size_t)a.stack_levels * shape::bn * shape::bt;
    for (int item = (int)blockIdx.x; item < a.n_items; item += (int)gridDim.x) {
        const struct tile_at at = tile_of(a, item, shape::bn, shape::bt);
        const int first = at.group * a.slice_group, n_slices = a.slice_group;
        const int32_t end = k.at[first + n_slices] / K_STEP;
        struct tile_cursor cursor = {k.at[first] / K_CHUNK, -1};
        const plain_source from = plain_source_of(a.job, at.row0, at.token0);
        SYNC_THREADS(); /* the stages of the item before have been read */
        for (int i = 0; i < STAGES - 1; i++)
            load_stage<MT, NT>(smem, from, cursor.chunk / STEP_CHUNKS + i, end);
        float sum[MT][NT][4], acc[MT][NT][4] = {};
        for (int i = 0; i < n_slices; i++) {
            slice_sums<E, MT, NT, false>(sum, acc, smem, a.job, from, at.token0, first + i, cursor,
                                         end);
            push_slice<MT, NT>(sum, stack, i, n_slices);
        }
        write_tile<MT, NT>(a, at, sum);
    }
}

/* Grid: T blocks; adds the groups' partial sums and the bias.  Bytes: (groups + 1) T N 4, in L2. */
KERNEL(THREADS) join_kernel(struct tiles_args a)
{
    pdl_wait();
    const struct linear_job &job = a.job;
    const size_t n = (size_t)job.n, token = blockIdx.x, part = (size_t)job.n_tokens * n;
    for (size_t row = threadIdx.x; row < n; row += THREADS) {
        float stack[STACK_LEVELS], sum = 0.0f;
        for (int i = 0; i < a.groups; i++)
            sum = tree_push(stack, i, a.partial[(size_t)i * part + token * n + row]);
        job.out[token * job.out_stride + row] = job.bias ? sum + job.bias[row] : sum;
    }
}

/* Sums of one multiprocessor: the stacks of its blocks, or with groups of slices smaller stacks and
 * the partial sums of less than two tiles a block that runs. */
enum { SUMS_BYTES = 4 * 128 * 128 * 4 };

size_t linear_sums_bytes(const struct backend *be)
{
    return (size_t)be->n_sm * SUMS_BYTES;
}

template <class E, int MT, int NT>
static enum status launch_tiles(struct backend *be, const struct linear_job *job)
{
    using shape = tile_shape<MT, NT>;
    const int at_once = be->n_sm * shape::per_sm;
    const int n_tiles_t = (job->n_tokens + shape::bt - 1) / shape::bt;
    const int n_tiles = (job->n + shape::bn - 1) / shape::bn * n_tiles_t;
    struct tiles_args a = {};
    a.job = *job;
    a.n_tiles_t = n_tiles_t;
    for (a.groups = 1; a.groups < job->k.n_slices && n_tiles * a.groups < at_once;)
        a.groups *= 2;
    a.slice_group = job->k.n_slices / a.groups;
    a.n_items = n_tiles * a.groups;
    const int grid = a.n_items < at_once ? a.n_items : at_once;
    while (1 << a.stack_levels < a.slice_group)
        a.stack_levels++;
    a.stack = job->sums;
    a.partial = job->sums + (size_t)grid * (size_t)a.stack_levels * shape::bn * shape::bt;
    TRY(LAUNCH_DEPENDENT(be, (tiles_kernel<E, MT, NT>), (unsigned)grid, THREADS,
                         STAGES * shape::stage_bytes, a));
    if (a.groups == 1)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, join_kernel, (unsigned)job->n_tokens, THREADS, 0, a);
}

/* Large tiles where they, cut by slices, give every multiprocessor work. */
enum status linear_tiles(struct backend *be, const struct linear_job *job)
{
    const int64_t large = (int64_t)((job->n + 127) / 128) * ((job->n_tokens + 127) / 128);
    const bool bf16 = job->dtype == DT_BF16;
    if (job->n_tokens > 64 && large * job->k.n_slices >= be->n_sm)
        return bf16 ? launch_tiles<elem_bf16, 4, 4>(be, job)
                    : launch_tiles<elem_f16, 4, 4>(be, job);
    return bf16 ? launch_tiles<elem_bf16, 2, 2>(be, job) : launch_tiles<elem_f16, 2, 2>(be, job);
}
