/* What a model is and what each rank of a world would take, without loading it: for `ingot inspect
 * MODEL --tp N`, which runs the worker program with --inspect. */
#ifndef WORKER_INSPECT_H
#define WORKER_INSPECT_H

#include <stdbool.h>
#include <stdio.h>

#include "worker/options.h"

/* Writes configuration, tensors, shards and the memory plan of each of opt->tp ranks, which share
 * this host, to out, as text or (opt->json) as one JSON object in one line.  The plan is that of
 * rank_plan.h: a group that starts with these options takes the same number of KV blocks.  Where
 * the model does not fit the report says so and has blocks for one sequence.  Every tensor's name,
 * shape and type is checked.  Fails as loader_open and rank_plan_init do, before anything is
 * written. */
MUST_CHECK enum status inspect_model(FILE *out, const struct worker_options *opt,
                                     struct backend *be);

/* The backend's device in a line, "device: ...". */
void inspect_device(FILE *f, struct backend *be);

#endif
