/* What clients ask, and what becomes of it. */
#include "coordinator/clients.h"

#include <stdio.h>

#include "common/log.h"
#include "coordinator/answers.h"
#include "coordinator/generate.h"
#include "coordinator/grammar_wait.h"
#include "coordinator/reply.h"
#include "coordinator/session.h"
#include "coordinator/stats.h"
#include "coordinator/text_requests.h"

enum { MESSAGES_A_TURN = 256, KEEP_ENDED_US = 30 * 1000 * 1000 };

static void end_text_job(struct coordinator *co, struct text_job *job, uint64_t now_us)
{
    if (job->type == MSG_GENERATE)
        generate_ready(co, job, now_us);
    else
        text_requests_reply(co, job, now_us);
    text_job_free(job);
}

void clients_text_results(struct coordinator *co, uint64_t now_us)
{
    struct text_job *job;
    while ((job = text_service_take(co->text))) {
        if (job->has_grammar)
            metrics_grammar(&co->metrics, job->grammar_status, &job->grammar);
        if (job->type != MSG_GENERATE || !grammar_wait_begin(co, job))
            end_text_job(co, job, now_us);
    }
    while ((job = grammar_wait_next(co)))
        end_text_job(co, job, now_us);
}

void clients_drain(struct coordinator *co, uint32_t timeout_ms, uint64_t now_us)
{
    uint64_t deadline = now_us + 1000U * (uint64_t)(timeout_ms ? timeout_ms : co->cfg.drain_ms);
    if (!co->draining)
        log_line(LOG_INFO, "draining: %u requests go on, new ones are refused", co->live);
    if (!co->draining || deadline < co->drain_deadline_us)
        co->drain_deadline_us = deadline;
    co->draining = true;
}

static void on_cancel(struct coordinator *co, struct client *c, const struct request_head *h,
                      uint64_t now_us)
{
    struct owner owner = session_owner(co, c, h);
    struct request *r = request_find(co->requests, &owner, h->id);
    struct client_msg m = {.type = MSG_CANCEL_REPLY};
    m.u.cancel_reply =
        (struct msg_cancel_reply){h->id, !r                      ? CANCEL_UNKNOWN
                                         : r->state == REQ_ENDED ? CANCEL_ENDED_BEFORE
                                                                 : CANCEL_STOPPED};
    if (r)
        answer_cancel(co, r, REASON_CANCELLED, now_us);
    client_port_reply(co->client_port, c, &m, now_us);
}

static void on_drain(struct coordinator *co, struct client *c, const char *id, uint32_t timeout_ms,
                     uint64_t now_us)
{
    struct client_msg reply = {.type = MSG_DRAINING};
    log_line(LOG_INFO, "%s asks the server to drain", c->rights.name);
    clients_drain(co, timeout_ms, now_us);
    reply.u.simple = (struct msg_simple){id, co->live};
    client_port_reply(co->client_port, c, &reply, now_us);
}

/* The requests that the loop decodes itself: all of them are small. */
static void on_small_request(struct coordinator *co, struct client *c, const struct request_head *h,
                             const struct client_msg *m, uint64_t now_us)
{
    const char *id = h->id;
    struct client_msg reply;

    switch (m->type) {
    case MSG_HELLO:
        session_hello(co, c, &m->u.hello, now_us);
        return;
    case MSG_CANCEL:
        on_cancel(co, c, h, now_us);
        return;
    case MSG_MODELS:
        session_models(co, c, id, now_us);
        return;
    case MSG_STATS:
        stats_reply(co, c, id, now_us);
        return;
    case MSG_PING:
        reply = session_pong(co, id, now_us);
        client_port_reply(co->client_port, c, &reply, now_us);
        return;
    case MSG_DRAIN:
        on_drain(co, c, id, m->u.simple.value, now_us);
        return;
    default:
        return; /* on_message gives no others */
    }
}

static void refuse(struct coordinator *co, struct client *c, const struct request_head *h,
                   enum status st, const char *field, const char *detail, uint64_t now_us)
{
    bool generate = *h->id && h->type == MSG_GENERATE;
    reply_error(co, c, generate ? MSG_REJECTED : MSG_ERROR,
                &(struct msg_error){.request_id = h->id,
                                    .request = h->type,
                                    .code = st,
                                    .retryable = reply_passes(st),
                                    .field = field,
                                    .detail = detail},
                now_us);
}

/* Why the connection's roles do not allow a message of that type, or NULL. */
static const char *missing_role(const struct client *c, enum msg_type type)
{
    switch (type) {
    case MSG_GENERATE:
    case MSG_CANCEL:
    case MSG_TOKENIZE:
    case MSG_DETOKENIZE:
    case MSG_APPLY_TEMPLATE:
        return c->rights.roles & ROLE_ASK ? NULL : "the key of this connection lacks the role ask";
    case MSG_STATS:
        return c->rights.roles & ROLE_OBSERVE ? NULL
                                              : "the key of this connection lacks the role observe";
    case MSG_DRAIN:
        return c->rights.roles & ROLE_OPERATE
                   ? NULL
                   : "Drain needs the role operate: a key with it, or an ipc endpoint and the "
                     "server's own user";
    default:
        return NULL; /* Hello, Models and Ping are for everybody */
    }
}

