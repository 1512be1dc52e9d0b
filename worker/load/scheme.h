/* How a HuggingFace folder stores its matrices, in words and in numbers.  Called by worker/inspect.c. */
#ifndef WORKER_LOAD_SCHEME_H
#define WORKER_LOAD_SCHEME_H

#include "worker/load/loader.h"

enum { SCHEME_SIZE = 200 };

/* "gptq: 4 bits, groups of 128 columns, zero points; activations in 8 bits (Metal: f32)": those of each backend,
 * in brackets where one differs; "" where matrices are floats or a GGUF file's blocks.  f32: with --activations f32. */
void weights_scheme(const struct loader *ld, bool f32, char out[SCHEME_SIZE]);

/* The weights that the elements of a stored tensor are: a word of packed integers is several, a scale
 * is none. */
uint64_t weights_in(const struct model_config *mc, const struct stored_tensor *t);

#endif
