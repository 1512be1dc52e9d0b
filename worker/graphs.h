/* Decode steps as graphs: the embedding of fed tokens and all layers of a step of step_batch
 * sequences, recorded once for each batch at start and launched as one.  Addresses and shapes are
 * those of the padded steps of worker/step; lengths are read from their arrays.  What follows the
 * layers (edits, top k, draws) stays outside, because edits come from the host.  Called by the
 * rank's main thread. */
#ifndef WORKER_GRAPHS_H
#define WORKER_GRAPHS_H

#include "worker/model/decoder.h"
#include "worker/step/step.h"

struct graphs;

struct graphs_config {
    struct backend *be;
    struct decoder *model;
    struct step *step;
    int32_t most;     /* largest batch */
    struct view last; /* [max_seqs, 1] i32 ids that the device drew, for take_tokens */
};

/* An estimate of what the driver takes for the graphs of all batches, for the memory plan. */
size_t graphs_bytes(const struct model_config *mc, int32_t most);

/* Runs a step of pads of each batch and records it. */
MUST_CHECK enum status graphs_create(struct graphs **out, const struct graphs_config *cfg);
void graphs_destroy(struct graphs *g);

/* Launches the graph of a padded step; *logits as of decoder_forward. */
MUST_CHECK enum status graphs_launch(struct graphs *g, const struct step_dev *dev,
                                     struct view *logits);

/* How many there are. */
int graphs_count(const struct graphs *g);

#endif
