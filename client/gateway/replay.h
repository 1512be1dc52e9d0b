/* What a call has got of its answer, so that an answer that comes again from its beginning goes on where it was: the part
 * that is known is compared and taken out, the rest is passed on.  A coordinator sends an answer again when a request is
 * attached to, cut into other pieces; one that was started again, or another one, computes it again, to the same bytes.
 * The loop's thread alone. */
#ifndef CLIENT_GATEWAY_REPLAY_H
#define CLIENT_GATEWAY_REPLAY_H

#include <stdbool.h>

#include "client/lib/ingot.h"
#include "common/status.h"

struct replay;

/* NULL: no memory. */
struct replay *replay_create(void);
void replay_destroy(struct replay *r); /* NULL is fine */

/* The answer comes again from its beginning, with Accepted. */
void replay_restart(struct replay *r);

/* Takes what is known out of *ev.  *pass: is anything left?  ST_PEER: the answer is another one. */
MUST_CHECK enum status replay_take(struct replay *r, struct ingot_event *ev, bool *pass);

#endif
