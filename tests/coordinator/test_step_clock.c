/* Deadlines of steps: they follow what the plan computes and what steps have taken. */
#include <criterion/criterion.h>

#include "coordinator/step_clock.h"

static const struct step_limits limits = {.least_us = 3000000, .first_us = 120000000};

/* A made-up group: 1 ms a step, 1 ms a decode, 2 ms a prompt token. */
static uint64_t time_of(const struct cost_load *l)
{
    return 1000U + 1000U * (uint64_t)l->n_decodes + 2000U * (uint64_t)l->n_prompt;
}

static struct cost_load decodes(uint32_t n)
{
    struct cost_load l = {0};
    for (uint32_t i = 0; i < n; i++)
        cost_add_decode(&l, 10);
    return l;
}

static struct cost_load prompt(uint32_t n)
{
    struct cost_load l = {0};
    cost_add_prompt(&l, 0, n);
    return l;
}

static void run(struct step_clock *c, int n)
{
    for (int i = 0; i < n; i++) {
        struct cost_load l = i % 3 ? decodes(1 + (uint32_t)i % 8) : prompt(1 + (uint32_t)i % 50);
        step_clock_learn(c, &l, time_of(&l));
    }
}

Test(step_clock, the_first_group_has_the_first_deadline_for_three_steps)
{
    struct step_clock c;
    struct cost_load l = decodes(8);
    step_clock_init(&c, NULL);
    for (int i = 0; i < STEP_TRUSTED; i++) {
        cr_assert_eq(step_clock_limit_us(&c, &l, &limits), limits.first_us);
        step_clock_learn(&c, &l, time_of(&l));
    }
    cr_assert_eq(step_clock_limit_us(&c, &l, &limits), limits.least_us);
}

Test(step_clock, a_group_after_another_one_is_expected_to_be_as_fast)
{
    struct step_clock first, second;
    struct cost_load l = decodes(8);
    step_clock_init(&first, NULL);
    run(&first, 100);
    step_clock_init(&second, &first);
    cr_assert_eq(step_clock_limit_us(&second, &l, &limits), limits.least_us);
}

Test(step_clock, a_long_prompt_has_more_time)
{
    struct step_clock c;
    step_clock_init(&c, NULL);
    run(&c, 100);
    for (uint32_t n = 64; n <= 65536; n *= 4) {
        struct cost_load l = prompt(n);
        uint64_t limit = step_clock_limit_us(&c, &l, &limits), takes = time_of(&l);
        cr_assert(
            limit == limits.least_us ? takes < limit / 2 : limit > 5 * takes && limit < 20 * takes,
            "%u tokens: %llu of %llu us", n, (unsigned long long)takes, (unsigned long long)limit);
    }
}

Test(step_clock, one_slow_step_is_forgotten)
{
    struct step_clock c;
    struct cost_load l = decodes(8);
    step_clock_init(&c, NULL);
    run(&c, 100);
    step_clock_learn(&c, &l,
                     30000000); /* 30 s, as on a machine that was busy with something else */
    uint64_t at_once = step_clock_limit_us(&c, &l, &limits);
    cr_assert_geq(at_once, 100000000, "the next one may be slow too");
    run(&c, 100);
    cr_assert_eq(step_clock_limit_us(&c, &l, &limits), limits.least_us);
}

Test(step_clock, groups_that_are_always_slow_have_time)
{
    struct step_clock c;
    struct cost_load l = decodes(8);
    step_clock_init(&c, NULL);
    for (int i = 0; i < 100; i++) {
        step_clock_learn(&c, &l, 2000000);
        cr_assert_geq(step_clock_limit_us(&c, &l, &limits), 10000000);
    }
}

Test(step_clock, deadlines_double_while_groups_are_lost_by_them)
{
    struct step_clock c;
    struct cost_load l = decodes(8);
    struct step_limits late = limits;
    step_clock_init(&c, NULL);
    run(&c, 100);
    for (late.n_late = 0; late.n_late <= STEP_MAX_DOUBLINGS; late.n_late++)
        cr_assert_eq(step_clock_limit_us(&c, &l, &late), limits.least_us << late.n_late);
    cr_assert_eq(step_clock_limit_us(&c, &l, &late), limits.least_us << STEP_MAX_DOUBLINGS);
}

Test(step_clock, the_load_of_a_plan)
{
    struct plan_seq seqs[] = {
        {.n_tokens = 1, .pos = 7}, {.n_tokens = 3}, {.n_tokens = 2, .pos = 4}};
    struct step_plan plan = {.n_seqs = 3, .n_tokens = 6, .seqs = seqs};
    struct cost_load l = step_clock_load(&plan);
    cr_assert_eq(l.n_decodes, 1);
    cr_assert_eq(l.read, 7 + 0 + 4);
    cr_assert_eq(l.n_prompt, 5);
    cr_assert_eq(l.prompt_ctx, 0 + 1 + 2 + 4 + 5);
}
