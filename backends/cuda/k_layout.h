/* Where the columns of a matrix are in device memory.  A row is stored as in the file, in its
 * element type, but each slice of struct weight_src begins at a multiple of K_STEP elements, with
 * zeros between: that aligns every 16-byte load, and a slice has the same place within its
 * tensor-core products on whatever rank it is.  Slices of experts begin at multiples of K_CHUNK: theirs are
 * narrow, and zeros are read with them (96 columns would be 128). */
#ifndef BACKENDS_CUDA_K_LAYOUT_H
#define BACKENDS_CUDA_K_LAYOUT_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"

enum {
    K_CHUNK = 32,    /* columns of two mma */
    K_STEP = 64,     /* columns that kernels load at a time */
    K_SEGMENT = 256, /* columns of a partial sum, counted from the slice's start */
};

/* Slice i is columns [col[i], col[i + 1]) of x, stored from element at[i] of a row on; its segments
 * have the numbers [seg[i], seg[i + 1]).  A row has at[n_slices] elements, of which the last ones may be in
 * no slice. */
struct k_layout {
    int32_t n_slices; /* a power of two */
    int32_t col[N_SLICES + 1], at[N_SLICES + 1], seg[N_SLICES + 1];
};

/* src: a matrix with valid slices and at most INT32_MAX - N_SLICES * K_STEP columns; stacked: of experts. */
struct k_layout k_layout_of(const struct weight_src *src, bool stacked);

#ifdef __cplusplus
}
#endif

#endif
