#include "coordinator/sched/cost.h"

#include <math.h>

/* Spread of the coefficients before the first measurement: only their ratios matter.  A token costs
 * a quarter of a step's fixed part, and as much again for every thousand positions. */
static const double first_spread[COST_TERMS] = {1e6, 0.25e6, 0.25e6, 0.25e3, 0.25e3};

enum { CLIP = 3 };
static const double walk = 0.01, noise = 0.1, least_error = 0.05, forget = 1.0 / 16;

void cost_init(struct cost_model *m)
{
    *m = (struct cost_model){.error = 1.0};
    for (int i = 0; i < COST_TERMS; i++)
        m->p[i][i] = first_spread[i] * first_spread[i];
}

void cost_add_decode(struct cost_load *l, uint32_t pos)
{
    l->n_decodes++;
    l->read += pos;
}

/* Positions pos, pos + 1, ... */
static uint64_t context_of(uint32_t pos, uint32_t n)
{
    return (uint64_t)pos * n + (uint64_t)n * (n ? n - 1 : 0) / 2;
}

void cost_add_prompt(struct cost_load *l, uint32_t pos, uint32_t n)
{
    l->n_prompt += n;
    l->read += pos;
    l->prompt_ctx += context_of(pos, n);
}

static void terms_of(const struct cost_load *l, double x[COST_TERMS])
{
    x[0] = 1.0;
    x[1] = l->n_decodes;
    x[2] = l->n_prompt;
    x[3] = (double)l->read;
    x[4] = (double)l->prompt_ctx;
}

/* A coefficient as it is used: the filter may hold one slightly below 0. */
static double coefficient(const struct cost_model *m, int i)
{
    return m->c[i] > 0.0 ? m->c[i] : 0.0;
}

double cost_of(const struct cost_model *m, const struct cost_load *l)
{
    double x[COST_TERMS], sum = 0.0;
    terms_of(l, x);
    for (int i = 0; i < COST_TERMS; i++)
        sum += coefficient(m, i) * x[i];
    return sum;
}

double cost_of_prompt(const struct cost_model *m, uint32_t pos, uint32_t n)
{
    if (n == 0)
        return 0.0;
    return coefficient(m, 2) * n + coefficient(m, 3) * pos +
           coefficient(m, 4) * (double)context_of(pos, n);
}

/* The n of a n^2 + b n = us, less the context read; that takes at most half. */
uint32_t cost_fit(const struct cost_model *m, uint32_t pos, double us, uint32_t most)
{
    double a = coefficient(m, 4) / 2, b = coefficient(m, 2) + coefficient(m, 4) * pos - a;
    double read = coefficient(m, 3) * pos;
    us -= read < us / 2 ? read : us / 2;
    if (us <= 0.0)
        return 0;
    double root = b + sqrt(b * b + 4 * a * us);
    double n = 2 * us / root;
    return n < most ? (uint32_t)n : most; /* also where nothing is known: n is infinite or NaN */
}

uint32_t cost_efficient(const struct cost_model *m, uint32_t most, double loss)
{
    double c0 = coefficient(m, 0), n = c0 / (loss * coefficient(m, 2) + c0 / most);
    return n < most ? (uint32_t)n : most;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

void cost_learn(struct cost_model *m, const struct cost_load *l, uint64_t us)
{
    double x[COST_TERMS], px[COST_TERMS], y = (double)us, guess = 0.0, spread = 0.0;
    if (us == 0)
        return;
    terms_of(l, x);
    for (int i = 0; i < COST_TERMS; i++)
        guess += m->c[i] * x[i];
    double error = y - guess, size = fabs(error) / (guess > y ? guess : y);
    double clip = (double)CLIP * m->error * (guess > y ? guess : y);
    if (m->n > 0) {
        m->error += forget * (least(size, 4 * m->error) - m->error);
        m->error = m->error < least_error ? least_error : m->error;
        error = error > clip ? clip : error < -clip ? -clip : error;
    }

    for (int i = 0; i < COST_TERMS; i++)
        m->p[i][i] += walk * walk * m->c[i] * m->c[i];
    for (int i = 0; i < COST_TERMS; i++) {
        px[i] = 0.0;
        for (int k = 0; k < COST_TERMS; k++)
            px[i] += m->p[i][k] * x[k];
        spread += px[i] * x[i];
    }
    spread += noise * noise * y * y;
    for (int i = 0; i < COST_TERMS; i++) {
        m->c[i] += px[i] / spread * error;
        for (int k = 0; k <= i; k++) {
            m->p[i][k] -= px[i] * px[k] / spread;
            m->p[k][i] = m->p[i][k];
        }
    }
    m->n++;
}
