/* The loop of every rank.  Rank 0 receives messages from the coordinator and relays their bytes
 * unchanged to all ranks; every rank decodes and carries out the same messages in the same order,
 * so all of them accept or refuse the same plan.  Rank 0 sends the results back.
 *
 * Between ranks (control_bcast): relayed coordinator messages, ROWS (whole rows of logits wanted
 * for the step just run; sent only when a draw needs them), TICK (rank 0 lives), WEIGHTS (every rank
 * gives its weights digest, or says that it is not known yet) and END.
 *
 * Epochs: the Welcome names the group's epoch; a plan of another epoch is dropped.  A Reset names a
 * new one and makes all ranks forget their sequences. An end is one of enum loop_end.  After
 * LOOP_FAULT rank 0 has told the coordinator (Fault), and the caller ends the whole job (coll
 * abort, control_abort). */
#ifndef WORKER_RANK_LOOP_H
#define WORKER_RANK_LOOP_H

#include <signal.h>

#include "common/digest/weights_digest.h"
#include "common/wire/worker_msg.h"
#include "worker/coordinator_port.h"
#include "worker/rank_step.h"

enum { RANK_MAX_MESSAGE = 64 << 20 }; /* bytes of one coordinator message */

enum loop_end {
    LOOP_SHUTDOWN, /* the coordinator said Shutdown with this group's epoch */
    LOOP_SIGNAL,   /* *stop was set: the step was finished and Goodbye said */
    LOOP_ORPHAN,   /* no coordinator (rank 0), or no rank 0 (others), for longer than the lease */
    LOOP_REFUSED,  /* the coordinator refused the Hello or has fenced this group */
    LOOP_FAULT,    /* an impossible plan, a failed op, a failed peer */
};

struct rank_loop_config {
    int rank, world;
    struct rank_step *step;
    const uint64_t *comm_us;          /* rank 0: time spent in collectives so far (timed_coll) */
    struct coordinator_port *port;    /* rank 0 */
    const struct worker_hello *hello; /* rank 0 */
    const struct weights_digest *weights; /* NULL: there will be none */
    bool first_on_host;                   /* of the ranks of its host */
    uint32_t lease_ms;                    /* until the Welcome names another */
    uint32_t peer_ms;                     /* how long a rank may take to accept a broadcast */
    const volatile sig_atomic_t *stop;    /* set by a signal handler; looked at by rank 0 */
};

/* Runs to the end of the group.  The status is ST_OK for LOOP_SHUTDOWN and LOOP_SIGNAL. */
MUST_CHECK enum status rank_loop_run(const struct rank_loop_config *cfg, enum loop_end *end);

#endif
