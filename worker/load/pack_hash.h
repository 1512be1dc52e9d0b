/* The hash of a weight's packed bytes: over pieces, so that several threads share the work. */
#ifndef WORKER_LOAD_PACK_HASH_H
#define WORKER_LOAD_PACK_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/pool.h"

/* One thread: eight chains over words of 8 bytes.  Each step can be undone, so one changed word always
 * changes the result. */
uint64_t pack_hash_piece(const void *data, size_t n);

enum { PACK_HASH_PIECE = 256 << 10 }; /* bytes */

/* The sum of the mixed hashes of pieces, each with its number: a changed word always changes the
 * result.  By the pool, with the same result for any number of threads. */
uint64_t pack_hash(struct pool *pool, const void *data, size_t n);

#endif
