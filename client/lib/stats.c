/* The figures of a server, as the program that asked sees them. */
#include <assert.h>

#include "client/lib/internal.h"
#include "common/hex.h"

static_assert((int)INGOT_HISTOGRAMS == (int)N_STATS_HISTOGRAMS, "histograms are the protocol's");
static_assert((int)INGOT_STEP_TOKENS == (int)STATS_STEP_TOKENS, "in the same order");
static_assert((int)INGOT_GRAMMAR_COMPILE_US == (int)STATS_GRAMMAR_COMPILE_US, "in the same order");
static_assert((int)INGOT_COMPLETION_TOKENS == (int)STATS_COMPLETION_TOKENS, "in the same order");

static struct ingot_ranks ranks_of(const struct msg_ranks *r)
{
    return (struct ingot_ranks){r->n, r->steps, r->step_us, r->collective_us, r->kv_bytes};
}

static struct ingot_histogram histogram_of(const struct msg_histogram *h)
{
    return (struct ingot_histogram){h->n, h->bound, h->count, h->sum};
}

/* A newer server may know more kinds, an older one none. */
static void copy_counts(uint64_t *out, size_t n_out, const uint64_t *count, size_t n)
{
    for (size_t i = 0; i < n_out && i < n; i++)
        out[i] = count[i];
}

void client_fill_stats(struct ingot_stats *out, const struct msg_stats *s)
{
    *out = (struct ingot_stats){.running = s->running,
                                .waiting = s->waiting,
                                .blocks_total = s->blocks_total,
                                .blocks_free = s->blocks_free,
                                .blocks_cached = s->blocks_cached,
                                .snapshots_total = s->snapshots_total,
                                .snapshots_known = s->snapshots_known,
                                .clients = s->clients,
                                .steps = s->steps,
                                .steps_overlapped = s->steps_overlapped,
                                .tokens_generated = s->tokens_generated,
                                .prompt_tokens = s->prompt_tokens,
                                .cached_tokens = s->cached_tokens,
                                .preemptions = s->preemptions,
                                .pauses = s->pauses,
                                .recoveries = s->recoveries,
                                .finished = s->finished,
                                .failed = s->failed,
                                .rejected = s->rejected,
                                .cancelled = s->cancelled,
                                .last_step_age_us = s->last_step_age_us,
                                .uptime_us = s->uptime_us,
                                .epoch = s->epoch,
                                .block_tokens = s->block_len,
                                .prefix_queries = s->prefix_queries,
                                .prefix_hits = s->prefix_hits,
                                .grammars_compiled = s->grammars_compiled,
                                .grammars_known = s->grammars_known,
                                .grammars_refused = s->grammars_refused,
                                .grammars_dropped = s->grammars_dropped,
                                .masks = s->masks,
                                .masks_cached = s->masks_cached,
                                .mask_us = s->mask_us,
                                .mask_wait_us = s->mask_wait_us,
                                .journal = s->journal,
                                .ready = s->ready,
                                .draining = s->draining};
    copy_counts(out->samples_ended, ARRAY_LEN(out->samples_ended), s->samples_ended,
                s->n_samples_ended);
    copy_counts(out->rejected_by_code, ARRAY_LEN(out->rejected_by_code), s->rejected_by_code,
                s->n_rejected_by_code);
    for (size_t i = 0; i < INGOT_HISTOGRAMS; i++)
        out->histogram[i] = histogram_of(&s->histogram[i]);
    for (uint32_t i = 0; i < s->n_groups && i < ARRAY_LEN(out->groups); i++) {
        const struct msg_group *g = &s->groups[i];
        out->groups[i] = (struct ingot_group){.epoch = g->epoch,
                                              .world = g->world,
                                              .backend = g->backend,
                                              .coll = g->coll,
                                              .numerics = g->numerics,
                                              .hosts = g->hosts,
                                              .address = g->address,
                                              .step_us_p50 = g->step_us_p50,
                                              .step_us_p99 = g->step_us_p99,
                                              .slot = g->slot,
                                              .running = g->running,
                                              .waiting = g->waiting,
                                              .tokens_generated = g->tokens_generated,
                                              .step_us = histogram_of(&g->step_us),
                                              .collective_us = histogram_of(&g->collective_us),
                                              .blocks_total = g->blocks_total,
                                              .blocks_free = g->blocks_free,
                                              .blocks_cached = g->blocks_cached,
                                              .ranks = ranks_of(&g->ranks),
                                              .active = g->active};
        if (g->has_weights)
            hex_of(g->weights, sizeof g->weights, out->groups[i].weights_digest);
        out->n_groups++;
    }
}
