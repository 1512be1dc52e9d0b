#include "client/cli/group_job.h"

#include <signal.h>

#include "common/clock.h"

enum { LOOK_US = 500 * 1000 };

enum status group_job_start(struct group_job *g, const struct child_args *a, uint64_t launch)
{
    g->launch = launch;
    g->started_us = clock_us();
    g->start_at_us = g->stopped_us = g->looked_us = 0;
    g->joined = g->ending = false;
    g->n_ranks = 0;
    return child_start(&g->pid, a, -1);
}

static void find_ranks(struct group_job *g)
{
    g->n_ranks = child_children(g->pid, g->ranks, MAX_JOB_RANKS);
}

void group_job_kill(struct group_job *g)
{
    if (!g->pid)
        return;
    g->ending = true;
    find_ranks(g);
    kill(g->pid, SIGKILL);
    for (int i = 0; i < g->n_ranks; i++)
        kill(g->ranks[i], SIGKILL);
}

static bool any_stopped(const struct group_job *g)
{
    for (int i = 0; i < g->n_ranks; i++)
        if (child_state(g->ranks[i]) == CHILD_STOPPED)
            return true;
    return child_state(g->pid) == CHILD_STOPPED;
}

uint64_t group_job_stopped_since(struct group_job *g, uint64_t now_us)
{
    if (now_us - g->looked_us < LOOK_US)
        return g->stopped_us;
    if (!g->joined || !g->n_ranks) /* later there are no new ones */
        find_ranks(g);
    g->looked_us = now_us;
    if (!any_stopped(g))
        g->stopped_us = 0;
    else if (!g->stopped_us)
        g->stopped_us = now_us;
    return g->stopped_us;
}

bool group_job_is_gone(const struct group_job *g)
{
    for (int i = 0; i < g->n_ranks; i++)
        if (child_state(g->ranks[i]) != CHILD_ENDED)
            return false;
    return true;
}
