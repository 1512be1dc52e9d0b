/* The connection of a client to one of its endpoints: made, lost, made again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/lib/internal.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/wire/sock.h"

enum { OWN_TENANT_BYTES = 16, OWN_TOKEN_BYTES = 32, MEM_BYTES = 256 << 20 };
enum { TRY_US = 1000 * 1000 }; /* how long one endpoint of several is waited for */

static enum status send_hello(struct ingot_client *c)
{
    struct client_msg m = {.type = MSG_HELLO};
    m.u.hello = (struct msg_hello){.major_min = WIRE_MAJOR,
                                   .major_max = WIRE_MAJOR,
                                   .client = "libingot " INGOT_VERSION,
                                   .tenant = c->tenant,
                                   .token = {c->token, c->n_token},
                                   .tenants_secret = {c->secret.bytes, c->secret.n}};
    return client_send(c, &m);
}

static enum status take_welcome(struct ingot_client *c, const struct client_msg *m)
{
    if (m->type == MSG_ERROR)
        FAIL(m->u.error.code, "%s", m->u.error.detail);
    if (m->type != MSG_WELCOME)
        FAIL(ST_PEER, "the server answered Hello with message type %d", (int)m->type);
    const struct msg_welcome *w = &m->u.welcome;
    snprintf(c->version, sizeof c->version, "%s", w->server);
    c->heartbeat_ms = w->heartbeat_ms;
    c->server = (struct ingot_server){.version = c->version,
                                      .epoch = w->epoch,
                                      .max_message_bytes = w->max_message_bytes,
                                      .max_prompt_tokens = w->max_prompt_tokens,
                                      .max_queued = w->max_queued,
                                      .max_samples = w->max_samples,
                                      .any_tenant = w->any_tenant};
    if (w->n_models)
        client_take_model(c, &w->models[0]);
    servers_begin(c, w->n_models && w->models[0].world);
    (void)sock_take_ends(c->link_ends); /* of connections before this one */
    c->open = true;
    c->refused[0] = '\0';
    return ST_OK;
}

static enum status begin_socket(struct ingot_client *c)
{
    /* No ZMTP heartbeats: with them a pause of this process, or of its output, ends the connection. */
    struct sock_config sc = {.max_message = MAX_REPLY, .linger_ms = 200, .no_heartbeat = true};
    c->tried_us = clock_us();
    sc.curve = c->has_curve ? &c->curve : NULL;
    c->refusal = SOCK_REFUSED_NOT;
    TRY(sock_connect_dealer(&c->sock, c->ctx, c->endpoints[c->endpoint], &sc));
    TRY(sock_watch_ends(&c->link_ends, c->ctx, c->sock));
    return send_hello(c);
}

static void end_socket(struct ingot_client *c)
{
    client_drop_frame(c);
    sock_close_watched(c->sock, c->link_ends);
    c->sock = c->link_ends = NULL;
    c->open = c->broken = c->deaf = false;
}

/* What a server with too many clients says to Hello, and one without memory: where a connection was lost, it is
 * tried again. */
static bool passes(const struct ingot_client *c, const struct client_msg *m)
{
    return c->lost_us && m->type == MSG_ERROR && m->u.error.retryable;
}

static enum status no_answer(const struct ingot_client *c, enum sock_refusal refusal)
{
    const char *endpoint = c->endpoints[c->endpoint];
    if (*c->refused)
        FAIL(ST_TIMEOUT, "%s takes no connection: %s", endpoint, c->refused);
    if (refusal != SOCK_REFUSED_NOT)
        FAIL(ST_TIMEOUT, "no server answers at %s: %s", endpoint,
             c->has_curve ? sock_refusal_text(refusal)
                          : "connections end at once (does the server want a key?)");
    FAIL(ST_TIMEOUT, "no server answers at %s (is a server running? try 'ingot serve MODEL')",
         endpoint);
}

/* Until the server of some endpoint has answered Hello: each gets TRY_US of the time, in turn. */
static enum status connect_until(struct ingot_client *c, uint64_t deadline_us)
{
    enum sock_refusal refusal = SOCK_REFUSED_NOT; /* the last one */
    for (;;) {
        struct client_msg m;
        if (!c->sock)
            TRY(begin_socket(c));
        uint64_t end = c->tried_us + TRY_US;
        enum status st = client_receive(c, &m, false, end < deadline_us ? end : deadline_us);
        if (st == ST_OK && !passes(c, &m))
            return take_welcome(c, &m);
        if (st == ST_OK)
            snprintf(c->refused, sizeof c->refused, "%s", m.u.error.detail);
        if (st != ST_OK && st != ST_TIMEOUT)
            return st;
        if (c->refusal != SOCK_REFUSED_NOT)
            refusal = c->refusal;
        if (clock_us() >= end) {
            end_socket(c);
            c->endpoint = (c->endpoint + 1) % c->n_endpoints;
        }
        if (clock_us() >= deadline_us)
            return no_answer(c, refusal);
    }
}

void client_lose(struct ingot_client *c)
{
    end_socket(c);
    client_lose_queries(c);
    c->lost_us = clock_us();
    c->refused[0] = '\0';
}

enum status client_reconnect(struct ingot_client *c, uint64_t deadline_us)
{
    uint64_t give_up = c->lost_us + 1000U * (uint64_t)c->reconnect_ms;
    enum status st = connect_until(c, give_up < deadline_us ? give_up : deadline_us);
    if (st == ST_TIMEOUT && clock_us() >= give_up && *c->refused)
        FAIL(ST_PEER, "the connection to the server was lost, and it takes no new one: %s",
             c->refused);
    if (st == ST_TIMEOUT && clock_us() >= give_up)
        FAIL(ST_PEER,
             "the connection to the server was lost and it does not answer: it seems to be "
             "gone");
    TRY(st);
    c->heard_us = clock_us();
    running_resume(c);
    return ST_OK;
}

