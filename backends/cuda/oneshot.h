/* One-shot collectives among the devices of one host: each rank writes its operand where the
 * others' kernels can read it, and every rank computes all of the result.  For small messages,
 * where a launch and one round of flags is most of the time.  The technique is that of the custom
 * all-reduces of TensorRT-LLM and vLLM; the order of the sums is this project's.
 *
 * An area is one rank's memory: flags, epochs, words of ranks that end, and two buffers.  A kernel of epoch e copies its
 * operand into buffer e % 2, tells every rank (release, system scope), waits until all have told it
 * e (acquire) and reads all buffers.  Two buffers are enough: a rank that is at e + 2 knows that
 * all were at e + 1, so all have read what e left.  Flags only grow, so nothing is reset; all
 * blocks take part in every call, so that they agree on the epoch. */
#ifndef BACKENDS_CUDA_ONESHOT_H
#define BACKENDS_CUDA_ONESHOT_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"

enum { ONESHOT_MAX_WORLD = 8, ONESHOT_HANDLE_BYTES = 72 };

struct oneshot {
    int rank, world;
    size_t piece_bytes;              /* of a buffer: the most that a call takes of a rank */
    void *area[ONESHOT_MAX_WORLD];   /* as this device addresses them; own included */
    void *mapped[ONESHOT_MAX_WORLD]; /* other processes' memory that an area is in, or NULL */
    /* Pinned: 0; 1 + the rank that did not come in time; 1 + ONESHOT_MAX_WORLD + the rank that gave
     * up; 1 + 2 ONESHOT_MAX_WORLD + the rank that closed before this call.  Kernels do not wait any
     * more when it is set. */
    uint32_t *failed;
    uint64_t limit_ns; /* how long a kernel waits for a rank */
};

size_t oneshot_area_bytes(size_t piece_bytes);

/* This rank's area, zeroed: area[rank] of o.  handle: what another process's oneshot_map_area takes
 * (NULL: not wanted).  *out is the caller's to free, also after a failure.  ST_DEVICE where the
 * device or system cannot share. */
MUST_CHECK enum status oneshot_make_area(struct backend *be, struct oneshot *o, struct buf **out,
                                         unsigned char *handle);
/* Rank r's: the block that its backend's memory is in is mapped as a whole. */
MUST_CHECK enum status oneshot_map_area(struct oneshot *o, int r,
                                        const unsigned char handle[ONESHOT_HANDLE_BYTES]);
void oneshot_unmap_areas(struct oneshot *o);

/* These enqueue; all ranks call the same with the same sizes.  x [n] f32 in place, op is enum
 * reduce_op of collectives/coll.h, in the contract's order. */
MUST_CHECK enum status oneshot_reduce(struct backend *be, const struct oneshot *o, void *x,
                                      size_t n, int op);
/* dst = src of rank 0, of rank 1, ..., `apart` bytes from one to the next; bytes of each. */
MUST_CHECK enum status oneshot_gather(struct backend *be, const struct oneshot *o, const void *src,
                                      void *dst, size_t bytes, size_t apart);
MUST_CHECK enum status oneshot_broadcast(struct backend *be, const struct oneshot *o, void *x,
                                         size_t bytes, int root);

/* The other ranks' kernels, now and later, stop waiting. */
MUST_CHECK enum status oneshot_give_up(struct backend *be, const struct oneshot *o);

/* Calls of the other ranks that this one does not take part in fail.  The kernel waits until all
 * ranks have closed, limit_ns at most: until then their kernels read this rank's area. */
MUST_CHECK enum status oneshot_close(struct backend *be, const struct oneshot *o);

#ifdef __cplusplus
}
#endif

#endif
