#include "worker/quantize/quant_encode.h"

#include <assert.h>

enum { K = QUANT_BLOCK_MAX };

static int32_t clamp(float v, int32_t lo, int32_t hi)
{
    return v <= (float)lo ? lo : v >= (float)hi ? hi : (int32_t)lrintf(v);
}

/* Stores v as f16, at most its greatest finite value; what it became. */
static float put_f16(uint8_t *p, float v)
{
    uint16_t h = f16_of_f32(fminf(fmaxf(v, -65504), 65504));
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
    return f32_of_f16(h);
}

static float inverse(float d)
{
    return d == 0 ? 0 : 1 / d;
}

/* ---- one scale for 32 ---- */

static float largest(const float *x, int n)
{
    float top = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(top))
            top = x[i];
    return top;
}

static void encode_q8_0(const float *x, uint8_t *p)
{
    float id = inverse(put_f16(p, fabsf(largest(x, 32)) / 127));
    for (int i = 0; i < 32; i++)
        p[2 + i] = (uint8_t)(int8_t)clamp(x[i] * id, -127, 127);
}

/* q [32] of 4 or 5 bits: the low four in 16 bytes, the fifth ones in front of them. */
static void put_nibbles(const uint8_t *q, bool fifth, uint8_t *p)
{
    uint32_t high = 0;
    for (int i = 0; i < 32; i++)
        high |= (uint32_t)(q[i] >> 4) << i;
    if (fifth)
        for (int i = 0; i < 4; i++)
            *p++ = (uint8_t)(high >> 8 * i);
    for (int i = 0; i < 16; i++)
        p[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

/* The value of the largest magnitude becomes the least integer, which has no positive
 * counterpart. */
static void encode_symmetric(const float *x, int bits, uint8_t *p)
{
    uint8_t q[32];
    int32_t half = 1 << (bits - 1);
    float id = inverse(put_f16(p, largest(x, 32) / (float)-half));
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)(clamp(x[i] * id, -half, half - 1) + half);
    put_nibbles(q, bits == 5, p + 2);
}

static void encode_affine(const float *x, int bits, uint8_t *p)
{
    uint8_t q[32];
    float lo = x[0], hi = x[0];
    int32_t top = (1 << bits) - 1;
    for (int i = 1; i < 32; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    float id = inverse(put_f16(p, (hi - lo) / (float)top)), min = put_f16(p + 2, lo);
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)clamp((x[i] - min) * id, 0, top);
    put_nibbles(q, bits == 5, p + 4);
}

/* ---- K types ---- */

struct fit {
    float scale, min; /* x is about scale q - min */
};

static void weights_of(const float *x, int n, float *w)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        w[i] = x[i] * x[i] + sum / (float)n;
}

static float weighted_error(const float *x, const float *w, const float *q, int n, struct fit f)
{
    float e = 0;
    for (int i = 0; i < n; i++) {
        float d = f.scale * q[i] - f.min - x[i];
        e += w[i] * d * d;
    }
    return e;
}

/* The scale and the minimum, not negative, that are best for these integers. */
static struct fit solve(const float *x, const float *w, const float *q, int n)
{
    float sw = 0, sq = 0, sqq = 0, sx = 0, sqx = 0;
    for (int i = 0; i < n; i++) {
        sw += w[i];
        sq += w[i] * q[i];
        sqq += w[i] * q[i] * q[i];
        sx += w[i] * x[i];
        sqx += w[i] * q[i] * x[i];
    }
    float det = sw * sqq - sq * sq;
    if (det > 0) {
        struct fit f = {(sw * sqx - sq * sx) / det, (sq * sqx - sqq * sx) / det};
        if (f.min >= 0 && f.scale >= 0)
            return f;
    }
    return (struct fit){sqq > 0 ? fmaxf(sqx / sqq, 0) : 0, 0};
}

