/* This rank's share of its host. */
#ifndef WORKER_HOST_SHARE_H
#define WORKER_HOST_SHARE_H

#include "collectives/control.h"

struct host_share {
    int threads;    /* so that the ranks of a host together use no more than it lets them */
    bool bound;     /* this call gave the rank cores of its own */
    char cores[64]; /* that it may run on, "0-3,8"; cut when there are many pieces; "" not known */
};

/* Whether the ranks of a host have cores of their own or share one set (they all see the same).
 * With bind a shared set is divided: local rank i of n takes the i-th n-th, and this thread and
 * those that it starts run there.  Nothing is bound where a quota lets the process use fewer cores
 * than the set has: others use them too.  Collective over all ranks. */
MUST_CHECK enum status host_share_take(const struct control_info *ci, bool bind,
                                       struct host_share *out);

/* Threads of each of n ranks that share what this process may use: at least 1. */
int host_share_threads(int n);

#endif
