/* What a decoder-only model or an encoder is: sizes, options and the names and axes of its tensors, in a plain
 * struct that the readers of config.json and of GGUF metadata fill.
 *
 * Model variety is data: a row of the architectures table says which tensors there are, what they
 * are called and along which axes they lie; ranks cut a tensor along the axes AX_Q, AX_KV, AX_FFN,
 * AX_EXPERT_FFN and AX_VOCAB and along no other.  Everything in a config.json that changes the
 * result and is not understood is refused by name, and so is a GGUF key of the architecture.  Pure
 * but for model_config_load. */
#ifndef COMMON_FORMATS_MODEL_CONFIG_H
#define COMMON_FORMATS_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dtype.h"
#include "common/plan.h"
#include "common/status.h"

enum { MAX_LAYERS = 512, MAX_ROPE_PAIRS = 256, MAX_STREAMS = 8 };

/* GELU: the erf form; RELU2: the square of ReLU */
enum model_act { MODEL_SILU, MODEL_GELU, MODEL_GELU_TANH, MODEL_RELU, MODEL_RELU2 };

/* An axis of a tensor.  Sizes: model_axis(). */
enum axis {
    AX_ONE,        /* a vector's only row */
    AX_HIDDEN,     /* D */
    AX_DHEAD,      /* d */
    AX_Q,          /* Hq d, cut by query heads */
    AX_KV,         /* Hkv d, cut by the heads that the rank's query heads read */
    AX_FFN,        /* F, cut by columns */
    AX_VOCAB,      /* V, cut by rows */
    AX_EXPERTS,    /* E */
    AX_EXPERT_FFN, /* F of an expert, cut by columns */
    AX_SHARED_FFN, /* F of the shared expert, cut by columns */
    AX_HEADS,      /* Hq, cut by query heads */
    AX_ROW,        /* the only row of a matrix [1, cols] */
    AX_FLAT_ROW,   /* the same, stored as a vector */
    /* of latent attention */
    AX_QUERY,     /* Hq (d_nope + d_rope), cut by query heads */
    AX_VALUES,    /* Hq d_value, cut by query heads */
    AX_Q_RANK,    /* q_rank */
    AX_KV_RANK,   /* kv_rank */
    AX_LATENT,    /* kv_rank + d_rope */
    AX_NOPE,      /* d_nope: of one head */
    AX_VALUE,     /* d_value: of one head */
    AX_POSITIONS, /* n_positions */
    AX_TYPES,     /* of encoders: n_types */
    AX_BUCKETS,   /* REL_BUCKETS */
    /* of gated delta-net and Mamba-2 layers, cut by value heads and the key heads that these read */
    AX_DELTA_KEYS,   /* n_delta_k d_delta_k */
    AX_DELTA_VALUES, /* n_delta_v d_delta_v */
    AX_DELTA_HEADS,  /* n_delta_v */
    AX_DELTA_VALUE,  /* d_delta_v: of one head */
    AX_DELTA_TAPS,   /* delta_taps */
    /* of global layers, whose heads differ from those of the layers with a window */
    AX_GLOBAL_Q,     /* Hq global_d_head, cut by query heads */
    AX_GLOBAL_KV,    /* global_n_kv global_d_head, cut as AX_KV */
    AX_GLOBAL_DHEAD, /* global_d_head */
    /* of the inputs that each layer has of its own (Gemma 4 E2B) */
    AX_INPUT,       /* d_input: of one layer */
    AX_INPUTS,      /* n_layers d_input */
    AX_INPUT_VOCAB, /* input_vocab, cut by rows */
    /* of several residual streams (Gemma 3n) */
    AX_STREAMS,      /* n_streams */
    AX_STREAM_PAIRS, /* n_streams n_streams */
    AX_LAUREL,       /* laurel_rank */
};

enum { REL_BUCKETS = 32 }; /* kinds of distances between a token and a key */

