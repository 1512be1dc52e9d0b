/* Which tensor becomes which type.  Pure. */
#ifndef WORKER_QUANTIZE_CHOICE_H
#define WORKER_QUANTIZE_CHOICE_H

#include "common/formats/gguf.h"

struct quant_target { /* what --type names */
    const char *name;
    enum ggml_type type;
    bool mixed;         /* "_m": half of attn_v and ffn_down in q6_k */
    uint32_t file_type; /* general.file_type, as peers number it */
};

/* The names as an option's choices, and what each stands for, in that order. */
#define QUANT_TARGET_NAMES "q8_0|q4_0|q4_1|q5_0|q5_1|q4_k|q4_k_m|q5_k|q5_k_m|q6_k|f16|bf16|f32"
const struct quant_target *quant_target_at(int i);

struct choice {
    const struct quant_target *target;
    enum ggml_type output, embed; /* of the head, and of the embedding */
    int32_t n_layers;
};

/* output, embed: a target's index, or -1 for the default: q6_k for the head (of a tied model: the
 * embedding) of the 4-bit K types, else the target itself. */
struct choice choice_make(int target, int output, int embed, bool tied, int32_t n_layers);

/* name: the GGUF file's.  *wanted: before the row's length was looked at.  Rows that are no whole
 * blocks take the next type that fits: q4_k q5_0, q5_k q5_1, q6_k q8_0, and where 32 does not
 * divide them either f16.  Vectors and routers are F32. */
enum ggml_type choice_type(const struct choice *c, const char *name, int32_t n_dims,
                           uint64_t row_len, enum ggml_type *wanted);

#endif
