/* What sched.h promises, one rule at a time. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/sched/sched.h"

enum { CTX = 400, MAX_FX = 200 };

static struct sched *s;
static struct step_plan plan;
static struct sched_effect fx[MAX_FX];
static size_t n_fx;
static int32_t tokens[40][CTX];
static uint64_t now;

static struct sched_config config(void)
{
    return (struct sched_config){.max_seqs = 8,
                                 .max_step_tokens = 64,
                                 .max_waiting = 32,
                                 .max_waiting_tokens = 10000,
                                 .max_ctx = CTX,
                                 .n_blocks = 100,
                                 .block_len = 4,
                                 .prefix_cache = true};
}

static void start(struct sched_config cfg)
{
    sched_destroy(s);
    now = 0;
    cr_assert_eq(sched_create(&s, &cfg), ST_OK, "%s", status_text());
    cr_assert_leq(sched_max_fx(&cfg), (size_t)MAX_FX);
}

/* A request of n tokens first, first + 1, ... */
static struct sched_req request(uint64_t id, int32_t first, uint32_t n, uint32_t max_new)
{
    for (uint32_t i = 0; i < n; i++)
        tokens[id][i] = first + (int32_t)i;
    return (struct sched_req){.seq_id = id,
                              .tokens = tokens[id],
                              .n_tokens = n,
                              .n_prompt = n,
                              .max_new = max_new,
                              .sp = {.top_p = 1.0f, .repetition_penalty = 1.0f}};
}

static void submit(struct sched_req r)
{
    cr_assert_eq(sched_submit(s, &r), ST_OK, "%s", status_text());
}

static void submit_plain(uint64_t id, int32_t first, uint32_t n, uint32_t max_new)
{
    submit(request(id, first, n, max_new));
}

static bool make_plan(void)
{
    bool made = sched_plan(s, now, &plan, fx, MAX_FX, &n_fx);
    sched_check(s);
    return made;
}

/* Answers the plan: each wanted token is 1000 + its position. */
static void commit(void)
{
    struct result_token t[8];
    struct step_result r = {.step_id = plan.step_id, .epoch = plan.epoch, .tokens = t};
    for (uint32_t i = 0; i < plan.n_seqs; i++)
        if (plan.seqs[i].want == WANT_LAST)
            t[r.n++] = (struct result_token){
                .seq_id = plan.seqs[i].seq_id,
                .token = 1000 + (int32_t)(plan.seqs[i].pos + plan.seqs[i].n_tokens)};
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK, "%s", status_text());
    for (size_t i = 0; i < n_fx; i++) {
        if (fx[i].kind != FX_TOKEN)
            continue;
        cr_assert_lt(fx[i].i_result, r.n);
        cr_assert_eq(t[fx[i].i_result].seq_id, fx[i].seq_id, "another sequence's token");
        cr_assert_eq(t[fx[i].i_result].token, fx[i].token);
    }
    sched_check(s);
}

static void step(void)
{
    cr_assert(make_plan());
    commit();
}

static const struct plan_seq *share_of(uint64_t id)
{
    for (uint32_t i = 0; i < plan.n_seqs; i++)
        if (plan.seqs[i].seq_id == id)
            return &plan.seqs[i];
    return NULL;
}

static const struct sched_effect *effect(enum sched_fx kind, uint64_t id)
{
    for (size_t i = 0; i < n_fx; i++)
        if (fx[i].kind == kind && fx[i].seq_id == id)
            return &fx[i];
    return NULL;
}

static void finish_all(void)
{
    for (int i = 0; make_plan(); i++) {
        cr_assert_lt(i, 10000);
        commit();
    }
}

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

/* More decodes than budget: nobody is left out for long, and a prompt still gets a quarter. */
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

Test(sched, prefix_cache_hits_all_but_the_last_token)
{
    start(config());
    submit_plain(1, 50, 16, 1);
    step();
    submit_plain(2, 50, 16, 1); /* the same: 4 blocks, of which the last must be computed */
    cr_assert(make_plan());
    cr_assert_eq(effect(FX_ADMITTED, 2)->n, 12u);
    cr_assert_eq(plan.seqs[0].pos, 12u);
    cr_assert_eq(plan.seqs[0].n_tokens, 4u);
    cr_assert_eq(plan.seqs[0].n_blocks, 4u, "the whole table is told");
    commit();
    submit_plain(3, 50, 17, 1);
    cr_assert(make_plan());
    cr_assert_eq(effect(FX_ADMITTED, 3)->n, 16u);
    commit();
    struct sched_req r = request(4, 50, 17, 1);
    r.salt = 1;
    submit(r);
    cr_assert(make_plan());
    cr_assert_eq(effect(FX_ADMITTED, 4)->n, 0u, "another salt");
    commit();
    tokens[5][0] = 0;
    r = request(5, 50, 17, 1);
    tokens[5][5] = 3;
    submit(r);
    cr_assert(make_plan());
    cr_assert_eq(effect(FX_ADMITTED, 5)->n, 4u, "the second block differs");
    commit();
}

