/* Latent attention in the absorbed form (DeepSeek-V2, arXiv 2405.04434) over caches of 16 and 8 bits: all
 * query heads share one key, whose first d_value elements are the value.
 *
 * Order of the sums (a row is one query head of one token): keys in splits of KEYS at absolute positions.
 * A score is two chains of matrix instructions, over the lower and the upper half of the key's
 * dimensions, padded with zeros to a multiple of 64, and their sum.  The softmax is over a split's keys
 * at once; the sum of weights is that of each lane's two keys, then warp_sum.  Types are rounded as in
 * attention.cu, and splits are merged as there: in ascending order within groups of GROUP_SPLITS, then the
 * groups in ascending order.  Rows of a block, parts of a decode and the way of merging do not change
 * the bits.
 *
 * The scores of all heads as one product, and each warp with its own columns of the values, are FlashMLA's
 * (DeepSeek, 2025); splits over the device are flash-decoding's (Dao, 2023). */
#include "backends/cuda/attention_latent.h"

template <bool F16>
DEVICE void load_queries(const attn_args &a, const latent_work &w, const latent_smem &s)
{
    const int chunks = s.d_pad / 8;
    for (int i = (int)threadIdx.x; i < s.n_row * chunks; i += THREADS) {
        const int r = i / chunks, c = i % chunks * 8, row = w.row0 + r;
        uint4 x = {0, 0, 0, 0};
        if (r < w.n_rows)
            x = query_8<F16>(a.q + (size_t)(a.q_start[w.seq] + row / a.n_q) * (size_t)a.q_stride +
                                 (size_t)(row % a.n_q) * (size_t)a.d + (size_t)c,
                             a.d - c);
        st_128(s.q + r * s.pitch + c, x);
    }
}

/* Split i, whose keys are known, to its stage: zeros beyond the last key. */
template <int M>
DEVICE void load_split(const attn_args &a, const latent_work &w, const latent_smem &s,
                       const tile_keys &keys, int i)
{
    const int32_t *blocks = a.table + (size_t)w.seq * (size_t)a.table_stride;
    const int stage = i % M, half = warp_id() / 4 * TILE, sections = s.d_pad / SECTION;
    uint16_t *k = s.kv + stage * KEYS * s.pitch;
    const bool eight = a.kv_type == DT_I8 || a.kv_type == DT_E4M3;
    if (a.d % (eight ? 16 : 8) != 0) {
        const int kv_len = a.kv_len[w.seq];
        load_elements(a, a.k, blocks, kv_len, 0, i * KEYS, k, s.pitch, s.d_pad);
        load_elements(a, a.k, blocks, kv_len, 0, i * KEYS + TILE, k + TILE * s.pitch, s.pitch,
                      s.d_pad);
    } else if (eight) {
        widen_keys<WARPS / 2>(a, keys, a.k, k + half * s.pitch, s.pitch, sections);
    } else {
        copy_keys<WARPS / 2, false>(a, keys, k + half * s.pitch, nullptr, s.pitch, sections);
    }
    if (a.k_scale && warp_id() % 4 == 0)
        s.scale[stage * KEYS + half + lane_id()] = lane_id() < keys.n ? a.k_scale[keys.row] : 0.0f;
}

/* Splits [*i0, *i1) of the work's that any of its rows sees. */
DEVICE void splits_seen(const attn_args &a, const latent_work &w, int *i0, int *i1)
{
    const int32_t *pos = a.pos + a.q_start[w.seq];
    int lo, hi, unused; /* positions ascend with the rows */
    range_of(a, pos[w.row0 / a.n_q], &lo, &unused);
    range_of(a, pos[(w.row0 + w.n_rows - 1) / a.n_q], &unused, &hi);
    *i0 = lo / KEYS > w.split0 ? lo / KEYS : w.split0;
    *i1 = (hi + KEYS - 1) / KEYS < w.split1 ? (hi + KEYS - 1) / KEYS : w.split1;
}

/* The work becomes the block's.  By all threads, which know it. */
DEVICE void take_work(const latent_smem &s, const latent_work &w)
{
    SYNC_THREADS(); /* the last uses of shared memory have ended */
    if (threadIdx.x == 0)
        *s.work = w;
    SYNC_THREADS(); /* the work is written */
}

