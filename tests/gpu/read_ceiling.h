/* The fastest that the device reads its memory: what memory-bound kernels are compared with. */
#ifndef TESTS_GPU_READ_CEILING_H
#define TESTS_GPU_READ_CEILING_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"

/* Enqueues one pass of 16-byte loads over data, contiguous f32, less than a few hundred KiB of its
 * end.  out: read_ceiling_out_bytes of any contents.  be: the CUDA backend. */
MUST_CHECK enum status read_ceiling(struct backend *be, struct view data, struct view out);
size_t read_ceiling_out_bytes(const struct backend *be);

#ifdef __cplusplus
}
#endif

#endif
