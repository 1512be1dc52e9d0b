#include "client/gateway/upstream.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"

enum {
    CONNECT_MS = 1000,
    RETRY_MS = 250,
    TICK_MS = 1000,
    LOST_US = 10 * 1000 * 1000, /* without an answer to a ping */
    MAX_EVENTS = 256,           /* of one turn of the loop */
    TENANT_BYTES = 16,
};

struct slot {
    struct upstream_call *call; /* NULL: free, or cancelled */
    bool query;                 /* of text: it ends by itself, soon */
    bool cancel_unsent;         /* the connection took nothing when it was to be cancelled */
    char id[INGOT_ID_SIZE];
};

struct upstream {
    struct event_base *base;
    const char *const *endpoints;
    size_t n_endpoints;
    unsigned char tenant[TENANT_BYTES];
    /* connecting */
    pthread_t thread;
    bool connecting, said_missing;
    int done[2]; /* a pipe: the thread has ended */
    struct event *on_done, *retry;
    struct ingot_client *made; /* what the thread made, or NULL */
    const char *made_endpoint;
    char failure[512];
    /* connected */
    struct ingot_client *client;
    struct event *readable, *tick, *again;
    uint64_t pong_us;
    bool ready;
    /* requests */
    struct slot *slot;
    size_t n_slots;
    uint64_t serial;
};

