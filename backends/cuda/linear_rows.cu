/* Few tokens: the rows of w stream from memory into registers once;
 * bandwidth is all that counts. */
#include "backends/cuda/linear_rows.h"
#include "backends/cuda/operand_device.h"
#include "backends/gpu/activated.h"

template <int N> struct slice_tree {
    float stack[N][STACK_LEVELS];
};

/* sum[i]: the slice's subtree; of the last slice all. */
template <int N> DEVICE void push_slice(struct slice_tree<N> &tree, float (&sum)[N], int slice)
{
    UNROLL
    for (int i = 0; i < N; i++)
        sum[i] = tree_push(tree.stack[i], slice, sum[i]);
}

template <int MT, int NT, int N>
DEVICE void write_out(const float (&total)[N], const struct linear_job &a, int32_t row0)
{
    UNROLL
    for (int i = 0; i < N; i++) {
        const int e = (int)threadIdx.x + i * WARPS * 32;
        const struct output_at at = output_of<NT>(e);
        const int32_t row = row0 + at.row;
        if (e < MT * NT * FRAG && row < a.n && at.token < a.n_tokens)
            a.out[(size_t)at.token * a.out_stride + (size_t)row] =
                a.bias ? total[i] + a.bias[row] : total[i];
    }
}

/* A block takes every gridDim.x-th group of rows of w (rows_of(i): those of group i) and all tokens
 * (8 NT at most), its warp i the segments i, i + WARPS, ...  While a segment is
 * used, the next one is on its way, also over the border of two groups.  Each round of WARPS
 * segments ends with one barrier, then all threads add the sums in order; write(i, total) takes those
 * of group i. */
template <class E, int MT, int NT, bool X32, class R, class W>
DEVICE void multiply_rows(float *smem, const struct linear_job &a, int n_groups, const R &rows_of,
                          const W &write)
{
    using shape = rows_shape<MT, NT>;
    constexpr int n_out = shape::n_out, depth = shape::depth;
    const int warp = warp_id(), rounds = (a.k.seg[a.k.n_slices] + WARPS - 1) / WARPS;
    struct w_step<MT> w[depth];
    struct segment s = segment_at(a.k, warp);
    float *part = smem;
    UNROLL
    for (int step = 0; step < depth; step++)
        load_w(w[step], a, rows_of((int)blockIdx.x), s, step);
    pdl_wait(); /* w is never written in a step, x is */
    for (int group = (int)blockIdx.x; group < n_groups; group += (int)gridDim.x) {
        const auto rows = rows_of(group);
        running_sums<shape::per_thread> sums = {};
        slice_tree<shape::per_thread> tree = {};
        const auto end = [&] { push_slice(tree, sums.sum, sums.slice); };
        for (int round = 0; round < rounds; round++) {
            const bool last = round == rounds - 1;
            const int next_group = last ? group + (int)gridDim.x : group;
            const auto next_rows = rows_of(next_group);
            struct segment next = segment_at(a.k, last ? warp : (round + 1) * WARPS + warp);
            if (next_group >= n_groups)
                next.n_chunks = 0;
            const float scale = E::scaled && X32 ? segment_scale(a, s) : 1.0f;
            float acc[MT][NT][4] = {};
            UNROLL
            for (int step = 0; step < SEG_STEPS; step++) {
                if (step * CHUNKS < s.n_chunks) {
                    if constexpr (X32)
                        step_x32<E, MT>(acc, w[step % depth], a, s, step, scale);
                    else
                        step_packed<E, MT, NT>(acc, w[step % depth], a, s, step);
                }
                if (step + depth < SEG_STEPS)
                    load_w(w[step % depth], a, rows, s, step + depth);
                else
                    load_w(w[step % depth], a, next_rows, next, step + depth - SEG_STEPS);
            }
            if (s.n_chunks > 0)
                store_sums<E, MT, NT, X32>(part + warp * n_out, acc, a, round * WARPS + warp,
                                           scale);
            SYNC_THREADS(); /* the round's sums are written, and the last but one's are read */
            add_segments(sums, part, n_out, a.k, round * WARPS, end);
            part = part == smem ? smem + WARPS * n_out : smem;
            s = next;
        }
        while (sums.slice < a.k.n_slices - 1)
            end_slice(sums, end);
        end();
        write(group, sums.sum);
    }
}

/* Grid: what runs at once at most; a group is 16 MT rows of w.
 * Shared memory: [2][WARPS][16 MT * 8 NT] f32.  Bytes: 2 N K (w) once from memory; x [T, K] for
 * each group of rows from L1 or L2.  Bound by memory bandwidth. */