enum tensor_id {
    TN_EMBED,
    TN_TYPES,     /* of encoders: added to the embedding by the token's type */
    TN_POSITIONS, /* added by the token's position, in place of RoPE */
    TN_REL_BIAS, /* [REL_BUCKETS, Hq]: added to the scores of all layers by the key's distance (rel_bias.h) */
    /* The layers' own inputs: the norm of a product with the embedding, and a row of a table. */
    TN_INPUT_EMBED, /* [input_vocab, L d_input] */
    TN_INPUT_PROJ,  /* [L d_input, D] */
    TN_INPUT_PROJ_NORM,
    TN_STREAM_IN,  /* of each residual stream but the first [D, D]: of the embedding */
    TN_EMBED_NORM, /* of encoders: of the sum of these */
    /* AltUp: the norm and the matrix that give the numbers from which each layer makes the coefficients of its
     * prediction and of its correction; the factors of the active stream, before the layer's input */
    TN_STREAM_NORM,
    TN_STREAM_ROUTER,  /* [n_streams, D] */
    TN_STREAM_PREDICT, /* [n_streams n_streams, n_streams] */
    TN_STREAM_CORRECT, /* [n_streams, n_streams] */
    TN_STREAM_SCALE,   /* [D] */
    /* LAuReL: a product of two matrices beside attention, [laurel_rank, D] and [D, laurel_rank] */
    TN_LAUREL_LEFT,
    TN_LAUREL_RIGHT,
    TN_LAUREL_NORM,
    TN_ATTN_NORM,
    TN_Q,
    TN_K,
    TN_Q_GATE, /* the sigmoid of its product multiplies what attention gives */
    TN_V,
    TN_Q_NORM,
    TN_K_NORM,
    TN_SINKS, /* [Hq]: the scores of a key without a value */
    /* Latent attention; TN_Q are the queries where they have no latent. */
    TN_Q_A,       /* to the latent of the queries */
    TN_Q_A_NORM,  /* [q_rank] */
    TN_Q_B,       /* from it to the queries */
    TN_KV_A,      /* to the latent of keys and values and the rotated part of the key */
    TN_KV_A_NORM, /* [kv_rank] */
    TN_K_B,       /* of each head [kv_rank, d_nope]: from the query to what meets a latent */
    TN_V_B,       /* of each head [d_value, kv_rank]: from a latent to the value */
    TN_O,
    /* Gated delta-net layers, which have these in place of TN_Q to TN_O; Mamba-2 layers, whose C, B and x are q, k and v. */
    TN_DELTA_Q,
    TN_DELTA_K,
    TN_DELTA_V,
    TN_DELTA_Z,    /* the gate of the norm behind the rule */
    TN_DELTA_B,    /* to the weight of an update; Mamba-2 has none */
    TN_DELTA_A,    /* to the decay */
    TN_DELTA_CONV, /* [channels of q, k and v][1][taps] */
    TN_DELTA_LOG,  /* [n_delta_v]: ln of the decay's rate */
    TN_DELTA_DT,   /* [n_delta_v]: added to TN_DELTA_A's product */
    TN_DELTA_SKIP, /* [n_delta_v]: D of Mamba-2 */
    TN_DELTA_NORM,
    TN_DELTA_OUT,
    /* Global layers with heads of their own, which have these in place of TN_Q to TN_O. */
    TN_GLOBAL_Q,
    TN_GLOBAL_K,
    TN_GLOBAL_V, /* where values are not the keys */
    TN_GLOBAL_Q_NORM,
    TN_GLOBAL_K_NORM,
    TN_GLOBAL_O,
    TN_POST_ATTN_NORM, /* of what attention adds to the residual stream */
    TN_FFN_NORM,
    TN_GATE,
    TN_UP,
    TN_DOWN,
    TN_ROUTER, /* of layers with experts, which have no TN_GATE, TN_UP, TN_DOWN */
    TN_EXPERT_GATE,
    TN_EXPERT_UP,
    TN_EXPERT_DOWN,
    TN_ROUTER_BIAS, /* [E] added to the experts' scores where they are chosen, not in the weights */
    TN_SHARED_GATE, /* of the expert that every token of a layer with experts takes */
    TN_SHARED_UP,
    TN_SHARED_DOWN,
    TN_SHARED_SCALE, /* [1, D]: the sigmoid of its product is the shared expert's weight */
    /* Of layers whose experts stand beside a dense feed-forward (arch->experts EXPERTS_BESIDE). */
    TN_ROUTER_NORM,     /* of the residual stream; the logits are multiplied by 1 / sqrt(D) */
    TN_EXPERT_SCALE,    /* [E]: factors on the weights of a token's experts */
    TN_EXPERT_IN_NORM,  /* of the residual stream, before the experts */
    TN_DENSE_OUT_NORM,  /* behind the dense part */
    TN_EXPERT_OUT_NORM, /* behind the experts */
    TN_POST_FFN_NORM,
    /* resid += norm(TN_INPUT_OUT (act(TN_INPUT_GATE resid) * the layer's input)) */
    TN_INPUT_GATE,
    TN_INPUT_OUT,
    TN_INPUT_NORM,
    TN_LAYER_SCALE, /* [1]: factor on the residual stream behind the layer */
    TN_STREAM_OUT, /* of each residual stream but the first [D, D]: before the mean of all streams */
    TN_FINAL_NORM,
    TN_HEAD,
    TN_N
};

/* The stored tensor that has this one among its rows, if not alone. */
enum fused {
    FUSED_NO,
    FUSED_QKV,     /* q, k, v */
    FUSED_GATE_UP, /* gate, up */
    /* [cols, rows]; of all experts [E, cols, rows] */
    TRANSPOSED,
    TRANSPOSED_QKV,     /* q, k, v side by side: [cols, all rows], biases [all rows] */
    TRANSPOSED_PAIRS,   /* gate and up in turn: [E, cols, 2 rows], biases [E, 2 rows] */
    TRANSPOSED_GATE_UP, /* gate, then up: [E, cols, 2 rows] */
    EACH_HEAD,          /* a matrix for each query head: [Hq, rows, cols] */
    /* of each query head TN_K_B transposed, then TN_V_B: [Hq (d_nope + d_value), kv_rank] */
    FUSED_KV_B,
    /* group after group of rows, see model_row_groups */
    FUSED_Q_GATE,     /* of each query head q, then its gate */
    FUSED_HEADS,      /* of each head q, k, v */
    FUSED_DELTA_QKVZ, /* of each key head q, k, the v and the z of its value heads */
    FUSED_DELTA_BA,   /* of each key head the b and the a of its value heads */
    FUSED_DELTA_QKV,  /* q, k, v of gated delta-net layers: no groups */
    FUSED_MAMBA,      /* of Mamba-2: z, x (v), B (k), C (q), dt (a): no groups */
};

