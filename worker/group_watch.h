/* What a launcher (deploy/run-group.sh) runs beside its group: a connection of its own to the coordinator that has welcomed
 * the group, over which the coordinator says when it gives the group up.  Ranks that are stopped, or that wait for one, or
 * whose host cannot be reached, cannot tell the launcher. */
#ifndef WORKER_GROUP_WATCH_H
#define WORKER_GROUP_WATCH_H

#include "common/wire/sock.h"

/* How the watch ended. */
enum watch_end {
    WATCH_GIVEN_UP, /* the coordinator has given the group up; why says the reason */
    WATCH_UNKNOWN,  /* it has no group of this epoch */
};

/* Waits.  endpoint: of one coordinator; curve: NULL for none; every period_ms the watch is asked for again, so that it
 * outlives a connection. */
MUST_CHECK enum status group_watch_run(const char *endpoint, const struct sock_curve *curve,
                                       uint64_t epoch, uint32_t period_ms, enum watch_end *end,
                                       char why[512]);

#endif
