/* What sched.h promises about queue, order and budget, one rule at a time. */
#include <criterion/criterion.h>
#include <string.h>

#include "sched/steps.h"

Test(sched, bad_configurations)
{
    struct sched *none;
    struct {
        struct sched_config cfg;
        const char *names;
    } rows[] = {
        {config(), "max_seqs"},     {config(), "max_step_tokens"}, {config(), "n_blocks"},
        {config(), "block_len"},    {config(), "max_ctx"},         {config(), "max_waiting"},
        {config(), "max_inflight"}, {config(), "overtake"},        {config(), "overflow"}};
    rows[0].cfg.max_seqs = 0;
    rows[1].cfg.max_step_tokens = 0;
    rows[2].cfg.n_blocks = 0;
    rows[3].cfg.block_len = 0;
    rows[4].cfg.max_ctx = 1;
    rows[5].cfg.max_waiting = 0;
    rows[6].cfg.max_inflight = 3;
    rows[7].cfg.overtake = UINT32_MAX;
    rows[8].cfg.n_blocks = 1u << 28;
    rows[8].cfg.block_len = 1u << 16;
    rows[8].cfg.max_ctx = 1u << 30;
    rows[8].cfg.max_seqs = 65536;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (i == 8 && sched_bytes(&rows[8].cfg) > 0) { /* 64-bit: sizes are huge but exact */
            cr_assert_gt(sched_bytes(&rows[8].cfg), (size_t)1 << 40);
            continue;
        }
        cr_assert_eq(sched_bytes(&rows[i].cfg), 0u);
        cr_assert_eq(sched_create(&none, &rows[i].cfg), ST_RANGE);
        cr_assert_null(none);
        cr_assert(strstr(status_text(), rows[i].names), "'%s' lacks %s", status_text(),
                  rows[i].names);
    }
}

Test(sched, refusals_name_the_reason)
{
    struct sched_config cfg = config();
    cfg.n_blocks = 20; /* 80 tokens */
    cfg.max_waiting_tokens = 60;
    start(cfg);
    struct {
        struct sched_req r;
        const char *says;
    } rows[] = {{request(1, 5, 10, 10), "id 0"},     {request(1, 5, 10, 10), "no tokens"},
                {request(1, 5, 10, 10), "n_prompt"}, {request(1, 5, 10, 10), "max_new"},
                {request(1, 5, 50, 32), "blocks"},   {request(1, 5, 61, 1), "queue's bound"},
                {request(1, 5, 10, 10), "stop ids"}, {request(1, 5, 10, 10), "biases"}};
    rows[0].r.seq_id = 0;
    rows[1].r.n_tokens = 0;
    rows[2].r.n_prompt = 11;
    rows[3].r.max_new = 0;
    rows[6].r.n_stop_ids = 1; /* without an array */
    rows[7].r.n_bias = MAX_LOGIT_BIAS + 1;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(sched_submit(s, &rows[i].r), ST_RANGE, "row %zu", i);
        cr_assert(strstr(status_text(), rows[i].says), "'%s' lacks %s", status_text(),
                  rows[i].says);
    }
    struct sched_req r = request(1, 5, CTX, 1);
    cr_assert_eq(sched_submit(s, &r), ST_RANGE);
    submit_plain(1, 5, 50, 31); /* 80 in the cache: just fits */
    r = request(1, 5, 3, 3);
    cr_assert_eq(sched_submit(s, &r), ST_RANGE, "a live id was taken twice");
    r = request(2, 5, 11, 3);
    cr_assert_eq(sched_submit(s, &r), ST_BUSY, "61 tokens wait");
    submit_plain(2, 5, 10, 3);
}

Test(sched, queue_is_bounded)
{
    struct sched_config cfg = config();
    cfg.max_waiting = 2;
    start(cfg);
    submit_plain(1, 5, 3, 3);
    submit_plain(2, 5, 3, 3);
    struct sched_req r = request(3, 5, 3, 3);
    cr_assert_eq(sched_submit(s, &r), ST_BUSY);
    step(); /* both run now */
    submit_plain(3, 5, 3, 3);
}

