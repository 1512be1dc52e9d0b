#include "coordinator/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/build_info.h"
#include "common/log.h"
#include "common/random.h"
#include "coordinator/embeddings.h"
#include "coordinator/groups.h"
#include "coordinator/reply.h"

enum { OWN_TENANT_BYTES = 16 };

static struct msg_model model_info(const struct coordinator *co)
{
    const struct model_identity *id = &co->identity;
    struct worker_group *g = worker_port_active(co->worker_port);
    struct msg_model m = {.name = co->cfg.model_name,
                          .has_weights = model_identity_known(id),
                          .has_text = id->has_text,
                          .weights_from = model_identity_from(id),
                          .vocab = co->shape.vocab,
                          .max_ctx = co->shape.max_ctx - co->mt.modules.whole,
                          .world = g ? g->world : 0,
                          .chat = co->mt.chat != NULL,
                          .rerank = embeddings_given(co) && co->mt.modules.scores};
    if (embeddings_given(co) && !m.rerank)
        m.embedding = (uint32_t)co->mt.modules.dim;
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

bool session_any_tenant(const struct coordinator *co, const struct client *c)
{
    return co->cfg.tenants == TENANTS_ANY || c->any_tenant || (c->rights.roles & ROLE_ACT);
}

/* The connection's proof of what it owns; false: it has given another one before. */
static bool take_proof(struct client *c, struct wire_text token)
{
    struct owner_proof p =
        *c->rights.key ? owner_proof_of_key(c->rights.key) : owner_proof_of_token(token);
    if (c->said_hello && token.n && !*c->rights.key && memcmp(&p, &c->proof, sizeof p) != 0)
        return false;
    if (!c->said_hello)
        c->proof = p;
    return true;
}

struct owner session_owner(const struct coordinator *co, const struct client *c,
                           const struct request_head *h)
{
    return owner_of(&h->tenant, session_any_tenant(co, c) ? NULL : &c->proof);
}

void session_hello(struct coordinator *co, struct client *c, const struct msg_hello *h,
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
    if (!take_proof(c, h->token)) {
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request = MSG_HELLO,
                                        .code = ST_RANGE,
                                        .field = "token",
                                        .detail = "this connection said Hello with another token"},
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
        .any_tenant = session_any_tenant(co, c),
    };
    c->said_hello = true;
    log_line(LOG_DEBUG, "client %" PRIu64 " is %s", c->id, h->client);
    client_port_reply(co->client_port, c, &m, now_us);
}

struct client_msg session_pong(struct coordinator *co, const char *id, uint64_t now_us)
{
    struct sched_stats s = {0};
    struct client_msg m = {.type = MSG_PONG};
    if (co->fleet)
        fleet_stats(co->fleet, &s);
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

void session_models(struct coordinator *co, struct client *c, const char *id, uint64_t now_us)
{
    struct msg_model model = model_info(co);
    struct client_msg m = {.type = MSG_MODEL_LIST};
    m.u.model_list = (struct msg_model_list){id, 1, &model};
    client_port_reply(co->client_port, c, &m, now_us);
}
