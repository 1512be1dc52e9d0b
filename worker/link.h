/* Rank 0's connection to the coordinator: a DEALER socket, heartbeats, and the lease.
 *
 * The main thread owns the socket and sends heartbeats while it waits in link_recv.  While a step
 * computes it lends the socket to a small thread of the link (link_lend ... link_take), which does
 * nothing but send heartbeats that are due; the socket changes hands under a mutex. The lease: a
 * coordinator that is silent for lease_ms is gone, ST_TIMEOUT.  Silence is judged only after
 * everything that has arrived was read, so a long step does not count against the coordinator. */
#ifndef WORKER_LINK_H
#define WORKER_LINK_H

#include "common/wire/worker_msg.h"

struct link;

struct link_config {
    const char *endpoint;
    uint32_t lease_ms;  /* until the Welcome names another */
    size_t max_message; /* bytes */
};

MUST_CHECK enum status link_open(struct link **out, const struct link_config *cfg);
/* Waits at most half a second for what was sent to leave. */
void link_close(struct link *l);

MUST_CHECK enum status link_send(struct link *l, const struct worker_msg *msg);

/* Next message, copied to buf (cap bytes).  *n = 0: none within wait_ms, or a signal came.
 * ST_TIMEOUT: the lease has run out.  ST_PEER: a message that is too large or of several parts. */
MUST_CHECK enum status link_recv(struct link *l, void *buf, size_t cap, size_t *n,
                                 uint32_t wait_ms);

/* From now on: heartbeats of that epoch, and the Welcome's lease. */
void link_welcome(struct link *l, const struct worker_welcome *w);

/* Around the computation of a step; between them no other call. */
void link_lend(struct link *l);
void link_take(struct link *l, uint64_t last_step);

#endif
