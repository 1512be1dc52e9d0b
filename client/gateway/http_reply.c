/* Answers: heads, bodies, chunks and event streams, as bytes for a connection. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/gateway/http_conn.h"
#include "client/gateway/http_error.h"
#include "common/clock.h"
#include "common/json/json_write.h"

enum { LARGE_BODY = 64 << 10 }; /* bytes; a smaller one is copied behind its head: one packet */

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {529, "Overloaded"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].text;
    return "Unknown";
}

/* ---- output ---- */

/* One piece of output is put together in the server's scratch and written at once: with TLS each write is a
 * record. */
static struct text_buf *begin_piece(struct http_reply *r)
{
    r->server->scratch.len = 0;
    return &r->server->scratch;
}

/* What the socket takes at once needs no turn of the loop: without TLS and when nothing waits. */
static size_t send_now(const struct http_conn *c, const struct text_buf *piece)
{
    if (c->server->tls || evbuffer_get_length(bufferevent_get_output(c->bev)) > 0)
        return 0;
    ssize_t n = send(bufferevent_getfd(c->bev), piece->data, piece->len, MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0; /* the loop meets the same error and reports it */
}

static void send_piece(struct http_reply *r, enum status st)
{
    const struct text_buf *piece = &r->server->scratch;
    size_t n = st == ST_OK ? send_now(r->conn, piece) : 0;
    if (st != ST_OK ||
        (n < piece->len && bufferevent_write(r->conn->bev, piece->data + n, piece->len - n) != 0))
        http_conn_break(r->conn); /* out of memory */
    r->bytes += piece->len;
    r->last_us = clock_us();
    http_server_limit_output(r->server);
}

static void free_body(const void *data, size_t n, void *body)
{
    (void)data, (void)n;
    free(body);
}

/* Gives the bytes to the connection as they are. */
static void send_body(struct http_reply *r, struct text_buf *body)
{
    size_t n = send_now(r->conn, body);
    r->bytes += body->len;
    if (n < body->len) {
        if (evbuffer_add_reference(bufferevent_get_output(r->conn->bev), body->data + n,
                                   body->len - n, free_body, body->data) == 0)
            *body = (struct text_buf){0};
        else
            http_conn_break(r->conn); /* out of memory */
    }
    http_server_limit_output(r->server);
}

static enum status add(struct text_buf *b, const char *text)
{
    return text_buf_append(b, text, strlen(text));
}

static enum status add_line(struct text_buf *b, const char *name, const char *value)
{
    TRY(add(b, name));
    TRY(add(b, ": "));
    size_t at = b->len;
    TRY(add(b, value));
    for (; at < b->len; at++)
        if ((unsigned char)b->data[at] < 0x20 || b->data[at] == 0x7f)
            b->data[at] = '?';
    return add(b, "\r\n");
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", made once a second. */
static const char *date_of(struct http_server *s)
{
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm tm;
    if (now != s->date_at && gmtime_r(&now, &tm)) {
        s->date_at = now;
        snprintf(s->date, sizeof s->date, "%.3s, %02d %.3s %d %02d:%02d:%02d GMT",
                 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon, 1900 + tm.tm_year,
                 tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
    return s->date;
}

/* n_body NULL: its length is not known yet. */
static enum status add_head(struct http_reply *r, struct text_buf *b, int status, const char *type,
                            const size_t *n_body)
{
    char text[80];
    r->keep_alive = r->keep_alive && !r->server->draining;
    r->status = status;
    snprintf(text, sizeof text, "HTTP/1.1 %d %s\r\n", status, http_status_text(status));
    TRY(add(b, text));
    TRY(add_line(b, "Date", date_of(r->server)));
    if (type)
        TRY(add_line(b, "Content-Type", type));
    if (n_body) {
        snprintf(text, sizeof text, "Content-Length: %zu\r\n", *n_body);
        TRY(add(b, text));
    } else if (!r->http10) {
        r->chunked = true;
        TRY(add_line(b, "Transfer-Encoding", "chunked"));
    } else {
        r->keep_alive = false; /* the end of the connection is the end of the answer */
    }
    if (!r->keep_alive)
        TRY(add_line(b, "Connection", "close"));
    else if (r->http10)
        TRY(add_line(b, "Connection", "keep-alive"));
    if (r->headers.len)
        TRY(text_buf_append(b, r->headers.data, r->headers.len));
    return add(b, "\r\n");
}

/* ---- life ---- */

static void on_comment(evutil_socket_t fd, short what, void *ctx);

/* Lets the page that asked read the answer; the origin has been checked. */
static void allow_origin(struct http_reply *r, const struct http_request *q)
{
    const char *origin = http_request_header(q, "origin");
    http_reply_header(r, "Vary", "Origin");
    if (!origin)
        return;
    http_reply_header(r, "Access-Control-Allow-Origin", origin);
    http_reply_header(r, "Access-Control-Expose-Headers",
                      "X-Request-Id, Traceparent, Retry-After, Retry-After-Ms");
}

struct http_reply *http_reply_create(struct http_conn *c, const struct http_request *q)
{
    struct http_reply *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->conn = c;
    r->server = c->server;
    r->write_error = http_error_write;
    r->head_only = c->parser.request.method == HTTP_HEAD;
    r->http10 = q && q->minor == 0;
    r->keep_alive = q && q->keep_alive;
    r->loopback = http_is_loopback(&c->remote);
    memcpy(r->peer, c->peer, sizeof r->peer);
    evtimer_assign(&r->comment, c->server->base, on_comment, r);
    if (q)
        allow_origin(r, q);
    return r;
}

static void release(struct http_reply *r)
{
    event_del(&r->comment);
    text_buf_free(&r->headers);
    free(r);
}

/* Its last byte has been written. */
static void finish(struct http_reply *r)
{
    struct http_conn *c = r->conn;
    bool keep_alive = r->keep_alive;
    const struct http_handler *h = &r->server->handler;
    if (h->ended)
        h->ended(h->ctx, &(struct http_outcome){.user = r->user,
                                                .peer = r->peer,
                                                .status = r->status,
                                                .bytes = r->bytes,
                                                .whole = http_reply_is_open(r) && !r->aborted});
    release(r);
    if (c)
        http_conn_answered(c, keep_alive);
}

void http_reply_lost(struct http_reply *r)
{
    r->conn = NULL;
    event_del(&r->comment);
    if (r->watch.gone)
        r->watch.gone(r->watch.ctx);
}

void http_reply_drained(struct http_reply *r)
{
    size_t waiting = evbuffer_get_length(bufferevent_get_output(r->conn->bev));
    if (!r->paused || waiting > r->server->options.max_output / 4)
        return;
    r->paused = false;
    if (r->watch.writable)
        r->watch.writable(r->watch.ctx);
}

/* ---- what handlers call ---- */

void http_reply_watch(struct http_reply *r, const struct http_watch *watch)
{
    r->watch = *watch;
}

bool http_reply_is_open(const struct http_reply *r)
{
    return r->conn && !r->conn->broken;
}

const char *http_reply_peer(const struct http_reply *r)
{
    return r->peer;
}

bool http_reply_is_loopback(const struct http_reply *r)
{
    return r->loopback;
}

void http_reply_set_user(struct http_reply *r, void *user)
{
    r->user = user;
}

void *http_reply_user(const struct http_reply *r)
{
    return r->user;
}

void http_reply_header(struct http_reply *r, const char *name, const char *value)
{
    if (add_line(&r->headers, name, value) != ST_OK && r->conn)
        http_conn_break(r->conn);
}

void http_reply_send(struct http_reply *r, int status, const char *type, const void *body, size_t n)
{
    if (r->conn) {
        struct text_buf *b = begin_piece(r);
        enum status st = add_head(r, b, status, type, status == 204 || status == 304 ? NULL : &n);
        if (st == ST_OK && !r->head_only)
            st = text_buf_append(b, body, n);
        send_piece(r, st);
    }
    finish(r);
}

void http_reply_give(struct http_reply *r, int status, const char *type, struct text_buf *body)
{
    if (body->len < LARGE_BODY) {
        http_reply_send(r, status, type, body->data, body->len);
        text_buf_free(body);
        return;
    }
    if (r->conn) {
        struct text_buf *b = begin_piece(r);
        send_piece(r, add_head(r, b, status, type, &body->len));
        if (!r->head_only && http_reply_is_open(r))
            send_body(r, body);
    }
    text_buf_free(body);
    finish(r);
}

void http_reply_error_writer(struct http_reply *r, http_error_writer *writer)
{
    r->write_error = writer;
}

void http_reply_error_at(struct http_reply *r, int status, const char *message, const char *param)
{
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    r->write_error(&w, status, message, param);
    http_reply_send(r, status, "application/json", body.data, w.status == ST_OK ? body.len : 0);
    text_buf_free(&body);
}

void http_reply_error(struct http_reply *r, int status, const char *message)
{
    http_reply_error_at(r, status, message, NULL);
}

void http_reply_json(struct http_reply *r, struct json_writer *w)
{
    if (w->status == ST_OK)
        http_reply_give(r, 200, "application/json", w->out);
    else
        http_reply_error(r, 503, status_text());
    text_buf_free(w->out);
}

void http_reply_begin(struct http_reply *r, int status, const char *type)
{
    if (r->conn)
        send_piece(r, add_head(r, begin_piece(r), status, type, NULL));
}

bool http_reply_chunk(struct http_reply *r, const void *data, size_t n)
{
    if (!http_reply_is_open(r))
        return false;
    if (n && !r->head_only) {
        struct text_buf *b = begin_piece(r);
        char size[24];
        int len = snprintf(size, sizeof size, "%zx\r\n", n);
        enum status st = ST_OK;
        if (r->chunked)
            st = text_buf_append(b, size, (size_t)len);
        if (st == ST_OK)
            st = text_buf_append(b, data, n);
        if (st == ST_OK && r->chunked)
            st = add(b, "\r\n");
        send_piece(r, st);
    }
    r->paused =
        evbuffer_get_length(bufferevent_get_output(r->conn->bev)) > r->server->options.max_output;
    return !r->paused;
}

void http_reply_end(struct http_reply *r)
{
    if (r->conn && r->chunked && !r->head_only) {
        struct text_buf *b = begin_piece(r);
        send_piece(r, add(b, "0\r\n\r\n"));
    }
    finish(r);
}

void http_reply_abort(struct http_reply *r)
{
    const struct linger reset = {.l_onoff = 1};
    struct http_conn *c = r->conn;
    r->aborted = true;
    if (c) {
        (void)setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        http_conn_break(c);
    }
    finish(r);
}

/* ---- event streams ---- */

static void comment_after(struct http_reply *r, uint64_t ms)
{
    const struct timeval tv = {.tv_sec = (time_t)(ms / 1000),
                               .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    event_add(&r->comment, &tv);
}

void http_reply_begin_events(struct http_reply *r)
{
    http_reply_header(r, "Cache-Control", "no-cache");
    http_reply_header(r, "X-Accel-Buffering", "no"); /* nginx passes each event on */
    http_reply_begin(r, 200, "text/event-stream");
    if (r->conn && r->server->options.comment_ms)
        comment_after(r, r->server->options.comment_ms);
}

/* Events do not touch the timer: it looks at how long the silence has been when it fires. */
static void on_comment(evutil_socket_t fd, short what, void *ctx)
{
    static const char comment[] = ": keep-alive\n\n";
    struct http_reply *r = ctx;
    uint64_t interval = r->server->options.comment_ms, silent = (clock_us() - r->last_us) / 1000;
    (void)fd, (void)what;
    if (silent < interval) {
        comment_after(r, interval - silent);
        return;
    }
    if (evbuffer_get_length(bufferevent_get_output(r->conn->bev)) == 0)
        (void)http_reply_chunk(r, comment, sizeof comment - 1);
    comment_after(r, interval);
}
