/* config.json of an encoder (BERT, RoBERTa; config_modernbert.c has the sizes of ModernBERT).  A key that is neither read
 * nor known to change nothing is refused.  Called by model_config.c. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* Keys that are read, with harmless NULL; then those of which only one value changes nothing. */
struct key_row {
    const char *key, *harmless; /* JSON text */
};

/* Of ModernBERT beside those of all. */
static const struct key_row modern_keys[] = {
    {"hidden_activation", NULL},     {"norm_eps", NULL},
    {"attention_bias", NULL},        {"mlp_bias", NULL},
    {"layer_types", NULL},           {"global_attn_every_n_layers", NULL},
    {"local_attention", NULL},       {"global_rope_theta", NULL},
    {"local_rope_theta", NULL},      {"rope_parameters", NULL},
    {"rope_scaling", NULL},          {"classifier_pooling", NULL},
    {"classifier_activation", NULL}, {"classifier_bias", NULL},
    {"norm_bias", "false"},
};

/* Of MPNet: its class divides distances into so many buckets, whatever the table has. */
static const struct key_row mpnet_keys[] = {{"relative_attention_num_buckets", "32"}};

static const struct key_row keys[] = {
    {"architectures", NULL},
    {"model_type", NULL},
    {"is_matryoshka", NULL},         /* sentence_modules.c */
    {"matryoshka_dimensions", NULL}, /* sentence_modules.c */
    {"hidden_size", NULL},
    {"intermediate_size", NULL},
    {"num_hidden_layers", NULL},
    {"num_attention_heads", NULL},
    {"vocab_size", NULL},
    {"max_position_embeddings", NULL},
    {"type_vocab_size", NULL},
    {"layer_norm_eps", NULL},
    {"hidden_act", NULL},
    {"torch_dtype", NULL},
    {"dtype", NULL},
    {"bos_token_id", NULL},
    {"eos_token_id", NULL},
    {"id2label", NULL},
    {"label2id", NULL},
    {"num_labels", NULL},
    {"sentence_transformers", NULL}, /* cross_encoder.c */
    {"sbert_ce_default_activation_function", NULL},
    {"position_embedding_type", "\"absolute\""},
    {"is_decoder", "false"},
    {"add_cross_attention", "false"},
    {"is_encoder_decoder", "false"},
    {"pruned_heads", "{}"},
    {"chunk_size_feed_forward", "0"},
    {"cross_attention_hidden_size", "null"},
    {"tie_encoder_decoder", "false"},
};

/* Those of training, of generation and of other software say nothing about a text's states. */
static const char *const ignored[] = {
    "_name_or_path",
    "name_or_path",
    "transformers_version",
    "transformers.js_config",
    "_commit_hash",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "attention_probs_dropout_prob",
    "hidden_dropout_prob",
    "classifier_dropout",
    "initializer_range",
    "initializer_factor",
    "gradient_checkpointing",
    "use_cache",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "cls_token_id",
    "tie_word_embeddings",
    "tokenizer_class",
    "problem_type",
    "finetuning_task",
    "task_specific_params",
    "output_past",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "torchscript",
    "directionality", /* the names of a classifier that Google's first files had */
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "attention_dropout", /* ModernBERT's: of training, of its head for it, and of one implementation */
    "embedding_dropout",
    "mlp_dropout",
    "initializer_cutoff_factor",
    "decoder_bias",
    "sparse_prediction",
    "sparse_pred_ignore_index",
    "deterministic_flash_attn",
    "reference_compile",
    "repad_logits_with_grad",
};

static bool is_ignored(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        if (strcmp(ignored[i], key) == 0)
            return true;
    return false;
}

static bool is_row(const struct key_row *row, size_t n, const char *key, const char *value)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(row[i].key, key) == 0 &&
            (!row[i].harmless || strcmp(row[i].harmless, value) == 0))
            return true;
    return false;
}

