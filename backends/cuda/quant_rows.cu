/* Few tokens: a quantised matrix streams from memory into registers once, a lane for each row. */
#include "backends/cuda/linear_mma.h"
#include "backends/cuda/quant_device.h"

enum { WARPS = 8 };

/* Groups under way in a warp, and blocks at once, as registers allow. */
template <int NT> struct quant_rows_shape {
    static const int depth = NT == 1 ? 8 : NT <= 8 ? 4 : 2;
    static const int per_sm = 2;
};

/* A warp has a panel and a slice: a block WARPS / n_slices panels.  While a group is used, the next
 * ones are on their way; the first of them are loaded before the wait.
 * Shared memory: [WARPS][NT][QUANT_PANEL] f32.  Bytes: w once from memory; x [T, K] for each panel
 * from L1 or L2.  Bound by memory bandwidth up to some 8 tokens, then by instructions. */
template <int FORM, int NT>
KERNEL(WARPS * 32, quant_rows_shape<NT>::per_sm)
quant_rows_kernel(struct quant_job a)
{
    DYN_SMEM(float, part);
    constexpr int depth = quant_rows_shape<NT>::depth;
    const int warp = warp_id(), lane = lane_id(), per_block = WARPS / a.s.n_slices;
    const int slice = warp % a.s.n_slices, n_panels = (a.m.n + QUANT_PANEL - 1) / QUANT_PANEL;
    const int panel = (int)blockIdx.x * per_block + warp / a.s.n_slices;
    const struct slice_groups groups = slice_groups_of<FORM>(a.s, a.m.head, slice);
    const int32_t n = panel < n_panels ? groups.n : 0;
    struct group_reader<FORM> w = read_groups<FORM>(
        a.m, a.m.head, a.m.w + (size_t)panel * a.m.panel_bytes, groups.first, n > 0);
    struct quant_group<FORM> q[depth];
    UNROLL
    for (int i = 0; i < depth; i++)
        if (i < n)
            load_next<FORM>(q[i], a.m, w);
    pdl_wait(); /* w is never written in a step, x is */
    const size_t x_step = (size_t)a.n_tokens * QUANT_RECORD;
    const unsigned char *x = a.packed + (size_t)groups.x_at * x_step;
    float acc[NT] = {};
    for (int32_t g = 0; g < n; g += depth) {
        UNROLL
        for (int i = 0; i < depth; i++) {
            if (g + i >= n)
                break;
            add_group<FORM, NT>(acc, q[i], a.m, x, a.n_tokens);
            x += x_step;
            if (g + i + depth < n)
                load_next<FORM>(q[i], a.m, w);
        }
    }
    UNROLL
    for (int t = 0; t < NT; t++)
        part[(warp * NT + t) * QUANT_PANEL + lane] = acc[t];
    SYNC_THREADS(); /* the slices' sums are written */
    const int n_out = per_block * a.n_tokens * QUANT_PANEL;
    for (int e = (int)threadIdx.x; e < n_out; e += WARPS * 32) {
        const int in_block = e / (a.n_tokens * QUANT_PANEL), t = e / QUANT_PANEL % a.n_tokens;
        const int32_t row =
            ((int)blockIdx.x * per_block + in_block) * QUANT_PANEL + e % QUANT_PANEL;
        float stack[STACK_LEVELS], sum = 0.0f;
        for (int i = 0; i < a.s.n_slices; i++)
            sum = tree_push(
                stack, i,
                part[((in_block * a.s.n_slices + i) * NT + t) * QUANT_PANEL + e % QUANT_PANEL]);
        if (row < a.m.n)
            a.out[(size_t)t * a.out_stride + (size_t)row] = a.bias ? sum + a.bias[row] : sum;
    }
}

template <int FORM, int NT>
static enum status launch_nt(struct backend *be, const struct quant_job *job)
{
    const int64_t panels = (job->m.n + QUANT_PANEL - 1) / QUANT_PANEL;
    return LAUNCH_DEPENDENT(be, (quant_rows_kernel<FORM, NT>),
                            (unsigned)blocks_for(panels, WARPS / job->s.n_slices), WARPS * 32,
                            WARPS * NT * QUANT_PANEL * sizeof(float), *job);
}

template <int FORM> static enum status launch_rows(struct backend *be, const struct quant_job *job)
{
    if (job->n_tokens == 1)
        return launch_nt<FORM, 1>(be, job);
    return job->n_tokens <= 8 ? launch_nt<FORM, 8>(be, job)
                              : launch_nt<FORM, QUANT_ROWS_MAX>(be, job);
}

extern "C" enum status quant_rows(struct backend *be, const struct quant_job *job)
{
    switch (job->m.form) {
    case 2:
        return launch_rows<2>(be, job);
    case 3:
        return launch_rows<3>(be, job);
    case 4:
        return launch_rows<4>(be, job);
    case 5:
        return launch_rows<5>(be, job);
    case 6:
        return launch_rows<6>(be, job);
    case 4 + QUANT_SORTED:
        return launch_rows<4 + QUANT_SORTED>(be, job);
    case 8 + QUANT_SORTED:
        return launch_rows<8 + QUANT_SORTED>(be, job);
    default:
        return launch_rows<8>(be, job);
    }
}
