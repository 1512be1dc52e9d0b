#include "client/gateway/metrics_engine.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/status.h"

enum { LABELS_SIZE = 400, VALUE_SIZE = 160 };

#define OWN "ingot_"

struct writer {
    struct prometheus *p;
    const char *prefix; /* of vLLM's stems */
    const struct ingot_stats *s;
    char labels[LABELS_SIZE]; /* model_name, engine */
    char more[3 * LABELS_SIZE];
};

/* The labels of all, and one more. */
static const char *with(struct writer *w, const char *name, const char *value)
{
    snprintf(w->more, sizeof w->more, "%s,%s=\"%s\"", w->labels, name, value);
    return w->more;
}

static void value(struct writer *w, const char *prefix, const char *stem, const char *type,
                  const char *help, uint64_t v)
{
    prometheus_family(w->p, prefix, stem, type, help);
    prometheus_u64(w->p, w->labels, v);
}

/* ---- what vLLM has too ---- */

static void write_gauges(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    uint32_t held = s->blocks_total - s->blocks_free - s->blocks_cached;
    value(w, w->prefix, "num_requests_running", "gauge", "Samples that the steps compute.",
          s->running);
    value(w, w->prefix, "num_requests_waiting", "gauge", "Samples in the queue.", s->waiting);
    prometheus_family(w->p, w->prefix, "kv_cache_usage_perc", "gauge",
                      "Part of the KV cache that running samples hold; 1 is all.");
    prometheus_double(w->p, w->labels, s->blocks_total ? (double)held / s->blocks_total : 0.0);
    prometheus_family(w->p, w->prefix, "cache_config_info", "gauge",
                      "Size of the KV cache, in its labels: tokens of a block, blocks.");
    snprintf(w->more, sizeof w->more,
             "%s,block_size=\"%" PRIu32 "\",num_gpu_blocks=\"%" PRIu32 "\"", w->labels,
             s->block_tokens, s->blocks_total);
    prometheus_u64(w->p, w->more, 1);
}

static void write_reasons(struct writer *w)
{
    const uint64_t *n = w->s->samples_ended;
    const struct {
        const char *reason;
        uint64_t n;
    } rows[] = {
        {"stop", n[INGOT_REASON_EOS] + n[INGOT_REASON_STOP]},
        {"length", n[INGOT_REASON_LENGTH]},
        {"abort", n[INGOT_REASON_CANCELLED] + n[INGOT_REASON_DEADLINE]},
        {"error", n[INGOT_REASON_FAILED]},
    };
    prometheus_family(w->p, w->prefix, "request_success_total", "counter",
                      "Samples that ended, by reason; abort: cancelled or past their deadline.");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        prometheus_u64(w->p, with(w, "finished_reason", rows[i].reason), rows[i].n);
}

static void write_sources(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    prometheus_family(w->p, w->prefix, "prompt_tokens_by_source_total", "counter",
                      "Tokens of the prompts of all requests: computed, or found in the cache.");
    prometheus_u64(w->p, with(w, "source", "local_compute"), s->prompt_tokens - s->cached_tokens);
    prometheus_u64(w->p, with(w, "source", "local_cache_hit"), s->cached_tokens);
}

static void write_counters(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    const char *prefix = w->prefix;
    value(w, prefix, "prompt_tokens_total", "counter", "Tokens of the prompts of all requests.",
          s->prompt_tokens);
    value(w, prefix, "generation_tokens_total", "counter", "Tokens that were generated.",
          s->tokens_generated);
    value(w, prefix, "prompt_tokens_cached_total", "counter",
          "Of the tokens of prompts, those found in the prefix cache.", s->cached_tokens);
    value(w, prefix, "num_preemptions_total", "counter",
          "Samples that lost their cache blocks and were computed again.", s->preemptions);
    value(w, prefix, "prefix_cache_queries_total", "counter",
          "Prompt tokens of samples that were looked up in the prefix cache.", s->prefix_queries);
    value(w, prefix, "prefix_cache_hits_total", "counter",
          "Prompt tokens of samples that were found in the prefix cache.", s->prefix_hits);
    write_sources(w);
    write_reasons(w);
    prometheus_family(w->p, prefix, "admission_rejections_total", "counter",
                      "Requests that were refused, by code of the protocol.");
    for (size_t i = INGOT_OK + 1; i < ARRAY_LEN(s->rejected_by_code); i++)
        prometheus_u64(w->p, with(w, "reason", ingot_code_name((enum ingot_code)i)),
                       s->rejected_by_code[i]);
}

