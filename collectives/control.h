/* The control plane between ranks: host bytes, sent by each rank's main thread in the same order.
 * Uses MPI; a single rank needs none (INGOT_MPI=OFF, or started without mpirun). */
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

/* Called once per process, before the other functions.  Without mpirun's environment the job is one
 * rank and MPI is not initialised.  A build without MPI refuses to be one rank of several. */
MUST_CHECK enum status control_open(struct control_info *out);

/* Called by all ranks together.  After a failure of a peer, call control_abort instead. */
void control_close(void);

/* Rank 0 sends *len bytes of buf; the other ranks receive them and their number.  cap, the size of
 * buf, is the same on all ranks.
 *
 * Ranks may wait here for minutes between requests.  After the spin time they sleep: ranks on rank
 * 0's host until its doorbell wakes them, ranks on other hosts polling every millisecond.
 *
 * ST_TIMEOUT after timeout_ms (0 = no limit), naming the peer's rank.  On rank 0 it means that a
 * rank did not take the bytes, which is fatal.  On another rank it means that no broadcast has
 * begun; the rank may call again and then receives the next broadcast. */
MUST_CHECK enum status control_bcast(void *buf, size_t cap, size_t *len, uint32_t timeout_ms);

/* Sets how long control_bcast spins before it sleeps; 20 us by default.  A wait that ends while
 * spinning costs no wake-up.  The spin yields the core to other threads. */
void control_set_spin(uint32_t spin_us);

/* The next three wait for all ranks without a deadline, and sleep meanwhile.  They are for start
 * and end, not for steps. */

/* *v = the minimum over all ranks. */
MUST_CHECK enum status control_min_u64(uint64_t *v);
MUST_CHECK enum status control_barrier(void);

/* Every rank sends len bytes; rank 0 receives world * len bytes in rank order.  On other ranks out
 * may be NULL. */
MUST_CHECK enum status control_gather(const void *mine, size_t len, void *out);

/* Ends the whole job at once with that exit code (MPI_Abort).  Does not return. */
_Noreturn void control_abort(int exit_code);

#endif