static void submit_group(uint64_t first_id, uint64_t group, int n)
{
    for (int i = 0; i < n; i++) {
        struct sched_req r = request(first_id + (uint64_t)i, 50, 18, 3);
        r.group_id = group;
        submit(r);
    }
}

/* Samples of one request: one computes, the others wait and share; also without the prefix cache,
 * where other requests and other groups share nothing. */
Test(sched, samples_share_their_prompt)
{
    for (int cache = 0; cache < 2; cache++) {
        struct sched_config cfg = config();
        cfg.prefix_cache = cache;
        start(cfg);
        submit_group(1, 77, 4);
        cr_assert(make_plan());
        cr_assert_eq(plan.n_seqs, 1u, "the siblings wait");
        cr_assert_eq(plan.n_tokens, 18u);
        commit();
        cr_assert(make_plan());
        cr_assert_eq(plan.n_seqs, 4u);
        for (uint64_t id = 2; id <= 4; id++)
            cr_assert_eq(effect(FX_ADMITTED, id)->n, 16u);
        commit();
        finish_all();
        submit_group(5, 78, 1);
        submit_plain(6, 50, 18, 1);
        cr_assert(make_plan());
        cr_assert_eq(effect(FX_ADMITTED, 5)->n, cache ? 16u : 0u);
        cr_assert_eq(effect(FX_ADMITTED, 6)->n, cache ? 16u : 0u);
        commit();
    }
}

/* Two sequences that cannot both grow: the younger goes, comes back and finds its full blocks. */
Test(sched, preemption)
{
    struct sched_config cfg = config();
    struct sched_stats st;
    cfg.n_blocks = 10;
    start(cfg);
    submit_plain(1, 10, 15, 24);
    submit_plain(2, 100, 14, 20);
    uint32_t n_preempted = 0;
    for (int i = 0; i < 100 && make_plan(); i++) {
        cr_assert_null(effect(FX_PREEMPTED, 1));
        if (effect(FX_PREEMPTED, 2)) {
            n_preempted++;
            cr_assert_eq(plan.n_closes, 1u);
            cr_assert_eq(plan.closes[0], 2u);
            sched_stats(s, &st);
            cr_assert_eq(st.waiting, 1u);
            cr_assert_eq(st.tokens_cached, 0u);
        }
        cr_assert_null(n_preempted ? effect(FX_ADMITTED, 2) : NULL, "admitted twice");
        commit();
    }
    sched_stats(s, &st);
    cr_assert_eq(n_preempted, 1u);
    cr_assert_eq(st.preemptions, 1u);
    cr_assert_eq(st.running + st.waiting, 0u);
    for (uint32_t k = 14; k < 34; k++)
        cr_assert_eq(tokens[2][k], 1000 + (int32_t)k, "token %u", k);
}

/* After a preemption the blocks that nobody took are found again. */
Test(sched, preempted_finds_its_blocks)
{
    struct sched_config cfg = config();
    struct sched_stats st;
    cfg.n_blocks = 12;
    start(cfg);
    submit_plain(1, 10, 20, 5); /* 5 blocks, a 6th with its second token */
    submit_plain(2, 100, 23, 20);
    step();
    cr_assert_eq(plan.n_seqs, 2u);
    for (int i = 0; i < 3; i++)
        step(); /* 6 and 7 blocks are wanted */
    cr_assert_eq(tokens[1][23], 1023);
    sched_stats(s, &st);
    cr_assert_eq(st.preemptions, 1u);
    finish_all();
    sched_stats(s, &st);
    cr_assert_eq(st.tokens_cached, 24u, "%d cached", (int)st.tokens_cached);
}

/* Among the lowest priority the one with the least computed; never the first. */
Test(sched, victim)
{
    const int32_t priority[2][3] = {{0, 0, 0}, {1, 0, 1}};
    const uint64_t expected[2] = {3, 2};
    const uint32_t n[] = {14, 13, 5};
    for (int v = 0; v < 2; v++) {
        struct sched_config cfg = config();
        cfg.n_blocks = 10; /* the first needs another with its fourth step */
        start(cfg);
        for (uint64_t id = 1; id <= 3; id++) {
            struct sched_req r = request(id, 100 * (int32_t)id, n[id - 1], 25);
            r.priority = priority[v][id - 1];
            submit(r);
        }
        for (int i = 0; i < 3; i++)
            step();
        cr_assert(make_plan());
        cr_assert_eq(n_fx, 1u);
        cr_assert_eq(fx[0].kind, FX_PREEMPTED);
        cr_assert_eq(fx[0].seq_id, expected[v]);
        cr_assert(share_of(1));
        commit();
    }
}

Test(sched, nobody_passes_a_large_waiting_one)
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

