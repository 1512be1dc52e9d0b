/* Tokens as deltas to clients, and the ends of requests.  Called by clients.c, generate.c, groups.c and the
 * loop. */
#ifndef COORDINATOR_ANSWERS_H
#define COORDINATOR_ANSWERS_H

#include "coordinator/coordinator.h"

/* What its client is told first; the request has started.  Borrows from it. */
struct msg_accepted answer_accepted(const struct coordinator *co, const struct request *r);
/* The request has something to send: answer_flush will look at it. */
void answer_mark(struct coordinator *co, struct request *r);
/* Sends what the marked requests have for their clients. */
void answer_flush(struct coordinator *co, uint64_t now_us);
/* Carries out the first n_fx effects of co->fx; result: the step's tokens, NULL where none came. */
void answer_effects(struct coordinator *co, const struct step_result *result, size_t n_fx,
                    uint64_t now_us);
/* Ends the request with an error (Rejected when nothing was accepted yet). */
void answer_fail(struct coordinator *co, struct request *r, enum status code, bool retryable,
                 const char *detail, uint64_t now_us);
/* Ends every unfinished sample with that reason. */
void answer_cancel(struct coordinator *co, struct request *r, enum msg_reason reason,
                   uint64_t now_us);
/* Its samples count no longer for its tenant's limits; an ended request's do not. */
void answer_release_account(struct coordinator *co, struct request *r);
/* A request all of whose samples are done ends. */
void answer_end_if_done(struct coordinator *co, struct request *r, uint64_t now_us);
void answer_fail_all(struct coordinator *co, enum status code, const char *detail, uint64_t now_us);

#endif
