/* CUDA's runtime on a PTX machine: what the CUDA backend's compiled host code links instead of
 * cudart.  Launches wait in their streams; whatever the host could observe (copies, events,
 * synchronisation) runs all of them first, so that kernels of several streams overlap.  One device,
 * compute capability 9.0; one thread.  Launches are checked against CUDA's rules for threads, grids
 * and shared memory.  No graphs, no sharing between processes: these calls fail. */
#ifndef TESTS_PTX_PTX_CUDA_H
#define TESTS_PTX_PTX_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif
#include "ptx/ptx_machine.h"

/* Before any other call of the runtime.  n_sm: multiprocessors that it reports. */
MUST_CHECK enum status ptx_cuda_open(const struct ptx_config *cfg, int n_sm);
/* The kernels of a file of PTX text. */
MUST_CHECK enum status ptx_cuda_load(const char *path);
void ptx_cuda_close(void);
/* Bytes of shared memory that a block may have: 227 KiB at first. */
void ptx_cuda_block_smem(size_t bytes);

struct ptx_machine *ptx_cuda_machine(void);

/* A kernel that was launched, and how often since ptx_cuda_open.  NULL: no more.  Kernels that no
 * launch named come with 0. */
const char *ptx_cuda_kernel(size_t i, uint64_t *launches);
/* Why a call has failed last, in words. */
const char *ptx_cuda_failure(void);

#ifdef __cplusplus
}
#endif

#endif
