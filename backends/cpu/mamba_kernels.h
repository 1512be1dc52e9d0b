/* The rule of Mamba-2 in vectors of columns.  What a token adds to the state does not depend on the state, so several
 * tokens go through a vector of it at a time: it is loaded and stored once for them.  The including file has included
 * simd_X.h. */
#ifndef BACKENDS_CPU_MAMBA_KERNELS_H
#define BACKENDS_CPU_MAMBA_KERNELS_H

#include <math.h>

#include "backends/cpu/vectors.h"

/* Sums and inputs of MAMBA_TOKENS tokens and MAMBA_VECTORS vectors are in registers at the same time. */
enum { MAMBA_TOKENS = VL == 8 ? 2 : 4, MAMBA_VECTORS = 2, MAMBA_MOST = DELTA_COLS / VL };

/* m tokens from token t on, n vectors of columns from column c on; m and n are constants. */
ALWAYS_INLINE void mamba_vectors(const struct delta_head *h, int t, int m, int c, int n)
{
    const float *q = h->q + (size_t)t * h->qkv_stride, *k = h->k + (size_t)t * h->qkv_stride;
    const float *v = h->v + (size_t)t * h->qkv_stride + c, *g = h->g + (size_t)t * h->gate_stride;
    const float *step = h->beta + (size_t)t * h->gate_stride;
    float *s = h->state + c, *to = h->out + (size_t)t * h->out_stride + c;
    vf u[MAMBA_TOKENS][MAMBA_MOST], out[MAMBA_TOKENS][MAMBA_MOST], gate[MAMBA_TOKENS];
    UNROLL for (int a = 0; a < m; a++)
    {
        gate[a] = v_splat(g[(size_t)a * h->gate_stride]);
        UNROLL for (int j = 0; j < n; j++)
        {
            vf x = v_load(v + (size_t)a * h->qkv_stride + j * VL);
            u[a][j] = v_mul(v_splat(step[(size_t)a * h->gate_stride]), x);
            out[a][j] = v_splat(0.0f);
        }
    }
    for (int i = 0; i < h->d_k; i++, s += h->stride) {
        vf row[MAMBA_MOST];
        UNROLL for (int j = 0; j < n; j++) row[j] = v_load(s + j * VL);
        UNROLL for (int a = 0; a < m; a++)
        {
            vf ka = v_splat(k[(size_t)a * h->qkv_stride + (size_t)i]);
            vf qa = v_splat(q[(size_t)a * h->qkv_stride + (size_t)i]);
            UNROLL for (int j = 0; j < n; j++)
            {
                row[j] = v_fma(ka, u[a][j], v_mul(gate[a], row[j]));
                out[a][j] = v_fma(row[j], qa, out[a][j]);
            }
        }
        UNROLL for (int j = 0; j < n; j++) v_store(s + j * VL, row[j]);
    }
    vf skip = v_splat(*h->skip);
    UNROLL for (int a = 0; a < m; a++)
    {
        UNROLL for (int j = 0; j < n; j++)
        {
            vf x = v_load(v + (size_t)a * h->qkv_stride + j * VL);
            v_store(to + (size_t)a * h->out_stride + j * VL, v_fma(skip, x, out[a][j]));
        }
    }
}

static void mamba_column(const struct delta_head *h, int t, int c)
{
    const float *q = h->q + (size_t)t * h->qkv_stride, *k = h->k + (size_t)t * h->qkv_stride;
    float v = h->v[(size_t)t * h->qkv_stride + (size_t)c], g = h->g[(size_t)t * h->gate_stride];
    float u = h->beta[(size_t)t * h->gate_stride] * v, out = 0.0f, *s = h->state + c;
    for (int i = 0; i < h->d_k; i++) {
        float row = fmaf(k[i], u, g * s[(size_t)i * h->stride]);
        s[(size_t)i * h->stride] = row;
        out = fmaf(row, q[i], out);
    }
    h->out[(size_t)t * h->out_stride + (size_t)c] = fmaf(*h->skip, v, out);
}

static void fast_mamba_head(const struct delta_head *h)
{
    int t = 0, wide = MAMBA_VECTORS * VL;
    for (; t + MAMBA_TOKENS <= h->n; t += MAMBA_TOKENS) {
        int c = 0;
        for (; c + wide <= h->cols; c += wide)
            mamba_vectors(h, t, MAMBA_TOKENS, c, MAMBA_VECTORS);
        for (; c + VL <= h->cols; c += VL)
            mamba_vectors(h, t, MAMBA_TOKENS, c, 1);
        for (int a = 0; a < MAMBA_TOKENS; a++)
            for (int i = c; i < h->cols; i++)
                mamba_column(h, t + a, i);
    }
    for (; t < h->n; t++) {
        int c = 0;
        for (; c + 2 * wide <= h->cols; c += 2 * wide)
            mamba_vectors(h, t, 1, c, 2 * MAMBA_VECTORS);
        for (; c + VL <= h->cols; c += VL)
            mamba_vectors(h, t, 1, c, 1);
        for (; c < h->cols; c++)
            mamba_column(h, t, c);
    }
}

#endif
