/* The journal's files: DIR/NAME-00000001.journal and so on, the oldest deleted. */
#ifndef COORDINATOR_JOURNAL_FILES_H
#define COORDINATOR_JOURNAL_FILES_H

#include <stdint.h>

#include "common/status.h"

struct journal_files {
    char prefix[3800]; /* "DIR/NAME" */
    char dir[3700];
    char name[64];
    uint32_t max_files;
    uint32_t last; /* number of the newest file */
};

/* Makes the folder when it is not there, and finds the newest file in it.  ST_RANGE, ST_IO. */
MUST_CHECK enum status journal_files_open(struct journal_files *f, const char *dir,
                                          const char *name, uint32_t max_files);

/* Creates the next file, for its owner only, and deletes those that are too many.  ST_IO. */
MUST_CHECK enum status journal_files_next(struct journal_files *f, int *fd);

#endif
