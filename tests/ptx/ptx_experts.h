/* Experts of quantised weights on the PTX machine. */
#ifndef TESTS_PTX_PTX_EXPERTS_H
#define TESTS_PTX_PTX_EXPERTS_H

#include "gpu/tap.h"

/* One case for each number of bits: moe_ffn has the bits of the CPU backend's plain path. */
void ptx_check_experts(struct tap *t);

#endif
