/* A collective for ranks that share one GPU, for tests: every operation goes through host memory
 * that the ranks share (threads of a process, or processes that the area was mapped for before
 * fork).  The arithmetic is that of collectives/reduce.h. */
#ifndef TESTS_GPU_HOST_COLL_H
#define TESTS_GPU_HOST_COLL_H

#include "collectives/coll.h"

struct host_area;

/* Shared, anonymous memory for `world` ranks with operands of max_bytes. */
MUST_CHECK enum status host_area_map(struct host_area **out, int world, size_t max_bytes);
void host_area_unmap(struct host_area *a);
/* Waiting ranks fail soon. */
void host_area_abort(struct host_area *a);

MUST_CHECK enum status host_join(struct coll **out, const struct coll_config *cfg,
                                 struct host_area *area);

#endif
