/* Random calls in many configurations: every stream equals the oracle's, the invariants hold after
 * each call, everything ends, and a second run with the same seed gives the same plans and effects.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "effort.h"
#include "sched/driver.h"

/* Calls per configuration and run. */
static uint64_t n_calls(void)
{
    return (uint64_t)effort(60000, 12000);
}

struct row {
    const char *name;
    struct sched_config cfg;
    bool preempts, shares; /* must have happened */
};

#define Q .max_waiting = 8, .max_waiting_tokens = 600
#define T                                                                                          \
    .target_itl_us = SCHED_AUTO, .max_step_us = SCHED_AUTO, .prefill_loss_pct = 4,                 \
    .target_of_all = true

/* clang-format off */
static const struct row rows[] = {
    {"common", {Q, .max_seqs = 4, .max_step_tokens = 16, .max_ctx = 120, .n_blocks = 60, .block_len = 4, .prefix_cache = true}, false, true},
    {"tiny KV", {Q, .max_seqs = 5, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 16, .block_len = 4, .prefix_cache = true}, true, true},
    {"tiny KV, no cache", {Q, .max_seqs = 5, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 16, .block_len = 4}, true, true},
    {"budget 1", {Q, .max_seqs = 4, .max_step_tokens = 1, .max_ctx = 60, .n_blocks = 20, .block_len = 4, .prefix_cache = true}, true, true},
    {"budget 2", {Q, .max_seqs = 6, .max_step_tokens = 2, .max_ctx = 60, .n_blocks = 20, .block_len = 4, .prefix_cache = true}, true, true},
    {"budget 3, strict groups", {Q, .max_seqs = 6, .max_step_tokens = 3, .max_ctx = 60, .n_blocks = 24, .block_len = 3}, true, true},
    {"blocks of 1", {Q, .max_seqs = 4, .max_step_tokens = 9, .max_ctx = 80, .n_blocks = 70, .block_len = 1, .prefix_cache = true}, true, true},
    {"blocks of 1, tiny", {Q, .max_seqs = 3, .max_step_tokens = 5, .max_ctx = 40, .n_blocks = 24, .block_len = 1, .prefix_cache = true}, true, true},
    {"blocks of 16", {Q, .max_seqs = 6, .max_step_tokens = 40, .max_ctx = 150, .n_blocks = 12, .block_len = 16, .prefix_cache = true}, true, true},
    {"one block", {Q, .max_seqs = 3, .max_step_tokens = 7, .max_ctx = 40, .n_blocks = 1, .block_len = 32, .prefix_cache = true}, false, false},
    {"one sequence", {Q, .max_seqs = 1, .max_step_tokens = 6, .max_ctx = 70, .n_blocks = 18, .block_len = 4, .prefix_cache = true}, false, true},
    {"ageing", {Q, .max_seqs = 4, .max_step_tokens = 8, .max_ctx = 80, .n_blocks = 24, .block_len = 4, .prefix_cache = true, .overtake = 3}, true, true},
    {"short queue", {.max_waiting = 1, .max_waiting_tokens = 50, .max_seqs = 3, .max_step_tokens = 8, .max_ctx = 80, .n_blocks = 20, .block_len = 5, .prefix_cache = true}, true, true},
    {"wide", {.max_waiting = 40, .max_waiting_tokens = 3000, .max_seqs = 24, .max_step_tokens = 20, .max_ctx = 100, .n_blocks = 80, .block_len = 4, .prefix_cache = true}, true, true},
    {"overlap", {Q, .max_seqs = 4, .max_step_tokens = 16, .max_ctx = 120, .n_blocks = 60, .block_len = 4, .prefix_cache = true, .max_inflight = 2}, false, true},
    {"overlap, tiny KV", {Q, .max_seqs = 5, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 16, .block_len = 4, .prefix_cache = true, .max_inflight = 2}, true, true},
    {"overlap, budget 1", {Q, .max_seqs = 4, .max_step_tokens = 1, .max_ctx = 60, .n_blocks = 20, .block_len = 4, .prefix_cache = true, .max_inflight = 2}, true, true},
    {"overlap, uneven", {Q, .max_seqs = 9, .max_step_tokens = 8, .max_ctx = 150, .n_blocks = 73, .block_len = 5, .prefix_cache = true, .max_inflight = 2}, true, true},
    {"overlap, two", {Q, .max_seqs = 2, .max_step_tokens = 8, .max_ctx = 70, .n_blocks = 25, .block_len = 2, .prefix_cache = true, .max_inflight = 2}, true, true},
    {"overlap, four", {Q, .max_seqs = 4, .max_step_tokens = 9, .max_ctx = 45, .n_blocks = 7, .block_len = 4, .prefix_cache = true, .max_inflight = 2}, true, true},
    {"timed", {Q, T, .max_seqs = 4, .max_step_tokens = 16, .max_ctx = 120, .n_blocks = 60, .block_len = 4, .prefix_cache = true, .turn_tokens = 5}, false, true},
    {"timed, no turns", {Q, T, .max_seqs = 5, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 16, .block_len = 4, .prefix_cache = true}, true, true},
    {"timed, tiny KV", {Q, T, .max_seqs = 5, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 16, .block_len = 4, .prefix_cache = true, .max_inflight = 2, .turn_tokens = 3, .overtake = 3}, true, true},
    {"timed, no cache", {Q, T, .max_seqs = 3, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 24, .block_len = 4, .max_inflight = 2, .turn_tokens = 1}, false, true},
    {"timed, one sequence", {Q, T, .max_seqs = 1, .max_step_tokens = 6, .max_ctx = 70, .n_blocks = 18, .block_len = 4, .prefix_cache = true, .turn_tokens = 4}, false, true},
    {"timed, budget 1", {Q, T, .max_seqs = 4, .max_step_tokens = 1, .max_ctx = 60, .n_blocks = 20, .block_len = 4, .prefix_cache = true, .max_inflight = 2, .turn_tokens = 2}, false, true},
    {"timed, absolute", {Q, .target_itl_us = 600, .max_step_us = 900, .max_seqs = 6, .max_step_tokens = 40, .max_ctx = 150, .n_blocks = 40, .block_len = 5, .prefix_cache = true, .max_inflight = 2, .turn_tokens = 8, .overtake = 2}, true, true},
    {"timed, wide", {.max_waiting = 40, .max_waiting_tokens = 3000, T, .max_seqs = 24, .max_step_tokens = 40, .max_ctx = 100, .n_blocks = 80, .block_len = 4, .prefix_cache = true, .max_inflight = 2, .turn_tokens = 6}, true, true},
    {"snapshots", {Q, .max_seqs = 4, .max_step_tokens = 30, .max_ctx = 120, .n_blocks = 130, .block_len = 1, .prefix_cache = true, .has_states = true, .n_snapshots = 12}, false, true},
    {"snapshots, tiny KV", {Q, .max_seqs = 5, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 40, .block_len = 2, .prefix_cache = true, .has_states = true, .n_snapshots = 3, .max_inflight = 2}, true, true},
    {"snapshots, one, no cache", {Q, .max_seqs = 5, .max_step_tokens = 9, .max_ctx = 60, .n_blocks = 30, .block_len = 2, .has_states = true, .n_snapshots = 1, .max_inflight = 2}, true, true},
    {"snapshots, timed", {Q, T, .max_seqs = 5, .max_step_tokens = 14, .max_ctx = 100, .n_blocks = 60, .block_len = 2, .prefix_cache = true, .has_states = true, .n_snapshots = 7, .max_inflight = 2, .turn_tokens = 4, .overtake = 2}, true, true},
    {"snapshots, absolute", {Q, .target_itl_us = 600, .max_step_us = 900, .max_seqs = 6, .max_step_tokens = 40, .max_ctx = 150, .n_blocks = 200, .block_len = 1, .prefix_cache = true, .has_states = true, .n_snapshots = 20, .max_inflight = 2, .turn_tokens = 8}, true, true},
    {"states, none kept", {Q, T, .max_seqs = 5, .max_step_tokens = 14, .max_ctx = 100, .n_blocks = 60, .block_len = 2, .prefix_cache = true, .has_states = true, .max_inflight = 2, .turn_tokens = 4}, true, false},
    {"overlap, blocks of 1", {Q, .max_seqs = 4, .max_step_tokens = 9, .max_ctx = 60, .n_blocks = 40, .block_len = 1, .max_inflight = 2, .overtake = 2}, true, true},
};
/* clang-format on */

