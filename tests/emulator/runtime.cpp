/* The CUDA runtime's host functions on the host's own memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "block.h"

typedef std::vector<std::function<cudaError_t()>> work_list;

struct emulated_stream {
    work_list *capture; /* being recorded */
    bool invalid;       /* a forbidden call was made while recording */
    bool late;          /* emulator_defer: its work waits in the queue */
    std::deque<std::function<cudaError_t()>> queue;
    uint64_t n_queued, n_run;
};

struct emulated_event {
    uint64_t ns;
    cudaStream_t stream; /* it passes when that has run n_queued >= at */
    uint64_t at;
    int n_queries; /* since it was recorded */
};

struct emulated_graph {
    work_list work;
};

static std::mutex lock; /* of everything that OS threads share */
static struct {
    size_t limit = (size_t)8 << 30, used = 0;
    size_t block_smem = 227 << 10; /* of sm_90 */
    std::map<void *, size_t> blocks;
    struct emulator_calls counts = {};
    int devices = -1, ptx = 90; /* devices -1: as CUDA_VISIBLE_DEVICES says */
    bool deferring = false;
    std::atomic<uint64_t> seed{0}, launches{0};
    std::atomic<int> fail_launch{0};
    bool seed_known = false;
    cudaError_t sticky = cudaSuccess;
    char sticky_text[480] = "";
} gpu;

static thread_local cudaError_t last = cudaSuccess;
static thread_local struct emulated_stream *capturing;
static thread_local int current_device;

/* Which of the machine's devices are seen: "2", "1,0". */
static const char *visible()
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    return gpu.devices < 0 && list && list[0] ? list : nullptr;
}

static int n_devices()
{
    const char *list = visible();
    int n = gpu.devices < 0 ? 1 : gpu.devices;
    for (const char *p = list; p && *p; p++)
        n += *p == ',';
    return n;
}

/* The machine's number of a device that the process sees. */
static int machine_number(int device)
{
    const char *list = visible();
    for (int i = 0; list && i < device; i++)
        list = strchr(list, ',') + 1;
    return list ? atoi(list) : device;
}

static cudaError_t result(cudaError_t e)
{
    if (e == cudaSuccess && gpu.sticky != cudaSuccess)
        e = gpu.sticky;
    if (e != cudaSuccess)
        last = e;
    return e;
}

/* Calls that CUDA forbids in the thread that captures spoil the capture. */
static bool forbidden()
{
    if (!capturing)
        return false;
    capturing->invalid = true;
    return true;
}

static cudaError_t set_sticky(cudaError_t e, const char *text)
{
    std::lock_guard<std::mutex> hold(lock);
    if (gpu.sticky == cudaSuccess) {
        gpu.sticky = e;
        snprintf(gpu.sticky_text, sizeof gpu.sticky_text, "%s", text);
    }
    return e;
}

static void count(uint64_t *what)
{
    std::lock_guard<std::mutex> hold(lock);
    ++*what;
}

static bool on_device(const void *p)
{
    std::lock_guard<std::mutex> hold(lock);
    auto it = gpu.blocks.upper_bound((void *)p);
    return it != gpu.blocks.begin() && (--it, (const char *)p < (char *)it->first + it->second);
}

static void count_copy(const void *dst, const void *src, size_t bytes)
{
    struct emulator_calls *c = &gpu.counts;
    uint64_t *what = !on_device(dst)  ? &c->to_host
                     : on_device(src) ? &c->on_device
                                      : &c->to_device;
    count(what);
    if (what == &c->to_device) {
        std::lock_guard<std::mutex> hold(lock);
        c->bytes_to_device += bytes;
    }
}

/* Runs what waits in the stream's queue up to number `at`; nothing runs any more after a fault. */
static cudaError_t run_to(cudaStream_t s, uint64_t at)
{
    cudaError_t e = cudaSuccess;
    while (s->n_run < at) {
        std::function<cudaError_t()> work = std::move(s->queue.front());
        s->queue.pop_front();
        s->n_run++;
        gpu.counts.pending--;
        if (gpu.sticky == cudaSuccess)
            e = work();
    }
    return e;
}

/* Kernels are enqueued: from now on the stream is late. */
static void make_late(cudaStream_t s)
{
    s->late = s->late || (gpu.deferring && !s->capture);
}

/* Runs now, waits in a late stream, or records when s is being captured. */
static cudaError_t enqueue(cudaStream_t s, std::function<cudaError_t()> work)
{
    if (!s)
        return result(cudaErrorInvalidValue); /* the default stream is not used here */
    if (s->capture) {
        s->capture->push_back(std::move(work));
        return result(cudaSuccess);
    }
    if (s->late) {
        s->queue.push_back(std::move(work));
        s->n_queued++;
        gpu.counts.pending++;
        return result(cudaSuccess);
    }
    return result(gpu.sticky != cudaSuccess ? gpu.sticky : work());
}

static uint64_t seed_now()
{
    if (!gpu.seed_known) {
        const char *s = getenv("INGOT_EMULATE_SEED");
        gpu.seed_known = true;
        gpu.seed = s ? strtoull(s, nullptr, 10) : 0;
    }
    return gpu.seed;
}