static const struct {
    const char *stem;
    enum prometheus_unit unit;
    const char *help;
} histograms[INGOT_STEP_TOKENS + 1] = {
    [INGOT_FIRST_TOKEN_US] = {"time_to_first_token_seconds", PROMETHEUS_US,
                              "From a request's arrival to its first token."},
    [INGOT_BETWEEN_TOKENS_US] = {"inter_token_latency_seconds", PROMETHEUS_US,
                                 "From a token of a sample to the next one."},
    [INGOT_PER_TOKEN_US] = {"request_time_per_output_token_seconds", PROMETHEUS_US,
                            "Mean time between the tokens of a sample."},
    [INGOT_TOTAL_US] = {"e2e_request_latency_seconds", PROMETHEUS_US,
                        "From a request's arrival to its end."},
    [INGOT_QUEUE_US] = {"request_queue_time_seconds", PROMETHEUS_US,
                        "From a request's arrival to its first step."},
    [INGOT_PREFILL_US] = {"request_prefill_time_seconds", PROMETHEUS_US,
                          "From a request's first step to its first token."},
    [INGOT_DECODE_US] = {"request_decode_time_seconds", PROMETHEUS_US,
                         "From a request's first token to its last one."},
    [INGOT_INFERENCE_US] = {"request_inference_time_seconds", PROMETHEUS_US,
                            "From a request's first step to its last token."},
    [INGOT_PROMPT_TOKENS] = {"request_prompt_tokens", PROMETHEUS_PLAIN,
                             "Tokens of a request's prompt."},
    [INGOT_COMPUTED_PROMPT_TOKENS] = {"request_prefill_kv_computed_tokens", PROMETHEUS_PLAIN,
                                      "Tokens of a request's prompt that no cache had."},
    [INGOT_COMPLETION_TOKENS] = {"request_generation_tokens", PROMETHEUS_PLAIN,
                                 "Tokens of a sample."},
    [INGOT_LONGEST_SAMPLE_TOKENS] = {"request_max_num_generation_tokens", PROMETHEUS_PLAIN,
                                     "Tokens of a request's longest sample."},
    [INGOT_MAX_TOKENS] = {"request_params_max_tokens", PROMETHEUS_PLAIN,
                          "max_tokens in force for a request."},
    [INGOT_SAMPLES] = {"request_params_n", PROMETHEUS_PLAIN, "Samples of a request."},
    [INGOT_PREEMPTIONS] = {"request_num_preemptions", PROMETHEUS_PLAIN,
                           "Preemptions of a request."},
    [INGOT_STEP_TOKENS] = {"iteration_tokens_total", PROMETHEUS_PLAIN,
                           "Tokens that a step computes."},
};

static void write_histograms(struct writer *w)
{
    for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
        if (!w->s->histogram[i].n)
            continue;
        prometheus_family(w->p, w->prefix, histograms[i].stem, "histogram", histograms[i].help);
        prometheus_histogram(w->p, w->labels, &w->s->histogram[i], histograms[i].unit);
    }
}

/* ---- what is Ingot's own ---- */

static void write_requests(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    const struct {
        const char *outcome;
        uint64_t n;
    } rows[] = {{"finished", s->finished},
                {"failed", s->failed},
                {"rejected", s->rejected},
                {"cancelled", s->cancelled}};
    prometheus_family(w->p, OWN, "requests_total", "counter", "Requests that ended, by outcome.");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        prometheus_u64(w->p, with(w, "outcome", rows[i].outcome), rows[i].n);
}

static void write_blocks(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    const struct {
        const char *state;
        uint32_t n;
    } rows[] = {{"held", s->blocks_total - s->blocks_free - s->blocks_cached},
                {"cached", s->blocks_cached},
                {"free", s->blocks_free}};
    prometheus_family(w->p, OWN, "kv_blocks", "gauge",
                      "Blocks of the KV cache; cached: unused, kept for prompts that begin alike.");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        prometheus_u64(w->p, with(w, "state", rows[i].state), rows[i].n);
    if (s->snapshots_total == 0)
        return;
    prometheus_family(w->p, OWN, "state_snapshots", "gauge",
                      "Snapshots of states beside the KV cache; known: of a prompt or an answer, "
                      "free: unused, or being written.");
    prometheus_u64(w->p, with(w, "state", "known"), s->snapshots_known);
    prometheus_u64(w->p, with(w, "state", "free"), s->snapshots_total - s->snapshots_known);
}

