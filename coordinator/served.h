/* Who computes: the numbers that the active worker group gives. */
#ifndef COORDINATOR_SERVED_H
#define COORDINATOR_SERVED_H

#include "common/wire/worker_msg.h"

/* What decides the bits of the group that serves, or served last. */
struct served {
    bool any; /* a group has served */
    char numerics[NUMERICS_ID_SIZE];
    bool has_weights;
    uint8_t weights[SHA256_BYTES];
};

#endif
