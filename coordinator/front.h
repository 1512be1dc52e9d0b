/* The clients' side: one ROUTER socket, the table of clients, and sending without ever blocking.
 * A client whose queue is full is "blocked": its deltas stay in their requests and its other
 * replies in a short outbox, until it reads again or has been silent for too long.  A client that
 * cannot be routed to is gone.  One thread (the loop). */
#ifndef COORDINATOR_FRONT_H
#define COORDINATOR_FRONT_H

#include "common/wire/client_msg.h"

struct front;

struct client {
    uint64_t id; /* never used again */
    uint8_t identity[255];
    uint8_t n_identity;
    bool said_hello, gone;
    uint64_t last_sent_us,
        blocked_us;         /* blocked_us: since when the socket takes nothing; 0 = it does */
    struct out_msg *outbox; /* replies that wait for the client to read */
    uint32_t n_outbox;
    struct client *next; /* in the table */
    uint32_t n_requests; /* live ones; kept by the loop */
};

struct front_config {
    const char *endpoints; /* separated by commas */
    bool allow_remote;
    size_t max_message; /* bytes */
    uint32_t heartbeat_ms;
    uint32_t max_clients;
};

MUST_CHECK enum status front_open(struct front **out, void *zmq_ctx,
                                  const struct front_config *cfg);
void front_close(struct front *f);
void *front_socket(struct front *f);
const char *front_endpoint(const struct front *f); /* the real first one */
uint32_t front_clients(const struct front *f);

/* The next message: its sender, and its bytes until the next call.  false: none is there. */
bool front_receive(struct front *f, struct client **from, const void **data, size_t *n);

enum send_result { SEND_OK, SEND_BLOCKED, SEND_GONE };

/* Sends now or not at all. */
enum send_result front_send(struct front *f, struct client *c, const struct client_msg *msg,
                            uint64_t now_us);
/* Sends now or keeps the reply for later; a client with too many kept replies is gone. */
void front_reply(struct front *f, struct client *c, const struct client_msg *msg, uint64_t now_us);
/* Tries the outboxes again and probes clients that were sent nothing for probe_us (those with
 * requests) or 10 s (all), so that a client that vanished is noticed. */
void front_tend(struct front *f, const struct client_msg *probe, uint64_t probe_us,
                uint64_t now_us);

struct client *front_find(struct front *f, uint64_t id);
/* Forgets clients that are gone; the caller has let go of their requests before. */
struct client *front_next_gone(struct front *f);
void front_forget(struct front *f, struct client *c);

#endif
