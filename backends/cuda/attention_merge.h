/* Decodes whose keys are divided over the device: the numbers of the parts, and the kernel that merges
 * them as a prefill does on the way (attention_tile.h).  A part is KEYS keys of a sequence with one row,
 * from an absolute position on: a split, or, with PARTS = 1, a whole group of them.  Included by the
 * .cu files that write parts. */
#ifndef BACKENDS_CUDA_ATTENTION_MERGE_H
#define BACKENDS_CUDA_ATTENTION_MERGE_H

#include "backends/cuda/attention.h"

enum {
    MERGE_THREADS = 256,
    MERGE_LANES = 16, /* groups that a block merges at a time, at most */
};

/* Parts of KEYS keys of a sequence. */
template <int KEYS> DEVICE int splits_of(const attn_args &a, int seq)
{
    return (a.kv_len[seq] + KEYS - 1) / KEYS;
}

/* The first of them that has a key which the row of a sequence with one row sees: those before it are neither computed nor
 * merged. */
template <int KEYS> DEVICE int first_split(const attn_args &a, int seq)
{
    int lo, hi;
    if (a.window <= 0 && a.chunk <= 0)
        return 0;
    range_of(a, a.pos[a.q_start[seq]], &lo, &hi);
    return lo / KEYS;
}

/* Parts of sequences with one row among [0, n) that are computed; a warp's work. */
template <int KEYS> DEVICE int count_splits(const attn_args &a, int n)
{
    int c = 0;
    for (int s = lane_id(); s < n; s += 32)
        if (a.q_start[s + 1] - a.q_start[s] == 1)
            c += splits_of<KEYS>(a, s) - first_split<KEYS>(a, s);
    for (int d = 16; d > 0; d /= 2)
        c += shfl_xor(c, d);
    return c;
}

/* The pair of that number; false beyond the last. */
template <int KEYS> DEVICE bool find_split(const attn_args &a, int number, int *seq, int *split)
{
    for (int s0 = 0; s0 < a.n_seqs; s0 += 32) {
        int s = s0 + lane_id(), c = 0, first = 0;
        if (s < a.n_seqs && a.q_start[s + 1] - a.q_start[s] == 1) {
            first = first_split<KEYS>(a, s);
            c = splits_of<KEYS>(a, s) - first;
        }
        int end = c; /* inclusive sum over the lanes */
        for (int d = 1; d < 32; d *= 2) {
            int before = shfl(end, lane_id() >= d ? lane_id() - d : lane_id());
            end += lane_id() >= d ? before : 0;
        }
        uint32_t here = warp_ballot(number >= end - c && number < end);
        if (here) {
            int lane = 31 - count_leading_zeros(here & (0u - here));
            *seq = s0 + lane;
            *split = number - shfl(end - c - first, lane);
            return true;
        }
        number -= shfl(end, 31);
    }
    return false;
}

/* A merged sum of one (row, dim). */
struct merged {
    float m, l, o;
};

DEVICE void merge_into(merged &s, const merged &part)
{
    float a, b;
    merge_factors(s.m, s.l, part.m, part.l, &a, &b);
    s.o = merge_one(s.o, part.o, a, b);
}

/* Parts [from, n) of the `PARTS` of a group, all loaded before the first is used. */
template <int PARTS>
DEVICE merged merge_group(const float *part, ptrdiff_t step, int d, int c, int from, int n)
{
    merged p[PARTS], s = {-INFINITY, 0.0f, 0.0f};
    UNROLL for (int j = 0; j < PARTS; j++)
    {
        const float *at = part + j * step;
        const bool there = j >= from && j < n;
        p[j].m = there ? at[d] : -INFINITY;
        p[j].l = there ? at[d + 1] : 0.0f;
        p[j].o = there ? at[c] : 0.0f;
    }
    UNROLL for (int j = 0; j < PARTS; j++) merge_into(s, p[j]);
    return s;
}

/* Merges the parts of a sequence, PARTS of KEYS keys a group.  Grid (sequences, KV heads, parts of a KV head's rows x dims); the
 * threads of a block are (group, row x dim), so that `lanes` groups are merged at a time; then the
 * first lane's thread adds their sums.  Bound by latency: few parts, or few blocks. */
template <int KEYS, int PARTS> KERNEL(MERGE_THREADS, 4) attention_merge(attn_args a)
{
    SHARED(merged, sums, [MERGE_THREADS]);
    pdl_wait();
    int seq = (int)blockIdx.x, g = (int)blockIdx.y, h0, n_h = heads_of(a, g, &h0);
    int before = count_splits<KEYS>(a, seq), n = splits_of<KEYS>(a, seq), lanes = 1;
    if (a.q_start[seq + 1] - a.q_start[seq] != 1 || count_splits<KEYS>(a, a.n_seqs) > a.n_part)
        return;
    const int seen = first_split<KEYS>(a, seq), start = seen / PARTS * PARTS;
    while (lanes < MERGE_LANES && lanes * PARTS < n - start)
        lanes *= 2;
    const int per = MERGE_THREADS / lanes, lane = (int)threadIdx.x / per;
    const size_t row_size = (size_t)(a.d + 2);
    const ptrdiff_t step = (ptrdiff_t)((size_t)a.n_kv * (size_t)a.q_per_kv * row_size);
    for (int i0 = (int)blockIdx.z * per; i0 < n_h * a.d; i0 += (int)gridDim.z * per) {
        const int i = i0 + (int)threadIdx.x % per, r = i / a.d, c = i % a.d;
        const bool real = i < n_h * a.d;
        const float *part =
            a.part + ((size_t)before * (size_t)a.n_kv + (size_t)g) * (size_t)a.q_per_kv * row_size +
            (size_t)(real ? r : 0) * row_size;
        merged s = {-INFINITY, 0.0f, 0.0f};
        for (int first = start; first < n; first += lanes * PARTS) {
            const int j = first + lane * PARTS;
            const merged mine = merge_group<PARTS>(part + (j - seen) * step, step, a.d,
                                                   real ? c : 0, seen - j, n - j);
            if (lanes == 1) {
                merge_into(s, mine);
                continue;
            }
            SYNC_THREADS(); /* the sums before have been read */
            sums[threadIdx.x] = mine;
            SYNC_THREADS(); /* the groups' sums are written */
            for (int k = 0; lane == 0 && k < lanes; k++)
                merge_into(s, sums[k * per + (int)threadIdx.x]);
        }
        if (real && lane == 0 && a.sinks)
            s.o *= merge_sink(a, h0 + r, s.m, s.l);
        if (real && lane == 0)
            put_out(a, a.q_start[seq], (h0 + r) * a.d + c, finish(s.o, s.l));
    }
}

/* A KV head's rows are cut into parts where sequences and heads alone leave the device empty. */
static dim3 merge_grid(const struct backend *be, const attn_args &a)
{
    int32_t most = blocks_for((int64_t)a.q_per_kv * a.d, MERGE_THREADS / MERGE_LANES);
    int32_t wanted = blocks_for((int64_t)be->n_sm * 4, (int64_t)a.n_seqs * a.n_kv);
    return dim3((unsigned)a.n_seqs, (unsigned)a.n_kv, (unsigned)(wanted < most ? wanted : most));
}

/* a.part has the parts of all sequences with one row, if they fit in a.n_part. */
template <int KEYS, int PARTS>
static enum status attention_merge_run(struct backend *be, const attn_args &a)
{
    return LAUNCH_DEPENDENT(be, (attention_merge<KEYS, PARTS>), merge_grid(be, a), MERGE_THREADS, 0,
                            a);
}

#endif
