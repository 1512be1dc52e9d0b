/* Packed weights of one rank in a file, so that the next start reads instead of packing.
 *
 *   header   magic, key, origin, number of entries, hash of everything up to the first entry's data
 *   entries  weight, layer, offset, bytes, hash of the data
 *   data     at 64-byte boundaries
 *
 * Integers have the machine's byte order: a file is never moved to another machine.  A file is
 * written under a temporary name, locked, and renamed when it is complete; a file that is not exactly
 * as it was written is not used.  A new file replaces the files of the same origin that can never be
 * used again: those of other contents of the model, those of the same rank and world in another
 * packing, and temporary files without a writer.  A backend that can map packed weights is given a file
 * that is there, and has its mapping until it is closed.  Main thread. */
#ifndef WORKER_LOAD_PACK_CACHE_H
#define WORKER_LOAD_PACK_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/backend.h"
#include "common/pool.h"
#include "worker/load/loader.h"

struct pack_key {
    uint64_t model;   /* what the files hold */
    uint64_t stamp;   /* their sizes and times: pack_model_stamp */
    uint64_t packing; /* backend_ops.pack_id */
    int32_t rank, world;
};

/* Where a model lies: a hash of its path. */
MUST_CHECK enum status pack_model_origin(const char *model, uint64_t *origin);

struct pack_entry {
    int32_t weight, layer;
    uint64_t offset, n_bytes, hash;
};

struct pack_cache;

/* Over names, sizes and modification times of the model's files. */
MUST_CHECK enum status pack_model_stamp(const char *model, uint64_t *stamp);

/* "MODEL.ingot-cache" */
MUST_CHECK enum status pack_cache_dir(const char *model, char *dir, size_t size);

/* The file of that key in dir, all of it checked; when there is none, or one that is damaged
 * (logged, removed), a new one is begun.  max_entries: of a new one.  Fails where no file can be
 * made. */
MUST_CHECK enum status pack_cache_open(struct pack_cache **out, const char *dir,
                                       const struct pack_key *key, uint64_t origin,
                                       int32_t max_entries);

/* The packed bytes; false: not there. */
bool pack_cache_find(const struct pack_cache *c, int32_t weight, int32_t layer, const void **data,
                     size_t *n_bytes);

/* For a file that is being written: appends.
 * When the disk is full the file is given up, logged. */
void pack_cache_add(struct pack_cache *c, int32_t weight, int32_t layer, const void *data,
                    size_t n_bytes);

/* Were the weights read from the file? */
bool pack_cache_is_hit(const struct pack_cache *c);

/* ok: a file that was being written is whole, and takes its name; those that it replaces are
 * removed, logged.  Else it is removed. */
void pack_cache_close(struct pack_cache *c, bool ok);

/* Opens the cache of a rank's share and gives it to the loader, for the decoder that is loaded
 * next; close it after that.  dir: NULL = beside the model.  NULL where there can be none: logged.
 */
struct pack_cache *pack_cache_attach(struct loader *ld, const char *model, const char *dir,
                                     struct backend *be, int rank, int world);

/* Parses and checks a whole file, by the pool: *entry points into data [*n].  ST_FORMAT names what is
 * wrong. */
MUST_CHECK enum status pack_file_parse(const void *data, size_t len, const struct pack_key *key,
                                       struct pool *pool, const struct pack_entry **entry,
                                       size_t *n);

#endif
