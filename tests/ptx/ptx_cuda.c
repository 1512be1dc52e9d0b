#include "ptx/ptx_cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FUNCTIONS = 512,
    MAX_MODULES = 64,
    ALIGNMENT = 256,           /* of cudaMalloc */
    SHARED_DEFAULT = 48 << 10, /* dynamic shared memory without the attribute for more */
    TOTAL_MEMORY_MB = 4096,
};

/* A kernel as host code knows it. */
struct function {
    const void *host;
    const char *name;
    size_t max_dynamic;
    uint64_t launches;
};

static struct runtime {
    struct ptx_machine *machine;
    struct ptx_module *module[MAX_MODULES];
    int n_modules, n_sm;
    size_t block_smem; /* bytes that a block may have */
    uint32_t n_streams;
    char failure[600];
} rt;

/* Filled by constructors, before main. */
static struct function functions[MAX_FUNCTIONS];
static size_t n_functions;

/* ---- for the test program ---- */

enum status ptx_cuda_open(const struct ptx_config *cfg, int n_sm)
{
    rt = (struct runtime){.n_sm = n_sm, .block_smem = 227 << 10};
    for (size_t i = 0; i < n_functions; i++)
        functions[i].launches = 0;
    return ptx_machine_create(&rt.machine, cfg);
}

void ptx_cuda_block_smem(size_t bytes)
{
    rt.block_smem = bytes;
}

static enum status read_file(const char *path, char **out, size_t *n)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    if (f && fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    *out = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (*out) {
        rewind(f);
        *n = fread(*out, 1, (size_t)size, f);
    }
    if (f)
        fclose(f);
    if (!*out || *n != (size_t)size) {
        free(*out);
        FAIL(ST_IO, "%s cannot be read", path);
    }
    return ST_OK;
}

enum status ptx_cuda_load(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    if (rt.n_modules == MAX_MODULES)
        FAIL(ST_RANGE, "more than %d modules", MAX_MODULES);
    TRY(read_file(path, &text, &n));
    enum status st = ptx_parse(&rt.module[rt.n_modules], text, n);
    free(text);
    if (st != ST_OK) {
        snprintf(rt.failure, sizeof rt.failure, "%s", status_text());
        FAIL(st, "%s: %s", path, rt.failure);
    }
    rt.n_modules++;
    return ST_OK;
}

void ptx_cuda_close(void)
{
    ptx_machine_destroy(rt.machine);
    for (int i = 0; i < rt.n_modules; i++)
        ptx_module_destroy(rt.module[i]);
    rt = (struct runtime){0};
}

struct ptx_machine *ptx_cuda_machine(void)
{
    return rt.machine;
}

const char *ptx_cuda_kernel(size_t i, uint64_t *launches)
{
    if (i >= n_functions)
        return NULL;
    *launches = functions[i].launches;
    return functions[i].name;
}

const char *ptx_cuda_failure(void)
{
    return rt.failure;
}

static cudaError_t fail(cudaError_t e)
{
    snprintf(rt.failure, sizeof rt.failure, "%s", status_text());
    return e;
}

static cudaError_t refuse(const char *what)
{
    snprintf(rt.failure, sizeof rt.failure, "%s is not part of this runtime", what);
    return cudaErrorNotSupported;
}

/* Everything that was launched has ended. */
static cudaError_t settle(void)
{
    return ptx_run(rt.machine) == ST_OK ? cudaSuccess : fail(cudaErrorLaunchFailure);
}

static struct ptx_memory *memory(void)
{
    return ptx_machine_memory(rt.machine);
}

/* ---- kernels ---- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *bdim, void *gdim,
                            int *warp_size);
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     void *stream);
cudaError_t __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
                               void **args, size_t shared, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary; /* the PTX comes from files */
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *bdim, void *gdim,
                            int *warp_size)
{
    (void)handle, (void)name, (void)thread_limit, (void)tid, (void)bid, (void)bdim, (void)gdim;
    (void)warp_size;
    if (n_functions == MAX_FUNCTIONS) {
        fprintf(stderr, "more than %d kernels\n", MAX_FUNCTIONS);
        abort();
    }
    functions[n_functions++] = (struct function){host, device, SHARED_DEFAULT, 0};
}

/* The bodies of nvcc's stubs for <<<>>>, which the backend does not use. */
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     void *stream)
{
    (void)grid, (void)block, (void)shared, (void)stream;
    return 1;
}

