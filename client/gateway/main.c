/* ingot-gateway: options, signals, the loop. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/gateway/gateway.h"
#include "client/gateway/gateway_options.h"
#include "common/log.h"
#include "common/parent.h"

enum { POLL_KEYS_MS = 500, BEAT_S = 1 };

struct program {
    struct gateway_options options;
    struct gateway gateway;
    struct event_base *base;
    struct http_server *server;
    struct event *sigterm, *sigint, *sighup, *drain_limit, *poll_keys, *beat;
    struct secret tenants_secret;
    bool draining;
};

static void on_drained(void *ctx)
{
    struct program *p = ctx;
    event_base_loopbreak(p->base);
}

static bool on_head(void *ctx, const struct http_request *q)
{
    struct program *p = ctx;
    return gateway_wants_body(&p->gateway, q);
}

static void on_request(void *ctx, const struct http_request *q, struct http_reply *r)
{
    struct program *p = ctx;
    gateway_request(&p->gateway, q, r);
}

static void on_ended(void *ctx, const struct http_outcome *o)
{
    struct program *p = ctx;
    gateway_ended(&p->gateway, o);
}

static void on_hangup(evutil_socket_t signal_number, short what, void *ctx)
{
    struct program *p = ctx;
    (void)signal_number, (void)what;
    if (p->gateway.access_log)
        access_log_reopen(p->gateway.access_log);
}

/* The first signal drains, a second one ends. */
static void on_signal(evutil_socket_t signal_number, short what, void *ctx)
{
    struct program *p = ctx;
    const struct timeval limit = {.tv_sec = (time_t)(p->options.drain_ms / 1000),
                                  .tv_usec = (suseconds_t)(p->options.drain_ms % 1000 * 1000)};
    (void)signal_number, (void)what;
    if (p->draining) {
        event_base_loopbreak(p->base);
        return;
    }
    p->draining = true;
    log_line(LOG_INFO, "draining: %zu answers are running", http_server_counts(p->server).pending);
    event_add(p->drain_limit, &limit);
    http_server_drain(p->server);
}

static void on_drain_limit(evutil_socket_t fd, short what, void *ctx)
{
    struct program *p = ctx;
    (void)fd, (void)what;
    log_line(LOG_WARN, "%zu answers have not ended within --drain-ms",
             http_server_counts(p->server).pending);
    event_base_loopbreak(p->base);
}

static void on_poll_keys(evutil_socket_t fd, short what, void *ctx)
{
    struct program *p = ctx;
    (void)fd, (void)what;
    api_keys_poll(p->gateway.keys);
}

/* The loop turns.  A full pipe is a supervisor that is stopped. */
static void on_beat(evutil_socket_t fd, short what, void *ctx)
{
    static const char line[] = "alive\n";
    struct program *p = ctx;
    (void)fd, (void)what;
    if (write((int)p->options.notify_fd, line, sizeof line - 1) < 0 && errno != EAGAIN)
        event_del(p->beat);
}

static enum status begin_beats(struct program *p)
{
    const struct timeval interval = {.tv_sec = BEAT_S};
    int fd = (int)p->options.notify_fd;
    p->beat = event_new(p->base, -1, EV_PERSIST, on_beat, p);
    if (!p->beat || event_add(p->beat, &interval) != 0)
        FAIL(ST_NOMEM, "no memory for an event loop");
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        FAIL(ST_IO, "--notify-fd %d: %s", fd, strerror(errno));
    dprintf(fd, "listening %s\n", http_server_address(p->server, 0));
    return ST_OK;
}

static enum status open_keys(struct program *p)
{
    const struct timeval interval = {.tv_usec = POLL_KEYS_MS * 1000};
    const struct api_keys_config cfg = {&p->options.api_key, p->options.api_keys,
                                        &p->tenants_secret};
    TRY(secret_load(&p->tenants_secret, p->options.tenants_secret, getenv("INGOT_TENANTS_SECRET")));
    TRY(api_keys_create(&p->gateway.keys, &cfg));
    p->poll_keys = event_new(p->base, -1, EV_PERSIST, on_poll_keys, p);
    if (!p->poll_keys || event_add(p->poll_keys, &interval) != 0)
        FAIL(ST_NOMEM, "no memory for an event loop");
    return ST_OK;
}

