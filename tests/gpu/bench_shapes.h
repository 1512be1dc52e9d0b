/* Models of published shapes without files, for random_weights.h. */
#ifndef TESTS_GPU_BENCH_SHAPES_H
#define TESTS_GPU_BENCH_SHAPES_H

#include "worker/load/loader.h"

struct bench_shape {
    const char *name;
    int32_t n_layers, hidden, ffn, n_q, n_kv, d_head, vocab;
    bool tied;
    double rope_factor;
};

extern const struct bench_shape bench_shapes[], bench_tiny_shapes[];
extern const size_t n_bench_shapes, n_bench_tiny_shapes;

/* A loader over tensors of the shape; what they point to must not be read. */
MUST_CHECK enum status bench_shape_open(struct loader **out, const struct bench_shape *s);

#endif
