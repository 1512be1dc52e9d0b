/* Worker groups and steps: joining, losing, planning, committing. */
#include "coordinator/groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "coordinator/answers.h"
#include "coordinator/notify.h"

enum { JOURNAL_FILE_BYTES = 256 << 20, JOURNAL_FILES = 8 };
enum {
    MAX_LOSSES = 5
}; /* groups lost in a row without a finished step: it is the work that kills them */

bool groups_ready(struct coordinator *co)
{
    return worker_port_active(co->worker_port) != NULL;
}

static uint32_t least(uint32_t mine, uint32_t theirs)
{
    return mine < theirs ? mine : theirs;
}

/* the first group says how large everything is */
static enum status make_sched(struct coordinator *co, const struct worker_group *g)
{
    struct sched_config sc = {
        .max_seqs = least(co->cfg.max_seqs, g->max_seqs),
        .max_step_tokens = least(co->cfg.max_step_tokens, g->max_step_tokens),
        .max_waiting = co->cfg.max_waiting,
        .max_waiting_tokens = co->cfg.max_waiting_tokens,
        .max_ctx = g->max_ctx,
        .n_blocks = g->n_blocks,
        .block_len = g->block_len,
        .prefix_cache = co->cfg.prefix_cache,
        .max_inflight = co->cfg.overlap ? MAX_STEPS_IN_FLIGHT : 1,
        .overtake = co->cfg.overtake,
    };
    if (tokenizer_max_id(co->mt.tok) >= (int32_t)g->vocab)
        log_line(LOG_WARN, "the tokenizer has ids up to %d, the model a vocabulary of %u",
                 tokenizer_max_id(co->mt.tok), g->vocab);
    struct journal_config jc = {.dir = co->cfg.journal_dir,
                                .name = "ingot",
                                .max_file_bytes = JOURNAL_FILE_BYTES,
                                .max_files = JOURNAL_FILES};
    TRY(sched_create(&co->sched, &sc));
    if (journal_open(&co->journal, &jc, co->sched, &sc) != ST_OK)
        log_failure(LOG_WARN, ST_IO, "no journal is written"); /* never a reason not to serve */
    co->fx_cap = sched_max_fx(&sc);
    co->fx = calloc(co->fx_cap, sizeof *co->fx);
    if (!co->fx) {
        sched_destroy(co->sched);
        co->sched = NULL;
        FAIL(ST_NOMEM, "no memory for effects");
    }
    co->shape = *g;
    co->shape.max_seqs = sc.max_seqs;
    co->shape.max_step_tokens = sc.max_step_tokens;
    worker_port_require(co->worker_port, &co->shape);
    return ST_OK;
}

static void reset_sched(struct coordinator *co, uint32_t n_blocks, uint64_t now_us)
{
    size_t n_fx = 0;
    sched_reset(co->sched, n_blocks, co->fx, co->fx_cap, &n_fx);
    journal_reset(co->journal, n_blocks, co->fx, n_fx);
    answer_effects(co, NULL, n_fx, now_us);
}

static void activate(struct coordinator *co, uint64_t now_us)
{
    struct worker_group *g = worker_port_promote(co->worker_port);
    if (!g)
        return;
    /* a larger cache than the first group's is not used: the tables were sized by that one */
    uint32_t n = g->n_blocks < co->shape.n_blocks ? g->n_blocks : co->shape.n_blocks;
    reset_sched(co, n, now_us);
    co->no_group_us = 0;
    log_line(LOG_INFO,
             "worker group of %u ranks is active (%s, %s, epoch %" PRIu64 ", %u blocks of %u)",
             g->world, g->backend, g->coll, g->epoch, n, g->block_len);
    coordinator_notify(co, "group-up %" PRIu64 " %u", g->launch, g->world);
}

