/* The worker groups: joining, losing, planning steps and taking their results.  Called by the loop. */
#ifndef COORDINATOR_GROUPS_H
#define COORDINATOR_GROUPS_H

#include "coordinator/coordinator.h"

/* Sets the facts that a group must have, from all that is known now. */
void groups_require(struct coordinator *co);
/* Carries out the events of the worker groups. */
void groups_receive(struct coordinator *co, uint64_t now_us);
/* Places waiting sequences, then plans and sends the next step of each active group that can take one. */
void groups_plan(struct coordinator *co, uint64_t now_us);
/* The timers: requests that have had no group for group_wait_ms fail, and groups are evened out. */
void groups_tend(struct coordinator *co, uint64_t now_us);
/* Is there an active group? */
bool groups_ready(struct coordinator *co);

#endif