/* Whose request it is; false: the connection may not speak for that tenant. */
static bool settle_tenant(const struct coordinator *co, const struct client *c,
                          struct request_head *h)
{
    if (!h->tenant.n)
        h->tenant = c->tenant;
    return session_any_tenant(co, c) || tenant_equal(&h->tenant, &c->tenant);
}

static void on_message(struct coordinator *co, struct client *c, const void *data, size_t n,
                       uint64_t now_us)
{
    struct request_head h;
    struct client_msg m;
    const char *field;
    enum status st = client_msg_head(&h, data, n, &field);
    if (st != ST_OK) {
        refuse(co, c, &h, st, field, status_text(), now_us);
        return;
    }
    if (n > co->cfg.client_port.max_message) {
        char why[128];
        snprintf(why, sizeof why, "the message has %zu bytes: %zu are the limit (--max-message)", n,
                 co->cfg.client_port.max_message);
        refuse(co, c, &h, ST_RANGE, "", why, now_us);
        return;
    }
    if (!c->said_hello && h.type != MSG_HELLO) {
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request_id = h.id,
                                        .request = h.type,
                                        .code = ST_PEER,
                                        .detail = "a session begins with Hello"},
                    now_us);
        return;
    }
    const char *lacks = missing_role(c, h.type);
    if (lacks) {
        uint32_t hidden;
        if (log_limit_take(&co->noise, now_us, &hidden))
            log_line(LOG_WARN, "%s was refused a request (and %u more): %s", c->rights.name, hidden,
                     lacks);
        refuse(co, c, &h, ST_RANGE, "", lacks, now_us);
        return;
    }
    if (!settle_tenant(co, c, &h)) {
        refuse(co, c, &h, ST_RANGE, "tenant",
               "this connection may speak for its own tenant only (--tenants own)", now_us);
        return;
    }
    if (h.has_limits && !session_any_tenant(co, c)) {
        refuse(co, c, &h, ST_RANGE, "tenant_limits",
               "only a connection that may act for any tenant sets limits", now_us);
        return;
    }
    switch (h.type) {
    case MSG_GENERATE:
        generate_take(co, c, &h, now_us);
        return;
    case MSG_TOKENIZE:
    case MSG_DETOKENIZE:
    case MSG_APPLY_TEMPLATE:
        text_requests_take(co, c, &h, now_us);
        return;
    default:
        wire_mem_reset(&co->rx);
        st = client_msg_decode_request(&m, data, n, &co->rx, NULL, &field);
        if (st == ST_OK)
            on_small_request(co, c, &h, &m, now_us);
        else
            refuse(co, c, &h, st, field, status_text(), now_us);
    }
}

void clients_receive(struct coordinator *co, uint64_t now_us)
{
    struct client *c;
    const void *data;
    size_t n;
    for (int i = 0; i < MESSAGES_A_TURN && client_port_receive(co->client_port, &c, &data, &n); i++)
        if (!c->revoked_us)
            on_message(co, c, data, n, now_us);
}

/* Requests of clients that are gone live on for a moment, so that the client can attach again. */
static void let_go(struct coordinator *co, struct client *c, uint64_t now_us)
{
    struct request *r;
    while ((r = c->requests)) {
        request_orphan(co->requests, r, now_us + 1000U * (uint64_t)r->grace_ms);
        if (r->state == REQ_ENDED)
            answer_mark(co, r); /* no client waits for it */
    }
    text_service_drop(co->text, c->id, 0);
    client_port_forget(co->client_port, c);
}

static void end_orphans(struct coordinator *co, uint64_t now_us)
{
    struct request *r;
    while ((r = request_overdue(co->requests, now_us))) {
        uint32_t hidden;
        if (log_limit_take(&co->noise, now_us, &hidden))
            log_line(LOG_INFO, "request %s: its client is gone", r->id);
        r->abandoned = true;
        answer_cancel(co, r, REASON_CANCELLED, now_us);
    }
}

void clients_tend(struct coordinator *co, uint64_t now_us)
{
    struct client_msg probe = session_pong(co, "", now_us);
    struct client *c;

    if (gatekeeper_reload(co->keys))
        client_port_recheck(co->client_port, now_us);
    client_port_tend(co->client_port, &probe, 1000U * (uint64_t)co->cfg.client_port.heartbeat_ms,
                     now_us);
    client_port_drop_slow(co->client_port, 1000U * (uint64_t)co->cfg.slow_client_ms, now_us);
    while ((c = client_port_next_gone(co->client_port)))
        let_go(co, c, now_us);
    end_orphans(co, now_us);
    request_expire(co->requests, now_us, KEEP_ENDED_US);
}
