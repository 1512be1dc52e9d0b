/* The metadata of a GGUF file as a model_config.
 *
 * Keys and tensor names: docs/gguf.md of ggml-org/ggml.  Files of the architecture "llama" (Mistral
 * too) have the rows of q and k reordered so that RoPE rotates neighbours (2i, 2i+1); the Qwen
 * files keep the halves (i, i + rot_dim / 2). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/config_gguf_meta.h"
#include "common/formats/config_json.h"
#include "common/formats/model_config.h"

/* What may follow "ARCH." in a key: each is read below or changes nothing. */
static const char *const known[] = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_shared_count",
    "expert_group_count",
    "expert_group_used_count",
    "expert_gating_func",
    "expert_weights_scale",
    "expert_weights_norm",
    "leading_dense_block_count",
    "interleave_moe_layer_step",
    "nextn_predict_layers",
    "attention.layer_norm_epsilon",
    "use_parallel_residual",
    "tensor_data_layout", /* of the file that this one was made from */
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "attention.shared_kv_layers",
    "embedding_length_per_layer_input",
    "altup.num_inputs",
    "altup.active_idx",
    "activation_sparsity_scale",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.temperature_scale",
    "attention.temperature_length",
    "attention.causal",
    "attention.scale",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "attention.recurrent_layers",
    "full_attention_interval",
    "ssm.conv_kernel",
    "ssm.state_size",
    "ssm.group_count",
    "ssm.time_step_rank",
    "ssm.inner_size",
    "rope.dimension_sections",
    "rope.freq_base_swa",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.finetuned", /* how the model was trained */
};

static enum status read_arch(struct model_config *mc, struct meta *m)
{
    struct gguf_str type, name;
    if (gguf_has(m->g, "general.type")) {
        TRY(gguf_get_str(m->g, "general.type", &type));
        if (!meta_is(type, "model"))
            FAIL(ST_UNSUPPORTED, "gguf: general.type is \"%s\", not \"model\"",
                 gguf_show(type).text);
    }
    if (gguf_is_part(m->g))
        FAIL(ST_FORMAT, "gguf: one part of a split model alone");
    TRY(gguf_get_str(m->g, "general.architecture", &name));
    const struct gguf_shown shown = gguf_show(name);
    m->row = config_gguf_latent_row(shown.text, m->g);
    if (!m->row)
        m->row = gguf_arch_find(shown.text);
    if (arch_refusal(shown.text))
        FAIL(ST_UNSUPPORTED, "gguf: the architecture \"%s\" is not supported: %s", shown.text,
             arch_refusal(shown.text));
    if (!m->row)
        FAIL(ST_UNSUPPORTED, "gguf: the architecture \"%s\" is not supported (%s are)", shown.text,
             gguf_arch_names());
    mc->arch = &m->row->arch;
    mc->qk_norm = mc->arch->qk_norm;
    if (mc->arch->default_theta > 0)
        mc->rope.theta = mc->arch->default_theta;
    return ST_OK;
}

