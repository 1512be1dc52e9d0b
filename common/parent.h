/* Processes that must not outlive the one that started them. */
#ifndef COMMON_PARENT_H
#define COMMON_PARENT_H

#include "common/status.h"

/* This process is killed when its parent ends.  On Linux the kernel does it; elsewhere a thread looks for the parent
 * ten times a second, until the process ends or another program takes its place (exec).
 * ST_PEER: the parent has ended already; ST_IO: it cannot be arranged. */
MUST_CHECK enum status die_with_parent(void);

/* The same for a child between fork and exec, and for the program that it executes.  ST_PEER: the parent has ended
 * already; ST_UNSUPPORTED: not Linux (the program calls die_with_parent itself, see --die-with-parent). */
MUST_CHECK enum status die_with_parent_across_exec(void);

#endif