Test(sched, ends_by_stop_id_length_and_context)
{
    struct sched_config cfg = config();
    int32_t stop[] = {7, 1012};
    cfg.max_ctx = 20;
    start(cfg);
    struct sched_req r = request(1, 5, 10, 50);
    r.stop_ids = stop;
    r.n_stop_ids = 2;
    submit(r);
    submit_plain(2, 60, 10, 2);
    submit_plain(3, 90, 16, 50);
    step(); /* tokens 1010, 1010, 1016 */
    cr_assert_eq(n_fx, 3u);
    step();
    cr_assert_eq(effect(FX_FINISHED, 2)->reason, FINISH_LENGTH);
    step();
    cr_assert_eq(effect(FX_FINISHED, 1)->reason, FINISH_STOP_ID);
    cr_assert_eq(effect(FX_TOKEN, 1)->token, 1012, "the stop id itself is told");
    step();
    cr_assert_eq(effect(FX_FINISHED, 3)->reason, FINISH_LENGTH, "the context is full");
    cr_assert_eq(tokens[3][19], 1019);
    cr_assert_not(make_plan());
}

Test(sched, prompts_are_cut_to_the_budget)
{
    struct sched_config cfg = config();
    cfg.max_step_tokens = 10;
    start(cfg);
    submit_plain(1, 0, 24, 5);
    const uint32_t n[] = {10, 10, 4};
    for (int i = 0; i < 3; i++) {
        cr_assert(make_plan());
        cr_assert_eq(plan.n_opens, i == 0 ? 1u : 0u);
        cr_assert_eq(plan.seqs[0].n_tokens, n[i]);
        cr_assert_eq(plan.seqs[0].want, i == 2 ? WANT_LAST : WANT_NONE);
        cr_assert_eq(plan.tokens[0], 10 * i);
        commit();
    }
}

/* Four decodes and a long prompt in a budget of 8: each gets its part in every step. */
Test(sched, long_prompts_and_decodes_share)
{
    struct sched_config cfg = config();
    cfg.max_step_tokens = 8;
    start(cfg);
    for (uint64_t id = 1; id <= 4; id++)
        submit_plain(id, (int32_t)id * 100, 2, 60);
    step();
    submit_plain(5, 900, 60, 1);
    for (int i = 0; i < 15; i++) {
        cr_assert(make_plan());
        for (uint64_t id = 1; id <= 4; id++)
            cr_assert(share_of(id), "a decode waits for a prompt");
        cr_assert_eq(share_of(5)->n_tokens, 4u);
        commit();
    }
}

/* More decodes than budget: none is left out for long, and a prompt still gets a quarter. */
Test(sched, decodes_take_turns)
{
    struct sched_config cfg = config();
    uint32_t planned[9] = {0};
    cfg.max_step_tokens = 4;
    cfg.n_blocks = 200;
    start(cfg);
    for (uint64_t id = 1; id <= 7; id++)
        submit_plain(id, (int32_t)id * 100, 1, 200);
    step();
    step(); /* the quarter kept for prompts lets the rest in, one by one */
    for (int i = 0; i < 20; i++)
        step();
    for (int i = 0; i < 70; i++) {
        cr_assert(make_plan());
        cr_assert_eq(plan.n_tokens, 4u);
        for (uint32_t k = 0; k < plan.n_seqs; k++)
            planned[plan.seqs[k].seq_id]++;
        commit();
    }
    for (uint64_t id = 1; id <= 7; id++)
        cr_assert_eq(planned[id], 40u, "sequence %d: %u of 70", (int)id, planned[id]);
    submit_plain(8, 900, 12, 1);
    for (int i = 0; i < 11; i++) { /* its last token takes its turn among the decodes */
        cr_assert(make_plan());
        cr_assert_not_null(share_of(8));
        cr_assert_eq(share_of(8)->n_tokens, 1u);
        commit();
    }
}

