/* Worker groups and steps: joining, losing, planning, committing. */
#include "coordinator/groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/host.h"
#include "common/log.h"
#include "coordinator/admissions.h"
#include "coordinator/answers.h"
#include "coordinator/embeddings.h"
#include "coordinator/grammars.h"
#include "coordinator/notify.h"

enum { MAX_LOSSES = 5 };       /* of groups, without a token: the request may be what kills them */
enum { PREFILL_LOSS_PCT = 4 }; /* see sched_config */

bool groups_ready(struct coordinator *co)
{
    return worker_port_active(co->worker_port) != NULL;
}

static bool is_fast(const char *numerics)
{
    return strstr(numerics, NUMERICS_ID_FAST) != NULL;
}

static bool has_tokens(const struct request *r)
{
    for (uint32_t i = 0; r->state == REQ_LIVE && i < r->n_samples; i++)
        if (!r->samples[i].done && r->samples[i].n > r->ask->n_prompt)
            return true;
    return false;
}

static uint32_t least(uint32_t mine, uint32_t theirs)
{
    return mine < theirs ? mine : theirs;
}

/* ---- identities ---- */

static bool any_group(const struct coordinator *co)
{
    for (uint32_t i = 0; i < MAX_WORKER_GROUPS; i++)
        if (worker_port_group(co->worker_port, i))
            return true;
    return false;
}

static bool any_tokens(struct coordinator *co)
{
    uint32_t at = 0;
    struct request *r;
    while ((r = request_next(co->requests, &at)))
        if (has_tokens(r))
            return true;
    return false;
}

void groups_require(struct coordinator *co)
{
    const struct model_identity *id = &co->identity;
    struct worker_port_need need = {.model_vocab = id->vocab,
                                    .model_max_ctx = id->max_ctx,
                                    .has_shape = co->fleet != NULL,
                                    .block_len = co->shape.block_len,
                                    .max_ctx = co->shape.max_ctx,
                                    .max_step_tokens = co->shape.max_step_tokens,
                                    .max_seqs = co->shape.max_seqs,
                                    .n_snapshots = co->shape.n_snapshots,
                                    .embedding = co->shape.embedding,
                                    .has_text = id->has_text,
                                    .has_weights = model_identity_known(id),
                                    .weights_from = model_identity_from(id)};
    memcpy(need.text, id->text, sizeof need.text);
    memcpy(need.weights, id->weights, sizeof need.weights);
    if (id->from == IDENTITY_NONE && co->served.has_weights) {
        need.has_weights = true;
        need.weights_from = "that of the group that serves";
        memcpy(need.weights, co->served.weights, sizeof need.weights);
    }
    memcpy(need.numerics, co->served.numerics, sizeof need.numerics);
    worker_port_require(co->worker_port, &need);
}

/* From now on its bits are those that others must have. */
static void note_served(struct coordinator *co, const struct worker_group *g)
{
    co->served = (struct served){.any = true, .has_weights = g->has_weights};
    memcpy(co->served.numerics, g->numerics, sizeof g->numerics);
    memcpy(co->served.weights, g->weights, sizeof g->weights);
    admissions_served(co);
    groups_require(co);
}

/* Nothing depends on a numerics id once no group has it and no answer is half made by it. */
static void forget_numerics(struct coordinator *co)
{
    if (!*co->served.numerics || any_group(co) || any_tokens(co))
        return;
    co->served.numerics[0] = '\0';
    groups_require(co);
}

/* The reason why no other group can continue the lost group's answers with the same bits, or NULL. */
static const char *why_not_continued(const struct coordinator *co, const struct worker_group *g)
{
    if (is_fast(g->numerics))
        return "the worker group was lost, and no other can continue this answer with the same "
               "bits: its numerics are fast";
    if (!g->has_weights)
        return "the worker group was lost before its weights digest was known, so no other can "
               "continue this answer with the same bits for certain";
    if (model_identity_known(&co->identity) &&
        memcmp(g->weights, co->identity.weights, SHA256_BYTES) != 0)
        return "the worker group that began this answer had other weights than this server";
    return NULL;
}

/* The number of the group's scheduler. */
static uint32_t sched_of(const struct worker_group *g)
{
    return 1 + g->slot;
}

