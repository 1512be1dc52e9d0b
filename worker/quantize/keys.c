#include "worker/quantize/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "worker/quantize/keys_layers.h"
#include "worker/quantize/vocab_pre.h"

static bool begins(struct gguf_str s, const char *with)
{
    size_t n = strlen(with);
    return s.len >= n && memcmp(s.data, with, n) == 0;
}

static enum status put_form(struct gguf_writer *w, const struct keys_source *s)
{
    TRY(gguf_put_u32(w, "general.file_type", s->file_type));
    return gguf_put_u32(w, "general.quantization_version", 2);
}

enum status keys_copy(struct gguf_writer *w, const struct keys_source *s, const struct gguf *from)
{
    static const char *const dropped[] = {"split.", "general.file_type", "general.alignment",
                                          "general.quantization_version", "quantize.imatrix."};
    for (size_t i = 0; i < gguf_n_keys(from); i++) {
        enum gguf_type type;
        size_t n;
        bool drop = false;
        struct gguf_str key = gguf_key(from, i, &type);
        for (size_t k = 0; k < ARRAY_LEN(dropped); k++)
            drop |= begins(key, dropped[k]);
        const unsigned char *value = gguf_raw_value(from, i, &n);
        if (!drop)
            TRY(gguf_put_raw(w, key, type, value, n));
    }
    return put_form(w, s);
}

/* ---- from a folder ---- */

/* YaRN's own factor is not written; yarn_log_multiplier 1 says that there is none at all. */
static enum status put_yarn_factor(const struct arch_keys *a, const struct rope_config *rope)
{
    if (a->to->needs_rope && rope->attention_factor == 1)
        return key_put_float(a, "rope.scaling.yarn_log_multiplier", 1);
    return key_put_float(a, "rope.scaling.attn_factor",
                         rope->attention_factor / rope_yarn_mscale(rope->factor, 1));
}

static enum status put_longrope(const struct arch_keys *a, const struct rope_config *rope)
{
    if (!a->to->rope_factors)
        FAIL(ST_UNSUPPORTED, "LongRoPE cannot be said in GGUF's %s", a->to->name);
    TRY(key_put_int(a, "rope.scaling.original_context_length", (int32_t)rope->original_ctx));
    return key_put_float(a, "rope.scaling.attn_factor", rope->attention_factor);
}

static enum status put_scaling(const struct arch_keys *a)
{
    const struct rope_config *rope = &a->mc->rope;
    const char *name = rope_type_name(rope->type);
    if (a->to->global_heads && rope->type != ROPE_PLAIN && rope->type != ROPE_DIVISORS)
        FAIL(ST_UNSUPPORTED, "the RoPE of the global layers is %s: GGUF's %s cannot say that", name,
             a->to->name);
    if (rope->type == ROPE_LONGROPE)
        return put_longrope(a, rope);
    if (rope->type == ROPE_PLAIN && a->to->logit_factor) /* as Command R's files always say */
        return gguf_put_str(a->w, key_of(a, "rope.scaling.type").text, "none", 4);
    if (rope->type != ROPE_LINEAR && rope->type != ROPE_YARN)
        return ST_OK; /* Llama 3's rule is the tensor rope_freqs.weight */
    TRY(gguf_put_str(a->w, key_of(a, "rope.scaling.type").text, name, strlen(name)));
    TRY(key_put_float(a, "rope.scaling.factor", rope->factor));
    if (rope->type == ROPE_LINEAR)
        return ST_OK;
    TRY(key_put_int(a, "rope.scaling.original_context_length", (int32_t)rope->original_ctx));
    if (rope->truncate == a->to->sinks) /* gpt-oss: false */
        FAIL(ST_UNSUPPORTED, "YaRN with truncate %s cannot be said in GGUF's %s",
             rope->truncate ? "true" : "false", a->to->name);
    if (!a->to->latent || rope->attention_factor != 1) /* see keys_latent_scale */
        TRY(put_yarn_factor(a, rope));
    TRY(key_put_float(a, "rope.scaling.yarn_beta_fast", rope->beta_fast));
    return key_put_float(a, "rope.scaling.yarn_beta_slow", rope->beta_slow);
}