struct tensor_rule {
    /* '#' stands for the layer's number, '@' for the expert's.  An expert's tensor without '@'
     * holds those of all: [E, rows, cols]. */
    const char *name;
    const char *bias; /* [rows], where the model has it; NULL: never */
    enum axis rows, cols;
    enum fused fused; /* name is that of the tensor that has them all */
};

enum window_rule {
    WINDOW_NONE,
    WINDOW_ALL,      /* every layer, unless sliding_window is null */
    WINDOW_BY_LAYER, /* use_sliding_window, max_window_layers, layer_types */
    WINDOW_USE,      /* use_sliding_window: every layer; max_window_layers says nothing */
    WINDOW_PATTERN,  /* layer_types, or all but each sliding_window_pattern-th layer */
    WINDOW_EVEN,     /* use_sliding_window: layer_types, or layers 0, 2, ... before
                        max_window_layers */
    WINDOW_CHUNK, /* attention_chunk_size in place of a window: layer_types, or the layers with RoPE; besides
                        attn_temperature_tuning, floor_scale, attn_scale */
};

/* Which keys of config.json tell of the experts. */
enum expert_rule {
    EXPERTS_NONE,
    EXPERTS_MIXTRAL, /* every layer, of intermediate_size; weights renormalised */
    EXPERTS_QWEN, /* decoder_sparse_step, mlp_only_layers, moe_intermediate_size, norm_topk_prob */
    EXPERTS_SHARED, /* every layer, of moe_intermediate_size, which intermediate_size need not be
                       beside; weights renormalised */
    EXPERTS_OLMO,   /* every layer, of intermediate_size; norm_topk_prob */
    EXPERTS_OPTION, /* num_local_experts 0: none, else as EXPERTS_MIXTRAL; a shared expert, or the feed-forward alone, of
                       shared_intermediate_size */
    EXPERTS_GROUPS, /* n_routed_experts, first_k_dense_replace, moe_intermediate_size,
                       norm_topk_prob, n_group, topk_group, routed_scaling_factor */
    EXPERTS_BESIDE, /* enable_moe_block: every layer, beside its dense feed-forward; num_experts,
                       top_k_experts, moe_intermediate_size; weights renormalised */
    EXPERTS_BLOCKS, /* of arch->one_part: the layers that the list of layers says; n_routed_experts, moe_intermediate_size,
                       moe_shared_expert_intermediate_size, norm_topk_prob, n_group, topk_group, routed_scaling_factor */
    EXPERTS_STEP, /* moe_layers, or each interleave_moe_layer_step-th layer; the experts and the shared one are of
                     intermediate_size, other layers of intermediate_size_mlp; an expert's weight is a factor on its
                     input: the sigmoid of its logit */
    EXPERTS_METHOD, /* the same with topk_method, which says whether there are groups, and without
                       norm_topk_prob */
};

/* Layers whose attention has no positions. */
enum nope_rule {
    NOPE_NONE,
    NOPE_LISTED,     /* no_rope_layers, no_rope_layer_interval */
    NOPE_FULL,       /* those without a window, where others have one */
    NOPE_UNWINDOWED, /* those without a window */
};

/* What an encoder differs in from decoders, besides that each token sees all of its text. */
struct encoder {
    /* A classifier's two matrices over the first token's state: one with tanh behind it, then one row
     * for each label; names without ".weight". */
    const char *head[2];
    const char *const
        *unused; /* beginnings of names of tensors for training alone; NULL ends them */
    /* Norms are before attention and feed-forward, of which layer 0 has the second alone, and behind the last layer;
     * RoPE in place of learned positions.  A classifier's first matrix has GELU and then a norm behind it. */
    bool pre_norm;
    const char *head_norm; /* its name without ".weight" */
    bool pad_is_1;         /* the padding token's id is 1, whatever the configuration says */
    bool
        after_padding; /* position 0 has the row of TN_POSITIONS behind that of the padding token's id */
};

/* What the keys of config.json are called, where a class has names of its own. */
struct config_names {
    const char *hidden, *ffn, *layers, *heads, *positions, *act, *eps; /* eps NULL: not said */
    const char *embed; /* size of the embedding's rows, which must be hidden's; NULL: not said */
    const char *act_default;
    bool kv_heads;       /* num_key_value_heads and head_dim are said too */
    int32_t ffn_default; /* times hidden, where ffn is not there; 0: it must be */
};

