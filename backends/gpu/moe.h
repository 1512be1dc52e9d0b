/* Mixtures of experts: the choice of a token's experts and their weights, to the CPU's bits; the biases of
 * down.  Shared text: gpu.h. */
#ifndef BACKENDS_GPU_MOE_H
#define BACKENDS_GPU_MOE_H

#include "backends/gpu/args.h"
#include "backends/gpu/keys.h"

enum { ROUTE_PER_LANE = MOE_MAX_EXPERTS / 32 };

/* An expert's place in the order: the greatest goes first, NaN before all numbers; then the lower id.
 * No key is 0. */
DEVICE uint64_t route_key(float logit, uint32_t id)
{
    return (uint64_t)(logit == logit ? ordered_bits(logit) : 0xffffffffU) << 32 |
           (0xffffffffU - id);
}

/* In two halves: Metal's shuffles take no 64-bit numbers. */
DEVICE uint64_t warp_max_key(uint64_t key)
{
    UNROLL
    for (int apart = 16; apart > 0; apart /= 2) {
        const uint32_t high = shfl_xor((uint32_t)(key >> 32), apart);
        const uint64_t o = (uint64_t)high << 32 | shfl_xor((uint32_t)key, apart);
        key = o > key ? o : key;
    }
    return key;
}

/* The greatest choice of `size` experts, or with `two` the sum of the two greatest.  Choices, here and
 * below, are in global or in shared memory. */
template <typename P> DEVICE float group_score(P choice, int32_t size, bool two)
{
    float best = choice[0], second = -INFINITY;
    for (int32_t i = 1; i < size; i++) {
        const float c = choice[i];
        const bool first = route_key(c, 0) > route_key(best, 0);
        second = first ? best : i == 1 || route_key(c, 0) > route_key(second, 0) ? c : second;
        best = first ? c : best;
    }
    return two && size > 1 ? best + second : best;
}

/* open [n_groups]: the groups that are chosen from; score [n_groups] is the warp's own memory.  By all
 * lanes. */
template <typename P>
DEVICE void choose_groups(CONSTANT struct route_args &a, P choice, SHARED_MEM float *score,
                          SHARED_MEM bool *open, uint32_t lane)
{
    const int32_t size = a.n_experts / a.n_groups;
    for (int32_t g = (int32_t)lane; g < a.n_groups; g += 32)
        score[g] = group_score(choice + g * size, size, a.has_bias != 0);
    sync_warp(); /* the scores are written */
    for (int32_t g = (int32_t)lane; g < a.n_groups; g += 32) {
        int32_t before = 0;
        for (int32_t o = 0; o < a.n_groups; o++)
            before += route_key(score[o], (uint32_t)o) > route_key(score[g], (uint32_t)g) ? 1 : 0;
        open[g] = before < a.top_groups;
    }
    sync_warp(); /* the groups are chosen */
}

/* Lane i gets the i-th expert of a row of choices.  open: read where there are groups. */
template <typename P>
DEVICE int32_t choose(CONSTANT struct route_args &a, P choice, const SHARED_MEM bool *open,
                      uint32_t lane)
{
    const int32_t size = a.n_experts / a.n_groups;
    uint64_t key[ROUTE_PER_LANE];
    int32_t mine = 0;
    UNROLL
    for (int32_t j = 0; j < ROUTE_PER_LANE; j++) {
        const int32_t e = j * 32 + (int32_t)lane;
        const bool candidate = e < a.n_experts && (a.n_groups == 1 || open[e / size]);
        key[j] = candidate ? route_key(choice[e], (uint32_t)e) : 0;
    }
    for (int32_t i = 0; i < a.top_k; i++) {
        uint64_t best = 0;
        UNROLL
        for (int32_t j = 0; j < ROUTE_PER_LANE; j++)
            best = key[j] > best ? key[j] : best;
        best = warp_max_key(best);
        mine = (int32_t)lane == i ? (int32_t)(0xffffffffU - (uint32_t)best) : mine;
        UNROLL
        for (int32_t j = 0; j < ROUTE_PER_LANE; j++)
            key[j] = key[j] == best ? 0 : key[j];
    }
    return mine;
}

/* The weight of the lane's expert where scores are sigmoids. */
DEVICE float sigmoid_weight(CONSTANT struct route_args &a, const GLOBAL float *logit, int32_t id)
{
    const float p = gate(1.0f, logit[id]);
    float sum = 0.0f;
    for (int32_t i = 0; i < a.top_k; i++)
        sum += shfl(p, i);
    return (a.renormalise != 0 ? p / (sum + 1e-20f) : p) * a.scale;
}