static bool is_on(const struct coordinator *co, const struct request *r,
                  const struct worker_group *g)
{
    for (uint32_t i = 0; r->state == REQ_LIVE && i < r->n_samples; i++)
        if (sched_has(fleet_sched(co->fleet, sched_of(g)), r->samples[i].seq_id))
            return true;
    return false;
}

/* What a lost group had: it goes on elsewhere, or fails. */
static void note_loss(struct coordinator *co, const struct worker_group *g, const char *why_lost,
                      uint64_t now_us)
{
    const char *why = why_not_continued(co, g);
    uint32_t at = 0;
    struct request *r;
    char text[640];
    while ((r = request_next(co->requests, &at))) {
        if (!is_on(co, r, g))
            continue;
        r->recoveries++;
        r->losses++;
        if (why && has_tokens(r)) {
            answer_fail(co, r, ST_PEER, false, why, now_us);
        } else if (r->losses >= MAX_LOSSES) {
            snprintf(text, sizeof text,
                     "worker groups were lost %u times without a token of this answer: %s",
                     r->losses, why_lost);
            answer_fail(co, r, ST_PEER, true, text, now_us);
        }
    }
}

/* ---- groups ---- */

/* the first group says how large everything is */
static enum status make_fleet(struct coordinator *co, const struct worker_group *g, uint64_t now_us)
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
        .has_states = co->mt.has_states,
        .n_snapshots = co->mt.has_states ? g->n_snapshots : 0,
        .max_inflight = co->cfg.overlap ? MAX_STEPS_IN_FLIGHT : 1,
        .overtake = co->cfg.overtake,
        .target_itl_us = co->cfg.target_itl_us,
        .max_step_us = co->cfg.max_step_us,
        .prefill_loss_pct = PREFILL_LOSS_PCT,
        .target_of_all = true,
        .turn_tokens = co->cfg.turn_tokens,
    };
    struct sched_config marked = sc;
    size_t bytes = fleet_bytes(&sc, 1), free_bytes = host_mem_free();
    if (free_bytes && bytes > free_bytes / 2)
        FAIL(ST_RANGE, "tables for %u blocks of %u tokens would take %zu MiB of the %zu MiB free",
             sc.n_blocks, sc.block_len, bytes >> 20, free_bytes >> 20);
    if (tokenizer_max_id(co->mt.tok) >= (int32_t)g->vocab)
        log_line(LOG_WARN, "the tokenizer has ids up to %d, the model a vocabulary of %u",
                 tokenizer_max_id(co->mt.tok), g->vocab);
    marked.queue_for = FLEET_GROUPS;
    TRY(fleet_create(&co->fleet, &sc));
    co->fx_cap = fleet_max_fx(&sc);
    co->fx = calloc(co->fx_cap, sizeof *co->fx);
    struct journal_source from = {.fleet = co->fleet};
    enum status st = co->fx ? journal_begin(co->journal, &from, &marked, now_us)
                            : status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for effects");
    if (st != ST_OK) {
        fleet_destroy(co->fleet);
        free(co->fx);
        co->fleet = NULL;
        co->fx = NULL;
        return st;
    }
    co->shape = *g;
    co->shape.max_seqs = sc.max_seqs;
    co->shape.max_step_tokens = sc.max_step_tokens;
    co->shape.n_snapshots = sc.n_snapshots;
    if (sc.has_states && !sc.n_snapshots)
        log_line(LOG_INFO,
                 "no prefix cache: layers of the model keep a state of all tokens, and the "
                 "worker group keeps no snapshots of it (--state-snapshots 0)");
    metrics_set_max_ctx(&co->metrics, sc.max_ctx);
    groups_require(co);
    return ST_OK;
}

/* The next group that may serve, made active; NULL: none.  One that replaces another or serves beside
 * others needs a weights digest: nothing else says that it computes the same.  Equal numerics ids that
 * are fast say nothing. */
static struct worker_group *next_to_serve(struct coordinator *co)
{
    bool first = !groups_ready(co);
    bool compare = !first || (co->served.has_weights && !model_identity_known(&co->identity));
    if (!first && (!co->served.has_weights || is_fast(co->served.numerics)))
        return NULL;
    return worker_port_promote(co->worker_port, co->served.any,
                               compare ? co->served.weights : NULL);
}

