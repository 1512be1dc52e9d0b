/* Generates: the request is reserved, prepared by the text thread, and submitted to the scheduler.  Called by
 * clients.c. */
#ifndef COORDINATOR_GENERATE_H
#define COORDINATOR_GENERATE_H

#include "coordinator/coordinator.h"

/* A Generate has arrived. */
void generate_take(struct coordinator *co, struct client *c, const struct request_head *h,
                   uint64_t now_us);
/* The text thread has prepared it. */
void generate_ready(struct coordinator *co, struct text_job *job, uint64_t now_us);

#endif
