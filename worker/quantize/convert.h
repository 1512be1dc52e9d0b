/* Writes the pieces' data: rows are expanded to f32, quantised on all threads and written batch by
 * batch, so that a few megabytes are in memory whatever the model's size.  Called by main's thread.
 */
#ifndef WORKER_QUANTIZE_CONVERT_H
#define WORKER_QUANTIZE_CONVERT_H

#include <signal.h>

#include "worker/quantize/gguf_write.h"
#include "worker/quantize/pieces.h"

struct convert_stats { /* of one type of the new file */
    size_t n_tensors;
    uint64_t n_elements, n_bytes;
    double error2, value2; /* sums of (new - old)^2 and old^2 */
};

enum { CONVERT_TYPES = 64 }; /* above every enum ggml_type that is written */

struct convert {
    int n_threads;
    const volatile sig_atomic_t *stop; /* set: ST_CANCELED */
    void (*report)(void *ctx, const char *name, uint64_t done, uint64_t total); /* bytes */
    void *ctx;
    struct convert_stats stats[CONVERT_TYPES]; /* by enum ggml_type; filled */
};

/* w is behind gguf_begin_data.  ST_RANGE names a tensor with a value that is not finite or that f16
 * cannot hold. */
MUST_CHECK enum status convert_run(struct convert *cv, const struct pieces *p,
                                   struct gguf_writer *w);

#endif