/* A budget of 1: the prompt gets every fourth step. */
Test(sched, budget_of_one)
{
    struct sched_config cfg = config();
    uint32_t n_prompt = 0;
    cfg.max_step_tokens = 1;
    start(cfg);
    submit_plain(1, 100, 1, 200);
    step();
    submit_plain(2, 200, 20, 5);
    for (int i = 0; i < 40; i++) {
        cr_assert(make_plan());
        n_prompt += share_of(2) != NULL;
        commit();
    }
    cr_assert_eq(n_prompt, 10u);
}

Test(sched, priority_then_arrival)
{
    struct sched_config cfg = config();
    cfg.max_seqs = 1;
    start(cfg);
    const int32_t priority[] = {0, 1, 0, 1};
    const uint64_t order[] = {2, 4, 1, 3};
    for (uint64_t id = 1; id <= 4; id++) {
        struct sched_req r = request(id, 10 * (int32_t)id, 3, 1);
        r.priority = priority[id - 1];
        submit(r);
    }
    for (int i = 0; i < 4; i++) {
        step();
        cr_assert_eq(plan.seqs[0].seq_id, order[i]);
    }
}

/* With overtake 3 a request of priority 1 passes exactly those at most 3 arrivals older. */
Test(sched, overtaking_is_bounded)
{
    struct sched_config cfg = config();
    cfg.max_seqs = 1;
    cfg.overtake = 3;
    start(cfg);
    for (uint64_t id = 1; id <= 6; id++) {
        struct sched_req r = request(id, 10 * (int32_t)id, 3, 1);
        r.priority = id == 6;
        submit(r);
    }
    const uint64_t order[] = {1, 2, 3, 6, 4, 5};
    for (int i = 0; i < 6; i++) {
        step();
        cr_assert_eq(plan.seqs[0].seq_id, order[i]);
    }
}

Test(sched, deadlines)
{
    start(config());
    struct sched_req r = request(1, 10, 5, 100);
    r.deadline_us = 500;
    submit(r);
    r = request(2, 10, 5, 100);
    r.deadline_us = 900;
    submit(r);
    step();
    now = 500;
    cr_assert(make_plan());
    cr_assert_eq(n_fx, 1u);
    cr_assert_eq(effect(FX_FINISHED, 1)->reason, FINISH_DEADLINE);
    cr_assert_eq(plan.n_closes, 1u);
    cr_assert_eq(plan.closes[0], 1u);
    cr_assert_null(share_of(1));
    commit();
    now = 901;
    cr_assert_not(make_plan());
    cr_assert_eq(effect(FX_FINISHED, 2)->reason, FINISH_DEADLINE);
}

/* A step that does not return holds up no deadline. */
Test(sched, deadlines_while_steps_are_out)
{
    struct sched_config cfg = config();
    cfg.max_inflight = 1;
    start(cfg);
    for (uint64_t id = 1; id <= 2; id++) {
        struct sched_req r = request(id, 10, 5, 100);
        r.deadline_us = 500;
        submit(r);
        if (id == 1)
            cr_assert(make_plan());
    }
    struct step_plan out = plan;
    now = 499;
    cr_assert_not(make_plan());
    cr_assert_eq(n_fx, 0u);
    now = 500;
    cr_assert_not(make_plan());
    cr_assert_eq(n_fx, 2u);
    cr_assert_eq(effect(FX_FINISHED, 1)->reason, FINISH_DEADLINE);
    cr_assert_eq(effect(FX_FINISHED, 2)->reason, FINISH_DEADLINE);
    plan = out;
    commit();
    cr_assert_not(make_plan());
}

