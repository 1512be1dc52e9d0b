/* What sched.h promises about blocks:
 * sharing, preemption, loss of the ranks, two steps in flight. */
#include <criterion/criterion.h>

#include "sched/steps.h"

Test(sched_blocks, prefix_cache_hits_all_but_the_last_token)
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
Test(sched_blocks, samples_share_their_prompt)
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

static struct sched_config with_snapshots(uint32_t n)
{
    struct sched_config cfg = config();
    cfg.has_states = true;
    cfg.n_snapshots = n;
    cfg.block_len = 1;
    cfg.n_blocks = 200;
    cfg.max_ctx = 120;
    cfg.max_step_tokens = 64;
    return cfg;
}

/* The prompt of `id` is computed in steps that end at these positions; then it ends. */
static void check_ends(uint64_t id, const uint32_t *ends, int n)
{
    for (int i = 0; i < n; i++) {
        cr_assert(make_plan());
        const struct plan_seq *ps = share_of(id);
        cr_assert_eq(ps->pos + ps->n_tokens, ends[i], "step %d ends at %u, not %u", i,
                     ps->pos + ps->n_tokens, ends[i]);
        cr_assert_eq(ps->keep > 0, i + 1 < n);
        commit();
    }
    finish_all();
}

/* A prompt of 20 leaves a snapshot behind its last full block but one token; another one that leaves its path at 10
 * makes one there, with which a third begins. */
Test(sched_blocks, snapshots_behind_prompts_and_branches)
{
    start(with_snapshots(4));
    struct sched_stats st;
    submit_plain(1, 50, 20, 1);
    check_ends(1, (uint32_t[]){19, 20}, 2);
    submit_plain(2, 50, 20, 1);
    cr_assert(make_plan());
    cr_assert_eq(effect(FX_ADMITTED, 2)->n, 19u);
    cr_assert_gt(share_of(2)->restore, 0u);
    commit();
    for (uint64_t id = 3; id <= 4; id++) {
        struct sched_req r = request(id, 50, 18, 1);
        for (int k = 10; k < 18; k++)
            tokens[id][k] = (int32_t)id;
        cr_assert_eq(sched_known_tokens(s, &r), id == 3 ? 0u : 10u);
        submit(r);
        if (id == 3) {
            check_ends(id, (uint32_t[]){10, 17, 18}, 3);
            continue;
        }
        cr_assert(make_plan());
        cr_assert_eq(effect(FX_ADMITTED, id)->n, 10u);
        cr_assert_eq(share_of(id)->n_tokens, 8u, "%d more blocks are not worth a step",
                     KEEP_PROMPT);
        commit();
    }
    sched_stats(s, &st);
    cr_assert_eq(st.snapshots_total, 4u);
    cr_assert_eq(st.snapshots_known, 3u);
    cr_assert_eq(st.tokens_cached, 29u);
}

/* Samples of one request begin with the snapshot of the first one's prompt. */
Test(sched_blocks, samples_share_a_snapshot)
{
    for (int cache = 0; cache < 2; cache++) {
        struct sched_config cfg = with_snapshots(2);
        cfg.prefix_cache = cache;
        start(cfg);
        submit_group(1, 77, 3);
        cr_assert(make_plan());
        cr_assert_eq(plan.n_seqs, 1u, "the siblings wait");
        cr_assert_eq(plan.n_tokens, 17u);
        commit();
        cr_assert(make_plan());
        for (uint64_t id = 2; id <= 3; id++)
            cr_assert_eq(effect(FX_ADMITTED, id)->n, 17u);
        commit();
        finish_all();
    }
}

/* While it decodes, a sequence has one snapshot, and with its blocks the snapshot is given up. */
Test(sched_blocks, a_rolling_snapshot)
{
    struct sched_config cfg = with_snapshots(3);
    struct sched_stats st;
    cfg.n_blocks = 60;
    start(cfg);
    submit_plain(1, 50, 8, 42);
    finish_all();
    sched_stats(s, &st);
    cr_assert_eq(st.snapshots_known, 1u);
    struct sched_req r = request(2, 50, 1, 1);
    memcpy(tokens[2], tokens[1], 50 * sizeof *tokens[2]);
    r.n_tokens = r.n_prompt = 50;
    cr_assert_eq(sched_known_tokens(s, &r), 48u);
    submit_plain(3, 90, 55, 1); /* other tokens: it takes most blocks */
    finish_all();
    cr_assert_eq(sched_known_tokens(s, &r), 0u);
    sched_stats(s, &st);
    cr_assert_eq(st.snapshots_known, 1u, "of the other prompt");
}