/* Keys that one architecture reads; others refuse them. */
static bool reads(const struct arch *a, struct gguf_str key)
{
    if (meta_is(key, "logit_scale"))
        return a->multipliers || a->logit_factor;
    if (meta_is(key, "attention.scale") || meta_is(key, "embedding_scale") ||
        meta_is(key, "residual_scale"))
        return a->multipliers;
    if (meta_is(key, "attention.layer_norm_rms_epsilon"))
        return !a->layer_norm;
    if (meta_is(key, "attention.layer_norm_epsilon"))
        return a->layer_norm || a->one_part;
    if (meta_is(key, "use_parallel_residual"))
        return a->parallel_option;
    if (key.len > 5 && memcmp(key.data, "rope.", 5) == 0 && a->tensor[TN_POSITIONS].name)
        return false;
    if (meta_is(key, "expert_shared_feed_forward_length"))
        return a->shared_option || config_gguf_shared_width(a) || a->experts == EXPERTS_BLOCKS;
    if (meta_is(key, "attention.recurrent_layers") || meta_is(key, "full_attention_interval"))
        return a->delta && !a->mamba;
    if (key.len > 4 &&
        memcmp(key.data, "ssm.", 4) == 0) /* Granite 4 without such layers has them too */
        return a->delta || config_gguf_shared_width(a);
    if (meta_is(key, "rope.dimension_sections"))
        return a->mrope_text;
    if (meta_is(key, "nextn_predict_layers"))
        return a->extra_layers;
    if (meta_is(key, "expert_gating_func"))
        return a->experts == EXPERTS_GROUPS || a->route_bias;
    if (meta_is(key, "interleave_moe_layer_step"))
        return a->experts == EXPERTS_STEP;
    if (meta_is(key, "attention.sliding_window"))
        return a->window != WINDOW_CHUNK;
    if (meta_is(key, "leading_dense_block_count"))
        return a->experts == EXPERTS_GROUPS;
    if (meta_is(key, "expert_shared_count") || meta_is(key, "expert_weights_scale") ||
        meta_is(key, "expert_weights_norm") || meta_is(key, "expert_group_count") ||
        meta_is(key, "expert_group_used_count"))
        return a->experts == EXPERTS_GROUPS || a->experts == EXPERTS_BLOCKS;
    if (meta_is(key, "attention.kv_lora_rank") || meta_is(key, "attention.q_lora_rank") ||
        meta_is(key, "attention.key_length_mla") || meta_is(key, "attention.value_length_mla"))
        return a->latent;
    if (meta_is(key, "rope.scaling.yarn_log_multiplier"))
        return a->needs_rope || a->latent;
    if (meta_is(key, "attn_logit_softcapping"))
        return a->soft_caps;
    if (meta_is(key, "final_logit_softcapping"))
        return a->soft_caps || a->final_cap;
    if (meta_is(key, "attention.key_length_swa") || meta_is(key, "attention.value_length_swa") ||
        meta_is(key, "rope.dimension_count_swa"))
        return a->global_heads;
    if (meta_is(key, "attention.shared_kv_layers") ||
        meta_is(key, "embedding_length_per_layer_input"))
        return a->global_heads || a->streams;
    if (meta_is(key, "altup.num_inputs") || meta_is(key, "altup.active_idx") ||
        meta_is(key, "activation_sparsity_scale"))
        return a->streams;
    if (meta_is(key, "rope.freq_base_swa"))
        return a->local_rope;
    if (meta_is(key, "attention.sliding_window_pattern"))
        return a->window == WINDOW_PATTERN;
    if (meta_is(key, "attention.temperature_scale") || meta_is(key, "attention.temperature_length"))
        return a->needs_rope;
    return true;
}

static enum status check_keys(const struct meta *m)
{
    const char *arch = m->row->arch.name;
    size_t n = strlen(arch);
    for (size_t i = 0; i < gguf_n_keys(m->g); i++) {
        enum gguf_type type;
        struct gguf_str key = gguf_key(m->g, i, &type), rest;
        if (key.len <= n || memcmp(key.data, arch, n) != 0 || key.data[n] != '.')
            continue;
        rest = (struct gguf_str){key.data + n + 1, key.len - n - 1};
        size_t k = 0;
        while (k < ARRAY_LEN(known) && !meta_is(rest, known[k]))
            k++;
        if (k == ARRAY_LEN(known) || !reads(&m->row->arch, rest))
            FAIL(ST_UNSUPPORTED, "gguf: %s is not understood, and it may change the result",
                 gguf_show(key).text);
    }
    return ST_OK;
}

static enum status read_vocab(struct model_config *mc, const struct meta *m)
{
    const struct gguf_tensor *t = gguf_find_tensor(m->g, "token_embd.weight");
    const int32_t big = 1 << 24;
    if (!t)
        FAIL(ST_NOT_FOUND, "gguf: there is no tensor token_embd.weight");
    if (t->n_dims != 2 || t->ne[1] > (uint64_t)big)
        FAIL(ST_FORMAT, "gguf: token_embd.weight is no matrix of up to %d rows", big);
    int32_t said = (int32_t)t->ne[1];
    mc->vocab = said;
    TRY(meta_i32(m, "vocab_size", 1, big, &said));
    if (said != mc->vocab)
        FAIL(ST_FORMAT, "gguf: token_embd.weight has %d rows, %s says %d", mc->vocab,
             meta_key(m, "vocab_size").text, said);
    return ST_OK;
}

