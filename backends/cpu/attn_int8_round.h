/* round_16 of attn_round.h in vectors: the same bits.  Queries of int8 attention as its sums read them. */
#ifndef BACKENDS_CPU_ATTN_INT8_ROUND_H
#define BACKENDS_CPU_ATTN_INT8_ROUND_H

#include "backends/cpu/attn_int8.h"
#include "backends/cpu/attn_softmax.h"

/* x [n], whole groups, to the nearest integers of x * inv; the result is their sum. */
ALWAYS_INLINE int32_t round_groups(const float *x, int n, float inv, int16_t *out)
{
    const vf magic = v_splat(0x1.8p23f), factor = v_splat(inv);
    vw sum[2] = {w_splat(0), w_splat(0)};
    for (int i = 0; i < n; i += FOUR_VL) {
        UNROLL
        for (int j = 0; j < FOUR_VL; j += 2 * VL) {
            vw a = words_of_f(v_add(v_mul(v_load(x + i + j), factor), magic));
            vw b = words_of_f(v_add(v_mul(v_load(x + i + j + VL), factor), magic));
            sum[0] = w_add(sum[0], a);
            sum[1] = w_add(sum[1], b);
            w_store_halves(out + i + j, a, b); /* the low half of magic's bits is 0 */
        }
    }
    return (int32_t)(w_sum(w_add(sum[0], sum[1])) - (uint32_t)n * bits_of_f32(0x1.8p23f));
}

/* round_16 of x [n], whole groups, whose greatest magnitude has the bits `most`; sum: of out. */
static float round_row(const float *x, int n, int32_t most, float top, int16_t *out, int32_t *sum)
{
    float m = f32_of_bits((uint32_t)most);
    bool finite = most < 0x7f800000;
    if (!finite || m < 0x1p-100f) {
        memset(out, 0, (size_t)n * sizeof *out);
        *sum = 0;
        return finite ? 0.0f : f32_of_bits(0x7fc00000U);
    }
    *sum = round_groups(x, n, top / m, out);
    return m / top;
}

/* Row r of a tile of queries from x [d]. */
static void int8_take(const float *x, int d, float scale, int r, int rows, int32_t *q,
                      int32_t *start, float *factor)
{
    float padded[HEAD_MAX];
    int16_t a[HEAD_MAX];
    int32_t all, sum = 0;
    vw most = w_splat(0);
    int n = group_end(d);
    if (n > d) {
        memcpy(padded, x, (size_t)d * sizeof *x);
        memset(padded + d, 0, (size_t)(n - d) * sizeof *x);
        x = padded;
    }
    for (int i = 0; i < n; i += VL)
        most = w_max(most, w_magnitude(v_load(x + i)));
    factor[r] = round_row(x, n, w_greatest(most), query_top(d), a, &all) * scale;
    for (int i = 0; i < int8_lanes(d) * LANE_BYTES; i += 4, q += 2 * rows) {
        q[r] = (int32_t)((uint16_t)a[i] | (uint32_t)(uint16_t)a[i + 2] << 16);
        q[rows + r] = (int32_t)((uint16_t)a[i + 1] | (uint32_t)(uint16_t)a[i + 3] << 16);
        sum += a[i] + a[i + 2];
    }
    start[r] = -128 * sum;
}

#endif
