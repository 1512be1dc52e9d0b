/* What the two control planes (a single rank's, MPI's) give to control.c. */
#ifndef COLLECTIVES_CONTROL_OPS_H
#define COLLECTIVES_CONTROL_OPS_H

#include "collectives/control.h"

struct control_ops { /* as in control.h */
    enum status (*open)(struct control_info *out);
    void (*close)(void);
    enum status (*bcast)(void *buf, size_t cap, size_t *len, uint32_t timeout_ms);
    enum status (*min_u64)(uint64_t *v);
    enum status (*barrier)(void);
    enum status (*gather)(const void *mine, size_t len, void *out);
    void (*set_spin)(uint32_t spin_us);
    void (*abort)(int exit_code);
};

extern const struct control_ops control_local_ops, control_mpi_ops;

#endif
