/* Files with compiled kernels in a folder, KEY-DIGEST.archive: KEY is of what they were compiled from
 * and for, DIGEST of the file's bytes, so that a damaged file is known before Metal reads it.
 * Files are given their names by renaming; any number of processes may read and write. */
#ifndef BACKENDS_METAL_ARCHIVE_FILES_H
#define BACKENDS_METAL_ARCHIVE_FILES_H

#include <stdbool.h>

#include "common/status.h"

enum {
    ARCHIVE_DIGITS = 32, /* of a key and of a digest: half of a SHA-256 */
    ARCHIVE_PATH = 4096,
    ARCHIVE_FILES = 4, /* kept of all keys */
};

struct archive_files {
    char dir[ARCHIVE_PATH - 128];
    char key[ARCHIVE_DIGITS + 1];
    char path[ARCHIVE_PATH]; /* the key's file; "": none */
};

/* The key of n texts. */
void archive_key(const char *const *text, int n, char out[ARCHIVE_DIGITS + 1]);

/* The newest file of the key into path, "": none; its time becomes now.  One that is damaged is
 * logged and removed. */
void archive_find(struct archive_files *f);

/* Where the next file is to be written. */
void archive_temporary(const struct archive_files *f, char out[ARCHIVE_PATH]);

/* Gives the temporary file its name, in place of that at `path`, and removes the files of the folder
 * that have not been used for the longest time, but for ARCHIVE_FILES.  ST_IO: the temporary file is gone. */
MUST_CHECK enum status archive_keep(struct archive_files *f, const char *temporary);

/* Removes the file at `path`, which is of no use. */
void archive_drop(struct archive_files *f);

#endif
