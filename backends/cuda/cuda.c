/* The CUDA backend as one device: opening, streams, events, graphs, and its table of ops. */
#include "backends/cuda/cuda.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/linear_lt.h"
#include "common/clock.h"

enum { MIN_CAPABILITY = 80 }; /* mma of bf16, cp.async */

struct graph {
    cudaGraph_t recorded;
    cudaGraphExec_t ready;
};

/* A machine without driver or device gets a sentence, not a code. */
static enum status count_devices(int *n)
{
    cudaError_t e = cudaGetDeviceCount(n);
    int driver = 0;
    if (e == cudaSuccess && *n > 0)
        return ST_OK;
    cudaGetLastError();
    if (e == cudaSuccess || e == cudaErrorNoDevice)
        FAIL(ST_DEVICE, "no CUDA device on this machine");
    if (e == cudaErrorInsufficientDriver &&
        (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0))
        FAIL(ST_DEVICE, "no CUDA driver on this machine");
    FAIL(ST_DEVICE, "CUDA devices cannot be used: %s", cudaGetErrorString(e));
}

static enum status choose_device(const struct backend_config *cfg, int *out)
{
    int n, major, minor;
    TRY(count_devices(&n));
    int device = cfg->by_rank && n == 1 ? 0 : cfg->device;
    if (device < 0 || device >= n)
        FAIL(ST_RANGE, "device %d, there %s %d", device, n == 1 ? "is" : "are", n);
    CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    CUDA_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (10 * major + minor < MIN_CAPABILITY)
        FAIL(ST_UNSUPPORTED, "device %d has compute capability %d.%d, needed is %d.%d", device,
             major, minor, MIN_CAPABILITY / 10, MIN_CAPABILITY % 10);
    *out = device;
    return ST_OK;
}

static void cuda_close(struct backend *be)
{
    if (!be)
        return;
    cudaSetDevice(be->device);
    lt_close(be->lt, be);
    cuda_free(be, be->scratch);
    cuda_free(be, be->staging);
    pools_free(be);
    for (int i = 0; i < N_EVENTS; i++)
        if (be->event[i])
            cudaEventDestroy(be->event[i]);
    if (be->uploaded)
        cudaEventDestroy(be->uploaded);
    if (be->upload_stream)
        cudaStreamDestroy(be->upload_stream);
    if (be->stream)
        cudaStreamDestroy(be->stream);
    free(be);
}

static enum status take_device(struct backend *be, enum numerics numerics)
{
    TRY(cuda_use(be));
    CUDA_TRY(cudaDeviceGetAttribute(&be->n_sm, cudaDevAttrMultiProcessorCount, be->device));
    CUDA_TRY(cudaStreamCreateWithFlags(&be->stream, cudaStreamNonBlocking));
    CUDA_TRY(cudaStreamCreateWithFlags(&be->upload_stream, cudaStreamNonBlocking));
    CUDA_TRY(cudaEventCreateWithFlags(&be->uploaded, cudaEventDisableTiming));
    for (int i = 0; i < N_EVENTS; i++)
        CUDA_TRY(cudaEventCreate(&be->event[i]));
    if (numerics == NUMERICS_FAST)
        TRY(lt_open(&be->lt, be));
    return be->planned ? ST_OK : cuda_take_own(be);
}

static enum status cuda_open(struct backend **out, const struct backend_config *cfg)
{
    int device = 0;
    TRY(choose_device(cfg, &device));
    struct backend *be = calloc(1, sizeof *be);
    if (!be)
        FAIL(ST_NOMEM, "no memory for a CUDA backend");
    be->base.ops = &cuda_ops;
    be->device = device;
    be->planned = cfg->planned;
    be->exact_x = cfg->activations == ACTIVATIONS_F32;
    enum status st = take_device(be, cfg->numerics);
    if (st != ST_OK) {
        cuda_close(be);
        return st;
    }
    *out = be;
    return ST_OK;
}

