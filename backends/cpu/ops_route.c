/* moe_route: each token's experts and their weights. */
#include <math.h>

#include "backends/cpu/cpu_backend.h"
#include "backends/exact_math.h"

struct route_job {
    const struct moe_layer *ml;
    struct view logits, ids, weights;
};

/* The greater choice goes first, NaN before all numbers. */
static bool goes_before(float a, float b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

/* Puts e among the first k of the n ids that are ordered by choice; the new n. */
static int32_t insert(const float *choice, int32_t e, int32_t n, int32_t k, int32_t *ids)
{
    if (n == k && !goes_before(choice[e], choice[ids[k - 1]]))
        return n;
    int32_t i = n < k ? n++ : k - 1;
    for (; i > 0 && goes_before(choice[e], choice[ids[i - 1]]); i--)
        ids[i] = ids[i - 1];
    ids[i] = e;
    return n;
}

/* The greatest choice of `size` experts, or the sum of the two greatest. */
static float group_score(const float *choice, int32_t size, bool two)
{
    int32_t best[2];
    int32_t n = 0, k = two && size > 1 ? 2 : 1;
    for (int32_t i = 0; i < size; i++)
        n = insert(choice, i, n, k, best);
    return k == 2 ? choice[best[0]] + choice[best[1]] : choice[best[0]];
}

/* open [n_groups]: the groups that are chosen from. */
static void choose_groups(const struct moe_layer *ml, const float *choice, bool *open)
{
    float score[MOE_MAX_EXPERTS];
    int32_t best[MOE_MAX_EXPERTS], n = 0, size = ml->n_experts / ml->n_groups;
    for (int32_t g = 0; g < ml->n_groups; g++) {
        score[g] = group_score(choice + g * size, size, ml->route_bias != NULL);
        n = insert(score, g, n, ml->top_groups, best);
        open[g] = false;
    }
    for (int32_t i = 0; i < n; i++)
        open[best[i]] = true;
}

/* ids [k]: of the experts in order. */
static void choose(const struct moe_layer *ml, const float *choice, int32_t *ids)
{
    bool groups = ml->n_groups > 1, open[MOE_MAX_EXPERTS];
    int32_t n = 0, size = groups ? ml->n_experts / ml->n_groups : ml->n_experts;
    if (groups)
        choose_groups(ml, choice, open);
    for (int32_t e = 0; e < ml->n_experts; e++)
        if (!groups || open[e / size])
            n = insert(choice, e, n, ml->top_k, ids);
    assert(n == ml->top_k);
}

static void weigh_softmax(const struct moe_layer *ml, const float *logit, const int32_t *ids,
                          float *weights)
{
    float most = logit[ids[0]], sum = 0.0f;
    for (int32_t i = 0; i < ml->top_k; i++)
        weights[i] = exact_exp(logit[ids[i]] - most);
    if (ml->renormalise)
        for (int32_t i = 0; i < ml->top_k; i++)
            sum += weights[i];
    else
        for (int32_t e = 0; e < ml->n_experts; e++)
            sum += exact_exp(logit[e] - most);
    for (int32_t i = 0; i < ml->top_k; i++)
        weights[i] = weights[i] / sum * ml->scale;
}

static void scale_experts(const struct moe_layer *ml, const int32_t *ids, float *weights)
{
    const float *factor = vector_of(ml->expert_scale);
    for (int32_t i = 0; factor && i < ml->top_k; i++)
        weights[i] *= factor[ids[i]];
}

static void route_sigmoid(const struct moe_layer *ml, const float *logit, int32_t *ids,
                          float *weights)
{
    const float *bias = vector_of(ml->route_bias);
    float p[MOE_MAX_EXPERTS], choice[MOE_MAX_EXPERTS], sum = 0.0f;
    for (int32_t e = 0; e < ml->n_experts; e++) {
        p[e] = gate(1.0f, logit[e]);
        choice[e] = bias ? p[e] + bias[e] : p[e];
    }
    choose(ml, bias || ml->n_groups > 1 ? choice : logit, ids);
    for (int32_t i = 0; i < ml->top_k; i++)
        sum += p[ids[i]];
    for (int32_t i = 0; i < ml->top_k; i++)
        weights[i] = (ml->renormalise ? p[ids[i]] / (sum + 1e-20f) : p[ids[i]]) * ml->scale;
}

static void route_part(void *ctx, int part, int n_parts)
{
    const struct route_job *j = ctx;
    long from, to;
    pool_share(j->logits.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++) {
        const float *logit = view_f32(j->logits, t);
        int32_t *ids = view_i32(j->ids, t);
        if (j->ml->sigmoid) {
            route_sigmoid(j->ml, logit, ids, view_f32(j->weights, t));
            continue;
        }
        choose(j->ml, logit, ids);
        weigh_softmax(j->ml, logit, ids, view_f32(j->weights, t));
        scale_experts(j->ml, ids, view_f32(j->weights, t));
    }
}

enum status cpu_moe_route(struct backend *be, const struct moe_layer *ml, struct view logits,
                          struct view ids, struct view weights)
{
    assert(ml->top_k >= 1 && ml->top_k <= ml->n_experts && logits.cols == ml->n_experts);
    assert(ml->n_experts <= MOE_MAX_EXPERTS && (!ml->route_bias || ml->sigmoid));
    assert(!ml->expert_scale || (!ml->sigmoid && ml->expert_scale->k == ml->n_experts));
    assert(ml->n_groups <= 1 || ml->n_experts % ml->n_groups == 0);
    assert(ids.cols == ml->top_k && weights.cols == ml->top_k);
    assert(ids.rows == logits.rows && weights.rows == logits.rows);
    struct route_job j = {ml, logits, ids, weights};
    rows_run(be, route_part, &j, logits.rows, logits.cols);
    return ST_OK;
}
