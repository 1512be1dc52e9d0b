/* What the layers of a step begin with.  Called by forward.c; private to worker/model. */
#ifndef WORKER_MODEL_INPUTS_H
#define WORKER_MODEL_INPUTS_H

#include "worker/model/scratch.h"

/* s->resid: [T,D], rows of the embedding, of an encoder with those of types and positions. */
MUST_CHECK enum status inputs_embed(struct decoder *m, const struct step_dev *st,
                                    const struct scratch *s);

/* s->inputs: [T, L P], of each layer (norm(W resid / sqrt(D)) + row sqrt(P)) / sqrt(2); P is d_input.  Needs s->resid. */
MUST_CHECK enum status inputs_of_layers(struct decoder *m, const struct step_dev *st,
                                        const struct scratch *s);

#endif