/* As nvidia-smi -L writes it. */
static void write_uuid(const cudaUUID_t *id, char out[48])
{
    int at = snprintf(out, 48, "GPU-");
    for (int i = 0; i < 16; i++)
        at += snprintf(out + at, (size_t)(48 - at), "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       (unsigned)(unsigned char)id->bytes[i]);
}

static void cuda_info(struct backend *be, struct backend_info *out)
{
    struct cudaDeviceProp prop = {.name = "?"};
    size_t mem_free = 0, mem_total = 0;
    char bus[sizeof out->bus] = "";
    if (cudaGetDeviceProperties(&prop, be->device) != cudaSuccess ||
        cudaDeviceGetPCIBusId(bus, sizeof bus, be->device) != cudaSuccess ||
        cudaMemGetInfo(&mem_free, &mem_total) != cudaSuccess)
        cudaGetLastError(); /* shows as no memory; the next op names the error */
    _Static_assert(N_FEATURES == 24, "all but one are here: is the new one, too?");
    *out = (struct backend_info){
        .mem_free = mem_free,
        .mem_total = mem_total,
        .mem_own = be->planned && !be->device_pool[pool_of(PART_OWN)].at ? cuda_own_bytes(be) : 0,
        .graphs = true,
        .experts = true,
        .features = ((1U << N_FEATURES) - 1) & ~(1U << FEATURE_ROUND_EXPERTS) &
                    ~(be->exact_x ? 1U << FEATURE_SORTED : 0),
        .kv_types = 1U << DT_F32 | 1U << DT_F16 | 1U << DT_BF16 | 1U << DT_I8 | 1U << DT_E4M3,
        .activations = be->exact_x ? ACTIVATIONS_F32 : ACTIVATIONS_AUTO,
    };
    snprintf(out->bus, sizeof out->bus, "%s", bus);
    write_uuid(&prop.uuid, out->uuid);
    snprintf(out->matrix, sizeof out->matrix, "sm%d%d-mma%d", prop.major, prop.minor,
             CUDA_CONTRACT);
    snprintf(out->device, sizeof out->device, "CUDA %d %.60s, sm_%d%d", be->device, prop.name,
             prop.major, prop.minor);
}

static enum status cuda_event_mark(struct backend *be, int slot)
{
    assert(slot >= 0 && slot < N_EVENTS);
    CUDA_TRY(cudaEventRecord(be->event[slot], be->stream));
    be->n_marked[slot] = be->n_enqueued;
    return ST_OK;
}

static enum status cuda_event_wait(struct backend *be, int slot, uint64_t wait_us, bool *passed)
{
    uint64_t from = clock_us();
    assert(slot >= 0 && slot < N_EVENTS);
    for (;;) {
        cudaError_t e = cudaEventQuery(be->event[slot]);
        *passed = e == cudaSuccess;
        if (*passed) {
            if (be->n_marked[slot] > be->n_ended)
                be->n_ended = be->n_marked[slot];
            return ST_OK;
        }
        if (e != cudaErrorNotReady)
            return cuda_fault(be, e);
        if (be->watch)
            TRY(be->watch(be->watch_ctx, clock_us() - from));
        if (clock_us() - from >= wait_us)
            return ST_OK;
        sched_yield();
    }
}

static enum status cuda_event_elapsed(struct backend *be, int from, int to, uint64_t *ns)
{
    float ms;
    assert(from >= 0 && from < N_EVENTS && to >= 0 && to < N_EVENTS);
    TRY(cuda_sync(be));
    CUDA_TRY(cudaEventElapsedTime(&ms, be->event[from], be->event[to]));
    *ns = (uint64_t)((double)ms * 1e6);
    return ST_OK;
}

static enum status cuda_graph_begin(struct backend *be)
{
    if (be->capturing)
        FAIL(ST_BUG, "ops are being recorded already");
    CUDA_TRY(cudaStreamBeginCapture(be->stream, cudaStreamCaptureModeThreadLocal));
    be->capturing = true;
    return ST_OK;
}

static void cuda_graph_free(struct backend *be, struct graph *g)
{
    (void)be;
    if (!g)
        return;
    if (g->ready)
        cudaGraphExecDestroy(g->ready);
    if (g->recorded)
        cudaGraphDestroy(g->recorded);
    free(g);
}

static enum status finish_graph(struct backend *be, struct graph *g)
{
    be->capturing = false;
    CUDA_TRY(cudaStreamEndCapture(be->stream, &g->recorded));
    CUDA_TRY(cudaGraphInstantiate(&g->ready, g->recorded, 0));
    CUDA_TRY(cudaGraphUpload(g->ready, be->stream));
    return ST_OK;
}

static enum status cuda_graph_end(struct backend *be, struct graph **out)
{
    if (!be->capturing)
        FAIL(ST_BUG, "no ops are being recorded");
    struct graph *g = calloc(1, sizeof *g), none = {0};
    enum status st = finish_graph(be, g ? g : &none); /* the recording ends in any case */
    if (!g)
        FAIL(ST_NOMEM, "no memory for a graph");
    if (st != ST_OK) {
        cuda_graph_free(be, g);
        return st;
    }
    *out = g;
    return ST_OK;
}

static enum status cuda_graph_launch(struct backend *be, struct graph *g)
{
    CUDA_TRY(cudaGraphLaunch(g->ready, be->stream));
    cuda_enqueued(be, "a recorded step");
    return ST_OK;
}

bool cuda_is(const struct backend *be)
{
    return backend_ops_of(be) == &cuda_ops;
}

void *cuda_device_ptr(struct view v)
{
    return view_ptr(v);
}

void *cuda_stream(struct backend *be)
{
    return be->stream;
}

int cuda_ordinal(const struct backend *be)
{
    return be->device;
}

void cuda_watch(struct backend *be, enum status (*fn)(void *ctx, uint64_t waited_us), void *ctx)
{
    be->watch = fn;
    be->watch_ctx = ctx;
}

enum status cuda_use(struct backend *be)
{
    CUDA_TRY(cudaSetDevice(be->device));
    return ST_OK;
}

const struct backend_ops cuda_ops = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .reserve = cuda_reserve,
    .part = cuda_part,
    .used = cuda_used,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .write = cuda_write,
    .read = cuda_read,
    .copy = cuda_copy,
    .upload = cuda_upload,
    .zero = cuda_zero,
    .sync = cuda_sync,
    .pinned_ptr = cuda_pinned_ptr,
    .weight_bytes = cuda_weight_bytes,
    .load_weight = cuda_load_weight,
    .free_weight = cuda_free_weight,
    .stack_bytes = cuda_stack_bytes,
    .load_stack = cuda_load_stack,
    .embed = cuda_embed,
    .linear = cuda_linear,
    .reads_operand = cuda_reads_operand,
    .linear_act_mul = cuda_linear_act_mul,
    .add_rms_norm = cuda_add_rms_norm,
    .qkv_to_cache = cuda_qkv_to_cache,
    .attention = cuda_attention,
    .act_mul = cuda_act_mul,
    .activate = cuda_activate,
    .scale = cuda_scale,
    .soft_cap = cuda_soft_cap,
    .moe_route = cuda_moe_route,
    .moe_scratch = cuda_moe_scratch,
    .moe_ffn = cuda_moe_ffn,
    .add = cuda_add,
    .gather = cuda_gather,
    .edit_logits = cuda_edit_logits,
    .mask_logits = cuda_mask_logits,
    .topk = cuda_topk,
    .sample = cuda_sample,
    .take_tokens = cuda_take_tokens,
    .latent_to_cache = cuda_latent_to_cache,
    .heads_linear = cuda_heads_linear,
    .delta_conv = cuda_delta_conv,
    .delta_rule = cuda_delta_rule,
    .gated_norm = cuda_gated_norm,
    .sigmoid_mul = cuda_sigmoid_mul,
    .add_bias = cuda_add_bias,
    .head_squares = cuda_head_squares,
    .wide_norm = cuda_wide_norm,
    .predict_streams = cuda_predict_streams,
    .correct_streams = cuda_correct_streams,
    .match_rms = cuda_match_rms,
    .known_ids = cuda_known_ids,
    .slice_stats = cuda_slice_stats,
    .cut_gates = cuda_cut_gates,
    .input_peaks = cuda_input_peaks,
    .round_input = cuda_round_input,
    .moe_bias = cuda_moe_bias,
    .layer_norm = cuda_layer_norm,
    .event_mark = cuda_event_mark,
    .event_wait = cuda_event_wait,
    .event_elapsed = cuda_event_elapsed,
    .graph_begin = cuda_graph_begin,
    .graph_end = cuda_graph_end,
    .graph_launch = cuda_graph_launch,
    .graph_free = cuda_graph_free,
};
