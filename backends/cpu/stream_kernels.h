/* Kernels over one row of several residual streams, and over gates that are cut: see row_kernels.h, which includes
 * this. */
#ifndef BACKENDS_CPU_STREAM_KERNELS_H
#define BACKENDS_CPU_STREAM_KERNELS_H

#include "backends/cpu/row_sums.h"

/* LANES columns at a time of all streams, so that the result may take their place. */
static void row_predict_streams(float *x, const float *coef, int n_streams, int n)
{
    float in[STREAMS_MAX][LANES];
    for (int c = 0; c < n; c += LANES) {
        int m = n - c < LANES ? n - c : LANES;
        for (int p = 0; p < n_streams; p++)
            memcpy(in[p], x + (size_t)p * (size_t)n + c, (size_t)m * sizeof *x);
        for (int j = 0; j < n_streams; j++) {
            float acc[LANES] = {0}, *out = x + (size_t)j * (size_t)n + c;
            for (int p = 0; p < n_streams; p++)
                for (int l = 0; l < m; l++)
                    acc[l] = fmaf(coef[j * n_streams + p], in[p][l], acc[l]);
            for (int l = 0; l < m; l++)
                out[l] = acc[l] + in[j][l];
        }
    }
}

static void row_correct_streams(float *x, const float *coef, int i, const float *w, float *active,
                                int n_streams, int n)
{
    float *own = x + (size_t)i * (size_t)n;
    for (int c = 0; c < n; c++)
        active[c] = active[c] - own[c];
    for (int j = 0; j < n_streams; j++) {
        float *out = x + (size_t)j * (size_t)n, factor = coef[j] + 1.0f;
        for (int c = 0; c < n; c++)
            out[c] = fmaf(active[c], factor, out[c]);
    }
    if (w)
        for (int c = 0; c < n; c++)
            active[c] = own[c] * w[c];
    else
        memcpy(active, own, (size_t)n * sizeof *own);
}

static void row_slice_stats(const float *x, int n, float out[3])
{
    out[0] = (float)n;
    out[1] = sum_of(x, n) / (float)n;
    out[2] = sum_of_squares(x, out[1], n);
}

static void row_cut_gates(float *x, float cut, int n)
{
    for (int i = 0; i < n; i++) {
        float above = x[i] - cut;
        x[i] = above < 0.0f ? 0.0f : above;
    }
}

#define STREAM_KERNELS                                                                             \
    .predict_streams = row_predict_streams, .correct_streams = row_correct_streams,                \
    .slice_stats = row_slice_stats, .cut_gates = row_cut_gates

#endif
