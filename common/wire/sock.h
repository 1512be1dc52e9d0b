/* ZeroMQ sockets with all their limits set: message size, handshake, heartbeats, linger, high-water
 * marks.  Every socket of Ingot is made here.  A socket belongs to one thread. */
#ifndef COMMON_WIRE_SOCK_H
#define COMMON_WIRE_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { DEFAULT_PORT_CLIENTS = 5555, DEFAULT_PORT_WORKERS = 5556 };
enum { DEFAULT_MAX_MESSAGE = 16 << 20 }; /* bytes */

struct sock_config {
    size_t max_message;    /* bytes; greater ones end their connection; 0 = DEFAULT_MAX_MESSAGE */
    uint32_t heartbeat_ms; /* ZMTP ping interval; a peer silent for three is dropped; 0 = 1000 */
    bool no_heartbeat;     /* sends none; it answers those of its peer */
    int high_water;        /* messages queued per peer; 0 = 1000 */
    uint32_t linger_ms;    /* how long close waits to send what is queued */
};

/* Checks "tcp://ADDRESS:PORT" or "ipc://PATH".  A bind address must be loopback or ipc unless
 * allow_remote: there is no encryption yet, so anything else is refused.  ST_RANGE says why. */
MUST_CHECK enum status sock_check_endpoint(const char *endpoint, bool bind, bool allow_remote);

/* ROUTER with ROUTER_MANDATORY, bound.  ST_BUSY: the address is in use (named).  bound (may be
 * NULL) gets the real endpoint ("tcp://127.0.0.1:*" has its port filled in). */
MUST_CHECK enum status sock_bind_router(void **out, void *ctx, const char *endpoint,
                                        const struct sock_config *cfg, char *bound,
                                        size_t bound_size);

/* A further endpoint for a bound socket. */
MUST_CHECK enum status sock_bind_more(void *sock, const char *endpoint);

/* DEALER, connected; ZeroMQ goes on trying for ever. */
MUST_CHECK enum status sock_connect_dealer(void **out, void *ctx, const char *endpoint,
                                           const struct sock_config *cfg);

/* A socket that is readable when a connection of `sock` has ended; one thread has both.  Close it
 * after `sock`. */
MUST_CHECK enum status sock_watch_ends(void **out, void *ctx, void *sock);
/* Takes what it tells; has a connection ended since the last call? */
bool sock_take_ends(void *watch);

void sock_close(void *sock);

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