static enum status put_rope(const struct arch_keys *a)
{
    const struct rope_config *rope = &a->mc->rope;
    if (a->mc->n_positions || a->to->one_part)
        return ST_OK;
    if (a->to->whole_pairs && rope->rot_dim < a->mc->d_head)
        TRY(vocab_note(a->notes,
                       "the rows of q and k are in the order of llama.cpp's converter, in "
                       "which other programs may rotate other elements of a head"));
    TRY(key_put_int(a, "rope.dimension_count", rope->rot_dim));
    TRY(key_put_float(a, "rope.freq_base", rope->theta));
    TRY(put_scaling(a));
    if (a->to->window == WINDOW_CHUNK)
        return keys_check_chunks(a);
    if (rope->q_beta != 0 && !a->to->needs_rope)
        FAIL(ST_UNSUPPORTED, "llama_4_scaling_beta cannot be said in GGUF's %s", a->to->name);
    if (rope->q_beta != 0)
        TRY(key_put_float(a, "attention.temperature_scale", rope->q_beta));
    if (!a->to->local_rope || (a->to->wide_qk_norm && !a->mc->window)) /* OLMo 2 */
        return ST_OK;
    if (a->mc->local_rope.type != ROPE_PLAIN)
        FAIL(ST_UNSUPPORTED, "the RoPE of the layers with a window is %s: GGUF cannot say that",
             rope_type_name(a->mc->local_rope.type));
    if (a->to->global_heads)
        TRY(key_put_int(a, "rope.dimension_count_swa", a->mc->local_rope.rot_dim));
    return key_put_float(a, "rope.freq_base_swa", a->mc->local_rope.theta);
}

/* A flag for each layer, where the layers are not those that a file without the key has. */
static enum status put_pattern(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    bool usual = true;
    for (int32_t i = 0; i < mc->n_layers; i++)
        usual &= mc->windowed[i] == ((i + 1) % a->to->default_pattern != 0);
    if (usual && !a->to->global_heads && !a->to->streams)
        return ST_OK;
    TRY(gguf_begin_array(a->w, key_of(a, "attention.sliding_window_pattern").text, GGUF_BOOL,
                         (size_t)mc->n_layers));
    for (int32_t i = 0; i < mc->n_layers; i++)
        TRY(gguf_item_bool(a->w, mc->windowed[i]));
    return ST_OK;
}

static enum status put_window(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    int32_t n_windowed = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n_windowed += mc->window && mc->windowed[i];
    if (a->to->window == WINDOW_PATTERN) {
        if (!mc->window && (a->to->nope == NOPE_FULL || a->to->wide_qk_norm))
            return ST_OK;
        TRY(key_put_int(a, "attention.sliding_window", mc->window ? mc->window : mc->max_ctx));
        return put_pattern(a);
    }
    if (a->to->window == WINDOW_CHUNK) /* keys_check_chunks */
        return ST_OK;
    if (n_windowed && (n_windowed < mc->n_layers || a->to->window != WINDOW_ALL))
        FAIL(ST_UNSUPPORTED, "an attention window in %s layers cannot be said in GGUF's %s",
             n_windowed < mc->n_layers ? "some of the" : "all", a->to->name);
    /* Phi-3's files always have the key: 0 is no window */
    return n_windowed || strcmp(a->to->name, "phi3") == 0
               ? key_put_int(a, "attention.sliding_window", n_windowed ? mc->window : 0)
               : ST_OK;
}

