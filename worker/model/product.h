/* Products with a layer's matrices, whose inputs are rounded first where the checkpoint asks for it.  Private to
 * worker/model. */
#ifndef WORKER_MODEL_PRODUCT_H
#define WORKER_MODEL_PRODUCT_H

#include "worker/model/scratch.h"

/* out [T, N] = in [T, K] with weight id of the layer. */
MUST_CHECK enum status product(struct decoder *m, const struct layer *l, enum weight_id id,
                               struct view in, struct view out);

/* out, or with the matrix as its reader: where the backend has the output of such an op as the matrix's operand, and
 * the checkpoint asks for no rounding of its input.  For an output that this product alone reads. */
struct view input_of(const struct decoder *m, const struct layer *l, enum weight_id id,
                     enum operand_source from, struct view out);

/* out [T, F] = act_mul of mid [T, 2 F] = in [T, K] with weight id of the layer; mid is written, or not. */
MUST_CHECK enum status product_act_mul(struct decoder *m, const struct layer *l, enum weight_id id,
                                       struct view in, struct view mid, struct view out);

/* out [R, V] = in [R, D] with the head. */
MUST_CHECK enum status product_head(struct decoder *m, struct view in, struct view out);

/* out [T, D]: this rank's part of the experts that s->ids and s->weights choose, of in [T, D]. */
MUST_CHECK enum status experts(struct decoder *m, const struct layer *l, struct view in,
                               const struct scratch *s, struct view out);

#endif
