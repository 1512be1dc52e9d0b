/* The architectures that Ingot runs: their tensors' names and axes, their biases, and the reasons
 * for refusing others.  Called by the configuration readers and the weight loader. */
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

static const struct arch archs[] = {
    {.name = "LlamaForCausalLM",
     .model_type = "llama",
     .tensor = llama_tensors,
     .bias_option = true,
     .mlp_bias_option = true},
    {.name = "MistralForCausalLM",
     .model_type = "mistral",
     .tensor = llama_tensors,
     .window = WINDOW_ALL,
     .default_window = 4096},
    {.name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .tensor = llama_tensors,
     .qkv_bias = true,
     .window = WINDOW_BY_LAYER,
     .default_window = 4096},
    {.name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .tensor = llama_tensors,
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
     .norm_plus_one = true,
     .scale_embed = true,
     .tanh_gelu = true,
     .tied = true,
     .default_d_head = 256},
    {.name = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .tensor = gemma_tensors,
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
    {"Qwen3NextForCausalLM", "it has shared experts and linear attention"},
    {"DeepseekForCausalLM", "of DeepSeek's models those from V2 on are"},
    {"Gemma3nForCausalLM", "it has embeddings in each layer and several residual streams"},
    {"Gemma3nForConditionalGeneration",
     "it has embeddings in each layer and several residual streams"},
    {"Gemma4ForCausalLM", "its kinds of layers have heads of different sizes"},
    {"Gemma4ForConditionalGeneration", "its kinds of layers have heads of different sizes"},
    {"gemma3n", "it has embeddings in each layer and several residual streams"},
    {"gemma4", "its kinds of layers have heads of different sizes"},
    {"deepseek", "of DeepSeek's models those from V2 on are"},
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
    return i < n_archs_of_experts ? &archs_of_experts[i] : NULL;
}

/* "Qwen3Model" of "Qwen3ForCausalLM": the class without a head, of which embedders are saved. */
static bool is_base_class(const char *name, const char *of)
{
    const char *head = strstr(of, "ForCausalLM");
    size_t n = head ? (size_t)(head - of) : 0;
    return n && strncmp(name, of, n) == 0 && strcmp(name + n, "Model") == 0;
}

const struct arch *arch_find(const char *name)
{
    const struct arch *a;
    for (size_t i = 0; (a = row_at(i)); i++)
        if (strcmp(a->name, name) == 0 || is_base_class(name, a->name))
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

bool arch_is_wrapper(const char *name)
{
    static const char *const names[] = {"Mistral3ForConditionalGeneration",
                                        "Gemma3ForConditionalGeneration"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

const char *arch_names(void)
{
    return "LlamaForCausalLM, MistralForCausalLM, MinistralForCausalLM, Ministral3ForCausalLM, "
           "Qwen2ForCausalLM, "
           "Qwen3ForCausalLM, MixtralForCausalLM, Qwen3MoeForCausalLM, GemmaForCausalLM, "
           "Gemma2ForCausalLM, "
           "Gemma3ForCausalLM, Phi3ForCausalLM, Mistral3ForConditionalGeneration, "
           "Gemma3ForConditionalGeneration, SmolLM3ForCausalLM, GraniteForCausalLM, "
           "GraniteMoeForCausalLM, Glm4ForCausalLM, Exaone4ForCausalLM, Olmo2ForCausalLM, "
           "Olmo3ForCausalLM, OlmoeForCausalLM, CohereForCausalLM, Cohere2ForCausalLM, "
           "Starcoder2ForCausalLM, SeedOssForCausalLM, Ernie4_5ForCausalLM, "
           "Qwen2MoeForCausalLM, Glm4MoeForCausalLM, Glm4MoeLiteForCausalLM, Dots1ForCausalLM, "
           "MiniMaxM2ForCausalLM, DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, GptOssForCausalLM";
}

int32_t model_axis(const struct model_config *mc, enum axis ax)
{
    switch (ax) {
    case AX_ONE:
        return 1;
    case AX_HIDDEN:
        return mc->hidden;
    case AX_DHEAD:
        return mc->d_head;
    case AX_Q:
        return mc->n_q * mc->d_head;
    case AX_KV:
        return mc->n_kv * mc->d_head;
    case AX_FFN:
        return mc->ffn;
    case AX_VOCAB:
        return mc->vocab;
    case AX_EXPERTS:
        return mc->n_experts;
    case AX_EXPERT_FFN:
        return mc->expert_ffn;
    case AX_SHARED_FFN:
        return mc->shared_ffn;
    case AX_HEADS:
        return mc->n_q;
    case AX_QUERY:
        return mc->n_q * (mc->d_nope + mc->d_rope);
    case AX_VALUES:
        return mc->n_q * mc->d_value;
    case AX_Q_RANK:
        return mc->q_rank;
    case AX_KV_RANK:
        return mc->kv_rank;
    case AX_LATENT:
        return mc->kv_rank + mc->d_rope;
    case AX_NOPE:
        return mc->d_nope;
    case AX_VALUE:
        return mc->d_value;
    case AX_ROW:
    case AX_FLAT_ROW:
        return 1;
    }
    return 0;
}

int32_t model_n_sparse(const struct model_config *mc)
{
    int32_t n = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n += mc->sparse[i];
    return n;
}

static bool of_experts(enum tensor_id id)
{
    return id >= TN_ROUTER && id <= TN_SHARED_SCALE;
}

static bool of_shared_expert(enum tensor_id id)
{
    return id >= TN_SHARED_GATE && id <= TN_SHARED_SCALE;
}

static bool of_dense_ffn(enum tensor_id id)
{
    return id == TN_GATE || id == TN_UP || id == TN_DOWN;
}

bool model_layer_has(const struct model_config *mc, enum tensor_id id, int32_t layer)
{
    if ((of_experts(id) || of_dense_ffn(id)) && mc->sparse[layer] != of_experts(id))
        return false;
    return model_has(mc, id);
}

bool model_has(const struct model_config *mc, enum tensor_id id)
{
    if (!mc->arch->tensor[id].name)
        return false;
    if (of_shared_expert(id) && !mc->shared_ffn)
        return false;
    if (of_experts(id))
        return model_n_sparse(mc) > 0;
    if (of_dense_ffn(id))
        return model_n_sparse(mc) < mc->n_layers;
    if (id == TN_HEAD)
        return !mc->tied && !mc->headless;
    if (id == TN_Q_NORM || id == TN_K_NORM)
        return mc->qk_norm;
    if (id == TN_SINKS)
        return mc->arch->sinks;
    if (id == TN_Q)
        return mc->kv_rank == 0 || mc->q_rank == 0;
    if (id == TN_Q_A || id == TN_Q_A_NORM || id == TN_Q_B)
        return mc->q_rank > 0;
    return true;
}

bool model_has_bias(const struct model_config *mc, enum tensor_id id)
{
    if (!mc->arch->tensor[id].bias)
        return false;
    switch (id) {
    case TN_Q:
    case TN_K:
    case TN_V:
    case TN_Q_A:
    case TN_KV_A:
        return mc->qkv_bias;
    case TN_O:
        return mc->o_bias;
    case TN_GATE:
    case TN_UP:
    case TN_DOWN:
        return mc->mlp_bias;
    case TN_ROUTER:
    case TN_EXPERT_GATE:
    case TN_EXPERT_UP:
    case TN_EXPERT_DOWN:
        return mc->arch->expert_bias;
    case TN_ATTN_NORM:
    case TN_FFN_NORM:
    case TN_FINAL_NORM:
        return mc->arch->norm_bias;
    default:
        return false;
    }
}

int32_t model_fused_rows(const struct model_config *mc, enum tensor_id id, int32_t *first)
{
    int32_t q = model_axis(mc, AX_Q), kv = model_axis(mc, AX_KV);
    int32_t own = model_axis(mc, mc->arch->tensor[id].rows);
    *first = 0;
    switch (mc->arch->tensor[id].fused) {
    case FUSED_QKV:
        *first = id == TN_K ? q : id == TN_V ? q + kv : 0;
        return q + 2 * kv;
    case FUSED_GATE_UP:
        *first = id == TN_UP || id == TN_EXPERT_UP ? own : 0;
        return 2 * own;
    case TRANSPOSED_PAIRS:
        *first = id == TN_EXPERT_UP;
        return 2 * own;
    case FUSED_KV_B:
        return mc->n_q * (mc->d_nope + mc->d_value);
    case TRANSPOSED:
    case EACH_HEAD:
    case FUSED_NO:
        break;
    }
    return own;
}

int32_t model_n_out(const struct model_config *mc)
{
    return mc->arch->parallel || mc->shared_ffn ? 2 : 1;
}

const struct rope_config *model_rope(const struct model_config *mc, int32_t layer)
{
    return mc->arch->local_rope && mc->windowed[layer] ? &mc->local_rope : &mc->rope;
}

int32_t model_window(const struct model_config *mc, int32_t layer)
{
    return mc->windowed[layer] ? mc->window : 0;
}

const char *rope_type_name(enum rope_type t)
{
    static const char *const names[] = {"default", "linear",   "llama3",
                                        "yarn",    "longrope", "divisors"};
    return names[t];
}
