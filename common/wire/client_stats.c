/* The figures of a server, in StatsReply. */
#include "common/wire/client_pb.h"

/* Nothing when it is absent. */
static enum status put_histogram(Ingot__Histogram **out, const struct msg_histogram *h,
                                 struct wire_mem *mem)
{
    if (!h->n)
        return ST_OK;
    MEM_ARRAY(*out, 1, mem);
    ingot__histogram__init(*out);
    (*out)->n_bound = h->n;
    (*out)->bound = (uint64_t *)h->bound;
    (*out)->n_count = (size_t)h->n + 1;
    (*out)->count = (uint64_t *)h->count;
    SET(**out, sum, h->sum);
    return ST_OK;
}

static void put_blocks_and_ranks(Ingot__WorkerGroup *m, const struct msg_group *g)
{
    const struct msg_ranks *r = &g->ranks;
    SET(*m, blocks_total, g->blocks_total);
    SET(*m, blocks_free, g->blocks_free);
    SET(*m, blocks_cached, g->blocks_cached);
    m->n_rank_steps = m->n_rank_step_us = m->n_rank_collective_us = m->n_rank_kv_bytes = r->n;
    m->rank_steps = (uint64_t *)(uintptr_t)r->steps;
    m->rank_step_us = (uint64_t *)(uintptr_t)r->step_us;
    m->rank_collective_us = (uint64_t *)(uintptr_t)r->collective_us;
    m->rank_kv_bytes = (uint64_t *)(uintptr_t)r->kv_bytes;
}

enum status stats_encode(struct wire_bytes *out, const struct msg_stats *s, struct wire_mem *mem)
{
    Ingot__StatsReply m = INGOT__STATS_REPLY__INIT;
    Ingot__WorkerGroup *groups;
    m.request_id = string_of(s->request_id);
    SET(m, running, s->running);
    SET(m, waiting, s->waiting);
    SET(m, blocks_total, s->blocks_total);
    SET(m, blocks_free, s->blocks_free);
    SET(m, blocks_cached, s->blocks_cached);
    SET(m, snapshots_total, s->snapshots_total);
    SET(m, snapshots_known, s->snapshots_known);
    SET(m, steps, s->steps);
    SET(m, steps_overlapped, s->steps_overlapped);
    SET(m, tokens_generated, s->tokens_generated);
    SET(m, prompt_tokens, s->prompt_tokens);
    SET(m, cached_tokens, s->cached_tokens);
    SET(m, preemptions, s->preemptions);
    SET(m, pauses, s->pauses);
    SET(m, recoveries, s->recoveries);
    SET(m, requests_finished, s->finished);
    SET(m, requests_failed, s->failed);
    SET(m, requests_rejected, s->rejected);
    SET(m, requests_cancelled, s->cancelled);
    SET(m, last_step_age_us, s->last_step_age_us);
    SET(m, uptime_us, s->uptime_us);
    SET(m, clients, s->clients);
    SET(m, ready, s->ready);
    SET(m, draining, s->draining);
    SET(m, epoch, s->epoch);
    SET(m, block_tokens, s->block_len);
    SET(m, prefix_queries, s->prefix_queries);
    SET(m, prefix_hits, s->prefix_hits);
    SET(m, grammars_compiled, s->grammars_compiled);
    SET(m, grammars_known, s->grammars_known);
    SET(m, grammars_refused, s->grammars_refused);
    SET(m, grammars_dropped, s->grammars_dropped);
    SET(m, masks, s->masks);
    SET(m, masks_cached, s->masks_cached);
    SET(m, mask_us, s->mask_us);
    SET(m, mask_wait_us, s->mask_wait_us);
    m.journal = string_of(s->journal);
    m.n_samples_ended = s->n_samples_ended;
    m.samples_ended = (uint64_t *)s->samples_ended;
    m.n_rejected_by_code = s->n_rejected_by_code;
    m.rejected_by_code = (uint64_t *)s->rejected_by_code;
#define PUT(id, field) TRY(put_histogram(&m.field, &s->histogram[id], mem));
    STATS_HISTOGRAM_ROWS(PUT)
#undef PUT
    MEM_ARRAY(groups, s->n_groups, mem);
    MEM_ARRAY(m.group, s->n_groups, mem);
    m.n_group = s->n_groups;
    for (uint32_t i = 0; i < s->n_groups; i++) {
        const struct msg_group *g = &s->groups[i];
        ingot__worker_group__init(&groups[i]);
        SET(groups[i], epoch, g->epoch);
        SET(groups[i], world, g->world);
        groups[i].backend = string_of(g->backend);
        groups[i].coll = string_of(g->coll);
        SET(groups[i], step_us_p50, g->step_us_p50);
        SET(groups[i], step_us_p99, g->step_us_p99);
        SET(groups[i], active, g->active);
        SET(groups[i], slot, g->slot);
        SET(groups[i], running, g->running);
        SET(groups[i], waiting, g->waiting);
        SET(groups[i], tokens_generated, g->tokens_generated);
        put_blocks_and_ranks(&groups[i], g);
        TRY(put_histogram(&groups[i].step_us, &g->step_us, mem));
        TRY(put_histogram(&groups[i].collective_us, &g->collective_us, mem));
        groups[i].numerics = string_of(g->numerics);
        groups[i].hosts = string_of(g->hosts);
        groups[i].address = string_of(g->address);
        if (g->has_weights)
            SET(groups[i], weights_digest, pb_digest(g->weights));
        m.group[i] = &groups[i];
    }
    return pb_pack(out, MSG_STATS_REPLY, &m.base, mem);
}

