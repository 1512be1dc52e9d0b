/* A worker group as a job of this machine: mpirun and its ranks, or the only rank.  Used by the
 * supervisor; one thread. */
#ifndef CLIENT_CLI_GROUP_JOB_H
#define CLIENT_CLI_GROUP_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/cli/child.h"

enum { MAX_JOB_RANKS = 1024 };

struct group_job {
    pid_t pid;             /* of mpirun, or of the only rank; 0: not running */
    uint64_t launch;       /* random, of the last start: the coordinator names the group by it */
    uint64_t started_us;   /* the last time */
    uint64_t start_at_us;  /* when to start it; 0: it runs, or there is nothing to start yet */
    uint64_t ended_us;     /* when its job ended last */
    uint32_t quick_deaths; /* in a row, each at once after the start */
    bool ending;           /* it was killed and not reaped yet */
    bool joined;           /* since its last start the coordinator has seen it */
    uint64_t looked_us;    /* when its ranks were looked at last */
    uint64_t stopped_us;   /* since when one of them is stopped (SIGSTOP); 0: none is */
    int n_ranks;
    pid_t ranks[MAX_JOB_RANKS]; /* under mpirun: the processes as far as they are known */
};

/* Starts the command as a new job. */
MUST_CHECK enum status group_job_start(struct group_job *g, const struct child_args *a,
                                       uint64_t launch);
/* Kills every process of the job; the caller reaps g->pid. */
void group_job_kill(struct group_job *g);
/* Since when a rank has been stopped, in us of clock_us; 0: none is.  Looks at most twice a second. */
uint64_t group_job_stopped_since(struct group_job *g, uint64_t now_us);
/* After the job's end: have its ranks ended too, so that their memory is free? */
bool group_job_is_gone(const struct group_job *g);

#endif
