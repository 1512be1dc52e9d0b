/* Messages that need the text thread: they are given to it as jobs, and the replies to Tokenize, Detokenize and
 * ApplyTemplate are made of its results.  Called by clients.c and generate.c. */
#ifndef COORDINATOR_TEXT_REQUESTS_H
#define COORDINATOR_TEXT_REQUESTS_H

#include "coordinator/coordinator.h"

/* Gives the message that was received last to the text thread; r: the reserved request of a Generate, else NULL. */
MUST_CHECK enum status text_requests_submit(struct coordinator *co, const struct client *c,
                                            const struct request_head *h, const struct request *r);
/* Gives a request of the journal to the text thread, for the reserved r; takes q over when it succeeds. */
MUST_CHECK enum status text_requests_recover(struct coordinator *co, const struct request *r,
                                             struct recovered_request *q, uint32_t elapsed_ms);
/* Tokenize, Detokenize or ApplyTemplate has arrived; has been done. */
void text_requests_take(struct coordinator *co, struct client *c, const struct request_head *h,
                        uint64_t now_us);
void text_requests_reply(struct coordinator *co, const struct text_job *job, uint64_t now_us);

#endif
