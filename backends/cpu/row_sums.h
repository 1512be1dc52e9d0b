/* Sums over a row in LANES lanes: see row_kernels.h, which includes this. */
#ifndef BACKENDS_CPU_ROW_SUMS_H
#define BACKENDS_CPU_ROW_SUMS_H

#include <math.h>
#include <string.h>

#include "backends/cpu/kernels.h"

/* Lanes l and l + 8, then l + 4, l + 2, l + 1. */
static inline float lane_sum(const float *lane)
{
    float s[LANES];
    memcpy(s, lane, sizeof s);
    for (int j = 0; j < 8; j++) /* loops of constant length become vectors */
        s[j] = s[j] + s[j + 8];
    for (int j = 0; j < 4; j++)
        s[j] = s[j] + s[j + 4];
    for (int j = 0; j < 2; j++)
        s[j] = s[j] + s[j + 2];
    return s[0] + s[1];
}

static inline float sum_of_squares(const float *x, float minus, int n)
{
    float lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = x[i + j] - minus;
            lane[j] = fmaf(v, v, lane[j]);
        }
    for (int j = 0; i + j < n; j++) {
        float v = x[i + j] - minus;
        lane[j] = fmaf(v, v, lane[j]);
    }
    return lane_sum(lane);
}

static inline float sum_of(const float *x, int n)
{
    float lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j];
    for (int j = 0; i + j < n; j++)
        lane[j] += x[i + j];
    return lane_sum(lane);
}

#endif
