/* What clients ask, and what becomes of it. */
#include "coordinator/clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/build_info.h"
#include "common/log.h"
#include "common/random.h"
#include "common/sha256.h"
#include "coordinator/answers.h"
#include "coordinator/groups.h"
#include "coordinator/stats.h"

enum {
    MESSAGES_A_TURN = 256,
    RETRY_MS = 1000,
    KEEP_ENDED_US = 30 * 1000 * 1000,
    OWN_TENANT_BYTES = 16
};

/* type: MSG_ERROR or MSG_REJECTED */
static void reply_error(struct coordinator *co, struct client *c, enum msg_type type,
                        const struct msg_error *error, uint64_t now_us)
{
    struct client_msg m = {.type = type, .u.error = *error};
    if (type == MSG_REJECTED)
        metrics_rejected(&co->metrics, error->code);
    m.u.error.retry_after_ms = error->retryable ? RETRY_MS : 0;
    client_port_reply(co->client_port, c, &m, now_us);
}

static struct msg_model model_info(const struct coordinator *co)
{
    const struct model_identity *id = &co->identity;
    struct worker_group *g = worker_port_active(co->worker_port);
    struct msg_model m = {.name = co->cfg.model_name,
                          .has_weights = model_identity_known(id),
                          .has_text = id->has_text,
                          .weights_from = model_identity_from(id),
                          .vocab = co->shape.vocab,
                          .max_ctx = co->shape.max_ctx,
                          .world = g ? g->world : 0,
                          .chat = co->mt.chat != NULL};
    if (m.chat)
        m.tool_format = output_tools_name(co->mt.tool_format);
    if (co->mt.think) {
        m.think_open = (struct wire_text){co->mt.think->open, strlen(co->mt.think->open)};
        m.think_close = (struct wire_text){co->mt.think->close, strlen(co->mt.think->close)};
    }
    memcpy(m.weights, id->weights, sizeof m.weights);
    memcpy(m.text, id->text, sizeof m.text);
    return m;
}

/* the tenant that the connection speaks for from now on; false: it has another one already */
static bool take_own_tenant(struct client *c, const struct tenant *asked)
{
    if (c->tenant.n)
        return !asked->n || tenant_equal(&c->tenant, asked);
    c->tenant = *asked;
    if (!asked->n) {
        c->tenant.n = OWN_TENANT_BYTES;
        random_bytes(c->tenant.bytes, OWN_TENANT_BYTES);
    }
    return true;
}

static bool acts_for_any(const struct coordinator *co, const struct client *c)
{
    return co->cfg.tenants == TENANTS_ANY || c->any_tenant;
}

static void on_hello(struct coordinator *co, struct client *c, const struct msg_hello *h,
                     uint64_t now_us)
{
    char why[128];
    if (h->major_min > WIRE_MAJOR || h->major_max < WIRE_MAJOR) {
        snprintf(why, sizeof why, "client speaks protocol %u to %u, this server %d", h->major_min,
                 h->major_max, WIRE_MAJOR);
        reply_error(
            co, c, MSG_ERROR,
            &(struct msg_error){
                .request = MSG_HELLO, .code = ST_UNSUPPORTED, .field = "major_min", .detail = why},
            now_us);
        return;
    }
    if (!take_own_tenant(c, &h->tenant)) {
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request = MSG_HELLO,
                                        .code = ST_RANGE,
                                        .field = "tenant",
                                        .detail = "this connection said Hello as another tenant"},
                    now_us);
        return;
    }
    const struct wire_text *secret = &h->tenants_secret;
    if (secret->n && !secret_equal(&co->cfg.tenants_secret, secret->data, secret->n)) {
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){
                        .request = MSG_HELLO,
                        .code = ST_RANGE,
                        .field = "tenants_secret",
                        .detail = "this is not the server's tenants secret (--tenants-secret)"},
                    now_us);
        return;
    }
    c->any_tenant = c->any_tenant || secret->n;
    struct msg_model model = model_info(co);
    char server[160];
    snprintf(server, sizeof server, "ingot %s", build_info());
    struct client_msg m = {.type = MSG_WELCOME};
    m.u.welcome = (struct msg_welcome){
        .major = WIRE_MAJOR,
        .minor = WIRE_MINOR,
        .epoch = co->epoch,
        .server = server,
        .n_models = 1,
        .models = &model,
        .max_message_bytes = co->cfg.client_port.max_message,
        .max_prompt_tokens = co->shape.max_ctx ? co->shape.max_ctx - 1 : 0,
        .max_queued = co->cfg.max_waiting,
        .max_samples = MAX_SAMPLES,
        .heartbeat_ms = co->cfg.client_port.heartbeat_ms,
        .tenant = c->tenant,
        .any_tenant = acts_for_any(co, c),
    };
    c->said_hello = true;
    log_line(LOG_DEBUG, "client %" PRIu64 " is %s", c->id, h->client);
    client_port_reply(co->client_port, c, &m, now_us);
}

