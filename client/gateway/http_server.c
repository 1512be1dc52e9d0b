#include "client/gateway/http_server.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "client/gateway/http_conn.h"
#include "client/gateway/http_tls.h"
#include "common/log.h"

enum {
    BACKLOG = 1024,
    SPARE_FILES = 64,      /* descriptors for all but connections */
    ACCEPT_PAUSE_MS = 100, /* after accept has failed for want of descriptors */
};

struct http_options http_options_default(void)
{
    return (struct http_options){
        .limits = {.max_line = 8 << 10,
                   .max_headers = 100,
                   .max_head = 64 << 10,
                   .max_body = 32 << 20},
        .max_connections = 16384,
        .max_body_memory = 512 << 20,
        .max_output = 256 << 10,
        .max_output_memory = 512 << 20,
        .idle_ms = 120000,
        .head_ms = 10000,
        .body_ms = 30000,
        .stall_ms = 30000,
        .linger_ms = 2000,
        .comment_ms = 15000,
    };
}

/* ---- accepting ---- */

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *peer,
                      int len, void *ctx)
{
    struct http_listener *l = ctx;
    struct http_server *s = l->server;
    (void)listener, (void)len;
    bool too_many = s->counts.connections >= s->options.max_connections;
    s->counts.refused += too_many;
    if (s->counts.connections >= s->options.max_connections + MAX_EXTRA) {
        evutil_closesocket(fd);
        return;
    }
    s->counts.accepted++;
    http_conn_accept(l, fd, peer, too_many);
}

static void set_listening(struct http_server *s, bool on)
{
    for (size_t i = 0; i < s->n_listeners; i++)
        (void)(on ? evconnlistener_enable : evconnlistener_disable)(s->listener[i].listener);
}