/* A chunk that blocks cut short may stand before shares that want a token. */
Test(sched, results_after_a_chunk_without_one)
{
    unsigned n_mixed = 0;
    for (uint32_t n_blocks = 16; n_blocks < 60; n_blocks++) {
        struct sched_config cfg = config();
        cfg.n_blocks = n_blocks;
        cfg.block_len = 5;
        cfg.max_step_tokens = 8;
        start(cfg);
        for (uint64_t id = 1; id <= 7; id++) /* one more than fit beside a prompt */
            submit_plain(id, 100 * (int32_t)id, 1, 40);
        step();
        submit_plain(8, 900, 71, 5);
        while (make_plan()) {
            bool chunk = false;
            for (uint32_t i = 0; i < plan.n_seqs; i++) {
                chunk |= plan.seqs[i].want == WANT_NONE;
                n_mixed += chunk && plan.seqs[i].want == WANT_LAST;
            }
            commit();
        }
    }
    cr_assert_gt(n_mixed, 0u, "it does not happen here");
}

/* When a cached prefix has to give blocks, it loses its end first. */
Test(sched, prefixes_are_evicted_from_the_end)
{
    struct sched_config cfg = config();
    cfg.n_blocks = 12;
    start(cfg);
    submit_plain(1, 100, 33, 1); /* 8 full blocks are cached after it */
    step();
    submit_plain(2, 700, 22, 1); /* 6 blocks: the 4 free ones and 2 of the cached */
    step();
    submit_plain(3, 100, 33, 1);
    cr_assert(make_plan());
    cr_assert_eq(effect(FX_ADMITTED, 3)->n, 24u, "%u", effect(FX_ADMITTED, 3)->n);
    commit();
}

/* After the ranks were lost: the same tokens go on, the running ones first. */
Test(sched, reset)
{
    struct sched_config cfg = config();
    cfg.max_seqs = 2;
    start(cfg);
    submit_plain(1, 10, 9, 5);
    submit_plain(2, 100, 9, 5);
    struct sched_req r = request(3, 200, 9, 5);
    step();
    step();
    r.priority = 9;
    submit(r);
    cr_assert(make_plan()); /* void now */
    sched_reset(s, 0, fx, MAX_FX, &n_fx);
    sched_check(s);
    cr_assert_eq(n_fx, 0u);
    cr_assert_eq(sched_epoch(s), 2u);
    struct step_result late = {.step_id = plan.step_id, .epoch = plan.epoch};
    cr_assert_eq(sched_commit(s, &late, fx, MAX_FX, &n_fx), ST_PEER);
    cr_assert(make_plan());
    cr_assert_eq(plan.epoch, 2u);
    cr_assert_eq(plan.n_opens, 2u);
    cr_assert_eq(plan.n_closes, 0u);
    cr_assert_eq(plan.opens[0].seq_id, 1u);
    cr_assert_eq(plan.opens[1].seq_id, 2u);
    cr_assert_eq(share_of(1)->n_tokens, 11u, "prompt and the two new tokens");
    commit();
    cr_assert_eq(effect(FX_TOKEN, 1)->token, 1011);
}

Test(sched, reset_with_a_smaller_cache)
{
    start(config());
    submit_plain(1, 10, 9, 5);
    submit_plain(2, 100, 90, 5);
    step();
    sched_reset(s, 10, fx, MAX_FX, &n_fx);
    cr_assert_eq(n_fx, 1u);
    cr_assert_eq(effect(FX_FINISHED, 2)->reason, FINISH_FAILED);
    struct sched_req r = request(3, 100, 40, 2);
    cr_assert_eq(sched_submit(s, &r), ST_RANGE);
    finish_all();
    cr_assert_eq(tokens[1][13], 1013);
}

/* Two steps in flight: the second carries the mark, and a token that ends the sequence voids it. */
Test(sched, overlap)
{
    struct sched_config cfg = config();
    cfg.max_inflight = 2;
    start(cfg);
    int32_t stop = 1005;
    struct sched_req q = request(1, 10, 4, 50);
    q.stop_ids = &stop;
    q.n_stop_ids = 1;
    submit(q);
    struct result_token t = {.seq_id = 1, .token = 1004};
    struct step_result r = {.step_id = 1, .epoch = 1, .n = 1, .tokens = &t};
    cr_assert(make_plan());
    cr_assert(make_plan());
    cr_assert_eq(plan.tokens[0], TOKEN_OF_LAST_STEP);
    cr_assert_eq(plan.seqs[0].pos, 4u);
    cr_assert_not(make_plan(), "a third step in flight");
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK);
    cr_assert(make_plan());
    cr_assert_eq(plan.seqs[0].pos, 5u);
    r.step_id = 2;
    t.token = 1005;
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK);
    cr_assert_eq(effect(FX_FINISHED, 1)->reason, FINISH_STOP_ID);
    r.step_id = 3;
    t.token = 5;
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK);
    cr_assert_eq(n_fx, 0u, "a token after the end");
    sched_check(s);
}
