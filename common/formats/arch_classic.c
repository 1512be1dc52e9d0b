/* The first decoders with layer norms and biases (GPT-2, GPT-NeoX, OPT): their tensors' names and axes as HuggingFace
 * repositories have them, without the prefix that some files have, and the names of their keys in config.json. */
#include "common/formats/arch_table.h"

/* A matrix with its bias; a norm with its bias. */
#define MATRIX(n, rows, cols, fused)                                                               \
    {                                                                                              \
        n ".weight", n ".bias", rows, cols, fused                                                  \
    }
#define NORM(n)                                                                                    \
    {                                                                                              \
        n ".weight", n ".bias", AX_ONE, AX_HIDDEN, FUSED_NO                                        \
    }

/* Matrices are those of OpenAI's "Conv1D", which maps rows to columns. */
static const struct tensor_rule gpt2_tensors[TN_N] = {
    [TN_EMBED] = {"wte.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_POSITIONS] = {"wpe.weight", NULL, AX_POSITIONS, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = NORM("h.#.ln_1"),
    [TN_Q] = MATRIX("h.#.attn.c_attn", AX_Q, AX_HIDDEN, TRANSPOSED_QKV),
    [TN_K] = MATRIX("h.#.attn.c_attn", AX_KV, AX_HIDDEN, TRANSPOSED_QKV),
    [TN_V] = MATRIX("h.#.attn.c_attn", AX_KV, AX_HIDDEN, TRANSPOSED_QKV),
    [TN_O] = MATRIX("h.#.attn.c_proj", AX_HIDDEN, AX_Q, TRANSPOSED),
    [TN_FFN_NORM] = NORM("h.#.ln_2"),
    [TN_UP] = MATRIX("h.#.mlp.c_fc", AX_FFN, AX_HIDDEN, TRANSPOSED),
    [TN_DOWN] = MATRIX("h.#.mlp.c_proj", AX_HIDDEN, AX_FFN, TRANSPOSED),
    [TN_FINAL_NORM] = NORM("ln_f"),
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

static const struct config_names gpt2_names = {.hidden = "n_embd",
                                               .ffn = "n_inner",
                                               .layers = "n_layer",
                                               .heads = "n_head",
                                               .positions = "n_positions",
                                               .act = "activation_function",
                                               .eps = "layer_norm_epsilon",
                                               .act_default = "gelu_new",
                                               .ffn_default = 4};

#define N "layers.#."

static const struct tensor_rule neox_tensors[TN_N] = {
    [TN_EMBED] = {"embed_in.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = NORM(N "input_layernorm"),
    [TN_Q] = MATRIX(N "attention.query_key_value", AX_Q, AX_HIDDEN, FUSED_HEADS),
    [TN_K] = MATRIX(N "attention.query_key_value", AX_KV, AX_HIDDEN, FUSED_HEADS),
    [TN_V] = MATRIX(N "attention.query_key_value", AX_KV, AX_HIDDEN, FUSED_HEADS),
    [TN_O] = MATRIX(N "attention.dense", AX_HIDDEN, AX_Q, FUSED_NO),
    [TN_FFN_NORM] = NORM(N "post_attention_layernorm"),
    [TN_UP] = MATRIX(N "mlp.dense_h_to_4h", AX_FFN, AX_HIDDEN, FUSED_NO),
    [TN_DOWN] = MATRIX(N "mlp.dense_4h_to_h", AX_HIDDEN, AX_FFN, FUSED_NO),
    [TN_FINAL_NORM] = NORM("final_layer_norm"),
    [TN_HEAD] = {"embed_out.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

static const struct config_names neox_names = {.hidden = "hidden_size",
                                               .ffn = "intermediate_size",
                                               .layers = "num_hidden_layers",
                                               .heads = "num_attention_heads",
                                               .positions = "max_position_embeddings",
                                               .act = "hidden_act",
                                               .eps = "layer_norm_eps",
                                               .act_default = "gelu"};

#define O "decoder.layers.#."

static const struct tensor_rule opt_tensors[TN_N] = {
    [TN_EMBED] = {"decoder.embed_tokens.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_POSITIONS] = {"decoder.embed_positions.weight", NULL, AX_POSITIONS, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = NORM(O "self_attn_layer_norm"),
    [TN_Q] = MATRIX(O "self_attn.q_proj", AX_Q, AX_HIDDEN, FUSED_NO),
    [TN_K] = MATRIX(O "self_attn.k_proj", AX_KV, AX_HIDDEN, FUSED_NO),
    [TN_V] = MATRIX(O "self_attn.v_proj", AX_KV, AX_HIDDEN, FUSED_NO),
    [TN_O] = MATRIX(O "self_attn.out_proj", AX_HIDDEN, AX_Q, FUSED_NO),
    [TN_FFN_NORM] = NORM(O "final_layer_norm"),
    [TN_UP] = MATRIX(O "fc1", AX_FFN, AX_HIDDEN, FUSED_NO),
    [TN_DOWN] = MATRIX(O "fc2", AX_HIDDEN, AX_FFN, FUSED_NO),
    [TN_FINAL_NORM] = NORM("decoder.final_layer_norm"),
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

static const struct config_names opt_names = {.hidden = "hidden_size",
                                              .ffn = "ffn_dim",
                                              .layers = "num_hidden_layers",
                                              .heads = "num_attention_heads",
                                              .positions = "max_position_embeddings",
                                              .act = "activation_function",
                                              .embed = "word_embed_proj_dim",
                                              .act_default = "relu"};

const struct arch archs_of_classic[] = {
    {.name = "GPT2LMHeadModel",
     .model_type = "gpt2",
     .tensor = gpt2_tensors,
     .names = &gpt2_names,
     .prefix = "transformer.",
     .layer_norm = true,
     .norm_bias = true,
     .masks = true,
     .attention_bias = true,
     .mlp_bias = true,
     .tied = true,
     .default_eps = 1e-5},
    {.name = "GPTNeoXForCausalLM",
     .model_type = "gpt_neox",
     .tensor = neox_tensors,
     .names = &neox_names,
     .prefix = "gpt_neox.",
     .layer_norm = true,
     .norm_bias = true,
     .parallel = true,
     .parallel_option = true,
     .masks = true,
     .rotary_pct = true,
     .partial_rotary = true,
     .bias_option = true,
     .attention_bias = true,
     .mlp_bias = true,
     .default_partial = 0.25,
     .default_eps = 1e-5},
    {.name = "OPTForCausalLM",
     .model_type = "opt",
     .tensor = opt_tensors,
     .names = &opt_names,
     .prefix = "model.",
     .layer_norm = true,
     .norm_bias = true,
     .attention_bias = true,
     .mlp_bias = true,
     .tied = true,
     .default_eps = 1e-5,  /* of torch.nn.LayerNorm: config.json does not say it */
     .first_position = 2}, /* transformers' OPTLearnedPositionalEmbedding */
};
const size_t n_archs_of_classic = ARRAY_LEN(archs_of_classic);
