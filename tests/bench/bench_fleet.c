/* Many worker groups without ranks: where requests run, how many prompt tokens are cached and how long requests wait, by
 * placement.  See sched/simulate.h; nothing here depends on this machine's speed.
 *   bench_fleet [NAME=VALUE...]
 * conversations: requests=1000000 groups=64 rate=120 (conversations/s) families=4096 turns=3 think_s=20 new=48 seed=1
 * a trace:       trace=FILE copies=84 apart_s=60 requests=1000000 groups=64
 * a group:       seqs=64 blocks=8192 (of 16 tokens) step_us=6000 decode_us=60 prompt_us=50 max_tokens=16384
 * policy=0: prefixes and load, 1: load, 2: round robin; without it all of them, one after another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/simulate.h"

struct option {
    const char *name;
    double value;
};

static struct option options[] = {{"requests", 1000000}, {"groups", 64},       {"rate", 120},
                                  {"families", 4096},    {"turns", 3},         {"think_s", 20},
                                  {"new", 48},           {"seed", 1},          {"copies", 84},
                                  {"apart_s", 60},       {"seqs", 64},         {"blocks", 8192},
                                  {"step_us", 6000},     {"decode_us", 60},    {"prompt_us", 50},
                                  {"policy", -1},        {"max_tokens", 16384}};
static const char *trace;

static double option(const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(options[i].name, name) == 0)
            return options[i].value;
    fprintf(stderr, "bench_fleet: no option %s\n", name);
    exit(2);
}

static uint32_t whole(const char *name)
{
    double v = option(name);
    if (v >= 1 && v <= 1e9)
        return (uint32_t)v;
    fprintf(stderr, "bench_fleet: %s is %g\n", name, v);
    exit(2);
}

static void set_option(char *arg)
{
    char *value = strchr(arg, '='), *end;
    if (value) {
        *value++ = '\0';
        if (strcmp(arg, "trace") == 0) {
            trace = value;
            return;
        }
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            if (strcmp(options[i].name, arg) == 0) {
                options[i].value = strtod(value, &end);
                if (end != value && !*end)
                    return;
            }
    }
    fprintf(stderr, "bench_fleet: %s is no option with a number; see the head of bench_fleet.c\n",
            arg);
    exit(2);
}

static void print(const char *name, const struct sim_report *r)
{
    printf("%-18s %5.1f %%  %7.3f %8.3f %9.3f  %7.3f %8.3f %9.3f  %5.1f %% (%.1f to %.1f)\n", name,
           100.0 * (double)r->cached_tokens / (double)r->prompt_tokens, r->start.p50, r->start.p99,
           r->start.greatest, r->first.p50, r->first.p99, r->first.greatest, 100 * r->busy,
           100 * r->least_busy, 100 * r->most_busy);
    if (r->n_busy)
        printf("%-18s %llu requests found the queue full\n", "", (unsigned long long)r->n_busy);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        set_option(argv[i]);
    struct load_config load = {.seed = whole("seed"),
                               .n_requests = whole("requests"),
                               .conversations_per_s = option("rate"),
                               .n_families = whole("families"),
                               .turns = option("turns"),
                               .think_s = option("think_s"),
                               .new_tokens = whole("new"),
                               .max_tokens = whole("max_tokens"),
                               .trace = trace,
                               .copies = whole("copies"),
                               .apart_s = option("apart_s")};
    struct sim_config cfg = {.n_groups = whole("groups"),
                             .step_us = option("step_us"),
                             .decode_us = option("decode_us"),
                             .prompt_us = option("prompt_us"),
                             .sched = {.max_seqs = whole("seqs"),
                                       .max_step_tokens = 2048,
                                       .max_waiting = 500000,
                                       .max_waiting_tokens = UINT32_MAX,
                                       .max_ctx = load.max_tokens,
                                       .n_blocks = whole("blocks"),
                                       .block_len = 16,
                                       .prefix_cache = true,
                                       .target_itl_us = SCHED_AUTO,
                                       .max_step_us = SCHED_AUTO,
                                       .prefill_loss_pct = 4,
                                       .turn_tokens = 64}};
    printf("%-18s %7s  %26s  %26s  %s\n", "placement", "cached", "start, s: p50, p99, most",
           "first token, s: the same", "groups compute (least to most)");
    for (int p = 0; p < SIM_POLICIES; p++) {
        struct sim_report rep;
        struct load_source *source = load_source_create(&load);
        if (!source)
            return 1;
        cfg.policy = (enum sim_policy)p;
        if (option("policy") < 0 || option("policy") == p) {
            simulate(&cfg, source, load.n_requests, &rep);
            print(sim_policy_names[p], &rep);
            if (p == 0 || option("policy") == p)
                printf("%-18s %llu requests, %.3g prompt tokens, %.3g of answers, in %.0f s\n", "",
                       (unsigned long long)rep.n_requests, (double)rep.prompt_tokens,
                       (double)rep.new_tokens, rep.seconds);
        }
        load_source_destroy(source);
    }
    return 0;
}
