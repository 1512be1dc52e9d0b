/* Errors and refusals to clients. */
#ifndef COORDINATOR_REPLY_H
#define COORDINATOR_REPLY_H

#include "coordinator/coordinator.h"

enum { RETRY_MS = 1000 /* after which a retryable request is sent again */ };

/* Why a request is not taken, that passes: queues that are full, and lack of memory, which the end of other
 * requests or of another program's need ends.  The refusal is retryable then. */
static inline bool reply_passes(enum status st)
{
    return st == ST_BUSY || st == ST_NOMEM;
}

/* type: MSG_ERROR or MSG_REJECTED; a retryable one gets RETRY_MS. */
void reply_error(struct coordinator *co, struct client *c, enum msg_type type,
                 const struct msg_error *error, uint64_t now_us);

#endif
