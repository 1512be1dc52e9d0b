/* The op cases that the Metal backend does not have. */
#ifndef TESTS_METAL_LACKS_H
#define TESTS_METAL_LACKS_H

#include "ops/op_cases.h"

/* Why the Metal backend does not run the case; NULL: it does. */
static inline const char *metal_lacks(const struct op_case *c)
{
    bool of_gguf = c->dtype >= DT_Q4_0 && c->dtype <= DT_MXFP4;
    bool of_floats = c->dtype == DT_F32 || c->dtype == DT_F16 || c->dtype == DT_BF16;
    if (c->op == &op_round_input || (c->op == &op_latent_to_cache && c->variant))
        return "no rounding of inputs";
    if ((c->op == &op_linear || c->op == &op_embed) && !of_floats && !of_gguf)
        return "no weights of this type";
    return NULL;
}

#endif