static enum status start(struct program *p)
{
    const struct http_options http = gateway_http_options(&p->options);
    const struct http_handler handler = {.ctx = p,
                                         .wants_body = on_head,
                                         .request = on_request,
                                         .ended = on_ended,
                                         .drained = on_drained};
    static const char *const usual[] = {"tcp://127.0.0.1:5555"};
    uint8_t tenant[CALLER_TENANT];
    size_t n_endpoints = p->options.connect.n ? p->options.connect.n : 1;
    const char *const *endpoints = p->options.connect.n ? p->options.connect.item : usual;
    if (p->options.die_with_parent)
        TRY(die_with_parent());
    TRY(gateway_check_exposure(&p->options));
    p->base = event_base_new();
    if (!p->base)
        FAIL(ST_NOMEM, "no memory for an event loop");
    p->sigterm = evsignal_new(p->base, SIGTERM, on_signal, p);
    p->sigint = evsignal_new(p->base, SIGINT, on_signal, p);
    p->sighup = evsignal_new(p->base, SIGHUP, on_hangup, p);
    p->drain_limit = evtimer_new(p->base, on_drain_limit, p);
    if (!p->sigterm || !p->sigint || !p->sighup || !p->drain_limit ||
        event_add(p->sigterm, NULL) != 0 || event_add(p->sigint, NULL) != 0 ||
        event_add(p->sighup, NULL) != 0)
        FAIL(ST_NOMEM, "no memory for an event loop");
    TRY(open_keys(p));
    p->gateway.resume_grace_ms = (uint32_t)p->options.resume_grace_ms;
    p->gateway.base = p->base;
    p->gateway.started = (int64_t)time(NULL);
    p->gateway.log_prompts = p->options.log_prompts;
    if (p->options.access_log)
        TRY(access_log_open(&p->gateway.access_log, p->options.access_log));
    TRY(model_names_init(&p->gateway.names, &p->options.served_model_name));
    TRY(http_metrics_init(&p->gateway.metrics, p->options.metrics_prefix,
                          p->options.metrics_need_key));
    TRY(http_server_create(&p->server, p->base, &http, &handler));
    p->gateway.metrics.server = p->server;
    p->gateway.metrics.answers = &p->gateway.answers;
    p->gateway.answers = (struct answer_memory){.server = p->server,
                                                .max_answer = (size_t)p->options.max_answer,
                                                .max_all = (size_t)p->options.max_answer_memory};
    for (size_t i = 0; http_server_address(p->server, i); i++)
        log_line(LOG_INFO, "listening at %s://%s", p->options.tls_cert ? "https" : "http",
                 http_server_address(p->server, i));
    if (p->options.notify_fd >= 0)
        TRY(begin_beats(p));
    TRY(api_keys_own_tenant(p->gateway.keys, tenant));
    const struct upstream_config upstream = {.endpoints = endpoints,
                                             .n_endpoints = n_endpoints,
                                             .secret = &p->tenants_secret,
                                             .tenant = tenant,
                                             .key = p->options.key,
                                             .server_key = p->options.server_key,
                                             .resume_grace_ms = p->gateway.resume_grace_ms,
                                             .needs_tenants =
                                                 api_keys_have_tenants(p->gateway.keys)};
    return upstream_create(&p->gateway.upstream, p->base, &upstream);
}

static void stop(struct program *p)
{
    struct event *events[] = {p->sigterm,     p->sigint,    p->sighup,
                              p->drain_limit, p->poll_keys, p->beat};
    http_server_destroy(p->server); /* ends the answers */
    upstream_destroy(p->gateway.upstream);
    access_log_close(p->gateway.access_log);
    api_keys_destroy(p->gateway.keys);
    model_names_fini(&p->gateway.names);
    http_metrics_fini(&p->gateway.metrics);
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (events[i])
            event_free(events[i]);
    if (p->base) {
        (void)event_base_loop(p->base,
                              EVLOOP_NONBLOCK); /* connections are freed by a turn of the loop */
        event_base_free(p->base);
    }
}

int main(int argc, char **argv)
{
    static struct program p;
    const char *key = getenv("INGOT_API_KEY");
    int rc = gateway_options_parse(&p.options, argc, argv);
    if (rc >= 0)
        return rc;
    log_init("gateway", (enum log_level)p.options.log_level);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is a full disk to the access log, not an end */
    if (key && *key && p.options.api_key.n < MAX_OPTION_LIST)
        p.options.api_key.item[p.options.api_key.n++] = key;
    enum status st = start(&p);
    if (st == ST_OK)
        event_base_dispatch(p.base);
    else
        log_failure(LOG_ERROR, st, "cannot start");
    stop(&p);
    return st == ST_OK ? 0 : st == ST_BUSY ? 3 : st == ST_RANGE ? 2 : 1;
}
