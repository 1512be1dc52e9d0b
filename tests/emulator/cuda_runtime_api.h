/* The part of the CUDA runtime that Ingot's host code uses, on the host's own memory: found in
 * place of the toolkit's header when backends/cuda is compiled for the emulator.  Work runs when it
 * is enqueued, in the caller's thread; a stream that is being captured records it instead.
 *
 * What it cannot show: real memory ordering, timing, occupancy; of overlapping streams only the
 * order that emulator_defer gives. */
#ifndef TESTS_EMULATOR_CUDA_RUNTIME_API_H
#define TESTS_EMULATOR_CUDA_RUNTIME_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorIllegalState = 401,
} cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };
enum { cudaIpcMemLazyEnablePeerAccess = 1, cudaHostAllocDefault = 0 };

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_graph *cudaGraphExec_t;
typedef struct {
    char reserved[64];
} cudaIpcMemHandle_t;

typedef struct {
    char bytes[16];
} cudaUUID_t;

struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount;
};

struct cudaFuncAttributes {
    int ptxVersion, binaryVersion;
};

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func);
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value);
/* By shared memory alone: an emulated multiprocessor has registers for any number of blocks. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func, int threads,
                                                          size_t dyn_smem);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t row_bytes, size_t rows, enum cudaMemcpyKind kind,
                              cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s);
cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t row_bytes, size_t rows,
                              cudaStream_t s);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p);
cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *p);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s);
cudaError_t cudaGraphUpload(cudaGraphExec_t g, cudaStream_t s);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g);

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t e);
const char *cudaGetErrorName(cudaError_t e);

/* Settings of the emulator, for tests.
 *
 * Seed 0 (or none): threads run in order.  Others permute the order of blocks, warps and lanes and
 * switch between warps at random, so that a missing barrier shows.  Also read once from the
 * environment's INGOT_EMULATE_SEED. */
void emulator_seed(uint64_t seed);
/* Devices that cudaGetDeviceCount sees; 0: cudaErrorInsufficientDriver, as without a driver.  Without a
 * call: one, or those of the environment's CUDA_VISIBLE_DEVICES, which are numbers (0 to 7). */
void emulator_devices(int n);
/* Bytes that cudaMalloc gives out before cudaErrorMemoryAllocation. */
void emulator_memory(size_t bytes);
/* Bytes of shared memory that a block may have: 227 KiB at first. */
void emulator_block_smem(size_t bytes);
/* The virtual architecture of the PTX that the "driver" has loaded, for a device of 9.0: 90 at first;
 * 80: PTX for an older device, translated for this one. */
void emulator_ptx(int version);
/* The n-th kernel launch from now on fails with cudaErrorLaunchFailure; 0: none. */
void emulator_fail_launch(int n);
/* On: work runs as late and as early as CUDA allows.  Streams that have had a kernel are late: what
 * is enqueued there waits until the host asks for it (a query of an event: the second time).
 * Others, of copies alone, run at once.  For one thread. */
void emulator_defer(bool on);
/* Forgets the sticky error of a kernel that failed, as a new process would. */
void emulator_reset_error(void);
/* Kernels run so far. */
uint64_t emulator_launches(void);

/* What has been done so far. */
struct emulator_calls {
    uint64_t allocations; /* of device and pinned memory */
    uint64_t kernels;     /* launched, neither recorded nor as a part of a graph */
    uint64_t early;       /* launched or recorded with the attribute of programmatic launch */
    uint64_t graphs;      /* launched */
    uint64_t to_device, to_host, on_device, sets; /* copies and memsets that have run */
    uint64_t bytes_to_device;                     /* of those copies */
    uint64_t pending;                             /* what waits in late streams */
};
struct emulator_calls emulator_counts(void);
/* Device memory that is allocated, in bytes, and in how many pieces. */
size_t emulator_in_use(size_t *n_blocks);

#ifdef __cplusplus
}
#endif

#endif
