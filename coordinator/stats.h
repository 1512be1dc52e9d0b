/* The reply to Stats, from all parts of the coordinator.  Called by clients.c. */
#ifndef COORDINATOR_STATS_H
#define COORDINATOR_STATS_H

#include "coordinator/coordinator.h"

void stats_reply(struct coordinator *co, struct client *c, const char *request_id, uint64_t now_us);

#endif
