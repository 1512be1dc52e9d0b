/* The architectures that Ingot runs: their tensors' names and axes, their biases, and the reasons
 * for refusing others.  Called by the configuration readers and the weight loader. */
#include <stdio.h>
#include <string.h>

#include "common/formats/arch_table.h"

static const struct tensor_rule llama_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    [TN_FFN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {L "mlp.gate_proj.weight", L "mlp.gate_proj.bias", AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "mlp.up_proj.weight", L "mlp.up_proj.bias", AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {L "mlp.down_proj.weight", L "mlp.down_proj.bias", AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_ROUTER] = {L "mlp.gate.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_GATE] = {L "mlp.experts.@.gate_proj.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN,
                        FUSED_NO},
    [TN_EXPERT_UP] = {L "mlp.experts.@.up_proj.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_DOWN] = {L "mlp.experts.@.down_proj.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN,
                        FUSED_NO},
};

#define M L "block_sparse_moe."

static const struct tensor_rule mixtral_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    [TN_FFN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER] = {M "gate.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_GATE] = {M "experts.@.w1.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_UP] = {M "experts.@.w3.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_DOWN] = {M "experts.@.w2.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
};

static const struct tensor_rule gemma_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    [TN_POST_ATTN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "pre_feedforward_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {L "mlp.gate_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "mlp.up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {L "mlp.down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_POST_FFN_NORM] = {L "post_feedforward_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule phi3_tensors[TN_N] = {
    COMMON_TENSORS,
    [TN_FFN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_Q] = {L "self_attn.qkv_proj.weight", NULL, AX_Q, AX_HIDDEN, FUSED_QKV},
    [TN_K] = {L "self_attn.qkv_proj.weight", NULL, AX_KV, AX_HIDDEN, FUSED_QKV},
    [TN_V] = {L "self_attn.qkv_proj.weight", NULL, AX_KV, AX_HIDDEN, FUSED_QKV},
    [TN_GATE] = {L "mlp.gate_up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_UP] = {L "mlp.gate_up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_DOWN] = {L "mlp.down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
};

/* Gate and up of all experts are one tensor. */
static const struct tensor_rule granitemoe_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    [TN_FFN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER] = {M "router.layer.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_GATE] = {M "input_linear.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_UP] = {M "input_linear.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_DOWN] = {M "output_linear.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
};

/* No norms before attention and feed-forward. */
static const struct tensor_rule exaone4_tensors[TN_N] = {
    OUTER_TENSORS,
    HEAD_NORMS,
    SPLIT_QKV,
    [TN_POST_ATTN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {L "mlp.gate_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "mlp.up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {L "mlp.down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_POST_FFN_NORM] = {L "post_feedforward_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule glm4_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    [TN_POST_ATTN_NORM] = {L "post_self_attn_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {L "mlp.gate_up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_UP] = {L "mlp.gate_up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_DOWN] = {L "mlp.down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_POST_FFN_NORM] = {L "post_mlp_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule olmo2_tensors[TN_N] = {OUTER_TENSORS, WIDE_NORMS, SPLIT_QKV,
                                                       POST_NORMS, GATE_UP_DOWN};

/* One norm before attention and feed-forward, which run side by side. */
static const struct tensor_rule cohere_tensors[TN_N] = {COMMON_TENSORS, SPLIT_QKV, GATE_UP_DOWN};

static const struct tensor_rule starcoder2_tensors[TN_N] = {
    [TN_EMBED] = {"model.embed_tokens.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = {L "input_layernorm.weight", L "input_layernorm.bias", AX_ONE, AX_HIDDEN,
                      FUSED_NO},
    SPLIT_QKV,
    [TN_O] = {L "self_attn.o_proj.weight", L "self_attn.o_proj.bias", AX_HIDDEN, AX_Q, FUSED_NO},
    [TN_FFN_NORM] = {L "post_attention_layernorm.weight", L "post_attention_layernorm.bias", AX_ONE,
                     AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "mlp.c_fc.weight", L "mlp.c_fc.bias", AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {L "mlp.c_proj.weight", L "mlp.c_proj.bias", AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_FINAL_NORM] = {"model.norm.weight", "model.norm.bias", AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule minicpm3_tensors[TN_N] = {LATENT_MODEL};

#define CLASSIFIER_CLASS "ForSequenceClassification"

static const struct arch archs[] = {
    {.name = "LlamaForCausalLM",
     .model_type = "llama",
     .tensor = llama_tensors,
     .score_head = true,
     .bias_option = true,
     .mlp_bias_option = true},
    {.name = "MistralForCausalLM",
     .model_type = "mistral",
     .tensor = llama_tensors,
     .score_head = true,
     .window = WINDOW_ALL,
     .default_window = 4096},
    {.name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .tensor = llama_tensors,
     .score_head = true,
     .qkv_bias = true,
     .window = WINDOW_BY_LAYER,
     .default_window = 4096},
    {.name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .tensor = llama_tensors,
     .score_head = true,
     .qk_norm = true,
     .bias_option = true,
     .window = WINDOW_BY_LAYER,
     .default_window = 4096,
     .default_d_head = 128},
    {.name = "MixtralForCausalLM",
     .model_type = "mixtral",
     .tensor = mixtral_tensors,
     .window = WINDOW_ALL,
     .default_window = 4096,
     .experts = EXPERTS_MIXTRAL,
     .default_theta = 1e6,
     .default_eps = 1e-5},
    {.name = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .tensor = llama_tensors,
     .qk_norm = true,
     .bias_option = true,
     .window = WINDOW_USE,
     .default_window = 4096,
     .experts = EXPERTS_QWEN},
    {.name = "MinistralForCausalLM",
     .model_type = "ministral",
     .tensor = llama_tensors,
     .window = WINDOW_PATTERN,
     .default_window = 4096},
    {.name = "GemmaForCausalLM",
     .model_type = "gemma",
     .tensor = llama_tensors,
     .score_head = true,
     .pads_with_zero = true,
     .norm_plus_one = true,
     .scale_embed = true,
     .tanh_gelu = true,
     .tied = true,
     .default_d_head = 256},
    {.name = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .tensor = gemma_tensors,
     .score_head = true,
     .pads_with_zero = true,
     .norm_plus_one = true,
     .scale_embed = true,
     .soft_caps = true,
     .tied = true,
     .window = WINDOW_PATTERN,
     .default_window = 4096,
     .default_pattern = 2,
     .default_attn_cap = 50,
     .default_logit_cap = 30,
     .default_d_head = 256},
    {.name = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .tensor = gemma_tensors,
     .qk_norm = true,
     .norm_plus_one = true,
     .scale_embed = true,
     .soft_caps = true,
     .local_rope = true,
     .tied = true,
     .window = WINDOW_PATTERN,
     .default_window = 4096,
     .default_pattern = 6,
     .default_theta = 1e6,
     .default_d_head = 256},
    {.name = "Ministral3ForCausalLM",
     .model_type = "ministral3",
     .tensor = llama_tensors,
     .needs_rope = true,
     .window = WINDOW_ALL,
     .default_eps = 1e-5,
     .default_d_head = 128},
    {.name = "Phi3ForCausalLM",
     .model_type = "phi3",
     .tensor = phi3_tensors,
     .partial_rotary = true,
     .own_code = true,
     .window = WINDOW_ALL,
     .default_eps = 1e-5},
    {.name = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .tensor = llama_tensors,
     .bias_option = true,
     .mlp_bias_option = true,
     .tied = true,
     .nope = NOPE_LISTED},
    {.name = "GraniteForCausalLM",
     .model_type = "granite",
     .tensor = llama_tensors,
     .multipliers = true},
    {.name = "GraniteMoeForCausalLM",
     .model_type = "granitemoe",
     .tensor = granitemoe_tensors,
     .multipliers = true,
     .experts = EXPERTS_MIXTRAL},
    {.name = "MiniCPM3ForCausalLM",
     .model_type = "minicpm3",
     .tensor = minicpm3_tensors,
     .latent = true,
     .derived_value = true,
     .depth_scales = true,
     .bias_option = true,
     .mlp_bias_option = true,
     .own_code = true,
     .tied = true,
     .default_eps = 1e-5},
    {.name = "Glm4ForCausalLM",
     .model_type = "glm4",
     .tensor = glm4_tensors,
     .bias_option = true,
     .o_without_bias = true,
     .attention_bias = true,
     .partial_rotary = true,
     .default_partial = 0.5,
     .interleaved = true,
     .default_eps = 1.5625e-7,
     .default_d_head = 128},
    {.name = "Exaone4ForCausalLM",
     .model_type = "exaone4",
     .tensor = exaone4_tensors,
     .qk_norm = true,
     .window = WINDOW_PATTERN,
     .default_window = 4096,
     .default_pattern = 4,
     .default_eps = 1e-5,
     .nope = NOPE_FULL},
    {.name = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .tensor = olmo2_tensors,
     .qk_norm = true,
     .wide_qk_norm = true,
     .bias_option = true,
     .default_eps = 1e-5},
    {.name = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .tensor = olmo2_tensors,
     .qk_norm = true,
     .wide_qk_norm = true,
     .bias_option = true,
     .local_rope = true,
     .window = WINDOW_PATTERN,
     .default_window = 4096,
     .default_pattern = 4,
     .default_theta = 5e5,
     .default_local_theta = 5e5,
     .default_eps = 1e-5},
    {.name = "CohereForCausalLM",
     .model_type = "cohere",
     .tensor = cohere_tensors,
     .layer_norm = true,
     .parallel = true,
     .interleaved = true,
     .bias_option = true,
     .tied = true,
     .logit_factor = true,
     .default_logit_scale = 0.0625,
     .default_eps = 1e-5},
    {.name = "Cohere2ForCausalLM",
     .model_type = "cohere2",
     .tensor = cohere_tensors,
     .layer_norm = true,
     .parallel = true,
     .interleaved = true,
     .bias_option = true,
     .tied = true,
     .logit_factor = true,
     .default_logit_scale = 0.0625,
     .window = WINDOW_PATTERN,
     .default_window = 4096,
     .default_pattern = 4,
     .nope = NOPE_UNWINDOWED,
     .default_eps = 1e-5},
    {.name = "Starcoder2ForCausalLM",
     .model_type = "starcoder2",
     .tensor = starcoder2_tensors,
     .layer_norm = true,
     .norm_bias = true,
     .use_bias_option = true,
     .attention_bias = true,
     .tanh_gelu = true,
     .tied = true,
     .window = WINDOW_ALL,
     .default_eps = 1e-5},
    {.name = "SeedOssForCausalLM",
     .model_type = "seed_oss",
     .tensor = llama_tensors,
     .bias_option = true,
     .o_without_bias = true,
     .o_bias_option = true,
     .attention_bias = true,
     .mlp_bias_option = true,
     .default_d_head = 128},
    {.name = "Ernie4_5ForCausalLM",
     .model_type = "ernie4_5",
     .tensor = llama_tensors,
     .use_bias_option = true,
     .interleaved = true,
     .tied = true,
     .default_theta = 500000,
     .default_eps = 1e-5,
     .default_d_head = 128},
};

static const struct refusal {
    const char *name, *why;
} refusals[] = {
    {"DeepseekForCausalLM", "of DeepSeek's models those from V2 on are"},
    {"deepseek", "of DeepSeek's models those from V2 on are"},
    /* classes, then their architectures in GGUF */
    {"MambaForCausalLM", "Mamba's first form is not read; Mamba-2 is, beside attention"},
    {"FalconMambaForCausalLM", "Mamba's first form is not read; Mamba-2 is, beside attention"},
    {"JambaForCausalLM", "Mamba's first form is not read; Mamba-2 is, beside attention"},
    {"Plamo2ForCausalLM", "Mamba's first form is not read; Mamba-2 is, beside attention"},
    {"Mamba2ForCausalLM", "it has no layer with attention"},
    {"ZambaForCausalLM", "its layers share the weights of those with attention"},
    {"Zamba2ForCausalLM", "its layers share the weights of those with attention"},
    {"Lfm2ForCausalLM", "its layers of short convolutions are not computed"},
    {"Lfm2MoeForCausalLM", "its layers of short convolutions are not computed"},
    {"RwkvForCausalLM", "it has no layer with attention"},
    {"mamba", "Mamba's first form is not read; Mamba-2 is, beside attention"},
    {"jamba", "Mamba's first form is not read; Mamba-2 is, beside attention"},
    {"plamo2", "Mamba's first form is not read; Mamba-2 is, beside attention"},
    {"mamba2", "it has no layer with attention"},
    {"lfm2", "its layers of short convolutions are not computed"},
    {"lfm2moe", "its layers of short convolutions are not computed"},
    {"rwkv6", "it has no layer with attention"},
    {"rwkv7", "it has no layer with attention"},
};

const char *arch_refusal(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (strcmp(refusals[i].name, name) == 0)
            return refusals[i].why;
    return NULL;
}

/* The i-th row of all; NULL behind the last. */
static const struct arch *row_at(size_t i)
{
    if (i < ARRAY_LEN(archs))
        return &archs[i];
    i -= ARRAY_LEN(archs);
    if (i < n_archs_of_experts)
        return &archs_of_experts[i];
    i -= n_archs_of_experts;
    if (i < n_archs_of_delta)
        return &archs_of_delta[i];
    i -= n_archs_of_delta;
    if (i < n_archs_of_mamba)
        return &archs_of_mamba[i];
    i -= n_archs_of_mamba;
    if (i < n_archs_of_gemma)
        return &archs_of_gemma[i];
    i -= n_archs_of_gemma;
    if (i < n_archs_of_classic)
        return &archs_of_classic[i];
    i -= n_archs_of_classic;
    return i < n_archs_of_encoders ? &archs_of_encoders[i] : NULL;
}

/* "BertForSequenceClassification" of "BertModel", "Qwen3ForSequenceClassification" of
 * "Qwen3ForCausalLM": classes that have another head. */
static bool is_headed_class(const char *name, const struct arch *of)
{
    static const char *const heads[] = {CLASSIFIER_CLASS, "ForMaskedLM", "ForPreTraining"};
    size_t n = strlen(of->name) - strlen(of->encoder ? "Model" : "ForCausalLM");
    size_t n_heads = of->encoder ? ARRAY_LEN(heads) : 1;
    if ((!of->encoder && !of->score_head) || strncmp(name, of->name, n) != 0)
        return false;
    for (size_t i = 0; i < n_heads; i++)
        if (strcmp(name + n, heads[i]) == 0)
            return true;
    return false;
}

bool arch_is_classifier(const char *name)
{
    size_t n = strlen(name), m = strlen(CLASSIFIER_CLASS);
    return n > m && strcmp(name + n - m, CLASSIFIER_CLASS) == 0;
}

/* "Qwen3Model" of "Qwen3ForCausalLM": the class without a head, of which embedders are saved. */
static bool is_base_class(const char *name, const char *of)
{
    const char *head = strstr(of, "ForCausalLM");
    if (!head)
        head = strstr(of, "LMHeadModel");
    size_t n = head ? (size_t)(head - of) : 0;
    return n && strncmp(name, of, n) == 0 && strcmp(name + n, "Model") == 0;
}

const struct arch *arch_find(const char *name)
{
    const struct arch *a;
    for (size_t i = 0; (a = row_at(i)); i++)
        if (strcmp(a->name, name) == 0 || is_base_class(name, a->name) || is_headed_class(name, a))
            return a;
    return NULL;
}

const struct arch *arch_of_type(const char *model_type)
{
    const struct arch *a;
    for (size_t i = 0; (a = row_at(i)); i++)
        if (strcmp(a->model_type, model_type) == 0 ||
            (a->other_type && strcmp(a->other_type, model_type) == 0))
            return a;
    return NULL;
}

/* Multi-modal classes whose text part is served. */
static const char *const wrappers[] = {
    "Mistral3ForConditionalGeneration", "Gemma3ForConditionalGeneration",
    "Gemma3nForConditionalGeneration",  "Gemma4ForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",  "Qwen3_5MoeForConditionalGeneration",
    "Llama4ForConditionalGeneration"};

bool arch_is_wrapper(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(wrappers); i++)
        if (strcmp(wrappers[i], name) == 0)
            return true;
    return false;
}

static void add_name(char *out, const char *between, const char *name, size_t n)
{
    size_t len = strlen(out);
    snprintf(out + len, ARCH_NAMES_SIZE - len, "%s%.*s", between, (int)n, name);
}

/* "LlamaForCausalLM, likewise Mistral, Gemma; Gemma3ForConditionalGeneration, BertModel" */
const char *arch_names(char out[ARCH_NAMES_SIZE])
{
    static const char head[] = "ForCausalLM";
    const struct arch *a;
    snprintf(out, ARCH_NAMES_SIZE, "%s", archs[0].name);
    const char *between = ", likewise ";
    for (size_t i = 1; (a = row_at(i)); i++) {
        const char *end = strstr(a->name, head);
        if (!end)
            continue;
        add_name(out, between, a->name, (size_t)(end - a->name));
        between = ", ";
    }
    between = "; ";
    for (size_t i = 0; i < ARRAY_LEN(wrappers); i++, between = ", ")
        add_name(out, between, wrappers[i], strlen(wrappers[i]));
    for (size_t i = 0; (a = row_at(i)); i++)
        if (!strstr(a->name, head))
            add_name(out, between, a->name, strlen(a->name));
    return out;
}
