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
    bool renormalise, sigmoid;
    float scale;
    const float *bias, *expert_scale; /* [E] or NULL */
    int32_t n_groups, top_groups;     /* n_groups 1: none */
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

/* The greatest choice of `size` experts, or with `two` the sum of the two greatest. */
DEVICE float group_score(const float *choice, int32_t size, bool two)
{
    float best = choice[0], second = -INFINITY;
    for (int32_t i = 1; i < size; i++) {
        const float c = choice[i];
        const bool first = key_of(c, 0) > key_of(best, 0);
        second = first ? best : i == 1 || key_of(c, 0) > key_of(second, 0) ? c : second;
        best = first ? c : best;
    }
    return two && size > 1 ? best + second : best;
}

/* open [n_groups]: the groups that are chosen from; score [n_groups] is the warp's own memory.  By all
 * lanes. */
DEVICE void choose_groups(const struct route_args &a, const float *choice, float *score, bool *open)
{
    const int32_t size = a.n_experts / a.n_groups;
    for (int32_t g = lane_id(); g < a.n_groups; g += 32)
        score[g] = group_score(choice + g * size, size, a.bias != nullptr);
    sync_warp(); /* the scores are written */
    for (int32_t g = lane_id(); g < a.n_groups; g += 32) {
        int32_t before = 0;
        for (int32_t o = 0; o < a.n_groups; o++)
            before += key_of(score[o], (uint32_t)o) > key_of(score[g], (uint32_t)g);
        open[g] = before < a.top_groups;
    }
    sync_warp(); /* the groups are chosen */
}

/* Lane i gets the i-th expert of a row of choices.  open: of the groups of `size` experts; NULL: all. */
DEVICE int32_t choose(const float *choice, const bool *open, int32_t size, int32_t n_experts,
                      int32_t top_k)
{
    uint64_t key[PER_LANE];
    int32_t mine = 0;
    UNROLL
    for (int j = 0; j < PER_LANE; j++) {
        const int32_t e = j * 32 + lane_id();
        const bool candidate = e < n_experts && (!open || open[e / size]);
        key[j] = candidate ? key_of(choice[e], (uint32_t)e) : 0;
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

/* A token whose scores are sigmoids.  row, score and open are the warp's own memory, of
 * MOE_MAX_EXPERTS each. */
DEVICE int32_t route_sigmoid(const struct route_args &a, const float *logit, float *row,
                             float *score, bool *open, float &weight)
{
    const bool groups = a.n_groups > 1;
    for (int32_t e = lane_id(); e < a.n_experts; e += 32) {
        const float p = gate(1.0f, logit[e]);
        row[e] = a.bias ? p + a.bias[e] : groups ? p : logit[e];
    }
    sync_warp(); /* the choices are written */
    if (groups)
        choose_groups(a, row, score, open);
    const int32_t id =
        choose(row, groups ? open : nullptr, a.n_experts / a.n_groups, a.n_experts, a.top_k);
    const float p = gate(1.0f, logit[id]);
    float sum = 0.0f;
    for (int32_t i = 0; i < a.top_k; i++)
        sum += shfl(p, i);
    weight = (a.renormalise ? p / (sum + 1e-20f) : p) * a.scale;
    return id;
}

/* Grid: a warp for each token.  Bytes: 4 E + 8 k a token.  Bound by latency: k rounds of a maximum
 * over the warp, then the sum's chain of k or E additions. */
KERNEL(WARPS * 32) moe_route_kernel(struct route_args a)
{
    SHARED(float, p, [WARPS][MOE_MAX_EXPERTS]);
    SHARED(float, score, [WARPS][MOE_MAX_EXPERTS]);
    SHARED(bool, open, [WARPS][MOE_MAX_EXPERTS]);
    const int32_t token = (int32_t)blockIdx.x * WARPS + warp_id();
    pdl_wait();
    if (token >= a.n_tokens)
        return;
    const float *logit = a.logits + (size_t)token * (size_t)a.logit_stride;
    int32_t *ids = a.ids + (size_t)token * (size_t)a.id_stride;
    float *weights = a.weights + (size_t)token * (size_t)a.weight_stride;
    if (a.sigmoid) {
        float weight;
        const int32_t id =
            route_sigmoid(a, logit, p[warp_id()], score[warp_id()], open[warp_id()], weight);
        if (lane_id() < a.top_k) {
            ids[lane_id()] = id;
            weights[lane_id()] = weight;
        }
        return;
    }
    const bool groups = a.n_groups > 1;
    if (groups)
        choose_groups(a, logit, score[warp_id()], open[warp_id()]);
    const int32_t id = choose(logit, groups ? open[warp_id()] : nullptr, a.n_experts / a.n_groups,
                              a.n_experts, a.top_k);
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
        const float weight = mine / sum * a.scale;
        ids[lane_id()] = id;
        weights[lane_id()] = a.expert_scale ? weight * a.expert_scale[id] : weight;
    }
}

extern "C" enum status cuda_moe_route(struct backend *be, const struct moe_layer *ml,
                                      struct view logits, struct view ids, struct view weights)
{
    assert(ml->top_k >= 1 && ml->top_k <= ml->n_experts && logits.cols == ml->n_experts);
    assert(ml->n_experts <= MOE_MAX_EXPERTS && ml->top_k <= MOE_MAX_TOP_K);
    assert((!ml->route_bias || ml->sigmoid) && (!ml->expert_scale || !ml->sigmoid));
    assert(ml->n_groups <= 1 || ml->n_experts % ml->n_groups == 0);
    assert(ids.cols == ml->top_k && weights.cols == ml->top_k);
    assert(ids.rows == logits.rows && weights.rows == logits.rows);
    if (logits.rows == 0)
        return ST_OK;
    const struct route_args a = {view_f32(logits),
                                 view_i32(ids),
                                 view_f32(weights),
                                 logits.rows,
                                 ml->n_experts,
                                 ml->top_k,
                                 logits.stride,
                                 ids.stride,
                                 weights.stride,
                                 ml->renormalise,
                                 ml->sigmoid,
                                 ml->scale,
                                 vector_of(ml->route_bias),
                                 vector_of(ml->expert_scale),
                                 ml->n_groups > 1 ? ml->n_groups : 1,
                                 ml->top_groups};
    return LAUNCH_DEPENDENT(be, moe_route_kernel, (unsigned)blocks_for(logits.rows, WARPS),
                            WARPS * 32, 0, a);
}
