/* The cost model finds the coefficients of steps that are roughly linear, whatever single steps took. */
#include <criterion/criterion.h>
#include <math.h>

#include "coordinator/sched/cost.h"

static const double real[COST_TERMS] = {180, 35, 110, 0.002, 0.04};
static uint64_t dice;

static uint32_t roll(uint32_t n)
{
    dice = dice * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(dice >> 33) % n;
}

static double time_of(const struct cost_load *l)
{
    return real[0] + real[1] * l->n_decodes + real[2] * l->n_prompt + real[3] * (double)l->read +
           real[4] * (double)l->prompt_ctx;
}

/* Decodes, and in one of four steps a chunk of a prompt. */
static struct cost_load some_load(void)
{
    struct cost_load l = {0};
    for (uint32_t i = 0, n = 1 + roll(32); i < n; i++)
        cost_add_decode(&l, roll(2000));
    if (roll(4) == 0)
        cost_add_prompt(&l, 64 * roll(60), 1 + roll(128));
    return l;
}

static double worst_error(const struct cost_model *m)
{
    double worst = 0;
    for (int i = 0; i < 200; i++) {
        struct cost_load l = some_load();
        double e = fabs(cost_of(m, &l) / time_of(&l) - 1);
        worst = e > worst ? e : worst;
    }
    return worst;
}

/* noise_pct: each time is off by up to that; every n_outlier-th step takes 30 times as long (0: none) */
static void train(struct cost_model *m, int n, uint32_t noise_pct, int n_outlier, double factor)
{
    for (int i = 0; i < n; i++) {
        struct cost_load l = some_load();
        double us =
            factor * time_of(&l) * (100 + (double)roll(2 * noise_pct + 1) - noise_pct) / 100;
        if (n_outlier && i % n_outlier == n_outlier - 1)
            us *= 30;
        cost_learn(m, &l, (uint64_t)us);
    }
}

Test(cost, learns)
{
    struct cost_model m;
    dice = 1;
    cost_init(&m);
    cr_assert_not(cost_known(&m));
    train(&m, 100, 0, 0, 1);
    cr_assert_lt(worst_error(&m), 0.05, "%g", worst_error(&m));
    train(&m, 200, 10, 0, 1);
    cr_assert_lt(worst_error(&m), 0.15, "%g", worst_error(&m));
}

Test(cost, single_steps_change_little)
{
    struct cost_model m;
    dice = 2;
    cost_init(&m);
    train(&m, 100, 5, 0, 1);
    train(&m, 1000, 5, 20, 1);
    cr_assert_lt(worst_error(&m), 0.5, "%g", worst_error(&m));
}

Test(cost, a_lasting_change_is_followed)
{
    struct cost_model m;
    dice = 3;
    cost_init(&m);
    train(&m, 300, 5, 0, 1);
    train(&m, 150, 5, 0, 3);
    for (int i = 0; i < 50; i++) {
        struct cost_load l = some_load();
        double ratio = cost_of(&m, &l) / time_of(&l);
        cr_assert(ratio > 2.2 && ratio < 3.8, "%g", ratio);
    }
}

Test(cost, fit_and_time_agree)
{
    struct cost_model m;
    dice = 4;
    cost_init(&m);
    cr_assert_eq(cost_fit(&m, 0, 1000, 77), 77u, "nothing is known: no bound");
    train(&m, 200, 0, 0, 1);
    for (uint32_t pos = 0; pos < 5000; pos += 700)
        for (double us = 1; us < 1e5; us *= 3) {
            uint32_t n = cost_fit(&m, pos, us, 1u << 20);
            double read = cost_of_prompt(&m, pos, 1) - cost_of_prompt(&m, 0, 1) - real[4] * pos;
            if (read > us / 3)
                continue;
            cr_assert(n == 0 || cost_of_prompt(&m, pos, n) <= us * (1 + 1e-9));
            cr_assert_gt(cost_of_prompt(&m, pos, n + 1), us * (1 - 1e-9));
        }
    cr_assert_eq(cost_fit(&m, 0, 1e9, 50), 50u);
    m.c[3] = 1; /* context that takes more than the time: half of it is there all the same */
    cr_assert_eq(cost_fit(&m, 3000, 1000, 50),
                 (uint32_t)(500 / (cost_of_prompt(&m, 3000, 2) - cost_of_prompt(&m, 3000, 1))));
    cr_assert_eq(cost_fit(&m, 0, -1, 50), 0u);
    cr_assert_eq(cost_of_prompt(&m, 100, 0), 0.0);
}

/* c0 / n is at most 2 % of c2 above c0 / most. */
Test(cost, efficient_steps)
{
    struct cost_model m;
    dice = 5;
    cost_init(&m);
    cr_assert_eq(cost_efficient(&m, 512, 0.02), 512u);
    train(&m, 300, 0, 0, 1);
    uint32_t n = cost_efficient(&m, 512, 0.02);
    double loss = (real[0] / n - real[0] / 512) / real[2];
    cr_assert(loss > 0.015 && loss < 0.025, "%u tokens: %g", n, loss);
}

/* Times of nothing and impossible ones leave numbers behind. */
Test(cost, stays_finite)
{
    struct cost_model m;
    struct cost_load none = {0}, large = {UINT32_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX};
    cost_init(&m);
    cost_learn(&m, &none, 0);
    cr_assert_not(cost_known(&m));
    for (int i = 0; i < 2000; i++) {
        cost_learn(&m, i % 3 ? &large : &none, i % 5 ? UINT64_MAX : 1);
        cr_assert(isfinite(cost_of(&m, &large)) && cost_of(&m, &none) >= 0);
        cr_assert_leq(cost_fit(&m, 1u << 30, 1e300, 9), 9u);
        cr_assert_leq(cost_efficient(&m, 512, 0.02), 512u);
    }
}
