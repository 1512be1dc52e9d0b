/* Kernels behind another kernel that makes what they read, on the PTX machine. */
#ifndef TESTS_PTX_PTX_CHAIN_H
#define TESTS_PTX_PTX_CHAIN_H

#include "gpu/tap.h"

/* An op's case has its input from a copy, which waits: a kernel that does not wait for the one in front
 * of it shows here alone. */
void ptx_check_chains(struct tap *t);

#endif
