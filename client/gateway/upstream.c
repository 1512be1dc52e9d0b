#include "client/gateway/upstream_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "common/thread.h"

enum {
    CONNECT_MS = 1000,
    RETRY_MS = 250,
    TICK_MS = 1000,
    MOST_TICK_US = 2 * TICK_MS * 1000, /* a longer tick is a pause of the gateway itself */
    LOST_US = 5 * 1000 * 1000,         /* without an answer to a ping */
    EMPTY_US = 1500 * 1000,            /* one of several coordinators, without a worker group */
    MAX_EVENTS = 256,                  /* of one turn of the loop */
};

static struct timeval after_ms(int ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

/* ---- connecting ---- */

static void *connect_thread(void *ctx)
{
    struct upstream *u = ctx;
    const struct secret *secret = u->cfg.secret;
    u->made = NULL;
    for (size_t i = 0; i < u->cfg.n_endpoints && !u->made; i++) {
        u->made_i = (u->first + i) % u->cfg.n_endpoints;
        const struct ingot_options o = {.endpoint = u->cfg.endpoints[u->made_i],
                                        .timeout_ms = CONNECT_MS,
                                        .tenant = u->tenant,
                                        .n_tenant = sizeof u->tenant,
                                        .token = u->token,
                                        .n_token = sizeof u->token,
                                        .key = u->cfg.key,
                                        .server_key = u->cfg.server_key,
                                        .tenants_secret = secret->n ? secret->bytes : NULL,
                                        .n_tenants_secret = secret->n};
        if (ingot_open(&u->made, &o) != INGOT_OK)
            snprintf(u->failure, sizeof u->failure, "%s", ingot_last_error());
    }
    while (write(u->done[1], "", 1) < 0 && errno == EINTR)
        ;
    return NULL;
}

static void retry_soon(struct upstream *u)
{
    const struct timeval tv = after_ms(RETRY_MS);
    event_add(u->retry, &tv);
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
    struct upstream *u = ctx;
    (void)fd, (void)what;
    u->connecting = thread_start(&u->thread, connect_thread, u) == 0;
    if (!u->connecting)
        retry_soon(u);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx);

static void use_client(struct upstream *u)
{
    const struct ingot_server *s = ingot_server(u->made);
    const struct timeval tick = after_ms(TICK_MS);
    const char *endpoint = u->cfg.endpoints[u->made_i];
    u->client = u->made;
    u->empty_us = 0;
    u->first = 0;
    u->said_missing = false;
    u->heard_us = clock_us();
    u->silence_us = 0;
    u->ready = s->model.world > 0;
    log_line(LOG_INFO, "connected to %s: %s, model %s", endpoint, s->version,
             s->model.name ? s->model.name : "none");
    if (u->cfg.needs_tenants && !s->any_tenant)
        log_line(LOG_ERROR,
                 "%s does not let this gateway act for the tenants of its API keys, and their "
                 "requests are refused: both need the same --tenants-secret",
                 endpoint);
    u->readable = event_new(u->base, ingot_fd(u->client), EV_READ | EV_PERSIST, on_readable, u);
    if (u->readable)
        event_add(u->readable, NULL);
    event_add(u->tick, &tick);
    event_active(u->again, EV_TIMEOUT, 0);
    event_del(u->give_up);
    upstream_calls_send(u);
}

static void on_done(evutil_socket_t fd, short what, void *ctx)
{
    struct upstream *u = ctx;
    char byte;
    (void)what;
    if (read(fd, &byte, 1) != 1)
        return;
    pthread_join(u->thread, NULL);
    u->connecting = false;
    if (u->made) {
        use_client(u);
        return;
    }
    if (!u->said_missing)
        log_line(LOG_WARN, "%s; trying on", u->failure);
    u->said_missing = true;
    retry_soon(u);
}

/* ---- the connection is lost ---- */

static void on_give_up(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd, (void)what;
    upstream_calls_give_up(ctx);
}

/* Ends the connection; its requests wait for the next one. */
static void lose(struct upstream *u, const char *why)
{
    const struct timeval grace = after_ms((int)u->cfg.resume_grace_ms);
    log_line(LOG_WARN, "lost the coordinator: %s; %zu requests wait for another connection", why,
             u->calls.n_used);
    event_del(u->tick);
    event_del(u->again);
    if (u->readable)
        event_free(u->readable);
    u->readable = NULL;
    ingot_close(u->client);
    u->client = NULL;
    u->ready = false;
    upstream_calls_lose(u);
    event_add(u->give_up, &grace);
    retry_soon(u);
}

/* ---- events ---- */

/* The worker groups may be at another coordinator of the list. */
static bool is_empty(struct upstream *u, bool has_groups)
{
    uint64_t now = clock_us();
    if (has_groups || u->cfg.n_endpoints == 1)
        u->empty_us = 0;
    else if (!u->empty_us)
        u->empty_us = now;
    return u->empty_us && now - u->empty_us > EMPTY_US;
}

static void on_pong(struct upstream *u, const struct ingot_event *ev)
{
    u->silence_us = 0;
    u->ready = ev->ready && !ev->draining;
    if (ev->epoch != ingot_server(u->client)->epoch) {
        lose(u, "it was started again");
    } else if (is_empty(u, ev->ready)) {
        u->first = (u->made_i + 1) % u->cfg.n_endpoints;
        lose(u, "it has no worker group");
    }
}

static void dispatch(struct upstream *u, const struct ingot_event *ev)
{
    if (ev->kind == INGOT_EVENT_PONG)
        on_pong(u, ev);
    else if (!upstream_calls_take(u, ev))
        lose(u, ev->detail);
}

/* Takes what has come.  The descriptor is edge-triggered: the loop may sleep only after INGOT_TIMEOUT. */
static void take_events(struct upstream *u)
{
    struct ingot_event ev;
    for (int i = 0; i < MAX_EVENTS && u->client; i++) {
        enum ingot_code code = ingot_next(u->client, &ev, 0);
        if (code == INGOT_TIMEOUT)
            return;
        if (code == INGOT_OK)
            dispatch(u, &ev);
        else if (code != INGOT_CANCELLED)
            lose(u, ingot_last_error());
    }
    if (u->client)
        event_active(u->again, EV_TIMEOUT, 0);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd, (void)what;
    take_events(ctx);
}

/* A gateway that was stopped or had no processor hears nothing meanwhile: that is no silence of the coordinator. */
static bool is_lost(struct upstream *u)
{
    uint64_t now = clock_us(), since = now - u->heard_us;
    u->heard_us = now;
    u->silence_us += since < MOST_TICK_US ? since : MOST_TICK_US;
    return u->silence_us > LOST_US;
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct upstream *u = ctx;
    (void)fd, (void)what;
    upstream_calls_tend(u);
    enum ingot_code code = ingot_probe(u->client);
    take_events(u);
    if (!u->client)
        return;
    if (code != INGOT_OK && code != INGOT_BUSY)
        lose(u, ingot_last_error());
    else if (is_lost(u))
        lose(u, "it does not answer");
}

/* ---- life ---- */

const struct ingot_server *upstream_server(const struct upstream *u)
{
    return u->client ? ingot_server(u->client) : NULL;
}

bool upstream_is_ready(const struct upstream *u)
{
    return u->ready;
}

static enum status begin(struct upstream *u)
{
    if (pipe(u->done) != 0)
        FAIL(ST_IO, "cannot make a pipe: %s", strerror(errno));
    u->on_done = event_new(u->base, u->done[0], EV_READ | EV_PERSIST, on_done, u);
    u->retry = evtimer_new(u->base, on_retry, u);
    u->tick = event_new(u->base, -1, EV_PERSIST, on_tick, u);
    u->again = evtimer_new(u->base, on_readable, u);
    u->give_up = evtimer_new(u->base, on_give_up, u);
    if (!u->on_done || !u->retry || !u->tick || !u->again || !u->give_up ||
        event_add(u->on_done, NULL) != 0)
        FAIL(ST_NOMEM, "no memory for the coordinator's events");
    event_active(u->retry, EV_TIMEOUT, 0);
    return ST_OK;
}

enum status upstream_create(struct upstream **out, struct event_base *base,
                            const struct upstream_config *cfg)
{
    struct upstream *u = calloc(1, sizeof *u);
    *out = NULL;
    if (!u)
        FAIL(ST_NOMEM, "no memory for the coordinator's connection");
    u->base = base;
    u->cfg = *cfg;
    u->nonce = random_u64();
    u->done[0] = u->done[1] = -1;
    memcpy(u->tenant, cfg->tenant, sizeof u->tenant);
    random_bytes(u->token, sizeof u->token);
    enum status st = begin(u);
    if (st != ST_OK) {
        upstream_destroy(u);
        return st;
    }
    *out = u;
    return ST_OK;
}

void upstream_destroy(struct upstream *u)
{
    if (!u)
        return;
    struct event *events[] = {u->on_done, u->retry, u->tick, u->again, u->give_up, u->readable};
    if (u->connecting) {
        pthread_join(u->thread, NULL);
        ingot_close(u->made);
    }
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (events[i])
            event_free(events[i]);
    ingot_close(u->client);
    for (int i = 0; i < 2; i++)
        if (u->done[i] >= 0)
            close(u->done[i]);
    call_table_fini(&u->calls);
    free(u);
}