static void write_state(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    value(w, OWN, "ready", "gauge", "1: a worker group runs steps.", s->ready);
    value(w, OWN, "draining", "gauge", "1: new requests are refused.", s->draining);
    value(w, OWN, "clients", "gauge", "Connections to the coordinator.", s->clients);
    value(w, OWN, "steps_total", "counter", "Steps.", s->steps);
    value(w, OWN, "steps_overlapped_total", "counter",
          "Steps that were planned and sent while another one ran.", s->steps_overlapped);
    value(w, OWN, "pauses_total", "counter",
          "Samples that went back to the queue at the end of a turn or for a higher priority.",
          s->pauses);
    value(w, OWN, "recoveries_total", "counter",
          "Worker groups that were lost while they ran the steps.", s->recoveries);
    prometheus_family(w->p, OWN, "uptime_seconds", "gauge", "Since the coordinator started.");
    prometheus_seconds(w->p, w->labels, s->uptime_us);
    prometheus_family(w->p, OWN, "last_step_age_seconds", "gauge",
                      "Since the result of the last step; 0 before the first one.");
    prometheus_seconds(w->p, w->labels, s->last_step_age_us);
}

static void write_grammars(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    const struct {
        const char *result;
        uint64_t n;
    } rows[] = {{"compiled", s->grammars_compiled},
                {"known", s->grammars_known},
                {"dropped", s->grammars_dropped}};
    prometheus_family(w->p, OWN, "grammars_total", "counter",
                      "Grammars of requests; known: the same source had been compiled; dropped: "
                      "the client had left.");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        prometheus_u64(w->p, with(w, "result", rows[i].result), rows[i].n);
    value(w, OWN, "grammars_refused_total", "counter",
          "Grammars of requests that were refused, compiled or known.", s->grammars_refused);
    prometheus_family(w->p, OWN, "grammar_compile_seconds", "histogram",
                      "Time to compile a grammar, or to refuse it.");
    prometheus_histogram(w->p, w->labels, &s->histogram[INGOT_GRAMMAR_COMPILE_US], PROMETHEUS_US);
    value(w, OWN, "masks_total", "counter", "Masks of tokens for sequences with a grammar.",
          s->masks);
    value(w, OWN, "masks_cached_total", "counter", "Of these, the ones that were found ready.",
          s->masks_cached);
    prometheus_family(w->p, OWN, "mask_seconds_total", "counter", "Time of all masks.");
    prometheus_seconds(w->p, w->labels, s->mask_us);
    prometheus_family(w->p, OWN, "mask_wait_seconds_total", "counter",
                      "Time for which steps waited for their masks, at most.");
    prometheus_seconds(w->p, w->labels, s->mask_wait_us);
}

static const char *group_labels(struct writer *w, const struct ingot_group *g)
{
    char backend[VALUE_SIZE], coll[VALUE_SIZE], numerics[VALUE_SIZE];
    snprintf(w->more, sizeof w->more,
             "%s,group=\"%" PRIu32 "\",role=\"%s\",backend=\"%s\",coll=\"%s\",numerics=\"%s\"",
             w->labels, g->slot, g->active ? "active" : "standby",
             prometheus_escape(backend, sizeof backend, g->backend),
             prometheus_escape(coll, sizeof coll, g->coll),
             prometheus_escape(numerics, sizeof numerics, g->numerics));
    return w->more;
}

static const char *group_label(struct writer *w, const struct ingot_group *g)
{
    char slot[16];
    snprintf(slot, sizeof slot, "%" PRIu32, g->slot);
    return with(w, "group", slot);
}

static void write_group_blocks(struct writer *w)
{
    prometheus_family(w->p, OWN, "group_kv_blocks", "gauge",
                      "Blocks of the KV cache of a group that runs steps, as in ingot_kv_blocks.");
    for (uint32_t i = 0; i < w->s->n_groups; i++) {
        const struct ingot_group *g = &w->s->groups[i];
        const struct {
            const char *state;
            uint32_t n;
        } rows[] = {{"held", g->blocks_total - g->blocks_free - g->blocks_cached},
                    {"cached", g->blocks_cached},
                    {"free", g->blocks_free}};
        for (size_t k = 0; g->active && k < ARRAY_LEN(rows); k++) {
            snprintf(w->more, sizeof w->more, "%s,group=\"%" PRIu32 "\",state=\"%s\"", w->labels,
                     g->slot, rows[k].state);
            prometheus_u64(w->p, w->more, rows[k].n);
        }
    }
}

/* Of a rank's KV cache the bytes in blocks of running samples. */
static uint64_t kv_bytes_held(const struct ingot_group *g, uint32_t rank)
{
    uint32_t held = g->blocks_total - g->blocks_free - g->blocks_cached;
    return g->blocks_total ? g->ranks.kv_bytes[rank] / g->blocks_total * held : 0;
}

