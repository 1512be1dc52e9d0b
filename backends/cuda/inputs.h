/* The rounding of matrices' inputs (struct input_rule) in kernels: inputs.cu's own, and those that round what they
 * make. */
#ifndef BACKENDS_CUDA_INPUTS_H
#define BACKENDS_CUDA_INPUTS_H

#include "backends/cuda/gpu.h"
#include "backends/gpu/inputs.h"

static inline struct rounding rounding_of(const struct input_rule *r)
{
    return {(int32_t)r->grid, r->scale, r->group, r->first};
}

#endif
