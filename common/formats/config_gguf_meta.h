/* One architecture's keys of GGUF metadata, for the readers of this folder. */
#ifndef COMMON_FORMATS_CONFIG_GGUF_META_H
#define COMMON_FORMATS_CONFIG_GGUF_META_H

#include "common/formats/config_gguf_arch.h"
#include "common/formats/gguf.h"

struct meta {
    const struct gguf *g;
    const struct gguf_arch *row;
};

struct meta_name {
    char text[96];
};

/* "ARCH.key" */
struct meta_name meta_key(const struct meta *m, const char *key);
/* These leave *out as it is when the key is absent; ST_RANGE names the key. */
MUST_CHECK enum status meta_i32(const struct meta *m, const char *key, int32_t lo, int32_t hi,
                                int32_t *out);
MUST_CHECK enum status meta_double(const struct meta *m, const char *key, double lo, double hi,
                                   double *out);
/* ST_FORMAT: the key is missing. */
MUST_CHECK enum status meta_need(const struct meta *m, const char *key);
bool meta_is(struct gguf_str s, const char *text);

/* Latent attention (deepseek2, minicpm3): the row for general.architecture and the file's tensors, NULL:
 * another architecture; the sizes, needs n_q; the factor on q k, needs rope. */
const struct gguf_arch *config_gguf_latent_row(const char *name, const struct gguf *g);
MUST_CHECK enum status config_gguf_latent(struct model_config *mc, const struct meta *m);
MUST_CHECK enum status config_gguf_latent_scale(struct model_config *mc, const struct meta *m);
/* The row as which a model with latent attention is written; NULL: it has none. */
const struct gguf_arch *config_gguf_latent_for(const struct model_config *mc);

/* Which layers are gated delta nets, and their sizes; needs n_layers. */
MUST_CHECK enum status config_gguf_delta(struct model_config *mc, const struct meta *m);

/* Sizes of the states of delta nets and of Mamba-2, which have the same keys. */
MUST_CHECK enum status config_gguf_states(struct model_config *mc, const struct meta *m);

/* Mamba-2: n_kv and which layers they are, needs n_layers; then their sizes, and which layers have no RoPE. */
MUST_CHECK enum status config_gguf_mamba_layers(struct model_config *mc, const struct meta *m);
/* Of arch->one_part: n_kv, ffn and what each layer is, needs n_layers. */
MUST_CHECK enum status config_gguf_blocks(struct model_config *mc, const struct meta *m);
MUST_CHECK enum status config_gguf_mamba(struct model_config *mc, const struct meta *m);

/* The layers' inputs, the layers that share keys and values, and the feed-forward's widths; needs n_layers, vocab and
 * windowed. */
MUST_CHECK enum status config_gguf_inputs(struct model_config *mc, const struct meta *m);
/* These, and several residual streams; needs the same. */
MUST_CHECK enum status config_gguf_streams(struct model_config *mc, const struct meta *m);

/* Heads of global layers; needs n_layers, n_q and windowed. */
MUST_CHECK enum status config_gguf_global(struct model_config *mc, const struct meta *m);

/* Llama 4: interleave_moe_layer_step must agree with `sparse`. */
MUST_CHECK enum status config_gguf_step(const struct model_config *mc, const struct meta *m);

/* Granite 4, also under the architecture granite: without experts the shared one's width is that of the feed-forward. */
bool config_gguf_shared_width(const struct arch *a);

/* expert_count and the keys that go with it, for the architectures that have experts. */
MUST_CHECK enum status config_gguf_experts(struct model_config *mc, const struct meta *m);

#endif