/* ---- Generate ---- */

/* a known request: send everything again, to whoever asks now */
static void attach(struct coordinator *co, struct client *c, struct request *r, uint64_t now_us)
{
    if (r->client && r->state != REQ_ENDED)
        r->client->n_requests--;
    if (r->client && r->client != c && !r->terminal_sent)
        reply_error(co, r->client, MSG_ERROR,
                    &(struct msg_error){.request_id = r->id,
                                        .request = MSG_GENERATE,
                                        .code = ST_PEER,
                                        .field = "request_id",
                                        .detail = "another client attached to this request"},
                    now_us);
    request_own(co->requests, r, c, &c->requests);
    if (r->state != REQ_ENDED)
        c->n_requests++;
    r->attached = true;
    r->accepted_sent = r->terminal_sent = false;
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++) {
        struct sample *s = &r->samples[i];
        s->sent_tokens = s->sent_top = s->seq = 0;
        s->sent_text = s->sent_token_text = s->sent_top_text = 0;
    }
    answer_mark(co, r);
}

/* why no new request is taken now; all of it passes */
static const char *refuse_now(const struct coordinator *co)
{
    if (co->draining)
        return "the server is draining and takes no new requests";
    if (!co->sched)
        return "no worker group is connected yet";
    return NULL;
}

/* Gives the message that was received last to the text thread. */
static enum status submit_text(struct coordinator *co, const struct client *c,
                               const struct request_head *h, const struct request *r)
{
    struct text_job *job = calloc(1, sizeof *job);
    if (!job)
        FAIL(ST_NOMEM, "no memory for a request");
    job->type = h->type;
    job->client = c->id;
    memcpy(job->request_id, h->id, sizeof job->request_id);
    if (r) {
        job->request = request_key(r);
        job->limits = (struct resolve_limits){.eos = co->mt.eos,
                                              .n_eos = co->mt.n_eos,
                                              .defaults = &co->mt.generation,
                                              .vocab = co->shape.vocab,
                                              .max_ctx = co->shape.max_ctx,
                                              .max_waiting = co->cfg.max_waiting};
    }
    enum status st = client_port_take(co->client_port, &job->msg);
    if (st != ST_OK)
        text_job_free(job);
    else
        text_service_submit(co->text, &job);
    return st;
}

/* Reserves the id, and counts one sample of the tenant: the request may have more, but only the text thread knows. */
static enum status take_request(struct coordinator *co, const struct request_head *h,
                                uint64_t now_us, struct request **out,
                                struct tenant_refusal *refusal)
{
    struct tenant_account *account = NULL;
    if (h->has_limits)
        TRY(tenant_enter(co->tenants, &h->tenant, &h->limits, now_us, &account, refusal));
    enum status st = request_reserve(co->requests, &h->tenant, h->id, h->digest, now_us, out);
    if (st != ST_OK) {
        if (account)
            tenant_leave(co->tenants, account, 1);
        return st;
    }
    (*out)->account = account;
    (*out)->n_entered = 1;
    (*out)->grace_ms = h->has_grace ? h->grace_ms : co->cfg.client_grace_ms;
    return ST_OK;
}

static void reject(struct coordinator *co, struct client *c, const char *id, enum status st,
                   const char *detail, const struct tenant_refusal *why, uint64_t now_us)
{
    struct client_msg m = {.type = MSG_REJECTED};
    metrics_rejected(&co->metrics, st);
    m.u.error = (struct msg_error){.request_id = id,
                                   .code = st,
                                   .detail = detail,
                                   .field = why->field,
                                   .retryable = st == ST_BUSY,
                                   .retry_after_ms = st == ST_BUSY ? why->retry_after_ms : 0,
                                   .draining = co->draining};
    client_port_reply(co->client_port, c, &m, now_us);
}