static enum status put_caps(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    if (a->to->default_attn_cap > 0) { /* without the keys they would have these */
        if (mc->attn_cap == 0)
            FAIL(ST_UNSUPPORTED, "attn_logit_softcapping null cannot be said in GGUF's %s",
                 a->to->name);
        TRY(key_put_float(a, "attn_logit_softcapping", mc->attn_cap));
    }
    if (a->to->default_logit_cap > 0 && mc->logit_cap == 0)
        FAIL(ST_UNSUPPORTED, "final_logit_softcapping null cannot be said in GGUF's %s",
             a->to->name);
    return mc->logit_cap > 0 ? key_put_float(a, "final_logit_softcapping", mc->logit_cap) : ST_OK;
}

static double attn_scale(const struct model_config *mc, double said)
{
    return said > 0 ? said : 1 / sqrt(mc->d_head);
}

static enum status put_scales(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    static const char *const acts[] = {[MODEL_SILU] = "SiLU",
                                       [MODEL_GELU] = "GELU",
                                       [MODEL_GELU_TANH] = "tanh GELU",
                                       [MODEL_RELU] = "ReLU",
                                       [MODEL_RELU2] = "the square of ReLU"};
    enum model_act act = gguf_arch_act(a->to, mc);
    if (mc->act != act)
        FAIL(ST_UNSUPPORTED, "GGUF's %s has %s, this model another activation", a->to->name,
             acts[act]);
    for (int32_t i = 0; i < mc->n_layers; i++) /* Mamba-2: keys_states */
        if (mc->nope[i] != (a->to->mamba ? mc->nope[0] : gguf_arch_nope(a->to, mc, i)))
            FAIL(ST_UNSUPPORTED, "GGUF's %s has other layers without RoPE", a->to->name);
    if (a->to->multipliers && mc->arch->multipliers) {
        TRY(key_put_float(a, "attention.scale", attn_scale(mc, mc->attn_scale)));
        TRY(key_put_float(a, "embedding_scale", mc->embed_scale));
        TRY(key_put_float(a, "residual_scale", mc->residual_scale));
        return key_put_float(a, "logit_scale", 1 / mc->logit_scale);
    }
    if (a->to->logit_factor)
        TRY(key_put_float(a, "logit_scale", mc->logit_scale));
    if (a->to->latent)
        return keys_latent_scale(a);
    double want = attn_scale(mc, mc->attn_scale);
    if (fabs(attn_scale(mc, gguf_arch_attn_scale(a->to, mc)) / want - 1) > 1e-6)
        FAIL(ST_UNSUPPORTED, "query_pre_attn_scalar %g cannot be said in GGUF's %s",
             1 / (want * want), a->to->name);
    return a->to->soft_caps || a->to->final_cap ? put_caps(a) : ST_OK;
}

/* Experts in groups, shared ones, and layers without any: only the first ones. */
static enum status put_groups(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    int32_t dense = mc->n_layers - model_n_sparse(mc);
    bool listed = a->to->experts == EXPERTS_BLOCKS; /* see keys_ffn_listed */
    for (int32_t i = 0; !listed && i < mc->n_layers; i++)
        if (mc->sparse[i] != (i >= dense))
            FAIL(ST_UNSUPPORTED, "dense layers behind sparse ones cannot be said in GGUF's %s",
                 a->to->name);
    if (!listed)
        TRY(key_put_int(a, "leading_dense_block_count", dense));
    TRY(key_put_int(a, "expert_shared_count",
                    listed ? mc->shared_ffn > 0 : mc->shared_ffn / mc->expert_ffn));
    TRY(key_put_float(a, "expert_weights_scale", mc->route_scale));
    TRY(gguf_put_bool(a->w, key_of(a, "expert_weights_norm").text, mc->renormalise));
    if (mc->n_groups < 1)
        return ST_OK;
    TRY(key_put_int(a, "expert_group_count", mc->n_groups));
    return key_put_int(a, "expert_group_used_count", mc->top_groups);
}

