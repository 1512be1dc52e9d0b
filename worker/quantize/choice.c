#include "worker/quantize/choice.h"

#include <stdio.h>
#include <string.h>

static const struct quant_target targets[] = {
    {"q8_0", GGML_Q8_0, false, 7},   {"q4_0", GGML_Q4_0, false, 2},
    {"q4_1", GGML_Q4_1, false, 3},   {"q5_0", GGML_Q5_0, false, 8},
    {"q5_1", GGML_Q5_1, false, 9},   {"q4_k", GGML_Q4_K, false, 14},
    {"q4_k_m", GGML_Q4_K, true, 15}, {"q5_k", GGML_Q5_K, false, 16},
    {"q5_k_m", GGML_Q5_K, true, 17}, {"q6_k", GGML_Q6_K, false, 18},
    {"f16", GGML_F16, false, 1},     {"bf16", GGML_BF16, false, 32},
    {"f32", GGML_F32, false, 0},
};

const struct quant_target *quant_target_at(int i)
{
    return &targets[i];
}

struct choice choice_make(int target, int output, int embed, bool tied, int32_t n_layers)
{
    struct choice c = {.target = &targets[target], .n_layers = n_layers};
    enum ggml_type head = c.target->type == GGML_Q4_K ? GGML_Q6_K : c.target->type;
    c.output = output < 0 ? head : targets[output].type;
    c.embed = embed >= 0 ? targets[embed].type : tied ? head : c.target->type;
    return c;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* The first and the last eighth of the layers and every third between: about half of all.  As peers
 * choose them. */
static bool gets_more_bits(int32_t layer, int32_t n)
{
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

static enum ggml_type wanted_type(const struct choice *c, const char *name)
{
    int layer;
    if (strcmp(name, "output.weight") == 0)
        return c->output;
    if (strcmp(name, "token_embd.weight") == 0)
        return c->embed;
    bool heavy = ends_with(name, ".attn_v.weight") || strstr(name, ".ffn_down");
    if (c->target->mixed && heavy && sscanf(name, "blk.%d.", &layer) == 1 &&
        gets_more_bits(layer, c->n_layers))
        return GGML_Q6_K;
    return c->target->type;
}

/* Coefficients, which other programs read in f32. */
static bool is_coefficient(const char *name)
{
    return strstr(name, ".altup_predict_coef.") || strstr(name, ".altup_correct_coef.");
}

/* Of the residual streams and LAuReL, which peers leave in 16 bits or more. */
static bool stays_float(const char *name)
{
    return strstr(name, "altup_") || strstr(name, ".laurel_");
}

static enum ggml_type next_fitting(enum ggml_type t)
{
    switch (t) {
    case GGML_Q4_K:
        return GGML_Q5_0;
    case GGML_Q5_K:
        return GGML_Q5_1;
    case GGML_Q6_K:
        return GGML_Q8_0;
    default:
        return GGML_F16;
    }
}

enum ggml_type choice_type(const struct choice *c, const char *name, int32_t n_dims,
                           uint64_t row_len, enum ggml_type *wanted)
{
    bool matrix = n_dims >= 2 && ends_with(name, ".weight") && !strstr(name, "norm") &&
                  !strstr(name, "ffn_gate_inp") && !strstr(name, "ssm_conv1d") &&
                  strcmp(name, "position_embd.weight") != 0 && !is_coefficient(name);
    enum ggml_type t = matrix ? wanted_type(c, name) : GGML_F32;
    if (matrix && stays_float(name) && ggml_type_info(t)->block > 1)
        t = GGML_F16;
    *wanted = t;
    while (row_len % ggml_type_info(t)->block)
        t = next_fitting(t);
    return t;
}