/* Nemotron-H's files have the first one, which rules in llama.cpp too, or the second one alone. */
static const char *eps_key(const struct arch *a, const struct meta *m)
{
    static const char *const keys[] = {"attention.layer_norm_rms_epsilon",
                                       "attention.layer_norm_epsilon"};
    bool other = a->one_part && !gguf_has(m->g, meta_key(m, keys[0]).text);
    return keys[a->layer_norm || other];
}

static enum status read_sizes(struct model_config *mc, const struct meta *m)
{
    static const char *const needed[] = {"context_length", "embedding_length", "block_count",
                                         "feed_forward_length", "attention.head_count"};
    const char *eps = eps_key(mc->arch, m);
    const int32_t big = 1 << 24;
    bool no_ffn = mc->arch->delta && !mc->arch->mamba &&
                  mc->arch->experts != EXPERTS_NONE; /* all layers are sparse */
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!no_ffn || strcmp(needed[i], "feed_forward_length") != 0)
            TRY(meta_need(m, needed[i]));
    TRY(meta_need(m, eps));
    TRY(meta_i32(m, "context_length", 1, 1 << 30, &mc->max_ctx));
    if (mc->arch->tensor[TN_POSITIONS].name)
        mc->n_positions = mc->max_ctx;
    TRY(meta_i32(m, "embedding_length", 1, big, &mc->hidden));
    TRY(meta_i32(m, "block_count", 1, MAX_LAYERS, &mc->n_layers));
    if (!mc->arch->global_heads && !mc->arch->streams &&
        !mc->arch->one_part) /* see config_gguf_inputs, _blocks */
        TRY(meta_i32(m, "feed_forward_length", 1, big, &mc->ffn));
    TRY(meta_i32(m, "attention.head_count", 1, 1 << 16, &mc->n_q));
    TRY(meta_double(m, eps, 0, 1, &mc->eps));
    TRY(meta_i32(m, "nextn_predict_layers", 0, mc->n_layers - 1, &mc->n_mtp));
    mc->n_layers -= mc->n_mtp;  /* block_count has them */
    if (mc->arch->global_heads) /* config_gguf_global */
        return read_vocab(mc, m);
    mc->n_kv = mc->n_q;
    bool listed = config_gguf_shared_width(mc->arch) &&
                  gguf_is_array(m->g, meta_key(m, "attention.head_count_kv").text);
    TRY(mc->arch->one_part ? config_gguf_blocks(mc, m)
        : listed           ? config_gguf_mamba_layers(mc, m)
                           : meta_i32(m, "attention.head_count_kv", 1, 1 << 16, &mc->n_kv));
    if (mc->arch->latent) {
        TRY(config_gguf_latent(mc, m));
        return read_vocab(mc, m);
    }
    if (mc->hidden % mc->n_q && !gguf_has(m->g, meta_key(m, "attention.key_length").text))
        FAIL(ST_RANGE, "gguf: an embedding of %d is no multiple of %d heads, and there is no %s",
             mc->hidden, mc->n_q, meta_key(m, "attention.key_length").text);
    mc->d_head = mc->hidden / mc->n_q;
    TRY(meta_i32(m, "attention.key_length", 1, 1 << 16, &mc->d_head));
    int32_t value = mc->d_head;
    TRY(meta_i32(m, "attention.value_length", 1, 1 << 16, &value));
    if (value != mc->d_head)
        FAIL(ST_UNSUPPORTED, "gguf: heads with keys of %d and values of %d are not supported",
             mc->d_head, value);
    return read_vocab(mc, m);
}

/* Are attention and feed-forward side by side? */
static enum status read_parallel(struct model_config *mc, const struct meta *m)
{
    mc->parallel = mc->arch->parallel;
    if (!mc->arch->parallel_option)
        return ST_OK;
    TRY(meta_need(m, "use_parallel_residual"));
    return gguf_get_bool(m->g, meta_key(m, "use_parallel_residual").text, &mc->parallel);
}

/* Options that must have the value of a plain decoder. */
static enum status check_plain(const struct meta *m)
{
    bool causal = true;
    struct meta_name k = meta_key(m, "attention.causal");
    if (gguf_has(m->g, k.text))
        TRY(gguf_get_bool(m->g, k.text, &causal));
    if (!causal)
        FAIL(ST_UNSUPPORTED, "gguf: %s is false: only causal attention is supported", k.text);
    return ST_OK;
}

