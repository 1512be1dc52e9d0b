/* What each launch needs besides the launch itself: whether the kernel may begin early, and which
 * kernels a fault can come from. */
#include <stdio.h>

#include "backends/cuda/cuda_backend.h"

enum { PDL_PTX = 90 }; /* griddepcontrol: from this virtual architecture on (PTX ISA) */

/* The code of the kernel that the driver has loaded waits (pdl_wait of gpu_device.h) if it was made for
 * compute_90 or a later virtual architecture, whatever the device is: __CUDA_ARCH__ is the virtual
 * architecture, and a newer device also runs compute_80 PTX, whose binaryVersion is then the
 * device's.  So ptxVersion decides, which is the virtual architecture of binaries too (CUB chooses
 * its policies by it, cub/util_device.cuh).  A kernel whose attributes cannot be had does not begin
 * early; its launch gives the error. */
static bool code_waits(const void *kernel)
{
    struct cudaFuncAttributes attr;
    if (cudaFuncGetAttributes(&attr, kernel) == cudaSuccess)
        return attr.ptxVersion >= PDL_PTX;
    cudaGetLastError();
    return false;
}

/* NULL: more kernels than places. */
static struct known_kernel *known_of(struct backend *be, const void *kernel)
{
    size_t at = (size_t)((uintptr_t)kernel >> 4) % KNOWN_KERNELS;
    for (size_t i = 0; i < KNOWN_KERNELS; i++, at = (at + 1) % KNOWN_KERNELS) {
        struct known_kernel *k = &be->known[at];
        if (!k->kernel)
            *k = (struct known_kernel){.kernel = kernel, .waits = code_waits(kernel)};
        if (k->kernel == kernel)
            return k;
    }
    return NULL;
}

bool cuda_may_begin_early(struct backend *be, const void *kernel)
{
    const struct known_kernel *k = known_of(be, kernel);
    return k ? k->waits : code_waits(kernel);
}

enum status cuda_blocks_at_once(struct backend *be, const void *kernel, int threads,
                                size_t dyn_smem, int32_t *out)
{
    struct known_kernel *k = known_of(be, kernel);
    int n;
    if (k && k->blocks > 0 && k->threads == threads && k->dyn_smem == dyn_smem) {
        *out = k->blocks * be->n_sm;
        return ST_OK;
    }
    if (dyn_smem > 48 * 1024) /* as gpu_launch does: else the driver counts none */
        CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)dyn_smem));
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, threads, dyn_smem));
    n = n > 0 ? n : 1; /* a kernel that does not fit says so when it is launched */
    if (k) {
        k->blocks = n;
        k->threads = threads;
        k->dyn_smem = dyn_smem;
    }
    *out = n * be->n_sm;
    return ST_OK;
}

void cuda_enqueued(struct backend *be, const char *what)
{
    be->enqueued[be->n_enqueued++ % N_ENQUEUED] = what;
}

/* " (...)": what may have failed, or "". */
static const char *suspects(const struct backend *be, char *text, size_t size)
{
    uint64_t n = be->n_enqueued - be->n_ended;
    const char *last = n ? be->enqueued[(be->n_enqueued - 1) % N_ENQUEUED] : "";
    text[0] = '\0';
    if (n == 1)
        snprintf(text, size, " (under way: %s)", last);
    else if (n > 1 && n <= N_ENQUEUED)
        snprintf(text, size, " (under way: %llu kernels, from %s to %s)", (unsigned long long)n,
                 be->enqueued[be->n_ended % N_ENQUEUED], last);
    else if (n > 1)
        snprintf(text, size, " (under way: %llu kernels, the last is %s)", (unsigned long long)n,
                 last);
    return text;
}

enum status cuda_failed(const char *file, int line, const char *what, cudaError_t e)
{
    enum status st = e == cudaErrorMemoryAllocation ? ST_NOMEM : ST_DEVICE;
    cudaGetLastError(); /* of this thread, so that the next call does not report it again */
    return status_fail(st, file, line, "%s: %s", what, cudaGetErrorString(e));
}

enum status cuda_fault(struct backend *be, cudaError_t e)
{
    char text[SUSPECTS_BYTES];
    cudaGetLastError();
    FAIL(ST_DEVICE, "device: %s%s", cudaGetErrorString(e), suspects(be, text, sizeof text));
}

enum status cuda_launched(struct backend *be, const char *kernel, cudaError_t e)
{
    char text[SUSPECTS_BYTES];
    be->n_launched++;
    if (e != cudaSuccess) { /* its own, or that of a kernel before it */
        cudaGetLastError();
        FAIL(ST_DEVICE, "kernel %s: %s%s", kernel, cudaGetErrorString(e),
             suspects(be, text, sizeof text));
    }
    if (!be->capturing)
        cuda_enqueued(be, kernel);
    return ST_OK;
}