static void on_generate(struct coordinator *co, struct client *c, const struct request_head *h,
                        uint64_t now_us)
{
    struct request *r = request_find(co->requests, &h->tenant, h->id);
    struct tenant_refusal refusal = {"", RETRY_MS};

    if (r && r->digest != h->digest) {
        reply_error(
            co, c, MSG_REJECTED,
            &(struct msg_error){.request_id = h->id,
                                .code = ST_RANGE,
                                .field = "request_id",
                                .detail = "this request_id is in use by a different request"},
            now_us);
        return;
    }
    if (r) {
        if (h->has_grace)
            r->grace_ms = h->grace_ms;
        attach(co, c, r, now_us);
        return;
    }
    const char *why = refuse_now(co);
    enum status st = why ? ST_BUSY : take_request(co, h, now_us, &r, &refusal);
    if (st == ST_OK) {
        st = submit_text(co, c, h, r);
        if (st != ST_OK) {
            answer_release_account(co, r);
            request_remove(co->requests, r);
        }
    }
    if (st != ST_OK) {
        reject(co, c, h->id, st, why ? why : status_text(), &refusal, now_us);
        return;
    }
    request_own(co->requests, r, c, &c->requests);
    c->n_requests++;
    co->live++;
}

/* What keeps the tenant's blocks apart in the prefix cache; a stranger cannot find another tenant
 * of the same salt.  Not 0, which is the scheduler's common one. */
static uint64_t salt_of(const struct coordinator *co, const struct tenant *tenant)
{
    struct sha256 s;
    uint8_t digest[SHA256_BYTES];
    uint64_t salt;
    sha256_init(&s);
    sha256_update(&s, co->salt_key, sizeof co->salt_key);
    sha256_update(&s, tenant->bytes, tenant->n);
    sha256_final(&s, digest);
    memcpy(&salt, digest, sizeof salt);
    return salt ? salt : 1;
}

static enum status submit_samples(struct coordinator *co, struct request *r)
{
    const struct resolved *ask = r->ask;
    uint64_t salt = salt_of(co, &r->tenant);
    for (uint32_t i = 0; i < r->n_samples; i++) {
        struct sample *s = &r->samples[i];
        struct sched_req q = {
            .seq_id = s->seq_id,
            .group_id = request_key(r),
            .tenant = salt,
            .salt = salt,
            .label = r->id,
            .tokens = s->tokens,
            .n_tokens = ask->n_prompt,
            .n_prompt = ask->n_prompt,
            .max_new = ask->max_new,
            .deadline_us =
                ask->deadline_ms ? r->arrived_us + 1000U * (uint64_t)ask->deadline_ms : 0,
            .priority = ask->priority,
            .sp = ask->sp,
            .stop_ids = ask->stop_ids,
            .n_stop_ids = ask->n_stop_ids,
            .bias = ask->bias,
            .n_bias = ask->n_bias,
        };
        q.sp.seed = sample_seed(ask->sp.seed, i);
        enum status st = sched_submit(co->sched, &q);
        if (st == ST_OK) {
            journal_submit(co->journal, &q);
            continue;
        }
        for (uint32_t k = 0; k < i; k++) {
            sched_cancel(co->sched, r->samples[k].seq_id);
            journal_cancel(co->journal, r->samples[k].seq_id, FINISH_CANCELLED);
        }
        return st;
    }
    return ST_OK;
}

static enum status admit(struct coordinator *co, struct request *r, struct resolved **ask)
{
    struct sched_stats stats;
    sched_stats(co->sched, &stats);
    r->queue_position = stats.waiting;
    TRY(request_start(r, ask, co->mt.tok));
    return submit_samples(co, r);
}

/* The other samples of the request count too. */
static enum status enter_samples(struct request *r, const struct resolved *ask)
{
    struct tenant_refusal why;
    if (!r->account)
        return ST_OK;
    enum status st = tenant_more(r->account, ask->n_samples - 1, &why);
    if (st == ST_OK) {
        r->n_entered = ask->n_samples;
        return ST_OK;
    }
    snprintf(r->field, sizeof r->field, "%s", why.field);
    r->retry_after_ms = why.retry_after_ms;
    return st;
}