struct arch {
    const char *name;                 /* in config.json's "architectures" */
    const char *model_type;           /* in config.json's "model_type" */
    const char *other_type;           /* another one that repositories have; NULL: none */
    const struct tensor_rule *tensor; /* [TN_N] */
    const struct encoder *encoder;    /* NULL: a decoder */
    const struct config_names *names; /* NULL: Llama's, and n_kv and d_head are said beside them */
    const char *prefix;               /* of the tensors' names in some files; NULL: none */
    /* of a decoder: the class for classification has one matrix, "score", over the state of the last
     * token that is not the padding token */
    bool score_head;
    bool pads_with_zero;       /* and that token is 0 when config.json does not say it */
    const struct arch *single; /* of joined experts: the same with a tensor for each; or NULL */
    bool qk_norm;
    bool qk_norm_option; /* "use_qk_norm", of which qk_norm is the default */
    bool wide_qk_norm;   /* q_norm and k_norm are over all heads at once */
    bool
        unit_qk_norm; /* they have no weights, come behind RoPE, and layers without RoPE have none */
    bool layer_norm;  /* norms subtract the mean */
    bool norm_bias;   /* and have biases */
    bool parallel; /* attention and feed-forward read the same stream, and both are added; with one
                      norm, or with one each */
    bool parallel_option; /* "use_parallel_residual", of which parallel is the default */
    bool masks;           /* old files have the mask of causal attention in each layer */
    bool shared_option;   /* "shared_expert_intermediate_size" */
    bool sinks;           /* TN_SINKS */
    bool
        tiled_heads; /* of delta: value head h reads key head h mod n_delta_k, not h n_delta_k / n_delta_v */
    bool decay_value; /* of delta: the file has -e^A_log, and the convolution as a matrix */
    bool
        delta; /* layers of gated delta nets or Mamba-2; attention has TN_Q_GATE where its name is there */
    bool mamba;  /* of delta: Mamba-2 */
    bool beside; /* of mamba: attention beside it in every layer, and struct layer_factors */
    /* of mamba: a layer is Mamba-2, attention without RoPE, or a feed-forward, dense or of experts, and has one norm
     * (TN_ATTN_NORM); experts and feed-forwards have no gate */
    bool one_part;
    /* of mamba: "attn_layer_indices"; half of a head is rotated ("attn_rotary_emb") */
    bool partial_layers;
    bool position_type; /* "position_embedding_type": RoPE with "rope" alone */
    bool latent;        /* latent attention: kv_lora_rank, q_lora_rank and the heads' sizes */
    bool derived_value; /* of latent: "v_head_dim" is D / Hq where the file does not say it */
    bool expert_bias;   /* the router and the experts have biases; "swiglu_limit" */
    bool route_bias;    /* TN_ROUTER_BIAS; the scores are sigmoids */
    bool layer_list;    /* "mlp_layer_types": which layers have experts */
    bool says_groups;   /* config.json must have the keys of EXPERTS_GROUPS: other classes that
                            read them have other defaults */
    bool logit_factor;  /* "logit_scale": factor on the logits */
    bool norm_plus_one; /* norm weights are stored less 1 */
    bool scale_embed;   /* the embedding is multiplied by sqrt(D) */
    bool local_rope;    /* layers with a window have a RoPE of their own */
    bool tanh_gelu;     /* "gelu" means the tanh form, which is the default too */
    bool soft_caps;     /* soft-caps, query_pre_attn_scalar, hidden_activation */
    bool final_cap;     /* of these keys only final_logit_softcapping and hidden_activation */
    bool unit_scores;   /* no factor on q k */
    /* global layers, those without a window, have heads of their own: global_head_dim,
     * num_global_key_value_heads, attention_k_eq_v; TN_GLOBAL_Q and those behind it.  Besides
     * num_kv_shared_layers, use_double_wide_mlp, hidden_size_per_layer_input */
    bool global_heads;
    /* several residual streams: altup_num_inputs, altup_active_idx, altup_correct_scale, laurel_rank,
     * activation_sparsity_pattern, and intermediate_size may be a list.  Besides num_kv_shared_layers,
     * hidden_size_per_layer_input */
    bool streams;
    bool value_norm;     /* values are normed per head, without weights */
    bool layer_scale;    /* TN_LAYER_SCALE */
    bool multipliers;    /* of embedding, attention, residual stream and logits */
    bool depth_scales;   /* "scale_emb", "scale_depth" / sqrt(L), "dim_model_base" / D */
    bool interleaved;    /* RoPE's pairs are (2i, 2i+1) */
    bool whole_pairs;    /* of GGUF: see model_whole_pairs */
    bool o_without_bias; /* attention_bias: q, k and v alone */
    bool o_bias_option;  /* "attention_out_bias": o */
    bool attention_bias; /* when config.json has neither attention_bias nor use_bias */
    enum nope_rule nope;
    bool rope_factors;   /* of GGUF: the tensors of LongRoPE's divisors */
    bool needs_rope;     /* "rope_parameters" or "rope_scaling" is there */
    bool partial_rotary; /* "partial_rotary_factor" */
    bool rotary_dim;     /* "rotary_dim", the rotated elements of a head */
    bool rotary_pct;   /* "rotary_pct", "rotary_emb_base": older names of partial_rotary_factor and
                            rope_theta */
    bool mtp_tensors;  /* the file may have tensors "mtp.", which predict further tokens */
    bool mrope_text;   /* "mrope_section" says nothing about text, whose positions are all alike */
    bool extra_layers; /* "num_nextn_predict_layers": the file has more layers */
    bool own_code;     /* repositories bring code (auto_map) that transformers does not need */
    bool tied;         /* when config.json has no tie_word_embeddings */
    bool qkv_bias;     /* always, whatever config.json says */
    bool bias_option;  /* "attention_bias": q, k, v and o */
    bool use_bias_option; /* "use_bias": q, k, v, o and the feed-forward */
    bool mlp_bias_option; /* "mlp_bias": gate, up and down */
    bool mlp_bias;        /* always */
    enum window_rule window;
    enum expert_rule experts;
    double default_logit_scale; /* logit_factor: when config.json has no logit_scale */
    double default_partial;     /* partial_rotary: when config.json has no factor; 0: 1 */
    double default_theta;       /* when config.json has no rope_theta; 0: 10000 */
    double default_local_theta; /* of local_rope; 0: 10000 */
    double default_attn_cap, default_logit_cap;
    int32_t default_window;  /* when config.json has no sliding_window; 0: none */
    int32_t default_pattern; /* WINDOW_PATTERN: when config.json has neither key */
    double default_eps;      /* when config.json has no epsilon of norms; 0: 1e-6 */
    int32_t default_d_head;  /* when config.json has no head_dim; 0: hidden / heads */
    int32_t first_position;  /* rows of TN_POSITIONS before that of position 0 */
};

