/* Waits for the disk on a thread of its own: fdatasync can take as long as many steps.  The loop calls. */
#ifndef COORDINATOR_JOURNAL_SYNCER_H
#define COORDINATOR_JOURNAL_SYNCER_H

#include <stdbool.h>

#include "common/status.h"

struct syncer;

MUST_CHECK enum status syncer_start(struct syncer **out);
/* Waits for what was asked for. */
void syncer_stop(struct syncer *s); /* NULL is fine */

/* What was written to fd up to now is to reach the disk; fd may be closed at once.  false: the thread is still busy with
 * the descriptor before, ask again later. */
bool syncer_ask(struct syncer *s, int fd);
/* errno of the first failure since the last call, 0: none. */
int syncer_error(struct syncer *s);

#endif