cudaError_t __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void *stream)
{
    (void)grid, (void)block, (void)shared, (void)stream;
    return refuse("<<<>>>");
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host)
{
    (void)out, (void)host;
    return refuse("<<<>>>");
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
                               void **args, size_t shared, cudaStream_t stream)
{
    (void)kernel, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
    return refuse("<<<>>>");
}

static struct function *function_of(const void *host)
{
    for (size_t i = 0; i < n_functions; i++)
        if (functions[i].host == host)
            return &functions[i];
    return NULL;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    struct function *f = function_of(func);
    if (!f || attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        (size_t)value > rt.block_smem)
        return refuse("this attribute of a function");
    f->max_dynamic = (size_t)value > SHARED_DEFAULT ? (size_t)value : SHARED_DEFAULT;
    return cudaSuccess;
}

static enum status find_kernel(const char *name, struct ptx_launch *l)
{
    for (int i = 0; i < rt.n_modules; i++) {
        l->module = rt.module[i];
        l->entry = ptx_find(l->module, name);
        if (l->entry)
            return ST_OK;
    }
    FAIL(ST_NOT_FOUND, "no PTX file has the kernel %s", name);
}

/* The manual's occupancy rules for shared memory and threads of compute capability 9.0: 228 KiB of
 * which each block takes 1 KiB for the system, 2,048 threads, 32 blocks. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func, int threads,
                                                          size_t dyn_smem)
{
    struct function *f = function_of(func);
    if (!f || threads < 1 || dyn_smem > f->max_dynamic)
        return refuse("the occupancy of this function");
    size_t blocks = (228 << 10) / (dyn_smem + 1024);
    if (blocks > (size_t)(2048 / threads))
        blocks = (size_t)(2048 / threads);
    *n = blocks < 32 ? (int)blocks : 32;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    struct function *f = function_of(func);
    struct ptx_launch l;
    if (!f || find_kernel(f->name, &l) != ST_OK)
        return refuse("a function that is no kernel");
    *attr = (struct cudaFuncAttributes){.ptxVersion = l.module->target,
                                        .binaryVersion = l.module->target};
    return cudaSuccess;
}

static enum status gather_params(const struct ptx_entry *e, void **args, uint8_t *params)
{
    int arg = 0;
    for (int32_t i = 0; i < e->n_vars; i++)
        if (e->var[i].space == PTX_PARAM)
            memcpy(params + e->var[i].offset, args[arg++], e->var[i].bytes);
    return ST_OK;
}

static enum status take_attributes(const cudaLaunchConfig_t *c, struct ptx_launch *l)
{
    for (unsigned i = 0; i < c->numAttrs; i++) {
        if (c->attrs[i].id != cudaLaunchAttributeProgrammaticStreamSerialization)
            FAIL(ST_UNSUPPORTED, "launch attribute %d", (int)c->attrs[i].id);
        l->dependent = c->attrs[i].val.programmaticStreamSerializationAllowed != 0;
    }
    return ST_OK;
}

static enum status launch(const cudaLaunchConfig_t *c, struct function *f, void **args)
{
    struct ptx_launch l = {
        .grid = {c->gridDim.x, c->gridDim.y, c->gridDim.z},
        .block = {c->blockDim.x, c->blockDim.y, c->blockDim.z},
        .dynamic_bytes = c->dynamicSmemBytes,
        .stream = c->stream ? *(const uint32_t *)(const void *)c->stream : 0,
    };
    TRY(find_kernel(f->name, &l));
    TRY(take_attributes(c, &l));
    if (l.dynamic_bytes > f->max_dynamic)
        FAIL(ST_RANGE, "%s: %zu bytes of dynamic shared memory, the attribute allows %zu", f->name,
             l.dynamic_bytes, f->max_dynamic);
    uint8_t *params = calloc(l.entry->param_bytes + 1, 1);
    if (!params)
        FAIL(ST_NOMEM, "no memory for parameters");
    enum status st = gather_params(l.entry, args, params);
    l.params = params;
    if (st == ST_OK)
        st = ptx_enqueue(rt.machine, &l);
    free(params);
    f->launches += st == ST_OK;
    return st;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    struct function *f = function_of(func);
    if (!f)
        return refuse("a function that is no kernel");
    return launch(config, f, args) == ST_OK ? cudaSuccess : fail(cudaErrorInvalidConfiguration);
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : refuse("a second device");
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    (void)device;
    switch (attr) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = rt.n_sm;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)rt.block_smem;
        return cudaSuccess;
    default:
        return refuse("this attribute of the device");
    }
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    (void)device;
    *prop = (struct cudaDeviceProp){.major = 9, .name = "PTX machine"};
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device)
{
    snprintf(out, (size_t)size, "0000:%02x:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *n_free, size_t *total)
{
    *n_free = *total = (size_t)TOTAL_MEMORY_MB << 20;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : rt.failure;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

/* ---- memory ---- */