static void begin_serving(struct coordinator *co, struct worker_group *g, uint64_t now_us)
{
    /* a larger cache than the first group's is not used: the tables were sized by that one */
    uint32_t n = least(g->n_blocks, co->shape.n_blocks);
    size_t n_fx = 0;
    if (fleet_open(co->fleet, sched_of(g), n, co->fx, co->fx_cap, &n_fx) != ST_OK) {
        worker_port_refuse(co->worker_port, g, status_text());
        return;
    }
    note_served(co, g);
    journal_open_group(co->journal, sched_of(g), n, co->fx, n_fx);
    answer_effects(co, NULL, n_fx, now_us);
    co->no_group_us = 0;
    char name[WORKER_GROUP_NAME];
    log_line(LOG_INFO,
             "worker group of %u ranks is active (%s, %s, epoch %" PRIu64 ", %u blocks of %u; %s)",
             g->world, g->backend, g->coll, g->epoch, n, g->block_len, worker_group_name(g, name));
    coordinator_notify(co, "group-up %" PRIu64 " %u%s%s", g->launch, g->world,
                       embeddings_alone(co) ? "" : " answers",
                       !embeddings_given(co)   ? ""
                       : co->mt.modules.scores ? " scores"
                                               : " embeddings");
}

static void activate(struct coordinator *co, uint64_t now_us)
{
    struct worker_group *g;
    while ((g = next_to_serve(co)))
        begin_serving(co, g, now_us);
}

static void on_joined(struct coordinator *co, struct worker_group *g, uint64_t now_us)
{
    if (!co->fleet && make_fleet(co, g, now_us) != ST_OK) {
        worker_port_refuse(co->worker_port, g, status_text());
        return;
    }
    model_identity_begin(&co->identity);
    coordinator_notify(co, "group-joined %" PRIu64, g->launch);
    activate(co, now_us);
    uint32_t hidden;
    char name[WORKER_GROUP_NAME];
    if (!g->active && log_limit_take(&co->noise, now_us, &hidden))
        log_line(LOG_INFO, "a worker group of %u ranks stands by (%s)%s", g->world,
                 worker_group_name(g, name),
                 g->has_weights ? "" : "; its weights digest is not known yet");
}

static void on_weights(struct coordinator *co, const struct worker_group *g, uint64_t now_us)
{
    log_line(LOG_INFO, "the weights digest of epoch %" PRIu64 " is known%s", g->epoch,
             model_identity_known(&co->identity) ? " and that of this server" : "");
    if (g->active)
        note_served(co, g);
    activate(co, now_us);
}

/* Its sequences go back to the queue. */
static void end_serving(struct coordinator *co, struct worker_group *g, uint64_t now_us)
{
    size_t n_fx = 0;
    g->active = false;
    fleet_close(co->fleet, sched_of(g), co->fx, co->fx_cap, &n_fx);
    journal_close_group(co->journal, sched_of(g), co->fx, n_fx);
    answer_effects(co, NULL, n_fx, now_us);
}

static void on_lost(struct coordinator *co, const struct worker_port_event *ev, uint64_t now_us)
{
    struct worker_group *g = ev->group;
    bool served = g->active;

    if (co->draining && co->live == 0) {
        if (served)
            end_serving(co, g, now_us);
        return;
    }
    uint32_t hidden = 0;
    char name[WORKER_GROUP_NAME];
    if (g->active || log_limit_take(&co->noise, now_us, &hidden))
        log_line(LOG_WARN, "worker group of epoch %" PRIu64 " (%s) is lost: %s", g->epoch,
                 worker_group_name(g, name), ev->why);
    coordinator_notify(co, "group-lost %" PRIu64 " %" PRIu64 " %s", g->launch, g->pid, ev->why);
    if (!served)
        return;
    note_served(co, g);
    note_loss(co, g, ev->why, now_us);
    end_serving(co, g, now_us);
    forget_numerics(co);
    co->n.recoveries++;
    activate(co, now_us); /* one that stands by, if there is one */
    if (!groups_ready(co))
        co->no_group_us = now_us;
    if (any_group(co) && !groups_ready(co))
        log_line(LOG_INFO,
                 "no group that stands by takes over: their weights digests are not known yet");
}

