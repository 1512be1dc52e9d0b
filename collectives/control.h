/* The control plane between ranks: host bytes, called by each rank's main thread in the same order.
 * Built on MPI, or on nothing for a single rank (INGOT_MPI=OFF, or started without mpirun). */
#ifndef COLLECTIVES_CONTROL_H
#define COLLECTIVES_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct control_info {
    int rank, world;             /* in the whole job */
    int local_rank, local_world; /* on this host */
    bool one_host;               /* all ranks on this host */
};

/* Once per process, before anything else of this header.  Without mpirun's environment MPI is not even
 * initialised and the job is one rank. */
MUST_CHECK enum status control_open(struct control_info *out);
void control_close(void);

/* Rank 0 gives len bytes (<= cap) of buf; the others receive them and the length.  Other ranks may wait
 * here for minutes between requests: they sleep, they do not spin; after `spin_us` of waiting they poll at
 * growing intervals of at most 1 ms.  Ranks other than 0 return ST_TIMEOUT after timeout_ms (0 = wait for
 * ever). */
MUST_CHECK enum status control_bcast(void *buf, size_t cap, size_t *len, uint32_t timeout_ms);

/* *v = the least of all ranks' values. */
MUST_CHECK enum status control_min_u64(uint64_t *v);
MUST_CHECK enum status control_barrier(void);

/* Every rank gives len bytes; rank 0 receives world * len in rank order (out may be NULL elsewhere). */
MUST_CHECK enum status control_gather(const void *mine, size_t len, void *out);

/* Ends the whole job now with that exit code (MPI_Abort); does not return. */
_Noreturn void control_abort(int exit_code);

#endif