/* Which layers have the window: a flag for each layer, or all but each pattern-th. */
static enum status read_pattern(bool windowed[MAX_LAYERS], const struct model_config *mc,
                                const struct meta *m)
{
    static const char name[] = "attention.sliding_window_pattern";
    struct meta_name k = meta_key(m, name);
    struct gguf_array flags;
    int32_t pattern = mc->arch->default_pattern;
    bool is_list = gguf_is_array(m->g, k.text);
    if (is_list)
        TRY(gguf_get_array(m->g, k.text, GGUF_BOOL, &flags));
    if (is_list && flags.n < (uint64_t)mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s has %llu elements for %d layers", k.text,
             (unsigned long long)flags.n, mc->n_layers);
    if (!is_list && mc->arch->window == WINDOW_PATTERN)
        TRY(meta_i32(m, name, 1, 1 << 20, &pattern));
    for (int32_t i = 0; i < mc->n_layers; i++)
        windowed[i] =
            is_list ? gguf_array_int(&flags, (uint64_t)i) != 0 : !pattern || (i + 1) % pattern != 0;
    return ST_OK;
}

static enum status read_window(struct model_config *mc, const struct meta *m)
{
    int32_t window = 0;
    bool windowed[MAX_LAYERS];
    TRY(meta_i32(m, "attention.sliding_window", 0, 1 << 30, &window));
    if (mc->arch->window == WINDOW_PATTERN && mc->arch->nope != NOPE_FULL &&
        !mc->arch->wide_qk_norm)
        TRY(meta_need(m, "attention.sliding_window"));
    TRY(read_pattern(windowed, mc, m));
    if (window == 0 || (window >= mc->max_ctx && !mc->arch->local_rope))
        return ST_OK;
    if (mc->arch->window != WINDOW_ALL && mc->arch->window != WINDOW_PATTERN)
        FAIL(ST_UNSUPPORTED, "gguf: %s is %d: which layers have it is not said",
             meta_key(m, "attention.sliding_window").text, window);
    mc->window = window;
    memcpy(mc->windowed, windowed, (size_t)mc->n_layers * sizeof *windowed);
    return ST_OK;
}

/* What the Gemmas, Granite and MiniCPM have between the usual parts, and layers without RoPE. */
static enum status read_scales(struct model_config *mc, const struct meta *m)
{
    const struct arch *a = mc->arch;
    double divisor = 1;
    if (a->multipliers) {
        TRY(meta_double(m, "attention.scale", 1e-6, 1e6, &mc->attn_scale));
        TRY(meta_double(m, "embedding_scale", 1e-6, 1e6, &mc->embed_scale));
        TRY(meta_double(m, "residual_scale", 1e-6, 1e6, &mc->residual_scale));
        TRY(meta_double(m, "logit_scale", 1e-6, 1e6, &divisor));
        mc->logit_scale = 1 / divisor;
        return ST_OK;
    }
    if (a->depth_scales)
        gguf_arch_depth_scales(mc);
    if (a->logit_factor) {
        mc->logit_scale = a->default_logit_scale;
        TRY(meta_double(m, "logit_scale", 1e-6, 1e6, &mc->logit_scale));
    }
    for (int32_t i = 0; i < mc->n_layers; i++)
        mc->nope[i] = gguf_arch_nope(a, mc, i);
    mc->act = gguf_arch_act(a, mc);
    mc->attn_scale = gguf_arch_attn_scale(a, mc);
    if (a->scale_embed)
        mc->embed_scale = sqrt(mc->hidden);
    mc->logit_cap = a->default_logit_cap;
    if (a->final_cap)
        return meta_double(m, "final_logit_softcapping", 1e-3, 1e6, &mc->logit_cap);
    if (!a->soft_caps)
        return ST_OK;
    mc->attn_cap = a->default_attn_cap;
    if (a->default_attn_cap > 0)
        TRY(meta_double(m, "attn_logit_softcapping", 1e-3, 1e6, &mc->attn_cap));
    return meta_double(m, "final_logit_softcapping", 1e-3, 1e6, &mc->logit_cap);
}