enum rope_type {
    ROPE_PLAIN,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONGROPE, /* divisors, and others for long contexts (Ding et al. 2024) */
    /* a divisor for each frequency, from the file; 1e30 stands for a pair that is not rotated
     * (config.json: "proportional") */
    ROPE_DIVISORS,
};

#define ROPE_NEVER 1e30f /* as llama.cpp's converter writes it */

struct rope_config {
    enum rope_type type;
    bool interleaved; /* pairs (2i, 2i+1); else (i, i + rot_dim / 2) */
    int32_t rot_dim;  /* rotated elements of a head */
    double theta, factor;
    double attention_factor; /* cos and sin are multiplied by it (yarn, longrope; else 1) */
    double original_ctx;     /* llama3, yarn, longrope: positions of the first training */
    /* q at p is multiplied by 1 + q_beta ln(1 + floor((p + q_first) / q_floor)); q_beta 0: not.  See model_scales_q */
    double q_beta, q_floor;
    int32_t q_first;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    bool truncate;                            /* yarn: whole correction borders */
    float divisor[MAX_ROPE_PAIRS];            /* divisors, longrope: [rot_dim / 2] */
    float long_divisor[MAX_ROPE_PAIRS];       /* longrope: for contexts beyond original_ctx */
};

/* Where a matrix NAME of integers is in HuggingFace's folders, and how they are packed:
 *   GPTQ    NAME.qweight, .scales, .qzeros and .g_idx, as AutoGPTQ and GPTQModel write them
 *   AWQ     the first three in AutoAWQ's order (version "gemm")
 *   PACKED  NAME.weight_packed, .weight_scale ... of compressed-tensors, format "pack-quantized"
 *   BYTES   NAME.weight of int8, .weight_scale ... of the same, format "int-quantized"
 *   SCB     NAME.weight of int8 and .SCB of bitsandbytes, method "LLM.int8()" */
enum int_storage { INTS_NONE, INTS_GPTQ, INTS_AWQ, INTS_PACKED, INTS_BYTES, INTS_SCB };

/* The same of floats of 4 bits:
 *   BNB       NAME.weight of bytes, .absmax, .quant_map, .quant_state.bitsandbytes__nf4 (or __fp4), and
 *             .nested_absmax and .nested_quant_map where the scales are quantised too
 *   NV        NAME.weight_packed, .weight_scale of e4m3, .weight_global_scale of compressed-tensors,
 *             format "nvfp4-pack-quantized"
 *   MODELOPT  NAME.weight of bytes, .weight_scale of e4m3, .weight_scale_2 of ModelOpt's NVFP4
 *   MX        NAME.weight_packed, .weight_scale (exponents) of compressed-tensors, format
 *             "mxfp4-pack-quantized" */
enum fp4_storage { FP4_NONE, FP4_BNB, FP4_NV, FP4_MODELOPT, FP4_MX };

/* How the inputs of quantised matrices are rounded before the product: to scale times an integer of 8 bits or an e4m3
 * number. */
enum input_rounding { INPUTS_FLOAT, INPUTS_INT8, INPUTS_E4M3 };

/* Factors of Falcon-H1 on what matrices of a layer give: q and v, k, attention's output, z, x, B, C and dt of Mamba-2 and
 * its output, the feed-forward's gate and output. */