/* The same where they are a softmax.  row [MOE_MAX_EXPERTS] is the warp's own memory. */
DEVICE float softmax_weight(CONSTANT struct route_args &a, const GLOBAL float *logit,
                            SHARED_MEM float *row, int32_t id, uint32_t lane)
{
    const float most = logit[shfl(id, 0)], mine = exact_exp(logit[id] - most);
    float sum = 0.0f;
    if (a.renormalise != 0)
        row[lane] = mine;
    else
        for (int32_t e = (int32_t)lane; e < a.n_experts; e += 32)
            row[e] = exact_exp(logit[e] - most);
    sync_warp(); /* row is written */
    const int32_t n = a.renormalise != 0 ? a.top_k : a.n_experts;
    for (int32_t i = 0; i < n; i++)
        sum += row[i];
    return mine / sum * a.scale;
}

/* Grid: a warp for each token.  Bytes: 4 E + 8 k a token.  Bound by latency: k rounds of a maximum
 * over the warp, then the sum's chain of k or E additions. */
GPU_KERNEL(ROUTE_WARPS * 32, moe_route, route_args, const GLOBAL float *logits BUF(1),
           const GLOBAL float *bias BUF(2), const GLOBAL float *expert_scale BUF(3),
           GLOBAL int32_t *ids BUF(4), GLOBAL float *weights BUF(5))
{
    SHARED(float, rows, [ROUTE_WARPS * MOE_MAX_EXPERTS]);
    SHARED(float, scores, [ROUTE_WARPS * MOE_MAX_EXPERTS]);
    SHARED(bool, opens, [ROUTE_WARPS * MOE_MAX_EXPERTS]);
    INDICES;
    const int32_t token = (int32_t)(group.x * ROUTE_WARPS + warp);
    pdl_wait();
    if (token >= a.n_tokens)
        return; /* the whole warp; there is no barrier of the block */
    const GLOBAL float *logit = logits + (int64_t)token * a.logit_stride;
    SHARED_MEM float *row = rows + warp * MOE_MAX_EXPERTS, *score = scores + warp * MOE_MAX_EXPERTS;
    SHARED_MEM bool *open = opens + warp * MOE_MAX_EXPERTS;
    const bool groups = a.n_groups > 1;
    int32_t id;
    float weight;
    if (a.sigmoid != 0) {
        for (int32_t e = (int32_t)lane; e < a.n_experts; e += 32) {
            const float p = gate(1.0f, logit[e]);
            row[e] = a.has_bias != 0 ? p + bias[e] : groups ? p : logit[e];
        }
        sync_warp(); /* the choices are written */
        if (groups)
            choose_groups(a, row, score, open, lane);
        id = choose(a, row, open, lane);
        weight = sigmoid_weight(a, logit, id);
    } else {
        if (groups)
            choose_groups(a, logit, score, open, lane);
        id = choose(a, logit, open, lane);
        weight = softmax_weight(a, logit, row, id, lane);
        if (a.has_expert_scale != 0)
            weight *= expert_scale[id];
    }
    if ((int32_t)lane < a.top_k) {
        ids[(int64_t)token * a.id_stride + lane] = id;
        weights[(int64_t)token * a.weight_stride + lane] = weight;
    }
}

/* Adds the biases [E, n] of a token's experts, in ascending order of ids.  grid (T, n / BIAS_THREADS); 4 k n
 * of the biases, from L2, + 8 n a token */
GPU_KERNEL(BIAS_THREADS, moe_bias, moe_bias_args, const GLOBAL float *bias BUF(1),
           const GLOBAL int32_t *ids BUF(2), const GLOBAL float *weights BUF(3),
           GLOBAL float *out BUF(4))
{
    INDICES;
    pdl_wait();
    const int32_t c = (int32_t)(group.y * BIAS_THREADS + index), n = a.n, top_k = a.top_k;
    if (c >= n)
        return;
    ids += (int64_t)group.x * a.id_stride;
    weights += (int64_t)group.x * a.weight_stride;
    out += (int64_t)group.x * a.out_stride + c;
    float sum = *out;
    for (int32_t j = 0, last = -1; j < top_k; j++) { /* the least id above the last one */
        int32_t least = 0x7fffffff, at = 0;
        for (int32_t i = 0; i < top_k; i++)
            if (ids[i] > last && ids[i] < least) {
                least = ids[i];
                at = i;
            }
        last = least;
        sum = fmaf(weights[at], bias[(int64_t)least * n + c], sum);
    }
    *out = sum;
}

#endif
