/* The digest of a file's bytes: a tree of blocks, so that all cores can work on it.
 *
 *   leaf_i = SHA-256(bytes of block i)                 blocks of FILE_DIGEST_BLOCK bytes
 *   digest = SHA-256("ingot file digest 1\n", size as u64 little-endian, leaf_0, leaf_1, ...)
 *
 * A file is hashed by one process of a host: the others wait for its lock and then find the result
 * in the cache.  Any thread. */
#ifndef COMMON_DIGEST_FILE_DIGEST_H
#define COMMON_DIGEST_FILE_DIGEST_H

#include <stdatomic.h>

#include "common/digest/digest_cache.h"

enum { FILE_DIGEST_BLOCK = 4 << 20 };

struct file_digest_job {
    struct digest_cache *cache;
    int n_threads;           /* >= 1, the caller's included */
    bool locked;             /* one process at a time; without a cache folder none */
    bool needs_lock;         /* ST_IO where there can be no lock */
    const atomic_bool *stop; /* set by another thread: ST_CANCELED soon.  NULL: never */
    /* Called by the calling thread now and then, with the file's bytes read so far.  NULL: none */
    void (*progress)(void *ctx, uint64_t n_bytes);
    void *progress_ctx;
};

/* ST_NOT_FOUND, ST_IO; ST_BUSY: the file was changed while it was read. */
MUST_CHECK enum status file_digest(const char *path, const struct file_digest_job *job,
                                   uint8_t out[SHA256_BYTES]);

#endif
