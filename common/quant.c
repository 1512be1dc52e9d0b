#include "common/quant.h"

#include <assert.h>

const struct quant_form *quant_form(enum dtype t)
{
    static const struct quant_form forms[DT_N] = {
        [DT_Q8_0] = {32, 34, 32, -128, false, false, false, false},
        [DT_Q4_0] = {32, 18, 32, -8, true, false, false, false},
        [DT_Q4_1] = {32, 20, 32, 0, true, true, false, false},
        [DT_Q5_0] = {32, 22, 32, -16, false, false, false, false},
        [DT_Q5_1] = {32, 24, 32, 0, false, true, false, false},
        [DT_Q4_K] = {256, 144, 32, 0, true, true, false, false},
        [DT_Q5_K] = {256, 176, 32, 0, false, true, false, false},
        [DT_Q6_K] = {256, 210, 16, -32, false, false, false, false},
        [DT_Q2_K] = {256, 84, 16, 0, false, true, false, false},
        [DT_Q3_K] = {256, 110, 16, -4, false, false, false, false},
        [DT_IQ4_NL] = {32, 18, 32, -127, false, false, false, false},
        [DT_IQ4_XS] = {256, 136, 32, -127, false, false, false, false},
        [DT_MXFP4] = {32, 17, 32, -12, false, false, false, false},
        [DT_INT4_BF16] = {32, 18, 32, -8, true, false, true, false},
        [DT_INT4_ZERO_F16] = {32, 19, 32, 0, true, true, false, true},
        [DT_INT4_ZERO_BF16] = {32, 19, 32, 0, true, true, true, true},
        [DT_INT8_BF16] = {32, 34, 32, -128, false, false, true, false},
        [DT_INT8_ZERO_F16] = {32, 35, 32, -128, false, true, false, true},
        [DT_INT8_ZERO_BF16] = {32, 35, 32, -128, false, true, true, true},
    };
    return t >= 0 && t < DT_N && forms[t].block ? &forms[t] : NULL;
}

static float f16_at(const uint8_t *p)
{
    return f32_of_f16((uint16_t)(p[0] | p[1] << 8));
}

static float bf16_at(const uint8_t *p)
{
    return f32_of_bf16((uint16_t)(p[0] | p[1] << 8));
}

/* 16 bytes: elements 0 to 15 in the low halves, 16 to 31 in the high ones. */
static void halves(const uint8_t *p, int low, int8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((p[i] & 15) + low);
        q[i + 16] = (int8_t)((p[i] >> 4) + low);
    }
}

/* The same with the fifth bits of the 32 elements in high. */
static void halves_and_fifth(const uint8_t *high, const uint8_t *p, int low, int8_t *q)
{
    for (int i = 0; i < 16; i++) {
        int fifth = high[i / 8] >> i % 8 & 1, other = high[i / 8 + 2] >> i % 8 & 1;
        q[i] = (int8_t)((p[i] & 15) + 16 * fifth + low);
        q[i + 16] = (int8_t)((p[i] >> 4) + 16 * other + low);
    }
}

/* 8 scales and 8 minima of 6 bits each in 12 bytes: the first four whole in bytes 0-3 and 4-7, the
 * others with four bits in bytes 8-11 and two in the tops of the first eight. */
static void k_scales(const uint8_t *p, float d, float d_min, struct quant_block *out)
{
    for (int g = 0; g < 8; g++) {
        int scale = p[g] & 63, min = p[g + 4] & 63;
        if (g >= 4) {
            scale = (p[g + 4] & 15) | p[g - 4] >> 6 << 4;
            min = p[g + 4] >> 4 | p[g] >> 6 << 4;
        }
        out->scale[g] = d * (float)scale;
        out->min[g] = -(d_min * (float)min);
    }
}

static void unpack_k4(const uint8_t *p, struct quant_block *out)
{
    k_scales(p + 4, f16_at(p), f16_at(p + 2), out);
    for (int pair = 0; pair < 4; pair++)
        for (int i = 0; i < 32; i++) {
            uint8_t byte = p[16 + 32 * pair + i];
            out->q[64 * pair + i] = (int8_t)(byte & 15);
            out->q[64 * pair + 32 + i] = (int8_t)(byte >> 4);
        }
}

static void unpack_k5(const uint8_t *p, struct quant_block *out)
{
    k_scales(p + 4, f16_at(p), f16_at(p + 2), out);
    for (int pair = 0; pair < 4; pair++)
        for (int i = 0; i < 32; i++) {
            uint8_t byte = p[48 + 32 * pair + i], fifths = (uint8_t)(p[16 + i] >> 2 * pair);
            out->q[64 * pair + i] = (int8_t)((byte & 15) | (fifths & 1) << 4);
            out->q[64 * pair + 32 + i] = (int8_t)(byte >> 4 | (fifths & 2) << 3);
        }
}

/* Two halves of 128 elements; in each the low four bits of 64 bytes and two high bits of 32. */
static void unpack_k6(const uint8_t *p, struct quant_block *out)
{
    float d = f16_at(p + 208);
    for (int g = 0; g < 16; g++)
        out->scale[g] = d * (float)(int8_t)p[192 + g];
    for (int run = 0; run < 8; run++) {
        const uint8_t *low = p + 64 * (run / 4) + 32 * (run % 2), *high = p + 128 + 32 * (run / 4);
        int low_at = run % 4 / 2 * 4, high_at = run % 4 * 2;
        for (int i = 0; i < 32; i++) {
            uint8_t four = low[i] >> low_at & 15, two = high[i] >> high_at & 3;
            out->q[32 * run + i] = (int8_t)((four | two << 4) - 32);
        }
    }
}