/* llama.cpp's converter writes attention_factor of config.json, which is the whole factor, and attn_factor, which
 * transformers does not read, to one key.  attn_factor is the inverse of YaRN's own factor in the files that have it. */
static enum status read_yarn_factor(struct rope_config *rope, const struct meta *m)
{
    double own = rope_yarn_mscale(rope->factor, 1), whole = 0;
    TRY(meta_double(m, "rope.scaling.yarn_attn_factor", 1e-3, 1e3, &whole));
    if (whole > 0 && fabs(whole * own - 1) > 1e-4)
        rope->attention_factor = whole;
    return ST_OK;
}

static enum status read_yarn(struct model_config *mc, const struct meta *m)
{
    struct rope_config *rope = &mc->rope;
    double scale = 1;
    int32_t original = mc->max_ctx;
    TRY(meta_i32(m, "rope.scaling.original_context_length", 1, 1 << 30, &original));
    rope->original_ctx = original;
    TRY(meta_double(m, "rope.scaling.attn_factor", 1e-3, 1e3, &scale));
    TRY(meta_double(m, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, &rope->beta_fast));
    TRY(meta_double(m, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, &rope->beta_slow));
    rope->truncate = !mc->arch->sinks; /* gpt-oss: the files do not say it */
    if (rope->beta_fast < rope->beta_slow)
        FAIL(ST_RANGE, "gguf: yarn_beta_fast %g is less than yarn_beta_slow %g", rope->beta_fast,
             rope->beta_slow);
    TRY(meta_double(m, "attention.temperature_scale", 0, 1e3, &rope->q_beta));
    rope->q_floor = original;
    int32_t length = original;
    TRY(meta_i32(m, "attention.temperature_length", 1, 1 << 30, &length));
    if (length != original)
        FAIL(ST_UNSUPPORTED, "gguf: %s is %d, but the original context has %d positions",
             meta_key(m, "attention.temperature_length").text, length, original);
    double all = 0; /* mscale_all_dim; mscale is 1 */
    TRY(meta_double(m, "rope.scaling.yarn_log_multiplier", 0, 1e3, &all));
    rope->attention_factor = scale * rope_yarn_mscale(rope->factor, 1);
    if (all > 0)
        rope->attention_factor /= rope_yarn_mscale(rope->factor, all);
    TRY(read_yarn_factor(rope, m));
    config_stretch_context(mc);
    return ST_OK;
}

static enum status read_scaling(struct model_config *mc, const struct meta *m)
{
    struct rope_config *rope = &mc->rope;
    struct meta_name k = meta_key(m, "rope.scaling.type");
    struct gguf_str type = {"none", 4};
    bool old = gguf_has(m->g, meta_key(m, "rope.scale_linear").text);
    if (gguf_has(m->g, k.text))
        TRY(gguf_get_str(m->g, k.text, &type));
    else if (old)
        type = (struct gguf_str){"linear", 6};
    TRY(meta_double(m, "rope.scale_linear", 1e-3, 1e6, &rope->factor));
    TRY(meta_double(m, "rope.scaling.factor", 1e-3, 1e6, &rope->factor));
    if (meta_is(type, "linear")) {
        rope->type = ROPE_LINEAR;
        return ST_OK;
    }
    if (meta_is(type, "yarn")) {
        rope->type = ROPE_YARN;
        return read_yarn(mc, m);
    }
    if (!meta_is(type, "none"))
        FAIL(ST_UNSUPPORTED, "gguf: %s \"%s\" is not supported (none, linear and yarn are)", k.text,
             gguf_show(type).text);
    rope->factor = 1;
    return ST_OK;
}

/* Divisors of the frequencies, as files made from Llama 3.1 and later have them. */
static enum status copy_divisors(float *out, const struct rope_config *rope,
                                 const struct gguf_tensor *t, const char *name)
{
    if (t->type != GGML_F32 || t->n_dims != 1 || t->ne[0] != (uint64_t)rope->rot_dim / 2 ||
        t->ne[0] > MAX_ROPE_PAIRS)
        FAIL(ST_FORMAT, "gguf: %s is no F32 vector of %d (at most %d)", name, rope->rot_dim / 2,
             MAX_ROPE_PAIRS);
    memcpy(out, t->data, t->n_bytes);
    for (uint64_t i = 0; i < t->ne[0]; i++)
        if (!(out[i] > 0) || isinf(out[i]))
            FAIL(ST_RANGE, "gguf: %s[%d] is %g", name, (int)i, (double)out[i]);
    return ST_OK;
}

