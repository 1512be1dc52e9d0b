/* A line of each rank on standard output every second, for the launcher of the group (deploy/run-group.sh): it ends a
 * group of which a rank is stopped or cannot be reached, which mpirun does not notice.
 *
 * A thread of its own writes, also while the main thread loads or computes.  It ends with the process. */
#ifndef WORKER_LIFE_SIGNS_H
#define WORKER_LIFE_SIGNS_H

#include "common/status.h"

/* Begins to write "ingot-worker rank N lives". */
MUST_CHECK enum status life_signs_begin(int rank);

#endif
