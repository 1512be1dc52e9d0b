/* What the control plane must do, as one rank sees it.  Returns the number of failures. */
#ifndef TESTS_COLL_CONTROL_CASES_H
#define TESTS_COLL_CONTROL_CASES_H

#include "collectives/control.h"

/* "control": all calls.  "bcast-timeout": a broadcast that is late, then comes.  "control-abort":
 * the last rank ends the job with exit code 7 while the others wait. */
int control_case(const char *name, const struct control_info *info);

#endif