struct layer_factors {
    double qv, k, o, z, x, b, c, dt, ssm, gate, down;
};

/* config_fields.c lists every member, those of struct rope_config included. */
struct model_config {
    const struct arch *arch;
    int32_t n_layers, hidden, ffn, vocab; /* L, D, F, V */
    int32_t layer_ffn
        [MAX_LAYERS]; /* F of a layer whose feed-forward is narrower than the widest, ffn; 0: it is not */
    int32_t
        ffn_unit; /* columns of F that stay together: the largest block of down's rows in any layer, else 1 */
    int32_t n_experts, top_k;     /* E, k experts a token; 0: no layer has experts */
    int32_t expert_ffn;           /* F of an expert */
    int32_t expert_unit;          /* as ffn_unit */
    int32_t shared_ffn;           /* F of the shared expert; 0: none */
    int32_t shared_unit;          /* as ffn_unit */
    int32_t n_groups, top_groups; /* a token's experts are of the top_groups best groups */
    bool sigmoid_scores;          /* of the experts; else softmax */
    double glu_limit, glu_alpha;  /* of experts, moe_layer of backend.h; limit 0: not so */
    bool mxfp4;                   /* the experts are stored as 4-bit blocks beside their scales */
    bool fp8;                     /* matrices may be stored as e4m3 beside their scales */
    int32_t fp8_rows, fp8_cols;   /* of a matrix that share a scale; 0: a row, or all */
    enum int_storage ints;        /* how matrices of integers are stored; INTS_NONE: none is */
    int32_t int_bits, int_group;  /* of an integer; columns that share a scale, 0: all of a row */
    bool int_zeros;               /* they have zero points; else that is the middle of the range */
    bool int_zeros_less_one;      /* which are stored less one */
    bool int_order;               /* an index says each column's group */
    enum fp4_storage fp4;         /* how matrices of 4-bit floats are stored; FP4_NONE: none is */
    /* --activations checkpoint (loader_round_inputs), not of the files: inputs of quantised matrices are as the
     * checkpoint's scheme has them, see struct input_scheme, and never in 8 bits of Ingot's own */
    bool exact_inputs;
    enum input_rounding inputs;
    int32_t input_group;
    bool input_scales;         /* from the file */
    bool int_sorted;           /* not of the files: loader_sort_columns */
    double route_scale;        /* factor on the weights of a token's experts */
    bool renormalise;          /* the weights of a token's experts are divided by their sum */
    bool sparse[MAX_LAYERS];   /* which layers have experts in place of gate, up and down */
    int32_t n_q, n_kv, d_head; /* Hq, Hkv, d; latent attention: Hkv 1, d = kv_rank + d_rope */
    int32_t global_n_kv, global_d_head; /* of layers without a window; 0: they are as the others */
    bool k_eq_v;         /* of these layers: values are the keys before their norm and RoPE */
    int32_t n_kv_shared; /* the last layers, which read keys and values of others: model_kv_layer */
    int32_t d_input;     /* of each layer's own input; 0: there are none */
    int32_t input_vocab; /* rows of TN_INPUT_EMBED; tokens behind them have the first one */
    int32_t n_streams;   /* residual streams of AltUp; 0: one, without its tensors */
    int32_t active_stream; /* that the layers compute */
    bool scale_active;     /* TN_STREAM_SCALE is used */
    int32_t laurel_rank;   /* 0: there is none */
    /* Of the layers' feed-forwards: a gate below the mean of all F plus so many of their deviations counts as 0, and
     * others lose that; -INFINITY: not so */
    float gate_cut[MAX_LAYERS];
    int32_t kv_rank, q_rank; /* latent attention: sizes of the latents; 0: there is none */
    int32_t d_nope, d_rope;  /* of its query heads: without and with RoPE */
    int32_t d_value;         /* of its values */
    bool delta
        [MAX_LAYERS]; /* which layers are gated delta nets or Mamba-2; the others have attention */
    bool feeds[MAX_LAYERS];       /* of arch->one_part: layers that are a feed-forward */
    int32_t n_delta_k, n_delta_v; /* their key and value heads; 0: there is no such layer */
    int32_t d_delta_k, d_delta_v; /* sizes of these */
    int32_t delta_taps;           /* of their convolution */
    bool conv_bias;               /* it has a bias */
    double dt_min, dt_max;        /* of Mamba-2: bounds of a step */
    bool state_norm, norm_first;  /* it has the norm; that comes before the gate */
    struct layer_factors factors;
    /* Positions the model is made for, with YaRN the stretched ones; of an encoder one more, because
     * a sequence counts the token that would follow its prompt. */
    int32_t max_ctx;
    double eps; /* of all norms */
    enum model_act act;
    bool tied; /* the head is the embedding */
    bool
        headless; /* the files have no head (found by the loader): the model gives embeddings alone */
    bool wrapped;        /* the text part of a multi-modal model, whose tensors have other names */
    bool classifier;     /* it has a head for classification in place of others: it gives scores */
    int32_t n_labels;    /* of that head */
    bool head_mean;      /* of an encoder's: it reads the mean of the states, else the first */
    bool head_bias;      /* of an encoder's: its first matrix has a bias */
    int32_t n_types;     /* of an encoder's tokens; 0: tokens have no types */
    int32_t n_positions; /* rows of TN_POSITIONS; 0: there is none */
    int32_t first_position; /* the row of position 0 */
    /* The padding token, -1: none; of an encoder: it has no position; of a decoder's classifier: at the
     * end of a text it does not count. */
    int32_t pad_id;
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;  /* norms of q and k */
    bool parallel; /* arch->parallel, or what the file says */
    int32_t n_mtp; /* layers of the file behind the last one, for other uses, that are not read */
    double attn_scale;          /* factor on q k; 0: 1 / sqrt(d) */
    double attn_cap, logit_cap; /* soft-caps of scores and logits; 0: none */
    double embed_scale;         /* factor on the embedding */
    double residual_scale;      /* factor on what a layer adds to the residual stream */
    double logit_scale;         /* factor on the logits */
    bool nope[MAX_LAYERS];      /* layers without RoPE */
    struct rope_config rope;
    struct rope_config local_rope; /* of the layers with a window, where arch->local_rope */
    int32_t window; /* tokens, or with WINDOW_CHUNK positions of a chunk; 0: no layer has one */
    bool windowed[MAX_LAYERS]; /* which layers use it */
    enum dtype dtype;          /* of the stored weights, as declared; DT_N: not said */
    int32_t mrope_section[3];  /* pairs for each position of an image; 0: not said */
    int32_t bos_id;            /* -1: none */
    int32_t eos_id[MAX_STOP_IDS], n_eos;
};