/* list: endpoints with commas between them; operate: as in ingot_options */
static enum status take_endpoints(struct ingot_client *c, const char *list, bool operate)
{
    char control[SOCK_CONTROL_SIZE];
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        if (c->n_endpoints == MAX_ENDPOINTS)
            FAIL(ST_RANGE, "%s: at most %d endpoints are possible", list, MAX_ENDPOINTS);
        char *one = c->endpoints[c->n_endpoints] = strndup(p, n);
        if (!one)
            FAIL(ST_NOMEM, "no memory for a client");
        c->n_endpoints++;
        TRY(sock_check_endpoint(one, false, true));
        if (operate && sock_control_answers(control, one)) {
            char *local = strdup(control);
            if (!local)
                FAIL(ST_NOMEM, "no memory for a client");
            free(one);
            c->endpoints[c->n_endpoints - 1] = local;
        }
        p += n;
        if (!*p)
            return ST_OK;
    }
}

static enum status take_token(struct ingot_client *c, const struct ingot_options *o)
{
    c->n_token = o->token ? o->n_token : OWN_TOKEN_BYTES;
    if (c->n_token < MIN_TOKEN || c->n_token > sizeof c->token)
        FAIL(ST_RANGE, "token has %zu bytes: it must have %d to %zu", c->n_token, MIN_TOKEN,
             sizeof c->token);
    if (o->token)
        memcpy(c->token, o->token, c->n_token);
    else
        random_bytes(c->token, c->n_token);
    return ST_OK;
}

static enum status take_keys(struct ingot_client *c, const struct ingot_options *o)
{
    if (!o->key && !o->server_key)
        return ST_OK;
    if (!o->key || !o->server_key)
        FAIL(ST_RANGE, "key and server_key belong together");
    c->has_curve = true;
    TRY(curve_pair_load(&c->curve.own, o->key));
    return curve_public_load(c->curve.server_key, o->server_key);
}

static enum status open_client(struct ingot_client *c, const struct ingot_options *o)
{
    TRY(take_endpoints(c, o->endpoint ? o->endpoint : "tcp://127.0.0.1:5555",
                       o->operate && !o->key));
    c->reconnect_ms = o->reconnect_ms;
    if (o->tenant) {
        TRY(tenant_of_bytes(&c->tenant, o->tenant, o->n_tenant));
    } else {
        c->tenant.n = OWN_TENANT_BYTES;
        random_bytes(c->tenant.bytes, OWN_TENANT_BYTES);
    }
    TRY(take_token(c, o));
    TRY(take_keys(c, o));
    if (o->n_tenants_secret > sizeof c->secret.bytes)
        FAIL(ST_RANGE, "tenants_secret has %zu bytes: at most %zu", o->n_tenants_secret,
             sizeof c->secret.bytes);
    if (o->tenants_secret)
        memcpy(c->secret.bytes, o->tenants_secret, o->n_tenants_secret);
    c->secret.n = o->tenants_secret ? o->n_tenants_secret : 0;
    TRY(wire_mem_init(&c->rx, MEM_BYTES));
    TRY(wire_mem_init(&c->tx, MEM_BYTES));
    c->ctx = zmq_ctx_new();
    if (!c->ctx)
        FAIL(ST_IO, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    return connect_until(c, clock_us() + 1000U * (uint64_t)o->timeout_ms);
}

static enum status new_client(struct ingot_client **out)
{
    struct ingot_client *c = *out = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "no memory for a client");
    c->kept_end = &c->kept;
    return ST_OK;
}

enum ingot_code ingot_open(struct ingot_client **out, const struct ingot_options *o)
{
    enum status st = new_client(out);
    if (st == ST_OK)
        st = open_client(*out, o);
    if (st != ST_OK) {
        ingot_close(*out);
        *out = NULL;
    }
    return (enum ingot_code)st;
}

enum ingot_code ingot_connect(struct ingot_client **out, const char *endpoint, uint32_t timeout_ms)
{
    return ingot_open(out, &(struct ingot_options){.endpoint = endpoint, .timeout_ms = timeout_ms});
}

static void close_connection(struct ingot_client *c)
{
    client_drop_kept(c);
    client_drop_queries(c);
    end_socket(c);
    c->refused[0] = '\0';
    running_forget_all(c);
    c->n_running = 0;
}

enum ingot_code ingot_reconnect(struct ingot_client *c, uint32_t timeout_ms)
{
    close_connection(c);
    return (enum ingot_code)connect_until(c, clock_us() + 1000U * (uint64_t)timeout_ms);
}

bool ingot_connected(const struct ingot_client *c)
{
    return c->open && !c->broken;
}

void ingot_close(struct ingot_client *c)
{
    if (!c)
        return;
    close_connection(c);
    if (c->ctx)
        zmq_ctx_term(c->ctx);
    wire_mem_fini(&c->rx);
    wire_mem_fini(&c->tx);
    for (uint32_t i = 0; i < c->n_endpoints; i++)
        free(c->endpoints[i]);
    free(c);
}

const void *ingot_tenant(const struct ingot_client *c, size_t *n)
{
    *n = c->tenant.n;
    return c->tenant.bytes;
}

const void *ingot_token(const struct ingot_client *c, size_t *n)
{
    *n = c->n_token;
    return c->token;
}

const struct ingot_server *ingot_server(const struct ingot_client *c)
{
    return &c->server;
}

int ingot_fd(const struct ingot_client *c)
{
    int fd = -1;
    size_t n = sizeof fd;
    if (zmq_getsockopt(c->sock, ZMQ_FD, &fd, &n) != 0)
        return -1;
    return fd;
}
