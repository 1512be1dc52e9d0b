#include "coordinator/stats.h"

#include <string.h>

#include "coordinator/groups.h"

static struct msg_group group_of(const struct worker_group *g, uint32_t slot)
{
    struct msg_group m = {.epoch = g->epoch,
                          .world = g->world,
                          .slot = slot,
                          .backend = g->backend,
                          .coll = g->coll,
                          .active = g->active,
                          .numerics = g->numerics,
                          .step_us = metrics_message(&g->step_us),
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

    if (co->sched)
        sched_stats(co->sched, &s);
    for (uint32_t i = 0; i < MAX_WORKER_GROUPS; i++) {
        const struct worker_group *g = worker_port_group(co->worker_port, (int)i);
        if (g)
            groups[n++] = group_of(g, i);
    }
    m.u.stats = (struct msg_stats){
        .request_id = request_id,
        .running = s.running,
        .waiting = s.waiting,
        .blocks_total = s.blocks_total,
        .blocks_free = s.blocks_free,
        .blocks_cached = s.blocks_cached,
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
