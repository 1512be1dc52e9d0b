/* The journal's files: DIR/NAME-00000001.journal and so on, the oldest deleted.  The folder is locked: it has one
 * writer.  A file has its name from the moment on at which its beginning is whole. */
#ifndef COORDINATOR_JOURNAL_FILES_H
#define COORDINATOR_JOURNAL_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

/* What is kept besides the two newest files, which a restart needs. */
struct journal_bounds {
    uint64_t max_bytes; /* of all files; 0: no bound */
    uint64_t max_age_s; /* since the last write; 0: no bound */
};

struct journal_files {
    char prefix[3800]; /* "DIR/NAME" */
    char dir[3700];
    char name[64];
    struct journal_bounds bounds;
    uint32_t last; /* number of the newest file */
    int lock;      /* DIR/.NAME.lock, -1: closed */
};

/* Makes the folder when it is not there, locks it and finds the newest file in it.  ST_RANGE, also when another
 * process writes there; ST_IO. */
MUST_CHECK enum status journal_files_open(struct journal_files *f, const char *dir,
                                          const char *name, const struct journal_bounds *bounds);

/* Unlocks the folder; f may be zeros with lock -1. */
void journal_files_close(struct journal_files *f);

/* Creates the next file, for its owner only, under a temporary name.  ST_IO, ST_RANGE. */
MUST_CHECK enum status journal_files_next(struct journal_files *f, int *fd);
/* Its beginning is written: it gets its name, and the oldest files are deleted until the others and `room` bytes fit the
 * bounds.  ST_IO. */
MUST_CHECK enum status journal_files_keep(struct journal_files *f, uint64_t room);
/* It could not be written. */
void journal_files_drop(struct journal_files *f);

enum { JOURNAL_PATH_BYTES = 4000 };
/* The newest file but `back`; false: there is none. */
bool journal_files_path(const struct journal_files *f, uint32_t back,
                        char path[JOURNAL_PATH_BYTES]);

#endif