/* No descriptor is left, most likely: the queue of the kernel keeps the clients meanwhile. */
static void on_accept_failed(struct evconnlistener *listener, void *ctx)
{
    struct http_listener *l = ctx;
    const struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
    (void)listener;
    log_line(LOG_WARN, "%s: accept: %s", l->address,
             evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
    set_listening(l->server, false);
    event_add(l->server->accept_again, &pause);
}

static void on_accept_again(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd, (void)what;
    set_listening(ctx, true);
}

/* ---- listening ---- */

static bool is_wildcard(const struct sockaddr *sa)
{
    struct in6_addr a;
    static const unsigned char zero[16];
    return http_address_of(sa, &a) &&
           (memcmp(&a, zero, 16) == 0 ||
            (IN6_IS_ADDR_V4MAPPED(&a) && memcmp(&a.s6_addr[12], zero, 4) == 0));
}

static enum status listen_at(struct http_server *s, const char *text, const struct addrinfo *ai)
{
    if (s->n_listeners == MAX_LISTENERS)
        FAIL(ST_RANGE, "more than %d addresses to listen at", MAX_LISTENERS);
    struct http_listener *l = &s->listener[s->n_listeners];
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char host[MAX_PEER - 16], port[8];
    *l = (struct http_listener){.server = s, .bound_to_all = is_wildcard(ai->ai_addr)};
    l->listener = evconnlistener_new_bind(
        s->base, on_accept, l, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
        BACKLOG, ai->ai_addr, (int)ai->ai_addrlen);
    if (!l->listener)
        FAIL(errno == EADDRINUSE ? ST_BUSY : ST_IO, "%s: %s", text,
             evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
    evconnlistener_set_error_cb(l->listener, on_accept_failed);
    s->n_listeners++;
    if (getsockname(evconnlistener_get_fd(l->listener), (struct sockaddr *)&at, &len) != 0 ||
        getnameinfo((struct sockaddr *)&at, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        FAIL(ST_IO, "%s: the bound address is unknown", text);
    snprintf(l->address, sizeof l->address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return ST_OK;
}

/* text: "ADDR:PORT", "[ADDR]:PORT", "NAME:PORT" */
static enum status listen_text(struct http_server *s, const char *text)
{
    char host[256];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (n == 0 || n >= sizeof host || !colon[1] || strlen(colon + 1) > 5 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535 ||
        (text[0] == '[') != (text[n - 1] == ']') || (text[0] != '[' && memchr(text, ':', n)))
        FAIL(ST_RANGE, "'%s' is not ADDRESS:PORT (write 127.0.0.1:8080 or [::1]:8080)", text);
    bool brackets = text[0] == '[';
    memcpy(host, text + brackets, n - 2 * brackets);
    host[n - 2 * brackets] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *all;
    int error = getaddrinfo(host, colon + 1, &hints, &all);
    if (error)
        FAIL(ST_IO, "%s: %s", text, gai_strerror(error));
    enum status st = ST_OK;
    for (struct addrinfo *ai = all; ai && st == ST_OK; ai = ai->ai_next) {
        st = listen_at(s, text, ai);
        if (st == ST_IO && errno == EADDRNOTAVAIL && (ai != all || ai->ai_next))
            st =
                ST_OK; /* a name with an address of a protocol that this machine has switched off */
    }
    freeaddrinfo(all);
    return st;
}

/* ---- limits ---- */

/* Raises the limit of open files as far as it goes. */
static void raise_files(struct http_server *s)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        (void)getrlimit(RLIMIT_NOFILE, &files);
    }
    size_t spare = SPARE_FILES + MAX_EXTRA;
    size_t most = files.rlim_cur > spare + 1 ? (size_t)files.rlim_cur - spare : 1;
    if (most >= s->options.max_connections)
        return;
    log_line(LOG_WARN, "%zu connections instead of %zu: the limit of open files (ulimit -n) is %zu",
             most, s->options.max_connections, (size_t)files.rlim_cur);
    s->options.max_connections = most;
}

/* ---- life ---- */

static void on_drained(evutil_socket_t fd, short what, void *ctx)
{
    struct http_server *s = ctx;
    (void)fd, (void)what;
    if (s->handler.drained)
        s->handler.drained(s->handler.ctx);
}

static enum status start(struct http_server *s)
{
    const struct http_options *o = &s->options;
    s->accept_again = evtimer_new(s->base, on_accept_again, s);
    s->drained = evtimer_new(s->base, on_drained, s);
    if (!s->accept_again || !s->drained)
        FAIL(ST_NOMEM, "no memory for an HTTP server");
    if (!o->tls_cert != !o->tls_key)
        FAIL(ST_RANGE, "TLS needs a certificate and a key");
    if (o->tls_cert)
        TRY(http_tls_create(&s->tls, o->tls_cert, o->tls_key));
    signal(SIGPIPE, SIG_IGN); /* writing to a client that has gone is an error, not the end */
    raise_files(s);
    for (size_t i = 0; i < o->listen.n; i++)
        TRY(listen_text(s, o->listen.name[i]));
    if (s->n_listeners == 0)
        FAIL(ST_RANGE, "no address to listen at");
    return ST_OK;
}

enum status http_server_create(struct http_server **out, struct event_base *base,
                               const struct http_options *options,
                               const struct http_handler *handler)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory for an HTTP server");
    s->base = base;
    s->options = *options;
    s->handler = *handler;
    s->early_close = event_base_get_features(base) & EV_FEATURE_EARLY_CLOSE;
    enum status st = start(s);
    if (st != ST_OK)
        http_server_destroy(s);
    else
        *out = s;
    return st;
}

static void stop_listening(struct http_server *s)
{
    for (size_t i = 0; i < s->n_listeners; i++)
        evconnlistener_free(s->listener[i].listener);
    s->n_listeners = 0;
    event_del(s->accept_again);
}

void http_server_destroy(struct http_server *s)
{
    if (!s)
        return;
    if (s->accept_again)
        stop_listening(s);
    s->draining = false; /* no notification for these */
    while (s->first)
        http_conn_lose(s->first);
    if (s->accept_again)
        event_free(s->accept_again);
    if (s->drained)
        event_free(s->drained);
    SSL_CTX_free(s->tls);
    text_buf_free(&s->scratch);
    free(s);
}

void http_server_conn_ended(struct http_server *s)
{
    static const struct timeval now;
    if (s->draining && !s->first)
        event_add(s->drained, &now);
}

void http_server_drain(struct http_server *s)
{
    if (s->draining)
        return;
    s->draining = true;
    stop_listening(s);
    for (struct http_conn *c = s->first, *next; c; c = next) {
        next = c->next;
        if (http_conn_is_idle(c))
            http_conn_finish(c);
    }
    http_server_conn_ended(s);
}

static size_t waiting_of(const struct http_conn *c)
{
    return c->broken ? 0 : evbuffer_get_length(bufferevent_get_output(c->bev));
}

void http_server_limit_output(struct http_server *s)
{
    size_t most = s->options.max_output_memory, total = 0;
    if (s->counts.output <= most)
        return;
    for (const struct http_conn *c = s->first; c; c = c->next)
        total += waiting_of(c);
    while (total > most) {
        struct http_conn *largest = s->first;
        for (struct http_conn *c = s->first; c; c = c->next)
            if (waiting_of(c) > waiting_of(largest))
                largest = c;
        log_line(LOG_WARN, "%s is cut off: of the %zu bytes that wait for clients %zu are its own",
                 largest->peer, total, waiting_of(largest));
        total -= waiting_of(largest);
        http_conn_break(largest);
    }
}

const char *http_server_address(const struct http_server *s, size_t i)
{
    return i < s->n_listeners ? s->listener[i].address : NULL;
}

struct http_counts http_server_counts(const struct http_server *s)
{
    return s->counts;
}
