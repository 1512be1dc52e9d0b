#include "client/gateway/http_conn.h"

#include <event2/bufferevent_ssl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/clock.h"

/* ---- phases ---- */

static void arm(struct http_conn *c, uint32_t ms)
{
    const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_add(&c->timer, &tv);
}

static void enter(struct http_conn *c, enum http_phase phase)
{
    const struct http_options *o = &c->server->options;
    c->phase = phase;
    switch (phase) {
    case PHASE_HANDSHAKE:
    case PHASE_HEAD:
        arm(c, o->head_ms);
        break;
    case PHASE_IDLE:
        arm(c, c->too_many ? o->head_ms : o->idle_ms);
        break;
    case PHASE_BODY:
        c->body_began_us = clock_us();
        c->body_bytes = 0;
        arm(c, o->body_ms);
        break;
    case PHASE_ANSWER: /* takes as long as it takes; stall_ms watches over the output */
    case PHASE_FLUSH:
        event_del(&c->timer);
        break;
    case PHASE_LINGER:
        arm(c, o->linger_ms);
        break;
    }
}

static size_t output_length(const struct http_conn *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->bev));
}

static void drop_input(struct http_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    evbuffer_drain(in, evbuffer_get_length(in));
}

/* ---- the end ---- */

static void count_body(struct http_conn *c)
{
    c->server->body_memory += c->parser.body.cap;
    c->server->body_memory -= c->body_counted;
    c->body_counted = c->parser.body.cap;
}

void http_conn_lose(struct http_conn *c)
{
    struct http_server *s = c->server;
    struct http_reply *r = c->reply;
    event_del(&c->timer);
    event_del(&c->closed);
    http_parser_fini(&c->parser);
    count_body(c);
    evbuffer_remove_cb_entry(bufferevent_get_output(c->bev), c->on_output);
    s->counts.output -= output_length(c);
    bufferevent_setcb(c->bev, NULL, NULL, NULL, NULL);
    bufferevent_free(c->bev);
    if (c->next)
        c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else
        s->first = c->next;
    s->counts.connections--;
    s->counts.pending -= r != NULL;
    free(c);
    if (r)
        http_reply_lost(r);
    http_server_conn_ended(s);
}

/* All has been written: says so to the peer, and reads what it still sends, because closing with unread input
 * would reset the connection and could take the answer with it. */
static void linger(struct http_conn *c)
{
    SSL *ssl = bufferevent_openssl_get_ssl(c->bev);
    if (c->peer_done) {
        http_conn_lose(c);
        return;
    }
    if (ssl && SSL_is_init_finished(ssl))
        SSL_shutdown(ssl);
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    enter(c, PHASE_LINGER);
}

void http_conn_finish(struct http_conn *c)
{
    enter(c, PHASE_FLUSH);
    http_parser_next(&c->parser);
    count_body(c);
    drop_input(c);
    if (output_length(c) == 0)
        linger(c);
}

void http_conn_break(struct http_conn *c)
{
    c->broken = true;
    bufferevent_trigger_event(c->bev, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
}

bool http_conn_is_idle(const struct http_conn *c)
{
    return (c->phase == PHASE_IDLE || c->phase == PHASE_HANDSHAKE) &&
           http_parser_is_idle(&c->parser) &&
           evbuffer_get_length(bufferevent_get_input(c->bev)) == 0;
}

/* ---- requests ---- */

/* Answers without the handler, and ends the connection: where the next request begins is not known. */
static void refuse(struct http_conn *c, int status, const char *error)
{
    c->reply = http_reply_create(c, NULL);
    if (!c->reply) {
        http_conn_lose(c);
        return;
    }
    c->server->counts.pending++;
    if (status == 503)
        http_reply_header(c->reply, "Retry-After", "1");
    http_reply_error(c->reply, status, error);
}

/* The head is there: may this request go on?  false: it has been answered. */
static bool check_head(struct http_conn *c)
{
    struct http_server *s = c->server;
    const struct http_request *q = &c->parser.request;
    const char *origin = http_request_header(q, "origin");
    const char *coding = http_request_header(q, "content-encoding");
    if (c->too_many) {
        refuse(c, 503, "too many connections");
        return false;
    }
    if (!http_host_is_allowed(q->host, &s->options.hosts, &c->local, c->bound_to_all)) {
        refuse(
            c, 403,
            "the Host header has a name that is not this server's (ingot-gateway --host adds one)");
        return false;
    }
    if (origin && !http_origin_is_allowed(origin, &s->options.origins, q->host)) {
        refuse(c, 403, "pages of this origin may not use this server");
        return false;
    }
    if (coding && strcasecmp(coding, "identity") != 0) {
        refuse(c, 415, "Content-Encoding: compressed bodies are not supported");
        return false;
    }
    return true;
}

static void say_continue(struct http_conn *c)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (c->parser.expects_continue && evbuffer_get_length(bufferevent_get_input(c->bev)) == 0)
        bufferevent_write(c->bev, go_on, sizeof go_on - 1);
}

