/* The tensors that a quantised matrix NAME.weight of a HuggingFace folder is made of, by the ends of their
 * names: NAME.qweight, NAME.weight_scale ...  Called by ints.c and fp4.c. */
#ifndef WORKER_LOAD_SITE_H
#define WORKER_LOAD_SITE_H

#include "worker/load/loader.h"

/* A matrix: pattern is the name of a tensor table's row ("model.layers.#.mlp.up_proj.weight"). */
struct site {
    struct loader *ld;
    const char *pattern;
    int32_t layer, expert;
};

/* Is there a tensor whose name has `end` in place of "weight"?  *out is it. */
bool site_has(const struct loader *ld, const char *pattern, int32_t layer, int32_t expert,
              const char *end, struct stored_tensor *out);

/* That tensor, [rows], or [rows, cols] with cols > 0, of the type that loader_parts understands;
 * rows 0: a single number, [] or [1].  Fails as loader_parts does. */
MUST_CHECK enum status site_part(const struct site *s, const char *end, const char *type,
                                 uint64_t rows, uint64_t cols, struct stored_tensor *out);

#endif
