/* What the two files of the upstream share: upstream.c keeps the connection, upstream_calls.c the requests that run over
 * it. */
#ifndef CLIENT_GATEWAY_UPSTREAM_STATE_H
#define CLIENT_GATEWAY_UPSTREAM_STATE_H

#include <event2/event.h>
#include <pthread.h>

#include "client/gateway/call_table.h"
#include "client/gateway/upstream.h"

enum { TOKEN_BYTES = 32 };

struct upstream {
    struct event_base *base;
    struct upstream_config cfg;
    unsigned char tenant[CALLER_TENANT], token[TOKEN_BYTES];
    /* connecting */
    pthread_t thread;
    bool connecting, said_missing;
    int done[2]; /* a pipe: the thread has ended */
    struct event *on_done, *retry;
    struct ingot_client *made; /* what the thread made, or NULL */
    size_t first, made_i;      /* endpoint to try first, and the one of the connection */
    char failure[512];
    /* connected */
    struct ingot_client *client;
    struct event *readable, *tick, *again;
    uint64_t heard_us;   /* when the gateway looked last whether the coordinator answers */
    uint64_t silence_us; /* of the coordinator, while the gateway ran */
    bool ready;
    uint64_t empty_us; /* since when the coordinator has had no worker group; 0: it has one */
    /* requests */
    struct call_table calls;
    uint64_t serial, nonce;
    struct event *give_up; /* while there is no connection */
};

/* ---- upstream_calls.c: called by upstream.c ---- */

/* Sends all requests over a new connection. */
void upstream_calls_send(struct upstream *u);
/* The connection has ended: requests wait for the next one, queries end. */
void upstream_calls_lose(struct upstream *u);
/* There was no connection for too long: ends all with an error. */
void upstream_calls_give_up(struct upstream *u);
/* Now and then: what the connection did not take, and requests that no client has come back for. */
void upstream_calls_tend(struct upstream *u);
/* An event of a request.  false: the server does not know this connection, which is to be given up. */
bool upstream_calls_take(struct upstream *u, const struct ingot_event *ev);

#endif
