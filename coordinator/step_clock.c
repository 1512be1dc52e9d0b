#include "coordinator/step_clock.h"

enum { SLOW_FADE = 16 };

void step_clock_init(struct step_clock *c, const struct step_clock *known)
{
    *c = (struct step_clock){.n = 0};
    cost_init(&c->cost);
    if (known)
        *c = *known;
}

struct cost_load step_clock_load(const struct step_plan *plan)
{
    struct cost_load load = {0};
    for (uint32_t i = 0; i < plan->n_seqs; i++) {
        const struct plan_seq *s = &plan->seqs[i];
        if (s->n_tokens == 1 && s->pos > 0)
            cost_add_decode(&load, s->pos);
        else
            cost_add_prompt(&load, s->pos, s->n_tokens);
    }
    return load;
}

uint64_t step_clock_limit_us(const struct step_clock *c, const struct cost_load *load,
                             const struct step_limits *limits)
{
    uint32_t doublings = limits->n_late < STEP_MAX_DOUBLINGS ? limits->n_late : STEP_MAX_DOUBLINGS;
    uint64_t expected = (uint64_t)cost_of(&c->cost, load);
    if (expected < c->slow_us)
        expected = c->slow_us;
    uint64_t limit = c->n < STEP_TRUSTED ? limits->first_us : STEP_PATIENCE * expected;
    return (limit > limits->least_us ? limit : limits->least_us) << doublings;
}

void step_clock_learn(struct step_clock *c, const struct cost_load *load, uint64_t us)
{
    c->n++;
    cost_learn(&c->cost, load, us);
    c->slow_us -= c->slow_us / SLOW_FADE;
    if (us > c->slow_us)
        c->slow_us = us;
}
