/* Several residual streams (AltUp, Baykal et al. 2023, arXiv 2301.13310), of which a layer computes one, and LAuReL (Menghani
 * et al. 2024, arXiv 2411.07501) beside attention.  All their matrices are whole on every rank.  Called by forward.c; private
 * to worker/model. */
#ifndef WORKER_MODEL_STREAMS_H
#define WORKER_MODEL_STREAMS_H

#include "worker/model/scratch.h"

/* s->streams from s->resid [T,D]: the first one is that, each other a product with it of the same root mean square. */
MUST_CHECK enum status streams_begin(struct decoder *m, const struct scratch *s);

/* Before a layer: each stream becomes its prediction, a sum of all streams with coefficients that the active one decides;
 * s->resid becomes the active one. */
MUST_CHECK enum status streams_predict(struct decoder *m, const struct layer *l,
                                       const struct scratch *s);

/* s->laurel: [T,D], in + norm(right (left in)); in [T,D], which is not s->out.  s->out is overwritten. */
MUST_CHECK enum status streams_laurel(struct decoder *m, const struct layer *l, struct view in,
                                      const struct scratch *s);

/* Behind a layer: each stream gains what the layer's result, s->resid [T,D], differs in from the predicted active one, with
 * coefficients that the result decides; s->resid becomes the active one, times its factors.  s->h is overwritten. */
MUST_CHECK enum status streams_correct(struct decoder *m, const struct layer *l,
                                       const struct scratch *s);

/* x [T,D] to all streams but the first. */
MUST_CHECK enum status streams_add(struct decoder *m, struct view x, const struct scratch *s);

/* s->resid: [T,D], the mean of the first stream and, of each other, a product with the root mean square of the first. */
MUST_CHECK enum status streams_end(struct decoder *m, const struct scratch *s);

#endif