static void run_row(const struct row *row, uint64_t seed)
{
    uint64_t calls = n_calls();
    struct driver_report a, b;
    struct dice dice = {.state = seed}, again = dice;
    struct driver_options stay = {.no_moves = true};
    driver_run(&row->cfg, &dice, calls, NULL, &a);
    driver_run(&row->cfg, &again, calls, &stay, &b);
    cr_assert_eq(a.digest, b.digest, "%s: two runs with one seed differ", row->name);
    cr_assert_eq(a.stats.steps, b.stats.steps);
    cr_assert_geq(a.n_calls, calls);
    cr_assert_gt(a.n_finished, calls / 1000, "%s: only %llu finished", row->name,
                 (unsigned long long)a.n_finished);
    cr_assert_gt(a.n_cancelled, 0u);
    cr_assert_gt(a.n_expired, 0u);
    cr_assert_gt(a.n_resets, 0u);
    cr_assert_gt(a.n_busy, 0u);
    cr_assert_gt(a.n_scored, calls / 1000, "%s: only %llu scores", row->name,
                 (unsigned long long)a.n_scored);
    /* with a budget of one token few requests end at all: 5 to 12 of 12,000 calls are embeddings */
    cr_assert_gt(a.n_embedded, calls / 2000, "%s: only %llu embeddings", row->name,
                 (unsigned long long)a.n_embedded);
    cr_assert_gt(a.n_forced, calls / 500, "%s: only %llu forced tokens", row->name,
                 (unsigned long long)a.n_forced);
    bool overlaps = row->cfg.max_inflight > 1;
    cr_assert_eq(a.n_fed > calls / 500, overlaps, "%s: %llu tokens were fed", row->name,
                 (unsigned long long)a.n_fed);
    cr_assert(!row->preempts || a.stats.preemptions > 0, "%s: nothing was preempted", row->name);
    cr_assert_eq(a.stats.pauses > 0, row->cfg.turn_tokens > 0, "%s: %llu pauses", row->name,
                 (unsigned long long)a.stats.pauses);
    cr_assert(!row->shares || a.stats.tokens_cached > 0, "%s: nothing was shared", row->name);
}

