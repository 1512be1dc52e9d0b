/* A permanent load of urgent requests: with config.overtake > 0 the others start after as many as
 * sched.h says, and end; with 0 they never start. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/shared_options.h"
#include "sched/steps.h"

enum { LOW = 39, N_URGENT = 30 /* ids 1 to 30, used again and again */, LOAD = 5 };

static uint64_t n_started; /* urgent ones, since the low one was submitted */
static bool live[1 + N_URGENT];

/* The coordinator's default. */
static uint32_t usual_overtake(void)
{
    struct row_list rows = {.n = 0};
    struct shared_options o;
    shared_rows(&rows, FOR_COORDINATOR, 0);
    cr_assert_eq(options_defaults(rows.row, rows.n, &o), ST_OK);
    return (uint32_t)o.overtake;
}

/* As many urgent ones as keep LOAD of them live. */
static void keep_load(int32_t priority, uint32_t n_prompt, uint32_t max_new)
{
    int n_live = 0;
    for (uint64_t id = 1; id <= N_URGENT; id++)
        n_live += live[id];
    for (uint64_t id = 1; n_live < LOAD; id++) {
        if (live[id])
            continue;
        struct sched_req r = request(id, (int32_t)(100 * id), n_prompt, max_new);
        r.priority = priority;
        submit(r);
        live[id] = true;
        n_live++;
    }
}

/* One step; true when the low one has started or, if asked, ended. */
static bool step_until(enum sched_fx kind)
{
    bool done = false;
    cr_assert(make_plan());
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < n_fx; i++) {
            uint64_t id = fx[i].seq_id;
            done = done || (id == LOW && fx[i].kind == kind);
            n_started += id != LOW && fx[i].kind == FX_ADMITTED;
            if (id != LOW && fx[i].kind == FX_FINISHED)
                live[id] = false;
        }
        if (k == 0)
            commit();
    }
    return done;
}

static void begin(struct sched_config cfg, int32_t priority, uint32_t n_prompt, uint32_t max_new)
{
    memset(live, 0, sizeof live);
    start(cfg);
    keep_load(priority, n_prompt, max_new);
    struct sched_req low = request(LOW, 7, 20, 40);
    low.priority = -1;
    submit(low);
    n_started = 0;
}

static void check_start(uint32_t overtake, int32_t urgent)
{
    struct sched_config cfg = config();
    uint64_t bound = LOAD + (uint64_t)overtake * (uint32_t)(urgent + 1);
    cfg.max_seqs = 1;
    cfg.overtake = overtake;
    begin(cfg, urgent, 3, 1);
    while (!step_until(FX_ADMITTED)) {
        cr_assert_leq(n_started, bound, "overtake %u, priority %d: %llu have passed", overtake,
                      urgent, (unsigned long long)n_started);
        keep_load(urgent, 3, 1);
    }
    cr_assert_eq(n_started, bound - 1, "overtake %u, priority %d: %llu have passed", overtake,
                 urgent, (unsigned long long)n_started);
}

Test(sched_overtake, a_low_one_starts_within_the_bound)
{
    cr_assert_gt(usual_overtake(), 0u, "by default a request may wait for ever");
    check_start(1, 0);
    check_start(3, 1);
    check_start(40, 100);
    check_start(usual_overtake(), 0);
    check_start(usual_overtake(), 4);
}

Test(sched_overtake, a_strict_priority_has_no_bound)
{
    struct sched_config cfg = config();
    cfg.max_seqs = 1;
    begin(cfg, 0, 3, 1);
    for (int i = 0; i < 20000; i++) {
        cr_assert_not(step_until(FX_ADMITTED));
        keep_load(0, 3, 1);
    }
    cr_assert_geq(n_started, 20000u);
}

/* With a cache that is full all the time the low one is the victim of every preemption until it is
 * the first in order; then it goes on to its end. */
Test(sched_overtake, a_low_one_ends_under_preemption)
{
    struct sched_config cfg = config();
    uint64_t n_plans = 0, most;
    cfg.max_seqs = 6;
    cfg.n_blocks = 26;
    cfg.prefix_cache = false;
    cfg.overtake = 6;
    begin(cfg, 9, 10, 50);
    /* one after the other at worst, with every plan */
    most = (LOAD + 6 * 10 + 1) * (10 + 50);
    while (!step_until(FX_FINISHED)) {
        cr_assert_leq(++n_plans, most, "not ended after %llu plans", (unsigned long long)n_plans);
        keep_load(9, 10, 50);
    }
    struct sched_stats st;
    sched_stats(s, &st);
    cr_assert_gt(st.preemptions, 0u);

    cfg.overtake = 0;
    begin(cfg, 9, 10, 50);
    for (uint64_t i = 0; i <= most; i++) {
        cr_assert_not(step_until(FX_FINISHED));
        keep_load(9, 10, 50);
    }
}
