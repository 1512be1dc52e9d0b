/* Bounds and names of ops that kernels know too: of backend.h, and part of Metal's shader text. */
#ifndef BACKENDS_LIMITS_H
#define BACKENDS_LIMITS_H

#include "common/dtype.h"

enum {
    N_SLICES = 8,          /* slices of every sum that ranks share: see struct weight_src */
    MOE_MAX_EXPERTS = 512, /* E of a moe_layer */
    MOE_MAX_TOP_K = 32,    /* k of a moe_layer */
    DELTA_MAX_TAPS = 16,   /* of a delta_layer */
    STREAMS_MAX = 8,       /* n of predict_streams */
    EDIT_WORDS = 4,        /* of 4 bytes, in a logit_edit */
    REL_REACH = 128,       /* of rel_bias of an attn_layer */
    REL_COLS = 2 * REL_REACH + 1,
};

/* The column of rel_bias of a key so far behind the token. */
NUMBER_FN int32_t rel_at(int32_t distance)
{
    return REL_REACH + (distance < -REL_REACH  ? -REL_REACH
                        : distance > REL_REACH ? REL_REACH
                                               : distance);
}

/* GELU: the erf form; RELU2: the square of ReLU, see FEATURE_RELU2 */
enum act { ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_RELU, ACT_RELU2 };

/* Grids of struct input_rule. */
enum input_grid { GRID_NONE, GRID_INT8, GRID_E4M3 };

#endif
