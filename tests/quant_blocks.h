/* Random quantised blocks for tests:
 * every bit pattern of the integers, half floats below `scale`. */
#ifndef TESTS_QUANT_BLOCKS_H
#define TESTS_QUANT_BLOCKS_H

#include <stdlib.h>

#include "common/quant.h"

static inline uint32_t quant_draw(uint32_t *rng)
{
    *rng = *rng * 1664525U + 1013904223U;
    return *rng >> 8;
}

/* n elements, a multiple of the block; freed by the caller.  NULL: no memory. */
static inline unsigned char *quant_random_blocks(enum dtype t, size_t n, float scale, uint32_t seed)
{
    const struct quant_form *f = quant_form(t);
    size_t n_blocks = n / (size_t)f->block, size = (size_t)f->n_bytes;
    size_t first = t == DT_Q6_K ? 208 : t == DT_Q3_K ? 108 : t == DT_Q2_K ? 80 : 0;
    size_t half_at[2] = {first, first + 2};
    unsigned char *p = malloc(n_blocks * size + 1);
    for (size_t i = 0; p && i < n_blocks * size; i++)
        p[i] = (unsigned char)quant_draw(&seed);
    for (size_t b = 0; p && t == DT_MXFP4 && b < n_blocks; b++)
        p[b * size] = (unsigned char)(128 + ilogbf(scale) - (int)(quant_draw(&seed) % 4));
    for (size_t b = 0; p && t != DT_MXFP4 && b < n_blocks; b++)
        for (int h = 0; h < (f->has_min && !f->has_zero ? 2 : 1); h++) {
            float d = ((float)(quant_draw(&seed) % 2000) * 1e-3f - 1) * scale;
            uint16_t v = f->bf16 ? bf16_of_f32(d) : f16_of_f32(d);
            memcpy(p + b * size + half_at[h], &v, sizeof v);
        }
    return p;
}

#endif