/* A config with no architecture and everything optional at its default (for readers of other
 * formats). */
void model_config_init(struct model_config *mc);

/* Bounds and relations that hold whatever the source; ST_RANGE names the field. */
MUST_CHECK enum status model_config_check(const struct model_config *mc);

/* config: config.json; generation: generation_config.json or NULL.  ST_FORMAT, ST_RANGE and
 * ST_UNSUPPORTED name the field. */
MUST_CHECK enum status model_config_parse(struct model_config *out, const void *config, size_t len,
                                          const void *generation, size_t generation_len);

/* The metadata of a GGUF file (architectures llama, qwen2, qwen3 and qwen3moe). */
struct gguf;
MUST_CHECK enum status model_config_from_gguf(struct model_config *out, const struct gguf *g);

/* Latent attention: epsilon of the norms of the latents, whatever rms_norm_eps says; transformers'
 * classes and DeepSeek's own code leave it at the default of their norms. */
#define LATENT_NORM_EPS 1e-6

/* How a model is written as GGUF; the architecture's tensor table has the names there, its name is
 * general.architecture.  ST_UNSUPPORTED: it is not. */
MUST_CHECK enum status gguf_arch_for(const struct arch **out, const struct model_config *mc);
/* The rows of q and k stand as (head, i, half) there.  a: of gguf_arch_for. */
bool gguf_arch_interleaved(const struct arch *a);
/* What has no key there.  a: of gguf_arch_for.  The factor on q k of the Gemmas (else 0: it is 1 / sqrt(d)), the layers
 * without RoPE, and the activation. */
double gguf_arch_attn_scale(const struct arch *a, const struct model_config *mc);
bool gguf_arch_nope(const struct arch *a, const struct model_config *mc, int32_t layer);
enum model_act gguf_arch_act(const struct arch *a, const struct model_config *mc);
/* Are the weights of a token's experts divided by their sum? */
bool gguf_arch_renormalises(const struct arch *a);
/* The factors of MiniCPM3-4B, which llama.cpp takes for every file of minicpm3; needs the sizes. */
void gguf_arch_depth_scales(struct model_config *mc);
/* Llama 4: needs nope, rope and the experts; what llama.cpp takes for every file, which says none of it: chunks of 8,192
 * positions in the layers with RoPE, the factor on q in the others, and norms of q and k unless there are 128 experts. */
void gguf_arch_chunks(struct model_config *mc);

/* quantization_config of config.json; called when the rest has been read. */
struct cJSON;
MUST_CHECK enum status config_quant_read(struct model_config *mc, const struct cJSON *outer,
                                         const struct cJSON *text);
/* Its parts for single methods; config: its value. */
MUST_CHECK enum status config_bnb_read(struct model_config *mc, const struct cJSON *config);
MUST_CHECK enum status config_modelopt_read(struct model_config *mc, const struct cJSON *config);
MUST_CHECK enum status config_gptq_read(struct model_config *mc, const struct cJSON *config);
MUST_CHECK enum status config_awq_read(struct model_config *mc, const struct cJSON *config);
MUST_CHECK enum status config_compressed_read(struct model_config *mc, const struct cJSON *config);
/* The names in a list of modules: each must be a text. */
MUST_CHECK enum status config_quant_names(const struct cJSON *config, const char *key);
/* fp8_rows and fp8_cols, from a list of two numbers; absent: they stay. */
MUST_CHECK enum status config_fp8_block(struct model_config *mc, const struct cJSON *config,
                                        const char *key);
