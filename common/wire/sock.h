/* ZeroMQ sockets with all their limits set: message size, handshake, heartbeats, linger, high-water
 * marks.  Every socket of Ingot is made here.  A socket belongs to one thread. */
#ifndef COMMON_WIRE_SOCK_H
#define COMMON_WIRE_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "common/wire/curve_key.h"

enum { DEFAULT_PORT_CLIENTS = 5555, DEFAULT_PORT_WORKERS = 5556 };
enum { DEFAULT_MAX_MESSAGE = 16 << 20 }; /* bytes */

/* Encryption and proof of keys, of TCP endpoints; ipc endpoints have none: their files have permissions. */
struct sock_curve {
    bool server;
    struct curve_pair own;
    char server_key[CURVE_SIZE]; /* of a client: the only server that it speaks to */
    const char *domain; /* of a server: the name under which it asks who may connect (ZAP) */
};

struct sock_config {
    size_t max_message; /* bytes; greater ones end their connection; 0 = DEFAULT_MAX_MESSAGE */
    uint32_t
        heartbeat_ms; /* of a DEALER: ZMTP ping interval; a peer silent for three is dropped; 0 = 1000 */
    bool no_heartbeat;              /* sends none; it answers those of its peer */
    int high_water;                 /* messages queued per peer; 0 = 1000 */
    uint32_t linger_ms;             /* how long close waits to send what is queued */
    const struct sock_curve *curve; /* NULL: none */
};

/* Checks "tcp://ADDRESS:PORT" or "ipc://PATH".  A bind address must be loopback or ipc unless connections need keys,
 * or allow_remote: anything else is refused.  ST_RANGE says why. */
MUST_CHECK enum status sock_check_endpoint(const char *endpoint, bool bind, bool allow_remote);

/* The ipc endpoint by which processes of one host operate the server that listens at tcp://ADDRESS:PORT; false: the
 * endpoint is no such one. */
enum { SOCK_CONTROL_SIZE = 32 };
bool sock_control_endpoint(char out[SOCK_CONTROL_SIZE], const char *endpoint);
/* The same of a loopback address, if a program listens there. */
bool sock_control_answers(char out[SOCK_CONTROL_SIZE], const char *endpoint);

/* ROUTER with ROUTER_MANDATORY, bound.  Over TCP a host that is gone is noticed after 30 s; it sends no heartbeats.  ST_BUSY: the address is in use (named).  bound (may be
 * NULL) gets the real endpoint ("tcp://127.0.0.1:*" has its port filled in). */
MUST_CHECK enum status sock_bind_router(void **out, void *ctx, const char *endpoint,
                                        const struct sock_config *cfg, char *bound,
                                        size_t bound_size);

/* A further endpoint for a bound socket. */
MUST_CHECK enum status sock_bind_more(void *sock, const char *endpoint,
                                      const struct sock_config *cfg);

/* DEALER, connected; ZeroMQ goes on trying for ever. */
MUST_CHECK enum status sock_connect_dealer(void **out, void *ctx, const char *endpoint,
                                           const struct sock_config *cfg);

/* A socket that is readable when a connection of `sock` has ended; one thread has both.  Close both
 * with sock_close_watched. */
MUST_CHECK enum status sock_watch_ends(void **out, void *ctx, void *sock);
/* Takes what it tells; has a connection ended since the last call? */
bool sock_take_ends(void *watch);

/* Why connections fail before they are made. */
enum sock_refusal {
    SOCK_REFUSED_NOT,
    SOCK_REFUSED_KEY,       /* the server does not take this key */
    SOCK_REFUSED_MECHANISM, /* one side has keys, the other has none */
    SOCK_REFUSED_SILENTLY, /* the server ended the connection: its key is another than was expected, maybe */
};
/* As sock_take_ends; *why gets the last refusal since the last call. */
bool sock_take_refusal(void *watch, enum sock_refusal *why);
/* The refusal for people. */
const char *sock_refusal_text(enum sock_refusal why);

/* Tells of the connections that a bound socket accepts; one thread has both.  Close both with
 * sock_close_watched. */
MUST_CHECK enum status sock_guard_open(void **out, void *ctx, void *sock);
/* Ends the new connections whose descriptor is greater than max_fd, so that others stay free; their number.  NULL is
 * fine. */
uint32_t sock_guard_close(void *guard, int max_fd);

void sock_close(void *sock);
/* A socket and what watches it.  NULL is fine. */
void sock_close_watched(void *sock, void *watch);

/* A received message that outlives the next receive; the holder frees it, on any thread. */
struct sock_msg;
struct zmq_msg_t;

/* Takes the content of a ZeroMQ message over, without a copy; from is empty then.  ST_NOMEM. */
MUST_CHECK enum status sock_msg_take(struct sock_msg **out, struct zmq_msg_t *from);
const void *sock_msg_data(const struct sock_msg *m);
size_t sock_msg_size(const struct sock_msg *m); /* bytes */
void sock_msg_free(struct sock_msg *m);         /* NULL is fine */

/* Removes the socket file of an ipc endpoint that this process listened on; others: nothing. */
void sock_unlink(const char *endpoint);

#endif