static void generate_ready(struct coordinator *co, struct text_job *job, uint64_t now_us)
{
    struct request *r = request_of_key(co->requests, job->request);
    if (!r || r->state != REQ_RESERVED)
        return; /* cancelled, or its client is gone */
    if (job->status != ST_OK) {
        memcpy(r->field, job->field, sizeof r->field);
        answer_fail(co, r, job->status, false, job->detail, now_us);
        return;
    }
    enum status st = enter_samples(r, job->resolved);
    if (st == ST_OK)
        st = admit(co, r, &job->resolved);
    if (st != ST_OK) {
        answer_fail(co, r, st, st == ST_BUSY, status_text(), now_us);
        return;
    }
    r->state = REQ_LIVE;
    r->admitted = true;
    co->n.prompt_tokens += r->ask->n_prompt;
    if (r->account)
        tenant_charge(r->account, r->ask->n_prompt, now_us);
    answer_mark(co, r);
}

/* ---- the rest ---- */

static void text_ready(struct coordinator *co, struct text_job *job, uint64_t now_us)
{
    struct client *c = client_port_find(co->client_port, job->client);
    struct client_msg m;
    if (!c)
        return;
    if (job->status != ST_OK) {
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request_id = job->request_id,
                                        .request = job->type,
                                        .code = job->status,
                                        .field = job->field,
                                        .detail = job->detail},
                    now_us);
        return;
    }
    if (job->type == MSG_TOKENIZE) {
        m.type = MSG_TOKENS;
        m.u.tokens = (struct msg_tokens){job->request_id, (uint32_t)job->tokens.n, job->tokens.ids};
    } else {
        m.type = MSG_TEXT;
        m.u.text.request_id = job->request_id;
        m.u.text.text = (struct wire_text){job->text.data, job->text.len};
    }
    client_port_reply(co->client_port, c, &m, now_us);
}

void clients_text_results(struct coordinator *co, uint64_t now_us)
{
    struct text_job *job;
    while ((job = text_service_take(co->text))) {
        if (job->type == MSG_GENERATE)
            generate_ready(co, job, now_us);
        else
            text_ready(co, job, now_us);
        text_job_free(job);
    }
}

static struct client_msg pong(struct coordinator *co, const char *id, uint64_t now_us)
{
    struct sched_stats s = {0};
    struct client_msg m = {.type = MSG_PONG};
    if (co->sched)
        sched_stats(co->sched, &s);
    m.u.pong =
        (struct msg_pong){.request_id = id,
                          .steps = s.steps,
                          .last_step_age_us = co->last_step_us ? now_us - co->last_step_us : 0,
                          .epoch = co->epoch,
                          .running = s.running,
                          .waiting = s.waiting,
                          .ready = groups_ready(co),
                          .draining = co->draining};
    return m;
}

static void on_models(struct coordinator *co, struct client *c, const char *id, uint64_t now_us)
{
    struct msg_model model = model_info(co);
    struct client_msg m = {.type = MSG_MODEL_LIST};
    m.u.model_list = (struct msg_model_list){id, 1, &model};
    client_port_reply(co->client_port, c, &m, now_us);
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

static void on_text_request(struct coordinator *co, struct client *c, const struct request_head *h,
                            uint64_t now_us)
{
    enum status st = submit_text(co, c, h, NULL);
    if (st != ST_OK)
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request_id = h->id,
                                        .request = h->type,
                                        .code = st,
                                        .retryable = true,
                                        .detail = status_text()},
                    now_us);
}

static void on_cancel(struct coordinator *co, struct client *c, const struct request_head *h,
                      uint64_t now_us)
{
    struct request *r = request_find(co->requests, &h->tenant, h->id);
    struct client_msg m = {.type = MSG_CANCEL_REPLY};
    m.u.cancel_reply =
        (struct msg_cancel_reply){h->id, !r                      ? CANCEL_UNKNOWN
                                         : r->state == REQ_ENDED ? CANCEL_ENDED_BEFORE
                                                                 : CANCEL_STOPPED};
    if (r)
        answer_cancel(co, r, REASON_CANCELLED, now_us);
    client_port_reply(co->client_port, c, &m, now_us);
}

