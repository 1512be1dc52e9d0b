/* Layers of experts for the tests of moe_ffn on every backend: the order of additions that
 * backend.h states, made of the backend's own linear and act_mul on one expert, slice and row at a
 * time; ranks of every power-of-two world against one; routers with ties, NaN and infinities. */
#ifndef TESTS_OPS_MOE_LAYERS_H
#define TESTS_OPS_MOE_LAYERS_H

#include "backends/backend.h"

/* A layer of E experts with random weights of one type. */
struct layer {
    enum dtype type;
    int32_t E, k, D, F, unit; /* F is cut at multiples of unit */
    unsigned char *data[3];   /* gate, up [E][F, D], down [E][D, F] */
    /* Types with scales in f32, of the rows of data: scales and minima [rows, n_scales], e4m3 ones, and
     * the groups of each expert's columns. */
    float *scale[3], *min[3];
    uint8_t *small[3];
    uint16_t *index[3];
    int32_t T;
    float *x, *share;
    int32_t *ids;
};

/* Token t's experts are t * 3 + k - 1, ..., t * 3 (mod E). */
struct layer make_layer(enum dtype t, int32_t E, int32_t k, int32_t D, int32_t F, int32_t T);
void free_layer(struct layer *l);

/* A view of memory of its own, filled from packed host data unless that is NULL; the caller frees
 * the buf. */
struct view view_of(struct backend *be, int32_t rows, int32_t cols, enum dtype t, const void *data);

/* One rank's weights: those of slices [rank, rank + 1) * N_SLICES / world. */
struct loaded_layer {
    struct moe_layer ml;
    struct weight *gate_up, *down;
};
struct loaded_layer load_layer(struct backend *be, const struct layer *l, int rank, int world);
/* What the backend says that they take. */
size_t layer_bytes(struct backend *be, const struct layer *l, int rank, int world);
void unload_layer(struct backend *be, struct loaded_layer *loaded);

/* out [T, D]: the ranks' parts added as the all-reduce adds them. */
void run_world(struct backend *be, const struct layer *l, int world, float *out);

/* out [D]: token t, as backend.h says it. */
void composed(struct backend *be, const struct layer *l, int32_t t, float *out);

/* Fails the test with both numbers; n floats in rows of D. */
void same_bits(const struct layer *l, const float *got, const float *want, size_t n,
               const char *what, int number);

/* Some tokens of a call of `be` against the composition on `plain`. */
void check_order(struct backend *be, struct backend *plain, const struct layer *l,
                 const char *what);
/* Worlds of 2, 4 and 8 ranks, and some tokens alone, against one rank with all. */
void check_worlds(struct backend *be, const struct layer *l);

/* Routers with ties, NaN and infinities. */
/* moe_route of logits [T, E] to ids and weights [T, k]. */
void route(struct backend *be, const struct moe_layer *ml, const float *logits, int32_t T,
           int32_t *ids, float *weights);
void check_strange_routers(struct backend *be);
/* Stacks that load_stack must refuse. */
void check_stacks_that_cannot_be(struct backend *be);

#endif