template <class E, int MT, int NT, bool X32>
KERNEL(WARPS * 32, rows_shape<MT, NT>::per_sm)
rows_kernel(struct linear_job a)
{
    DYN_SMEM(float, smem);
    const auto rows_of = [&](int group) { return plain_rows{group * 16 * MT, a.n - 1}; };
    multiply_rows<E, MT, NT, X32>(
        smem, a, (a.n + 16 * MT - 1) / (16 * MT), rows_of,
        [&](int group, const auto &total) { write_out<MT, NT>(total, a, group * 16 * MT); });
}

/* The activation behind gate and up, of 8 MT columns of the hidden rows: to the operand, or to out [T, F]. */
template <int MT, int NT, int N>
DEVICE void write_hidden(const float (&total)[N], const struct linear_job &a, enum act act,
                         const struct operand &to, int32_t f0)
{
    const int32_t ffn = a.n / 2;
    UNROLL
    for (int i = 0; i < N; i++) {
        const int e = (int)threadIdx.x + i * WARPS * 32;
        const struct output_at at = output_of<NT>(e);
        const int32_t f = f0 + at.row / 16 * 8 + at.row % 8;
        float gate = total[i], up = shfl_down(total[i], 2); /* gate_up_rows: 8 rows further */
        if (e >= MT * NT * FRAG || at.row % 16 >= 8 || f >= ffn || at.token >= a.n_tokens)
            continue;
        if (a.bias) {
            gate += a.bias[f];
            up += a.bias[ffn + f];
        }
        const float v = activated(act, gate) * up;
        if (to.packed)
            put_bf16(to, at.token, f, v);
        else
            a.out[(size_t)at.token * a.out_stride + (size_t)f] = v;
    }
}

/* As rows_kernel; a group is 8 MT rows of gate and the 8 MT of up beside them. */
template <class E, int MT, int NT>
KERNEL(WARPS * 32, rows_shape<MT, NT>::per_sm)
hidden_rows_kernel(struct linear_job a, enum act act, struct operand to)
{
    DYN_SMEM(float, smem);
    const auto rows_of = [&](int group) { return gate_up_rows{group * 8 * MT, a.n / 2}; };
    multiply_rows<E, MT, NT, false>(smem, a, (a.n / 2 + 8 * MT - 1) / (8 * MT), rows_of,
                                    [&](int group, const auto &total) {
                                        write_hidden<MT, NT>(total, a, act, to, group * 8 * MT);
                                    });
}

template <class E, int MT, int NT, bool X32>
static enum status launch_rows(struct backend *be, const struct linear_job *job)
{
    using shape = rows_shape<MT, NT>;
    const int groups = (job->n + 16 * MT - 1) / (16 * MT), at_once = be->n_sm * shape::per_sm;
    return LAUNCH_DEPENDENT(be, (rows_kernel<E, MT, NT, X32>),
                            (unsigned)(groups < at_once ? groups : at_once), WARPS * 32,
                            2 * WARPS * shape::n_out * sizeof(float), *job);
}

template <int MT, int NT>
static enum status launch_hidden(struct backend *be, const struct linear_job *job, enum act act,
                                 const struct operand &to)
{
    using shape = rows_shape<MT, NT>;
    const int groups = (job->n / 2 + 8 * MT - 1) / (8 * MT), at_once = be->n_sm * shape::per_sm;
    return LAUNCH_DEPENDENT(be, (hidden_rows_kernel<elem_bf16, MT, NT>),
                            (unsigned)(groups < at_once ? groups : at_once), WARPS * 32,
                            2 * WARPS * shape::n_out * sizeof(float), *job, act, to);
}

enum status linear_hidden_rows(struct backend *be, const struct linear_job *job, enum act act,
                               const struct operand *to)
{
    if (job->n_tokens <= ROWS_MAX_X32)
        return launch_hidden<1, 1>(be, job, act, *to);
    return job->n_tokens <= ROWS_MAX / 2 ? launch_hidden<1, 2>(be, job, act, *to)
                                         : launch_hidden<2, 4>(be, job, act, *to);
}

enum status linear_rows_x32(struct backend *be, const struct linear_job *job)
{
    if (job->dtype == DT_BF16)
        return launch_rows<elem_bf16, 1, 1, true>(be, job);
    return launch_rows<elem_f16, 1, 1, true>(be, job);
}

enum status linear_rows(struct backend *be, const struct linear_job *job)
{
    bool bf16 = job->dtype == DT_BF16;
    if (job->n_tokens <= ROWS_MAX_X32)
        return bf16 ? launch_rows<elem_bf16, 1, 1, false>(be, job)
                    : launch_rows<elem_f16, 1, 1, false>(be, job);
    if (job->n_tokens <= ROWS_MAX / 2)
        return bf16 ? launch_rows<elem_bf16, 2, 2, false>(be, job)
                    : launch_rows<elem_f16, 2, 2, false>(be, job);
    return bf16 ? launch_rows<elem_bf16, 2, 4, false>(be, job)
                : launch_rows<elem_f16, 2, 4, false>(be, job);
}
