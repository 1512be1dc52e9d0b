/* Processes that must not outlive the one that started them. */
#ifndef COMMON_PARENT_H
#define COMMON_PARENT_H

#include "common/status.h"

/* The kernel sends this process SIGKILL when its parent ends.  ST_PEER: the parent has ended
 * already; ST_UNSUPPORTED: not Linux. */
MUST_CHECK enum status die_with_parent(void);

#endif
