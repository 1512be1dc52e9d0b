/* Makes the list of the new file's tensors. */
#ifndef WORKER_QUANTIZE_PIECES_MAKE_H
#define WORKER_QUANTIZE_PIECES_MAKE_H

#include "worker/quantize/pieces.h"

/* ld: a GGUF file (all its tensors as they are) or a HuggingFace folder: renamed, q and k in the order of GGUF, fused
 * tensors split or joined and experts stacked as the architecture's files have them.  ST_UNSUPPORTED names what GGUF
 * cannot say. */
MUST_CHECK enum status pieces_make(struct pieces *out, struct loader *ld, const struct choice *c);

#endif