static enum status read_divisors(struct rope_config *rope, const struct gguf *g)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, "rope_freqs.weight");
    if (!t)
        return ST_OK;
    if (rope->type != ROPE_PLAIN)
        FAIL(ST_UNSUPPORTED, "gguf: the tensor rope_freqs.weight beside rope.scaling.type %s",
             rope_type_name(rope->type));
    TRY(copy_divisors(rope->divisor, rope, t, "rope_freqs.weight"));
    rope->type = ROPE_DIVISORS;
    return ST_OK;
}

/* Those of LongRoPE; architectures without them refuse the tensors. */
static enum status read_longrope(struct model_config *mc, const struct meta *m)
{
    static const char *const names[] = {"rope_factors_short.weight", "rope_factors_long.weight"};
    struct rope_config *rope = &mc->rope;
    const struct gguf_tensor *near = gguf_find_tensor(m->g, names[0]),
                             *far = gguf_find_tensor(m->g, names[1]);
    int32_t original = mc->max_ctx;
    if (!mc->arch->rope_factors || (!near && !far))
        return ST_OK;
    if (!near || !far)
        FAIL(ST_FORMAT, "gguf: the tensor %s is missing", names[!far]);
    TRY(meta_i32(m, "rope.scaling.original_context_length", 2, 1 << 30, &original));
    rope->type = ROPE_LONGROPE;
    rope->original_ctx = original;
    rope->factor = mc->max_ctx / rope->original_ctx;
    rope->attention_factor = rope_longrope_mscale(rope->factor, rope->original_ctx);
    TRY(meta_double(m, "rope.scaling.attn_factor", 1e-3, 1e3, &rope->attention_factor));
    TRY(copy_divisors(rope->divisor, rope, near, names[0]));
    return copy_divisors(rope->long_divisor, rope, far, names[1]);
}

static enum status read_rope(struct model_config *mc, const struct meta *m)
{
    if (mc->n_positions || mc->arch->one_part)
        return ST_OK;
    mc->rope.interleaved = m->row->interleaved;
    mc->rope.rot_dim = mc->kv_rank         ? mc->d_rope
                       : mc->global_d_head ? mc->global_d_head
                                           : mc->d_head;
    TRY(meta_i32(m, "rope.dimension_count", 2, 1 << 16, &mc->rope.rot_dim));
    if (model_whole_pairs(mc)) {
        mc->rope.interleaved = false;
        if (mc->d_head % 2)
            FAIL(ST_RANGE, "gguf: %s is %d, of heads of %d, which have no halves",
                 meta_key(m, "rope.dimension_count").text, mc->rope.rot_dim, mc->d_head);
    }
    TRY(meta_double(m, "rope.freq_base", 1.01, 1e12, &mc->rope.theta));
    mc->local_rope.rot_dim = mc->global_d_head ? mc->d_head : mc->rope.rot_dim;
    TRY(meta_i32(m, "rope.dimension_count_swa", 2, 1 << 16, &mc->local_rope.rot_dim));
    mc->local_rope.interleaved = mc->rope.interleaved;
    if (mc->arch->wide_qk_norm)
        mc->local_rope.theta = mc->rope.theta;
    TRY(meta_double(m, "rope.freq_base_swa", 1.01, 1e12, &mc->local_rope.theta));
    TRY(read_scaling(mc, m));
    TRY(read_longrope(mc, m));
    return read_divisors(&mc->rope, m->g);
}

static bool layer_has(const struct gguf *g, int32_t layer, const char *tensor)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, tensor);
    return gguf_find_tensor(g, name) != NULL;
}

static void read_biases(struct model_config *mc, const struct gguf *g)
{
    const char *q = mc->kv_rank                                 ? "attn_kv_a_mqa.bias"
                    : mc->arch->tensor[TN_Q].fused == FUSED_QKV ? "attn_qkv.bias"
                                                                : "attn_q.bias";
    int32_t at = 0; /* the first layer with attention */
    while (at < mc->n_layers - 1 && !model_attends(mc, at))
        at++;
    mc->qkv_bias = mc->arch->qkv_bias || layer_has(g, at, q);
    mc->o_bias = layer_has(g, at, "attn_output.bias");
    mc->mlp_bias = layer_has(g, 0, "ffn_up.bias");
    if (mc->arch->qk_norm_option)
        mc->qk_norm = layer_has(g, at, "attn_q_norm.weight");
}

