/* Tenants, priorities and turns, planned by time: see Order and Turns in sched.h. */
#include <criterion/criterion.h>

#include "sched/steps.h"

enum { TURN = 6 };

static struct sched_config turns(void)
{
    struct sched_config cfg = config();
    cfg.max_seqs = 2;
    cfg.n_blocks = 400;
    cfg.target_itl_us = SCHED_AUTO;
    cfg.max_step_us = SCHED_AUTO;
    cfg.prefill_loss_pct = 4;
    cfg.target_of_all = true;
    cfg.overtake = 100;
    cfg.turn_tokens = TURN;
    return cfg;
}

static void submit_of(uint64_t id, uint64_t tenant, int32_t priority, uint32_t max_new)
{
    struct sched_req r = request(id, 100 * (int32_t)id, 5, max_new);
    r.tenant = tenant;
    r.priority = priority;
    submit(r);
}

/* The ids in the order in which they were admitted, until all have ended. */
static uint32_t order_of_starts(uint64_t *ids)
{
    uint32_t n = 0;
    for (int i = 0; make_plan(); i++) {
        cr_assert_lt(i, 10000);
        for (uint32_t k = 0; k < n_fx; k++)
            if (fx[k].kind == FX_ADMITTED)
                ids[n++] = fx[k].seq_id;
        commit();
    }
    return n;
}

/* One tenant's twenty requests, then two of another: they alternate. */
Test(sched_turns, tenants_alternate)
{
    uint64_t ids[30];
    struct sched_config cfg = turns();
    cfg.max_seqs = 1;
    cfg.turn_tokens = 0;
    start(cfg);
    for (uint64_t id = 1; id <= 20; id++)
        submit_of(id, 1, 0, 2);
    step();
    submit_of(21, 2, 0, 2);
    submit_of(22, 2, 0, 2);
    cr_assert_eq(order_of_starts(ids), 21u);
    uint32_t at[2] = {0};
    for (uint32_t k = 0; k < 21; k++)
        if (ids[k] > 20)
            at[ids[k] - 21] = k;
    cr_assert(at[0] <= 2 && at[1] <= 4, "places %u and %u of 21", at[0], at[1]);
}

/* A prompt of several quanta uses up as many turns. */
Test(sched_turns, long_prompts_count_more)
{
    uint64_t ids[30];
    struct sched_config cfg = turns();
    cfg.max_seqs = 1;
    cfg.turn_tokens = 0;
    cfg.prefix_cache = false;
    start(cfg);
    submit_of(1, 9, 0, 2);
    step();
    for (uint64_t id = 2; id <= 4; id++) {
        struct sched_req r = request(id, 5, 300, 1); /* two quanta */
        r.tenant = 1;
        submit(r);
    }
    for (uint64_t id = 10; id < 16; id++)
        submit_of(id, 2, 0, 1);
    cr_assert_eq(order_of_starts(ids), 9u);
    const uint64_t want[] = {2, 10, 11, 3, 12, 13, 4, 14, 15};
    for (uint32_t k = 0; k < 9; k++)
        cr_assert_eq(ids[k], want[k], "place %u: %d", k, (int)ids[k]);
}

/* Requests that are cancelled give their turns back. */
Test(sched_turns, cancelled_turns_are_given_back)
{
    uint64_t ids[30];
    struct sched_config cfg = turns();
    cfg.max_seqs = 1;
    cfg.turn_tokens = 0;
    start(cfg);
    for (uint64_t id = 1; id <= 20; id++)
        submit_of(id, 1, 0, 2);
    step();
    for (uint64_t id = 3; id <= 20; id++)
        sched_cancel(s, id);
    for (uint64_t id = 21; id <= 24; id++)
        submit_of(id, 2, 0, 2);
    submit_of(25, 1, 0, 2);
    cr_assert_eq(order_of_starts(ids), 6u);
    cr_assert(ids[5] != 25, "it waits behind turns of cancelled requests");
}

