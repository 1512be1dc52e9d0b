/* The clients' side: one ROUTER socket, the table of clients, and sending without ever blocking.
 * A client whose queue is full is "blocked": its deltas stay in their requests and its other
 * replies in a short outbox, until it reads again or has been silent for too long.  A client that
 * cannot be routed to is gone.  One thread (the loop). */
#ifndef COORDINATOR_CLIENT_PORT_H
#define COORDINATOR_CLIENT_PORT_H

#include "common/wire/client_msg.h"
#include "common/wire/sock.h"
#include "coordinator/client_rights.h"
#include "coordinator/log_limit.h"
#include "coordinator/owner.h"

struct client_port;
struct request;

struct client {
    uint64_t id; /* never used again */
    uint8_t identity[255];
    uint8_t n_identity;
    bool said_hello, gone;
    struct tenant tenant;     /* its own, from Hello on */
    struct owner_proof proof; /* from Hello on */
    struct client_rights rights;
    uint64_t revoked_us; /* its key was removed; 0: no */
    bool any_tenant;     /* its Hello had the tenants' secret */
    uint64_t last_sent_us,
        blocked_us;         /* blocked_us: since when the socket takes nothing; 0 = it does */
    struct out_msg *outbox; /* replies that wait for the client to read */
    uint32_t n_outbox;
    struct client *next;      /* in the table */
    uint32_t n_requests;      /* live ones; kept by the loop */
    struct request *requests; /* all of them: see request_join */
};

struct client_port_config {
    const char *endpoints; /* separated by commas */
    bool allow_remote;
    size_t max_message; /* bytes */
    uint32_t heartbeat_ms;
    uint32_t max_clients, peer_clients; /* of all; of one key, user or address, 0: no bound */
    const struct gatekeeper *keys;      /* NULL: no key is needed */
    int max_fd; /* connections with greater descriptors are closed; 0: none */
};

MUST_CHECK enum status client_port_open(struct client_port **out, void *zmq_ctx,
                                        const struct client_port_config *cfg);
void client_port_close(struct client_port *f);
void *client_port_socket(struct client_port *f);
/* Readable when connections have come; NULL: none is closed for its descriptor.  Then client_port_shed, soon: libzmq
 * aborts the process when an ipc connection comes while no descriptor is free. */
void *client_port_guard(struct client_port *f);
void client_port_shed(struct client_port *f, uint64_t now_us);
const char *client_port_endpoint(const struct client_port *f); /* the real first one */
uint32_t client_port_clients(const struct client_port *f);

/* Looks all keys up again, after the list of keys has changed.  Connections whose key is not there any more get an
 * Error and are closed; they count as gone. */
void client_port_recheck(struct client_port *f, uint64_t now_us);

/* The next message: its sender, and its bytes until the next call.  false: none is there.  A message may be larger than
 * max_message, by a factor of two; beyond that its connection is ended. */
bool client_port_receive(struct client_port *f, struct client **from, const void **data, size_t *n);
/* Takes the message over that client_port_receive gave last, without a copy; its data of then is
 * not valid any more. */
MUST_CHECK enum status client_port_take(struct client_port *f, struct sock_msg **out);

enum send_result { SEND_OK, SEND_BLOCKED, SEND_GONE };

/* Sends now or not at all. */
enum send_result client_port_send(struct client_port *f, struct client *c,
                                  const struct client_msg *msg, uint64_t now_us);
/* Sends now or keeps the reply for later; in place of Tokens or Text beyond MAX_REPLY an Error.  A client with too many
 * kept replies is gone. */
void client_port_reply(struct client_port *f, struct client *c, const struct client_msg *msg,
                       uint64_t now_us);
/* Tries the outboxes again and probes clients that were sent nothing for probe_us (those with
 * requests) or 10 s (all), so that a client that vanished is noticed. */
void client_port_tend(struct client_port *f, const struct client_msg *probe, uint64_t probe_us,
                      uint64_t now_us);

struct client *client_port_find(struct client_port *f, uint64_t id);
/* Clients with requests that have not read for slow_us are gone. */
void client_port_drop_slow(struct client_port *f, uint64_t slow_us, uint64_t now_us);
/* Forgets clients that are gone; the caller has let go of their requests before. */
struct client *client_port_next_gone(struct client_port *f);
void client_port_forget(struct client_port *f, struct client *c);

#endif
