/* The emulator's inside: from runtime.cpp to block.cpp. */
#ifndef TESTS_EMULATOR_BLOCK_H
#define TESTS_EMULATOR_BLOCK_H

#include <stdint.h>

#include <functional>

#include "common/dtype.h"
#include "emulator.h"

/* Runs every block of a kernel, which has up to max_shared bytes of shared memory; false: text says
 * what went wrong. */
bool run_kernel(const char *name, dim3 grid, dim3 block, size_t dyn_smem, size_t max_shared,
                bool dependent, uint64_t seed, const std::function<void()> &body, char *text,
                size_t text_bytes);

#endif
