/* Enqueueing of the KV cache's writes, of attention and of latent attention's products:
 * shaders/attention.metal, attention_matrix.metal. */
#include "backends/metal/metal_backend.h"

/* A table's or a scale's view, or `other` if there is none. */
static struct metal_bound bound_or(struct view v, struct metal_bound other)
{
    return v.buf ? bound_f32(v) : other;
}

/* What both kernels that fill the cache take. */
static struct metal_qkv_args qkv_args(const struct attn_layer *al, struct kv_layer kv,
                                      struct view from, struct view q)
{
    return (struct metal_qkv_args){.n_q = al->n_q,
                                   .n_kv = al->n_kv,
                                   .d = al->d_head,
                                   .rot_dim = al->rot_dim,
                                   .qkv_stride = from.stride,
                                   .q_stride = q.stride,
                                   .kv_type = (int32_t)kv.k.dtype,
                                   .interleaved = al->rope_interleaved,
                                   .has_q_norm = al->q_norm != NULL,
                                   .has_k_norm = al->k_norm != NULL,
                                   .has_q_scale = al->q_scale.buf != NULL,
                                   .qk_unit = al->qk_unit,
                                   .v_norm = al->v_norm,
                                   .v_is_k = al->v_is_k,
                                   .eps = al->eps};
}

enum status metal_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                               const struct step_dev *st, struct view qkv, struct kv_layer kv,
                               struct view q)
{
    assert(kv.k.stride == kv.k.cols && kv.v.stride == kv.v.cols && kv.k.dtype == kv.v.dtype);
    assert(al->d_head <= METAL_MAX_HEAD && al->d_value == 0 && qkv.cols == attn_qkv_cols(al));
    assert(!al->qk_unit || (!al->q_norm && !al->k_norm));
    int32_t heads = al->n_q + (al->q_alone ? 0 : 2 * al->n_kv);
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
    const struct metal_qkv_args args = qkv_args(al, kv, qkv, q);
    struct mtl_size groups = {(unsigned long)st->n_tokens, (unsigned long)heads, 1};
    return METAL_DISPATCH(be, KERNEL_qkv_to_cache, args, bound, groups, 32, 0);
}

/* The sizes that kernels have threadgroup memory for. */
static enum status check_latent(const struct attn_layer *al)
{
    if (al->d_head > METAL_MAX_LATENT || al->d_value > METAL_MAX_HEAD)
        FAIL(ST_UNSUPPORTED, "latents of %d + %d elements: the Metal backend takes up to %d + %d",
             al->d_value, al->d_head - al->d_value, METAL_MAX_HEAD,
             METAL_MAX_LATENT - METAL_MAX_HEAD);
    return ST_OK;
}

enum status metal_latent_to_cache(struct backend *be, const struct attn_layer *al,
                                  const struct step_dev *st, struct view latent,
                                  struct view q_heads, struct kv_layer kv, struct view q)
{
    assert(al->n_q > 0 && al->n_kv == 1 && al->d_value + al->rot_dim == al->d_head && al->k_norm);
    assert(latent.cols == al->d_head && q.cols == al->n_q * al->d_head && !al->q_scale.buf);
    assert(q_heads.cols % al->n_q == 0 && q_heads.cols / al->n_q >= al->rot_dim);
    assert(kv.k.stride == kv.k.cols && !al->round_latent.shared);
    TRY(check_latent(al));
    if (st->n_tokens == 0)
        return ST_OK;
    struct metal_bound in = bound_f32(latent), k = bound_any(kv.k);
    const struct metal_bound bound[] = {in,
                                        bound_f32(q_heads),
                                        bound_vector(al->k_norm, in),
                                        bound_or(al->cos, in),
                                        bound_or(al->sin, in),
                                        bound_i32(st->pos),
                                        bound_i32(st->slot),
                                        k,
                                        bound_or(kv.k_scale, k),
                                        bound_f32(q)};
    struct metal_qkv_args args = qkv_args(al, kv, latent, q);
    args.head = q_heads.cols / al->n_q;
    args.head_stride = q_heads.stride;
    args.round_latent = metal_rounding_of(&al->round_latent);
    struct mtl_size groups = {(unsigned long)st->n_tokens, (unsigned long)al->n_q + 1, 1};
    return METAL_DISPATCH(be, KERNEL_latent_to_cache, args, bound, groups, 32, 0);
}

