#include "coordinator/stats.h"

#include <string.h>

#include "coordinator/groups.h"

static struct msg_group group_of(const struct coordinator *co, const struct worker_group *g)
{
    struct sched_stats s = {0};
    if (g->active)
        sched_stats(fleet_sched(co->fleet, 1 + g->slot), &s);
    struct msg_group m = {.epoch = g->epoch,
                          .world = g->world,
                          .slot = g->slot,
                          .running = s.running,
                          .waiting = s.waiting,
                          .tokens_generated = g->n_tokens,
                          .backend = g->backend,
                          .coll = g->coll,
                          .active = g->active,
                          .numerics = g->numerics,
                          .hosts = g->hosts,
                          .address = g->address,
                          .step_us = metrics_message(&g->step_us),
                          .blocks_total = s.blocks_total,
                          .blocks_free = s.blocks_free,
                          .blocks_cached = s.blocks_cached,
                          .ranks = group_figures_message(&g->figures),
                          .has_weights = g->has_weights};
    if (g->world > 1)
        m.collective_us = metrics_message(&g->collective_us);
    memcpy(m.weights, g->weights, sizeof g->weights);
    worker_group_step_percentiles(g, &m.step_us_p50, &m.step_us_p99);
    return m;
}

void stats_reply(struct coordinator *co, struct client *c, const char *request_id, uint64_t now_us)
{
    struct sched_stats s = {0};
    struct msg_group groups[MAX_WORKER_GROUPS];
    struct client_msg m = {.type = MSG_STATS_REPLY};
    char journal[256];
    uint32_t n = 0;

    if (co->fleet)
        fleet_stats(co->fleet, &s);
    for (uint32_t i = 0; i < MAX_WORKER_GROUPS; i++) {
        const struct worker_group *g = worker_port_group(co->worker_port, i);
        if (g)
            groups[n++] = group_of(co, g);
    }
    m.u.stats = (struct msg_stats){
        .request_id = request_id,
        .running = s.running,
        .waiting = s.waiting,
        .blocks_total = s.blocks_total,
        .blocks_free = s.blocks_free,
        .blocks_cached = s.blocks_cached,
        .snapshots_total = s.snapshots_total,
        .snapshots_known = s.snapshots_known,
        .block_len = co->shape.block_len,
        .clients = client_port_clients(co->client_port),
        .steps = s.steps,
        .steps_overlapped = co->n.steps_overlapped,
        .tokens_generated = co->n.tokens_generated,
        .prompt_tokens = co->n.prompt_tokens,
        .cached_tokens = co->n.cached_tokens,
        .preemptions = s.preemptions,
        .pauses = s.pauses,
        .recoveries = co->n.recoveries,
        .finished = co->n.finished,
        .failed = co->n.failed,
        .cancelled = co->n.cancelled,
        .last_step_age_us = co->last_step_us ? now_us - co->last_step_us : 0,
        .uptime_us = now_us - co->started_us,
        .epoch = co->epoch,
        .ready = groups_ready(co),
        .draining = co->draining,
        .n_groups = n,
        .groups = groups,
        .journal = journal_text(co->journal, journal, sizeof journal),
    };
    metrics_report(&co->metrics, &m.u.stats);
    client_port_reply(co->client_port, c, &m, now_us);
}
