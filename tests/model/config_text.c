#include "config_text.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "rig.h"

const char *config_base(const char *arch)
{
    static char text[800];
    const char *type = strstr(arch, "GptOss")        ? "gpt_oss"
                       : strstr(arch, "Qwen2Moe")    ? "qwen2_moe"
                       : strstr(arch, "Glm4MoeLite") ? "glm4_moe_lite"
                       : strstr(arch, "Glm4Moe")     ? "glm4_moe"
                       : strstr(arch, "Dots1")       ? "dots1"
                       : strstr(arch, "MiniMax")     ? "minimax_m2"
                       : strstr(arch, "SeedOss")     ? "seed_oss"
                       : strstr(arch, "Ernie4_5")    ? "ernie4_5"
                       : strstr(arch, "Olmo3")       ? "olmo3"
                       : strstr(arch, "Olmoe")       ? "olmoe"
                       : strstr(arch, "Cohere2")     ? "cohere2"
                       : strstr(arch, "Starcoder2")  ? "starcoder2"
                       : strstr(arch, "Gemma2")      ? "gemma2"
                       : strstr(arch, "Gemma3n")     ? "gemma3n_text"
                       : strstr(arch, "Gemma3")      ? "gemma3_text"
                       : strstr(arch, "Gemma4")      ? "gemma4_text"
                       : strstr(arch, "Phi3")        ? "phi3"
                       : strstr(arch, "SmolLM3")     ? "smollm3"
                       : strstr(arch, GRANITE4)      ? "granitemoehybrid"
                       : strstr(arch, FALCONH1)      ? "falcon_h1"
                       : strstr(arch, BAMBA)         ? "bamba"
                       : strstr(arch, NEMOTRONH)     ? "nemotron_h"
                       : strstr(arch, "GraniteMoe")  ? "granitemoe"
                       : strstr(arch, "Granite")     ? "granite"
                       : strstr(arch, "Glm4")        ? "glm4"
                       : strstr(arch, "Exaone4")     ? "exaone4"
                       : strstr(arch, "Ministral3")  ? "ministral3"
                       : strstr(arch, LLAMA4)        ? "llama4_text"
                       : strstr(arch, "Llama")       ? "llama"
                       : strstr(arch, "Mistral")     ? "mistral"
                       : strstr(arch, "Mixtral")     ? "mixtral"
                       : strstr(arch, "Qwen3Moe")    ? "qwen3_moe"
                       : strstr(arch, "Qwen2")       ? "qwen2"
                                                     : "qwen3";
    const char *experts =
        strstr(arch, "GptOss") ? ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                                 "\"rope_parameters\":{\"rope_type\":\"default\","
                                 "\"rope_theta\":150000}"
        : strstr(arch, "Gemma4")
            ? ",\"head_dim\":16,\"hidden_size_per_layer_input\":0,\"rope_parameters\":{"
              "\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6,"
              "\"partial_rotary_factor\":0.25},\"sliding_attention\":{\"rope_type\":"
              "\"default\",\"rope_theta\":1e4}}"
        : strstr(arch, "Gemma3n")
            ? ",\"head_dim\":16,\"vocab_size_per_layer_input\":90,\"num_kv_shared_layers\":0"
        : strstr(arch, BAMBA)
            ? ",\"mamba_n_heads\":8,\"mamba_d_state\":16,\"attn_layer_indices\":[1]"
        : strstr(arch, NEMOTRONH)
            ? ",\"hybrid_override_pattern\":\"ME*-\",\"head_dim\":16,\"mamba_num_heads\":8,"
              "\"mamba_head_dim\":8,\"n_groups\":2,\"ssm_state_size\":16,"
              "\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,"
              "\"moe_shared_expert_intermediate_size\":40"
        : strstr(arch, FALCONH1)
            ? ",\"mamba_d_ssm\":64,\"mamba_n_heads\":8,\"mamba_d_head\":8,\"mamba_d_state\":16"
        : strstr(arch, GRANITE4)
            ? ",\"num_local_experts\":4,\"num_experts_per_tok\":2,\"shared_intermediate_size\":40,"
              "\"mamba_n_heads\":8,\"mamba_d_state\":16,\"layer_types\":[\"mamba\",\"mamba\","
              "\"mamba\","
              "\"attention\"]"
        : strstr(arch, "Qwen2Moe") ? ",\"num_experts\":8,\"num_experts_per_tok\":2,"
                                     "\"moe_intermediate_size\":24,"
                                     "\"shared_expert_intermediate_size\":40"
        : strstr(arch, "MiniMax")  ? ",\"num_local_experts\":8,\"num_experts_per_tok\":2"
        : strstr(arch, "Dots1")
            ? ",\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,"
              "\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"n_group\":1,\"topk_group\":1,"
              "\"norm_topk_prob\":true,\"routed_scaling_factor\":2"
        : strstr(arch, "Glm4MoeLite")
            ? ",\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,"
              "\"num_key_value_heads\":4,\"kv_lora_rank\":16,\"q_lora_rank\":null,"
              "\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":4,\"v_head_dim\":8,"
              "\"routed_scaling_factor\":1.8"
        : strstr(arch, "Glm4Moe")  ? ",\"n_routed_experts\":8,"
                                     "\"num_experts_per_tok\":2,"
                                     "\"moe_intermediate_size\":24"
        : strstr(arch, LLAMA4)     ? ",\"num_local_experts\":8,\"num_experts_per_tok\":2,"
                                     "\"intermediate_size_mlp\":160,"
                                     "\"interleave_moe_layer_step\":2"
        : strstr(arch, "Olmoe")    ? ",\"num_experts\":8,\"num_experts_per_tok\":2"
        : strstr(arch, "Qwen3Moe") ? ",\"num_experts\":8,\"num_experts_per_tok\":2,"
                                     "\"moe_intermediate_size\":24"
        : strstr(arch, "Mixtral")  ? ",\"num_local_experts\":4,\"num_experts_per_tok\":2"
                                   : "";
    snprintf(text, sizeof text,
             "{\"architectures\":[\"%s\"],\"model_type\":\"%s\",\"hidden_size\":64,"
             "\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
             "%s\"vocab_size\":100,\"max_position_embeddings\":128,"
             "%s%s%s}",
             arch, type, strstr(arch, "Glm4MoeLite") ? "" : "\"num_key_value_heads\":2,",
             strstr(arch, "Cohere2") || strstr(arch, "Starcoder2") ? "" : "\"rms_norm_eps\":1e-05,",
             strstr(arch, "Gemma4")    ? "\"hidden_activation\":\"gelu_pytorch_tanh\""
             : strstr(arch, NEMOTRONH) ? "\"mlp_hidden_act\":\"relu2\""
                                       : "\"hidden_act\":\"silu\"",
             experts);
    return text;
}

enum status config_parse(const char *arch, const char *more, const char *generation,
                         struct model_config *mc)
{
    cJSON *root = cJSON_Parse(config_base(arch)), *patch = cJSON_Parse(more);
    cr_assert_not_null(patch, "%s", more);
    for (cJSON *c = patch->child, *next; c; c = next) {
        next = c->next;
        cJSON_DeleteItemFromObjectCaseSensitive(root, c->string);
        if (!cJSON_IsString(c) || strcmp(c->valuestring, "-") != 0)
            cJSON_AddItemToObject(root, c->string, cJSON_Duplicate(c, true));
    }
    char *text = cJSON_PrintUnformatted(root);
    struct guarded g = guard_copy(text, strlen(text));
    struct guarded gen = guard_copy(generation, generation ? strlen(generation) : 0);
    enum status st = model_config_parse(mc, g.data, g.len, generation ? gen.data : NULL, gen.len);
    guard_free(&g);
    guard_free(&gen);
    free(text);
    cJSON_Delete(root);
    cJSON_Delete(patch);
    return st;
}

struct model_config config_good(const char *arch, const char *more)
{
    struct model_config mc;
    must(config_parse(arch, more, NULL, &mc), more);
    return mc;
}
