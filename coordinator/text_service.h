/* Decoding, tokenizing and chat templates on a thread of their own, so that a long prompt never stalls the loop, and
 * grammars on another one, so that a long compile does not stall the text of other requests.  The loop submits jobs and
 * takes them back finished; owners take turns. */
#ifndef COORDINATOR_TEXT_SERVICE_H
#define COORDINATOR_TEXT_SERVICE_H

#include "coordinator/text_queue.h"

struct text_service;

/* mt is borrowed until the stop; max_message: bytes of the largest message. */
MUST_CHECK enum status text_service_start(struct text_service **out, const struct model_text *mt,
                                          size_t max_message);
void text_service_stop(struct text_service *s);

/* Takes the job over.  ST_BUSY: too many wait (text_queue.h). */
MUST_CHECK enum status text_service_submit(struct text_service *s, struct text_job **job);
/* The client has gone, or (request not 0) the Generate was cancelled: what waits for it is dropped, and
 * a compile of its grammar stopped. */
void text_service_drop(struct text_service *s, uint64_t client, uint64_t request);
/* A finished job, or NULL; free it with text_job_free. */
struct text_job *text_service_take(struct text_service *s);

/* Becomes readable when a job is finished (level: drained by text_service_take returning NULL). */
int text_service_fd(const struct text_service *s);

#endif
