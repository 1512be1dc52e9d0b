/* Attention over the paged KV cache.
 *
 * Order of the sums (the numeric contract of this backend; a row is one query head of one token):
 * keys in splits of SPLIT at absolute positions, a split in tiles of TILE.  Within a split the
 * online softmax goes tile by tile: scores by matrix instructions over the head's dimensions
 * ascending (q rounded to the cache's 16-bit type, 8-bit entries widened to bf16 exactly and scaled
 * afterwards), weights e^(s - m) rounded to that type, values by matrix instructions over 16 keys
 * at a time.  Splits are merged in ascending order within groups of GROUP_SPLITS, then the groups in
 * ascending order.  A decode spreads its splits over the device and merges them in a second kernel,
 * several groups at a time; a prefill merges as it goes: the same arithmetic, so the same bits.
 * Tiles, splits and groups that a row does not see leave it as it is.
 *
 * The technique is FlashAttention-2's and flash-decoding's (Dao, 2023). */
#include "backends/cuda/attention_merge.h"
#include "backends/cuda/attention_tile.h"

enum { PREFILL_WARPS = 4 };

/* ---- one block: up to 16 rows a warp of one sequence that read one KV head ---- */

struct block_work {
    int seq, g;
    int row0, n_rows;   /* of the sequence's rows: token row / heads, head row % heads */
    int split0, split1; /* splits [split0, split1) */
    int dv0;            /* dims [dv0, dv0 + DV) of the output */
};

/* KV head and dims of a block from blockIdx.y; with stages DV is the whole head (smem_of). */
template <int DV, int STAGES> DEVICE void take_head(block_work &w, int n_dv)
{
    n_dv = STAGES > 1 ? 1 : n_dv;
    w.g = (int)blockIdx.y / n_dv;
    w.dv0 = (int)blockIdx.y % n_dv * DV;
}

/* Shared memory of a block: q, then `stages` times keys and values, then their scales; behind them
 * what outer_bytes says. */
struct block_smem {
    uint16_t *q, *kv;
    float *scale, *outer;
    int pitch, d_pad;
};

static int d_padded(int d)
{
    return (d + 63) / 64 * 64;
}

static size_t smem_bytes(int d, int warps, int stages)
{
    size_t pitch = (size_t)d_padded(d) + PAD;
    return ((size_t)warps * ROWS + (size_t)stages * 2 * TILE) * pitch * sizeof(uint16_t) +
           (size_t)stages * 2 * TILE * sizeof(float);
}

static size_t outer_bytes(int dv, int warps)
{
    return (size_t)warps * ROWS * (size_t)dv * sizeof(float);
}

/* A prefill has its outer state behind them. */
static size_t prefill_bytes(int d, int dv, int warps, int stages)
{
    return smem_bytes(d, warps, stages) + outer_bytes(dv, warps);
}

/* Heads of up to 128 have stages, and DV is their padded size: a constant. */
template <int DV, int STAGES> DEVICE block_smem smem_of(char *base, int d, int warps)
{
    block_smem s;
    s.d_pad = STAGES > 1 ? DV : (d + 63) / 64 * 64;
    s.pitch = s.d_pad + PAD;
    s.q = (uint16_t *)base;
    s.kv = s.q + warps * ROWS * s.pitch;
    s.scale = (float *)(s.kv + STAGES * 2 * TILE * s.pitch);
    s.outer = s.scale + STAGES * 2 * TILE;
    return s;
}

template <bool F16>
DEVICE void load_queries(const attn_args &a, const block_work &w, const block_smem &s, int warps)
{
    int h0, n_h = heads_of(a, w.g, &h0);
    for (int i = (int)threadIdx.x; i < warps * ROWS * s.d_pad / 8; i += (int)blockDim.x) {
        int r = i / (s.d_pad / 8), c = i % (s.d_pad / 8) * 8, row = w.row0 + r;
        uint4 x = {0, 0, 0, 0};
        if (r < w.n_rows)
            x = query_8<F16>(a.q + (size_t)(a.q_start[w.seq] + row / n_h) * (size_t)a.q_stride +
                                 (size_t)(h0 + row % n_h) * (size_t)a.d + (size_t)c,
                             a.d - c);
        st_128(s.q + r * s.pitch + c, x);
    }
}

