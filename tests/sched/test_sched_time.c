/* What sched.h promises about steps that are planned by time: their size, and how prompts share
 * them.  sched_check, which each step calls, knows the same bounds. */
#include <criterion/criterion.h>

#include "sched/steps.h"

static struct sched_config timed(void)
{
    struct sched_config cfg = config();
    cfg.max_seqs = 16;
    cfg.max_step_tokens = 256;
    cfg.n_blocks = 2000;
    cfg.prefix_cache = false; /* prompts of these tests look alike */
    cfg.target_itl_us = SCHED_AUTO;
    cfg.max_step_us = SCHED_AUTO;
    cfg.prefill_loss_pct = 4;
    cfg.target_of_all = true;
    return cfg;
}

/* n sequences that decode, ids from 1 on; the costs are known then. */
static void decode(struct sched_config cfg, uint32_t n)
{
    start(cfg);
    for (uint64_t id = 1; id <= n; id++)
        submit_plain(id, 100 * (int32_t)id, 7 + (uint32_t)id, 380);
    for (int i = 0; i < 30; i++)
        step();
}

static uint32_t prompt_tokens(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan.n_seqs; i++)
        n += plan.seqs[i].n_tokens > 1 ? plan.seqs[i].n_tokens : 0;
    return n;
}

/* Four decodes take 360 us: with a prompt the step takes about 900. */
Test(sched_time, a_long_prompt_leaves_the_decodes_their_pace)
{
    decode(timed(), 4);
    cr_assert_eq(step_us, 360u);
    submit_plain(9, 5000, 390, 1);
    for (int i = 0; i < 12; i++) {
        step();
        for (uint64_t id = 1; id <= 4; id++)
            cr_assert(share_of(id));
        cr_assert(share_of(9) && share_of(9)->n_tokens > 1);
        cr_assert_leq(step_us, 360u * 3, "step %d takes %d us", i, (int)step_us);
        if (i > 3)
            cr_assert_geq(step_us, 360u * 2, "step %d takes %d us", i, (int)step_us);
    }
}

/* Two decodes take 280 us, sixteen 840: the prompts have the time of 2.5 steps of sixteen. */
Test(sched_time, many_prompts_do_not_wait_for_few_decodes)
{
    for (int of_all = 0; of_all < 2; of_all++) {
        struct sched_config cfg = timed();
        cfg.target_of_all = of_all;
        decode(cfg, 2);
        for (uint64_t id = 10; id < 24; id++)
            submit_plain(id, 900, 8, 9);
        step();
        cr_assert(of_all ? prompt_tokens() >= 56 : prompt_tokens() <= 28,
                  "%d: %u prompt tokens, %d us", of_all, prompt_tokens(), (int)step_us);
        cr_assert(step_us > (of_all ? 1400 : 500) && step_us < (of_all ? 2500 : 1000), "%d: %d us",
                  of_all, (int)step_us);
    }
}

Test(sched_time, a_target_is_kept_and_has_a_floor)
{
    struct sched_config cfg = timed();
    cfg.target_itl_us = 2000;
    decode(cfg, 4);
    submit_plain(9, 5000, 390, 1);
    for (int i = 0; i < 3; i++)
        step();
    cr_assert(step_us > 1800 && step_us < 2200, "%d us", (int)step_us);

    cfg.target_itl_us = 1; /* a quarter of the step for the prompt all the same */
    decode(cfg, 4);
    submit_plain(9, 5000, 390, 1);
    for (int i = 0; i < 5; i++)
        step();
    cr_assert(prompt_tokens() >= 4 && step_us < 600, "%u tokens, %d us", prompt_tokens(),
              (int)step_us);
}

Test(sched_time, without_decodes)
{
    struct sched_config cfg = timed();
    decode(cfg, 4);
    finish_all();
    submit_plain(9, 5000, 390, 1);
    step(); /* 200 us of 20 a token: 2 % of a token more than in steps of 256 */
    cr_assert(prompt_tokens() >= 64 && prompt_tokens() <= 256);
    sched_cancel(s, 9);
    cfg.max_step_us = 1000;
    decode(cfg, 4);
    finish_all();
    submit_plain(9, 5000, 390, 1);
    step();
    cr_assert(prompt_tokens() >= 30 && prompt_tokens() <= 45, "%u", prompt_tokens());
}

