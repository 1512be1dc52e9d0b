/* Quantised weights: blocks of integers with shared scales.  Every type is brought to one form:
 * element i of a block is q[i] scale[g] + min[g] of its group g = i / group, with the product exact
 * in f32, so that a value has one f32 whatever way it is computed (min absent: the product alone).
 * Source: block_q* and dequantize_row_* of ggml-org/ggml (src/ggml-common.h, src/ggml-quants.c).
 * Those of HuggingFace's integers (DT_INT4_*, DT_INT8_*) are Ingot's own: the scale, the zero point,
 * then 32 elements as Q4_0 and Q8_0 have them.  Pure. */
#ifndef COMMON_QUANT_H
#define COMMON_QUANT_H

#include <math.h>
#include <stdbool.h>

#include "common/dtype.h"

enum { QUANT_BLOCK_MAX = 256, QUANT_GROUPS_MAX = 16 };

struct quant_form {
    int32_t block;   /* elements of a block */
    int32_t n_bytes; /* of a block */
    int32_t group;   /* elements that share a scale */
    int32_t low;     /* least q; 4-bit types: 0 or -8, up to low + 15 */
    bool nibbles;    /* 4-bit */
    bool has_min;
    bool bf16;     /* the scale is a bf16, else an f16 */
    bool has_zero; /* one scale, a zero point (int8) behind it, min = -scale zero */
};

struct quant_block {
    int8_t q[QUANT_BLOCK_MAX];
    float scale[QUANT_GROUPS_MAX], min[QUANT_GROUPS_MAX]; /* min: 0 where the type has none */
};

/* NULL: the type is not quantised. */
const struct quant_form *quant_form(enum dtype t);

/* block: form->n_bytes bytes, any alignment. */
void quant_unpack(enum dtype t, const void *block, struct quant_block *out);

/* q of each 4-bit code of DT_IQ4_NL and DT_IQ4_XS, and of DT_MXFP4 (twice the format's values). */
extern const int8_t quant_iq4[16], quant_mxfp4[16];

/* The same, but for those types with codes in place of q. */
void quant_unpack_codes(enum dtype t, const void *block, struct quant_block *out);

static inline float quant_value(const struct quant_form *f, const struct quant_block *b, int32_t i)
{
    float scale = b->scale[i / f->group], q = (float)b->q[i];
    return f->has_min ? fmaf(q, scale, b->min[i / f->group]) : q * scale;
}

/* MXFP4: 2^(exponent - 128) as a bf16, for every exponent a byte can have. */
static inline uint16_t quant_exponent(uint8_t exponent)
{
    return (uint16_t)(exponent > 1 ? (exponent - 1) << 7 : exponent ? 0x40 : 0x20);
}

/* out [n]: the values of whole blocks, n a multiple of the block. */
void quant_expand(enum dtype t, const void *blocks, size_t n, float *out);

#endif
