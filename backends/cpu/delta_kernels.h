/* delta_head in vectors of columns: a block's part of the state stays in the first-level cache from token to token.
 * The including file has included simd_X.h and attn_kernels.h. */
#ifndef BACKENDS_CPU_DELTA_KERNELS_H
#define BACKENDS_CPU_DELTA_KERNELS_H

#include "backends/cpu/mamba_kernels.h"
#include "backends/cpu/row_kernels.h"
#include "backends/cpu/vectors.h"

/* What a token's columns need: see struct delta_head. */
struct delta_token {
    const float *q, *k, *v;
    float g, beta, *out;
};

static inline struct delta_token delta_token(const struct delta_head *h, int t)
{
    size_t at = (size_t)t * h->qkv_stride, gates = (size_t)t * h->gate_stride;
    return (struct delta_token){.q = h->q + at,
                                .k = h->k + at,
                                .v = h->v + at,
                                .g = h->g[gates],
                                .beta = h->beta[gates],
                                .out = h->out + (size_t)t * h->out_stride};
}

/* n vectors of columns from column c on; n is a constant. */
ALWAYS_INLINE void delta_vectors(const struct delta_head *h, const struct delta_token *x, int c,
                                 int n)
{
    vf u[DELTA_COLS / VL], out[DELTA_COLS / VL], g = v_splat(x->g);
    float each[VL], *s = h->state + c;
    UNROLL for (int j = 0; j < n; j++) u[j] = out[j] = v_splat(0.0f);
    for (int i = 0; i < h->d_k; i++, s += h->stride) {
        vf k = v_splat(x->k[i]);
        UNROLL for (int j = 0; j < n; j++) u[j] = v_fma(v_mul(g, v_load(s + j * VL)), k, u[j]);
    }
    UNROLL for (int j = 0; j < n; j++)
    {
        v_store(each, u[j]);
        for (int l = 0; l < VL; l++)
            each[l] = (x->v[c + j * VL + l] - each[l]) * x->beta;
        u[j] = v_load(each);
    }
    s = h->state + c;
    for (int i = 0; i < h->d_k; i++, s += h->stride) {
        vf k = v_splat(x->k[i]), q = v_splat(x->q[i]);
        UNROLL for (int j = 0; j < n; j++)
        {
            vf row = v_fma(k, u[j], v_mul(g, v_load(s + j * VL)));
            v_store(s + j * VL, row);
            out[j] = v_fma(row, q, out[j]);
        }
    }
    UNROLL for (int j = 0; j < n; j++) v_store(x->out + c + j * VL, out[j]);
}

static void delta_column(const struct delta_head *h, const struct delta_token *x, int c)
{
    float m = 0.0f, out = 0.0f, *s = h->state + c;
    for (int i = 0; i < h->d_k; i++)
        m = fmaf(x->g * s[(size_t)i * h->stride], x->k[i], m);
    float u = (x->v[c] - m) * x->beta;
    for (int i = 0; i < h->d_k; i++) {
        float row = fmaf(x->k[i], u, x->g * s[(size_t)i * h->stride]);
        s[(size_t)i * h->stride] = row;
        out = fmaf(row, x->q[i], out);
    }
    x->out[c] = out;
}

static void fast_delta_head(const struct delta_head *h)
{
    if (h->skip) {
        fast_mamba_head(h);
        return;
    }
    for (int t = 0; t < h->n; t++) {
        struct delta_token x = delta_token(h, t);
        int c = 0;
        for (; c + DELTA_COLS <= h->cols; c += DELTA_COLS)
            delta_vectors(h, &x, c, DELTA_COLS / VL);
        for (; c + VL <= h->cols; c += VL)
            delta_vectors(h, &x, c, 1);
        for (; c < h->cols; c++)
            delta_column(h, &x, c);
    }
}

#endif
