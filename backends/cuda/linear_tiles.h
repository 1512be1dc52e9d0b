/* The products of many tokens, for the kernels of linear_tiles.cu and moe_tiles.cu: tiles of the
 * output, w and x through shared memory.  The products and their order are those of linear_rows.h.
 *
 * J is struct linear_job or what has its k, n_tokens and unscale.  W names rows of w:
 * offset_of(rows, r) is where the tile's row r begins, in bytes.  X names the tile's tokens: near_rows in
 * rows of packed, near_blocks in the order of linear_pack_fragments, which takes no MOV between loads
 * and mma. */
#ifndef BACKENDS_CUDA_LINEAR_TILES_H
#define BACKENDS_CUDA_LINEAR_TILES_H

#include "backends/cuda/linear_mma.h"
#include "backends/cuda/smem.h"

enum {
    THREADS = 256,
    WARPS_N = 4, /* a tile's warps: 4 along the rows of w, 2 along the tokens */
    WARPS_T = 2,
    STAGES = 3, /* steps of w and x in shared memory */
    STEP_CHUNKS = K_STEP / K_CHUNK,
    ROW_BYTES = K_STEP * 2,
    GRANULES = ROW_BYTES / 16,
    BLOCK_BYTES = FRAGMENT_TOKENS * ROW_BYTES, /* a step of 16 tokens */
};

/* A tile of 32 NT rows of w (bn) and 32 MT tokens (bt); a warp has 8 NT x 16 MT of it. */
template <int MT, int NT> struct tile_shape {
    static const int bn = WARPS_N * 8 * NT, bt = WARPS_T * 16 * MT;
    static const int stage_bytes = (bn + bt) * ROW_BYTES;
    static const int per_sm = MT * NT > 4 ? 1 : 2; /* blocks at once, as registers allow */
};

static_assert(STAGES * tile_shape<4, 4>::stage_bytes <= BLOCK_SMEM, "every device has so much");

/* The 16 bytes g of a row in a stage.  A quarter warp reads granules 4c .. 4c + 3 of two
 * neighbouring rows: they lie in different halves of the banks. */
DEVICE int granule_at(int row, int g)
{
    return row * ROW_BYTES + ((g ^ (row & 1) << 2) * 16);
}

/* Rows that follow each other; beyond the last it is the last one again, and its products are not
 * written. */
struct near_rows {
    int last; /* >= 0 */
    uint32_t row_bytes;
};

DEVICE uint32_t offset_of(const struct near_rows &rows, int r)
{
    return (uint32_t)(r < rows.last ? r : rows.last) * rows.row_bytes;
}

/* Asks for one step of ROWS rows. */
template <int ROWS, class R>
DEVICE void load_rows(unsigned char *dst, const unsigned char *from, const R &rows)
{
    const int r0 = (int)threadIdx.x / GRANULES, g = (int)threadIdx.x % GRANULES;
    UNROLL
    for (int i = 0; i < ROWS * GRANULES / THREADS; i++) {
        const int r = r0 + i * (THREADS / GRANULES);
        cp_async_16(dst + granule_at(r, g), from + offset_of(rows, r) + g * 16);
    }
}

/* Blocks of FRAGMENT_TOKENS tokens in the same way. */
struct near_blocks {
    int last;
    uint32_t block_bytes;
};

template <int ROWS>
DEVICE void load_x(unsigned char *dst, const unsigned char *x, const struct near_rows &rows,
                   int32_t step)
{
    load_rows<ROWS>(dst, x + (size_t)step * ROW_BYTES, rows);
}

template <int ROWS>
DEVICE void load_x(unsigned char *dst, const unsigned char *x, const struct near_blocks &blocks,
                   int32_t step)
{
    const unsigned char *from = x + (size_t)step * BLOCK_BYTES;
    UNROLL
    for (int i = 0; i < ROWS * GRANULES / THREADS; i++) {
        const int at = ((int)threadIdx.x + i * THREADS) * 16;
        const int block = at / BLOCK_BYTES, near = block < blocks.last ? block : blocks.last;
        cp_async_16(dst + at, from + (uint32_t)near * blocks.block_bytes + at % BLOCK_BYTES);
    }
}