/* Two bits of each element: byte i % 32 of each half's 32 holds those of four. */
static void two_bits(const uint8_t *p, int8_t *q)
{
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++)
            q[32 * run + i] = (int8_t)(p[run / 4 * 32 + i] >> run % 4 * 2 & 3);
}

/* A byte for each group: the scale in its low half, the minimum in the high one. */
static void unpack_k2(const uint8_t *p, struct quant_block *out)
{
    float d = f16_at(p + 80), d_min = f16_at(p + 82);
    for (int g = 0; g < 16; g++) {
        out->scale[g] = d * (float)(p[g] & 15);
        out->min[g] = -(d_min * (float)(p[g] >> 4));
    }
    two_bits(p + 16, out->q);
}

/* 16 scales of 6 bits in 12 bytes: four bits in the halves of the first 8, two in the others.  The
 * third bit of an element is in the first 32 bytes; where it is 0, 4 is taken away. */
static void unpack_k3(const uint8_t *p, struct quant_block *out)
{
    const uint8_t *scales = p + 96;
    float d = f16_at(p + 108);
    for (int g = 0; g < 16; g++) {
        int low = scales[g % 8] >> g / 8 * 4 & 15, high = scales[8 + g % 4] >> g / 4 * 2 & 3;
        out->scale[g] = d * (float)((low | high << 4) - 32);
    }
    two_bits(p + 32, out->q);
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++)
            out->q[32 * run + i] = (int8_t)(out->q[32 * run + i] + 4 * (p[i] >> run & 1) - 4);
}

const int8_t quant_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};

/* OCP Microscaling Formats 1.0: an exponent byte, then halves of 4-bit numbers, which are doubled
 * here to be whole; the scale is 2^(exponent - 127), halved. */
const int8_t quant_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void unpack_mxfp4(const uint8_t *p, struct quant_block *out)
{
    out->scale[0] = f32_of_bf16(quant_exponent(p[0]));
    halves(p + 1, 0, out->q);
}

/* 8 scales of 6 bits: two bits each in a 16-bit number, four in the halves of four bytes. */
static void unpack_iq4_xs(const uint8_t *p, struct quant_block *out)
{
    float d = f16_at(p);
    int high = p[2] | p[3] << 8;
    for (int g = 0; g < 8; g++) {
        int scale = (p[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;
        out->scale[g] = d * (float)(scale - 32);
        halves(p + 8 + 16 * g, 0, out->q + 32 * g);
    }
}

/* NULL: a type whose elements are no codes. */
static const int8_t *values_of(enum dtype t)
{
    return t == DT_IQ4_NL || t == DT_IQ4_XS ? quant_iq4 : t == DT_MXFP4 ? quant_mxfp4 : NULL;
}

void quant_unpack_codes(enum dtype t, const void *block, struct quant_block *out)
{
    const uint8_t *p = block;
    const struct quant_form *f = quant_form(t);
    assert(f);
    memset(out->min, 0, sizeof out->min);
    if (t == DT_MXFP4) {
        unpack_mxfp4(p, out);
        return;
    }
    if (f->group == f->block) { /* one scale: d, then minimum or zero point, then fifth bits */
        out->scale[0] = f->bf16 ? bf16_at(p) : f16_at(p);
        if (f->has_zero)
            out->min[0] = out->scale[0] * -(float)(int8_t)p[2];
        else if (f->has_min)
            out->min[0] = f16_at(p + 2);
        p += f->has_zero ? 3 : f->has_min ? 4 : 2;
    }
    switch (t) {
    case DT_Q8_0:
    case DT_INT8_BF16:
    case DT_INT8_ZERO_F16:
    case DT_INT8_ZERO_BF16:
        memcpy(out->q, p, 32);
        break;
    case DT_Q4_0:
    case DT_Q4_1:
    case DT_INT4_BF16:
    case DT_INT4_ZERO_F16:
    case DT_INT4_ZERO_BF16:
        halves(p, f->low, out->q);
        break;
    case DT_Q5_0:
    case DT_Q5_1:
        halves_and_fifth(p, p + 4, f->low, out->q);
        break;
    case DT_Q4_K:
        unpack_k4(p, out);
        break;
    case DT_Q5_K:
        unpack_k5(p, out);
        break;
    case DT_Q6_K:
        unpack_k6(p, out);
        break;
    case DT_Q2_K:
        unpack_k2(p, out);
        break;
    case DT_Q3_K:
        unpack_k3(p, out);
        break;
    case DT_IQ4_NL:
        halves(p, 0, out->q);
        break;
    default:
        unpack_iq4_xs(p, out);
        break;
    }
}

void quant_unpack(enum dtype t, const void *block, struct quant_block *out)
{
    const int8_t *values = values_of(t);
    quant_unpack_codes(t, block, out);
    for (int32_t i = 0; values && i < quant_form(t)->block; i++)
        out->q[i] = values[out->q[i]];
}

void quant_expand(enum dtype t, const void *blocks, size_t n, float *out)
{
    const struct quant_form *f = quant_form(t);
    struct quant_block b;
    assert(f && n % (size_t)f->block == 0);
    for (size_t at = 0; at < n; at += (size_t)f->block) {
        quant_unpack(t, (const char *)blocks + at / (size_t)f->block * (size_t)f->n_bytes, &b);
        for (int32_t i = 0; i < f->block; i++)
            out[at + (size_t)i] = quant_value(f, &b, i);
    }
}
