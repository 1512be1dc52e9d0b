/* Chunks of columns of a matrix with scales in f32, for the kernels of scaled_*.cu. */
#ifndef BACKENDS_CUDA_SCALED_DEVICE_H
#define BACKENDS_CUDA_SCALED_DEVICE_H

#include "backends/cuda/gpu.h"
#include "backends/cuda/scaled_kernels.h"

enum { SCALED_WARPS = 8, SCALED_RUN_BYTES = 16 * SCALED_PANEL };

template <int KIND> struct scaled_shape {
    static const bool bytes = KIND == SCALED_E4M3 || KIND == SCALED_INT8;
    static const bool indexed = KIND == SCALED_INT8 || KIND == SCALED_INT4;
    static const int runs = bytes ? 2 : 1; /* of 16 bytes a lane, of a chunk */
};

/* The scale that a lane holds, of its row: up to column `end`, or of the group `end`. */
struct held_scale {
    float scale, minimum;
    int32_t end;
};

/* Block or group g of row `lane` of a panel. */
template <int KIND>
DEVICE void load_scale(struct held_scale &h, const struct scaled_matrix &m,
                       const unsigned char *panel, int32_t g, int lane)
{
    const float *f = (const float *)panel + lane;
    if (KIND == SCALED_SMALL) {
        const float small = f32_of_e4m3(
            panel[2 * SCALED_PANEL * sizeof(float) + (size_t)g * SCALED_PANEL + (size_t)lane]);
        h.scale = small * f[0] / f[SCALED_PANEL];
    } else {
        h.scale = f[(size_t)g * SCALED_PANEL];
    }
    if (scaled_shape<KIND>::indexed)
        h.minimum = f[(size_t)(m.at.n_scales + g) * SCALED_PANEL];
}

/* The scale of column col, where that is another one; group: of the column, for indexed kinds. */
template <int KIND>
DEVICE void hold_scale(struct held_scale &h, const struct scaled_matrix &m,
                       const unsigned char *panel, int32_t col, int32_t group, int lane)
{
    if (scaled_shape<KIND>::indexed) {
        if (group == h.end)
            return;
        h.end = group;
        load_scale<KIND>(h, m, panel, group, lane);
    } else if (col >= h.end) {
        const int32_t block = (m.at.skip + col) / m.at.block;
        h.end = (block + 1) * m.at.block - m.at.skip;
        load_scale<KIND>(h, m, panel, block < m.at.n_scales ? block : m.at.n_scales - 1, lane);
    }
}

/* The weight with that code; levels [16]. */
template <int KIND>
DEVICE float scaled_value(uint32_t code, const struct held_scale &h, const float *levels)
{
    if (KIND == SCALED_E4M3)
        return f32_of_e4m3((uint8_t)code) * h.scale;
    if (KIND == SCALED_INT8)
        return fmaf((float)(int32_t)(int8_t)code, h.scale, h.minimum);
    if (KIND == SCALED_INT4)
        return fmaf((float)(int32_t)code, h.scale, h.minimum);
    return levels[code] * h.scale;
}

/* Codes of a chunk of one lane. */
template <int KIND> struct scaled_codes {
    uint4 run[scaled_shape<KIND>::runs];
};

template <int KIND>
DEVICE void load_codes(struct scaled_codes<KIND> &q, const struct scaled_matrix &m,
                       const unsigned char *panel, int32_t chunk, int lane)
{
    constexpr int runs = scaled_shape<KIND>::runs;
    const unsigned char *at =
        panel + m.at.codes_at + ((size_t)chunk * runs * SCALED_PANEL + (size_t)lane) * 16;
    UNROLL
    for (int i = 0; i < runs; i++)
        q.run[i] = ld_stream_128(at + i * SCALED_RUN_BYTES);
}

/* Four codes, of columns 4 quad to 4 quad + 3 of the chunk: one in each byte. */
template <int KIND> DEVICE uint32_t quad_of(const struct scaled_codes<KIND> &q, int quad)
{
    const uint4 &r = q.run[scaled_shape<KIND>::bytes ? quad / 4 : 0];
    const uint32_t w = quad % 4 == 0 ? r.x : quad % 4 == 1 ? r.y : quad % 4 == 2 ? r.z : r.w;
    return scaled_shape<KIND>::bytes ? w : w >> quad / 4 * 4 & 0x0f0f0f0fU;
}