Test(sched, a_sequence_without_a_token_fails_alone)
{
    struct sched_config cfg = config();
    cfg.max_inflight = 2;
    start(cfg);
    submit_plain(1, 10, 20, 9);
    submit_plain(2, 100, 20, 3);
    cr_assert(make_plan());
    struct result_token t[2] = {{.seq_id = plan.seqs[0].seq_id, .token = TOKEN_NOT_FINITE},
                                {.seq_id = plan.seqs[1].seq_id, .token = 7}};
    struct step_result r = {.step_id = plan.step_id, .epoch = plan.epoch, .n = 2, .tokens = t};
    cr_assert(make_plan()); /* the next one, which has both */
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK, "%s", status_text());
    cr_assert_eq(n_fx, 2u);
    cr_assert_eq(effect(FX_FINISHED, 1)->reason, FINISH_NOT_FINITE);
    cr_assert_eq(effect(FX_TOKEN, 2)->token, 7);
    sched_check(s);
    commit(); /* its token of the second step is dropped */
    cr_assert_eq(n_fx, 1u);
    cr_assert(effect(FX_TOKEN, 2));
    /* what it computed is in no cache: the same prompt is computed again */
    submit_plain(3, 10, 20, 9);
    cr_assert(make_plan());
    cr_assert_eq(share_of(3)->pos, 0u);
    t[0].token = -2;
    r = (struct step_result){.step_id = plan.step_id, .epoch = plan.epoch, .n = 2, .tokens = t};
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_PEER);
}

/* The oldest step's result: seq_id draws that token, and behind it come the forced ones, 2001 and so on. */
static void commit_forced(const struct step_plan *p, uint64_t seq_id, int32_t drawn,
                          uint32_t n_forced)
{
    struct result_token t[8] = {{.seq_id = seq_id, .token = drawn}};
    struct step_result r = {
        .step_id = p->step_id, .epoch = p->epoch, .n = 1 + n_forced, .tokens = t};
    for (uint32_t i = 0; i < n_forced; i++)
        t[1 + i] = (struct result_token){.seq_id = seq_id, .token = 2001 + (int32_t)i};
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK, "%s", status_text());
    sched_check(s);
}

Test(sched, forced_tokens_are_computed_as_a_prompt)
{
    struct sched_config cfg = config();
    cfg.max_inflight = 2;
    start(cfg);
    struct sched_req r = request(1, 10, 6, 20);
    r.grammar = 1;
    submit(r);
    cr_assert(make_plan());
    struct step_plan first = plan;
    cr_assert(make_plan()); /* its token is that of the step before, which is not known */
    struct step_plan second = plan;
    cr_assert_eq(plan.tokens[share_of(1)->token_off], TOKEN_OF_LAST_STEP);
    commit_forced(&first, 1, 2000, 4);
    cr_assert_eq(n_fx, 5u);
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert_eq(fx[i].kind, FX_TOKEN);
        cr_assert_eq(fx[i].token, 2000 + (int32_t)i);
        cr_assert_eq(fx[i].i_result, i);
    }
    cr_assert(make_plan());
    struct step_plan third = plan;
    cr_assert_eq(share_of(1)->pos, 7u);
    cr_assert_eq(share_of(1)->n_tokens, 4u);
    cr_assert_eq(plan.tokens[share_of(1)->token_off], 2001);
    commit_forced(&second, 1, 2001, 3); /* these are known */
    cr_assert_eq(n_fx, 0u);
    commit_forced(&third, 1, 3000, 0);
    cr_assert_eq(n_fx, 1u);
    cr_assert_eq(tokens[1][11], 3000);
}

