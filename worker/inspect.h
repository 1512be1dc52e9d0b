/* What a model is and what each rank of a world would take, without loading it: for `ingot inspect
 * MODEL
 * --tp N`, which runs the worker program with --inspect. */
#ifndef WORKER_INSPECT_H
#define WORKER_INSPECT_H

#include <stdbool.h>
#include <stdio.h>

#include "worker/model/decoder.h"

/* Writes configuration, tensors, shards and the memory plan of every rank of cfg->world to out, as
 * text or as one JSON object in one line.  cfg as for decoder_open but: rank is not looked at,
 * max_ctx 0 is the model's, n_blocks 0 is what one sequence of max_ctx tokens needs.  Every
 * tensor's name, shape and type is checked.  Fails as loader_open and decoder_plan_memory do,
 * before anything is written. */
MUST_CHECK enum status inspect_model(FILE *out, const char *path, struct backend *be,
                                     const struct decoder_config *cfg, bool json);

#endif
