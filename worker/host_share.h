/* This rank's share of its host. */
#ifndef WORKER_HOST_SHARE_H
#define WORKER_HOST_SHARE_H

#include "collectives/control.h"

/* Threads for this rank so that the ranks of a host together do not use more than it lets them:
 * when the launcher gave every rank cores of its own, all of those; when they share one set, an
 * equal part. Collective over all ranks. */
MUST_CHECK enum status host_share_threads(const struct control_info *ci, int *threads);

/* The process is killed when its parent dies; ST_UNSUPPORTED where the system cannot do that. */
MUST_CHECK enum status host_die_with_parent(void);

#endif