static void on_result(struct coordinator *co, struct worker_port_event *ev, uint64_t now_us)
{
    size_t n_fx = 0;
    uint32_t g = sched_of(ev->group);
    enum status st = fleet_commit(co->fleet, g, &ev->result, co->fx, co->fx_cap, &n_fx);
    if (st != ST_OK) { /* it answered something else than it was asked */
        log_failure(LOG_ERROR, st, "a step result");
        worker_port_drop(co->worker_port, ev->group, status_text(), ev);
        on_lost(co, ev, now_us);
        return;
    }
    journal_commit(co->journal, g, &ev->result, co->fx, n_fx);
    co->last_step_us = now_us;
    metrics_result(&co->metrics, &ev->result);
    for (size_t i = 0; i < n_fx; i++)
        ev->group->n_tokens += co->fx[i].kind == FX_TOKEN;
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
        case WORKER_PORT_WEIGHTS:
            on_weights(co, ev.group, now_us);
            break;
        case WORKER_PORT_GRAMMAR:
            grammars_compiled(co->grammars, ev.group, ev.grammar);
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

/* The next step of scheduler i; g NULL: of the queue, which plans none. */
static void plan_one(struct coordinator *co, uint32_t i, struct worker_group *g, uint64_t now_us)
{
    struct step_plan plan;
    size_t n_fx = 0;
    bool work = fleet_plan(co->fleet, i, now_us, &plan, co->fx, co->fx_cap, &n_fx);
    journal_plan(co->journal, i, now_us, work, &plan, co->fx, n_fx);
    answer_effects(co, NULL, n_fx, now_us);
    if (!work || !g)
        return;
    co->n.steps_overlapped += g->n_sent > 0;
    metrics_step(&co->metrics, plan.n_tokens);
    if (grammars_send(co->grammars, co->worker_port, g, &plan) != ST_OK)
        log_failure(LOG_WARN, ST_PEER, "a grammar could not be sent");
    if (worker_port_send_plan(co->worker_port, g, &plan, now_us) != ST_OK)
        log_failure(LOG_WARN, ST_PEER, "a step could not be sent");
}

void groups_plan(struct coordinator *co, uint64_t now_us)
{
    const struct fleet_move *moves;
    if (!co->fleet)
        return;
    plan_one(co, FLEET_QUEUE, NULL, now_us);
    size_t n = fleet_place(co->fleet, &moves);
    journal_moves(co->journal, moves, n);
    for (uint32_t i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = worker_port_group(co->worker_port, i);
        if (g && g->active)
            plan_one(co, sched_of(g), g, now_us);
    }
}

static void balance(struct coordinator *co)
{
    const struct fleet_move *moves;
    size_t n = co->fleet ? fleet_balance(co->fleet, &moves) : 0;
    if (n)
        journal_moves(co->journal, moves, n);
}

/* A request that has had no worker group for group_wait_ms fails: counted from its arrival, or from
 * the loss of the group if that was later. */
static void fail_unserved(struct coordinator *co, uint64_t now_us)
{
    uint64_t wait_us = 1000U * (uint64_t)co->cfg.group_wait_ms;
    uint32_t at = 0;
    struct request *r;
    char why[128];
    if (!co->no_group_us || !co->live)
        return;
    snprintf(why, sizeof why, "the worker group was lost and none has come within %u ms",
             co->cfg.group_wait_ms);
    while ((r = request_next(co->requests, &at))) {
        uint64_t since = r->arrived_us > co->no_group_us ? r->arrived_us : co->no_group_us;
        if (r->state == REQ_LIVE && now_us - since > wait_us)
            answer_fail(co, r, ST_PEER, true, why, now_us);
    }
}

void groups_tend(struct coordinator *co, uint64_t now_us)
{
    worker_port_tend(co->worker_port, now_us);
    forget_numerics(co);
    if (model_identity_update(&co->identity)) {
        groups_require(co);
        activate(co, now_us);
    }
    fail_unserved(co, now_us);
    balance(co);
}
