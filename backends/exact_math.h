/* exp and the activations, written once in fused multiply-adds and integer shifts so that every
 * instruction set and every device gives the same bits; libm is not used because its results differ
 * between machines.  The loops that call these are vectorised by the compiler.  Polynomials: least
 * squares on Chebyshev nodes, reweighted towards equal relative error (Lawson's method). */
#ifndef BACKENDS_EXACT_MATH_H
#define BACKENDS_EXACT_MATH_H

#include <math.h>

#include "common/dtype.h"

/* e^x, relative error below 2e-7 where the result is a normal number; 0 below -104, +inf
 * above 88.8, NaN for NaN.  x = n ln 2 + r; e^r by a polynomial of degree 6; 2^n in two factors, so
 * that subnormal results round once. */
NUMBER_FN float exact_exp(float x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, nearest even */
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float t = fmaf(x, 0x1.715476p0f, magic);
    float n = t - magic;
    float r = fmaf(n, -0x1.62e4p-1f, x);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.6a23cep-10f;
    p = fmaf(p, r, 0x1.123a20p-7f);
    p = fmaf(p, r, 0x1.5558f2p-5f);
    p = fmaf(p, r, 0x1.555492p-3f);
    p = fmaf(p, r, 0x1.fffffcp-2f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    uint32_t e = bits_of_f32(t) - bits_of_f32(magic) + 512U; /* n + 512 */
    uint32_t low = e >> 1;
    float s0 = f32_of_bits((low - 256U + 127U) << 23);
    float s1 = f32_of_bits((e - low - 256U + 127U) << 23);
    return p * s0 * s1;
}

/* x * sigmoid(z) */
NUMBER_FN float gate(float x, float z)
{
    return x / (1.0f + exact_exp(-z));
}

/* x * Phi(x), the erf form: Phi(-a) = e^(-a^2/2) * t * P(t), t = 1 / (1 + 0.35 a), a >= 0.  a is
 * cut at 15, where the product is zero. */
NUMBER_FN float exact_gelu(float x)
{
    float a = x < 0.0f ? -x : x;
    a = a > 15.0f ? 15.0f : a;
    float t = 1.0f / fmaf(0.35f, a, 1.0f);
    float p = -0.029146055f;
    p = fmaf(p, t, 0.14397229f);
    p = fmaf(p, t, -0.25571544f);
    p = fmaf(p, t, 0.15917546f);
    p = fmaf(p, t, -0.023110684f);
    p = fmaf(p, t, 0.10550834f);
    p = fmaf(p, t, 0.11983279f);
    p = fmaf(p, t, 0.13986188f);
    p = fmaf(p, t, 0.1396214f);
    float tail = exact_exp(-0.5f * (a * a)) * (p * t);
    float phi = x < 0.0f ? tail : 1.0f - tail;
    return x * phi;
}

NUMBER_FN float exact_silu(float x)
{
    return gate(x, x);
}

/* x/2 * (1 + tanh(u)) = x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
NUMBER_FN float exact_gelu_tanh(float x)
{
    return gate(x, x * fmaf(x * x, 0x1.2444f2p-4f, 0x1.988454p0f));
}

/* max(x, 0); what is not a number stays so. */
NUMBER_FN float exact_relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

/* The square of max(x, 0) (So et al. 2021, arXiv 2109.08668). */
NUMBER_FN float exact_relu2(float x)
{
    return exact_relu(x) * exact_relu(x);
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + u), u = e^-|x|; ln(1 + u) = 2 artanh(u / (2 + u)), of which the series' next term is
 * below 2e-9 of it. */
NUMBER_FN float exact_softplus(float x)
{
    float u = exact_exp(x < 0.0f ? x : -x);
    float z = u / (2.0f + u), s = z * z;
    float p = 0x1.111112p-4f; /* 1/15 */
    p = fmaf(p, s, 0x1.3b13b2p-4f);
    p = fmaf(p, s, 0x1.745d18p-4f);
    p = fmaf(p, s, 0x1.c71c72p-4f);
    p = fmaf(p, s, 0x1.24924ap-3f);
    p = fmaf(p, s, 0x1.99999ap-3f);
    p = fmaf(p, s, 0x1.555556p-2f);
    z = z + z;
    return (x > 0.0f ? x : 0.0f) + fmaf(z, s * p, z);
}

/* cap * tanh(x / cap), of which the error is below 2e-7 cap */
NUMBER_FN float exact_soft_cap(float x, float cap)
{
    float u = x / cap, a = u < 0.0f ? -u : u;
    float e = exact_exp(-2.0f * a);
    float t = cap * ((1.0f - e) / (1.0f + e));
    return u < 0.0f ? -t : t;
}

#endif
