/* Several ranks on this GPU, which must have the bits of one: threads of this process and forked
 * processes, without MPI; and under mpirun. */
#ifndef TESTS_GPU_GPU_RANKS_H
#define TESTS_GPU_GPU_RANKS_H

#include "gpu/gpu_model.h"

/* Over the one-shot kernel: threads of one process read each other's memory as it is. */
MUST_CHECK enum status same_on_two_threads(struct truth *t);
MUST_CHECK enum status same_on_four_threads(struct truth *t);

/* These fork: before this process uses CUDA.  Two processes, over host memory and over CUDA IPC
 * (skipped where the system shares no device memory). */
void check_processes(struct tap *t, const struct options *o);
/* Two processes with an NCCL_HOSTID each; skipped where NCCL is absent or does not connect. */
void check_nccl(struct tap *t, const struct options *o);

/* The ranks of an mpirun, over the collective of that name; the program's exit status. */
int check_mpi_ranks(const struct options *o, const char *coll);

#endif