DEVICE row_ranges ranges_of(const attn_args &a, const block_work &w)
{
    int h0, n_h = heads_of(a, w.g, &h0), first = warp_id() * ROWS, last = first + ROWS - 1;
    row_ranges g = {{-1, -1}, 0, 0};
    const int32_t *pos = a.pos + a.q_start[w.seq];
    for (int i = 0; i < 2; i++) {
        int r = first + lane_id() / 4 + 8 * i;
        if (r < w.n_rows)
            g.pos[i] = pos[(w.row0 + r) / n_h];
    }
    last = last < w.n_rows - 1 ? last : w.n_rows - 1;
    if (first <= last) { /* positions ascend with the rows */
        int unused;
        range_of(a, pos[(w.row0 + first) / n_h], &g.warp_lo, &unused);
        range_of(a, pos[(w.row0 + last) / n_h], &unused, &g.warp_hi);
    }
    return g;
}

/* Tile i_tile, whose keys are known already, to its stage: keys and values, zeros beyond the last,
 * and their scales, 0 beyond the last.  All threads of the block. */
template <int WARPS, int DV, int STAGES>
DEVICE void load_stage(const attn_args &a, const block_work &w, const block_smem &s,
                       const tile_keys &keys, int i_tile)
{
    const int32_t *blocks = a.table + (size_t)w.seq * (size_t)a.table_stride;
    const int stage = i_tile % STAGES, kv_len = a.kv_len[w.seq], key0 = i_tile * TILE;
    const int sections = STAGES > 1 ? DV / SECTION : s.d_pad / SECTION;
    uint16_t *k = s.kv + stage * 2 * TILE * s.pitch, *v = k + TILE * s.pitch;
    const bool eight = a.kv_type == DT_I8 || a.kv_type == DT_E4M3;
    if (a.d % (eight ? 16 : 8) != 0) {
        load_elements(a, a.k, blocks, kv_len, w.g, key0, k, s.pitch, s.d_pad);
        load_elements(a, a.v, blocks, kv_len, w.g, key0, v, s.pitch, s.d_pad);
    } else if (eight) {
        widen_keys<WARPS>(a, keys, a.k, k, s.pitch, sections);
        widen_keys<WARPS>(a, keys, a.v, v, s.pitch, sections);
    } else {
        copy_keys<WARPS>(a, keys, k, v, s.pitch, sections);
    }
    if (a.k_scale && warp_id() == 0) {
        float *scale = s.scale + stage * 2 * TILE;
        const bool real = lane_id() < keys.n;
        scale[lane_id()] = real ? a.k_scale[keys.row] : 0.0f;
        scale[TILE + lane_id()] = real ? a.v_scale[keys.row] : 0.0f;
    }
}

template <int STAGES> DEVICE tile stage_tile(const attn_args &a, const block_smem &s, int i_tile)
{
    int stage = i_tile % STAGES;
    tile t;
    t.k = s.kv + stage * 2 * TILE * s.pitch;
    t.v = t.k + TILE * s.pitch;
    t.k_scale = a.k_scale ? s.scale + stage * 2 * TILE : nullptr;
    t.v_scale = a.k_scale ? s.scale + (stage * 2 + 1) * TILE : nullptr;
    t.pitch = s.pitch;
    t.d_pad = s.d_pad;
    t.key0 = i_tile * TILE;
    return t;
}

/* Tiles [*i0, *i1) of the work's splits that any of its rows sees. */
DEVICE void tiles_of(const attn_args &a, const block_work &w, int *i0, int *i1)
{
    enum { PER_SPLIT = SPLIT / TILE };
    int h0, n_h = heads_of(a, w.g, &h0), lo, hi, unused;
    const int32_t *pos = a.pos + a.q_start[w.seq];
    range_of(a, pos[w.row0 / n_h], &lo, &unused);
    range_of(a, pos[(w.row0 + w.n_rows - 1) / n_h], &unused, &hi);
    *i0 = lo / TILE > w.split0 * PER_SPLIT ? lo / TILE : w.split0 * PER_SPLIT;
    *i1 = (hi + TILE - 1) / TILE;
    *i1 = *i1 < w.split1 * PER_SPLIT ? *i1 : w.split1 * PER_SPLIT;
}

/* fn(tile, end of its split?) over the work's tiles, STAGES - 1 of them on their way while one is
 * used; the places of one more tile's keys are read a turn before they are needed. */
