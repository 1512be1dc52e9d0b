/* What the files of the HTTP server share: server, connection, reply.
 *
 *   http_server.c  listeners, accept, drain
 *   http_conn.c    one connection: bytes -> parser -> handler, time limits, closing
 *   http_reply.c   the answer of one request -> bytes
 *
 * A connection's life: HANDSHAKE (TLS) -> IDLE -> HEAD -> BODY -> ANSWER -> IDLE ... -> FLUSH -> LINGER.  All
 * bufferevent callbacks are deferred, so writing never calls back into the writer. */
#ifndef CLIENT_GATEWAY_HTTP_CONN_H
#define CLIENT_GATEWAY_HTTP_CONN_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/listener.h>
#include <openssl/ssl.h>
#include <time.h>

#include "client/gateway/http_server.h"

enum {
    MAX_LISTENERS = 16,
    MAX_PEER = 64,
    MAX_READ_AHEAD = 1 << 16, /* bytes read ahead of the parser */
    MAX_EXTRA =
        64, /* connections beyond max_connections that are told 503; more are closed at once */
};

struct http_listener {
    struct evconnlistener *listener;
    struct http_server *server;
    bool bound_to_all;
    char address[MAX_PEER];
};

struct http_server {
    struct event_base *base;
    struct http_options options;
    struct http_handler handler;
    SSL_CTX *tls;
    struct http_listener listener[MAX_LISTENERS];
    size_t n_listeners;
    struct event *accept_again; /* after accept has failed */
    struct event *drained;
    struct http_conn *first; /* all connections */
    struct http_counts counts;
    size_t body_memory;
    bool draining, early_close; /* early_close: the base reports EV_CLOSED */
    struct text_buf scratch;    /* one piece of output */
    time_t date_at;
    char date[40];
};

enum http_phase {
    PHASE_HANDSHAKE,
    PHASE_IDLE,
    PHASE_HEAD,
    PHASE_BODY,
    PHASE_ANSWER,
    PHASE_FLUSH, /* the last answer is on its way out */
    PHASE_LINGER /* closed for sending; what still comes is dropped */
};

struct http_conn {
    struct http_server *server;
    struct http_conn *prev, *next;
    struct bufferevent *bev;
    struct event timer;  /* of the phase */
    struct event closed; /* the peer has closed; while an answer is pending */
    struct http_parser parser;
    struct http_reply *reply; /* pending, or NULL */
    enum http_phase phase;
    uint64_t body_began_us;
    size_t body_bytes;   /* received, of this request */
    size_t body_counted; /* in server->body_memory */
    struct evbuffer_cb_entry *on_output;
    struct in6_addr local, remote;
    bool too_many; /* it is one too many */
    bool bound_to_all;
    bool in_handler; /* the handler's call has not returned */
    bool keep_alive; /* as the last answer said */
    bool peer_done;  /* nothing more comes */
    bool broken;     /* to be lost by the loop */
    char peer[MAX_PEER];
};

struct http_reply {
    struct http_conn *conn; /* NULL: the client has gone */
    struct http_server *server;
    struct http_watch watch;
    http_error_writer *write_error;
    void *user;
    int status; /* 0: the head has not been written */
    uint64_t bytes;
    bool aborted;
    bool head_only, http10, keep_alive, chunked;
    bool paused;             /* the producer waits for writable */
    bool loopback;           /* the client is on this machine */
    struct event comment;    /* fills the silences of an event stream */
    uint64_t last_us;        /* when something was sent */
    struct text_buf headers; /* whole lines */
    char peer[MAX_PEER];
};

/* ---- http_conn.c ---- */

/* Takes the socket.  too_many: the first request is answered with 503. */
void http_conn_accept(struct http_listener *l, evutil_socket_t fd, const struct sockaddr *peer,
                      bool too_many);
/* Ends it now; a pending reply is told. */
void http_conn_lose(struct http_conn *c);
/* Is there no request on it? */
bool http_conn_is_idle(const struct http_conn *c);
/* Ends it when its output has gone. */
void http_conn_finish(struct http_conn *c);
/* The reply has written its last byte. */
void http_conn_answered(struct http_conn *c, bool keep_alive);
/* The loop is to lose it soon. */
void http_conn_break(struct http_conn *c);

/* ---- http_reply.c ---- */

struct http_reply *http_reply_create(struct http_conn *c, const struct http_request *q);
/* Detaches it from its connection and tells its owner. */
void http_reply_lost(struct http_reply *r);
/* The output is short again. */
void http_reply_drained(struct http_reply *r);

/* ---- http_server.c ---- */

void http_server_conn_ended(struct http_server *s);
/* Cuts connections until what waits for the others is within max_output_memory; the loop ends them soon. */
void http_server_limit_output(struct http_server *s);

#endif
