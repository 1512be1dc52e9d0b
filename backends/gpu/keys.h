/* Numbers as keys whose order integers have.  Shared text: gpu.h. */
#ifndef BACKENDS_GPU_KEYS_H
#define BACKENDS_GPU_KEYS_H

/* -0 as +0. */
DEVICE uint32_t ordered_bits(float v)
{
    uint32_t u = bits_of_f32(v + 0.0f);
    return (u & 0x80000000U) != 0 ? ~u : u | 0x80000000U;
}

#endif