static struct timeval after_ms(int ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

/* ---- connecting ---- */

static void *connect_thread(void *ctx)
{
    struct upstream *u = ctx;
    u->made = NULL;
    for (size_t i = 0; i < u->n_endpoints && !u->made; i++) {
        const struct ingot_options o = {.endpoint = u->endpoints[i],
                                        .timeout_ms = CONNECT_MS,
                                        .tenant = u->tenant,
                                        .n_tenant = sizeof u->tenant};
        u->made_endpoint = u->endpoints[i];
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
    u->connecting = pthread_create(&u->thread, NULL, connect_thread, u) == 0;
    if (!u->connecting)
        retry_soon(u);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx);

static void use_client(struct upstream *u)
{
    const struct ingot_server *s = ingot_server(u->made);
    const struct timeval tick = after_ms(TICK_MS);
    u->client = u->made;
    u->said_missing = false;
    u->pong_us = clock_us();
    u->ready = s->model.world > 0;
    log_line(LOG_INFO, "connected to %s: %s, model %s", u->made_endpoint, s->version,
             s->model.name ? s->model.name : "none");
    u->readable = event_new(u->base, ingot_fd(u->client), EV_READ | EV_PERSIST, on_readable, u);
    if (u->readable)
        event_add(u->readable, NULL);
    event_add(u->tick, &tick);
    event_active(u->again, EV_TIMEOUT, 0);
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

/* ---- requests ---- */

static void give(struct upstream_call *call, const struct ingot_event *ev)
{
    if (call->log)
        request_log_event(call->log, ev);
    call->event(call, ev);
}

static void end_call(struct slot *s, const struct ingot_event *ev)
{
    struct upstream_call *call = s->call;
    *s = (struct slot){0};
    if (!call)
        return;
    call->running = false;
    give(call, ev);
}

/* Ends the connection and all calls. */
static void lose(struct upstream *u, const char *why)
{
    const struct ingot_event lost = {.kind = INGOT_EVENT_ERROR,
                                     .code = INGOT_PEER,
                                     .detail = "the connection to the coordinator was lost",
                                     .field = "",
                                     .retryable = true};
    log_line(LOG_WARN, "lost the coordinator: %s", why);
    event_del(u->tick);
    event_del(u->again);
    if (u->readable)
        event_free(u->readable);
    u->readable = NULL;
    ingot_close(u->client);
    u->client = NULL;
    u->ready = false;
    for (size_t i = 0; i < u->n_slots; i++)
        end_call(&u->slot[i], &lost);
    retry_soon(u);
}

static struct slot *slot_of(struct upstream *u, const char *id)
{
    size_t i = *id == 'g' ? (size_t)strtoull(id + 1, NULL, 10) : SIZE_MAX;
    return i < u->n_slots && strcmp(u->slot[i].id, id) == 0 ? &u->slot[i] : NULL;
}

static void dispatch(struct upstream *u, const struct ingot_event *ev)
{
    if (ev->kind == INGOT_EVENT_PONG) {
        u->pong_us = clock_us();
        u->ready = ev->ready;
        if (ev->epoch != ingot_server(u->client)->epoch)
            lose(u, "it was started again");
        return;
    }
    if (ev->kind == INGOT_EVENT_ERROR && *ev->request_id != 'g') {
        lose(u, ev->detail); /* of no request: it does not know this connection */
        return;
    }
    struct slot *s = slot_of(u, ev->request_id);
    if (s && ev->kind != INGOT_EVENT_ACCEPTED && ev->kind != INGOT_EVENT_DELTA)
        end_call(s, ev);
    else if (s && s->call)
        give(s->call, ev);
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

static void retry_cancels(struct upstream *u)
{
    for (size_t i = 0; i < u->n_slots; i++)
        if (u->slot[i].cancel_unsent && ingot_cancel(u->client, u->slot[i].id) == INGOT_OK)
            u->slot[i] = (struct slot){0};
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct upstream *u = ctx;
    (void)fd, (void)what;
    retry_cancels(u);
    enum ingot_code code = ingot_probe(u->client);
    take_events(u);
    if (!u->client)
        return;
    if (code != INGOT_OK && code != INGOT_BUSY)
        lose(u, ingot_last_error());
    else if (clock_us() - u->pong_us > LOST_US)
        lose(u, "it does not answer");
}

static enum status free_slot(struct upstream *u, size_t *slot)
{
    for (*slot = 0; *slot < u->n_slots; (*slot)++)
        if (!*u->slot[*slot].id)
            return ST_OK;
    size_t n = u->n_slots ? 2 * u->n_slots : 64;
    struct slot *grown = realloc(u->slot, n * sizeof *grown);
    if (!grown)
        FAIL(ST_NOMEM, "no memory for %zu requests", n);
    memset(grown + u->n_slots, 0, (n - u->n_slots) * sizeof *grown);
    u->slot = grown;
    u->n_slots = n;
    return ST_OK;
}

/* A free slot and a new id for it; the slot is taken by run. */
static enum ingot_code choose(struct upstream *u, size_t *slot, char id[INGOT_ID_SIZE])
{
    enum status st = free_slot(u, slot);
    if (st != ST_OK)
        return (enum ingot_code)st;
    snprintf(id, INGOT_ID_SIZE, "g%zu-%" PRIu64, *slot, ++u->serial);
    return INGOT_OK;
}

/* The request of that id was sent, unless code says otherwise. */
static enum ingot_code run(struct upstream *u, struct upstream_call *call, size_t slot,
                           const char *id, bool query, enum ingot_code code)
{
    if (code != INGOT_OK)
        return code;
    u->slot[slot] = (struct slot){.call = call, .query = query};
    memcpy(u->slot[slot].id, id, INGOT_ID_SIZE);
    call->running = true;
    call->slot = slot;
    if (call->log && !query)
        call->log->n_generates++;
    event_active(u->again, EV_TIMEOUT, 0);
    return INGOT_OK;
}

enum ingot_code upstream_generate(struct upstream *u, struct upstream_call *call,
                                  struct ingot_request *request)
{
    size_t i;
    char id[INGOT_ID_SIZE];
    enum ingot_code code = choose(u, &i, id);
    if (code != INGOT_OK)
        return code;
    request->request_id = id;
    code = run(u, call, i, id, false, ingot_generate(u->client, request, NULL));
    if (code == INGOT_OK && call->log)
        call->log->n_generates++;
    return code;
}

enum ingot_code upstream_tokenize(struct upstream *u, struct upstream_call *call, const char *text,
                                  size_t n, bool add_special)
{
    size_t i;
    char id[INGOT_ID_SIZE];
    enum ingot_code code = choose(u, &i, id);
    if (code != INGOT_OK)
        return code;
    return run(u, call, i, id, true, ingot_send_tokenize(u->client, id, text, n, add_special));
}

enum ingot_code upstream_detokenize(struct upstream *u, struct upstream_call *call,
                                    const int32_t *ids, size_t n)
{
    size_t i;
    char id[INGOT_ID_SIZE];
    enum ingot_code code = choose(u, &i, id);
    if (code != INGOT_OK)
        return code;
    return run(u, call, i, id, true, ingot_send_detokenize(u->client, id, ids, n, false));
}

enum ingot_code upstream_apply_template(struct upstream *u, struct upstream_call *call,
                                        struct ingot_request *request)
{
    size_t i;
    char id[INGOT_ID_SIZE];
    enum ingot_code code = choose(u, &i, id);
    if (code != INGOT_OK)
        return code;
    request->request_id = id;
    return run(u, call, i, id, true, ingot_send_apply_template(u->client, request));
}

enum ingot_code upstream_stats(struct upstream *u, struct upstream_call *call)
{
    size_t i;
    char id[INGOT_ID_SIZE];
    enum ingot_code code = choose(u, &i, id);
    if (code != INGOT_OK)
        return code;
    return run(u, call, i, id, true, ingot_send_stats(u->client, id));
}

void upstream_cancel(struct upstream *u, struct upstream_call *call)
{
    if (!call->running)
        return;
    struct slot *s = &u->slot[call->slot];
    call->running = false;
    s->call = NULL;
    if (!u->client || s->query) { /* just lost, or its end is not waited for */
        *s = (struct slot){0};
        return;
    }
    s->cancel_unsent = ingot_cancel(u->client, s->id) != INGOT_OK;
    if (!s->cancel_unsent)
        *s = (struct slot){0};
    event_active(u->again, EV_TIMEOUT, 0);
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
    if (!u->on_done || !u->retry || !u->tick || !u->again || event_add(u->on_done, NULL) != 0)
        FAIL(ST_NOMEM, "no memory for the coordinator's events");
    event_active(u->retry, EV_TIMEOUT, 0);
    return ST_OK;
}

enum status upstream_create(struct upstream **out, struct event_base *base,
                            const char *const *endpoints, size_t n_endpoints)
{
    struct upstream *u = calloc(1, sizeof *u);
    *out = NULL;
    if (!u)
        FAIL(ST_NOMEM, "no memory for the coordinator's connection");
    u->base = base;
    u->endpoints = endpoints;
    u->n_endpoints = n_endpoints;
    u->done[0] = u->done[1] = -1;
    random_bytes(u->tenant, sizeof u->tenant);
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
    struct event *events[] = {u->on_done, u->retry, u->tick, u->again, u->readable};
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
    free(u->slot);
    free(u);
}
