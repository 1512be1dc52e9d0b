/* Client messages: requests, cancels, queries, drain.  Called by the loop. */
#ifndef COORDINATOR_CLIENTS_H
#define COORDINATOR_CLIENTS_H

#include "coordinator/coordinator.h"

/* Reads and answers the messages that have arrived. */
void clients_receive(struct coordinator *co, uint64_t now_us);
/* Takes the requests that the text service has prepared, and submits them to the scheduler. */
void clients_text_results(struct coordinator *co, uint64_t now_us);
/* The timers: heartbeats, clients that are lost or do not read, requests without a client, ended
 * requests. */
void clients_tend(struct coordinator *co, uint64_t now_us);
/* Takes no more requests; those that still run after timeout_ms (0: the configuration's) fail. */
void clients_drain(struct coordinator *co, uint32_t timeout_ms, uint64_t now_us);

#endif
