/* Enqueueing of the KV cache's writes and of attention: shaders/attention.metal. */
#include "backends/metal/metal_backend.h"

static enum metal_type kv_type(enum dtype t)
{
    switch (t) {
    case DT_F16:
        return METAL_F16;
    case DT_BF16:
        return METAL_BF16;
    case DT_I8:
        return METAL_I8;
    case DT_E4M3:
        return METAL_E4M3;
    default:
        assert(t == DT_F32);
        return METAL_F32;
    }
}

/* A table's or a scale's view, or `other` if there is none. */
static struct metal_bound bound_or(struct view v, struct metal_bound other)
{
    return v.buf ? bound_f32(v) : other;
}

enum status metal_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                               const struct step_dev *st, struct view qkv, struct kv_layer kv,
                               struct view q)
{
    assert(kv.k.stride == kv.k.cols && kv.v.stride == kv.v.cols && kv.k.dtype == kv.v.dtype);
    assert(al->d_head <= METAL_MAX_HEAD && al->d_value == 0 && !al->v_norm && !al->v_is_k &&
           !al->q_alone);
    int32_t heads = al->n_q + 2 * al->n_kv;
    if (st->n_tokens == 0 || heads == 0)
        return ST_OK;
    struct metal_bound in = bound_f32(qkv), k = bound_any(kv.k), to = bound_f32(q);
    const struct metal_bound bound[] = {in,
                                        bound_vector(al->q_norm, in),
                                        bound_vector(al->k_norm, in),
                                        bound_or(al->cos, in),
                                        bound_or(al->sin, in),
                                        bound_or(al->q_scale, in),
                                        bound_i32(st->pos),
                                        bound_i32(st->slot),
                                        k,
                                        bound_any(kv.v),
                                        bound_or(kv.k_scale, k),
                                        bound_or(kv.v_scale, k),
                                        to};
    const struct metal_qkv_args args = {.n_q = al->n_q,
                                        .n_kv = al->n_kv,
                                        .d = al->d_head,
                                        .rot_dim = al->rot_dim,
                                        .qkv_stride = qkv.stride,
                                        .q_stride = q.stride,
                                        .kv_type = (int32_t)kv_type(kv.k.dtype),
                                        .interleaved = al->rope_interleaved,
                                        .has_q_norm = al->q_norm != NULL,
                                        .has_k_norm = al->k_norm != NULL,
                                        .has_q_scale = al->q_scale.buf != NULL,
                                        .eps = al->eps};
    struct mtl_size groups = {(unsigned long)st->n_tokens, (unsigned long)heads, 1};
    return METAL_DISPATCH(be, KERNEL_qkv_to_cache, args, bound, groups, 32, 0);
}

static enum metal_kernel attention_kernel(enum metal_type t)
{
    switch (t) {
    case METAL_F16:
        return KERNEL_attention_f16;
    case METAL_BF16:
        return KERNEL_attention_bf16;
    case METAL_I8:
        return KERNEL_attention_i8;
    case METAL_E4M3:
        return KERNEL_attention_e4m3;
    default:
        return KERNEL_attention_f32;
    }
}

enum status metal_attention(struct backend *be, const struct attn_layer *al,
                            const struct step_dev *st, struct view q, struct kv_layer kv,
                            struct view out)
{
    assert(al->d_head <= METAL_MAX_HEAD && al->d_value == 0 && !al->sinks);
    if (st->n_tokens == 0 || al->n_q == 0)
        return ST_OK;
    struct metal_bound k = bound_any(kv.k), in = bound_f32(q);
    const struct metal_bound bound[] = {in,
                                        k,
                                        bound_any(kv.v),
                                        bound_or(kv.k_scale, in),
                                        bound_or(kv.v_scale, in),
                                        bound_i32(st->pos),
                                        bound_i32(st->q_start),
                                        bound_i32(st->block_table),
                                        bound_f32(out)};
    const struct metal_attention_args args = {.n_q = al->n_q,
                                              .n_kv = al->n_kv,
                                              .d = al->d_head,
                                              .q_per_kv = al->q_per_kv,
                                              .q_offset = al->q_offset,
                                              .window = al->window,
                                              .q_stride = q.stride,
                                              .out_stride = out.stride,
                                              .table_stride = st->block_table.stride,
                                              .block_len = st->block_len,
                                              .n_seqs = st->n_seqs,
                                              .scale = al->scale,
                                              .cap = al->cap};
    struct mtl_size groups = {(unsigned long)st->n_tokens, (unsigned long)al->n_q, 1};
    uint64_t work = (uint64_t)st->n_tokens * (uint64_t)al->n_q * (uint64_t)st->max_kv *
                    (uint64_t)al->d_head * 2;
    return METAL_DISPATCH(be, attention_kernel(kv_type(kv.k.dtype)), args, bound, groups, 32, work);
}
