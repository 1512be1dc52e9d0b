/* Launches of the kernels of backends/gpu/moe.h. */
#include "backends/cuda/gpu.h"
#include "backends/gpu/moe.h"

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
    const struct route_args a = {logits.rows,
                                 ml->n_experts,
                                 ml->top_k,
                                 logits.stride,
                                 ids.stride,
                                 weights.stride,
                                 ml->renormalise,
                                 ml->sigmoid,
                                 ml->route_bias != nullptr,
                                 ml->expert_scale != nullptr,
                                 ml->n_groups > 1 ? ml->n_groups : 1,
                                 ml->top_groups,
                                 ml->scale};
    return LAUNCH_DEPENDENT(be, moe_route_kernel, (unsigned)blocks_for(logits.rows, ROUTE_WARPS),
                            ROUTE_WARPS * 32, 0, a, view_f32(logits), vector_of(ml->route_bias),
                            vector_of(ml->expert_scale), view_i32(ids), view_f32(weights));
}

extern "C" enum status cuda_moe_bias(struct backend *be, const struct moe_layer *ml,
                                     struct view ids, struct view weights, struct view out)
{
    assert(ml->down_bias->k == ml->n_experts * out.cols && ids.cols == ml->top_k);
    assert(ids.rows == out.rows && weights.rows == out.rows && weights.cols == ml->top_k);
    if (out.rows == 0 || out.cols == 0)
        return ST_OK;
    const struct moe_bias_args a = {out.cols, ml->top_k, ids.stride, weights.stride, out.stride};
    const dim3 grid((unsigned)out.rows, (unsigned)blocks_for(out.cols, BIAS_THREADS));
    return LAUNCH_DEPENDENT(be, moe_bias_kernel, grid, BIAS_THREADS, 0, a, vector_of(ml->down_bias),
                            view_i32(ids), view_f32(weights), view_f32(out));
}