static enum status put_experts(const struct arch_keys *a)
{
    enum { SOFTMAX = 1, SIGMOID = 2 };
    const enum expert_rule rule = a->to->experts;
    bool groups = rule == EXPERTS_GROUPS || rule == EXPERTS_BLOCKS;
    const struct model_config *mc = a->mc;
    int32_t n = model_n_sparse(mc);
    if (!n && rule == EXPERTS_STEP)
        FAIL(ST_UNSUPPORTED, "a model without experts cannot be said in GGUF's %s", a->to->name);
    if (!n)
        return ST_OK;
    if (rule == EXPERTS_NONE)
        FAIL(ST_UNSUPPORTED, "experts cannot be said in GGUF's %s", a->to->name);
    if (!groups && mc->renormalise != gguf_arch_renormalises(a->to))
        FAIL(ST_UNSUPPORTED, "norm_topk_prob %s cannot be said in GGUF's %s",
             mc->renormalise ? "true" : "false", a->to->name);
    if (rule == EXPERTS_STEP)
        TRY(keys_expert_step(a));
    else if (n < mc->n_layers && !groups)
        TRY(vocab_note(a->notes, "some layers have no experts: other programs may not read that"));
    if (a->to->expert_bias && (mc->glu_limit != 7 || mc->glu_alpha != 1.702))
        FAIL(ST_UNSUPPORTED, "swiglu_limit %g cannot be said in GGUF's %s, which has 7",
             mc->glu_limit, a->to->name);
    TRY(key_put_int(a, "expert_count", mc->n_experts));
    TRY(key_put_int(a, "expert_used_count", mc->top_k));
    if (groups)
        TRY(put_groups(a));
    if (groups || a->to->route_bias)
        TRY(key_put_int(a, "expert_gating_func", mc->sigmoid_scores ? SIGMOID : SOFTMAX));
    if (a->to->shared_option || rule == EXPERTS_BLOCKS || rule == EXPERTS_OPTION)
        TRY(key_put_int(a, "expert_shared_feed_forward_length", mc->shared_ffn));
    bool sized = rule != EXPERTS_MIXTRAL && rule != EXPERTS_OLMO && rule != EXPERTS_OPTION;
    return sized || a->to->route_bias || a->to->expert_bias
               ? key_put_int(a, "expert_feed_forward_length", mc->expert_ffn)
               : ST_OK;
}

/* One width, or one for each layer. */
static enum status put_ffn(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    bool experts_alone = a->to->experts == EXPERTS_OPTION && model_n_sparse(mc);
    if (a->to->one_part)
        return keys_ffn_listed(a);
    bool alike = true;
    for (int32_t i = 0; i < mc->n_layers; i++)
        alike = alike && !mc->layer_ffn[i];
    if (alike && !a->to->streams)
        return mc->ffn || experts_alone
                   ? key_put_int(a, "feed_forward_length", experts_alone ? mc->expert_ffn : mc->ffn)
                   : ST_OK;
    TRY(gguf_begin_array(a->w, key_of(a, "feed_forward_length").text, GGUF_I32,
                         (size_t)mc->n_layers));
    for (int32_t i = 0; i < mc->n_layers; i++)
        TRY(gguf_item_32(a->w, (uint32_t)model_layer_axis(mc, AX_FFN, i)));
    return ST_OK;
}

/* Several residual streams, and what Gemma 3n has beside them. */
static enum status put_streams(const struct arch_keys *a)
{
    enum { STREAMS = 4, RANK = 64 }; /* that llama.cpp takes, whatever the file says */
    const struct model_config *mc = a->mc;
    if (!mc->scale_active)
        FAIL(ST_UNSUPPORTED, "altup_correct_scale false cannot be said in GGUF's %s", a->to->name);
    if (mc->n_streams != STREAMS || mc->active_stream != 0 || mc->laurel_rank != RANK)
        TRY(vocab_note(a->notes, "the residual streams or LAuReL's rank are not Gemma 3n's: other "
                                 "programs may not read that"));
    TRY(key_put_int(a, "altup.num_inputs", mc->n_streams));
    TRY(key_put_int(a, "altup.active_idx", mc->active_stream));
    TRY(key_put_int(a, "attention.shared_kv_layers", mc->n_kv_shared));
    TRY(key_put_int(a, "embedding_length_per_layer_input", mc->d_input));
    TRY(gguf_begin_array(a->w, key_of(a, "activation_sparsity_scale").text, GGUF_F32,
                         (size_t)mc->n_layers));
    for (int32_t i = 0; i < mc->n_layers; i++)
        TRY(gguf_item_32(a->w, bits_of_f32(mc->gate_cut[i])));
    return ST_OK;
}