/* One test per third of the rows, so that they run side by side: together 2,520,000 calls. */
static void run_rows(size_t first)
{
    for (size_t i = first; i < ARRAY_LEN(rows); i += 3)
        run_row(&rows[i], 1 + i);
}

/* With these seeds a decode has the last block, and the first in order forced tokens that need one. */
Test(sched_random, the_first_in_order_goes_on)
{
    static const uint64_t seeds[] = {128, 138};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t k = 0; k < ARRAY_LEN(seeds) && strcmp(rows[i].name, "blocks of 16") == 0; k++)
            run_row(&rows[i], seeds[k]);
}

Test(sched_random, rows_0)
{
    run_rows(0);
}

Test(sched_random, rows_1)
{
    run_rows(1);
}

Test(sched_random, rows_2)
{
    run_rows(2);
}

/* clang-format off */
static const struct row whole_rows[] = {
    {"whole", {Q, .max_seqs = 4, .max_step_tokens = 60, .max_ctx = 60, .n_blocks = 60, .block_len = 4, .prefix_cache = true, .max_inflight = 2}, false, false},
    {"whole, timed", {Q, T, .max_seqs = 6, .max_step_tokens = 90, .max_ctx = 60, .n_blocks = 24, .block_len = 4, .prefix_cache = true, .max_inflight = 2, .turn_tokens = 5}, false, false},
    {"whole, absolute", {Q, .target_itl_us = 600, .max_step_us = 900, .max_seqs = 6, .max_step_tokens = 70, .max_ctx = 70, .n_blocks = 40, .block_len = 5, .turn_tokens = 8, .overtake = 2}, false, false},
    {"whole, one", {Q, T, .max_seqs = 1, .max_step_tokens = 30, .max_ctx = 30, .n_blocks = 8, .block_len = 4, .turn_tokens = 4}, false, false},
};
/* clang-format on */

