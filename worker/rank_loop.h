/* The loop of every rank.  Rank 0 receives messages from the coordinator and relays their bytes
 * unchanged to all ranks.  Every rank decodes and carries out the same messages in the same order,
 * so all ranks accept or refuse the same plan.  Rank 0 sends the results to the coordinator.
 *
 * Broadcasts of rank 0 (control_bcast):
 *   RELAY    a message of the coordinator
 *   ROWS     gather whole rows of logits of the last step; only when host sampling needs them
 *   TICK     rank 0 is alive
 *   WEIGHTS  gather the ranks' weights digests, as far as they are known
 *   FIGURES  gather the ranks' figures, which rank 0 sends to the coordinator
 *   END      end, with the enum loop_end
 *
 * Epochs: the Welcome names the group's epoch, and plans of other epochs are dropped.  A Reset
 * names a new epoch and removes all sequences on all ranks.
 *
 * The loop ends with one of enum loop_end.  With LOOP_FAULT rank 0 has sent a Fault to the
 * coordinator, and the caller must end the whole job (abort of the collective, control_abort). */
#ifndef WORKER_RANK_LOOP_H
#define WORKER_RANK_LOOP_H

#include <signal.h>

#include "common/digest/weights_digest.h"
#include "common/wire/worker_msg.h"
#include "worker/coordinator_port.h"
#include "worker/rank_step.h"

enum { RANK_MAX_MESSAGE = 64 << 20 }; /* bytes of one coordinator message */

enum loop_end {
    LOOP_SHUTDOWN, /* the coordinator sent Shutdown with this group's epoch */
    LOOP_SIGNAL,   /* *stop was set: the running steps were finished and Goodbye was sent */
    LOOP_ORPHAN, /* no coordinator found (rank 0), or no rank 0 (others) for longer than the lease */
    LOOP_REFUSED, /* the coordinator refused the Hello, or fenced this group */
    LOOP_FAULT,   /* an impossible plan, a failed op, a failed peer */
};

struct rank_loop_config {
    int rank, world;
    struct rank_step *step;
    const uint64_t *comm_us;              /* time spent in collectives so far (timed_coll) */
    uint64_t kv_bytes;                    /* of this rank's part of the KV cache */
    struct coordinator_port *port;        /* rank 0 */
    const struct worker_hello *hello;     /* rank 0 */
    const struct weights_digest *weights; /* NULL: no digest */
    bool first_on_host;                   /* the first rank of its host */
    uint32_t lease_ms;                    /* until the Welcome names another */
    uint32_t peer_ms;                     /* time limit for a rank to accept a broadcast */
    const volatile sig_atomic_t *stop;    /* set by a signal handler; read by rank 0 */
};

/* Runs until the group ends.  Returns ST_OK for LOOP_SHUTDOWN and LOOP_SIGNAL. */
MUST_CHECK enum status rank_loop_run(const struct rank_loop_config *cfg, enum loop_end *end);

#endif