/* A model with states of which none is kept: nothing is shared, not even by samples, and a sequence that was preempted begins again. */
Test(sched_blocks, states_without_snapshots)
{
    struct sched_config cfg = config();
    struct sched_stats st;
    uint32_t n_again = 0;
    cfg.has_states = true;
    cfg.n_blocks = 16;
    start(cfg);
    submit_group(1, 77, 2);
    submit_plain(3, 50, 18, 1);
    cr_assert(make_plan());
    cr_assert_eq(plan.n_seqs, 3u, "no sequence waits for a sibling");
    for (uint64_t id = 1; id <= 3; id++) {
        cr_assert_eq(effect(FX_ADMITTED, id)->n, 0u);
        cr_assert_eq(share_of(id)->pos, 0u);
        cr_assert_eq(share_of(id)->n_tokens, 18u);
    }
    commit();
    finish_all();
    submit_plain(4, 50, 30, 24);
    submit_plain(5, 50, 29, 20);
    struct sched_req r = request(6, 50, 30, 1);
    cr_assert_eq(sched_known_tokens(s, &r), 0u);
    for (int i = 0; i < 100 && make_plan(); i++) {
        for (uint32_t k = 0; k < plan.n_opens; k++)
            cr_assert_eq(share_of(plan.opens[k].seq_id)->pos, 0u);
        n_again += i > 0 ? plan.n_opens : 0;
        commit();
    }
    sched_stats(s, &st);
    cr_assert_eq(st.preemptions, 1u);
    cr_assert_eq(n_again, 1u);
    cr_assert_eq(st.tokens_cached, 0u);
    cr_assert_eq(st.running + st.waiting, 0u);
}

/* Two sequences that cannot both grow: the younger goes, comes back and finds its full blocks. */
Test(sched_blocks, preemption)
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

/* After a preemption the blocks that were not taken are found again. */
Test(sched_blocks, preempted_finds_its_blocks)
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
Test(sched_blocks, victim)
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

/* A chunk that blocks cut short may stand before shares that want a token. */
Test(sched_blocks, results_after_a_chunk_without_one)
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
Test(sched_blocks, prefixes_are_evicted_from_the_end)
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
Test(sched_blocks, reset)
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

Test(sched_blocks, reset_with_a_smaller_cache)
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
Test(sched_blocks, overlap)
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

/* No step runs ahead while a token is in flight that the host draws: its sequence stays in the
 * batch. */
Test(sched_blocks, overlap_waits_for_the_host)
{
    struct sched_config cfg = config();
    cfg.max_inflight = 2;
    start(cfg);
    struct sched_req q = request(1, 10, 4, 50), penalty = request(2, 10, 4, 2);
    penalty.sp.presence_penalty = 0.5f;
    submit(q);
    submit(penalty);
    struct result_token t[2] = {{.seq_id = 1, .token = 1004}, {.seq_id = 2, .token = 1004}};
    struct step_result r = {.step_id = 1, .epoch = 1, .n = 2, .tokens = t};
    cr_assert(make_plan());
    cr_assert_eq(plan.n_seqs, 2u);
    cr_assert_not(make_plan(), "sequence 2 would be left out");
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK);
    cr_assert(make_plan());
    cr_assert_eq(plan.n_seqs, 2u);
    cr_assert(plan.tokens[0] == 1004 && plan.tokens[1] == 1004);
    cr_assert(make_plan(), "its last token: there is nothing to wait for");
    cr_assert_eq(plan.n_seqs, 1u);
    cr_assert_eq(plan.tokens[0], TOKEN_OF_LAST_STEP);
    sched_check(s);
}
