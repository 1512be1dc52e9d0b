/* The Metal backend as one device: opening, what it can do, its table of ops. */
#include "backends/metal/metal.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/metal/archive.h"
#include "backends/metal/metal_backend.h"

static void metal_close(struct backend *be)
{
    if (!be)
        return;
    metal_drop_queue(be);
    metal_free(be, be->scratch);
    metal_pool_close(be);
    metal_unmap(be);
    metal_give_device(be);
    free(be);
}

static enum status open_all(struct backend *be, const struct backend_config *cfg)
{
    if (cfg->device != 0)
        FAIL(ST_RANGE, "--device %d: a Mac has one Metal device, 0", cfg->device);
    if (cfg->numerics == NUMERICS_FAST)
        FAIL(ST_UNSUPPORTED, "--numerics fast: the Metal backend has strict numerics alone");
    TRY(metal_choose_products(be));
    TRY(metal_take_device(be));
    if (!cfg->planned)
        TRY(metal_alloc(be, SCRATCH_BYTES, MEM_DEVICE, &be->scratch));
    TRY(be->matrices ? metal_check_matrices(be) : ST_OK);
    be->planned = cfg->planned; /* what the check took is given back */
    return ST_OK;
}

static enum status metal_open(struct backend **out, const struct backend_config *cfg)
{
    struct backend *be = calloc(1, sizeof *be);
    if (!be)
        FAIL(ST_NOMEM, "no memory for a Metal backend");
    be->base.ops = &metal_ops;
    be->max_work = METAL_MAX_WORK;
    enum status st = open_all(be, cfg);
    if (st != ST_OK) {
        metal_close(be);
        return st;
    }
    *out = be;
    return ST_OK;
}

/* Above the ops, whose kernels it chooses. */
enum status metal_prepare(struct backend *be, const struct backend_use *use)
{
    static const enum metal_kernel rounding[] = {KERNEL_input_peaks, KERNEL_round_input,
                                                 KERNEL_round_experts};
    for (size_t i = 0; i < ARRAY_LEN(rounding) && use->rounds_inputs; i++)
        TRY(metal_make_pipeline(be, rounding[i]));
    for (int32_t i = 0; i < use->n_heads; i++)
        TRY(metal_make_pipeline(be, metal_attention_kernel(be, use->kv, use->d_head[i])));
    metal_keep_archive(be);
    return ST_OK;
}

/* What the system advises to use is all that counts as memory of the device. */
static void metal_info(struct backend *be, struct backend_info *out)
{
    size_t used, total = metal_device_bytes(be, &used);
    _Static_assert(N_FEATURES == 24, "all but one are here: is the new one, too?");
    *out = (struct backend_info){
        .mem_free = total > used ? total - used : 0,
        .mem_total = total,
        .mem_own = metal_pool_own(be),
        .features = ((1U << N_FEATURES) - 1) & ~(1U << FEATURE_SORTED),
        .experts = true,
        .max_head = METAL_MAX_HEAD,
        .kv_types = 1U << DT_F32 | 1U << DT_F16 | 1U << DT_BF16 | 1U << DT_I8 | 1U << DT_E4M3,
    };
    snprintf(out->device, sizeof out->device, "Metal %s", be->name);
    /* a device without what the kernels use is refused: metal_take_device */
    snprintf(out->about, sizeof out->about, "family Apple%ld, %s; compiled kernels: %.150s",
             be->family - METAL_FAMILY_APPLE,
             be->any_gpu ? "taken because INGOT_METAL_GPU is set, for tests"
                         : "which has all that the kernels use",
             be->archive ? be->files.dir : "not kept");
    /* the orders of this backend's products, which decide their bits */
    snprintf(out->matrix, sizeof out->matrix, "%s", be->matrices ? "matrices4" : "chains3");
}

const struct backend_ops metal_ops = {
    .name = "metal",
    .open = metal_open,
    .close = metal_close,
    .info = metal_info,
    .reserve = metal_pool_reserve,
    .part = metal_pool_part,
    .used = metal_pool_used,
    .alloc = metal_alloc,
    .free = metal_free,
    .write = metal_write,
    .read = metal_read,
    .copy = metal_copy,
    .zero = metal_zero,
    .sync = metal_sync,
    .host_ptr = metal_host_ptr,
    .pinned_ptr = metal_pinned_ptr,
    .prepare = metal_prepare,
    .weight_bytes = metal_weight_bytes,
    .load_weight = metal_load_weight,
    .free_weight = metal_free_weight,
    .stack_bytes = metal_stack_bytes,
    .load_stack = metal_load_stack,
    .pack_id = metal_pack_id,
    .packed = metal_packed,
    .load_packed = metal_load_packed,
    .load_packed_stack = metal_load_packed_stack,
    .map_packed = metal_map_packed,
    .embed = metal_embed,
    .linear = metal_linear,
    .add_rms_norm = metal_add_rms_norm,
    .qkv_to_cache = metal_qkv_to_cache,
    .attention = metal_attention,
    .latent_to_cache = metal_latent_to_cache,
    .heads_linear = metal_heads_linear,
    .delta_conv = metal_delta_conv,
    .delta_rule = metal_delta_rule,
    .gated_norm = metal_gated_norm,
    .act_mul = metal_act_mul,
    .activate = metal_activate,
    .scale = metal_scale,
    .sigmoid_mul = metal_sigmoid_mul,
    .add_bias = metal_add_bias,
    .head_squares = metal_head_squares,
    .wide_norm = metal_wide_norm,
    .predict_streams = metal_predict_streams,
    .correct_streams = metal_correct_streams,
    .match_rms = metal_match_rms,
    .known_ids = metal_known_ids,
    .slice_stats = metal_slice_stats,
    .cut_gates = metal_cut_gates,
    .input_peaks = metal_input_peaks,
    .round_input = metal_round_input,
    .soft_cap = metal_soft_cap,
    .moe_route = metal_moe_route,
    .moe_scratch = metal_moe_scratch,
    .moe_ffn = metal_moe_ffn,
    .moe_bias = metal_moe_bias,
    .add = metal_add,
    .gather = metal_gather,
    .edit_logits = metal_edit_logits,
    .mask_logits = metal_mask_logits,
    .topk = metal_topk,
    .sample = metal_sample,
    .take_tokens = metal_take_tokens,
    .layer_norm = metal_layer_norm,
    .event_mark = metal_event_mark,
    .event_wait = metal_event_wait,
    .event_elapsed = metal_event_elapsed,
};
