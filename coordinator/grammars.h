/* The grammars of live requests, by digest, and what the worker groups know of them.  A source goes to a group once: to
 * those that serve before its first request is admitted (grammar_wait.h), to a group that joins later in front of the
 * first plan that opens a sequence with it; the vocabulary in front of the first source.  Grammars that no request uses
 * are kept for the next one, a few of them.  One thread (the loop). */
#ifndef COORDINATOR_GRAMMARS_H
#define COORDINATOR_GRAMMARS_H

#include "coordinator/model_text.h"
#include "coordinator/request.h"
#include "coordinator/worker_port.h"

struct grammars;

enum {
    GRAMMARS_MAX = 256,  /* of live requests: no more than a worker has room for */
    GRAMMARS_SPARE = 16, /* that no request uses */
};

/* Bytes that the grammars of live requests may hold together when they are compiled, as each rank has them; with the
 * spare ones too, once the ranks have what is sent next. */
#define GRAMMARS_MAX_BYTES ((size_t)384 << 20)
#define GRAMMARS_TENANT_BYTES (GRAMMARS_MAX_BYTES / 2) /* of one owner */

MUST_CHECK enum status grammars_create(struct grammars **out, const struct model_text *mt);
void grammars_destroy(struct grammars *g);

/* The id for plans of a request's grammar, 0 without one; released once for each time it was taken.
 * ST_BUSY: too many different ones are in use, or they hold too much; ST_RANGE: it alone
 * does. */
MUST_CHECK enum status grammars_take(struct grammars *g, const struct resolved *ask,
                                     const struct owner *owner, uint64_t *id);
void grammars_release(struct grammars *g, uint64_t id);

/* Sends the grammar to the active groups that do not have it.  Have all of them compiled it? */
bool grammars_prepare(struct grammars *g, struct worker_port *port, uint64_t id);
/* The group says that it has. */
void grammars_compiled(struct grammars *g, const struct worker_group *group, uint64_t id);

/* Sends the group what it needs for the plan and does not have yet. */
MUST_CHECK enum status grammars_send(struct grammars *g, struct worker_port *port,
                                     struct worker_group *group, const struct step_plan *plan);

#endif