/* Chunk c of a stage's 16 tokens from `token` on. */
DEVICE struct fragment x_fragment(const struct near_rows &, const unsigned char *x, int token,
                                  int c)
{
    const int row = token + (lane_id() >> 2), g = c * 4 + (lane_id() & 3);
    return fragment_of(ld_128(x + granule_at(row, g)), ld_128(x + granule_at(row + 8, g)));
}

DEVICE struct fragment x_fragment(const struct near_blocks &, const unsigned char *x, int token,
                                  int c)
{
    const unsigned char *p = x + token * ROW_BYTES + c * FRAGMENT_BYTES + lane_id() * 16;
    return {ld_128(p), ld_128(p + FRAGMENT_BYTES / 2)};
}

/* Where a tile's rows of w and its tokens of x begin. */
template <class W, class X> struct tile_source {
    const unsigned char *w, *x;
    W w_rows;
    X x_rows;
};

/* Rows and tokens that follow each other, from row0 and token0 on. */
using plain_source = tile_source<struct near_rows, struct near_blocks>;

template <class J> DEVICE plain_source plain_source_of(const J &j, int32_t row0, int32_t token0)
{
    const size_t row_bytes = (size_t)j.k.at[j.k.n_slices] * 2;
    return {(const unsigned char *)j.w + (size_t)row0 * row_bytes,
            (const unsigned char *)j.packed + (size_t)token0 * row_bytes,
            {j.n - 1 - row0, (uint32_t)row_bytes},
            {(j.n_tokens - 1 - token0) / FRAGMENT_TOKENS, (uint32_t)(FRAGMENT_TOKENS * row_bytes)}};
}

/* Asks for one step of a tile, when it is before `end`. */
template <int MT, int NT, class W, class X>
DEVICE void load_stage(unsigned char *smem, const struct tile_source<W, X> &from, int32_t step,
                       int32_t end)
{
    using shape = tile_shape<MT, NT>;
    unsigned char *stage = smem + step % STAGES * shape::stage_bytes;
    if (step < end) {
        load_rows<shape::bn>(stage, from.w + (size_t)step * ROW_BYTES, from.w_rows);
        load_x<shape::bt>(stage + shape::bn * ROW_BYTES, from.x, from.x_rows, step);
    }
    cp_async_commit(); /* also an empty group, so that the count stays right */
}

/* acc += chunk c of the stage: c[0], c[1] of token g, c[2], c[3] of token g + 8 of the lane, rows 2t, 2t + 1
 * of w. */
template <class E, int MT, int NT, class X>
DEVICE void chunk_sums(float (&acc)[MT][NT][4], const unsigned char *stage, const X &x_rows, int c)
{
    using shape = tile_shape<MT, NT>;
    const int g = lane_id() >> 2, t = lane_id() & 3;
    const unsigned char *w = stage, *x = stage + shape::bn * ROW_BYTES;
    const int row = warp_id() % WARPS_N * 8 * NT + g, token = warp_id() / WARPS_N * 16 * MT;
    uint4 b[NT];
    UNROLL
    for (int j = 0; j < NT; j++)
        b[j] = ld_128(w + granule_at(row + 8 * j, c * 4 + t));
    UNROLL
    for (int m = 0; m < MT; m++) {
        const struct fragment a = x_fragment(x_rows, x, token + 16 * m, c);
        UNROLL
        for (int j = 0; j < NT; j++)
            mma_fragment<E>(acc[m][j], a, b[j]);
    }
}

/* Where a tile's sums are: the next chunk of a row, and the step that has arrived for all. */
struct tile_cursor {
    int32_t chunk, step;
};

