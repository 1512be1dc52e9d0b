/* What a block of the kernels of attention_latent.cu does with one split: shared memory, scores, softmax, values
 * and the merge into what it has of the splits before. */
#ifndef BACKENDS_CUDA_ATTENTION_LATENT_H
#define BACKENDS_CUDA_ATTENTION_LATENT_H

#include "backends/cuda/attention_merge.h"
#include "backends/cuda/attention_tile.h"

enum {
    KEYS = 2 * TILE, /* of a split, whose halves four warps load each */
    WARPS = 8,
    THREADS = WARPS * 32,
    WARP_DIMS = HEAD_MAX / WARPS, /* of a value, that a warp sums */
    SCORE_PITCH = KEYS + 8,       /* floats between rows of scores */
    WEIGHT_PITCH = KEYS + PAD,
    GROUP_KEYS = KEYS * GROUP_SPLITS,
    PARTS_A_BLOCK = 2, /* splits of a decode are spread while a block has at most so many */
};

/* A block's work: up to 16 M rows of a sequence over splits [split0, split1).  In shared memory: no register
 * has it while matrices are multiplied. */
struct latent_work {
    int seq, row0, n_rows; /* of the sequence's rows: token row / n_q, head row % n_q */
    int split0, split1;
    int number; /* of the part; -1: all of the rows' splits */
};

struct latent_smem {
    uint16_t *q;      /* [16 M][pitch] */
    uint16_t *kv;     /* [M stages][KEYS][pitch] */
    uint16_t *weight; /* [16 M][WEIGHT_PITCH] */
    float *score;     /* [32][SCORE_PITCH]; M = 1: those of each half of the dimensions */
    float *factor;    /* [16 M][4], latent_softmax */
    float *state;     /* [16 M][4], begin_rows */
    float *scale;     /* [M stages][KEYS] */
    int32_t *pos;     /* [16 M]; -1: no row */
    latent_work *work;
    int pitch, d_pad, n_row; /* n_row: 16 M */
};

static size_t latent_bytes(int d, int m)
{
    size_t pitch = (size_t)(d + SECTION - 1) / SECTION * SECTION + PAD, rows = (size_t)m * ROWS;
    return (rows + (size_t)m * KEYS) * pitch * sizeof(uint16_t) +
           rows * WEIGHT_PITCH * sizeof(uint16_t) +
           (2 * ROWS * SCORE_PITCH + 9 * rows + (size_t)m * KEYS) * sizeof(float) +
           sizeof(struct latent_work);
}

template <int M> DEVICE latent_smem smem_of(char *base, int d)
{
    latent_smem s;
    s.n_row = M * ROWS;
    s.d_pad = (d + SECTION - 1) / SECTION * SECTION;
    s.pitch = s.d_pad + PAD;
    s.q = (uint16_t *)base;
    s.kv = s.q + s.n_row * s.pitch;
    s.weight = s.kv + M * KEYS * s.pitch;
    s.score = (float *)(s.weight + s.n_row * WEIGHT_PITCH);
    s.factor = s.score + 2 * ROWS * SCORE_PITCH;
    s.state = s.factor + 4 * s.n_row;
    s.scale = s.state + 4 * s.n_row;
    s.pos = (int32_t *)(s.scale + M * KEYS);
    s.work = (latent_work *)(s.pos + s.n_row);
    return s;
}

/* Scores of all rows with the split's keys, unscaled.  A warp has 16 keys; M = 1: of one half of the
 * dimensions; M = 2: of 16 rows. */
