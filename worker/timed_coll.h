/* A communicator that measures how long its collectives take (waiting for peers included) and
 * otherwise is the one inside it.  Exact on backends that compute before they return; on others it
 * is the time to enqueue.  Called by the rank's main thread. */
#ifndef WORKER_TIMED_COLL_H
#define WORKER_TIMED_COLL_H

#include "collectives/coll.h"

struct timed_coll {
    struct coll head; /* what decoder and rank_step get */
    struct coll_ops ops;
    struct coll *inner; /* owned */
    uint64_t us;        /* spent in all collectives so far */
};

/* coll_open, measured. */
MUST_CHECK enum status timed_coll_open(struct timed_coll **out, const char *name,
                                       const struct coll_config *cfg);
void timed_coll_close(struct timed_coll *t);

#endif