/* acc += what a step has of `left` chunks at the cursor.  HALVES: slices may begin in the middle of a step. */
template <class E, int MT, int NT, bool HALVES, class X>
DEVICE void step_sums(float (&acc)[MT][NT][4], const unsigned char *stage, const X &x_rows,
                      struct tile_cursor &at, int32_t left)
{
    const int c = at.chunk % STEP_CHUNKS;
    if (HALVES && (c > 0 || left < STEP_CHUNKS)) {
        chunk_sums<E, MT, NT>(acc, stage, x_rows, c);
        at.chunk++;
        return;
    }
    UNROLL
    for (int i = 0; i < STEP_CHUNKS; i++)
        chunk_sums<E, MT, NT>(acc, stage, x_rows, i);
    at.chunk += STEP_CHUNKS;
}

template <int MT, int NT> DEVICE void set_zero(float (&v)[MT][NT][4])
{
    UNROLL
    for (int i = 0; i < MT * NT * 4; i++)
        v[i / 4 / NT][i / 4 % NT][i % 4] = 0.0f;
}

/* sum += the segment's acc, unscaled; acc = 0. */
template <class E, int MT, int NT, class J>
DEVICE void end_segment(float (&sum)[MT][NT][4], float (&acc)[MT][NT][4], const J &job,
                        int32_t token0, int32_t seg)
{
    const int g = lane_id() >> 2, first = warp_id() / WARPS_N * 16 * MT;
    UNROLL
    for (int m = 0; m < MT; m++) {
        float f[2] = {1.0f, 1.0f}; /* of tokens g and g + 8 */
        UNROLL
        for (int i = 0; E::scaled && i < 2; i++) {
            const int32_t token = token0 + first + m * 16 + g + 8 * i, last = job.n_tokens - 1;
            f[i] = job.unscale[(size_t)(token < last ? token : last) *
                                   (size_t)job.k.seg[job.k.n_slices] +
                               (size_t)seg];
        }
        UNROLL
        for (int j = 0; j < NT; j++) {
            UNROLL
            for (int i = 0; i < 4; i++) {
                sum[m][j][i] += E::scaled ? acc[m][j][i] * f[i / 2] : acc[m][j][i];
                acc[m][j][i] = 0.0f;
            }
        }
    }
}

/* sum = slice i of a tile, whose first token is token0; at: before it.  The cursor's step and STAGES - 1
 * more have been asked for, at a tile's beginning those from the chunk's on. */
template <class E, int MT, int NT, bool HALVES, class J, class W, class X>
DEVICE void slice_sums(float (&sum)[MT][NT][4], float (&acc)[MT][NT][4], unsigned char *smem,
                       const J &job, const struct tile_source<W, X> &from, int32_t token0, int i,
                       struct tile_cursor &at, int32_t end)
{
    set_zero<MT, NT>(sum);
    for (int32_t seg = job.k.seg[i]; seg < job.k.seg[i + 1]; seg++) {
        const struct segment s = segment_at(job.k, seg);
        const int32_t steps = (s.n_chunks + STEP_CHUNKS - 1) / STEP_CHUNKS;
        const int32_t stop = at.chunk + (HALVES ? s.n_chunks : steps * STEP_CHUNKS);
        while (at.chunk < stop) {
            const int32_t step = at.chunk / STEP_CHUNKS;
            if (!HALVES || step != at.step) {
                cp_async_wait<STAGES - 2>();
                SYNC_THREADS(); /* the step has arrived for all; the one before has been read */
                load_stage<MT, NT>(smem, from, step + STAGES - 1, end);
                at.step = step;
            }
            step_sums<E, MT, NT, HALVES>(acc,
                                         smem + step % STAGES * tile_shape<MT, NT>::stage_bytes,
                                         from.x_rows, at, stop - at.chunk);
        }
        end_segment<E, MT, NT>(sum, acc, job, token0, seg);
    }
}

#endif