cudaError_t emulated_launch(const char *name, dim3 grid, dim3 block, size_t dyn_smem,
                            cudaStream_t s, bool dependent, std::function<void()> body)
{
    if (s && !s->capture)
        count(&gpu.counts.kernels);
    if (dependent)
        count(&gpu.counts.early);
    if (s)
        make_late(s);
    return enqueue(s, [=]() {
        char text[400];
        gpu.launches++;
        if (gpu.fail_launch > 0 && --gpu.fail_launch == 0)
            return set_sticky(cudaErrorLaunchFailure, "a launch that was told to fail");
        if (!run_kernel(name, grid, block, dyn_smem, gpu.block_smem, dependent, seed_now(), body, text,
                        sizeof text))
            return set_sticky(cudaErrorLaunchFailure, text);
        return cudaSuccess;
    });
}

extern "C" {

void emulator_seed(uint64_t seed)
{
    gpu.seed_known = true;
    gpu.seed = seed;
}

void emulator_block_smem(size_t bytes)
{
    gpu.block_smem = bytes;
}

void emulator_devices(int n)
{
    gpu.devices = n;
}

void emulator_ptx(int version)
{
    gpu.ptx = version;
}

void emulator_memory(size_t bytes)
{
    std::lock_guard<std::mutex> hold(lock);
    gpu.limit = bytes;
}

void emulator_fail_launch(int n)
{
    gpu.fail_launch = n;
}

void emulator_defer(bool on)
{
    gpu.deferring = on;
}

void emulator_reset_error(void)
{
    std::lock_guard<std::mutex> hold(lock);
    gpu.sticky = cudaSuccess;
    last = cudaSuccess;
}

uint64_t emulator_launches(void)
{
    return gpu.launches;
}

struct emulator_calls emulator_counts(void)
{
    std::lock_guard<std::mutex> hold(lock);
    return gpu.counts;
}

size_t emulator_in_use(size_t *n_blocks)
{
    std::lock_guard<std::mutex> hold(lock);
    *n_blocks = gpu.blocks.size();
    return gpu.used;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    attr->ptxVersion = gpu.ptx;
    attr->binaryVersion = 90;
    return result(func ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute, int value)
{
    return result(func && value >= 0 && value <= 227 << 10 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func, int threads,
                                                          size_t dyn_smem)
{
    const size_t each = dyn_smem + 1024, all = 228 << 10;
    const size_t most = (size_t)(2048 / threads) < 32 ? (size_t)(2048 / threads) : 32;
    *n = (int)(all / each < most ? all / each : most);
    return result(func ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = n_devices();
    return result(*n > 0 ? cudaSuccess : cudaErrorInsufficientDriver);
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device)
{
    if (device < 0 || device >= n_devices())
        return result(cudaErrorInvalidDevice);
    snprintf(out, (size_t)size, "0000:%02x:00.0", machine_number(device) + 1);
    return result(cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= n_devices())
        return result(cudaErrorInvalidDevice);
    current_device = device;
    return result(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return result(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    if (device < 0 || device >= n_devices())
        return result(cudaErrorInvalidDevice);
    *value = attr == cudaDevAttrMultiProcessorCount            ? 4
             : attr == cudaDevAttrComputeCapabilityMajor       ? 9
             : attr == cudaDevAttrMaxSharedMemoryPerBlockOptin ? (int)gpu.block_smem
                                                               : 0;
    return result(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (device < 0 || device >= n_devices())
        return result(cudaErrorInvalidDevice);
    *prop = {};
    /* "eager": as the driver would load kernels at once */
    const char *loading = getenv("CUDA_MODULE_LOADING");
    snprintf(prop->name, sizeof prop->name, "%semulated GPU",
             loading && strcmp(loading, "EAGER") == 0 ? "eager " : "");
    prop->totalGlobalMem = gpu.limit;
    prop->uuid.bytes[15] = (char)machine_number(device);
    prop->major = 9;
    prop->multiProcessorCount = 4;
    return result(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return result(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned)
{
    return result(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void)
{
    return result(forbidden() ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    std::lock_guard<std::mutex> hold(lock);
    *free_bytes = gpu.limit > gpu.used ? gpu.limit - gpu.used : 0;
    *total_bytes = gpu.limit;
    return result(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = n_devices() > 0 ? 13000 : 0;
    return result(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return result(cudaSuccess);
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    if (forbidden())
        return result(cudaErrorStreamCaptureUnsupported);
    std::lock_guard<std::mutex> hold(lock);
    *p = nullptr;
    if (bytes == 0)
        return result(cudaSuccess);
    if (bytes > gpu.limit || gpu.used > gpu.limit - bytes || posix_memalign(p, 256, bytes) != 0)
        return result(cudaErrorMemoryAllocation);
    memset(*p, 0xff, bytes); /* not zeros: no kernel may rely on them */
    gpu.used += bytes;
    gpu.counts.allocations++;
    gpu.blocks[*p] = bytes;
    return result(cudaSuccess);
}

cudaError_t cudaFree(void *p)
{
    if (!p)
        return result(cudaSuccess);
    if (forbidden())
        return result(cudaErrorStreamCaptureUnsupported);
    std::lock_guard<std::mutex> hold(lock);
    auto it = gpu.blocks.find(p);
    if (it == gpu.blocks.end())
        return result(cudaErrorInvalidValue);
    gpu.used -= it->second;
    gpu.blocks.erase(it);
    free(p);
    return result(cudaSuccess);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    if (forbidden())
        return result(cudaErrorStreamCaptureUnsupported);
    bool ok = posix_memalign(p, 256, bytes ? bytes : 1) == 0;
    std::lock_guard<std::mutex> hold(lock);
    gpu.counts.allocations++;
    return result(ok ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return result(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind,
                            cudaStream_t s)
{
    return enqueue(s, [=]() {
        count_copy(dst, src, bytes);
        if (bytes > 0)
            memmove(dst, src, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t row_bytes, size_t rows, enum cudaMemcpyKind, cudaStream_t s)
{
    if (row_bytes > dst_pitch || row_bytes > src_pitch)
        return result(cudaErrorInvalidValue);
    return enqueue(s, [=]() {
        count_copy(dst, src, rows * row_bytes);
        for (size_t i = 0; i < rows && row_bytes > 0; i++)
            memmove((char *)dst + i * dst_pitch, (const char *)src + i * src_pitch, row_bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    return enqueue(s, [=]() {
        count(&gpu.counts.sets);
        if (bytes > 0)
            memset(p, value, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t row_bytes, size_t rows,
                              cudaStream_t s)
{
    return enqueue(s, [=]() {
        count(&gpu.counts.sets);
        for (size_t i = 0; i < rows && row_bytes > 0; i++)
            memset((char *)p + i * pitch, value, row_bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p)
{
    std::lock_guard<std::mutex> hold(lock);
    if (gpu.blocks.find(p) == gpu.blocks.end())
        return result(cudaErrorInvalidValue);
    memset(handle, 0, sizeof *handle);
    memcpy(handle->reserved, &p, sizeof p);
    return result(cudaSuccess);
}

cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned)
{
    std::lock_guard<std::mutex> hold(lock);
    memcpy(p, handle.reserved, sizeof *p);
    return result(gpu.blocks.count(*p) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaIpcCloseMemHandle(void *)
{
    return result(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = new emulated_stream();
    return result(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t e = run_to(s, s->n_queued);
    delete s;
    return result(e);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    if (s->capture) {
        s->invalid = true;
        return result(cudaErrorStreamCaptureUnsupported);
    }
    return result(run_to(s, s->n_queued));
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    return cudaStreamQuery(s);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    cudaStream_t other = e->stream;
    uint64_t at = e->at;
    return enqueue(s, [=]() { return other && other != s ? run_to(other, at) : cudaSuccess; });
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    *e = new emulated_event();
    return result(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    return cudaEventCreate(e);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return result(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    cudaError_t st = enqueue(s, [=]() {
        e->ns = emulated_clock_ns();
        return cudaSuccess;
    });
    e->stream = s;
    e->at = s ? s->n_queued : 0;
    e->n_queries = 0;
    return st;
}

/* A host that asks again is willing to wait. */
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    if (forbidden())
        return result(cudaErrorStreamCaptureUnsupported);
    if (!e->stream || e->stream->n_run >= e->at)
        return result(cudaSuccess);
    if (e->n_queries++ == 0)
        return cudaErrorNotReady;
    return result(run_to(e->stream, e->at));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)((double)(to->ns - from->ns) * 1e-6);
    return result(from->ns && to->ns ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    if (s->capture)
        return result(cudaErrorIllegalState);
    s->capture = new work_list();
    s->invalid = false;
    capturing = mode == cudaStreamCaptureModeRelaxed ? nullptr : s;
    return result(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    *out = nullptr;
    if (!s->capture)
        return result(cudaErrorIllegalState);
    bool invalid = s->invalid;
    if (!invalid)
        *out = new emulated_graph{*s->capture};
    delete s->capture;
    s->capture = nullptr;
    capturing = nullptr;
    return result(invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long)
{
    *out = new emulated_graph(*g);
    return result(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
    count(&gpu.counts.graphs);
    make_late(s);
    for (auto &w : g->work) {
        cudaError_t e = enqueue(s, w);
        if (e != cudaSuccess)
            return e;
    }
    return result(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return result(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return result(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    delete g;
    return result(cudaSuccess);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

const char *cudaGetErrorName(cudaError_t e)
{
    return e == cudaSuccess         ? "cudaSuccess"
           : e == cudaErrorNotReady ? "cudaErrorNotReady"
                                    : "error";
}

const char *cudaGetErrorString(cudaError_t e)
{
    if (e == cudaErrorLaunchFailure && gpu.sticky == e)
        return gpu.sticky_text;
    switch (e) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    default:
        return "unspecified error of the emulator";
    }
}

} /* extern "C" */
