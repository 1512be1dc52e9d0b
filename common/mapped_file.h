/* A whole file mapped read-only.  Owner: whoever opened it.  The bytes stay valid until close; a
 * file that another process truncates meanwhile is a fault of that process (SIGBUS), as with every
 * mmap. */
#ifndef COMMON_MAPPED_FILE_H
#define COMMON_MAPPED_FILE_H

#include <stddef.h>

#include "common/status.h"

struct mapped_file {
    const unsigned char *data;
    size_t size; /* bytes */
};

/* ST_NOT_FOUND, ST_IO; an empty file is data = "" and size = 0. */
MUST_CHECK enum status mapped_file_open(struct mapped_file *f, const char *path);
void mapped_file_close(struct mapped_file *f);

#endif
