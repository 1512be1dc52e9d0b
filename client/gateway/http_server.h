/* An HTTP/1.1 server on a libevent loop: listeners, TLS, time limits, keep-alive, pipelining, CORS.  It calls
 * the handler with each whole request; the handler answers at once or later, at once or in pieces.
 *
 *     static void on_request(void *ctx, const struct http_request *q, struct http_reply *r)
 *     {
 *         if (strcmp(q->path, "/health") == 0)
 *             http_reply_send(r, 200, "text/plain", "", 0);      // the whole answer
 *         else
 *             start_stream(ctx, q, r);     // copies what it needs of q, calls http_reply_watch(r, ...),
 *     }                                    // later http_reply_begin_events, _chunk ..., _end
 *
 * A request is valid during the handler's call only.  A reply is the handler's until http_reply_send, _error,
 * _end or _abort has been called, exactly one of them, also when the client has gone; from then on it must
 * not be used.  No function here calls back before it returns, except that those four call `ended`: gone and
 * writable come from the loop.
 *
 * One request of a connection is answered at a time; the next one is parsed only when the answer has ended.
 * A client that closes its connection, or its sending half, while it waits has gone.  One thread. */
#ifndef CLIENT_GATEWAY_HTTP_SERVER_H
#define CLIENT_GATEWAY_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/gateway/http_origin.h"
#include "client/gateway/http_parser.h"
#include "common/status.h"
#include "common/text/text_buf.h"

struct event_base;
struct http_server;
struct http_reply;
struct json_writer;

struct http_options {
    struct http_names listen; /* "127.0.0.1:8080", "[::1]:8080", "localhost:8080"; port 0: any */
    const char *tls_cert, *tls_key; /* PEM files; both or none */
    struct http_names origins;      /* may ask besides loopback (CORS); "*" all */
    struct http_names hosts;        /* names of this server in Host, besides localhost; "*" all */
    struct http_limits limits;
    size_t max_connections; /* further ones are answered with 503 */
    size_t max_body_memory; /* bytes of bodies that are being received, all together; beyond: 503 */
    size_t max_output; /* bytes that wait for one client before its producer is told to pause */
    size_t
        max_output_memory; /* bytes that wait for all clients together; beyond: the connections for
                               * which most waits are cut */
    uint32_t idle_ms;      /* a connection without a request */
    uint32_t head_ms;   /* from the first byte of a request to the end of its head; TLS handshake */
    uint32_t body_ms;   /* for a body, and one second more for each KiB that comes */
    uint32_t stall_ms;  /* an answer of which the client takes nothing */
    uint32_t linger_ms; /* how long a closed connection is read so that its answer arrives */
    uint32_t comment_ms; /* silence in an event stream before ": keep-alive" */
};

/* Limits for a server on the open network; listen is empty. */
struct http_options http_options_default(void);

struct http_outcome { /* of an answer that has ended */
    void *user;       /* of http_reply_set_user */
    const char *peer; /* "192.0.2.1:5000" */
    int status;       /* 0: the client had gone before the answer began */
    uint64_t bytes;   /* of the answer, its head included, given to the connection */
    bool whole;       /* false: the client had gone, or the answer was cut */
};

struct http_handler {
    void *ctx;
    /* The head of a request with a body is there.  false: the body is not read, `request` gets the request at once
     * without it, and the connection ends after the answer.  NULL: all bodies are read. */
    bool (*wants_body)(void *ctx, const struct http_request *head);
    void (*request)(void *ctx, const struct http_request *request, struct http_reply *reply);
    /* An answer has ended, also one that the server gave itself.  It must not touch the server.  May be NULL. */
    void (*ended)(void *ctx, const struct http_outcome *outcome);
    /* After http_server_drain, when the last connection has ended.  May be NULL. */
    void (*drained)(void *ctx);
};

