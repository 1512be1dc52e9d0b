/* Many tokens: tiles of the output on the matrix units, in 8-bit integers. */
#include "backends/cuda/linear_mma.h"
#include "backends/cuda/quant_device.h"

enum {
    THREADS = 256,
    TILE = 64,        /* rows of w, and tokens, of a block */
    STAGE = 4,        /* groups in shared memory */
    LINE = TILE + 8,  /* words of a quad: lanes 8 words apart are in different banks */
    WARP_TOKENS = 32, /* a warp has 16 rows and these */
    NT = WARP_TOKENS / 8,
};

/* [group][quad][row or token]: four elements a word; a's infos for each token.  8 bits of sorted columns: minus the zero
 * points in place of minima, the sums of a in place of d_sum. */
struct stage {
    uint32_t w[STAGE][QUADS][LINE], x[STAGE][QUADS][LINE];
    float scale[STAGE][2][TILE], minimum[STAGE][2][TILE];
    float d[STAGE][TILE], d_sum[STAGE][2][TILE];
};

/* Bytes v + low, v < 64 and -32 <= low <= 0, as int8. */
DEVICE uint32_t with_low(uint32_t v, int32_t low)
{
    return ((v | 0x80808080U) - (uint32_t)-low * 0x01010101U) ^ 0x80808080U;
}

/* Differences of 8-bit elements and zero points are no int8. */
template <int FORM> DEVICE constexpr bool sorted_bytes()
{
    return quant_form_of<FORM>::sorted && quant_form_of<FORM>::bits == 8;
}

/* A warp's group of one panel into the stage, as int8 q. */
template <int FORM>
DEVICE void stage_w(struct stage &to, const struct quant_matrix &m, int32_t panel, int32_t group,
                    int at, int half)
{
    const int row = half * QUANT_PANEL + lane_id();
    uint32_t v[QUADS] = {};
    float scale[2] = {}, minimum[2] = {};
    if (panel * QUANT_PANEL < m.n) {
        struct quant_group<FORM> q;
        load_group<FORM>(q, m, m.head, m.w + (size_t)panel * m.panel_bytes, group, lane_id());
        unpack_group(v, q, m);
        UNROLL
        for (int h = 0; h < quant_form_of<FORM>::halves; h++)
            scale[h] = scale_of(q, m, h, minimum[h]);
        const int32_t low = low_of<FORM>(q, m);
        if (sorted_bytes<FORM>())
            minimum[0] = (float)low;
        UNROLL
        for (int j = 0; j < QUADS; j++)
            v[j] = quant_form_of<FORM>::bits < 8 && low != 0 ? with_low(v[j], low) : v[j];
    }
    UNROLL
    for (int j = 0; j < QUADS; j++)
        to.w[at][j][row] = v[j];
    UNROLL
    for (int h = 0; h < quant_form_of<FORM>::halves; h++) {
        to.scale[at][h][row] = scale[h];
        to.minimum[at][h][row] = minimum[h];
    }
}

/* A thread's record of x into the stage: of a token, beyond the last the last one again. */
template <int FORM>
DEVICE void stage_x(struct stage &to, const struct quant_job &a, int32_t token0, int32_t group)
{
    const int t = (int)threadIdx.x % TILE, at = (int)threadIdx.x / TILE;
    const int32_t token = token0 + t < a.n_tokens ? token0 + t : a.n_tokens - 1;
    const unsigned char *record =
        a.packed + ((size_t)group * (size_t)a.n_tokens + (size_t)token) * QUANT_RECORD;
    const uint4 u = ld_128(record), w = ld_128(record + 16);
    const struct quant_info info = info_of(ld_128(record + QUANT_GROUP));
    const uint32_t v[QUADS] = {u.x, u.y, u.z, u.w, w.x, w.y, w.z, w.w};
    UNROLL
    for (int j = 0; j < QUADS; j++)
        to.x[at][j][t] = v[j];
    to.d[at][t] = info.d;
    to.d_sum[at][0][t] =
        quant_form_of<FORM>::halves == 1 ? info.d_sum : info.d * (float)info.sum[0];
    if (sorted_bytes<FORM>())
        to.d_sum[at][0][t] = (float)(info.sum[0] + info.sum[1]);
    if (quant_form_of<FORM>::halves == 2)
        to.d_sum[at][1][t] = info.d * (float)info.sum[1];
}

