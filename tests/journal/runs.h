/* Journals of random runs, in a folder of the test's own, and their replay.  Any failure is a failed assertion. */
#ifndef TESTS_JOURNAL_RUNS_H
#define TESTS_JOURNAL_RUNS_H

#include "coordinator/journal/replay.h"

enum { MAX_FILES = 4096, MEMORY = 64 << 20 /* bytes that a replay may allocate */ };

extern char dir[64]; /* of make_dir */
extern const struct sched_config
    small; /* few places and blocks: sequences wait and are preempted */

struct file {
    unsigned char *data; /* freed by the caller */
    size_t n;
};

void make_dir(void);
void remove_dir(void);
/* The journals in dir, in order; their number. */
size_t file_names(char (*names)[64]);
struct file read_file(const char *name);

/* Replays all of it; sum is set when that went well. */
MUST_CHECK enum status replay_all(const unsigned char *data, size_t n, struct replay_summary *sum);

/* The only journal of a run of so many calls, by that configuration and by small. */
struct file run_of(const struct sched_config *cfg, uint64_t n_calls);
struct file one_run(uint64_t n_calls);

#endif
