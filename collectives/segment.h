/* Memory that processes of one host share: a POSIX shared memory object, mapped by name.  The
 * creator unlinks the name as soon as all have mapped it.  If it dies before, the next segment_create of this user on
 * the host unlinks it (Linux): the creator holds a lock on the object (flock), which ends with the process. */
#ifndef COLLECTIVES_SEGMENT_H
#define COLLECTIVES_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct segment {
    void *at; /* zeroed at creation, page aligned; NULL: none */
    size_t bytes;
    int lock; /* its descriptor + 1 in the creator; 0: none */
};

/* Unlinks what dead creators left, then creates name ("/ingot-..."), readable by this user only, with memory behind every byte.
 * ST_BUSY: the name exists. */
MUST_CHECK enum status segment_create(struct segment *out, const char *name, size_t bytes);

/* Maps what another process creates, waiting for it.  ST_TIMEOUT; ST_PEER when it is of another
 * size or another user's. */
MUST_CHECK enum status segment_open(struct segment *out, const char *name, size_t bytes,
                                    uint32_t timeout_ms);

/* The name is no more; mappings stay.  No error when there is none. */
void segment_unlink(const char *name);
void segment_unmap(struct segment *s);

/* What a segment of that size takes: whole pages. */
size_t segment_bytes(size_t bytes);

#endif