/* The merged splits of the rows of s.work; m and l of each row are in elements 2 and 3 of its factor. */
template <bool F16, int M>
DEVICE void attend(const attn_args &a, const latent_smem &s, latent_sums<M> &group)
{
    const latent_work &w = *s.work;
    const int32_t *blocks = a.table + (size_t)w.seq * (size_t)a.table_stride;
    const int kv_len = a.kv_len[w.seq], half = warp_id() / 4 * TILE;
    const bool sums = WARP_DIMS * warp_id() < a.d_value;
    bool first = true;
    int i0, i1;
    splits_seen(a, w, &i0, &i1);
    clear(group);
    load_queries<F16>(a, w, s);
    begin_rows(a, w, s);
    tile_keys next = keys_of(a, blocks, kv_len, 0, i0 * KEYS + half);
    const auto load = [&](int i) {
        if (i < i1) {
            load_split<M>(a, w, s, next, i);
            next = keys_of(a, blocks, kv_len, 0, (i + 1) * KEYS + half);
        }
        cp_async_commit();
    };
    if (M > 1)
        load(i0);
    NO_UNROLL
    for (int i = i0; i < i1; i++) {
        const uint16_t *kv = s.kv + i % M * KEYS * s.pitch;
        const bool ends = (i + 1) % GROUP_SPLITS == 0 && i + 1 < i1;
        if (M == 1)
            load(i);
        cp_async_wait<0>();
        SYNC_THREADS(); /* the split (and q) is written; the one before it is used up */
        if (M > 1)
            load(i + 1);
        latent_scores<F16, M>(s, kv);
        SYNC_THREADS(); /* the scores are written */
        latent_softmax<F16, M>(a, s, a.k_scale ? s.scale + i % M * KEYS : nullptr, i * KEYS, ends);
        SYNC_THREADS(); /* weights and factors are written */
        if (sums)
            latent_values<F16, M>(s, kv, group);
        if (ends && sums)
            merge_outer(a, s, first, 2, false, group);
        first = first && !ends;
        if (M == 1)
            SYNC_THREADS(); /* the split is used up: its place may be written again */
    }
    SYNC_THREADS(); /* the factors have been read, the states are written */
    if ((int)threadIdx.x < s.n_row) {
        float4 g = ld_f32x4(s.state + 4 * threadIdx.x), f;
        merge_factors(g.z, g.w, g.x, g.y, &f.x, &f.y);
        f.z = g.z;
        f.w = g.w;
        st_f32x4(s.factor + 4 * threadIdx.x, f);
    }
    SYNC_THREADS(); /* the last factors are written */
    if (sums && !first)
        merge_outer(a, s, false, 0, true, group);
}

/* fn(row of the block, dim, sum) for what the lane holds. */
template <int M, class Fn>
DEVICE void each_sum(const attn_args &a, const latent_work &w, const latent_sums<M> &t, Fn fn)
{
    UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < WARP_DIMS / 8; n++)
        UNROLL for (int i = 0; i < 4; i++)
    {
        const int r = row_of(m, i / 2),
                  c = WARP_DIMS * warp_id() + 8 * n + lane_id() % 4 * 2 + i % 2;
        if (r < w.n_rows && c < a.d_value)
            fn(r, c, t.o[m][n][i]);
    }
}

/* Tile `i` of 16 M rows of a sequence over all its keys: the work, */
DEVICE latent_work whole_work(const attn_args &a, const latent_smem &s, int seq, int i)
{
    const int left = (a.q_start[seq + 1] - a.q_start[seq]) * a.n_q - i * s.n_row;
    return {seq, i * s.n_row, left < s.n_row ? left : s.n_row, 0, splits_of<KEYS>(a, seq), -1};
}

/* and the result. */
template <int M>
DEVICE void store_rows(const attn_args &a, const latent_smem &s, const latent_sums<M> &t)
{
    const latent_work &w = *s.work;
    each_sum(a, w, t, [&](int r, int c, float o) {
        const int row = w.row0 + r, h = row % a.n_q;
        float m = s.factor[4 * r + 2], l = s.factor[4 * r + 3];
        const float by = a.sinks ? merge_sink(a, h, m, l) : 1.0f;
        a.out[(size_t)(a.q_start[w.seq] + row / a.n_q) * (size_t)a.out_stride +
              (size_t)h * (size_t)a.d_value + (size_t)c] = finish(o * by, l);
    });
}

/* A part of a decode: the rows' sums, m and l. */
template <int M>
DEVICE void store_part(const attn_args &a, const latent_smem &s, const latent_sums<M> &t)
{
    const latent_work &w = *s.work;
    const int size = a.d_value + 2;
    float *to = a.part + ((size_t)w.number * (size_t)a.n_q + (size_t)w.row0) * (size_t)size;
    each_sum(a, w, t, [&](int r, int c, float o) { to[r * size + c] = o; });
    for (int i = (int)threadIdx.x; i < 2 * w.n_rows; i += THREADS)
        to[i / 2 * size + a.d_value + i % 2] = s.factor[4 * (i / 2) + 2 + i % 2];
}

/* Sequences with more than one row; `tiles` of the longest one, the longest ranges first.  Bound: matrix
 * units and shared memory; a block's 32 rows read each key once. */
template <bool F16, int M> KERNEL(THREADS, 3 - M) latent_prefill(attn_args a, int tiles)
{
    DYN_SMEM(char, smem);
    pdl_wait();
    const latent_smem s = smem_of<M>(smem, a.d);
    for (int i = (int)blockIdx.x; i < tiles * a.n_seqs; i += (int)gridDim.x) {
        const int seq = i % a.n_seqs, tile = tiles - 1 - i / a.n_seqs;
        const int q_len = a.q_start[seq + 1] - a.q_start[seq];
        if (q_len == 1 || tile * s.n_row >= q_len * a.n_q)
            continue;
        latent_sums<M> t;
        take_work(s, whole_work(a, s, seq, tile));
        attend<F16, M>(a, s, t);
        store_rows(a, s, t);
    }
}

