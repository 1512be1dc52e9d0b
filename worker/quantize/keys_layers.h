/* ARCH.* keys of a folder's layers that are not attention with keys and values for each head, or not of one kind.
 * Private to the writers of keys. */
#ifndef WORKER_QUANTIZE_KEYS_LAYERS_H
#define WORKER_QUANTIZE_KEYS_LAYERS_H

#include "common/formats/model_config.h"
#include "common/text/text_buf.h"
#include "worker/quantize/gguf_write.h"

struct arch_keys {
    struct gguf_writer *w;
    const struct arch *to; /* of GGUF */
    const struct model_config *mc;
    struct text_buf *notes;
};

struct full_key {
    char text[96];
};

/* "ARCH.key" */
struct full_key key_of(const struct arch_keys *a, const char *key);
MUST_CHECK enum status key_put_int(const struct arch_keys *a, const char *key, int32_t v);
MUST_CHECK enum status key_put_float(const struct arch_keys *a, const char *key, double v);

/* Sizes of heads and latents, and YaRN's factor on q k of latent attention. */
MUST_CHECK enum status keys_latent_sizes(const struct arch_keys *a);
MUST_CHECK enum status keys_latent_scale(const struct arch_keys *a);
/* Sizes of gated delta nets or Mamba-2, and which layers they are. */
MUST_CHECK enum status keys_states(const struct arch_keys *a);
/* Key/value heads, and a feed-forward's width, of each layer of arch->mamba. */
MUST_CHECK enum status keys_heads_listed(const struct arch_keys *a);
MUST_CHECK enum status keys_ffn_listed(const struct arch_keys *a);
/* Llama 4: ST_UNSUPPORTED where its chunks, its factors on q or its norms are not those of every file; which layers have
 * experts (one has). */
MUST_CHECK enum status keys_check_chunks(const struct arch_keys *a);
MUST_CHECK enum status keys_expert_step(const struct arch_keys *a);

#endif
