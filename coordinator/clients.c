/* What clients ask, and what becomes of it. */
#include "coordinator/clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/build_info.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/random.h"
#include "common/sha256.h"
#include "coordinator/answers.h"
#include "coordinator/groups.h"

enum { MESSAGES_A_TURN = 256, KEEP_ENDED_US = 30 * 1000 * 1000, OWN_TENANT_BYTES = 16 };

static void reply_error(struct coordinator *co, struct client *c, enum msg_type type,
                        const char *request_id, enum status code, const char *field, bool retryable,
                        const char *detail, uint64_t now_us)
{
    struct client_msg m = {.type = type};
    m.u.error = (struct msg_error){.request_id = request_id,
                                   .code = code,
                                   .detail = detail,
                                   .field = field,
                                   .retryable = retryable,
                                   .retry_after_ms = retryable ? 1000 : 0};
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

static void on_hello(struct coordinator *co, struct client *c, const struct msg_hello *h,
                     uint64_t now_us)
{
    char why[128];
    if (h->major_min > WIRE_MAJOR || h->major_max < WIRE_MAJOR) {
        snprintf(why, sizeof why, "client speaks protocol %u to %u, this server %d", h->major_min,
                 h->major_max, WIRE_MAJOR);
        reply_error(co, c, MSG_ERROR, "", ST_UNSUPPORTED, "major_min", false, why, now_us);
        return;
    }
    if (!take_own_tenant(c, &h->tenant)) {
        reply_error(co, c, MSG_ERROR, "", ST_RANGE, "tenant", false,
                    "this connection said Hello as another tenant", now_us);
        return;
    }
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
        reply_error(co, r->client, MSG_ERROR, r->id, ST_PEER, "request_id", false,
                    "another client attached to this request", now_us);
    r->client = c;
    if (r->state != REQ_ENDED)
        c->n_requests++;
    r->attached = true;
    r->accepted_sent = r->terminal_sent = false;
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++) {
        struct sample *s = &r->samples[i];
        s->sent_tokens = s->sent_top = s->seq = 0;
        s->sent_text = 0;
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

static void on_generate(struct coordinator *co, struct client *c, const struct request_head *h,
                        const void *data, size_t n, uint64_t now_us)
{
    uint64_t digest = hash_bytes(0, data, n);
    struct request *r = request_find(co->requests, &h->tenant, h->id);

    if (r && r->digest != digest) {
        reply_error(co, c, MSG_REJECTED, h->id, ST_RANGE, "request_id", false,
                    "this request_id is in use by a different request", now_us);
        return;
    }
    if (r) {
        attach(co, c, r, now_us);
        return;
    }
    const char *why = refuse_now(co);
    enum status st =
        why ? ST_BUSY : request_reserve(co->requests, &h->tenant, h->id, digest, now_us, &r);
    if (st == ST_OK) {
        st = submit_text(co, c, h, r);
        if (st != ST_OK)
            request_remove(co->requests, r);
    }
    if (st != ST_OK) {
        co->n.rejected++;
        reply_error(co, c, MSG_REJECTED, h->id, st, "", st == ST_BUSY, why ? why : status_text(),
                    now_us);
        return;
    }
    r->client = c;
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
    enum status st = admit(co, r, &job->resolved);
    if (st != ST_OK) {
        answer_fail(co, r, st, st == ST_BUSY, status_text(), now_us);
        return;
    }
    r->state = REQ_LIVE;
    r->admitted = true;
    co->n.prompt_tokens += r->ask->n_prompt;
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
        reply_error(co, c, MSG_ERROR, job->request_id, job->status, job->field, false, job->detail,
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

static void on_stats(struct coordinator *co, struct client *c, const char *id, uint64_t now_us)
{
    struct sched_stats s = {0};
    struct msg_group groups[MAX_WORKER_GROUPS];
    struct client_msg m = {.type = MSG_STATS_REPLY};
    uint32_t n = 0;

    if (co->sched)
        sched_stats(co->sched, &s);
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        const struct worker_group *g = worker_port_group(co->worker_port, i);
        if (!g)
            continue;
        groups[n] = (struct msg_group){.epoch = g->epoch,
                                       .world = g->world,
                                       .backend = g->backend,
                                       .coll = g->coll,
                                       .active = g->active,
                                       .numerics = g->numerics,
                                       .has_weights = g->has_weights};
        memcpy(groups[n].weights, g->weights, sizeof g->weights);
        worker_group_step_percentiles(g, &groups[n].step_us_p50, &groups[n].step_us_p99);
        n++;
    }
    m.u.stats = (struct msg_stats){
        .request_id = id,
        .running = s.running,
        .waiting = s.waiting,
        .blocks_total = s.blocks_total,
        .blocks_free = s.blocks_free,
        .blocks_cached = s.blocks_cached,
        .clients = client_port_clients(co->client_port),
        .steps = s.steps,
        .steps_overlapped = co->n.steps_overlapped,
        .tokens_generated = co->n.tokens_generated,
        .prompt_tokens = co->n.prompt_tokens,
        .cached_tokens = co->n.cached_tokens,
        .preemptions = s.preemptions,
        .recoveries = co->n.recoveries,
        .finished = co->n.finished,
        .failed = co->n.failed,
        .rejected = co->n.rejected,
        .cancelled = co->n.cancelled,
        .last_step_age_us = co->last_step_us ? now_us - co->last_step_us : 0,
        .uptime_us = now_us - co->started_us,
        .epoch = co->epoch,
        .ready = groups_ready(co),
        .draining = co->draining,
        .n_groups = n,
        .groups = groups,
    };
    client_port_reply(co->client_port, c, &m, now_us);
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
                          .ready = groups_ready(co)};
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
        reply_error(co, c, MSG_ERROR, h->id, st, "", true, status_text(), now_us);
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
        on_stats(co, c, id, now_us);
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
    if (generate)
        co->n.rejected++;
    reply_error(co, c, generate ? MSG_REJECTED : MSG_ERROR, h->id, st, field, false, detail,
                now_us);
}

/* Whose request it is; false: the connection may not speak for that tenant. */
static bool settle_tenant(const struct coordinator *co, const struct client *c,
                          struct request_head *h)
{
    if (!h->tenant.n)
        h->tenant = c->tenant;
    return co->cfg.tenants == TENANTS_ANY || tenant_equal(&h->tenant, &c->tenant);
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
        reply_error(co, c, MSG_ERROR, h.id, ST_PEER, "", false, "a session begins with Hello",
                    now_us);
        return;
    }
    if (!settle_tenant(co, c, &h)) {
        refuse(co, c, &h, ST_RANGE, "tenant",
               "this connection may speak for its own tenant only (--tenants own)", now_us);
        return;
    }
    switch (h.type) {
    case MSG_GENERATE:
        on_generate(co, c, &h, data, n, now_us);
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
    uint32_t at = 0;
    struct request *r;
    while ((r = request_next(co->requests, &at))) {
        if (r->client != c)
            continue;
        r->client = NULL;
        r->orphan_us = now_us;
    }
    client_port_forget(co->client_port, c);
}

static void end_orphans(struct coordinator *co, uint64_t now_us)
{
    uint32_t at = 0;
    struct request *r;
    while ((r = request_next(co->requests, &at))) {
        if (r->client)
            continue;
        if (r->state != REQ_ENDED &&
            now_us - r->orphan_us > 1000U * (uint64_t)co->cfg.client_grace_ms) {
            log_line(LOG_INFO, "request %s: its client is gone", r->id);
            answer_cancel(co, r, REASON_CANCELLED, now_us);
        }
        if (r->state == REQ_ENDED && !r->dirty)
            r->terminal_sent = true; /* there is nobody to tell; kept for a while all the same */
    }
}

void clients_tend(struct coordinator *co, uint64_t now_us)
{
    struct client_msg probe = pong(co, "", now_us);
    struct client *c;
    uint32_t at = 0;
    struct request *r;

    client_port_tend(co->client_port, &probe, 1000U * (uint64_t)co->cfg.client_port.heartbeat_ms,
                     now_us);
    while ((r = request_next(co->requests, &at)))
        if (r->client && r->client->blocked_us &&
            now_us - r->client->blocked_us > 1000U * (uint64_t)co->cfg.slow_client_ms) {
            log_line(LOG_WARN, "client %" PRIu64 " does not read: it is dropped", r->client->id);
            r->client->gone = true;
        }
    while ((c = client_port_next_gone(co->client_port)))
        let_go(co, c, now_us);
    end_orphans(co, now_us);
    request_expire(co->requests, now_us, KEEP_ENDED_US);
}