/* The kernel of a cache's type, of five from `first` on. */
static enum metal_kernel kernel_of_cache(enum metal_kernel first, enum dtype t)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};
    int i = 0;
    while (types[i] != t) {
        i++;
        assert(i < (int)ARRAY_LEN(types));
    }
    return (enum metal_kernel)((int)first + i);
}
static_assert((int)KERNEL_attention_e4m3 == (int)KERNEL_attention_f32 + 4 &&
                  (int)KERNEL_attention_matrix_e4m3 == (int)KERNEL_attention_matrix_f32 + 4 &&
                  (int)KERNEL_attention_matrix_wide_e4m3 ==
                      (int)KERNEL_attention_matrix_wide_f32 + 4,
              "kernels in the order of types");

/* Heads of more than METAL_MATRIX_WIDE_HEAD elements are not for matrices. */
enum metal_kernel metal_attention_kernel(const struct backend *be, enum dtype kv, int32_t d)
{
    bool matrices = be->matrices && d <= METAL_MATRIX_WIDE_HEAD;
    return kernel_of_cache(!matrices               ? KERNEL_attention_f32
                           : d > METAL_MATRIX_HEAD ? KERNEL_attention_matrix_wide_f32
                                                   : KERNEL_attention_matrix_f32,
                           kv);
}

/* Tokens, or tiles of 8 rows at most, of which first_row_tile tells the number: a dispatch has as many as its work
 * allows, so that command buffers can be cut; which go together changes no bit. */
static enum status attend(struct backend *be, enum metal_kernel kernel,
                          struct metal_attention_args *args, const struct metal_bound bound[12],
                          const struct step_dev *st)
{
    bool tiles = metal_kernel_is_of_matrices((int)kernel);
    int64_t n = tiles ? (int64_t)st->n_tokens * args->q_per_kv / 8 + st->n_seqs : st->n_tokens;
    int32_t heads = tiles ? args->n_kv : args->n_q;
    uint64_t each = (uint64_t)(tiles ? 8 * heads : heads) * (uint64_t)st->max_kv *
                    (uint64_t)(args->d + args->d_value);
    uint64_t most = be->max_work / (each + 1);
    most = most ? most : 1;
    for (int64_t i = 0, k; i < n; i += k) {
        k = (uint64_t)(n - i) < most ? n - i : (int64_t)most;
        args->first = (int32_t)i;
        struct mtl_size groups = {(unsigned long)k, (unsigned long)heads, 1};
        TRY(metal_dispatch(be, kernel, args, sizeof *args, bound, 12, groups,
                           tiles ? 32 * METAL_LINEAR_SIMDS : 32, (uint64_t)k * each));
    }
    return ST_OK;
}

enum status metal_attention(struct backend *be, const struct attn_layer *al,
                            const struct step_dev *st, struct view q, struct kv_layer kv,
                            struct view out)
{
    assert(!al->chunk || (!al->window && !al->full));
    assert(al->d_head <= (al->d_value ? METAL_MAX_LATENT : METAL_MAX_HEAD) &&
           al->d_value <= METAL_MAX_HEAD);
    assert(!al->sinks || al->sinks->k == al->n_q);
    assert(!al->rel_bias || al->rel_bias->k == al->n_q * REL_COLS);
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
                                        bound_i32(st->kv_len),
                                        bound_i32(st->block_table),
                                        bound_vector(al->sinks, in),
                                        bound_vector(al->rel_bias, in),
                                        bound_f32(out)};
    struct metal_attention_args args = {.n_q = al->n_q,
                                        .n_kv = al->n_kv,
                                        .d = al->d_head,
                                        .d_value = attn_d_value(al),
                                        .q_per_kv = al->q_per_kv,
                                        .q_offset = al->q_offset,
                                        .window = al->window,
                                        .chunk = al->chunk,
                                        .q_stride = q.stride,
                                        .out_stride = out.stride,
                                        .table_stride = st->block_table.stride,
                                        .block_len = st->block_len,
                                        .n_seqs = st->n_seqs,
                                        .k_row = kv.k.stride,
                                        .v_row = kv.v.stride,
                                        .full = al->full,
                                        .has_sinks = al->sinks != NULL,
                                        .has_rel_bias = al->rel_bias != NULL,
                                        .scale = al->scale,
                                        .cap = al->cap};
    return attend(be, metal_attention_kernel(be, kv.k.dtype, al->d_head), &args, bound, st);
}