/* Is that the method of one that config_quant_read reads? */
bool config_quant_known(const struct cJSON *config);

/* The two files of a model directory, or a GGUF file. */
MUST_CHECK enum status model_config_load(struct model_config *out, const char *path);

/* NULL when it is not known.  The class without a head (Qwen3Model) is that of the one with it, and
 * an encoder's classes with heads (BertForMaskedLM) are that of the one without. */
const struct arch *arch_find(const char *name);
/* The same architecture with a tensor for each matrix of each expert, where folders have them so beside the stacks of a's
 * tensors (Llama 4); NULL: a has no such form. */
const struct arch *arch_split_experts(const struct arch *a);
const struct arch *arch_of_type(const char *model_type);
/* A multi-modal one, of which the text part is served. */
bool arch_is_wrapper(const char *name);
/* One with a head for classification. */
bool arch_is_classifier(const char *name);
/* Why an architecture that is known by name is not supported; NULL: nothing is known of it. */
const char *arch_refusal(const char *name);
enum { ARCH_NAMES_SIZE = 870 }; /* with what stands around them they fit into an error */
/* All that are supported: "LlamaForCausalLM, likewise Mistral, ...; BertModel, ..."  Returns out. */
const char *arch_names(char out[ARCH_NAMES_SIZE]);

/* In plans and the journal an encoder's token is its id + its type * vocabulary: that many values. */
int64_t model_n_tokens(const struct model_config *mc);

/* Elements of an axis; of AX_FFN those of the widest layer, and of one layer. */
int32_t model_axis(const struct model_config *mc, enum axis ax);
int32_t model_layer_axis(const struct model_config *mc, enum axis ax, int32_t layer);
/* Says how wide each layer's dense feed-forward is: width [n_layers], at least 1. */
void model_set_widths(struct model_config *mc, const int32_t *width);
/* Has this model that tensor, has it that bias? */
bool model_has(const struct model_config *mc, enum tensor_id id);
bool model_has_bias(const struct model_config *mc, enum tensor_id id);
/* Has that layer it (the feed-forward's tensors differ from layer to layer)? */
bool model_layer_has(const struct model_config *mc, enum tensor_id id, int32_t layer);
/* Layers that are gated delta nets or Mamba-2; those with attention, and so with KV. */
int32_t model_n_delta(const struct model_config *mc);
bool model_attends(const struct model_config *mc, int32_t layer);
int32_t model_n_attention(const struct model_config *mc);
/* Where the rows of id are in a tensor that is stored group after group of `rows` rows: those of a group from `at` on,
 * n of them.  False: it is not stored so. */
struct row_groups {
    int32_t rows, at, n;
};
bool model_row_groups(const struct model_config *mc, enum tensor_id id, struct row_groups *out);
/* Has the layer the heads of global layers? */
bool model_is_global(const struct model_config *mc, int32_t layer);
/* The layer whose keys and values it reads: itself, or the last layer of its kind before those that share. */
int32_t model_kv_layer(const struct model_config *mc, int32_t layer);
/* Layers with a gate_cut. */
int32_t model_n_cut(const struct model_config *mc);
/* Do layers with experts have a dense feed-forward beside them? */
bool model_has_dense_beside(const struct model_config *mc);
/* Layers with experts. */
int32_t model_n_sparse(const struct model_config *mc);
/* Rows of the stored tensor that has the rows of id, and the first of these. */
int32_t model_fused_rows(const struct model_config *mc, enum tensor_id id, int32_t layer,
                         int32_t *first);
/* Views [T, D] that a layer's parts give to one sum over the ranks, at most: 2 with a shared expert,
 * with experts beside a dense feed-forward, and where attention and feed-forward run side by side, else 1. */
int32_t model_n_out(const struct model_config *mc);
/* The RoPE of a layer. */
const struct rope_config *model_rope(const struct model_config *mc, int32_t layer);
/* 0: the layer has none; it sees everything if it has neither. */
int32_t model_window(const struct model_config *mc, int32_t layer);
int32_t model_chunk(const struct model_config *mc, int32_t layer);
/* Has q in this layer the factor of its position, has the layer norms of q and k without weights? */
bool model_scales_q(const struct model_config *mc, int32_t layer);
/* RoPE rotates the first elements of a head, in halves, but the file has the rows of q and k as if it rotated whole heads
 * in pairs of neighbours: rows i and i + d / 2 of a head are its rows 2i and 2i + 1 there (GGUF files of Bamba). */
bool model_whole_pairs(const struct model_config *mc);
bool model_unit_qk(const struct model_config *mc, int32_t layer);

/* Growth of the attention's temperature with the stretch of the context (YaRN, Peng et al. 2023,
 * eq. 22); 1 where the factor does not stretch. */
double rope_yarn_mscale(double factor, double mscale);
/* The same of LongRoPE. */
double rope_longrope_mscale(double factor, double original_ctx);

/* "linear", ... */
const char *rope_type_name(enum rope_type t);

#endif