template <int WARPS, int DV, int STAGES, class Fn>
DEVICE void each_tile(const attn_args &a, const block_work &w, const block_smem &s, Fn fn)
{
    enum { AHEAD = STAGES - 1, PER_SPLIT = SPLIT / TILE };
    const int32_t *blocks = a.table + (size_t)w.seq * (size_t)a.table_stride;
    const int kv_len = a.kv_len[w.seq];
    int i0, i1;
    tiles_of(a, w, &i0, &i1);
    tile_keys next = keys_of(a, blocks, kv_len, w.g, i0 * TILE);
    const auto load = [&](int i) {
        load_stage<WARPS, DV, STAGES>(a, w, s, next, i);
        next = keys_of(a, blocks, kv_len, w.g, (i + 1) * TILE);
    };
    NO_UNROLL
    for (int i = i0; i < i0 + AHEAD; i++) {
        if (i < i1)
            load(i);
        cp_async_commit();
    }
    NO_UNROLL
    for (int i = i0; i < i1; i++) {
        if (AHEAD == 0) {
            load(i);
            cp_async_commit();
        }
        cp_async_wait<(AHEAD > 0 ? AHEAD - 1 : 0)>();
        SYNC_THREADS(); /* the tile (and q) is written; the one before it is used up */
        if (AHEAD > 0) {
            if (i + AHEAD < i1)
                load(i + AHEAD);
            cp_async_commit();
        }
        fn(stage_tile<STAGES>(a, s, i), (i + 1) % PER_SPLIT == 0 || i + 1 == i1);
        if (AHEAD == 0)
            SYNC_THREADS(); /* used up: its place may be written again */
    }
    cp_async_wait<0>();
    SYNC_THREADS(); /* the block's memory may be written again */
}

/* The merged splits of the block's rows.  outer: outer_bytes of memory of the block's own. */
template <bool F16, int DV, int WARPS, int STAGES>
DEVICE void attend_block(const attn_args &a, const block_work &w, const block_smem &s, float *outer,
                         rows_state<DV> &group)
{
    enum { GROUP_TILES = GROUP_SPLITS * SPLIT / TILE };
    row_ranges g = ranges_of(a, w);
    const uint16_t *q = s.q + warp_id() % WARPS * ROWS * s.pitch;
    outer_state groups = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}, outer, 0, WARPS * 32};
    rows_state<DV> part;
    clear(group);
    clear(part);
    load_queries<F16>(a, w, s, WARPS);
    each_tile<WARPS, DV, STAGES>(a, w, s, [&](const tile &t, bool end) {
        if (t.key0 < g.warp_hi && t.key0 + TILE > g.warp_lo)
            attend_tile<F16, DV>(a, t, q, g, w.dv0, part);
        if (end) {
            merge(group, part);
            clear(part);
        }
        if ((t.key0 / TILE + 1) % GROUP_TILES == 0) {
            push_group(groups, group);
            clear(group);
        }
    });
    if (groups.n > 0) {
        push_group(groups, group); /* the last one, which may be empty */
        take_groups(groups, group);
    }
}

/* One split for one warp's rows. */
template <bool F16, int DV, int STAGES>
DEVICE void attend_split(const attn_args &a, const block_work &w, const block_smem &s,
                         rows_state<DV> &part)
{
    row_ranges g = ranges_of(a, w);
    clear(part);
    load_queries<F16>(a, w, s, 1);
    each_tile<1, DV, STAGES>(
        a, w, s, [&](const tile &t, bool) { attend_tile<F16, DV>(a, t, s.q, g, w.dv0, part); });
}

/* fn(row, dim, o, index of the lane's row 0 or 1) for what the lane holds. */
template <int DV, class Fn> DEVICE void each_element(const attn_args &a, const block_work &w, Fn fn)
{
    UNROLL for (int n = 0; n < DV / 8; n++) UNROLL for (int i = 0; i < 4; i++)
    {
        int r = warp_id() * ROWS + lane_id() / 4 + 8 * (i / 2),
            c = w.dv0 + 8 * n + lane_id() % 4 * 2 + i % 2;
        if (r < w.n_rows && c < a.d)
            fn(r, c, n, i);
    }
}