/* Sequences with one row: blocks take (part of PER splits, tile of rows) in turn; whole sequences where the
 * parts do not fit into a.part.  Bound: reading the keys; two blocks of M = 1 a multiprocessor
 * overlap their reads and products. */
template <bool F16, int M, int PER> KERNEL(THREADS, 3 - M) latent_decode(attn_args a, int tiles)
{
    DYN_SMEM(char, smem);
    pdl_wait();
    const latent_smem s = smem_of<M>(smem, a.d);
    for (int i = (int)blockIdx.x;; i += (int)gridDim.x) {
        const bool whole = count_splits<KEYS * PER>(a, a.n_seqs) > a.n_part;
        const int number = i / tiles;
        latent_sums<M> t;
        latent_work w = {number, 0, 0, 0, 0, -1};
        if (whole ? number >= a.n_seqs : !find_split<KEYS * PER>(a, number, &w.seq, &w.number))
            break;
        const int part = w.number;
        w = whole_work(a, s, w.seq, i % tiles);
        if (!whole) {
            w.split0 = part * PER;
            w.split1 = w.split0 + PER;
            w.number = number;
        } else if (a.q_start[number + 1] - a.q_start[number] != 1) {
            continue;
        }
        take_work(s, w);
        attend<F16, M>(a, s, t);
        if (s.work->number < 0)
            store_rows(a, s, t);
        else
            store_part(a, s, t);
    }
}

/* ---- launching ---- */

template <bool F16, int M, int PER>
static enum status decode(struct backend *be, const attn_args &a, int32_t tiles, int32_t blocks)
{
    attn_args sums = a;
    sums.d = a.d_value;
    TRY(LAUNCH_DEPENDENT(be, (latent_decode<F16, M, PER>), dim3((unsigned)blocks), THREADS,
                         latent_bytes(a.d, M), a, tiles));
    return attention_merge_run<KEYS * PER, GROUP_SPLITS / PER>(be, sums);
}

template <bool F16, int M>
static enum status run(struct backend *be, attn_args a, int32_t max_q, int32_t max_kv)
{
    const size_t outer = (size_t)be->n_sm * DECODE_OUTER_BYTES;
    const int32_t slots = (int32_t)(outer / (M * ROWS * HEAD_MAX * sizeof(float)));
    const int32_t tiles = blocks_for(a.n_q, M * ROWS);
    const int64_t items = (int64_t)a.n_seqs * blocks_for(max_kv, KEYS) * tiles;
    assert(outer <= be->scratch->bytes);
    a.outer = (float *)be->scratch->data;
    a.part = a.outer + outer / sizeof(float);
    a.n_part = (int64_t)((be->scratch->bytes - outer) / sizeof(float)) /
               ((int64_t)a.n_q * (a.d_value + 2));
    if (items <= (int64_t)PARTS_A_BLOCK * slots)
        TRY((decode<F16, M, 1>(be, a, tiles, items < slots ? (int32_t)items : slots)));
    else
        TRY((decode<F16, M, GROUP_SPLITS>(be, a, tiles, slots)));
    if (max_q < 2)
        return ST_OK;
    const int32_t most = blocks_for((int64_t)max_q * a.n_q, M * ROWS);
    const int64_t all = (int64_t)most * a.n_seqs;
    return LAUNCH_DEPENDENT(be, (latent_prefill<F16, M>),
                            dim3((unsigned)(all < slots ? all : slots)), THREADS,
                            latent_bytes(a.d, M), a, most);
}

/* M = 1 where 16 rows are enough, or where shared memory has no room for more. */
template <bool F16>
static enum status run_type(struct backend *be, const attn_args &a, int32_t max_q, int32_t max_kv,
                            size_t room)
{
    if ((max_q < 2 && a.n_q <= ROWS) || latent_bytes(a.d, 2) > room)
        return run<F16, 1>(be, a, max_q, max_kv);
    return run<F16, 2>(be, a, max_q, max_kv);
}

enum status attention_latent_run(struct backend *be, attn_args a, const struct step_dev *st)
{
    size_t room = 0;
    assert(a.n_kv == 1 && a.d_value <= a.d && a.d_value <= HEAD_MAX);
    TRY(device_smem(be, &room));
    if (latent_bytes(a.d, 1) > room) /* the numerics id has the device's class */
        return attention_plain_run(be, a, st->n_tokens);
    a.q_per_kv = a.n_q;
    a.q_offset = 0;
    return a.kv_type == DT_F16 ? run_type<true>(be, a, st->max_q, st->max_kv, room)
                               : run_type<false>(be, a, st->max_q, st->max_kv, room);
}
