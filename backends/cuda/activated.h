/* The activations on the device. */
#ifndef BACKENDS_CUDA_ACTIVATED_H
#define BACKENDS_CUDA_ACTIVATED_H

#include "backends/cuda/gpu.h"

template <enum act ACT> DEVICE float activated(float x)
{
    return ACT == ACT_SILU        ? exact_silu(x)
           : ACT == ACT_GELU      ? exact_gelu(x)
           : ACT == ACT_GELU_TANH ? exact_gelu_tanh(x)
           : ACT == ACT_RELU2     ? exact_relu2(x)
                                  : exact_relu(x);
}

/* The same for an act that is known at run time. */
DEVICE float activated(enum act act, float x)
{
    return act == ACT_SILU        ? activated<ACT_SILU>(x)
           : act == ACT_GELU      ? activated<ACT_GELU>(x)
           : act == ACT_GELU_TANH ? activated<ACT_GELU_TANH>(x)
           : act == ACT_RELU2     ? activated<ACT_RELU2>(x)
                                  : activated<ACT_RELU>(x);
}

#endif