/* A short prompt passes a long one, which goes on beside it; the long one has its quarter of every
 * step for ever. */
Test(sched_time, short_prompts_pass_long_ones)
{
    decode(timed(), 2);
    submit_plain(9, 5000, 390, 1);
    step();
    uint32_t all = share_of(9)->n_tokens;
    for (uint64_t id = 20; id < 30; id++) {
        submit_plain(id, 300 * (int32_t)id, 6, 1);
        step();
        cr_assert(share_of(id) && share_of(id)->want == WANT_LAST, "a short one waits");
        if (!share_of(9))
            break;
        cr_assert_geq(share_of(9)->n_tokens, all / 4 - 1);
    }
}

static uint64_t steps_until_token(uint64_t id)
{
    for (uint64_t n = 1;; n++) {
        cr_assert(make_plan());
        commit();
        if (effect(FX_TOKEN, id))
            return n;
        cr_assert_lt(n, 2000u);
    }
}

/* The bounds of sched.h, with b from the first step, for prompts of random lengths at once. */
Test(sched_time, prompts_end_within_their_bounds)
{
    uint64_t dice = 7;
    for (int run = 0; run < 60; run++) {
        uint32_t len[10], b, a = 0, shorter = 0, n_decodes = 1 + (uint32_t)run % 4;
        decode(timed(), n_decodes);
        for (uint64_t k = 0; k < 10; k++) {
            dice = dice * 6364136223846793005U + 1442695040888963407U;
            len[k] = 2 + (uint32_t)(dice >> 33) % 200;
            submit_plain(20 + k, 400 * (int32_t)(k + 1), len[k], 1);
        }
        uint32_t watched = (uint32_t)run % 10;
        for (uint32_t k = 0; k < 10; k++) {
            a += k <= watched ? len[k] : 0;
            shorter += len[k] <= len[watched] ? len[k] : 0;
        }
        b = 3 * (200 + 40 * n_decodes) / 2 / 20 * 3 / 4; /* the costs are learned, not known */
        uint32_t quarter = b / 4 ? b / 4 : 1;
        uint32_t by_order = (a + quarter - 1) / quarter + 11;
        uint32_t by_length = (shorter + quarter - 1) / quarter + 11;
        uint64_t took = steps_until_token(20 + watched);
        cr_assert_leq(took, by_order < by_length ? by_order : by_length,
                      "run %d: %d steps, bounds %u and %u", run, (int)took, by_order, by_length);
    }
}

/* A permanent load of short prompts does not stop a long one. */
Test(sched_time, a_long_prompt_ends_under_load)
{
    decode(timed(), 2);
    submit_plain(9, 5000, 390, 1);
    uint64_t id = 20, n = 0;
    for (;; n++) {
        cr_assert_lt(n, 300u, "it does not end");
        while (id < 30) /* ten short ones at any time */
            submit_plain(id, 10, 30, 1), id++;
        step();
        if (effect(FX_TOKEN, 9))
            break;
        for (uint64_t k = 20; k < 30; k++)
            if (effect(FX_FINISHED, k))
                submit_plain(k, 10, 30, 1);
    }
}

/* Behind a long step of prompts alone no second one is planned; behind other steps one is. */
Test(sched_time, a_newcomer_waits_for_one_long_step)
{
    struct sched_config cfg = timed();
    cfg.max_inflight = 2;
    cfg.max_step_us = 20000;
    start(cfg);
    for (int i = 0; i < 4; i++) {
        submit_plain(1, 50, 10 + (uint32_t)i, 3);
        finish_all();
    }
    submit_plain(9, 5000, 390, 1);
    cr_assert(make_plan());
    cr_assert_eq(plan.n_tokens, 256u);
    bool second = make_plan();
    cr_assert_eq(second, cost_us() < 32 * 200u);
}
