#include "ops/kv_spec.h"

#include <math.h>
#include <stdbool.h>

/* A binary format: sign, exponent, `fraction` bits. */
struct small_float {
    int fraction, least; /* least: exponent of the smallest normal number */
    double most;
    unsigned sign,
        beyond; /* bits: of the sign; of what rounds to more than most: NaN, e4m3: most */
};

static struct small_float format_of(enum dtype t)
{
    static const struct small_float f16 = {10, -14, 65504.0, 0x8000, 0x7e00},
                                    bf16 = {7, -126, 0x1.fep127, 0x8000, 0x7fc0},
                                    e4m3 = {3, -6, 448.0, 0x80, 0x7e};
    return t == DT_F16 ? f16 : t == DT_BF16 ? bf16 : e4m3;
}

/* Nearest, ties to even. */
static unsigned encode(struct small_float f, double x)
{
    unsigned sign = signbit(x) ? f.sign : 0, one = 1U << f.fraction;
    int e;
    frexp(fabs(x), &e); /* |x| in [2^(e-1), 2^e) */
    e = x == 0 || e - 1 < f.least ? f.least : e - 1;
    double units = rint(ldexp(fabs(x), f.fraction - e)); /* of the last place */
    if (!(ldexp(units, e - f.fraction) <= f.most))
        return f.fraction == 3 ? sign | f.beyond : f.beyond;
    if (units < one)
        return sign | (unsigned)units; /* subnormal */
    return sign | (((unsigned)(e - f.least) << f.fraction) + (unsigned)units);
}

static double decode(struct small_float f, unsigned bits)
{
    if (bits == f.beyond && f.fraction != 3)
        return NAN;
    unsigned one = 1U << f.fraction, fraction = bits & (one - 1),
             exponent = (bits & (f.sign - 1)) >> f.fraction;
    double v = exponent ? ldexp(one + fraction, (int)exponent - 1 + f.least - f.fraction)
                        : ldexp(fraction, f.least - f.fraction);
    return bits & f.sign ? -v : v;
}

/* scale = amax / top, NaN where x is not finite; elements: nearest even of x * (top / amax); every operation rounded to f32
 * (operands of 24 bits: rounding a double's result to f32 is rounding once). */
static void store_scaled(enum dtype t, const float *x, int n, void *dst, float *scale)
{
    double amax = 0, top = t == DT_I8 ? 127 : 448;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        amax = fmax(amax, fabs((double)x[i]));
        finite = finite && isfinite(x[i]);
    }
    bool none = amax < 0x1p-100;
    float inv = none ? 0.0f : (float)(top / amax);
    *scale = !finite ? NAN : none ? 0.0f : (float)(amax / top);
    for (int i = 0; i < n; i++) {
        double y = (double)(float)((double)x[i] * (double)inv);
        if (t == DT_I8)
            ((int8_t *)dst)[i] = (int8_t)fmax(-127, fmin(127, rint(y)));
        else
            ((uint8_t *)dst)[i] = (uint8_t)encode(format_of(t), y);
    }
}

void spec_store(enum dtype t, const float *x, int n, void *dst, float *scale)
{
    if (t == DT_I8 || t == DT_E4M3)
        store_scaled(t, x, n, dst, scale);
    else if (t == DT_F32)
        for (int i = 0; i < n; i++)
            ((float *)dst)[i] = isfinite(x[i]) ? x[i] : NAN;
    else
        for (int i = 0; i < n; i++)
            ((uint16_t *)dst)[i] = (uint16_t)encode(format_of(t), (double)x[i]);
}

float spec_value(enum dtype t, const void *src, int i, float scale)
{
    switch (t) {
    case DT_I8:
        return (float)((double)((const int8_t *)src)[i] * (double)scale);
    case DT_E4M3:
        return (float)(decode(format_of(t), ((const uint8_t *)src)[i]) * (double)scale);
    case DT_F16:
    case DT_BF16:
        return (float)decode(format_of(t), ((const uint16_t *)src)[i]);
    default:
        return ((const float *)src)[i];
    }
}