/* The rows as elements of the operand, in pairs; heads begin at multiples of 8 of them. */
template <int DV>
DEVICE void store_operand(const attn_args &a, const block_work &w, const rows_state<DV> &s, int h0,
                          int n_h, const float (&factor)[2], const float (&l)[2])
{
    UNROLL for (int i = 0; i < 2; i++)
    {
        const int r = warp_id() * ROWS + lane_id() / 4 + 8 * i, row = w.row0 + r;
        const int32_t first = (h0 + row % n_h) * a.d + w.dv0 + lane_id() % 4 * 2;
        uint16_t *to = a.operand.packed + operand_at(a.operand, a.q_start[w.seq] + row / n_h,
                                                     r < w.n_rows ? first : 0);
        UNROLL for (int n = 0; n < DV / 8; n++)
        {
            if (r < w.n_rows && w.dv0 + 8 * n < a.d)
                *(uint32_t *)(void *)(to + operand_further(a.operand, first, n)) =
                    pack_bf16(finish(s.o[n][2 * i] * factor[i], l[i]),
                              finish(s.o[n][2 * i + 1] * factor[i], l[i]));
        }
    }
}

template <int DV>
DEVICE void store_rows(const attn_args &a, const block_work &w, const rows_state<DV> &s)
{
    int h0, n_h = heads_of(a, w.g, &h0);
    float l[2] = {s.l[0], s.l[1]}, factor[2] = {1.0f, 1.0f};
    for (int i = 0; a.sinks && i < 2; i++) {
        const int r = warp_id() * ROWS + lane_id() / 4 + 8 * i;
        float m = s.m[i];
        if (r < w.n_rows)
            factor[i] = merge_sink(a, h0 + (w.row0 + r) % n_h, m, l[i]);
    }
    if (a.operand.packed) {
        store_operand<DV>(a, w, s, h0, n_h, factor, l);
        return;
    }
    each_element<DV>(a, w, [&](int r, int c, int n, int i) {
        int row = w.row0 + r;
        a.out[(size_t)(a.q_start[w.seq] + row / n_h) * (size_t)a.out_stride +
              (size_t)(h0 + row % n_h) * (size_t)a.d + (size_t)c] =
            finish(s.o[n][i] * factor[i / 2], l[i / 2]);
    });
}

/* Sequences with more than one row.  Grid (row tiles, KV
 * heads x dv chunks, sequences), WARPS warps of 16 rows.  Bound: matrix units at long chunks, else
 * reading the sequence's keys and values once per 64 rows. */
template <bool F16, int DV, int WARPS, int STAGES>
KERNEL(WARPS * 32)
attention_prefill(attn_args a, int n_dv)
{
    DYN_SMEM(char, smem);
    block_work w;
    pdl_wait();
    w.seq = (int)blockIdx.z;
    take_head<DV, STAGES>(w, n_dv);
    int h0, n_h = heads_of(a, w.g, &h0), q_len = a.q_start[w.seq + 1] - a.q_start[w.seq];
    int rows = q_len * n_h,
        i_tile = (int)gridDim.x - 1 - (int)blockIdx.x; /* longest ranges first */
    w.row0 = i_tile * WARPS * ROWS;
    if (w.row0 >= rows || q_len == 1)
        return;
    w.n_rows = rows - w.row0 < WARPS * ROWS ? rows - w.row0 : WARPS * ROWS;
    w.split0 = 0;
    w.split1 = splits_of<SPLIT>(a, w.seq);
    rows_state<DV> state;
    const block_smem sm = smem_of<DV, STAGES>(smem, a.d, WARPS);
    attend_block<F16, DV, WARPS, STAGES>(a, w, sm, sm.outer, state);
    store_rows(a, w, state);
}

/* ---- decode: (sequence, split) pairs spread over the device ---- */

/* The sequences with one row, each by one block: where the splits do not fit into `part`. */
template <bool F16, int DV, int STAGES>
DEVICE void decode_whole(const attn_args &a, block_work &w, const block_smem &sm)
{
    float *outer =
        a.outer + ((size_t)blockIdx.y * (size_t)gridDim.x + blockIdx.x) * (size_t)(ROWS * DV);
    for (w.seq = (int)blockIdx.x; w.seq < a.n_seqs; w.seq += (int)gridDim.x) {
        rows_state<DV> state;
        if (a.q_start[w.seq + 1] - a.q_start[w.seq] != 1)
            continue;
        w.split0 = 0;
        w.split1 = splits_of<SPLIT>(a, w.seq);
        attend_block<F16, DV, 1, STAGES>(a, w, sm, outer, state);
        store_rows(a, w, state);
    }
}

