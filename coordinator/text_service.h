/* Decoding, tokenizing and chat templates on a thread of their own, so that a long prompt never
 * stalls the loop.  The loop submits jobs and takes them back finished; jobs are done in order. */
#ifndef COORDINATOR_TEXT_SERVICE_H
#define COORDINATOR_TEXT_SERVICE_H

#include "coordinator/text_job.h"

struct text_service;

/* mt is borrowed until the stop; max_message: bytes of the largest message. */
MUST_CHECK enum status text_service_start(struct text_service **out, const struct model_text *mt,
                                          size_t max_message);
void text_service_stop(struct text_service *s);

/* Takes the job over. */
void text_service_submit(struct text_service *s, struct text_job **job);
/* A finished job, or NULL; free it with text_job_free. */
struct text_job *text_service_take(struct text_service *s);

/* Becomes readable when a job is finished (level: drained by text_service_take returning NULL). */
int text_service_fd(const struct text_service *s);

#endif
