/* The ranks of one host watch each other's processes: when one has ended, however it ended, the others
 * end at once instead of waiting for it in a collective or for their launcher.  Rank 0 reports it to
 * the coordinator first.  Ranks of other hosts, or of other process tables (containers), are not
 * watched: their launcher or the coordinator's deadline finds their loss.
 *
 * A thread waits on descriptors of the processes (Linux 5.3, pidfd_open); where there are none,
 * nothing is watched. */
#ifndef WORKER_PEER_WATCH_H
#define WORKER_PEER_WATCH_H

#include "collectives/control.h"
#include "worker/coordinator_port.h"

struct peer_watch;

/* Begins.  Called by all ranks together.  *out is NULL for a single rank.  When a rank ends this
 * process exits with exit_code. */
MUST_CHECK enum status peer_watch_open(struct peer_watch **out, const struct control_info *ci,
                                       int exit_code);
/* Rank 0: losses are reported through port; NULL: not any more.  Before the
 * port is closed call it with NULL. */
void peer_watch_report_to(struct peer_watch *w, struct coordinator_port *port);
/* Ends: from now on the others may leave.  w may be NULL.  When a rank has just ended it does not
 * return. */
void peer_watch_close(struct peer_watch *w);

#endif