/* A warp's panel over the columns [begin, end) against tokens [0, n_tokens) of x: acc[t], zeros
 * before, of the lane's row.  x_tile [NT][SCALED_CHUNK] is the warp's own shared memory.  Columns of
 * a chunk outside the range meet as +0 and -0, which changes no sum.
 * rows: token t is row rows[t] of x; NULL: t.  early: x may be read only behind pdl_wait. */
template <int KIND, int NT, bool EARLY>
DEVICE void scaled_chain(float (&acc)[NT], const struct scaled_matrix &m,
                         const unsigned char *panel, int32_t begin, int32_t end, const float *x,
                         size_t x_stride, const int32_t *rows, int n_tokens, const float *levels,
                         float (*x_tile)[SCALED_CHUNK])
{
    constexpr int depth = 4;
    const int lane = lane_id();
    const int32_t first = begin / SCALED_CHUNK;
    const int32_t n = begin < end ? (end - 1) / SCALED_CHUNK + 1 - first : 0;
    struct scaled_codes<KIND> q[depth];
    struct held_scale held = {0.0f, 0.0f, -1};
    UNROLL
    for (int i = 0; i < depth; i++)
        if (i < n)
            load_codes<KIND>(q[i], m, panel, first + i, lane);
    if (EARLY)
        pdl_wait(); /* w is never written in a step, x is */
    for (int32_t c = 0; c < n; c += depth) {
        UNROLL
        for (int i = 0; i < depth; i++) {
            if (c + i >= n)
                break;
            const int32_t col0 = (first + c + i) * SCALED_CHUNK, mine = col0 + lane;
            const bool inside = mine >= begin && mine < end;
            const bool whole = col0 >= begin && col0 + SCALED_CHUNK <= end;
            int32_t group = 0;
            if (scaled_shape<KIND>::indexed)
                group = ((const uint16_t *)(panel + m.at.index_at))[mine];
            sync_warp(); /* the chunk before has been read */
            UNROLL
            for (int t = 0; t < NT; t++)
                if (t < n_tokens)
                    x_tile[t][lane] =
                        inside ? x[(size_t)(rows ? rows[t] : t) * x_stride + (size_t)mine] : -0.0f;
            sync_warp(); /* x_tile is written */
            UNROLL
            for (int quad = 0; quad < SCALED_CHUNK / 4; quad++) {
                const uint32_t codes = quad_of(q[i], quad);
                float w[4];
                UNROLL
                for (int b = 0; b < 4; b++) {
                    const int32_t col = col0 + 4 * quad + b;
                    hold_scale<KIND>(held, m, panel, col,
                                     scaled_shape<KIND>::indexed ? shfl(group, 4 * quad + b) : 0,
                                     lane);
                    w[b] = scaled_value<KIND>(codes >> 8 * b & 255U, held, levels);
                    if (!whole && (col < begin || col >= end))
                        w[b] = 0.0f;
                }
                UNROLL
                for (int t = 0; t < NT; t++) {
                    if (t >= n_tokens)
                        break;
                    const float4 v = ld_f32x4(&x_tile[t][4 * quad]);
                    acc[t] = fmaf(v.x, w[0], acc[t]);
                    acc[t] = fmaf(v.y, w[1], acc[t]);
                    acc[t] = fmaf(v.z, w[2], acc[t]);
                    acc[t] = fmaf(v.w, w[3], acc[t]);
                }
            }
            if (c + i + depth < n)
                load_codes<KIND>(q[i], m, panel, first + c + i + depth, lane);
        }
    }
}

/* levels [16] of the matrix to shared memory; the caller's barrier follows. */
DEVICE void stage_levels(float *to, const struct scaled_matrix &m)
{
    UNROLL
    for (int i = 0; i < 16; i++)
        if ((int)threadIdx.x == i)
            to[i] = m.levels[i];
}

#endif