template <bool F16, int M> DEVICE void latent_scores(const latent_smem &s, const uint16_t *k)
{
    const int lane = lane_id(), key = warp_id() % 4 * 16, part = warp_id() / 4, half = s.d_pad / 2;
    const int row = M == 1 ? 0 : part * ROWS, dim = M == 1 ? part * half : 0;
    const uint16_t *q = s.q + (row + lane % 16) * s.pitch + dim + lane / 16 * 8;
    k += (key + lane / 16 * 8 + lane % 8) * s.pitch + dim + lane / 8 % 2 * 8;
    float c[M][2][4];
    UNROLL for (int h = 0; h < M; h++) UNROLL for (int i = 0; i < 4; i++) c[h][0][i] = c[h][1][i] =
        0.0f;
    for (int i = 0; i < half; i += 16) {
        UNROLL for (int h = 0; h < M; h++)
        {
            uint32_t x[4], b[4];
            ldmatrix(x, q + h * half + i);
            ldmatrix(b, k + h * half + i); /* keys 0 to 7, dims 0; dims 8; keys 8 to 15 likewise */
            mma<F16>(c[h][0], x, b[0], b[1]);
            mma<F16>(c[h][1], x, b[2], b[3]);
        }
    }
    float *to = s.score + (part * ROWS + lane / 4) * SCORE_PITCH + key + lane % 4 * 2;
    UNROLL for (int n = 0; n < 2; n++) UNROLL for (int i = 0; i < 4; i++)
        to[i / 2 * 8 * SCORE_PITCH + 8 * n + i % 2] =
            M == 1 ? c[0][n][i] : c[0][n][i] + c[M - 1][n][i];
}

/* Row r's state: {m, l} of its group, then of the groups before it.  Rows warp_id() + WARPS i are this warp's. */
DEVICE void begin_rows(const attn_args &a, const latent_work &w, const latent_smem &s)
{
    for (int r = warp_id(); r < s.n_row; r += WARPS)
        if (lane_id() == 0) {
            s.pos[r] = r < w.n_rows ? a.pos[a.q_start[w.seq] + (w.row0 + r) / a.n_q] : -1;
            st_f32x4(s.state + 4 * r, {-INFINITY, 0.0f, -INFINITY, 0.0f});
        }
}

/* Scores become weights.  factor of each row: on its group and the split, and, where the group ends, on
 * the groups before and this one. */
template <bool F16, int M>
DEVICE void latent_softmax(const attn_args &a, const latent_smem &s, const float *scale, int key0,
                           bool ends)
{
    const int lane = lane_id();
    UNROLL for (int i = 0; i < 2 * M; i++)
    {
        const int row = warp_id() + WARPS * i, pos = s.pos[row];
        const float *at = s.score + row * SCORE_PITCH + 2 * lane;
        float x[2], by[2] = {1.0f, 1.0f}, most = -INFINITY;
        UNROLL for (int j = 0; j < 2; j++)
        {
            by[j] = scale ? scale[2 * lane + j] : 1.0f;
            x[j] = M == 1 ? at[j] + at[ROWS * SCORE_PITCH + j] : at[j];
            x[j] *= scale ? a.scale * by[j] : a.scale;
            x[j] = a.cap > 0.0f ? exact_soft_cap(x[j], a.cap) : x[j];
            x[j] = sees(a, pos, key0 + 2 * lane + j) ? x[j] : -INFINITY;
            most = greater(most, x[j]);
        }
        most = warp_max(most);
        const float base = most == -INFINITY ? 0.0f : most;
        UNROLL for (int j = 0; j < 2; j++) x[j] = exact_exp(x[j] - base);
        const float sum = warp_sum(x[0] + x[1]);
        float4 g = ld_f32x4(s.state + 4 * row), f = {1.0f, 0.0f, 1.0f, 0.0f};
        merge_factors(g.x, g.y, most, sum, &f.x, &f.y);
        if (ends) {
            merge_factors(g.z, g.w, g.x, g.y, &f.z, &f.w);
            g.x = -INFINITY;
            g.y = 0.0f;
        }
        sync_warp(); /* every lane has read the state */
        if (lane == 0) {
            st_f32x4(s.factor + 4 * row, f);
            st_f32x4(s.state + 4 * row, g);
        }
        *(uint32_t *)(s.weight + row * WEIGHT_PITCH + 2 * lane) =
            pack_2<F16>(x[0] * by[0], x[1] * by[1]);
    }
}

