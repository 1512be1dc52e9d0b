/* The tensors of the new file: their names, shapes and types there, and where their rows lie now.
 * Owner: whoever made the list; the data belongs to the loader. */
#ifndef WORKER_QUANTIZE_PIECES_H
#define WORKER_QUANTIZE_PIECES_H

#include "worker/load/loader.h"
#include "worker/quantize/choice.h"

/* Rows that lie one behind the other, or side by side in a transposed tensor. */
struct piece_run {
    const unsigned char *data; /* the first element of its first row */
    uint64_t first_row;        /* of the new tensor */
};

struct piece {
    char name[128];
    enum ggml_type type, wanted; /* differ where the rows do not divide into blocks */
    enum dtype to;               /* type as an element type */
    int32_t n_dims;
    uint64_t shape[MAX_TENSOR_DIMS]; /* slowest first */
    uint64_t n_rows, row_len;
    size_t first_run, n_runs;
    enum dtype from;             /* of the rows [row_len] */
    float add;                   /* to every element: norm weights that are stored less 1 */
    size_t from_bytes, to_bytes; /* of a row */
    size_t
        step; /* bytes from an element of a row to the next in a transposed tensor; 0: it is none */
    int32_t heads; /* row (head, half, i) becomes (head, i, half); 0: rows keep their order */
};

struct pieces {
    struct piece *v;
    struct piece_run *run; /* of all pieces, one behind the other */
    size_t n, n_runs;
    float *divisors; /* data of rope_freqs.weight or of rope_factors_*.weight, or NULL */
};

/* Where row r < n_rows of the new tensor lies: [from_bytes], or elements that are `step` bytes apart. */
const unsigned char *pieces_row(const struct pieces *ps, const struct piece *p, uint64_t r);

/* ld: a GGUF file (all its tensors as they are) or a HuggingFace folder: renamed, q and k in the order of GGUF, fused
 * tensors split or joined and experts stacked as the architecture's files have them.  ST_UNSUPPORTED names what GGUF
 * cannot say. */
MUST_CHECK enum status pieces_make(struct pieces *out, struct loader *ld, const struct choice *c);
void pieces_free(struct pieces *p);

#endif
