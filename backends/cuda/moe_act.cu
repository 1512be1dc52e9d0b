/* Experts: what is between a layer's products where their kernels do not do it, and the biases of
 * down. */
#include "backends/cuda/gpu.h"
#include "backends/cuda/moe_kernels.h"
#include "backends/gpu/activated.h"

enum { THREADS = 256 };

/* Which of its token's experts row `row` is. */
DEVICE int32_t place_of(const struct moe_groups &g, int32_t row, int32_t token)
{
    int32_t i = 0;
    while (i < g.top_k - 1 && g.row[token * g.top_k + i] != row)
        i++;
    return i;
}

/* Grid: P * ffn elements.  Bytes: 12 an element, in L2 where they fit; 4 k of the token's rows from
 * L1. */
KERNEL(THREADS) moe_act_kernel(struct moe_gated a)
{
    pdl_wait();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int32_t row = (int32_t)(i / a.ffn), c = (int32_t)(i % a.ffn);
    if (row >= a.n_rows)
        return;
    float gate = a.gate[(size_t)row * a.gate_stride + (size_t)c];
    float up = a.up ? a.up[(size_t)row * a.up_stride + (size_t)c] : 1.0f;
    if (a.bias || a.weigh) {
        const int32_t token = a.groups.token[row], at = place_of(a.groups, row, token);
        if (a.bias) {
            const int32_t expert = a.ids[(size_t)token * (size_t)a.id_stride + (size_t)at];
            const float *bias = a.bias + (size_t)expert * 2 * (size_t)a.ffn;
            gate += bias[c];
            up += bias[a.ffn + c];
        }
        if (a.weigh) {
            const float weight = a.weights[(size_t)token * (size_t)a.weight_stride + (size_t)at];
            gate *= weight;
            up *= weight;
        }
    }
    float out = activated(a.act, gate);
    if (a.glu_limit > 0.0f) {
        gate = gate > a.glu_limit ? a.glu_limit : gate;
        up = up > a.glu_limit ? a.glu_limit : up;
        up = up < -a.glu_limit ? -a.glu_limit : up;
        out = (up + 1.0f) * ::gate(gate, a.glu_alpha * gate);
    } else if (a.up) {
        out *= up;
    }
    a.out[(size_t)row * (size_t)a.ffn + (size_t)c] = out;
}

extern "C" enum status moe_act(struct backend *be, const struct moe_gated *g)
{
    const int64_t n = (int64_t)g->n_rows * g->ffn;
    return LAUNCH_DEPENDENT(be, moe_act_kernel, (unsigned)blocks_for(n, THREADS), THREADS, 0, *g);
}

struct moe_bias_args {
    const float *bias; /* [E, n] */
    const int32_t *ids;
    const float *weights;
    float *out;
    int32_t top_k, n, id_stride, weight_stride, out_stride;
};

/* grid (T, n / THREADS); 4 k n of the biases, from L2, + 8 n a token */
KERNEL(THREADS) moe_bias_kernel(struct moe_bias_args a)
{
    pdl_wait();
    const int32_t c = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    const int32_t *ids = a.ids + (int64_t)blockIdx.x * a.id_stride;
    if (c >= a.n)
        return;
    float *out = a.out + (int64_t)blockIdx.x * a.out_stride + c, sum = *out;
    for (int32_t n = 0, last = -1; n < a.top_k; n++) { /* the least id above the last one */
        int32_t least = INT32_MAX, at = 0;
        for (int32_t i = 0; i < a.top_k; i++)
            if (ids[i] > last && ids[i] < least) {
                least = ids[i];
                at = i;
            }
        last = least;
        sum = fmaf(a.weights[(int64_t)blockIdx.x * a.weight_stride + at],
                   a.bias[(size_t)least * (size_t)a.n + (size_t)c], sum);
    }
    *out = sum;
}

extern "C" enum status cuda_moe_bias(struct backend *be, const struct moe_layer *ml,
                                     struct view ids, struct view weights, struct view out)
{
    assert(ml->down_bias->k == ml->n_experts * out.cols && ids.cols == ml->top_k);
    assert(ids.rows == out.rows && weights.rows == out.rows && weights.cols == ml->top_k);
    if (out.rows == 0 || out.cols == 0)
        return ST_OK;
    const struct moe_bias_args a = {vector_of(ml->down_bias),
                                    view_i32(ids),
                                    view_f32(weights),
                                    view_f32(out),
                                    ml->top_k,
                                    out.cols,
                                    ids.stride,
                                    weights.stride,
                                    out.stride};
    const dim3 grid((unsigned)out.rows, (unsigned)blocks_for(out.cols, THREADS));
    return LAUNCH_DEPENDENT(be, moe_bias_kernel, grid, THREADS, 0, a);
}