/* The requests that the loop decodes itself: all of them are small. */
static void on_small_request(struct coordinator *co, struct client *c, const struct request_head *h,
                             const struct client_msg *m, uint64_t now_us)
{
    const char *id = h->id;
    struct client_msg reply;

    switch (m->type) {
    case MSG_HELLO:
        on_hello(co, c, &m->u.hello, now_us);
        return;
    case MSG_CANCEL:
        on_cancel(co, c, h, now_us);
        return;
    case MSG_MODELS:
        on_models(co, c, id, now_us);
        return;
    case MSG_STATS:
        stats_reply(co, c, id, now_us);
        return;
    case MSG_PING:
        reply = pong(co, id, now_us);
        client_port_reply(co->client_port, c, &reply, now_us);
        return;
    case MSG_DRAIN:
        clients_drain(co, m->u.simple.value, now_us);
        reply.type = MSG_DRAINING;
        reply.u.simple = (struct msg_simple){id, co->live};
        client_port_reply(co->client_port, c, &reply, now_us);
        return;
    default:
        return; /* on_message gives no others */
    }
}

static void refuse(struct coordinator *co, struct client *c, const struct request_head *h,
                   enum status st, const char *field, const char *detail, uint64_t now_us)
{
    bool generate = *h->id && h->type == MSG_GENERATE;
    reply_error(
        co, c, generate ? MSG_REJECTED : MSG_ERROR,
        &(struct msg_error){
            .request_id = h->id, .request = h->type, .code = st, .field = field, .detail = detail},
        now_us);
}

/* Whose request it is; false: the connection may not speak for that tenant. */
static bool settle_tenant(const struct coordinator *co, const struct client *c,
                          struct request_head *h)
{
    if (!h->tenant.n)
        h->tenant = c->tenant;
    return acts_for_any(co, c) || tenant_equal(&h->tenant, &c->tenant);
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
    if (!c->said_hello && h.type != MSG_HELLO) {
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request_id = h.id,
                                        .request = h.type,
                                        .code = ST_PEER,
                                        .detail = "a session begins with Hello"},
                    now_us);
        return;
    }
    if (!settle_tenant(co, c, &h)) {
        refuse(co, c, &h, ST_RANGE, "tenant",
               "this connection may speak for its own tenant only (--tenants own)", now_us);
        return;
    }
    if (h.has_limits && !acts_for_any(co, c)) {
        refuse(co, c, &h, ST_RANGE, "tenant_limits",
               "only a connection that may act for any tenant sets limits", now_us);
        return;
    }
    switch (h.type) {
    case MSG_GENERATE:
        on_generate(co, c, &h, now_us);
        return;
    case MSG_TOKENIZE:
    case MSG_DETOKENIZE:
    case MSG_APPLY_TEMPLATE:
        on_text_request(co, c, &h, now_us);
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
        on_message(co, c, data, n, now_us);
}

/* Requests of clients that are gone live on for a moment, so that the client can attach again. */
static void let_go(struct coordinator *co, struct client *c, uint64_t now_us)
{
    struct request *r;
    while ((r = c->requests)) {
        request_disown(co->requests, r, now_us + 1000U * (uint64_t)r->grace_ms);
        if (r->state == REQ_ENDED)
            answer_mark(co, r); /* there is nobody to tell */
    }
    client_port_forget(co->client_port, c);
}

static void end_orphans(struct coordinator *co, uint64_t now_us)
{
    struct request *r;
    while ((r = request_overdue(co->requests, now_us))) {
        log_line(LOG_INFO, "request %s: its client is gone", r->id);
        answer_cancel(co, r, REASON_CANCELLED, now_us);
    }
}

void clients_tend(struct coordinator *co, uint64_t now_us)
{
    struct client_msg probe = pong(co, "", now_us);
    struct client *c;

    client_port_tend(co->client_port, &probe, 1000U * (uint64_t)co->cfg.client_port.heartbeat_ms,
                     now_us);
    client_port_drop_slow(co->client_port, 1000U * (uint64_t)co->cfg.slow_client_ms, now_us);
    while ((c = client_port_next_gone(co->client_port)))
        let_go(co, c, now_us);
    end_orphans(co, now_us);
    request_expire(co->requests, now_us, KEEP_ENDED_US);
}