/* An encoder's requests: each prompt is in one step, in order. */
Test(sched_random, whole)
{
    uint64_t calls = n_calls() / 2;
    for (size_t i = 0; i < ARRAY_LEN(whole_rows); i++) {
        struct driver_options moves = {.whole = true}, stay = {.whole = true, .no_moves = true};
        struct dice dice = {.state = 7 + i}, again = dice;
        struct driver_report a, b;
        driver_run(&whole_rows[i].cfg, &dice, calls, &moves, &a);
        driver_run(&whole_rows[i].cfg, &again, calls, &stay, &b);
        cr_assert_eq(a.digest, b.digest, "%s: two runs differ", whole_rows[i].name);
        cr_assert_gt(a.n_embedded, calls / 100, "%s: %llu embeddings", whole_rows[i].name,
                     (unsigned long long)a.n_embedded);
        cr_assert_eq(a.n_tokens, 0u);
        cr_assert_eq(a.stats.tokens_cached, 0u);
        cr_assert_gt(a.n_resets, 0u);
    }
}

/* The plans change with the seed: the digest is not a constant. */
Test(sched_random, seeds_differ)
{
    struct driver_report a, b;
    struct dice one = {.state = 1}, two = {.state = 2};
    driver_run(&rows[0].cfg, &one, 500, NULL, &a);
    driver_run(&rows[0].cfg, &two, 500, NULL, &b);
    cr_assert_neq(a.digest, b.digest);
}

/* Configurations themselves at random, fewer calls each. */
Test(sched_random, configurations)
{
    uint64_t x = 2026, finished = 0;
    long n = effort(300, 60);
    for (long i = 0; i < n; i++) {
        uint32_t v[11];
        for (size_t k = 0; k < ARRAY_LEN(v); k++) {
            x = x * 6364136223846793005U + 1442695040888963407U;
            v[k] = (uint32_t)(x >> 33);
        }
        struct sched_config cfg = {.max_seqs = 1 + v[0] % 10,
                                   .max_step_tokens = 1 + v[1] % 24,
                                   .max_waiting = 1 + v[2] % 12,
                                   .max_waiting_tokens = 20 + v[3] % 500,
                                   .max_ctx = 2 + v[4] % 150,
                                   .n_blocks = 1 + v[5] % 60,
                                   .block_len = 1 + v[6] % 20,
                                   .prefix_cache = v[7] % 3 > 0,
                                   .max_inflight = 1 + v[7] / 3 % 2,
                                   .overtake = v[8] % 4,
                                   .target_itl_us = v[9] % 3 == 0   ? 0
                                                    : v[9] % 3 == 1 ? SCHED_AUTO
                                                                    : 1 + v[9] / 3 % 2000,
                                   .max_step_us = v[10] % 2 ? SCHED_AUTO : v[10] / 2 % 2000,
                                   .prefill_loss_pct = v[10] / 2 % 12,
                                   .target_of_all = v[10] / 4 % 2,
                                   .turn_tokens = v[10] / 4000 % 8};
        struct driver_report r;
        struct dice dice = {.state = x};
        driver_run(&cfg, &dice, 1500, NULL, &r);
        finished += r.n_finished;
    }
    cr_assert_gt(finished, 3u * (uint64_t)n);
}
