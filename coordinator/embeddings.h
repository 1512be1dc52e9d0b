/* Requests for embeddings (Generate.embed): the vector that a step brings.  Called by the loop. */
#ifndef COORDINATOR_EMBEDDINGS_H
#define COORDINATOR_EMBEDDINGS_H

#include "coordinator/coordinator.h"
#include "coordinator/request.h"

/* Do the worker groups give the embeddings that the model's modules describe? */
bool embeddings_given(const struct coordinator *co);
/* Does the model give nothing else: no answers? */
bool embeddings_alone(const struct coordinator *co);

/* Keeps entry i of the result for the request's Finish, cut to its dimensions.  ST_NOMEM. */
MUST_CHECK enum status embeddings_take(const struct coordinator *co, struct request *r,
                                       const struct step_result *result, uint32_t i);

#endif
