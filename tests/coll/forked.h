/* Ranks as forked processes. */
#ifndef TESTS_COLL_FORKED_H
#define TESTS_COLL_FORKED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "coll/conformance.h"

enum { MAX_FORKED = 8, FORKED_LONG_MS = 240000, FORKED_SHORT_MS = 4000 };

struct job {
    int world;
    uint64_t session; /* fresh */
    uint32_t deadline_ms;
    pid_t pid[MAX_FORKED];
};

/* What a rank does after it has opened "shm"; its result is its number of failures. */
typedef int rank_case(struct coll *c, struct backend *be);

void job_init(struct job *job, int world, uint32_t deadline_ms);

/* The configuration of one rank on a backend of host memory. */
struct coll_config job_config(const struct job *job, int rank);

/* Forks one rank that opens "shm", runs the case, closes and exits. */
void job_start(struct job *job, int rank, rank_case *run);

/* Waits for a rank: its exit status, or -signal. */
int job_wait(struct job *job, int rank);

/* Does the name of the job's segment exist? */
bool job_has_segment(const struct job *job);

#endif