/* A newcomer's first token does not wait for the longest answer, and each turn has its tokens. */
Test(sched_turns, running_sequences_take_turns)
{
    struct sched_stats st;
    uint32_t n_since[5] = {0};
    start(turns());
    for (uint64_t id = 1; id <= 4; id++)
        submit_of(id, id, 0, 60);
    for (int i = 0; make_plan(); i++) {
        cr_assert_lt(i, 1000);
        for (uint64_t id = 1; id <= 4; id++) {
            if (effect(FX_PREEMPTED, id)) {
                cr_assert_geq(n_since[id], (uint32_t)TURN, "paused after %u tokens", n_since[id]);
                n_since[id] = 0;
            }
            if (i == 4 * TURN)
                cr_assert_neq(tokens[id][5], 0, "sequence %d has not begun", (int)id);
        }
        commit();
        for (uint64_t id = 1; id <= 4; id++)
            n_since[id] += effect(FX_TOKEN, id) != NULL;
    }
    sched_stats(s, &st);
    cr_assert_geq(st.pauses, 10u);
    cr_assert_eq(st.preemptions, 0u);
    for (uint64_t id = 1; id <= 4; id++)
        for (uint32_t k = 5; k < 65; k++)
            cr_assert_eq(tokens[id][k], 1000 + (int32_t)k);
    /* at most a block each time, of 4 tokens */
    cr_assert_leq(st.tokens_computed, 4 * 65 + 4 * st.pauses);
}

/* With turn_tokens 0 none is paused. */
Test(sched_turns, turns_can_be_off)
{
    struct sched_stats st;
    struct sched_config cfg = turns();
    cfg.turn_tokens = 0;
    start(cfg);
    for (uint64_t id = 1; id <= 4; id++)
        submit_of(id, id, (int32_t)id, 60);
    finish_all();
    sched_stats(s, &st);
    cr_assert_eq(st.pauses, 0u);
}

/* An urgent request displaces one of lower priority after turn_tokens, not before, and not one of
 * its own priority; what was displaced goes on afterwards. */
Test(sched_turns, priority_displaces)
{
    struct sched_stats st;
    start(turns());
    submit_of(1, 1, 0, 100);
    submit_of(2, 2, 9, 100);
    step();
    submit_of(3, 3, 9, 3);
    for (int i = 0;; i++) {
        cr_assert(make_plan());
        cr_assert_null(effect(FX_PREEMPTED, 2));
        bool over = share_of(3) != NULL;
        commit();
        if (over)
            break;
        cr_assert_lt(i, TURN + 1, "it waits");
    }
    sched_stats(s, &st);
    cr_assert_eq(st.pauses, 1u);
    finish_all();
    for (uint32_t k = 5; k < 105; k++)
        cr_assert_eq(tokens[1][k], 1000 + (int32_t)k);
}

/* Blocks are short, not places: the one of lower priority makes room. */
Test(sched_turns, priority_displaces_for_blocks)
{
    struct sched_config cfg = turns();
    cfg.n_blocks = 30;
    cfg.max_seqs = 8;
    start(cfg);
    struct sched_req low = request(1, 10, 90, 20);
    submit(low);
    step();
    step();
    struct sched_req high = request(2, 3000, 60, 3);
    high.priority = 5;
    submit(high);
    for (int i = 0; !effect(FX_FINISHED, 2); i++) {
        cr_assert_lt(i, 30);
        step();
    }
    cr_assert_null(effect(FX_FINISHED, 1));
    finish_all();
    cr_assert_eq(tokens[1][109], 1109);
}

/* A permanent load of urgent requests: the low one starts within the bound of sched.h, and ends. */
Test(sched_turns, urgent_requests_do_not_stop_others)
{
    struct sched_config cfg = turns();
    uint64_t n_started = 0;
    cfg.max_seqs = 1;
    cfg.overtake = 3;
    start(cfg);
    submit_of(1, 1, 2, 10);
    step();
    submit_of(39, 2, 0, 20);
    bool live[10] = {false, true};
    for (int i = 0;; i++) {
        cr_assert_lt(i, 5000, "it does not end");
        for (uint64_t id = 1; id < 4; id++)
            if (!live[id]) {
                submit_of(id, 1, 2, 10);
                live[id] = true;
            }
        cr_assert(make_plan());
        if (effect(FX_ADMITTED, 39))
            cr_assert_leq(n_started, 1u + (0 + 1 + 3 * 2) * 2u);
        for (int part = 0; part < 2; part++) {
            for (size_t k = 0; k < n_fx; k++) {
                n_started += fx[k].kind == FX_ADMITTED;
                if (fx[k].kind == FX_FINISHED && fx[k].seq_id < 10)
                    live[fx[k].seq_id] = false;
            }
            if (effect(FX_FINISHED, 39))
                return;
            if (part == 0)
                commit();
        }
    }
}