static void on_joined(struct coordinator *co, struct worker_group *g, uint64_t now_us)
{
    if (!co->sched && make_sched(co, g) != ST_OK) {
        log_failure(LOG_ERROR, ST_NOMEM, "the scheduler could not be made");
        answer_fail_all(co, ST_NOMEM, status_text(), now_us);
        co->done = true;
        co->exit_code = 1;
        return;
    }
    if (worker_port_active(co->worker_port))
        log_line(LOG_INFO, "a worker group of %u ranks stands by", g->world);
    else
        activate(co, now_us);
}

static void on_lost(struct coordinator *co, const struct worker_port_event *ev, uint64_t now_us)
{
    struct worker_group *g = ev->group;
    uint32_t at = 0;
    struct request *r;

    if (co->draining && co->live == 0)
        return;
    log_line(LOG_WARN, "worker group of epoch %" PRIu64 " is lost: %s", g->epoch, ev->why);
    coordinator_notify(co, "group-lost %" PRIu64 " %" PRIu64 " %s", g->launch, g->pid, ev->why);
    if (!g->active)
        return;
    g->active = false;
    reset_sched(co, 0, now_us);
    while ((r = request_next(co->requests, &at)))
        if (r->state == REQ_LIVE)
            r->recoveries++;
    co->n.recoveries++;
    co->no_group_us = now_us;
    if (++co->losses >= MAX_LOSSES) {
        char why[640];
        snprintf(why, sizeof why, "worker groups were lost %u times without finishing a step: %s",
                 co->losses, ev->why);
        answer_fail_all(co, ST_PEER, why, now_us);
        co->losses = 0;
    }
    activate(co, now_us); /* a standby group, if there is one */
}

static void on_result(struct coordinator *co, struct worker_port_event *ev, uint64_t now_us)
{
    size_t n_fx = 0;
    enum status st = sched_commit(co->sched, &ev->result, co->fx, co->fx_cap, &n_fx);
    if (st != ST_OK) { /* it answered something else than it was asked */
        log_failure(LOG_ERROR, st, "a step result");
        worker_port_drop(co->worker_port, ev->group, status_text(), ev);
        on_lost(co, ev, now_us);
        return;
    }
    journal_commit(co->journal, &ev->result, co->fx, n_fx);
    co->losses = 0;
    co->last_step_us = now_us;
    answer_effects(co, &ev->result, n_fx, now_us);
}

void groups_receive(struct coordinator *co, uint64_t now_us)
{
    struct worker_port_event ev;
    for (;;) {
        worker_port_poll(co->worker_port, now_us, &ev);
        switch (ev.kind) {
        case WORKER_PORT_NONE:
            return;
        case WORKER_PORT_JOINED:
            on_joined(co, ev.group, now_us);
            break;
        case WORKER_PORT_RESULT:
            on_result(co, &ev, now_us);
            break;
        case WORKER_PORT_LOST:
            on_lost(co, &ev, now_us);
            break;
        }
    }
}

void groups_plan(struct coordinator *co, uint64_t now_us)
{
    struct worker_group *g = worker_port_active(co->worker_port);
    struct step_plan plan;
    size_t n_fx = 0;
    if (!g || !co->sched)
        return;
    bool work = sched_plan(co->sched, now_us, &plan, co->fx, co->fx_cap, &n_fx);
    journal_plan(co->journal, now_us, work, &plan, co->fx, n_fx);
    answer_effects(co, NULL, n_fx, now_us);
    if (!work)
        return;
    co->n.steps_overlapped += g->n_sent > 0;
    if (worker_port_send_plan(co->worker_port, &plan, now_us) != ST_OK)
        log_failure(LOG_WARN, ST_PEER, "a step could not be sent");
}

void groups_tend(struct coordinator *co, uint64_t now_us)
{
    worker_port_tend(co->worker_port, now_us);
    if (co->no_group_us && co->live &&
        now_us - co->no_group_us > 1000U * (uint64_t)co->cfg.group_wait_ms) {
        answer_fail_all(co, ST_PEER, "the worker group was lost and none has come back", now_us);
        co->no_group_us = now_us;
    }
}