static enum status read_id(const struct model_config *mc, const struct gguf *g, const char *key,
                           int32_t *out)
{
    uint64_t id = 0;
    *out = -1;
    if (!gguf_has(g, key))
        return ST_OK;
    TRY(gguf_get_u64(g, key, &id));
    if (id < (uint64_t)mc->vocab) /* else no token has it */
        *out = (int32_t)id;
    return ST_OK;
}

/* The ends of a text, of a turn and of a message stop a generation alike. */
static enum status read_ids(struct model_config *mc, const struct gguf *g)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    TRY(read_id(mc, g, "tokenizer.ggml.bos_token_id", &mc->bos_id));
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        int32_t id;
        TRY(read_id(mc, g, ends[i], &id));
        bool twice = false;
        for (int32_t k = 0; k < mc->n_eos; k++)
            twice |= mc->eos_id[k] == id;
        if (id >= 0 && !twice)
            mc->eos_id[mc->n_eos++] = id;
    }
    return ST_OK;
}

/* The greatest block of the down matrices of that kind, whose rows have `width` elements. */
static enum status raise_unit(const struct gguf *g, int32_t layer, const char *kind, int32_t width,
                              int32_t *unit)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ffn_down%s.weight", layer, kind);
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    int32_t block = t ? (int32_t)ggml_type_info(t->type)->block : 1;
    if (width % block)
        FAIL(ST_FORMAT, "gguf: %s has blocks of %d, and a row has %d elements", name, block, width);
    *unit = block > *unit ? block : *unit;
    return ST_OK;
}

static enum status read_units(struct model_config *mc, const struct gguf *g)
{
    for (int32_t i = 0; i < mc->n_layers; i++) {
        if (!mc->sparse[i]) {
            TRY(raise_unit(g, i, "", model_layer_axis(mc, AX_FFN, i), &mc->ffn_unit));
            continue;
        }
        TRY(raise_unit(g, i, "_exps", mc->expert_ffn, &mc->expert_unit));
        if (mc->shared_ffn)
            TRY(raise_unit(g, i, "_shexp", mc->shared_ffn, &mc->shared_unit));
    }
    return ST_OK;
}

/* The type of most bytes: of the first feed-forward block. */
static enum dtype weights_type(const struct gguf *g, int32_t n_layers)
{
    const struct gguf_tensor *t = NULL;
    for (int32_t i = 0; !t && i < n_layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_up.weight", i);
        t = gguf_find_tensor(g, name);
        snprintf(name, sizeof name, "blk.%d.ffn_up_exps.weight", i);
        t = t ? t : gguf_find_tensor(g, name);
    }
    return t ? gguf_dtype(t->type) : DT_N;
}

enum status model_config_from_gguf(struct model_config *out, const struct gguf *g)
{
    struct meta m = {.g = g};
    model_config_init(out);
    TRY(read_arch(out, &m));
    TRY(check_keys(&m));
    TRY(read_sizes(out, &m));
    TRY(check_plain(&m));
    TRY(read_parallel(out, &m));
    if (out->arch->delta)
        TRY(out->arch->mamba ? config_gguf_mamba(out, &m) : config_gguf_delta(out, &m));
    TRY(config_gguf_experts(out, &m));
    TRY(read_window(out, &m));
    if (out->arch->global_heads)
        TRY(config_gguf_global(out, &m));
    if (out->arch->streams)
        TRY(config_gguf_streams(out, &m));
    TRY(read_scales(out, &m));
    TRY(read_rope(out, &m));
    if (out->arch->window == WINDOW_CHUNK)
        gguf_arch_chunks(out);
    if (out->arch->latent)
        TRY(config_gguf_latent_scale(out, &m));
    read_biases(out, g);
    TRY(read_ids(out, g));
    TRY(read_units(out, g));
    out->tied = gguf_find_tensor(g, "output.weight") == NULL;
    out->dtype = weights_type(g, out->n_layers);
    return model_config_check(out);
}
