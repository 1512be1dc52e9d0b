/* The table of the collective over shared memory, and its inside for ranks that share memory
 * already (threads of one process). */
#ifndef COLLECTIVES_SHM_H
#define COLLECTIVES_SHM_H

#include "collectives/coll.h"

extern const struct coll_ops shm_coll_ops;

/* The bytes of the area that cfg's ranks share: zeroed memory, aligned to 128. */
MUST_CHECK enum status shm_area_bytes(const struct coll_config *cfg, size_t *bytes);

/* One rank's communicator in an area that stays the caller's and outlives it.  Collective: returns
 * when all ranks have joined.  On failure nothing is left. */
MUST_CHECK enum status shm_join(struct coll **out, const struct coll_config *cfg, void *area);

#endif
