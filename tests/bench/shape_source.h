/* Models without files: the sizes of well-known ones, every tensor random and of one type, for
 * benchmarks. */
#ifndef TESTS_BENCH_SHAPE_SOURCE_H
#define TESTS_BENCH_SHAPE_SOURCE_H

#include "worker/load/loader.h"

/* "llama-3.2-1b qwen3-0.6b 200m tiny small" */
const char *shape_names(void);

/* type: of all matrices; head_type: of the embedding, which is the head too.  Norms are f32.
 * ST_NOT_FOUND: no such shape. */
MUST_CHECK enum status shape_loader_open(struct loader **out, const char *shape, enum dtype type,
                                         enum dtype head_type);

#endif
