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

/* Once per process, before anything else of this header.  Without mpirun's environment MPI is not
 * even initialised and the job is one rank; a build without MPI refuses to be one rank of several.
 */
MUST_CHECK enum status control_open(struct control_info *out);

/* Collective; after a failure of a peer use control_abort. */
void control_close(void);

/* Rank 0 gives len bytes (<= cap, the same on all ranks) of buf; the others receive them and the
 * length. Ranks may wait here for minutes between requests: after the spin time they sleep, woken
 * at once by rank 0's doorbell on its own host, and polling every millisecond on others. ST_TIMEOUT
 * after timeout_ms (0 = wait for ever), with the peer's rank: on rank 0 that a rank does not take
 * the bytes (fatal), on another that nothing has come; it may then call again, and waits for the
 * same broadcast. */
MUST_CHECK enum status control_bcast(void *buf, size_t cap, size_t *len, uint32_t timeout_ms);

/* How long control_bcast spins before it sleeps, 20 us at first: a shorter wait costs no wake-up.
 * Spinning gives the core away when another wants it. */
void control_set_spin(uint32_t spin_us);

/* These three wait for all ranks without a deadline, asleep after a moment: for start and end.
 * *v = the least of all ranks' values. */
MUST_CHECK enum status control_min_u64(uint64_t *v);
MUST_CHECK enum status control_barrier(void);

/* Every rank gives len bytes; rank 0 receives world * len in rank order (out may be NULL
 * elsewhere). */
MUST_CHECK enum status control_gather(const void *mine, size_t len, void *out);

/* Ends the whole job now with that exit code (MPI_Abort); does not return. */
_Noreturn void control_abort(int exit_code);

#endif
