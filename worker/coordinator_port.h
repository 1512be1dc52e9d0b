/* Rank 0's connection to the coordinator: a DEALER socket, heartbeats, and the lease.
 *
 * The main thread owns the socket and sends heartbeats while it waits in coordinator_port_recv.
 * While a step computes it lends the socket (coordinator_port_lend ... coordinator_port_take) to a
 * small thread of this module, which sends the heartbeats that are due and receives messages.  They
 * are returned by coordinator_port_recv later, except that a Refused ends the process at once.  A
 * mutex guards the handover.
 *
 * The lease: a coordinator that is silent for lease_ms is gone, and so is one whose connection has ended.
 * Silence is judged only after every message that has arrived was read, so a long step does not count
 * against the coordinator. */
#ifndef WORKER_COORDINATOR_PORT_H
#define WORKER_COORDINATOR_PORT_H

#include "common/wire/sock.h"
#include "common/wire/worker_msg.h"

struct coordinator_port;

struct coordinator_port_config {
    const char *endpoint; /* one or several, with commas between them */
    uint32_t lease_ms;  /* until the Welcome names another; how long the first one is waited for */
    uint32_t rejoin_ms; /* how long a coordinator is looked for when one was lost */
    size_t max_message; /* bytes */
    int refused_exit;   /* exit code of the process when a Refused comes while the socket is lent */
    const struct sock_curve *curve; /* NULL: no keys */
};

MUST_CHECK enum status coordinator_port_open(struct coordinator_port **out,
                                             const struct coordinator_port_config *cfg);
/* Waits at most half a second for what was sent to leave. */
void coordinator_port_close(struct coordinator_port *l);
/* The coordinator has said that the group is to end: closing waits for nothing, since it may have gone. */
void coordinator_port_dismissed(struct coordinator_port *l);

MUST_CHECK enum status coordinator_port_send(struct coordinator_port *l,
                                             const struct worker_msg *msg);

/* Next message, copied to buf (cap bytes).  *n = 0: none within wait_ms, or a signal came.
 * ST_CANCELED: the coordinator is gone, or has not answered Hello: coordinator_port_again.  ST_TIMEOUT: no
 * coordinator was found for too long, or all refuse the key.  ST_PEER: a message that is too large or of several parts. */
MUST_CHECK enum status coordinator_port_recv(struct coordinator_port *l, void *buf, size_t cap,
                                             size_t *n, uint32_t wait_ms);

/* The one that is used, or tried. */
const char *coordinator_port_endpoint(const struct coordinator_port *l);

/* Connects again and wants a Hello: to the same endpoint after a Welcome, otherwise to the next one. */
MUST_CHECK enum status coordinator_port_again(struct coordinator_port *l);

/* From now on: heartbeats of that epoch, and the Welcome's lease. */
void coordinator_port_welcome(struct coordinator_port *l, const struct worker_welcome *w);

/* Around the computation of a step; between them no other call. */
void coordinator_port_lend(struct coordinator_port *l);
void coordinator_port_take(struct coordinator_port *l, uint64_t last_step);

/* For another thread of the process, when another rank's process has ended: sends a Fault of that rank as
 * soon as the socket can be had, within wait_ms, and gives it at most as long to leave.  The port is
 * not usable any more: coordinator_port_recv and coordinator_port_take do not return, and the caller
 * must end the process.  Not while the port is closed. */
void coordinator_port_last_words(struct coordinator_port *l, uint32_t rank, enum status st,
                                 const char *detail, uint32_t wait_ms);

#endif
