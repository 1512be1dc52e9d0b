/* Quantisers: values that a type can say come back as they were; the error on
 * random rows is what the number of bits allows and no more than that of the plain way; extremes
 * and zeros are kept finite. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "common/status.h"
#include "worker/quantize/quant_encode.h"

static const struct {
    enum dtype type;
    double error; /* greatest relative rms on normal values; measured, plus 3 % */
} types[] = {{DT_Q8_0, 0.0055}, {DT_Q4_0, 0.0883}, {DT_Q4_1, 0.0803}, {DT_Q5_0, 0.0438},
             {DT_Q5_1, 0.0390}, {DT_Q4_K, 0.0745}, {DT_Q5_K, 0.0372}, {DT_Q6_K, 0.0181}};

static uint32_t rng = 1;

static float uniform(void)
{
    rng = rng * 1664525U + 1013904223U;
    return ((float)(rng >> 8) + 0.5f) * 0x1p-24f;
}

/* Box and Muller. */
static float normal(void)
{
    return sqrtf(-2 * logf(uniform())) * cosf(6.2831853f * uniform());
}

static void round_trip(enum dtype t, const float *x, size_t n, float *out)
{
    const struct quant_form *f = quant_form(t);
    unsigned char *blocks = malloc(n / (size_t)f->block * (size_t)f->n_bytes);
    cr_assert_not_null(blocks);
    quant_encode(t, x, n, blocks);
    quant_expand(t, blocks, n, out);
    free(blocks);
}

static double relative_error(const float *x, const float *y, size_t n)
{
    double e = 0, v = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i];
        e += d * d;
        v += (double)x[i] * (double)x[i];
    }
    return sqrt(e / v);
}

Test(quant_encode, error_on_normal_values)
{
    enum { N = 256 * 256 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    cr_assert(x && y);
    for (size_t i = 0; i < N; i++)
        x[i] = 0.02f * normal();
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        round_trip(types[i].type, x, N, y);
        double e = relative_error(x, y, N);
        cr_expect(e <= types[i].error && e > 0.9 * types[i].error,
                  "%s: relative error %.5f, bound %.5f", dtype_name(types[i].type), e,
                  types[i].error);
    }
    free(x);
    free(y);
}

/* The plain way: scale and minimum from the extremes, everything in f32. */
static double plain_affine_error(const float *x, size_t n, int top)
{
    double e = 0, v = 0;
    for (size_t g = 0; g < n; g += 32) {
        float lo = 0, hi = 0;
        for (size_t i = g; i < g + 32; i++) {
            lo = fminf(lo, x[i]);
            hi = fmaxf(hi, x[i]);
        }
        float d = (hi - lo) / (float)top;
        for (size_t i = g; i < g + 32; i++) {
            double back = (double)(rintf((x[i] - lo) / d) * d + lo) - (double)x[i];
            e += back * back * (double)x[i] * (double)x[i];
            v += (double)x[i] * (double)x[i];
        }
    }
    return e / v;
}

static double weighted_error(const float *x, const float *y, size_t n)
{
    double e = 0, v = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i], w = (double)x[i] * (double)x[i];
        e += w * d * d;
        v += w;
    }
    return e / v;
}

/* The search pays, even against a plain way whose scales are not rounded to 6 bits. */
Test(quant_encode, the_search_beats_the_extremes)
{
    enum { N = 64 * 256 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    cr_assert(x && y);
    for (size_t i = 0; i < N; i++)
        x[i] = normal();
    round_trip(DT_Q4_K, x, N, y);
    cr_expect_lt(weighted_error(x, y, N), plain_affine_error(x, N, 15));
    free(x);
    free(y);
}

/* All integers of the type times a power of two. */
Test(quant_encode, what_a_type_can_say_exactly)
{
    static const struct {
        enum dtype type;
        int low, high;
    } rows[] = {{DT_Q8_0, -127, 127},
                {DT_Q4_0, -8, 7},
                {DT_Q4_1, -3, 12},
                {DT_Q5_0, -16, 15},
                {DT_Q5_1, 5, 36}};
    float x[32], y[32];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int range = rows[i].high - rows[i].low + 1;
        for (int c = 0; c < 32; c++) /* both ends, and what lies between */
            x[c] = 0.25f * (float)(c == 0   ? rows[i].low
                                   : c == 1 ? rows[i].high
                                            : rows[i].low + c * 7 % range);
        round_trip(rows[i].type, x, 32, y);
        for (int c = 0; c < 32; c++)
            cr_expect_eq(bits_of_f32(x[c]), bits_of_f32(y[c]), "%s[%d]: %g, not %g",
                         dtype_name(rows[i].type), c, (double)y[c], (double)x[c]);
    }
}

/* What was quantised once loses little when it is quantised again. */
Test(quant_encode, a_second_time)
{
    enum { N = 64 * 256 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *z = malloc(N * sizeof *z);
    cr_assert(x && y && z);
    for (size_t i = 0; i < N; i++)
        x[i] = normal();
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        round_trip(types[i].type, x, N, y);
        round_trip(types[i].type, y, N, z);
        cr_expect_lt(relative_error(y, z, N), 0.5 * relative_error(x, y, N), "%s: %g after %g",
                     dtype_name(types[i].type), relative_error(y, z, N), relative_error(x, y, N));
    }
    free(x);
    free(y);
    free(z);
}

Test(quant_encode, zeros_and_extremes)
{
    static const float values[] = {0, 1e-30f, 1e-6f, 65504, 1e6f, -1e6f};
    float x[256], y[256];
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        for (size_t v = 0; v < ARRAY_LEN(values); v++) {
            for (int c = 0; c < 256; c++)
                x[c] = c % 3 ? values[v] : 0;
            round_trip(types[i].type, x, 256, y);
            for (int c = 0; c < 256; c++) {
                cr_assert(isfinite(y[c]), "%s of %g", dtype_name(types[i].type), (double)values[v]);
                if (fabsf(values[v]) <= 65504)
                    cr_assert(fabsf(y[c] - x[c]) <= 0.1f * fabsf(values[v]) + 1e-6f,
                              "%s: %g, not %g", dtype_name(types[i].type), (double)y[c],
                              (double)x[c]);
            }
        }
    }
}

/* A constant row, and one of one sign: the minimum must serve. */
Test(quant_encode, rows_of_one_sign)
{
    float x[256], y[256];
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int c = 0; c < 256; c++)
                x[c] = (float)sign * (5 + 0.01f * (float)(c % 32));
            round_trip(types[i].type, x, 256, y);
            cr_expect_lt(relative_error(x, y, 256), 0.06, "%s, sign %d: %g",
                         dtype_name(types[i].type), sign, relative_error(x, y, 256));
        }
    }
}

Test(quant_encode, which_types)
{
    int n = 0;
    for (int t = 0; t < DT_N; t++) {
        n += quant_can_encode((enum dtype)t);
        cr_expect(!quant_can_encode((enum dtype)t) || quant_form((enum dtype)t) != NULL);
    }
    cr_expect_eq(n, (int)ARRAY_LEN(types));
}