enum rank_value { RANK_STEPS, RANK_STEP_US, RANK_COLLECTIVE_US, RANK_KV, RANK_KV_HELD };

static void write_rank(struct writer *w, const struct ingot_group *g, enum rank_value what)
{
    for (uint32_t r = 0; r < g->ranks.n; r++) {
        snprintf(w->more, sizeof w->more, "%s,group=\"%" PRIu32 "\",rank=\"%" PRIu32 "\"",
                 w->labels, g->slot, r);
        switch (what) {
        case RANK_STEPS:
            prometheus_u64(w->p, w->more, g->ranks.steps[r]);
            break;
        case RANK_STEP_US:
            prometheus_seconds(w->p, w->more, g->ranks.step_us[r]);
            break;
        case RANK_COLLECTIVE_US:
            prometheus_seconds(w->p, w->more, g->ranks.collective_us[r]);
            break;
        case RANK_KV:
            prometheus_u64(w->p, w->more, g->ranks.kv_bytes[r]);
            break;
        case RANK_KV_HELD:
            prometheus_u64(w->p, w->more, kv_bytes_held(g, r));
            break;
        }
    }
}

static void write_ranks(struct writer *w)
{
    const struct {
        const char *stem, *type, *help;
    } rows[] = {
        [RANK_STEPS] = {"rank_steps_total", "counter",
                        "Steps of a rank since its group connected, reported every second."},
        [RANK_STEP_US] =
            {"rank_step_seconds_total", "counter",
             "Time of a rank in steps, collectives included; on a GPU, of ranks beyond "
             "0: to enqueue them."},
        [RANK_COLLECTIVE_US] = {"rank_collective_seconds_total", "counter",
                                "Time of a rank in collectives of steps, waiting for other ranks "
                                "included: the slowest rank has the least."},
        [RANK_KV] = {"rank_kv_cache_bytes", "gauge", "Size of a rank's part of the KV cache."},
        [RANK_KV_HELD] = {"rank_kv_held_bytes", "gauge",
                          "Of a rank's part of the KV cache, bytes that running samples hold."},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        prometheus_family(w->p, OWN, rows[i].stem, rows[i].type, rows[i].help);
        for (uint32_t k = 0; k < w->s->n_groups; k++)
            write_rank(w, &w->s->groups[k], (enum rank_value)i);
    }
}

static void write_groups(struct writer *w)
{
    const struct ingot_stats *s = w->s;
    prometheus_family(w->p, OWN, "group_tokens_total", "counter",
                      "Tokens of answers that the steps of a group gave.");
    for (uint32_t i = 0; i < s->n_groups; i++)
        prometheus_u64(w->p, group_label(w, &s->groups[i]), s->groups[i].tokens_generated);
    prometheus_family(w->p, OWN, "group_ranks", "gauge",
                      "Ranks of a worker group; role active: it runs steps.");
    for (uint32_t i = 0; i < s->n_groups; i++)
        prometheus_u64(w->p, group_labels(w, &s->groups[i]), s->groups[i].world);
    prometheus_family(w->p, OWN, "step_seconds", "histogram",
                      "Time of a step, from its sending to its result.");
    for (uint32_t i = 0; i < s->n_groups; i++)
        prometheus_histogram(w->p, group_label(w, &s->groups[i]), &s->groups[i].step_us,
                             PROMETHEUS_US);
    prometheus_family(w->p, OWN, "collective_seconds", "histogram",
                      "Time that rank 0 spent in collectives of a step; groups of several ranks.");
    for (uint32_t i = 0; i < s->n_groups; i++)
        prometheus_histogram(w->p, group_label(w, &s->groups[i]), &s->groups[i].collective_us,
                             PROMETHEUS_US);
}

void metrics_write_engine(struct prometheus *p, const char *prefix, const char *model,
                          const struct ingot_stats *s)
{
    char name[2 * VALUE_SIZE];
    struct writer w = {.p = p, .prefix = prefix, .s = s};
    snprintf(w.labels, sizeof w.labels, "model_name=\"%s\",engine=\"%016" PRIx64 "\"",
             prometheus_escape(name, sizeof name, model), s->epoch);
    write_gauges(&w);
    write_counters(&w);
    write_histograms(&w);
    write_requests(&w);
    write_blocks(&w);
    write_state(&w);
    write_grammars(&w);
    write_groups(&w);
    write_group_blocks(&w);
    write_ranks(&w);
}
