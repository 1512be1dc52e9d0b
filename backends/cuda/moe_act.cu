/* Experts: what is between a layer's products where their kernels do not do it. */
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
    a.out[(size_t)row * (size_t)a.ffn + (size_t)c] =
        expert_hidden(a.act, gate, up, a.up == nullptr, a.glu_limit, a.glu_alpha);
}

extern "C" enum status moe_act(struct backend *be, const struct moe_gated *g)
{
    const int64_t n = (int64_t)g->n_rows * g->ffn;
    return LAUNCH_DEPENDENT(be, moe_act_kernel, (unsigned)blocks_for(n, THREADS), THREADS, 0, *g);
}
