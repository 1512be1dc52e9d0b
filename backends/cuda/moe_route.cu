/* moe_route: to the CPU's bits. */
#include "backends/cuda/gpu.h"

enum {
    WARPS = 4,
    PER_LANE = MOE_MAX_EXPERTS / 32,
};

struct route_args {
    const float *logits;
    int32_t *ids;
    float *weights;
    int32_t n_tokens, n_experts, top_k, logit_stride, id_stride, weight_stride;
    bool renormalise;
    float scale;
};

/* An expert's place in the order: the greatest goes first.  -0 is +0; no key is 0. */
DEVICE uint64_t key_of(float logit, uint32_t id)
{
    uint32_t u = bits_of_f32(logit + 0.0f);
    u = u & 0x80000000U ? ~u : u | 0x80000000U;
    return (uint64_t)(logit == logit ? u : 0xffffffffU) << 32 | (0xffffffffU - id);
}

DEVICE uint64_t warp_max_key(uint64_t key)
{
    UNROLL
    for (int apart = 16; apart > 0; apart /= 2) {
        const uint64_t o = shfl_xor(key, apart);
        key = o > key ? o : key;
    }
    return key;
}

/* Lane i gets the i-th expert of a row of logits. */
DEVICE int32_t choose(const float *logit, int32_t n_experts, int32_t top_k)
{
    uint64_t key[PER_LANE];
    int32_t mine = 0;
    UNROLL
    for (int j = 0; j < PER_LANE; j++) {
        const int32_t e = j * 32 + lane_id();
        key[j] = e < n_experts ? key_of(logit[e], (uint32_t)e) : 0;
    }
    for (int i = 0; i < top_k; i++) {
        uint64_t best = 0;
        UNROLL
        for (int j = 0; j < PER_LANE; j++)
            best = key[j] > best ? key[j] : best;
        best = warp_max_key(best);
        mine = lane_id() == i ? (int32_t)(0xffffffffU - (uint32_t)best) : mine;
        UNROLL
        for (int j = 0; j < PER_LANE; j++)
            key[j] = key[j] == best ? 0 : key[j];
    }
    return mine;
}

/* Grid: a warp for each token.  Bytes: 4 E + 8 k a token.  Bound by latency: k rounds of a maximum
 * over the warp, then the sum's chain of k or E additions. */
KERNEL(WARPS * 32) moe_route_kernel(struct route_args a)
{
    SHARED(float, p, [WARPS][MOE_MAX_EXPERTS]);
    const int32_t token = (int32_t)blockIdx.x * WARPS + warp_id();
    pdl_wait();
    if (token >= a.n_tokens)
        return;
    const float *logit = a.logits + (size_t)token * (size_t)a.logit_stride;
    const int32_t id = choose(logit, a.n_experts, a.top_k);
    const float most = logit[shfl(id, 0)];
    const float mine = exact_exp(logit[id] - most);
    float *row = p[warp_id()], sum = 0.0f;
    if (a.renormalise)
        row[lane_id()] = mine;
    else
        for (int32_t e = lane_id(); e < a.n_experts; e += 32)
            row[e] = exact_exp(logit[e] - most);
    sync_warp(); /* row is written */
    const int32_t n = a.renormalise ? a.top_k : a.n_experts;
    for (int32_t i = 0; i < n; i++)
        sum += row[i];
    if (lane_id() < a.top_k) {
        a.ids[(size_t)token * (size_t)a.id_stride + (size_t)lane_id()] = id;
        a.weights[(size_t)token * (size_t)a.weight_stride + (size_t)lane_id()] =
            mine / sum * a.scale;
    }
}

extern "C" enum status cuda_moe_route(struct backend *be, const struct moe_layer *ml,
                                      struct view logits, struct view ids, struct view weights)
{
    assert(ml->top_k >= 1 && ml->top_k <= ml->n_experts && logits.cols == ml->n_experts);
    assert(ml->n_experts <= MOE_MAX_EXPERTS && ml->top_k <= MOE_MAX_TOP_K);
    assert(ids.cols == ml->top_k && weights.cols == ml->top_k);
    assert(ids.rows == logits.rows && weights.rows == logits.rows);
    if (logits.rows == 0)
        return ST_OK;
    const struct route_args a = {view_f32(logits), view_i32(ids),   view_f32(weights), logits.rows,
                                 ml->n_experts,    ml->top_k,       logits.stride,     ids.stride,
                                 weights.stride,   ml->renormalise, ml->scale};
    return LAUNCH_DEPENDENT(be, moe_route_kernel, (unsigned)blocks_for(logits.rows, WARPS),
                            WARPS * 32, 0, a);
}
