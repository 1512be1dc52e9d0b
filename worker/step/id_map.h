/* Sequence ids to small numbers: open addressing with linear probing, sized at start, deletion by
 * moving later entries back (Knuth, The Art of Computer Programming 3, 6.4 algorithm R).  Id 0 is
 * never used. */
#ifndef WORKER_STEP_ID_MAP_H
#define WORKER_STEP_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct id_map {
    uint64_t *key; /* [mask + 1], 0 = free */
    int32_t *value;
    size_t mask;
};

/* Room for max entries. */
MUST_CHECK enum status id_map_init(struct id_map *m, size_t max);
void id_map_fini(struct id_map *m);
void id_map_clear(struct id_map *m);

/* -1 when absent. */
int32_t id_map_get(const struct id_map *m, uint64_t key);
/* The key is absent and there is room. */
void id_map_put(struct id_map *m, uint64_t key, int32_t value);
/* Does nothing when absent. */
void id_map_remove(struct id_map *m, uint64_t key);

#endif
