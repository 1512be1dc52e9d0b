/* Which worker group runs a sequence.  Pure functions over a few numbers of each group; fleet.h calls them.
 *
 * Choice.  A sequence of T known tokens goes to the group with the least
 *
 *     SEQ_COST x live + todo + (T - known)
 *
 * of those that serve and have room: live sequences, tokens of their prompts that are not computed yet, and the
 * sequence's own tokens that this group would have to compute.  Of equal groups the first one is taken.  So sequences go
 * where their prefix is cached, unless that group has about known / SEQ_COST more sequences than another; without
 * cached prefixes, live + todo / SEQ_COST of two groups that have room differ by at most 1 + T / SEQ_COST.
 *
 * Room.  Few sequences wait in a group before they run: AHEAD_OPENS if it runs fewer than it can, so that a step can
 * open as many as it may, else AHEAD_TURNS, so that turns can end.  Only those count that have at least the sequence's
 * priority.  All others wait in the queue, so the queue's order holds over all groups: at most AHEAD_OPENS sequences of
 * each group pass one that arrives after they were placed.
 *
 * Balance.  Sequences move from the group with the most to the one with the fewest live ones, until these are equal,
 * when the first has at least twice as many and two more.  So of two groups under load each has at least a quarter of
 * the sequences. */
#ifndef COORDINATOR_SCHED_PLACEMENT_H
#define COORDINATOR_SCHED_PLACEMENT_H

#include "coordinator/sched/sched.h"

enum { SEQ_COST = 256, AHEAD_OPENS = 16, AHEAD_TURNS = 2 };

struct placement_group {
    bool serves;
    bool fits; /* its blocks suffice for the sequence */
    uint32_t max_seqs;
    struct sched_load load; /* fresh: of at least the sequence's priority */
    uint32_t
        known; /* of the sequence's tokens: see sched_known_tokens; not looked at without room */
};

/* "Room" above; looks at everything but known. */
bool placement_has_room(const struct placement_group *g);

/* The index of the group that a sequence of n_tokens known tokens goes to; -1: it waits. */
int placement_choose(const struct placement_group *groups, uint32_t n, uint32_t n_tokens);

/* Looks at serves and load.live.  Returns how many sequences go from group *from to group *to; 0: none. */
uint32_t placement_balance(const struct placement_group *groups, uint32_t n, uint32_t *from,
                           uint32_t *to);

#endif