/* One warp a block, blocks take pairs in turn; whole sequences when the pairs do not fit into `part`,
 * to the same bits.  Bound: reading keys and values.
 * Blocks a multiprocessor: as shared memory admits them with 228 KiB. */
template <bool F16, int DV, int STAGES>
KERNEL(32, (DV > 64 ? 4 : 8))
attention_decode(attn_args a, int n_dv)
{
    DYN_SMEM(char, smem);
    pdl_wait();
    block_smem sm = smem_of<DV, STAGES>(smem, a.d, 1);
    int total = count_splits<SPLIT>(a, a.n_seqs), h0;
    block_work w;
    take_head<DV, STAGES>(w, n_dv);
    w.row0 = 0;
    w.n_rows = heads_of(a, w.g, &h0);
    if (total > a.n_part) {
        decode_whole<F16, DV, STAGES>(a, w, sm);
        return;
    }
    for (int i = (int)blockIdx.x; i < total; i += (int)gridDim.x) {
        rows_state<DV> part;
        if (!find_split<SPLIT>(a, i, &w.seq, &w.split0))
            break;
        w.split1 = w.split0 + 1;
        attend_split<F16, DV, STAGES>(a, w, sm, part);
        float *to = a.part + ((size_t)i * (size_t)a.n_kv + (size_t)w.g) * (size_t)a.q_per_kv *
                                 (size_t)(a.d + 2);
        each_element<DV>(a, w, [&](int r, int c, int n, int e) {
            float *row = to + (size_t)r * (size_t)(a.d + 2);
            row[c] = part.o[n][e];
            if (c == 0) {
                row[a.d] = part.m[e / 2];
                row[a.d + 1] = part.l[e / 2];
            }
        });
    }
}

/* ---- launching ---- */

template <bool F16, int DV, int WARPS, int STAGES, int PREFILL_STAGES = STAGES>
static enum status run(struct backend *be, attn_args a, int32_t max_q, int32_t max_kv)
{
    int n_dv = (a.d + DV - 1) / DV;
    unsigned heads = (unsigned)(a.n_kv * n_dv);
    size_t smem = smem_bytes(a.d, 1, STAGES), outer = (size_t)be->n_sm * DECODE_OUTER_BYTES;
    int32_t at_once, slots = (int32_t)(outer / outer_bytes(DV, 1));
    TRY(cuda_blocks_at_once(be, kernel_address(attention_decode<F16, DV, STAGES>), 32, smem,
                            &at_once));
    if ((int32_t)heads > slots || outer > be->scratch->bytes)
        FAIL(ST_UNSUPPORTED,
             "attention over %d key heads of %d: the CUDA backend's scratch memory "
             "has room for the sums of %d blocks",
             a.n_kv, a.d, slots);
    a.outer = (float *)be->scratch->data;
    a.part = a.outer + outer / sizeof(float);
    a.n_part = (int64_t)((be->scratch->bytes - outer) / sizeof(float)) /
               ((int64_t)a.n_kv * a.q_per_kv * (a.d + 2));
    int64_t pairs = (int64_t)a.n_seqs * ((max_kv + SPLIT - 1) / SPLIT);
    int64_t turns = (at_once < slots ? at_once : slots) / (int32_t)heads;
    turns = turns > 0 ? turns : 1;
    dim3 grid((unsigned)(pairs < turns ? pairs : turns), heads);
    TRY(LAUNCH_DEPENDENT(be, (attention_decode<F16, DV, STAGES>), grid, 32, smem, a, n_dv));
    TRY((attention_merge_run<SPLIT, GROUP_SPLITS>(be, a)));
    if (max_q < 2)
        return ST_OK;
    grid = dim3((unsigned)blocks_for((int64_t)max_q * a.q_per_kv, WARPS * ROWS), heads,
                (unsigned)a.n_seqs);
    return LAUNCH_DEPENDENT(be, (attention_prefill<F16, DV, WARPS, PREFILL_STAGES>), grid,
                            WARPS * 32, prefill_bytes(a.d, DV, WARPS, PREFILL_STAGES), a, n_dv);
}

