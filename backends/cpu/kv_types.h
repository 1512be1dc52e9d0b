/* Elements of the KV cache and their value in f32; of int8 ones see attn_round.h. */
#ifndef BACKENDS_CPU_KV_TYPES_H
#define BACKENDS_CPU_KV_TYPES_H

#include "backends/cpu/kernels.h"

/* Element i of the head in cache row `row`; the scale's product is rounded to f32. */
static inline float kv_value(const struct kv_operand *o, size_t row, int i)
{
    size_t at = row * o->row_elems + (size_t)i;
    switch (o->dtype) {
    case DT_F16:
        return f32_of_f16(((const uint16_t *)o->base)[at]);
    case DT_BF16:
        return f32_of_bf16(((const uint16_t *)o->base)[at]);
    case DT_E4M3:
        return f32_of_e4m3(((const uint8_t *)o->base)[at]) * o->scale[row * o->scale_stride];
    default:
        return ((const float *)o->base)[at];
    }
}

#endif
