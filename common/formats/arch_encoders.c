/* The encoders: their tensors' names and axes as HuggingFace repositories have them, without the
 * prefix of classes with a head. */
#include "common/formats/arch_table.h"

#define E "encoder.layer.#."

/* A matrix with its bias, a norm with its bias. */
#define MATRIX(n, rows, cols)                                                                      \
    {                                                                                              \
        n ".weight", n ".bias", rows, cols, FUSED_NO                                               \
    }
#define NORM(n)                                                                                    \
    {                                                                                              \
        n ".weight", n ".bias", AX_ONE, AX_HIDDEN, FUSED_NO                                        \
    }

/* Norms are behind the sums: TN_ATTN_NORM is of what attention gives and its input. */
static const struct tensor_rule bert_tensors[TN_N] = {
    [TN_EMBED] = {"embeddings.word_embeddings.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_TYPES] = {"embeddings.token_type_embeddings.weight", NULL, AX_TYPES, AX_HIDDEN, FUSED_NO},
    [TN_POSITIONS] = {"embeddings.position_embeddings.weight", NULL, AX_POSITIONS, AX_HIDDEN,
                      FUSED_NO},
    [TN_EMBED_NORM] = NORM("embeddings.LayerNorm"),
    [TN_Q] = MATRIX(E "attention.self.query", AX_Q, AX_HIDDEN),
    [TN_K] = MATRIX(E "attention.self.key", AX_KV, AX_HIDDEN),
    [TN_V] = MATRIX(E "attention.self.value", AX_KV, AX_HIDDEN),
    [TN_O] = MATRIX(E "attention.output.dense", AX_HIDDEN, AX_Q),
    [TN_ATTN_NORM] = NORM(E "attention.output.LayerNorm"),
    [TN_UP] = MATRIX(E "intermediate.dense", AX_FFN, AX_HIDDEN),
    [TN_DOWN] = MATRIX(E "output.dense", AX_HIDDEN, AX_FFN),
    [TN_FFN_NORM] = NORM(E "output.LayerNorm"),
};

/* Heads of other tasks, and buffers that old versions saved. */
static const char *const bert_unused[] = {"cls.", "pooler.", "embeddings.position_ids", NULL};

static const struct encoder bert = {.head = {"pooler.dense", "classifier"}, .unused = bert_unused};

static const char *const roberta_unused[] = {"lm_head.", "pooler.", "embeddings.position_ids",
                                             NULL};

static const struct encoder roberta = {.head = {"classifier.dense", "classifier.out_proj"},
                                       .unused = roberta_unused,
                                       .after_padding = true};

/* Positions are added to the embedding, and distances to the scores. */
static const struct tensor_rule mpnet_tensors[TN_N] = {
    [TN_EMBED] = {"embeddings.word_embeddings.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_POSITIONS] = {"embeddings.position_embeddings.weight", NULL, AX_POSITIONS, AX_HIDDEN,
                      FUSED_NO},
    [TN_REL_BIAS] = {"encoder.relative_attention_bias.weight", NULL, AX_BUCKETS, AX_HEADS,
                     FUSED_NO},
    [TN_EMBED_NORM] = NORM("embeddings.LayerNorm"),
    [TN_Q] = MATRIX(E "attention.attn.q", AX_Q, AX_HIDDEN),
    [TN_K] = MATRIX(E "attention.attn.k", AX_KV, AX_HIDDEN),
    [TN_V] = MATRIX(E "attention.attn.v", AX_KV, AX_HIDDEN),
    [TN_O] = MATRIX(E "attention.attn.o", AX_HIDDEN, AX_Q),
    [TN_ATTN_NORM] = NORM(E "attention.LayerNorm"),
    [TN_UP] = MATRIX(E "intermediate.dense", AX_FFN, AX_HIDDEN),
    [TN_DOWN] = MATRIX(E "output.dense", AX_HIDDEN, AX_FFN),
    [TN_FFN_NORM] = NORM(E "output.LayerNorm"),
};

static const struct encoder mpnet = {.head = {"classifier.dense", "classifier.out_proj"},
                                     .unused = roberta_unused,
                                     .pad_is_1 = true,
                                     .after_padding = true};

#define M "layers.#."

/* The activation is of the first half of Wi. */
static const struct tensor_rule modern_tensors[TN_N] = {
    [TN_EMBED] = {"embeddings.tok_embeddings.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_EMBED_NORM] = NORM("embeddings.norm"),
    [TN_ATTN_NORM] = NORM(M "attn_norm"),
    [TN_Q] = {M "attn.Wqkv.weight", M "attn.Wqkv.bias", AX_Q, AX_HIDDEN, FUSED_QKV},
    [TN_K] = {M "attn.Wqkv.weight", M "attn.Wqkv.bias", AX_KV, AX_HIDDEN, FUSED_QKV},
    [TN_V] = {M "attn.Wqkv.weight", M "attn.Wqkv.bias", AX_KV, AX_HIDDEN, FUSED_QKV},
    [TN_O] = MATRIX(M "attn.Wo", AX_HIDDEN, AX_Q),
    [TN_FFN_NORM] = NORM(M "mlp_norm"),
    [TN_GATE] = {M "mlp.Wi.weight", M "mlp.Wi.bias", AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_UP] = {M "mlp.Wi.weight", M "mlp.Wi.bias", AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_DOWN] = MATRIX(M "mlp.Wo", AX_HIDDEN, AX_FFN),
    [TN_FINAL_NORM] = NORM("final_norm"),
};

static const char *const modern_unused[] = {"head.", "decoder.", NULL};

static const struct encoder modern = {.head = {"head.dense", "classifier"},
                                      .head_norm = "head.norm",
                                      .unused = modern_unused,
                                      .pre_norm = true};

const struct arch archs_of_encoders[] = {
    {.name = "ModernBertModel",
     .model_type = "modernbert",
     .tensor = modern_tensors,
     .encoder = &modern,
     .prefix = "model.",
     .layer_norm = true,
     .local_rope = true,
     .default_theta = 160000,
     .default_local_theta = 10000,
     .default_eps = 1e-5},
    {.name = "BertModel",
     .model_type = "bert",
     .tensor = bert_tensors,
     .encoder = &bert,
     .prefix = "bert.",
     .layer_norm = true,
     .norm_bias = true,
     .default_eps = 1e-12},
    {.name = "RobertaModel",
     .model_type = "roberta",
     .tensor = bert_tensors,
     .encoder = &roberta,
     .prefix = "roberta.",
     .layer_norm = true,
     .norm_bias = true,
     .default_eps = 1e-12},
    {.name = "MPNetModel",
     .model_type = "mpnet",
     .tensor = mpnet_tensors,
     .encoder = &mpnet,
     .prefix = "mpnet.",
     .layer_norm = true,
     .norm_bias = true,
     .default_eps = 1e-12},
    {.name = "XLMRobertaModel",
     .model_type = "xlm-roberta",
     .tensor = bert_tensors,
     .encoder = &roberta,
     .prefix = "roberta.",
     .layer_norm = true,
     .norm_bias = true,
     .default_eps = 1e-12},
};
const size_t n_archs_of_encoders = ARRAY_LEN(archs_of_encoders);