/* By the head's size, and by what shared memory has room for: wide heads have one stage, and on some
 * devices one warp; heads of 128 have two stages where three do not fit. */
template <bool F16>
static enum status run_type(struct backend *be, const attn_args &a, const struct step_dev *st)
{
    enum { W = PREFILL_WARPS };
    const int pad = d_padded(a.d); /* what smem_of counts on */
    size_t room = 0;
    if (pad == 64)
        return run<F16, 64, W, 3>(be, a, st->max_q, st->max_kv);
    TRY(device_smem(be, &room));
    if (pad == 128)
        return prefill_bytes(a.d, 128, W, 3) <= room
                   ? run<F16, 128, W, 3>(be, a, st->max_q, st->max_kv)
                   : run<F16, 128, W, 3, 2>(be, a, st->max_q, st->max_kv);
    return prefill_bytes(a.d, 128, W, 1) <= room
               ? run<F16, 128, W, 1>(be, a, st->max_q, st->max_kv)
               : run<F16, 128, 1, 1>(be, a, st->max_q, st->max_kv);
}

static attn_args args_of(const struct backend *be, const struct attn_layer *al,
                         const struct step_dev *st, struct view q, struct kv_layer kv,
                         struct view out)
{
    attn_args a = {};
    a.q = view_f32(q);
    if (out.reader)
        a.operand = operand_of(be, out);
    else
        a.out = view_f32(out);
    a.q_stride = q.stride;
    a.out_stride = out.stride;
    a.k = view_ptr(kv.k);
    a.v = view_ptr(kv.v);
    a.k_scale = kv.k_scale.buf ? view_f32(kv.k_scale) : nullptr;
    a.v_scale = kv.v_scale.buf ? view_f32(kv.v_scale) : nullptr;
    a.kv_type = kv.k.dtype;
    a.n_q = al->n_q;
    a.n_kv = al->n_kv;
    a.d = al->d_head;
    a.q_per_kv = al->q_per_kv;
    a.q_offset = al->q_offset;
    a.window = al->window;
    a.chunk = al->chunk;
    a.full = al->full;
    a.sinks = vector_of(al->sinks);
    a.rel_bias = vector_of(al->rel_bias);
    a.d_value = attn_d_value(al);
    a.k_row = kv.k.stride;
    a.v_row = kv.v.stride;
    a.scale = al->scale;
    a.cap = al->cap;
    a.pos = view_i32(st->pos);
    a.q_start = view_i32(st->q_start);
    a.kv_len = view_i32(st->kv_len);
    a.table = view_i32(st->block_table);
    a.table_stride = st->block_table.stride;
    a.block_len = st->block_len;
    a.n_seqs = st->n_seqs;
    return a;
}

enum status cuda_attention(struct backend *be, const struct attn_layer *al,
                           const struct step_dev *st, struct view q, struct kv_layer kv,
                           struct view out)
{
    assert(kv.k.stride == kv.k.cols && kv.k.dtype == kv.v.dtype);
    assert(!out.reader || (!al->d_value && al->d_head % 8 == 0 && operand_by_element(out.reader)));
    assert(attn_d_value(al) <= HEAD_MAX && (!al->chunk || (!al->window && !al->full)));
    if (st->n_tokens == 0 || al->n_q == 0)
        return ST_OK;
    /* every key head is read: the kernels divide by its query heads */
    assert(al->q_offset < al->q_per_kv && (al->n_kv - 1) * al->q_per_kv < al->n_q + al->q_offset);
    attn_args a = args_of(be, al, st, q, kv, out);
    const bool many = !al->d_value && a.q_per_kv > ROWS;
    if (a.kv_type == DT_F32 || a.full || a.rel_bias || many)
        return attention_plain_run(be, a, st->n_tokens);
    if ((int64_t)kv.k.rows * a.n_kv > INT32_MAX)
        FAIL(ST_UNSUPPORTED,
             "a KV cache of %d tokens and %d heads: the CUDA backend counts them in "
             "31 bits",
             kv.k.rows, a.n_kv);
    if (al->d_value)
        return attention_latent_run(be, a, st);
    assert(a.d <= HEAD_MAX);
    return a.kv_type == DT_F16 ? run_type<true>(be, a, st) : run_type<false>(be, a, st);
}
