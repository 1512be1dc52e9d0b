/* Parts of the readers of config.json and of GGUF metadata; private to this folder. */
#ifndef COMMON_FORMATS_CONFIG_JSON_H
#define COMMON_FORMATS_CONFIG_JSON_H

#include "common/formats/model_config.h"

struct cJSON;

enum { MAX_CONFIG = 4 << 20 }; /* bytes of config.json */

/* Every key must be read by this architecture's reader, be known to change nothing, or have a value
 * that changes nothing.  ST_UNSUPPORTED names the key and its value. */
MUST_CHECK enum status config_keys_check(const struct cJSON *root, const struct arch *arch);

/* The same for the keys of a multi-modal model beside its text_config. */
MUST_CHECK enum status config_wrapper_check(const struct cJSON *root, const char *arch);

/* What the architecture's class calls its keys; of the norms' epsilon, NULL: it is not said. */
const struct config_names *config_names_of(const struct arch *arch);
const char *config_eps_name(const struct arch *arch);
bool config_is_named(const char *key, const struct arch *arch);

/* rope_theta and rope_scaling, or rope_parameters; needs arch, d_head and max_ctx of mc. */
MUST_CHECK enum status config_rope_read(struct model_config *mc, const struct cJSON *root);

/* num_experts and the keys that go with it, for the architectures that have experts. */
MUST_CHECK enum status config_experts_read(struct model_config *mc, const struct cJSON *root);

/* Latent attention: the sizes, needs n_q and n_kv; then the factor on q k, needs rope.  The two
 * without status are for readers of other formats: n_kv and d_head from the other sizes; the factor,
 * mscale_all 0: YaRN changes nothing. */
MUST_CHECK enum status config_latent_read(struct model_config *mc, const struct cJSON *root);
MUST_CHECK enum status config_latent_scale(struct model_config *mc, const struct cJSON *root);
void config_latent_sizes(struct model_config *mc);
void config_latent_attn_scale(struct model_config *mc, double mscale_all);

/* Of a class with a head for classification: n_labels. */
MUST_CHECK enum status config_labels_read(struct model_config *mc, const struct cJSON *root);

/* The configuration of an encoder, all of it but arch, classifier and dtype. */
MUST_CHECK enum status config_encoder_read(struct model_config *mc, const struct cJSON *root);
/* Its part for ModernBERT: all but the activation and what encoders share. */
MUST_CHECK enum status config_modernbert_read(struct model_config *mc, const struct cJSON *root);

/* Layers of gated delta nets: which, and their sizes; for the architectures that have them. */
/* Bounds of the sizes of gated delta-net layers, and the bound of what they make together. */
enum { DELTA_HEADS = 1 << 12, DELTA_HEAD = 1 << 10, DELTA_TAPS = 16, DELTA_STATE = 1 << 26 };
MUST_CHECK enum status config_delta_check(const struct model_config *mc);
MUST_CHECK enum status config_delta_read(struct model_config *mc, const struct cJSON *root);
/* Of arch->one_part (Nemotron-H): n_layers and what each of them is; then, of the experts, all but the numbers that
 * num_experts and num_experts_per_tok say; then the keys that must agree with others, needs eps and d_head. */
MUST_CHECK enum status config_blocks_read(struct model_config *mc, const struct cJSON *root);
MUST_CHECK enum status config_blocks_experts(struct model_config *mc, const struct cJSON *root);
MUST_CHECK enum status config_blocks_check(const struct model_config *mc, const struct cJSON *root);
/* The same of Mamba-2, and which layers have RoPE. */
MUST_CHECK enum status config_mamba_read(struct model_config *mc, const struct cJSON *root);

/* Llama 4: the layers that see their chunk alone and the factor on q, needs nope and rope; of the experts all but the numbers
 * that num_local_experts and num_experts_per_tok say, needs ffn. */
MUST_CHECK enum status config_chunks_read(struct model_config *mc, const struct cJSON *root);
MUST_CHECK enum status config_step_read(struct model_config *mc, const struct cJSON *root);

/* Heads of global layers, and what Gemma 4 has in other sizes alone; for the architectures that have them.
 * Needs n_kv, d_head and windowed. */
MUST_CHECK enum status config_global_read(struct model_config *mc, const struct cJSON *root);
/* Has each layer that shares keys and values one of its kind to share with?  key: that said n_kv_shared. */
MUST_CHECK enum status config_kv_shared_check(const struct model_config *mc, const char *key);

/* The inputs of each layer, and the last layers that read keys and values of others, n_shared of them where the file does
 * not say it.  Needs vocab, n_layers and windowed. */
MUST_CHECK enum status config_inputs_read(struct model_config *mc, const struct cJSON *root);
MUST_CHECK enum status config_kv_shared_read(struct model_config *mc, const struct cJSON *root,
                                             int32_t n_shared);

/* The greatest size of a gate_cut, in deviations. */
#define MAX_GATE_CUT 4.0
/* Several residual streams, of the architectures that have them: their number, LAuReL, the cuts of gates, the
 * feed-forward's width and the two above.  Needs the same and hidden. */
MUST_CHECK enum status config_streams_read(struct model_config *mc, const struct cJSON *root);
/* Bounds that hold whatever the source; ST_RANGE names the field. */
MUST_CHECK enum status config_streams_check(const struct model_config *mc);

/* YaRN stretches the original context by its factor, and published configurations leave
 * max_position_embeddings at the original length. */
void config_stretch_context(struct model_config *mc);

#endif
