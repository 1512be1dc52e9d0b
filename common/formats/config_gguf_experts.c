/* The keys of GGUF metadata that tell of a mixture of experts. */
#include <stdio.h>

#include "common/formats/config_gguf_meta.h"

static enum status read_scores(struct model_config *mc, const struct meta *m)
{
    enum { SOFTMAX = 1, SIGMOID = 2 };
    int32_t gating = mc->arch->route_bias ? SIGMOID : SOFTMAX;
    TRY(meta_i32(m, "expert_gating_func", SOFTMAX, SIGMOID, &gating));
    mc->sigmoid_scores = gating == SIGMOID;
    if (mc->arch->route_bias && !mc->sigmoid_scores)
        FAIL(ST_UNSUPPORTED, "gguf: %s is %d: only the sigmoid (2) is supported in %s",
             meta_key(m, "expert_gating_func").text, gating, mc->arch->name);
    if (mc->arch->latent && mc->sigmoid_scores && !mc->arch->route_bias)
        FAIL(ST_UNSUPPORTED, "gguf: %s is %d, but there is no tensor exp_probs_b.bias",
             meta_key(m, "expert_gating_func").text, gating);
    return ST_OK;
}

/* How experts are chosen in groups, and their shared expert. */
static enum status read_groups(struct model_config *mc, const struct meta *m)
{
    struct meta_name norm = meta_key(m, "expert_weights_norm");
    int32_t n = 0;
    mc->renormalise = false;
    if (gguf_has(m->g, norm.text))
        TRY(gguf_get_bool(m->g, norm.text, &mc->renormalise));
    TRY(meta_double(m, "expert_weights_scale", 0, 1e6, &mc->route_scale));
    if (mc->route_scale == 0) /* as the writers say that there is none */
        mc->route_scale = 1;
    TRY(meta_i32(m, "expert_group_count", 1, 1 << 10, &mc->n_groups));
    TRY(meta_i32(m, "expert_group_used_count", 1, 1 << 10, &mc->top_groups));
    TRY(meta_i32(m, "expert_shared_count", 0, 1 << 10, &n));
    if ((int64_t)n * mc->expert_ffn > 1 << 24)
        FAIL(ST_RANGE, "gguf: %s is %d, of %d columns", meta_key(m, "expert_shared_count").text, n,
             mc->expert_ffn);
    mc->shared_ffn = n * mc->expert_ffn;
    return ST_OK;
}

bool config_gguf_shared_width(const struct arch *a)
{
    return a->experts == EXPERTS_OPTION || (a->multipliers && a->experts == EXPERTS_NONE);
}

/* A layer with a router has experts. */
enum status config_gguf_experts(struct model_config *mc, const struct meta *m)
{
    struct meta_name k = meta_key(m, "expert_count");
    TRY(meta_i32(m, "expert_count", 0, 1 << 16, &mc->n_experts));
    bool blocks = mc->arch->experts == EXPERTS_BLOCKS;
    bool sized = mc->arch->experts == EXPERTS_QWEN || mc->arch->experts == EXPERTS_GROUPS ||
                 mc->arch->experts == EXPERTS_STEP || blocks;
    if (mc->n_experts == 0 && (sized || mc->arch->experts == EXPERTS_OLMO))
        FAIL(ST_FORMAT, "gguf: %s is missing or 0", k.text);
    if (config_gguf_shared_width(mc->arch))
        TRY(meta_i32(m, "expert_shared_feed_forward_length", 1, 1 << 24,
                     mc->n_experts ? &mc->shared_ffn : &mc->ffn));
    if (mc->n_experts == 0)
        return ST_OK;
    if (mc->arch->experts == EXPERTS_NONE)
        FAIL(ST_UNSUPPORTED, "gguf: %s is %d: experts are not supported in %s", k.text,
             mc->n_experts, mc->arch->name);
    TRY(meta_need(m, "expert_used_count"));
    TRY(meta_i32(m, "expert_used_count", 1, mc->n_experts, &mc->top_k));
    mc->expert_ffn = mc->ffn;
    if (sized || mc->arch->experts == EXPERTS_BESIDE)
        TRY(meta_need(m, "expert_feed_forward_length"));
    TRY(meta_i32(m, "expert_feed_forward_length", 1, 1 << 24, &mc->expert_ffn));
    mc->renormalise = gguf_arch_renormalises(mc->arch);
    if (mc->arch->experts == EXPERTS_GROUPS || blocks)
        TRY(read_groups(mc, m));
    if (mc->arch->experts == EXPERTS_GROUPS || mc->arch->route_bias)
        TRY(read_scores(mc, m));
    if (mc->arch->experts == EXPERTS_STEP) {
        mc->shared_ffn = mc->expert_ffn;
        mc->sigmoid_scores = true;
    }
    if (mc->arch->expert_bias) { /* gpt-oss: the files do not say them */
        mc->glu_limit = 7;
        mc->glu_alpha = 1.702;
    }
    if (mc->arch->shared_option || blocks) {
        TRY(meta_need(m, "expert_shared_feed_forward_length"));
        TRY(meta_i32(m, "expert_shared_feed_forward_length", 1, 1 << 24, &mc->shared_ffn));
    }
    for (int32_t i = 0; i < mc->n_layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", i);
        mc->sparse[i] = gguf_find_tensor(m->g, name) != NULL;
    }
    if (mc->arch->experts == EXPERTS_STEP)
        TRY(config_gguf_step(mc, m));
    if (mc->ffn == 0 && model_n_sparse(mc) < mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s is missing, but not every layer has a tensor ffn_gate_inp.weight",
             meta_key(m, "feed_forward_length").text);
    if (model_n_sparse(mc) == 0)
        FAIL(ST_FORMAT, "gguf: %s is %d, but no layer has a tensor ffn_gate_inp.weight", k.text,
             mc->n_experts);
    return ST_OK;
}
