/* Decode steps as graphs: all that a step of step_batch sequences enqueues between its upload and
 * its download, recorded once for each batch at start and launched as one.  Addresses and shapes
 * are those of the padded steps of worker/step; lengths, edits and the rules of the draws are read
 * from the device, so that one graph serves whatever its rows want.  Called by the rank's main
 * thread. */
#ifndef WORKER_GRAPHS_H
#define WORKER_GRAPHS_H

#include "worker/model/decoder.h"
#include "worker/step/step.h"

struct graphs;

struct graphs_config {
    struct backend *be;
    struct step *step;
    int32_t most; /* largest batch */
    /* Enqueues a padded step whose arrays are uploaded; *logits as of decoder_forward. */
    enum status (*enqueue)(void *ctx, const struct step_dev *dev, struct view *logits);
    void *ctx;
    bool prepared; /* the ops have run in these shapes: they are recorded at once */
};

/* An estimate of what the driver takes for the graphs of all batches, for the memory plan. */
size_t graphs_bytes(const struct model_config *mc, int32_t most);

/* Runs a step of pads of each batch, unless that is prepared, and records it. */
MUST_CHECK enum status graphs_create(struct graphs **out, const struct graphs_config *cfg);
void graphs_destroy(struct graphs *g);

/* Launches the graph of a padded step; *logits is what enqueue gave. */
MUST_CHECK enum status graphs_launch(struct graphs *g, const struct step_dev *dev,
                                     struct view *logits);

/* How many there are. */
int graphs_count(const struct graphs *g);

#endif
