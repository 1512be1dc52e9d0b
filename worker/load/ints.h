/* A matrix [rows, cols] of integers with scales for groups of its columns, as the quantisers of
 * HuggingFace folders store it (enum int_storage of model_config.h): element u stands for
 * scale (u - zero), both unsigned here.  Sources: the packing of AutoGPTQ and GPTQModel (torch's
 * QuantLinear), AutoAWQ (WQLinear_GEMM), compressed-tensors (pack_to_int32).  Called by derive_ints.c
 * and weights.c. */
#ifndef WORKER_LOAD_INTS_H
#define WORKER_LOAD_INTS_H

#include "worker/load/loader.h"

struct ints {
    enum int_storage storage;
    size_t bits, rows, cols;
    size_t group, n_groups; /* columns that share a scale (all: cols); of a row */
    struct stored_tensor codes, scales, zeros, index; /* the last two: data NULL where absent */
    uint32_t add;                                     /* to a word of zero points */
    bool one_scale;                                   /* for the whole matrix */
    /* As the configuration says: zero points are in the middle of the range; a group is neighbouring
     * columns.  The file may contradict. */
    bool symmetric, in_order;
    bool sorted; /* int_sorted of model_config.h */
};

/* Has the tensor NAME.weight of the pattern that form? */
bool ints_stored(const struct loader *ld, const char *pattern, int32_t layer, int32_t expert);

/* Finds the tensors and checks their shapes.  ST_NOT_FOUND, ST_FORMAT and ST_UNSUPPORTED name one. */
MUST_CHECK enum status ints_open(struct ints *out, struct loader *ld, const char *pattern,
                                 int32_t layer, int32_t expert, size_t rows, size_t cols);

/* The integers of n columns from col on: col is a multiple of 8, and n at most what the row has. */
void ints_codes(const struct ints *m, size_t row, size_t col, size_t n, uint8_t *out);

/* Of a group of a row; the middle of the range where there are none. */
unsigned ints_zero(const struct ints *m, size_t row, size_t group);

/* The stored bits of a scale and its value. */
float ints_scale(const struct ints *m, size_t row, size_t group, uint16_t *bits);

/* The group of a column; n_groups or more where the file's index is wrong. */
size_t ints_group(const struct ints *m, size_t col);

#endif