Test(sched, forced_tokens_end_where_the_sequence_ends)
{
    start(config());
    struct sched_req r = request(1, 10, 6, 4);
    static const int32_t stop[] = {2002};
    r.grammar = 1;
    submit(r);
    r = request(2, 50, 6, 9);
    r.grammar = 1;
    r.stop_ids = stop;
    r.n_stop_ids = 1;
    for (uint64_t id = 1; id <= 2; id++) {
        cr_assert(make_plan());
        commit_forced(&plan, id, 2000, 6);
        cr_assert_eq(n_fx, id == 1 ? 5u : 4u);
        cr_assert_eq(effect(FX_FINISHED, id)->reason, id == 1 ? FINISH_LENGTH : FINISH_STOP_ID);
        if (id == 1)
            submit(r);
    }
    submit_plain(3, 90, 6, 9); /* without a grammar nothing is forced */
    cr_assert(make_plan());
    struct result_token t[] = {{.seq_id = 3, .token = 5}, {.seq_id = 3, .token = 6}};
    struct step_result bad = {.step_id = plan.step_id, .epoch = plan.epoch, .n = 2, .tokens = t};
    cr_assert_eq(sched_commit(s, &bad, fx, MAX_FX, &n_fx), ST_PEER);
}

Test(sched, no_sequence_passes_a_large_waiting_one)
{
    struct sched_config cfg = config();
    cfg.n_blocks = 20;
    start(cfg);
    submit_plain(1, 10, 40, 30);
    step();
    submit_plain(2, 100, 60, 3);
    submit_plain(3, 300, 2, 3);
    for (int i = 0; i < 29; i++) {
        cr_assert(make_plan());
        cr_assert_eq(plan.n_seqs, 1u);
        commit();
    }
    cr_assert(make_plan());
    cr_assert(share_of(2) && share_of(3));
    commit();
}

Test(sched, opens_carry_what_sampling_needs)
{
    start(config());
    int32_t stop[] = {7, 8};
    struct logit_bias bias[] = {{3, 1.0f}, {4, -1.0f}, {5, 2.0f}};
    submit_plain(1, 50, 16, 1);
    step();
    struct sched_req r = request(2, 50, 16, 9);
    r.sp.presence_penalty = 0.5f;
    r.sp.min_new = 3;
    r.sp.seed = 99;
    r.stop_ids = stop;
    r.n_stop_ids = 2;
    r.bias = bias;
    r.n_bias = 3;
    r.n_prompt = 14;
    submit(r);
    r = request(3, 50, 16, 9);
    r.sp.min_new = 2; /* which it has: 16 - 14 */
    r.n_prompt = 14;
    r.stop_ids = stop;
    r.n_stop_ids = 2;
    submit(r);
    cr_assert(make_plan());
    cr_assert_eq(plan.n_opens, 2u);
    const struct plan_open *o = &plan.opens[0];
    cr_assert_eq(o->seq_id, 2u);
    cr_assert_eq(o->n_prompt, 14u);
    cr_assert_eq(o->sp.seed, 99u);
    cr_assert_eq(o->n_history, 12u);
    cr_assert_eq(plan.history[o->history_off + 11], 61);
    cr_assert_eq(o->n_stop_ids, 2u);
    cr_assert_eq(plan.stop_ids[o->stop_off + 1], 8);
    cr_assert_eq(o->n_bias, 3u);
    cr_assert_eq(plan.bias[o->bias_off + 2].id, 5);
    cr_assert_eq(plan.opens[1].n_history, 0u);
    cr_assert_eq(plan.opens[1].n_stop_ids, 0u);
    commit();
}

Test(sched, cancel)
{
    struct sched_stats st;
    start(config());
    submit_plain(1, 10, 9, 9);
    submit_plain(2, 200, 9, 9);
    sched_cancel(s, 77); /* unknown */
    cr_assert(make_plan());
    sched_cancel(s, 1); /* in flight */
    sched_check(s);
    sched_stats(s, &st);
    cr_assert_eq(st.blocks_held, 3u, "its blocks are not free");
    submit_plain(1, 10, 5, 2); /* the id again, before the commit */
    commit();
    cr_assert_null(effect(FX_TOKEN, 1), "the old one's token was given to the new one");
    cr_assert(effect(FX_TOKEN, 2));
    cr_assert(make_plan());
    cr_assert_eq(plan.n_closes, 1u);
    cr_assert_eq(plan.n_opens, 1u);
    commit();
    cr_assert_eq(effect(FX_TOKEN, 1)->token, 1005);
}
