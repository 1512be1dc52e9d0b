/* What every collective checks of its arguments. */
#ifndef COLLECTIVES_CHECK_H
#define COLLECTIVES_CHECK_H

#include "collectives/coll.h"

enum { COLL_MAX_WORLD = 64 };

/* rank, world, backend and max_bytes are usable. */
MUST_CHECK enum status coll_check_config(const struct coll_config *cfg, const char *name);

/* v is packed and n_copies of it are at most max_bytes; *bytes = the bytes of v. */
MUST_CHECK enum status coll_check_view(const struct coll_config *cfg, struct view v, int n_copies,
                                       size_t *bytes);

/* x is packed f32 and op is known; *n = its elements. */
MUST_CHECK enum status coll_check_reduce(const struct coll_config *cfg, struct view x,
                                         enum reduce_op op, size_t *n);

/* src and dst fit together; *bytes = the bytes of src. */
MUST_CHECK enum status coll_check_gather(const struct coll_config *cfg, struct view src,
                                         struct view dst, size_t *bytes);

MUST_CHECK enum status coll_check_broadcast(const struct coll_config *cfg, struct view x, int root,
                                            size_t *bytes);

#endif
