/* What pack_id of every backend hashes: the result of packing, so that no version number has to be
 * maintained.  Pure but for pack. */
#ifndef BACKENDS_PACK_PROBE_H
#define BACKENDS_PACK_PROBE_H

#include "backends/backend.h"

/* For each type of matrices: adds the packed bytes of `one`, and of `stack`, two in slices, to *hash.
 * Their elements are made up; the backend passes over types that it has not. */
typedef enum status (*pack_probe_fn)(struct backend *be, const struct weight_src *one,
                                     const struct weight_src *stack, uint64_t *hash);

/* *id begins as the backend's own hash, such as that of its name.  ST_NOMEM, or what pack fails with. */
MUST_CHECK enum status pack_probe(struct backend *be, pack_probe_fn pack, uint64_t *id);

#endif
