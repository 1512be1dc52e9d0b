/* The activations of kernels. */
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

#endif
