/* The tensors of the new file: their names, shapes and types there, and where their rows lie now.
 * Owner: whoever made the list; the data belongs to the loader. */
#ifndef WORKER_QUANTIZE_PIECES_H
#define WORKER_QUANTIZE_PIECES_H

#include "worker/load/loader.h"
#include "worker/quantize/choice.h"

/* Rows that lie one behind the other, or side by side in a transposed tensor. */
struct piece_run {
    const unsigned char *data;   /* the first element of its first row */
    const unsigned char *scales; /* of MXFP4 whose blocks have no scales: theirs; else NULL */
    uint64_t first_row;          /* of the new tensor */
    float factor;                /* on every element */
};

/* Value heads in another order: head h of the new tensor is the old one's (h mod keys) * per + h / keys. */
struct piece_heads {
    int32_t size; /* elements; 0: their order is the same */
    int32_t keys, per;
};

static inline size_t piece_head(const struct piece_heads *h, size_t i)
{
    return i % (size_t)h->keys * (size_t)h->per + i / (size_t)h->keys;
}

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
    bool decay;                  /* x becomes -e^x */
    size_t from_bytes, to_bytes; /* of a row */
    size_t row_step;             /* bytes from a row of a run to the next */
    size_t
        step; /* bytes from an element of a row to the next in a transposed tensor; 0: it is none */
    size_t scale_step;          /* the same of the runs' scales */
    struct piece_heads columns; /* of the rows' elements */
    int32_t heads; /* row (head, half, i) becomes (head, i, half); 0: rows keep their order */
};

struct pieces {
    struct piece *v;
    struct piece_run *run; /* of all pieces, one behind the other */
    size_t n, n_runs, cap, run_cap;
    float *divisors; /* data of rope_freqs.weight or of rope_factors_*.weight, or NULL */
};

/* The run that has row r < n_rows of the new tensor: r - first_row rows behind its data. */
const struct piece_run *pieces_run(const struct pieces *ps, const struct piece *p, uint64_t r);

void pieces_free(struct pieces *p);

/* ---- for the makers of the list ---- */
/* A new piece without rows, valid until the next one.  like: its name and an element type that can be read; its shape is
 * not looked at. */
MUST_CHECK enum status pieces_begin(struct piece **out, struct pieces *ps, const char *name,
                                    const struct stored_tensor *like, int32_t n_dims,
                                    const uint64_t *shape, const struct choice *c);
/* Its elements are found as rows of one. */
void pieces_as_column(struct piece *p);
/* p: the newest piece; runs come in the order of their rows. */
MUST_CHECK enum status pieces_add_run(struct pieces *ps, struct piece *p, struct piece_run run);
/* A tensor as it is. */
MUST_CHECK enum status pieces_add_whole(struct pieces *ps, const char *name,
                                        const struct stored_tensor *t, const struct choice *c);

#endif