/* Binds, and serves as soon as the base runs.  Strings of options are borrowed for the server's life.
 * For the whole process it raises RLIMIT_NOFILE and ignores SIGPIPE; max_connections is cut to what the files
 * allow.  ST_BUSY: an address is taken; ST_IO: a file or an address is missing; ST_RANGE: an address or the
 * options are malformed. */
MUST_CHECK enum status http_server_create(struct http_server **out, struct event_base *base,
                                          const struct http_options *options,
                                          const struct http_handler *handler);

/* Ends all connections; pending replies are told that their clients have gone, and must still be ended.
 * Not from the handler's request.  NULL is fine. */
void http_server_destroy(struct http_server *s);

/* Listens no longer, ends idle connections, and the others after their answers. */
void http_server_drain(struct http_server *s);

/* "127.0.0.1:43211" of listener i, or NULL: there are fewer. */
const char *http_server_address(const struct http_server *s, size_t i);

struct http_counts {
    size_t connections, pending; /* now; pending: requests that are being answered */
    size_t output;               /* bytes that wait for all clients now */
    uint64_t accepted, refused,
        served; /* since the start: connections, connections answered with 503
                                         * because there were too many, requests given to the handler */
};
struct http_counts http_server_counts(const struct http_server *s);

/* ---- replies ---- */

struct http_watch {
    void *ctx;
    void (*gone)(void *ctx); /* the client has gone: nothing that follows arrives; end the reply */
    void (*writable)(void *ctx); /* after http_reply_chunk said false: go on */
};
void http_reply_watch(struct http_reply *r, const struct http_watch *watch);

/* The handler's own, for http_handler.ended; NULL at first. */
void http_reply_set_user(struct http_reply *r, void *user);
void *http_reply_user(const struct http_reply *r);

/* Adds a header; before the answer begins.  Control characters in value become '?'. */
void http_reply_header(struct http_reply *r, const char *name, const char *value);

/* The whole answer.  type NULL: no Content-Type. */
void http_reply_send(struct http_reply *r, int status, const char *type, const void *body,
                     size_t n);

/* The same with a body that is given away: a large one is not copied. */
void http_reply_give(struct http_reply *r, int status, const char *type, struct text_buf *body);

/* The whole answer: 200 and the JSON that w has written, whose text is released; 503 where writing failed. */
void http_reply_json(struct http_reply *r, struct json_writer *w);

/* The JSON of an error.  param: the path of the field at fault, or NULL. */
typedef void http_error_writer(struct json_writer *w, int status, const char *message,
                               const char *param);
/* How errors of this reply are written from now on; at first as {"error":{"message":...,"type":...,"param":...,
 * "code":status}} (http_error.h). */
void http_reply_error_writer(struct http_reply *r, http_error_writer *writer);
/* The whole answer is an error. */
void http_reply_error(struct http_reply *r, int status, const char *message);
/* The same with the path of the field at fault in param. */
void http_reply_error_at(struct http_reply *r, int status, const char *message, const char *param);

/* An answer in pieces: chunks, or in HTTP/1.0 all bytes until the connection is closed. */
void http_reply_begin(struct http_reply *r, int status, const char *type);
/* The same, 200 and text/event-stream; each chunk must then be whole events.  After comment_ms of silence a
 * comment is sent, so that proxies and clients keep the connection. */
void http_reply_begin_events(struct http_reply *r);
/* false: enough is waiting, or the client has gone; the piece is kept all the same.  An empty one is nothing. */
bool http_reply_chunk(struct http_reply *r, const void *data, size_t n);
void http_reply_end(struct http_reply *r);

/* Cuts the connection, so that the client sees that the answer is not whole. */
void http_reply_abort(struct http_reply *r);

bool http_reply_is_open(const struct http_reply *r);     /* the client has not gone */
const char *http_reply_peer(const struct http_reply *r); /* "192.0.2.1:5000" */
bool http_reply_is_loopback(const struct http_reply *r); /* the client is on this machine */

/* "Not Found"; "Unknown" when there is none. */
const char *http_status_text(int status);

#endif