/* acc of a warp's 16 rows from `row` and its tokens from `token` on, after a group. */
template <int FORM>
DEVICE void add_group(float (&acc)[NT][4], const struct stage &s, int at, int row, int token,
                      bool has_minimum)
{
    constexpr int halves = quant_form_of<FORM>::halves;
    const int g = lane_id() >> 2, t = lane_id() & 3;
    const uint32_t lo[2] = {s.w[at][t][row + g], s.w[at][t][row + 8 + g]};
    const uint32_t hi[2] = {s.w[at][4 + t][row + g], s.w[at][4 + t][row + 8 + g]};
    UNROLL
    for (int j = 0; j < NT; j++) {
        const int at_token = token + 8 * j;
        const uint32_t b[2] = {s.x[at][t][at_token + g], s.x[at][4 + t][at_token + g]};
        int32_t sum[halves][4] = {};
        if constexpr (halves == 1) {
            const uint32_t whole[4] = {lo[0], lo[1], hi[0], hi[1]};
            mma_m16n8k32_s8(sum[0], whole, b);
        } else {
            mma_m16n8k16_s8(sum[0], lo, b[0]);
            mma_m16n8k16_s8(sum[1], hi, b[1]);
        }
        UNROLL
        for (int h = 0; h < halves; h++) {
            UNROLL
            for (int i = 0; i < 4; i++) {
                const int r = row + g + i / 2 * 8, c = at_token + 2 * t + i % 2;
                float dot = (float)sum[h][i];
                if (sorted_bytes<FORM>()) /* exact: below 2^24 */
                    dot = fmaf(s.minimum[at][h][r], s.d_sum[at][h][c], dot);
                acc[j][i] = fmaf(dot, s.scale[at][h][r] * s.d[at][c], acc[j][i]);
                if (has_minimum)
                    acc[j][i] = fmaf(s.minimum[at][h][r], s.d_sum[at][h][c], acc[j][i]);
            }
        }
    }
}

/* Grid: tiles of TILE rows x TILE tokens, those of the same rows next to each other, so that w comes
 * from memory once and x stays in L2.  A warp unpacks one group of a panel at a time, a thread
 * stages one record of x.
 * Registers: sums of a slice, and those that wait in the tree, 16 times 4.
 * Bytes: w and x once from memory; from L2 w for each tile of tokens, 1.5 T K for each tile of rows.
 * Bound by the fp32 work on the sums: some 16 instructions for each mma. */
template <int FORM> KERNEL(THREADS, 2) quant_tiles_kernel(struct quant_job a, int32_t n_tiles_t)
{
    SHARED(struct stage, s, [1]);
    pdl_wait();
    const int warp = warp_id();
    const int32_t row0 = (int32_t)blockIdx.x / n_tiles_t * TILE;
    const int32_t token0 = (int32_t)blockIdx.x % n_tiles_t * TILE;
    const int row = warp % (TILE / 16) * 16, token = warp / (TILE / 16) * WARP_TOKENS;
    const bool has_minimum = a.m.minimum != MINIMUM_NONE;
    float total[NT][4] = {}, stack[NT][4][STACK_LEVELS];
    for (int slice = 0; slice < a.s.n_slices; slice++) {
        const struct slice_groups groups = slice_groups_of<FORM>(a.s, a.m.head, slice);
        const int32_t first = groups.first, x_at = groups.x_at, n = groups.n;
        float acc[NT][4] = {};
        for (int32_t g = 0; g < n; g += STAGE) {
            const int in_stage = n - g < STAGE ? n - g : STAGE;
            SYNC_THREADS(); /* the stage has been read */
            if (warp / 2 < in_stage)
                stage_w<FORM>(s[0], a.m, row0 / QUANT_PANEL + warp % 2, first + g + warp / 2,
                              warp / 2, warp % 2);
            if ((int)threadIdx.x / TILE < in_stage)
                stage_x<FORM>(s[0], a, token0, x_at + g + (int)threadIdx.x / TILE);
            SYNC_THREADS(); /* the stage is written */
            for (int i = 0; i < in_stage; i++)
                add_group<FORM>(acc, s[0], i, row, token, has_minimum);
        }
        UNROLL
        for (int j = 0; j < NT; j++) {
            UNROLL
            for (int i = 0; i < 4; i++)
                total[j][i] = tree_push(stack[j][i], slice, acc[j][i]);
        }
    }
    UNROLL
    for (int j = 0; j < NT; j++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            const int32_t r = row0 + row + (lane_id() >> 2) + i / 2 * 8;
            const int32_t t = token0 + token + 8 * j + 2 * (lane_id() & 3) + i % 2;
            if (r < a.m.n && t < a.n_tokens)
                a.out[(size_t)t * a.out_stride + (size_t)r] =
                    a.bias ? total[j][i] + a.bias[r] : total[j][i];
        }
    }
}

template <int FORM> static enum status launch_tiles(struct backend *be, const struct quant_job *job)
{
    const int32_t n_tiles_t = (job->n_tokens + TILE - 1) / TILE;
    const int64_t tiles = (int64_t)((job->m.n + TILE - 1) / TILE) * n_tiles_t;
    return LAUNCH_DEPENDENT(be, quant_tiles_kernel<FORM>, (unsigned)tiles, THREADS, 0, *job,
                            n_tiles_t);
}

extern "C" enum status quant_tiles(struct backend *be, const struct quant_job *job)
{
    switch (job->m.form) {
    case 2:
        return launch_tiles<2>(be, job);
    case 3:
        return launch_tiles<3>(be, job);
    case 4:
        return launch_tiles<4>(be, job);
    case 5:
        return launch_tiles<5>(be, job);
    case 6:
        return launch_tiles<6>(be, job);
    case 4 + QUANT_SORTED:
        return launch_tiles<4 + QUANT_SORTED>(be, job);
    case 8 + QUANT_SORTED:
        return launch_tiles<8 + QUANT_SORTED>(be, job);
    default:
        return launch_tiles<8>(be, job);
    }
}
