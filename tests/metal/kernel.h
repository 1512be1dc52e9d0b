/* Kernels as the double runs them: from tests/metal/shaders.cpp to double_work.cpp. */
#ifndef TESTS_METAL_KERNEL_H
#define TESTS_METAL_KERNEL_H

#include <stddef.h>

#include <functional>
#include <vector>

struct metal_double_kernel {
    const char *name;
    size_t args_bytes;
    std::vector<size_t> align; /* of each buffer from 1 on: its elements' bytes */
    std::function<void(const void *args, void *const *bound)> run; /* by each thread */
};

const std::vector<metal_double_kernel> &metal_double_kernels();

/* A thread is about to exchange with others of its simdgroup: a mistake where the GPU has no such thing. */
void metal_double_exchange();

/* The texts that the double compiles; a program adds its own before it opens a device. */
struct metal_double_text {
    const char *source;
    const std::vector<metal_double_kernel> &(*kernels)();
};
std::vector<metal_double_text> &metal_double_texts();

#endif
