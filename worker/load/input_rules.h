/* How the input of a quantised matrix is rounded (struct input_rule): by the configuration's scheme where the matrix is
 * stored quantised, not at all where it is not.  Called by weights.c. */
#ifndef WORKER_LOAD_INPUT_RULES_H
#define WORKER_LOAD_INPUT_RULES_H

#include "backends/backend.h"
#include "worker/load/loader.h"
#include "worker/load/shard.h"
#include "worker/load/weight_ids.h"

/* A weight of a rank. */
struct input_site {
    struct loader *ld;
    const struct shard *sh;
    enum weight_id id;
    bool is_stack;
    int32_t layer, expert; /* expert: of a stack */
};

/* Sets the rules of out's parts, which are those tensors.  ST_UNSUPPORTED names a matrix whose input cannot be rounded,
 * ST_NOT_FOUND and ST_FORMAT its scale. */
MUST_CHECK enum status input_rules(struct weight_src *out, const struct input_site *w,
                                   const enum tensor_id *part);

/* Has a group of columns that share a scale some of several of `world` ranks?  The same for every rank. */
bool inputs_shared(const struct model_config *mc, int world, enum axis cols, int32_t layer);

#endif
