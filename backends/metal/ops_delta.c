/* Enqueueing of gated delta nets and Mamba-2: shaders/delta.metal. */
#include "backends/metal/metal_backend.h"

static struct metal_delta_args args_of(const struct delta_layer *dl, struct view qkv)
{
    return (struct metal_delta_args){.n_k = dl->n_k,
                                     .n_v = dl->n_v,
                                     .d_k = dl->d_k,
                                     .d_v = dl->d_v,
                                     .v_per_k = dl->v_per_k,
                                     .v_offset = dl->v_offset,
                                     .taps = dl->taps,
                                     .channels = delta_channels(dl),
                                     .qkv_stride = qkv.stride,
                                     .has_bias = dl->bias != NULL,
                                     .has_skip = dl->skip != NULL,
                                     .dt_min = dl->dt_min,
                                     .dt_max = dl->dt_max};
}

static enum status unit_heads(struct backend *be, const struct delta_layer *dl, struct view qkv)
{
    const struct metal_bound bound[] = {bound_f32(qkv)};
    const struct metal_delta_args args = args_of(dl, qkv);
    struct mtl_size groups = {(unsigned long)qkv.rows, groups_for(2 * dl->n_k, GATES_HEADS), 1};
    return METAL_DISPATCH(be, KERNEL_delta_unit, args, bound, groups, 32 * GATES_HEADS, 0);
}

enum status metal_delta_conv(struct backend *be, const struct delta_layer *dl,
                             const struct step_dev *st, struct view qkv, struct delta_state s)
{
    int32_t C = delta_channels(dl);
    assert(qkv.cols == C && qkv.rows == st->n_tokens && dl->conv->k == dl->taps * C);
    assert(!dl->bias || dl->bias->k == C);
    assert(dl->taps >= 1 && dl->taps <= DELTA_MAX_TAPS && s.conv.cols == (dl->taps - 1) * C);
    if (qkv.rows == 0 || C == 0)
        return ST_OK;
    struct metal_bound to = bound_f32(qkv);
    const struct metal_bound bound[] = {bound_vector(dl->conv, to),
                                        bound_vector(dl->bias, to),
                                        bound_i32(st->q_start),
                                        bound_i32(st->pos),
                                        bound_i32(st->state),
                                        to,
                                        dl->taps > 1 ? bound_f32(s.conv) : to};
    struct metal_delta_args args = args_of(dl, qkv);
    args.past_stride = s.conv.stride;
    struct mtl_size groups = {(unsigned long)st->n_seqs, groups_for(C, METAL_DELTA_THREADS), 1};
    uint64_t work = (uint64_t)qkv.rows * (uint64_t)C * DELTA_MAX_TAPS;
    TRY(METAL_DISPATCH(be, KERNEL_delta_conv, args, bound, groups, METAL_DELTA_THREADS, work));
    return dl->skip || dl->n_k == 0 || dl->d_k == 0 ? ST_OK : unit_heads(be, dl, qkv);
}

enum status metal_delta_rule(struct backend *be, const struct delta_layer *dl,
                             const struct step_dev *st, struct view qkv, struct view ba,
                             struct delta_state s, struct view out)
{
    assert(qkv.cols == delta_channels(dl) && ba.cols == 2 * dl->n_v);
    assert(out.cols == dl->n_v * dl->d_v && s.rule.cols == dl->n_v * dl->d_k * dl->d_v);
    assert(qkv.rows == st->n_tokens && ba.rows == qkv.rows && out.rows == qkv.rows);
    assert(dl->decay->k == dl->n_v && dl->dt->k == dl->n_v);
    assert(dl->n_k > 0 && dl->v_per_k > 0 && (!dl->skip || dl->skip->k == dl->n_v));
    if (qkv.rows == 0 || out.cols == 0)
        return ST_OK;
    struct metal_bound in = bound_f32(qkv);
    const struct metal_bound bound[] = {in,
                                        bound_f32(ba),
                                        bound_vector(dl->decay, in),
                                        bound_vector(dl->dt, in),
                                        bound_vector(dl->skip, in),
                                        bound_i32(st->q_start),
                                        bound_i32(st->pos),
                                        bound_i32(st->state),
                                        bound_f32(s.rule),
                                        bound_f32(out)};
    struct metal_delta_args args = args_of(dl, qkv);
    args.ba_stride = ba.stride;
    args.rule_stride = s.rule.stride;
    args.out_stride = out.stride;
    struct mtl_size groups = {(unsigned long)st->n_seqs, (unsigned long)dl->n_v,
                              groups_for(dl->d_v, METAL_DELTA_THREADS)};
    return METAL_DISPATCH(be, KERNEL_delta_rule, args, bound, groups, METAL_DELTA_THREADS,
                          (uint64_t)qkv.rows * (uint64_t)s.rule.cols * 3);
}
