/* A backend of nothing but memory, for tests of the collectives: alloc, free, write, read, copy,
 * sync and host_ptr. */
#ifndef TESTS_COLL_HOST_BACKEND_H
#define TESTS_COLL_HOST_BACKEND_H

#include "backends/backend.h"

extern const struct backend_ops host_backend_ops;

/* Without host_ptr: like the memory of a device. */
extern const struct backend_ops device_backend_ops;

struct host_backend {
    struct backend_base base;
};

static inline struct backend *host_backend_init(struct host_backend *be,
                                                const struct backend_ops *ops)
{
    be->base.ops = ops;
    return (struct backend *)be;
}

#endif
