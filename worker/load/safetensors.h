/* Reader of the safetensors format (github.com/huggingface/safetensors, "Format"): an 8-byte
 * little-endian header length, a JSON header, the tensors' bytes.  Pure, over (pointer, length);
 * nothing is copied but the header.
 *
 * Accepted is exactly what the format allows: the tensors cover the bytes after the header without
 * overlap, hole or rest, and each one's size is its shape times its type.  Tensors need not be
 * aligned to their element size, so readers of the data must not assume it. */
#ifndef WORKER_LOAD_SAFETENSORS_H
#define WORKER_LOAD_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/dtype.h"
#include "common/status.h"

enum { MAX_TENSOR_DIMS = 8 };

struct st_tensor {
    const char *name;
    const char *type_name; /* "F32", "BF16", "I64", ... */
    enum dtype dtype;      /* DT_N: a type of the format that Ingot does not compute with */
    int32_t n_dims;
    uint64_t shape[MAX_TENSOR_DIMS];
    size_t offset, n_bytes; /* in the file */
};

struct safetensors {
    struct st_tensor *tensor; /* [n], by name */
    size_t n;
    char *names;
};

/* file names the data in errors.  The struct holds no pointer into data. */
MUST_CHECK enum status safetensors_parse(struct safetensors *out, const void *data, size_t len,
                                         const char *file);
void safetensors_fini(struct safetensors *s);

/* NULL when there is none. */
const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name);

/* "[512,64]" */
const char *shape_text(char *buf, size_t size, const uint64_t *shape, int32_t n_dims);

#endif