/* What a lane holds of the sums of all rows: of 16 rows each accumulator fragments of dims
 * WARP_DIMS warp_id() + 8 n + 2 (lane % 4) + {0, 1}. */
template <int M> struct latent_sums {
    float o[M][WARP_DIMS / 8][4];
};

template <int M> DEVICE void clear(latent_sums<M> &t)
{
    UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < WARP_DIMS / 8; n++)
        UNROLL for (int i = 0; i < 4; i++) t.o[m][n][i] = 0.0f;
}

/* The lane's row 0 or 1 of 16 rows m. */
DEVICE int row_of(int m, int r)
{
    return m * ROWS + lane_id() / 4 + 8 * r;
}

/* merge_one for the lane's sums of such a row. */
template <int M>
DEVICE void merge_row(latent_sums<M> &t, const latent_sums<M> &part, int m, int r, float a, float b)
{
    if (b == 0.0f)
        return;
    UNROLL for (int n = 0; n < WARP_DIMS / 8; n++) UNROLL for (int i = 2 * r; i < 2 * r + 2; i++)
    {
        const float add = part.o[m][n][i] * b;
        t.o[m][n][i] = a == 0.0f ? add : fmaf(t.o[m][n][i], a, add);
    }
}

/* The split's weighted values, merged into the group. */
template <bool F16, int M>
DEVICE void latent_values(const latent_smem &s, const uint16_t *v, latent_sums<M> &group)
{
    const int lane = lane_id();
    latent_sums<M> part;
    clear(part);
    v += lane % 16 * s.pitch + WARP_DIMS * warp_id() + lane / 16 * 8;
    UNROLL for (int k = 0; k < KEYS; k += 16)
    {
        uint32_t x[M][4];
        UNROLL for (int m = 0; m < M; m++)
            ldmatrix(x[m], s.weight + (m * ROWS + lane % 16) * WEIGHT_PITCH + k + lane / 16 * 8);
        UNROLL for (int n = 0; n < WARP_DIMS / 8; n += 2)
        { /* matrices: keys k, dims 8 n; keys + 8; the same keys, dims 8 n + 8 */
            uint32_t b[4];
            ldmatrix_trans(b, v + k * s.pitch + 8 * n);
            UNROLL for (int m = 0; m < M; m++)
            {
                mma<F16>(part.o[m][n], x[m], b[0], b[1]);
                mma<F16>(part.o[m][n + 1], x[m], b[2], b[3]);
            }
        }
    }
    UNROLL for (int m = 0; m < M; m++) UNROLL for (int r = 0; r < 2; r++)
    {
        const float4 f = ld_f32x4(s.factor + 4 * row_of(m, r));
        merge_row(group, part, m, r, f.x, f.y);
    }
}

/* The group's sums merged with those of the groups before, which are in the block's part of a.outer,
 * [..][THREADS], a thread's own; first: there are none.  back: the result stays in the registers, else it
 * goes there.  Factors: elements at and at + 1 of each row's. */
template <int M>
DEVICE void merge_outer(const attn_args &a, const latent_smem &s, bool first, int at, bool back,
                        latent_sums<M> &group)
{
    float *outer = a.outer + (size_t)blockIdx.x * (size_t)(M * ROWS * HEAD_MAX) + threadIdx.x;
    latent_sums<M> all;
    const auto each = [&](auto fn) {
        UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < WARP_DIMS / 8; n++)
            UNROLL for (int i = 0; i < 4; i++)
                fn(all.o[m][n][i], outer + ((m * (WARP_DIMS / 8) + n) * 4 + i) * THREADS);
    };
    if (first) {
        all = group;
    } else {
        each([](float &x, const float *o) { x = *o; });
        UNROLL for (int m = 0; m < M; m++) UNROLL for (int r = 0; r < 2; r++) merge_row(
            all, group, m, r, s.factor[4 * row_of(m, r) + at], s.factor[4 * row_of(m, r) + at + 1]);
    }
    if (back) {
        group = all;
        return;
    }
    each([](const float &x, float *o) { *o = x; });
    clear(group);
}

#endif