/* OPTIONS is answered for all paths alike: whether the page may ask has been checked. */
static void answer_options(const struct http_request *q, struct http_reply *r)
{
    static const char methods[] = "GET, HEAD, POST, OPTIONS";
    const char *wanted = http_request_header(q, "access-control-request-headers");
    http_reply_header(r, "Allow", methods);
    if (http_request_header(q, "access-control-request-method")) {
        http_reply_header(r, "Access-Control-Allow-Methods", methods);
        if (wanted)
            http_reply_header(r, "Access-Control-Allow-Headers", wanted);
        http_reply_header(r, "Access-Control-Max-Age", "600");
    }
    http_reply_send(r, 200, NULL, "", 0);
}

/* What the end of an answer means for its connection. */
static void after_answer(struct http_conn *c)
{
    if (c->broken)
        return;
    if (!c->keep_alive || c->server->draining) {
        http_conn_finish(c);
        return;
    }
    enter(c, PHASE_IDLE);
    if (c->peer_done || evbuffer_get_length(bufferevent_get_input(c->bev)) > 0)
        bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

void http_conn_answered(struct http_conn *c, bool keep_alive)
{
    c->reply = NULL;
    c->server->counts.pending--;
    event_del(&c->closed);
    c->keep_alive = keep_alive;
    if (!c->in_handler)
        after_answer(c);
}

/* last: the rest of the request is not read. */
static void give_to_handler(struct http_conn *c, bool last)
{
    struct http_server *s = c->server;
    enter(c, PHASE_ANSWER);
    c->reply = http_reply_create(c, &c->parser.request);
    if (!c->reply) {
        http_conn_lose(c);
        return;
    }
    c->reply->keep_alive = c->reply->keep_alive && !last;
    s->counts.pending++;
    s->counts.served++;
    c->in_handler = true;
    if (c->parser.request.method == HTTP_OPTIONS)
        answer_options(&c->parser.request, c->reply);
    else
        s->handler.request(s->handler.ctx, &c->parser.request, c->reply);
    c->in_handler = false;
    http_parser_next(&c->parser);
    count_body(c);
    if (!c->reply)
        after_answer(c);
    else if (s->early_close)
        event_add(&c->closed, NULL);
}

/* Gives what has come to the parser, up to the end of one request.  c may have ended then. */
static void advance(struct http_conn *c)
{
    struct http_server *s = c->server;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    for (;;) {
        struct evbuffer_iovec piece = {0};
        size_t used;
        evbuffer_peek(in, -1, NULL, &piece, 1);
        enum http_event ev = http_parser_feed(&c->parser, piece.iov_base, piece.iov_len, &used);
        evbuffer_drain(in, used);
        count_body(c);
        if (ev == HTTP_EV_BAD) {
            refuse(c, c->parser.status, c->parser.error);
            return;
        }
        if (s->body_memory > s->options.max_body_memory && c->body_counted > 0) {
            refuse(c, 503, "too many large requests at once");
            return;
        }
        if (ev == HTTP_EV_DONE) {
            give_to_handler(c, false);
            return;
        }
        if (ev == HTTP_EV_HEAD) {
            if (!check_head(c))
                return;
            if (!http_parser_wants_body(&c->parser))
                continue;
            if (s->handler.wants_body &&
                !s->handler.wants_body(s->handler.ctx, &c->parser.request)) {
                give_to_handler(c, true);
                return;
            }
            say_continue(c);
            enter(c, PHASE_BODY);
            continue;
        }
        if (c->phase == PHASE_IDLE && !http_parser_is_idle(&c->parser))
            enter(c, PHASE_HEAD);
        if (c->phase == PHASE_BODY)
            c->body_bytes += used;
        if (used == 0)
            break;
    }
    if (c->peer_done)
        http_conn_finish(c);
}

/* ---- events ---- */

static void on_read(struct bufferevent *bev, void *ctx)
{
    struct http_conn *c = ctx;
    (void)bev;
    if (c->phase >= PHASE_FLUSH) {
        drop_input(c);
        return;
    }
    /* what waits during an answer is bounded by MAX_READ_AHEAD; its end comes back here */
    if (c->phase != PHASE_ANSWER && output_length(c) <= c->server->options.max_output)
        advance(c);
}

static void on_write(struct bufferevent *bev, void *ctx)
{
    struct http_conn *c = ctx;
    if (c->phase == PHASE_FLUSH && output_length(c) == 0)
        linger(c);
    else if (c->reply)
        http_reply_drained(c->reply);
    else if (c->phase < PHASE_FLUSH)
        on_read(bev, ctx);
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct http_conn *c = ctx;
    if (what & BEV_EVENT_CONNECTED) {
        enter(c, PHASE_IDLE);
        return;
    }
    /* callbacks are deferred: the end of the input and a failed write may come as one event */
    if ((what & (BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) || c->phase == PHASE_ANSWER ||
        c->phase == PHASE_LINGER || c->phase == PHASE_HANDSHAKE) {
        http_conn_lose(c);
        return;
    }
    c->peer_done = true; /* it may still read the answers of what it has sent */
    if (c->phase == PHASE_FLUSH)
        return;
    on_read(bev, ctx);
}

static void on_closed(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd, (void)what;
    http_conn_lose(ctx);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct http_conn *c = ctx;
    (void)fd, (void)what;
    if (c->phase == PHASE_BODY) {
        uint64_t allowed_ms = c->server->options.body_ms + (uint64_t)c->body_bytes * 1000 / 1024;
        uint64_t taken_ms = (clock_us() - c->body_began_us) / 1000;
        if (taken_ms < allowed_ms) {
            uint64_t left_ms = allowed_ms - taken_ms;
            arm(c, left_ms < 60000 ? (uint32_t)left_ms : 60000);
            return;
        }
    }
    if (c->phase == PHASE_HEAD || c->phase == PHASE_BODY)
        refuse(c, 408, "the request took too long to arrive");
    else if (c->phase == PHASE_IDLE && output_length(c) > 0)
        enter(c, PHASE_IDLE); /* stall_ms decides about it */
    else if (c->phase == PHASE_IDLE)
        http_conn_finish(c);
    else
        http_conn_lose(c);
}

/* ---- the beginning ---- */

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *ctx)
{
    struct http_server *s = ctx;
    (void)output;
    s->counts.output += info->n_added;
    s->counts.output -= info->n_deleted;
}

static struct bufferevent *open_bev(struct http_server *s, evutil_socket_t fd)
{
    const int flags = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    if (!s->tls)
        return bufferevent_socket_new(s->base, fd, flags);
    SSL *ssl = SSL_new(s->tls);
    if (!ssl)
        return NULL;
    struct bufferevent *bev =
        bufferevent_openssl_socket_new(s->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, flags);
    if (!bev)
        SSL_free(ssl);
    else
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

static void set_addresses(struct http_conn *c, evutil_socket_t fd, const struct sockaddr *peer)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof local;
    char host[MAX_PEER - 16], port[8];
    socklen_t peer_len =
        peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0)
        (void)http_address_of((struct sockaddr *)&local, &c->local);
    (void)http_address_of(peer, &c->remote);
    if (getnameinfo(peer, peer_len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(c->peer, sizeof c->peer, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

void http_conn_accept(struct http_listener *l, evutil_socket_t fd, const struct sockaddr *peer,
                      bool too_many)
{
    struct http_server *s = l->server;
    const struct http_options *o = &s->options;
    const struct timeval stall = {.tv_sec = o->stall_ms / 1000,
                                  .tv_usec = o->stall_ms % 1000 * 1000};
    const int on = 1;
    struct http_conn *c = calloc(1, sizeof *c);
    struct bufferevent *bev = c ? open_bev(s, fd) : NULL;
    if (bev)
        c->on_output = evbuffer_add_cb(bufferevent_get_output(bev), on_output, s);
    if (!bev || !c->on_output) {
        if (bev)
            bufferevent_free(bev);
        else
            evutil_closesocket(fd);
        free(c);
        return;
    }
    c->server = s;
    c->bev = bev;
    c->too_many = too_many;
    c->bound_to_all = l->bound_to_all;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    set_addresses(c, fd, peer);
    http_parser_init(&c->parser, &s->options.limits);
    evtimer_assign(&c->timer, s->base, on_timer, c);
    event_assign(&c->closed, s->base, fd, EV_CLOSED | EV_PERSIST, on_closed, c);
    c->next = s->first;
    if (s->first)
        s->first->prev = c;
    s->first = c;
    s->counts.connections++;
    enter(c, s->tls ? PHASE_HANDSHAKE : PHASE_IDLE);
    bufferevent_setcb(bev, on_read, on_write, on_event, c);
    bufferevent_setwatermark(bev, EV_READ, 0, MAX_READ_AHEAD);
    bufferevent_setwatermark(bev, EV_WRITE, o->max_output / 4, 0);
    bufferevent_set_timeouts(bev, NULL, &stall);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
}