static cudaError_t take(void **out, size_t bytes, bool device)
{
    *out = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    if (!*out)
        return cudaErrorMemoryAllocation;
    if (ptx_memory_add(memory(), *out, bytes, device) == ST_OK)
        return cudaSuccess;
    free(*out);
    return fail(cudaErrorMemoryAllocation);
}

static cudaError_t give(void *at)
{
    if (!at)
        return cudaSuccess;
    cudaError_t e = settle();
    if (ptx_memory_remove(memory(), at) != ST_OK)
        return fail(cudaErrorInvalidValue);
    free(at);
    return e;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return take(out, bytes, true);
}

cudaError_t cudaFree(void *at)
{
    return give(at);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return take(out, bytes, false);
}

cudaError_t cudaFreeHost(void *at)
{
    return give(at);
}

/* Rows of a copy; what the host gets must be defined. */
static cudaError_t copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                             size_t width, size_t height)
{
    struct ptx_memory *m = memory();
    cudaError_t e = settle();
    if (e != cudaSuccess)
        return e;
    for (size_t i = 0; i < height; i++) {
        uint8_t *d = (uint8_t *)dst + i * dst_pitch;
        const uint8_t *s = (const uint8_t *)src + i * src_pitch;
        const struct ptx_region *to = ptx_memory_find(m, (uint64_t)(uintptr_t)d, width);
        if ((!to || !to->state) && ptx_memory_check(m, s, width) != ST_OK)
            return fail(cudaErrorIllegalAddress);
        memmove(d, s, width);
        ptx_memory_copy_state(m, d, s, width);
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind, (void)stream;
    return copy_rows(dst, count, src, count, count, 1);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    (void)kind, (void)stream;
    if (width > dpitch || width > spitch)
        return refuse("a pitch below the width");
    return copy_rows(dst, dpitch, src, spitch, width, height);
}

cudaError_t cudaMemset2DAsync(void *at, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    cudaError_t e = settle();
    (void)stream;
    for (size_t i = 0; e == cudaSuccess && i < height; i++) {
        memset((uint8_t *)at + i * pitch, value, width);
        ptx_memory_define(memory(), (uint8_t *)at + i * pitch, width);
    }
    return e;
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t count, cudaStream_t stream)
{
    return cudaMemset2DAsync(at, count, value, count, 1, stream);
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    uint32_t *s = malloc(sizeof *s);
    (void)flags;
    if (!s)
        return cudaErrorMemoryAllocation;
    *s = ++rt.n_streams % PTX_MAX_STREAMS; /* streams that share a number share a queue */
    *out = (cudaStream_t)(void *)s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t e = settle();
    free((void *)stream);
    return e;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    (void)stream;
    return settle();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return settle();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = malloc(1);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free((void *)event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    return settle();
}

/* ---- what this runtime does not have ---- */

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    (void)ms, (void)start, (void)end;
    return refuse("the time between events");
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)stream, (void)mode;
    return refuse("capture");
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    (void)stream, (void)out;
    return refuse("capture");
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)out, (void)graph, (void)flags;
    return refuse("a graph");
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream)
{
    (void)graph, (void)stream;
    return refuse("a graph");
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    (void)graph, (void)stream;
    return refuse("a graph");
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return refuse("a graph");
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    (void)graph;
    return refuse("a graph");
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *at)
{
    (void)out, (void)at;
    return refuse("sharing between processes");
}

cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags)
{
    (void)out, (void)handle, (void)flags;
    return refuse("sharing between processes");
}

cudaError_t cudaIpcCloseMemHandle(void *at)
{
    (void)at;
    return refuse("sharing between processes");
}
