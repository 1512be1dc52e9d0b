/* The activations of kernels.  Shared text: gpu.h. */
#ifndef BACKENDS_GPU_ACTIVATED_H
#define BACKENDS_GPU_ACTIVATED_H

#include "backends/exact_math.h"
#include "backends/limits.h"

NUMBER_FN float activated(enum act act, float x)
{
    return act == ACT_SILU        ? exact_silu(x)
           : act == ACT_GELU      ? exact_gelu(x)
           : act == ACT_GELU_TANH ? exact_gelu_tanh(x)
           : act == ACT_RELU2     ? exact_relu2(x)
                                  : exact_relu(x);
}

/* An expert's hidden value.  glu_limit 0: act of g, by `up` unless that is all; else g and up are cut by it
 * and act is not read. */
NUMBER_FN float expert_hidden(enum act act, float g, float up, bool up_alone, float glu_limit,
                              float glu_alpha)
{
    float out = activated(act, g);
    if (glu_limit > 0.0f) {
        g = g > glu_limit ? glu_limit : g;
        up = up > glu_limit ? glu_limit : up;
        up = up < -glu_limit ? -glu_limit : up;
        out = (up + 1.0f) * gate(g, glu_alpha * g);
    } else if (!up_alone) {
        out *= up;
    }
    return out;
}

#endif