static enum status check_key(const cJSON *item, const struct arch *arch)
{
    char value[80];
    if (cJSON_IsNull(item) || is_ignored(item->string))
        return ST_OK;
    if (!cJSON_PrintPreallocated((cJSON *)item, value, sizeof value, false))
        memcpy(value, "...", 4);
    bool modern = arch->encoder->pre_norm;
    bool distances = arch->tensor[TN_REL_BIAS].name != NULL;
    if (is_row(keys, ARRAY_LEN(keys), item->string, value) ||
        (distances && is_row(mpnet_keys, ARRAY_LEN(mpnet_keys), item->string, value)) ||
        (modern && is_row(modern_keys, ARRAY_LEN(modern_keys), item->string, value)))
        return ST_OK;
    FAIL(ST_UNSUPPORTED, "%.100s = %s is not understood for %s, and it may change the result",
         item->string, value, arch->name);
}

static enum status read_sizes(struct model_config *mc, const cJSON *root)
{
    static const char *const needed[] = {"hidden_size",       "intermediate_size",
                                         "num_hidden_layers", "num_attention_heads",
                                         "vocab_size",        "max_position_embeddings"};
    const int32_t big = 1 << 24;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(json_need(root, needed[i]));
    TRY(json_i32(root, "hidden_size", 1, big, &mc->hidden));
    TRY(json_i32(root, "intermediate_size", 1, big, &mc->ffn));
    TRY(json_i32(root, "num_hidden_layers", 1, MAX_LAYERS, &mc->n_layers));
    TRY(json_i32(root, "vocab_size", 1, big, &mc->vocab));
    TRY(json_i32(root, "num_attention_heads", 1, 1 << 16, &mc->n_q));
    mc->n_kv = mc->n_q;
    if (mc->hidden % mc->n_q)
        FAIL(ST_RANGE, "hidden_size %d is no multiple of num_attention_heads %d", mc->hidden,
             mc->n_q);
    mc->d_head = mc->hidden / mc->n_q;
    return ST_OK;
}

static enum status read_tables(struct model_config *mc, const cJSON *root)
{
    const struct encoder *e = mc->arch->encoder;
    int32_t most = 1 << 20;
    if (mc->arch->tensor[TN_TYPES].name) {
        mc->n_types = 2;
        TRY(json_i32(root, "type_vocab_size", 1, 64, &mc->n_types));
    }
    if (e->after_padding) {
        mc->pad_id = 1; /* transformers' default */
        if (!e->pad_is_1)
            TRY(json_i32(root, "pad_token_id", 0, most, &mc->pad_id));
        mc->first_position = mc->pad_id + 1;
    }
    TRY(json_i32(root, "max_position_embeddings", mc->pad_id + 2, most, &mc->n_positions));
    mc->max_ctx = mc->n_positions - mc->pad_id;
    if (model_n_tokens(mc) > INT32_MAX)
        FAIL(ST_RANGE, "%d types of %d tokens are too many", mc->n_types, mc->vocab);
    return ST_OK;
}

static enum status read_act(struct model_config *mc, const cJSON *root)
{
    const char *name = "gelu",
               *key = mc->arch->encoder->pre_norm ? "hidden_activation" : "hidden_act";
    TRY(json_string(root, key, &name));
    if (strcmp(name, "gelu") == 0)
        mc->act = MODEL_GELU;
    else if (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0)
        mc->act = MODEL_GELU_TANH;
    else
        FAIL(ST_UNSUPPORTED,
             "%s \"%.40s\" is not supported (gelu, gelu_new and gelu_pytorch_tanh are)", key, name);
    return ST_OK;
}

enum status config_encoder_read(struct model_config *mc, const cJSON *root)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, root) TRY(check_key(item, mc->arch));
    mc->headless = true;
    TRY(read_act(mc, root));
    if (mc->arch->encoder->pre_norm)
        return config_modernbert_read(mc, root);
    TRY(read_sizes(mc, root));
    TRY(read_tables(mc, root));
    TRY(json_double(root, "layer_norm_eps", 0, 1, &mc->eps));
    mc->head_bias = true;
    mc->qkv_bias = mc->o_bias = mc->mlp_bias = true;
    return config_labels_read(mc, root);
}
