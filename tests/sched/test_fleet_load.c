/* A simulated server of several groups under load: what placement by prefixes and load must give, beside load alone and round
 * robin.  The simulation has no clock, so its figures are the same everywhere. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "effort.h"
#include "sched/simulate.h"
#include "temp_dir.h"

enum { GROUPS = 8 };

static struct load_config conversations(void)
{
    return (struct load_config){.seed = 11,
                                .n_requests = (uint64_t)effort(8000, 2000),
                                .conversations_per_s = 20,
                                .n_families = 200,
                                .turns = 3,
                                .think_s = 5,
                                .new_tokens = 24,
                                .max_tokens = 4096};
}

static struct sim_config groups(enum sim_policy policy)
{
    return (struct sim_config){.n_groups = GROUPS,
                               .policy = policy,
                               .step_us = 6000,
                               .decode_us = 60,
                               .prompt_us = 50,
                               .sched = {.max_seqs = 16,
                                         .max_step_tokens = 512,
                                         .max_waiting = 20000,
                                         .max_waiting_tokens = 1u << 30,
                                         .max_ctx = 4096,
                                         .n_blocks = 1500,
                                         .block_len = 16,
                                         .prefix_cache = true,
                                         .target_itl_us = SCHED_AUTO,
                                         .max_step_us = SCHED_AUTO,
                                         .prefill_loss_pct = 4,
                                         .turn_tokens = 16}};
}

static struct sim_report run(const struct load_config *load, enum sim_policy policy)
{
    struct sim_config cfg = groups(policy);
    struct sim_report rep;
    struct load_source *source = load_source_create(load);
    cr_assert_not_null(source);
    simulate(&cfg, source, load->n_requests, &rep);
    load_source_destroy(source);
    cr_assert(rep.n_requests == load->n_requests && rep.n_busy == 0, "every request ends");
    return rep;
}

Test(fleet_load, prefixes_are_found_and_no_request_waits_long, .timeout = 600)
{
    struct load_config load = conversations();
    struct sim_report affinity = run(&load, SIM_AFFINITY), by_load = run(&load, SIM_LOAD),
                      turns = run(&load, SIM_ROUND_ROBIN);
    cr_assert_gt(affinity.cached_tokens, 5 * turns.cached_tokens / 4,
                 "%llu of %llu tokens cached, %llu", (unsigned long long)affinity.cached_tokens,
                 (unsigned long long)affinity.prompt_tokens,
                 (unsigned long long)turns.cached_tokens);
    cr_assert_gt(affinity.cached_tokens, 5 * by_load.cached_tokens / 4);
    cr_assert(affinity.first.p50 <= turns.first.p50 && affinity.first.p99 <= turns.first.p99,
              "first token %.3f and %.3f s, in turns %.3f and %.3f s", affinity.first.p50,
              affinity.first.p99, turns.first.p50, turns.first.p99);
    cr_assert_lt(affinity.start.greatest, 2, "%.3f s", affinity.start.greatest);
    cr_assert_gt(affinity.least_busy, affinity.most_busy / 4, "%.3f and %.3f of the time",
                 affinity.least_busy, affinity.most_busy);
}

/* More than the groups can serve: the wait grows, but for no request without end. */
Test(fleet_load, under_overload_all_wait_alike, .timeout = 600)
{
    struct load_config load = conversations();
    load.conversations_per_s *= 10;
    load.n_requests /= 2;
    struct sim_report affinity = run(&load, SIM_AFFINITY), turns = run(&load, SIM_ROUND_ROBIN);
    cr_assert_geq(affinity.cached_tokens, turns.cached_tokens);
    cr_assert_leq(affinity.seconds, turns.seconds, "%.1f and %.1f s for all", affinity.seconds,
                  turns.seconds);
    cr_assert_lt(affinity.start.greatest, affinity.seconds / 2, "%.1f of %.1f s",
                 affinity.start.greatest, affinity.seconds);
    cr_assert_gt(affinity.least_busy, affinity.most_busy / 4);
}

Test(fleet_load, a_run_is_repeated_exactly, .timeout = 600)
{
    struct load_config load = conversations();
    load.n_requests /= 4;
    struct sim_report a = run(&load, SIM_AFFINITY), b = run(&load, SIM_AFFINITY);
    cr_assert_eq(a.digest, b.digest);
}

static const char *const lines[] = {
    "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 5, \"hash_ids\": [0, 1, 2]}\n",
    "{\"timestamp\": 500, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [0, 1]}\n",
    "{\"timestamp\": 700, \"input_length\": 600, \"output_length\": 7, \"hash_ids\": [9, 8]}\n"};

static struct load_source *open_trace(const char *text, uint32_t copies)
{
    char dir[32], path[64];
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/trace", dir);
    FILE *out = fopen(path, "w");
    cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
    struct load_config cfg = {
        .n_requests = 1000, .max_tokens = 4096, .trace = path, .copies = copies, .apart_s = 2};
    struct load_source *s = load_source_create(&cfg);
    temp_dir_remove(dir);
    return s;
}

Test(load_source, a_trace_is_read_and_copied)
{
    char text[1024] = "";
    struct load_request r[6];
    uint64_t at;
    for (int i = 0; i < 3; i++)
        strcat(text, lines[i]);
    struct load_source *s = open_trace(text, 2);
    cr_assert_not_null(s);
    for (int i = 0; i < 6; i++) {
        cr_assert(load_source_when(s, &at));
        load_source_take(s, &r[i]);
        cr_assert_eq(at, r[i].arrival_us);
    }
    cr_assert_not(load_source_when(s, &at));
    cr_assert(r[1].arrival_us == 500000 && r[3].arrival_us == 2000000 &&
              r[3].tenant != r[0].tenant);
    cr_assert(r[0].n_prompt == 1100 && r[0].n_new == 5 && r[2].n_prompt == 600);
    for (uint32_t i = 0; i < 1024; i++)
        cr_assert_eq(load_token(&r[0], i, 32000), load_token(&r[1], i, 32000), "a common prefix");
    cr_assert_neq(load_token(&r[0], 0, 32000), load_token(&r[2], 0, 32000));
    load_source_destroy(s);
}

Test(load_source, other_files_are_refused)
{
    cr_assert_null(open_trace("", 1));
    cr_assert_null(open_trace("hello\n", 1));
    cr_assert_null(open_trace("{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 5, "
                              "\"hash_ids\": [0]}\n",
                              1));
}