static enum status get_histogram(struct msg_histogram *h, const Ingot__Histogram *m)
{
    *h = (struct msg_histogram){0};
    if (!m || !m->n_bound)
        return ST_OK;
    if (m->n_count != m->n_bound + 1 || m->n_bound > HISTOGRAM_BOUNDS)
        FAIL(ST_FORMAT, "a histogram with %zu bounds and %zu counts", m->n_bound, m->n_count);
    *h = (struct msg_histogram){(uint32_t)m->n_bound, m->bound, m->count, m->sum};
    return ST_OK;
}

static enum status get_blocks_and_ranks(struct msg_group *g, const Ingot__WorkerGroup *m)
{
    uint32_t n;
    TRY(pb_check_ranks(&n, (size_t[]){m->n_rank_steps, m->n_rank_step_us, m->n_rank_collective_us,
                                      m->n_rank_kv_bytes}));
    g->blocks_total = m->blocks_total;
    g->blocks_free = m->blocks_free;
    g->blocks_cached = m->blocks_cached;
    g->ranks = (struct msg_ranks){n, m->rank_steps, m->rank_step_us, m->rank_collective_us,
                                  m->rank_kv_bytes};
    return ST_OK;
}

enum status stats_decode(struct msg_stats *s, const Ingot__StatsReply *m, struct wire_mem *mem)
{
    struct msg_group *groups;
    *s = (struct msg_stats){.running = m->running,
                            .waiting = m->waiting,
                            .blocks_total = m->blocks_total,
                            .blocks_free = m->blocks_free,
                            .blocks_cached = m->blocks_cached,
                            .snapshots_total = m->snapshots_total,
                            .snapshots_known = m->snapshots_known,
                            .clients = m->clients,
                            .steps = m->steps,
                            .steps_overlapped = m->steps_overlapped,
                            .tokens_generated = m->tokens_generated,
                            .prompt_tokens = m->prompt_tokens,
                            .cached_tokens = m->cached_tokens,
                            .preemptions = m->preemptions,
                            .pauses = m->pauses,
                            .recoveries = m->recoveries,
                            .finished = m->requests_finished,
                            .failed = m->requests_failed,
                            .rejected = m->requests_rejected,
                            .cancelled = m->requests_cancelled,
                            .last_step_age_us = m->last_step_age_us,
                            .uptime_us = m->uptime_us,
                            .epoch = m->epoch,
                            .block_len = m->block_tokens,
                            .prefix_queries = m->prefix_queries,
                            .prefix_hits = m->prefix_hits,
                            .grammars_compiled = m->grammars_compiled,
                            .grammars_known = m->grammars_known,
                            .grammars_refused = m->grammars_refused,
                            .grammars_dropped = m->grammars_dropped,
                            .masks = m->masks,
                            .masks_cached = m->masks_cached,
                            .mask_us = m->mask_us,
                            .mask_wait_us = m->mask_wait_us,
                            .journal = pb_string(m->journal),
                            .n_samples_ended = (uint32_t)m->n_samples_ended,
                            .samples_ended = m->samples_ended,
                            .n_rejected_by_code = (uint32_t)m->n_rejected_by_code,
                            .rejected_by_code = m->rejected_by_code,
                            .ready = m->ready,
                            .draining = m->draining};
#define GET(id, field) TRY(get_histogram(&s->histogram[id], m->field));
    STATS_HISTOGRAM_ROWS(GET)
#undef GET
    MEM_ARRAY(groups, m->n_group, mem);
    for (size_t i = 0; i < m->n_group; i++) {
        const Ingot__WorkerGroup *g = m->group[i];
        groups[i] = (struct msg_group){.epoch = g->epoch,
                                       .world = g->world,
                                       .backend = pb_string(g->backend),
                                       .coll = pb_string(g->coll),
                                       .numerics = pb_string(g->numerics),
                                       .hosts = pb_string(g->hosts),
                                       .address = pb_string(g->address),
                                       .step_us_p50 = g->step_us_p50,
                                       .step_us_p99 = g->step_us_p99,
                                       .slot = g->slot,
                                       .running = g->running,
                                       .waiting = g->waiting,
                                       .tokens_generated = g->tokens_generated,
                                       .active = g->active};
        TRY(get_blocks_and_ranks(&groups[i], g));
        TRY(get_histogram(&groups[i].step_us, g->step_us));
        TRY(get_histogram(&groups[i].collective_us, g->collective_us));
        TRY(pb_get_digest(groups[i].weights, &groups[i].has_weights, g->has_weights_digest,
                          g->weights_digest, "weights_digest"));
    }
    s->n_groups = (uint32_t)m->n_group;
    s->groups = groups;
    return ST_OK;
}