static struct fit fit_affine(const float *x, int n, int32_t top)
{
    float w[32], q[32], lo = 0, hi = x[0];
    for (int i = 0; i < n; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    struct fit best = {(hi - lo) / (float)top, -lo};
    if (hi <= lo)
        return (struct fit){0, -lo};
    weights_of(x, n, w);
    float least = INFINITY;
    for (int c = -10; c <= 10; c++) {
        float is = ((float)top + 0.1f * (float)c) / (hi - lo);
        for (int i = 0; i < n; i++)
            q[i] = (float)clamp((x[i] - lo) * is, 0, top);
        struct fit f = solve(x, w, q, n);
        float e = weighted_error(x, w, q, n, f);
        if (e < least) {
            least = e;
            best = f;
        }
    }
    return best;
}

/* 8 scales and 8 minima of 6 bits in 12 bytes: the inverse of what common/quant.c reads. */
static void put_k_scales(const uint8_t *scale, const uint8_t *min, uint8_t *p)
{
    for (int g = 0; g < 4; g++) {
        p[g] = (uint8_t)(scale[g] | scale[g + 4] >> 4 << 6);
        p[g + 4] = (uint8_t)(min[g] | min[g + 4] >> 4 << 6);
        p[g + 8] = (uint8_t)((scale[g + 4] & 15) | min[g + 4] << 4);
    }
}

/* Q4_K and Q5_K up to the integers: the first 16 bytes of the block, and q [256]. */
static void encode_groups(const float *x, int bits, uint8_t *p, uint8_t *q)
{
    struct fit f[8];
    uint8_t scale[8], min[8];
    float top_scale = 0, top_min = 0;
    int32_t top = (1 << bits) - 1;
    for (int g = 0; g < 8; g++) {
        f[g] = fit_affine(x + 32 * g, 32, top);
        top_scale = fmaxf(top_scale, f[g].scale);
        top_min = fmaxf(top_min, f[g].min);
    }
    float d = put_f16(p, top_scale / 63), d_min = put_f16(p + 2, top_min / 63);
    for (int g = 0; g < 8; g++) {
        scale[g] = (uint8_t)clamp(f[g].scale * inverse(d), 0, 63);
        min[g] = (uint8_t)clamp(f[g].min * inverse(d_min), 0, 63);
        float is = inverse(d * (float)scale[g]), m = d_min * (float)min[g];
        for (int i = 32 * g; i < 32 * g + 32; i++)
            q[i] = (uint8_t)clamp((x[i] + m) * is, 0, top);
    }
    put_k_scales(scale, min, p + 4);
}

static void encode_q4_k(const float *x, uint8_t *p)
{
    uint8_t q[K];
    encode_groups(x, 4, p, q);
    for (int i = 0; i < 128; i++)
        p[16 + i] = (uint8_t)(q[i / 32 * 64 + i % 32] | q[i / 32 * 64 + 32 + i % 32] << 4);
}

static void encode_q5_k(const float *x, uint8_t *p)
{
    uint8_t q[K];
    encode_groups(x, 5, p, q);
    memset(p + 16, 0, 32);
    for (int i = 0; i < K; i++)
        p[16 + i % 32] = (uint8_t)(p[16 + i % 32] | q[i] >> 4 << i / 32);
    for (int i = 0; i < 128; i++)
        p[48 + i] =
            (uint8_t)((q[i / 32 * 64 + i % 32] & 15) | (q[i / 32 * 64 + 32 + i % 32] & 15) << 4);
}

/* The scale of 16 elements, integers in -32 .. 31: the one with the least weighted error. */
static float fit_symmetric(const float *x)
{
    float w[16], q[16], top = largest(x, 16), best = 0, gain = 0;
    if (top == 0)
        return 0;
    weights_of(x, 16, w);
    for (int c = -9; c <= 9; c++) {
        float is = -(32 + 0.1f * (float)c) / top, xq = 0, qq = 0;
        for (int i = 0; i < 16; i++) {
            q[i] = (float)clamp(x[i] * is, -32, 31);
            xq += w[i] * x[i] * q[i];
            qq += w[i] * q[i] * q[i];
        }
        if (qq > 0 && xq * xq / qq > gain) {
            gain = xq * xq / qq;
            best = xq / qq;
        }
    }
    return best;
}

static void encode_q6_k(const float *x, uint8_t *p)
{
    float scale[16];
    uint8_t q[K];
    for (int g = 0; g < 16; g++)
        scale[g] = fit_symmetric(x + 16 * g);
    float d = put_f16(p + 208, largest(scale, 16) / -128);
    for (int g = 0; g < 16; g++) {
        int32_t s = clamp(scale[g] * inverse(d), -128, 127);
        float is = inverse(d * (float)s);
        p[192 + g] = (uint8_t)(int8_t)s;
        for (int i = 16 * g; i < 16 * g + 16; i++)
            q[i] = (uint8_t)(clamp(x[i] * is, -32, 31) + 32);
    }
    memset(p, 0, 192);
    for (int i = 0; i < K; i++) {
        int half = i / 128, at = i % 128;
        uint8_t *low = p + 64 * half + at % 64, *high = p + 128 + 32 * half + at % 32;
        *low = (uint8_t)(*low | (q[i] & 15) << at / 64 * 4);
        *high = (uint8_t)(*high | q[i] >> 4 << at / 32 * 2);
    }
}

static void encode_block(enum dtype t, const float *x, uint8_t *p)
{
    switch (t) {
    case DT_Q8_0:
        encode_q8_0(x, p);
        break;
    case DT_Q4_0:
        encode_symmetric(x, 4, p);
        break;
    case DT_Q5_0:
        encode_symmetric(x, 5, p);
        break;
    case DT_Q4_1:
        encode_affine(x, 4, p);
        break;
    case DT_Q5_1:
        encode_affine(x, 5, p);
        break;
    case DT_Q4_K:
        encode_q4_k(x, p);
        break;
    case DT_Q5_K:
        encode_q5_k(x, p);
        break;
    default:
        encode_q6_k(x, p);
        break;
    }
}

bool quant_can_encode(enum dtype t)
{
    return t >= DT_Q4_0 && t <= DT_Q6_K;
}

void quant_encode(enum dtype t, const float *x, size_t n, void *blocks)
{
    const struct quant_form *f = quant_form(t);
    assert(f && quant_can_encode(t) && n % (size_t)f->block == 0);
    for (size_t b = 0; b < n / (size_t)f->block; b++)
        encode_block(t, x + b * (size_t)f->block, (uint8_t *)blocks + b * (size_t)f->n_bytes);
}
