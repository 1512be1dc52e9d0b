/* The tensors of the new file: their names, shapes and types there, and where their rows lie now.
 * Owner: whoever made the list; the data belongs to the loader. */
#ifndef WORKER_QUANTIZE_PIECES_H
#define WORKER_QUANTIZE_PIECES_H

#include "worker/load/loader.h"
#include "worker/quantize/choice.h"

struct piece {
    char name[128];
    enum ggml_type type, wanted; /* differ where the rows do not divide into blocks */
    enum dtype to;               /* type as an element type */
    int32_t n_dims;
    uint64_t shape[MAX_TENSOR_DIMS]; /* slowest first */
    uint64_t n_rows, row_len;
    const unsigned char *data; /* [n_rows, row_len] of `from` */
    enum dtype from;
    size_t from_bytes, to_bytes; /* of a row */
    int32_t heads; /* row (head, half, i) becomes (head, i, half); 0: rows keep their order */
};

struct pieces {
    struct piece *v;
    size_t n;
    float *divisors; /* data of rope_freqs.weight, or NULL */
};

/* ld: a GGUF file (all its tensors as they are) or a HuggingFace folder (renamed, q and k in the
 * order of GGUF).  ST_UNSUPPORTED names what GGUF cannot say. */
MUST_CHECK enum status pieces_make(struct pieces *out, struct loader *ld, const struct choice *c);
void pieces_free(struct pieces *p);

#endif
