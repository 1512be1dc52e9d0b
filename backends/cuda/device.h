/* What collectives need of an open CUDA backend: they enqueue on its stream and read and write its
 * buffers.  No other file looks inside. */
#ifndef BACKENDS_CUDA_DEVICE_H
#define BACKENDS_CUDA_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"

/* Is this backend the CUDA one?  The functions below are for no other. */
bool cuda_is(const struct backend *be);

/* Device address of the view's first element. */
void *cuda_device_ptr(struct view v);

/* The backend's one stream (a cudaStream_t); the calling thread's device must be the backend's. */
void *cuda_stream(struct backend *be);

/* Ordinal of the device. */
int cuda_ordinal(const struct backend *be);

/* fn is asked again and again while the host waits for this device, with the microseconds waited so
 * far; its failure ends the wait.  NULL: no rank is asked. */
void cuda_watch(struct backend *be, enum status (*fn)(void *ctx, uint64_t waited_us), void *ctx);

/* out [n] f32 = the reduction (enum reduce_op of collectives/coll.h) of parts [world, n] f32 in the
 * order of that header: neighbours first, an odd last operand moving up.  1 <= world <= 64. */
MUST_CHECK enum status cuda_reduce_tree(struct backend *be, struct buf *parts, int world, size_t n,
                                        int op, struct view out);

/* Makes the backend's device the calling thread's. */
MUST_CHECK enum status cuda_use(struct backend *be);

#ifdef __cplusplus
}
#endif

#endif
