/* The table of the keys of config.json.  Read by config_keys.c alone. */
#ifndef COMMON_FORMATS_CONFIG_KEY_TABLE_H
#define COMMON_FORMATS_CONFIG_KEY_TABLE_H

#include <stddef.h>

/* Read by the architectures for which `when` holds; for the others, and for READ_NEVER, only null
 * or the harmless value passes.  harmless NULL: none does.  IGNORED: says nothing about the result.
 */
enum key_use {
    READ_ALWAYS,
    READ_NAMED, /* by the architectures that have the key among their config_names */
    READ_HEADS, /* where n_kv and d_head are said */
    READ_ROPE,
    READ_BIAS,
    READ_MLP_BIAS,
    READ_WINDOW,
    READ_BY_LAYER,
    READ_EXPERTS,
    READ_QWEN_EXPERTS,
    READ_SIZED_EXPERTS,
    READ_EXPERTS_BESIDE,
    READ_PATTERN,
    READ_CAPS,
    READ_FINAL_CAP,
    READ_GLOBAL,
    READ_INPUTS,  /* of the layers, and the layers that share keys and values */
    READ_STREAMS, /* Gemma 3n */
    READ_SCALAR,
    READ_LOCAL_ROPE,
    READ_PARTIAL,
    READ_CODE,
    READ_DELTA,
    READ_MAMBA,
    READ_BESIDE,
    READ_MAMBA_SIZES, /* by the names of Granite 4, Falcon-H1 and Bamba */
    READ_ONE_PART,    /* Nemotron-H */
    READ_ATTENTION_LIST,
    READ_FIRST_DENSE,
    READ_EMBED_FACTOR,
    READ_EXPERTS_OPTION,
    READ_POSITION_TYPE,
    READ_MULTIPLIERS,
    READ_DEPTH_SCALES,
    READ_NOPE,
    READ_CHUNKS,
    READ_EXPERTS_STEP,
    READ_NORM_TOPK,
    READ_GROUPS,
    READ_LIMITED,
    READ_SHARED,
    READ_LOGIT_FACTOR,
    READ_USE_BIAS,
    READ_EXTRA_LAYERS,
    READ_LATENT,
    READ_METHOD,
    READ_O_BIAS,
    READ_LAYER_LIST,
    READ_ROTARY_PCT,
    READ_PARALLEL,
    READ_ROTARY_DIM, /* the class of MiniMax M2, which makes nothing of the others with this use */
    SAYS_TEXT_IS_CAUSAL,
    SAYS_OUTPUT_GATE,
    SAYS_STATE_TYPE,
    SAYS_ATTENTION,
    SAYS_ROUTE_BIAS,
    SAYS_SCORES,
    SAYS_QK_NORM, /* only what the architecture does anyway passes */
    SAYS_QK_NORM_TYPE,
    SAYS_QKV_BIAS,
    SAYS_PARALLEL,
    SAYS_LAYER_NORM,
    SAYS_GATED,
    SAYS_TIED,
    READ_NEVER,
    IGNORED
};

struct key_row {
    const char *key;
    enum key_use use;
    const char *harmless; /* JSON text */
};

extern const struct key_row config_keys[];
extern const size_t n_config_keys;

#endif