/* Heads of two kinds of layers. */
static enum status put_heads(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    const struct {
        const char *key;
        int32_t value;
    } rows[] = {{"attention.key_length", mc->global_d_head},
                {"attention.value_length", mc->global_d_head},
                {"attention.key_length_swa", mc->d_head},
                {"attention.value_length_swa", mc->d_head},
                {"attention.shared_kv_layers", mc->n_kv_shared},
                {"embedding_length_per_layer_input", mc->d_input}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        TRY(key_put_int(a, rows[i].key, rows[i].value));
    if (mc->n_kv == mc->global_n_kv)
        return key_put_int(a, "attention.head_count_kv", mc->n_kv);
    TRY(gguf_begin_array(a->w, key_of(a, "attention.head_count_kv").text, GGUF_I32,
                         (size_t)mc->n_layers));
    for (int32_t i = 0; i < mc->n_layers; i++)
        TRY(gguf_item_32(a->w, (uint32_t)(mc->windowed[i] ? mc->n_kv : mc->global_n_kv)));
    return ST_OK;
}

/* Heads that are alike in all layers with attention. */
static enum status put_like_heads(const struct arch_keys *a)
{
    bool listed = a->to->mamba && !a->to->beside;
    TRY(listed ? keys_heads_listed(a) : key_put_int(a, "attention.head_count_kv", a->mc->n_kv));
    TRY(key_put_int(a, "attention.key_length", a->mc->d_head));
    return key_put_int(a, "attention.value_length", a->mc->d_head);
}

static enum status put_sizes(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    const struct {
        const char *key;
        int32_t value;
    } rows[] = {{"vocab_size", mc->vocab},
                {"context_length", mc->max_ctx},
                {"embedding_length", mc->hidden},
                {"block_count", mc->n_layers},
                {"attention.head_count", mc->n_q}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        TRY(key_put_int(a, rows[i].key, rows[i].value));
    TRY(put_ffn(a));
    TRY(a->to->latent         ? keys_latent_sizes(a)
        : a->to->global_heads ? put_heads(a)
                              : put_like_heads(a));
    if (a->to->delta)
        TRY(keys_states(a));
    if (a->to->streams)
        TRY(put_streams(a));
    if (a->to->parallel_option)
        TRY(gguf_put_bool(a->w, key_of(a, "use_parallel_residual").text, mc->parallel));
    bool other_name = a->to->layer_norm || a->to->one_part;
    return key_put_float(
        a, other_name ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
        mc->eps);
}

/* The last part of a path, without slashes at its end. */
static struct gguf_str last_part(const char *path)
{
    size_t n = strlen(path), at;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (at = n; at > 0 && path[at - 1] != '/'; at--)
        ;
    return (struct gguf_str){path + at, n - at};
}

enum status keys_from_folder(struct gguf_writer *w, const struct keys_source *s)
{
    const struct model_config *mc = s->mc;
    const struct arch *to = NULL;
    struct gguf_str name = last_part(s->path);
    TRY(gguf_arch_for(&to, mc));
    const struct arch_keys a = {w, to, mc, s->notes};
    TRY(gguf_put_str(w, "general.architecture", to->name, strlen(to->name)));
    TRY(gguf_put_str(w, "general.type", "model", 5));
    TRY(gguf_put_str(w, "general.name", name.data, name.len));
    TRY(put_form(w, s));
    TRY(put_sizes(&a));
    TRY(put_rope(&a));
    TRY(put_window(&a));
    TRY(put_scales(&a));
    TRY(put_experts(&a));
    return vocab_from_folder(w, s);
}
