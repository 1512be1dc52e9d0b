/* All worker groups of a server: one queue, and a scheduler for each group.
 *
 * Scheduler 0 is the queue (sched_config.queue_for): it has the limits, the order and the turns of all sequences that
 * wait, and plans no step.  Scheduler g of 1..FLEET_GROUPS plans the steps of group g and owns its blocks, its prefix
 * cache, its cost model and the turns of what it runs.  A sequence is in exactly one of them.  It is submitted to the
 * queue, moved to a group when that has room (placement.h), and moved again when its group is closed or has many more
 * sequences than another one.  A move is like a preemption: the tokens go along, the blocks do not, and by the numeric
 * contract the other group gives the same bytes.  While no group is open, all sequences are in the queue.
 *
 * Pure, as sched.h: no clock, no I/O, the same calls give the same moves and plans.  What fleet_place and fleet_balance
 * have decided is reported as moves, which the journal records, so that a replay does not depend on the policy.
 * Called by the coordinator's loop and by replays; one thread. */
#ifndef COORDINATOR_SCHED_FLEET_H
#define COORDINATOR_SCHED_FLEET_H

#include "coordinator/sched/placement.h"

struct fleet;

enum { FLEET_GROUPS = 64, FLEET_QUEUE = 0, FLEET_SCHEDS = 1 + FLEET_GROUPS };

struct fleet_move {
    uint64_t seq_id;
    uint32_t from, to; /* schedulers */
};

/* Bytes of the queue and n_groups groups; 0 when the configuration is refused. */
size_t fleet_bytes(const struct sched_config *cfg, uint32_t n_groups);
/* The most effects of one call: the least fx_cap below. */
size_t fleet_max_fx(const struct sched_config *cfg);
/* cfg: of each group's scheduler, with the limits of the queue; queue_for is not used. */
MUST_CHECK enum status fleet_create(struct fleet **out, const struct sched_config *cfg);
void fleet_destroy(struct fleet *f);

/* As sched_submit, to the queue. */
MUST_CHECK enum status fleet_submit(struct fleet *f, const struct sched_req *r);
/* As sched_cancel.  Returns the scheduler that had it, -1: none. */
int fleet_cancel(struct fleet *f, uint64_t seq_id);

/* Group g serves from now on, with an empty cache of n_blocks (at most cfg's).  ST_NOMEM. */
MUST_CHECK enum status fleet_open(struct fleet *f, uint32_t g, uint32_t n_blocks,
                                  struct sched_effect *fx, size_t fx_cap, size_t *n_fx);
/* Group g serves no longer.  Its sequences return to the front of the queue, in their order.  Through fx end with
 * FINISH_FAILED those that do not fit into any open group's blocks (while no group is open they are kept), and
 * those for which the queue has no place. */
void fleet_close(struct fleet *f, uint32_t g, struct sched_effect *fx, size_t fx_cap, size_t *n_fx);
bool fleet_is_open(const struct fleet *f, uint32_t g);
uint32_t fleet_n_open(const struct fleet *f);

/* Moves waiting sequences, in order, to groups that have room.  *moves is valid until the next call; returns their
 * number.  Call it before the plans of a turn of the loop. */
size_t fleet_place(struct fleet *f, const struct fleet_move **moves);
/* Evens out the groups when no sequence waits in the queue: see placement.h. */
size_t fleet_balance(struct fleet *f, const struct fleet_move **moves);
/* One move, of a replay.  Errors of sched_move; ST_RANGE: no such schedulers. */
MUST_CHECK enum status fleet_move(struct fleet *f, const struct fleet_move *m);

/* As sched_plan and sched_commit, of group g; g FLEET_QUEUE: a plan ends the waiting sequences whose deadline has
 * passed.  Group g must have been opened once. */
bool fleet_plan(struct fleet *f, uint32_t g, uint64_t now_us, struct step_plan *out,
                struct sched_effect *fx, size_t fx_cap, size_t *n_fx);
MUST_CHECK enum status fleet_commit(struct fleet *f, uint32_t g, const struct step_result *r,
                                    struct sched_effect *fx, size_t fx_cap, size_t *n_fx);

/* Scheduler i; NULL: it was never opened. */
const struct sched *fleet_sched(const struct fleet *f, uint32_t i);
/* All schedulers together; blocks: of the open groups. */
void fleet_stats(const struct fleet *f, struct sched_stats *out);

/* Restores scheduler i of a newly created fleet: see sched_restore.  open: the group serves. */
MUST_CHECK enum status fleet_restore(struct fleet *f, uint32_t i, bool open,
                                     const struct sched_req *reqs, uint32_t n_reqs,
                                     const void *data, size_t n);

/* sched_check of all, and that no sequence is in two schedulers.  For tests (slow). */
void fleet_check(const struct fleet *f);

#endif
