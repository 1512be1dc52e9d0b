#include "worker/model/rope.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* Waves shorter than original_ctx / high_freq_factor stay, those longer than original_ctx /
 * low_freq_factor are stretched, between them the two are blended. */
static double llama3(const struct rope_config *rc, double f)
{
    double turns = rc->original_ctx * f / two_pi; /* in the original context */
    if (turns < rc->low_freq_factor)
        return f / rc->factor;
    if (turns >= rc->high_freq_factor) /* Llama 4 has one factor: nothing is between them */
        return f;
    double keep = (turns - rc->low_freq_factor) / (rc->high_freq_factor - rc->low_freq_factor);
    return (1 - keep) * f / rc->factor + keep * f;
}

/* The index (as a real number) of the pair that makes that many turns in the original context. */
static double pair_of_turns(const struct rope_config *rc, double turns)
{
    return rc->rot_dim * log(rc->original_ctx / (turns * two_pi)) / (2 * log(rc->theta));
}

static double yarn(const struct rope_config *rc, int32_t i, double f)
{
    double low = pair_of_turns(rc, rc->beta_fast), high = pair_of_turns(rc, rc->beta_slow);
    if (rc->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > rc->rot_dim - 1 ? rc->rot_dim - 1 : high;
    if (low == high)
        high += 0.001; /* a step instead of a ramp */
    double stretch = clamp01((i - low) / (high - low));
    return f * (1 - stretch) + f / rc->factor * stretch;
}

void rope_frequencies(const struct rope_config *rc, int32_t max_ctx, double *out)
{
    bool far = max_ctx > rc->original_ctx;
    for (int32_t i = 0; i < rc->rot_dim / 2; i++) {
        double f = pow(rc->theta, -2.0 * i / rc->rot_dim);
        switch (rc->type) {
        case ROPE_PLAIN:
            out[i] = f;
            break;
        case ROPE_LINEAR:
            out[i] = f / rc->factor;
            break;
        case ROPE_LLAMA3:
            out[i] = llama3(rc, f);
            break;
        case ROPE_YARN:
            out[i] = yarn(rc, i, f);
            break;
        case ROPE_LONGROPE:
            out[i] = f / (double)(far ? rc->long_divisor : rc->divisor)[i];
            break;
        case ROPE_DIVISORS:
            out[i] = rc->divisor[i] >= ROPE_NEVER ? 0 : f / (double)rc->divisor[i];
            break;
        }
    }
}

void rope_q_scales(const struct rope_config *rc, int32_t first, int32_t n, float *out)
{
    for (int32_t p = 0; p < n; p++)
        out[p] = (float)(1 + rc->q_beta * log(1 + floor((first + p + rc->q_first) / rc->q_floor)));
}

void rope_rows(const struct rope_config *rc, const double *frequency, int32_t first, int32_t n,
               float *cos_out, float *sin_out)
{
    int32_t half = rc->rot_dim / 2;
    for (int32_t p = 0; p < n; p++) {
        for (int32_t i = 0; i < half; i++) {
            double angle = (first + p) * frequency[i];
            cos_out[(size_t)p * (size_t)half + (size_t)i] =
                (float)(cos(angle) * rc->attention_factor);
            sin_out[(size_t)p * (size_t)half + (size_t)i] =
                (float)(sin(angle) * rc->attention_factor);
        }
    }
}
