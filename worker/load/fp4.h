/* A matrix [rows, cols] of floats of 4 bits with scales of blocks of its columns, as HuggingFace folders
 * store it (enum fp4_storage of model_config.h).  Sources: bitsandbytes (QuantState.as_dict, and
 * dequantize_4bit with its nested absmax), compressed-tensors (NVFP4PackedCompressor,
 * MXFP4PackedCompressor), ModelOpt's checkpoints as vLLM and compressed-tensors read them.  Called by
 * derive_fp4.c and weights.c. */
#ifndef WORKER_LOAD_FP4_H
#define WORKER_LOAD_FP4_H

#include "worker/load/loader.h"

struct fp4 {
    enum fp4_storage storage;
    enum dtype dtype; /* DT_NF4, DT_FP4, DT_NVFP4 or DT_MXFP4 */
    size_t rows, cols;
    size_t block;                       /* columns that share a scale */
    struct stored_tensor codes, scales; /* two elements in a byte; MXFP4: exponents */
    float factor, divisor;              /* NVFP4: of weight_part */
    /* BNB: elements of the matrix, in order, that share a scale; scales that are quantised themselves: the
     * numbers that their codes are, the scales of these, and their offset */
    size_t file_block, nested_block;
    struct stored_tensor nested_map, nested; /* data NULL: scales are f32 */
    float offset;
};

/* Has the tensor NAME.weight of the pattern that form? */
bool fp4_stored(const struct loader *ld, const char *pattern, int32_t layer, int32_t expert);

/* Finds the tensors and checks their shapes, and that they mean what the types stand for.  ST_NOT_FOUND,
 * ST_FORMAT and ST_UNSUPPORTED name one. */
MUST_CHECK enum status fp4_open(struct fp4 *out, struct loader *ld, const char *pattern,
                                int32_t layer, int32_t expert, size_t rows, size_t cols);

/* The codes of n columns from col on. */
void fp4_codes(const struct fp4 *m, size_t row, size_t col, size_t n, uint8_t *out);

/* The scale of a block of a row: its value (BNB), or the stored byte. */
float fp4_scale(const struct fp4 *m, size_t row, size_t block);
uint8_t fp4_small_scale(const struct fp4 *m, size_t row, size_t block);

#endif
