/* The CUDA backend's own structures, shared by its host files (C) and its kernels (.cu). */
#ifndef BACKENDS_CUDA_CUDA_BACKEND_H
#define BACKENDS_CUDA_CUDA_BACKEND_H

#include <assert.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"
#include "backends/cuda/k_layout.h"
#include "backends/cuda/quant_layout.h"
#include "backends/cuda/scaled_layout.h"
#include "backends/cuda/sorted_layout.h"

enum {
    CUDA_CONTRACT = 4, /* raise it with every change of a bit of this backend alone */
    N_EVENTS = 16,
    STAGING_BYTES = 16 << 20,      /* pinned memory through which host data goes */
    SCRATCH_BYTES = 96 << 20,      /* of the device, for one op at a time */
    ROW_PAD = 16,                  /* rows of a matrix in memory are a multiple of this */
    DECODE_OUTER_BYTES = 64 << 10, /* of it, for each multiprocessor: attention.cu */
    ATTENTION_ROWS = 16,           /* query heads that share a KV head: one matrix fragment */
    KNOWN_KERNELS = 256,           /* kernels whose attributes are remembered */
    N_ENQUEUED = 256,              /* names of kernels that are remembered for faults */
    SUSPECTS_BYTES = 240,
    N_WEIGHT_PARTS = 3, /* of struct weight_src */
    N_POOLS =
        2, /* of the collective, which is there before the rest is planned; of all other parts */
};

struct buf {
    void *data; /* of the device; MEM_PINNED: of the host, which the device reaches too */
    size_t bytes;
    enum mem_kind kind;
    struct pool *pool; /* NULL: an allocation of its own */
    enum mem_part part;
};

/* One block of memory that is given out from its beginning.  at NULL: it is not there. */
struct pool {
    char *at;
    size_t bytes, used;
};

/* matrix of floats: [n_pad, k_pad] row-major in dtype, columns as k_layout says, else zeros; vector: [k] f32;
 * stack: n_stacked matrices one after the other. */
struct weight {
    bool vector;
    int32_t n_stacked;    /* 0: not a stack */
    enum dtype dtype;     /* F32, F16, BF16 */
    int32_t n, k;         /* rows, columns; a vector: n = 1 */
    int32_t n_pad, k_pad; /* multiples of ROW_PAD, K_STEP; one slice: column k is element k */
    struct k_layout k_layout;
    struct buf *data; /* NULL: no elements */
    struct buf *bias; /* [n_pad] f32, or NULL */
    /* Quantised: [n_pad / QUANT_PANEL] panels, from element `skip` of a block on.  Else NULL. */
    const struct quant_type *quant;
    struct quant_place place;
    int32_t skip;
    /* With scales in f32: [n_pad / SCALED_PANEL] panels.  Else of SCALED_NONE. */
    struct scaled_place scaled;
    /* Of sorted columns: a head and [n_pad / QUANT_PANEL] panels.  Else of 0 bits. */
    struct sorted_place sorted;
    /* Rows of several types of which one is not of floats, or in several orders of columns: a weight for each, of a stack
     * a stack, and no data here. */
    int32_t n_parts;
    struct weight *part[N_WEIGHT_PARTS];
};

/* What is known of a kernel: does the loaded code have pdl_wait's instructions? */
struct known_kernel {
    const void *kernel; /* NULL: a free place */
    bool waits;
    /* Blocks of that many threads and bytes which a multiprocessor runs at once; 0: not asked. */
    int32_t blocks, threads;
    size_t dyn_smem;
};

struct backend {
    struct backend_base base;
    int device;
    int n_sm;                                            /* multiprocessors */
    enum status (*watch)(void *ctx, uint64_t waited_us); /* see device.h */
    void *watch_ctx;
    cudaStream_t stream;
    cudaEvent_t event[N_EVENTS];
    cudaStream_t upload_stream; /* of upload, beside `stream`, */
    cudaEvent_t uploaded;       /* which waits for this after each */
    /* reserve's blocks, what was planned and what is taken of each part. */
    bool planned;
    struct pool device_pool[N_POOLS], pinned_pool[N_POOLS];
    struct mem_plan plan, used;
    enum mem_part part;  /* of what is alloc'ed now */
    bool exact_x;        /* x meets scaled weights in f32, on no matrix units: ACTIVATIONS_F32 */
    struct buf *scratch; /* [SCRATCH_BYTES]; free for every op: ops are in one stream */
    struct buf *staging; /* [STAGING_BYTES] pinned, filled in a ring */
    size_t staging_used;
    bool capturing;
    uint64_t n_launched; /* kernels enqueued or recorded, without those of cuBLASLt */
    struct known_kernel known[KNOWN_KERNELS];
    /* A fault arrives later than its launch: of the kernels and graphs enqueued so far the first
     * n_ended are known to have ended, the others may have caused it. */
    const char *enqueued[N_ENQUEUED];
    uint64_t n_enqueued, n_ended, n_marked[N_EVENTS];
    struct lt *lt; /* numerics fast; else NULL */
};

/* CUDA's text as the detail of a ST_DEVICE (ST_NOMEM for memory). */
MUST_CHECK enum status cuda_failed(const char *file, int line, const char *what, cudaError_t e);
#define CUDA_TRY(call)                                                                             \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess)                                                                     \
            return cuda_failed(__FILE__, __LINE__, #call, e_);                                     \
    } while (0)

/* launch.c */
/* May this kernel be launched before its predecessor has ended?  Only where its code waits. */
bool cuda_may_begin_early(struct backend *be, const void *kernel);
/* Blocks that the whole device runs at once, at least one for each multiprocessor. */
MUST_CHECK enum status cuda_blocks_at_once(struct backend *be, const void *kernel, int threads,
                                           size_t dyn_smem, int32_t *out);
/* The end of LAUNCH: names the kernel when it failed, and those that are under way. */
MUST_CHECK enum status cuda_launched(struct backend *be, const char *kernel, cudaError_t e);
/* `what` (a constant) has been enqueued: a kernel, a graph. */
void cuda_enqueued(struct backend *be, const char *what);
/* A wait for the device found e: with the names of the kernels that may have caused it. */
MUST_CHECK enum status cuda_fault(struct backend *be, cudaError_t e);

static inline size_t round_up_size(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Blocks of a grid in which each handles `per` of n; at least 1. */
static inline int32_t blocks_for(int64_t n, int64_t per)
{
    return n > per ? (int32_t)((n + per - 1) / per) : 1;
}

static inline void *view_ptr(struct view v)
{
    size_t size = dtype_size(v.dtype), rows = (size_t)v.rows;
    assert(v.rows >= 0 && v.cols >= 0 && v.stride >= v.cols && v.off <= v.buf->bytes);
    assert(rows == 0 ||
           ((rows - 1) * (size_t)v.stride + (size_t)v.cols) * size <= v.buf->bytes - v.off);
    (void)size;
    (void)rows;
    return (char *)v.buf->data + v.off;
}

static inline float *view_f32(struct view v)
{
    assert(v.dtype == DT_F32 && !v.reader); /* an operand has no elements */
    return (float *)view_ptr(v);
}

static inline int32_t *view_i32(struct view v)
{
    assert(v.dtype == DT_I32);
    return (int32_t *)view_ptr(v);
}

static inline const float *vector_of(const struct weight *w)
{
    assert(!w || w->vector);
    return w && w->data ? (const float *)w->data->data : NULL;
}

static inline const float *bias_of(const struct weight *w)
{
    return w->bias ? (const float *)w->bias->data : NULL;
}

static inline const void *matrix_of(const struct weight *w)
{
    assert(!w->vector);
    return w->data ? w->data->data : NULL;
}

static inline bool has_panels(const struct weight *w)
{
    return w->quant || w->sorted.bits || w->scaled.kind != SCALED_NONE ||
           (w->n_stacked && w->n_parts);
}

/* Does x meet the weights in 8 bits (quant_kernels.h)? */
static inline bool is_quantised(const struct weight *w)
{
    return w->quant || w->sorted.bits;
}

static inline size_t panel_bytes_of(const struct weight *w)
{
    return w->quant         ? w->place.panel_bytes
           : w->sorted.bits ? w->sorted.panel_bytes
                            : w->scaled.panel_bytes;
}

/* Of a matrix, or of each of a stack. */
static inline size_t panels_bytes_of(const struct weight *w)
{
    return w->sorted.head_bytes + (size_t)w->n_pad / QUANT_PANEL * panel_bytes_of(w);
}

/* pool.c */
/* Of the device_pool and pinned_pool that `part` is in. */
int pool_of(enum mem_part part);
void cuda_part(struct backend *be, enum mem_part part);
void cuda_used(struct backend *be, struct mem_plan *out);
/* b's memory from its kind's pool. */
MUST_CHECK enum status pool_take(struct backend *be, struct buf *b);
void pool_give(struct backend *be, struct buf *b);
void pools_free(struct backend *be);

/* reserve.c */
/* Bytes of the backend's own buffers, before they are taken: mem_own of info. */
size_t cuda_own_bytes(const struct backend *be);
/* Takes them: out of the plan, or from the driver. */
MUST_CHECK enum status cuda_take_own(struct backend *be);
enum status cuda_reserve(struct backend *be, const struct mem_plan *plan);

/* memory.c */
enum status cuda_alloc(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out);
void cuda_free(struct backend *be, struct buf *b);
enum status cuda_write(struct backend *be, struct view dst, const void *src);
enum status cuda_read(struct backend *be, void *dst, struct view src);
enum status cuda_copy(struct backend *be, struct view dst, struct view src);
enum status cuda_upload(struct backend *be, struct view dst, struct view src);
enum status cuda_zero(struct backend *be, struct view dst);
enum status cuda_sync(struct backend *be);
void *cuda_pinned_ptr(struct backend *be, struct buf *b);
/* Pinned memory for `bytes` (<= STAGING_BYTES) that the device has finished with. */
MUST_CHECK enum status staging_take(struct backend *be, size_t bytes, char **out);

/* weight.c */
size_t cuda_weight_bytes(struct backend *be, const struct weight_src *src);
/* The same without its data: zeros, which benchmarks fill on the device. */
enum status cuda_take_weight(struct backend *be, const struct weight_src *src, struct weight **out);
enum status cuda_load_weight(struct backend *be, const struct weight_src *src, struct weight **out);
void cuda_free_weight(struct backend *be, struct weight *w);
size_t cuda_stack_bytes(struct backend *be, const struct weight_src *src, int32_t n);
enum status cuda_load_stack(struct backend *be, const struct weight_src *src, int32_t n,
                            struct weight **out);

/* rows.cu */
enum status cuda_embed(struct backend *be, const struct weight *table, int32_t first_id,
                       struct view ids, struct view out);
enum status cuda_add_rms_norm(struct backend *be, struct view resid, struct view x,
                              const struct weight *x_bias, const struct weight *w, float eps,
                              struct view out);
enum status cuda_layer_norm(struct backend *be, struct view x, const struct weight *w,
                            const struct weight *b, float eps, struct view out);
enum status cuda_act_mul(struct backend *be, enum act act, struct view gate_up, struct view out);
enum status cuda_scale(struct backend *be, struct view x, float factor);
enum status cuda_soft_cap(struct backend *be, struct view x, float cap);
enum status cuda_activate(struct backend *be, enum act act, struct view x, struct view out);
enum status cuda_add(struct backend *be, struct view dst, struct view src, float scale);
enum status cuda_gather(struct backend *be, struct view x, struct view row, struct view out);

/* linear_quant.c */
MUST_CHECK enum status cuda_linear_quant(struct backend *be, const struct weight *w, struct view x,
                                         struct view out);
MUST_CHECK enum status cuda_embed_quant(struct backend *be, const struct weight *table,
                                        int32_t first_id, struct view ids, struct view out);

/* linear_scaled.c */
MUST_CHECK enum status cuda_linear_scaled(struct backend *be, const struct weight *w, struct view x,
                                          struct view out);
MUST_CHECK enum status cuda_embed_scaled(struct backend *be, const struct weight *table,
                                         int32_t first_id, struct view ids, struct view out);

/* linear.c */
enum status cuda_linear(struct backend *be, const struct weight *w, struct view x, struct view out);
enum status cuda_linear_act_mul(struct backend *be, enum act act, const struct weight *w,
                                struct view x, struct view mid, struct view out);

/* operand.c */
bool cuda_reads_operand(const struct backend *be, const struct weight *w, enum operand_source from);

/* heads.c */
enum status cuda_heads_linear(struct backend *be, const struct weight *w, struct view x,
                              struct view out);

/* gates.cu */
enum status cuda_sigmoid_mul(struct backend *be, struct view x, struct view gate);
enum status cuda_add_bias(struct backend *be, struct view x, const struct weight *b);
enum status cuda_head_squares(struct backend *be, struct view x, struct view out);
enum status cuda_wide_norm(struct backend *be, struct view x, struct view squares, int32_t d,
                           int32_t group, int32_t first, const struct weight *w, float eps);
enum status cuda_gated_norm(struct backend *be, struct view x, const struct weight *w, float eps,
                            struct view gate);
enum status cuda_predict_streams(struct backend *be, struct view x, struct view coef);
enum status cuda_correct_streams(struct backend *be, struct view x, struct view coef, int32_t i,
                                 const struct weight *w, struct view active);
enum status cuda_match_rms(struct backend *be, struct view x, struct view like);
enum status cuda_known_ids(struct backend *be, struct view ids, int32_t n, struct view out);
enum status cuda_slice_stats(struct backend *be, struct view x, int32_t n_slices,
                             const int32_t *slice_end, struct view out);
enum status cuda_cut_gates(struct backend *be, struct view x, struct view stats, float factor);

/* inputs.cu */
enum status cuda_input_peaks(struct backend *be, const struct input_rule *r, struct view x,
                             struct view out);
enum status cuda_round_input(struct backend *be, const struct input_rule *r, struct view x,
                             struct view peaks, struct view out);

/* delta.cu */
enum status cuda_delta_conv(struct backend *be, const struct delta_layer *dl,
                            const struct step_dev *st, struct view qkv, struct delta_state s);
enum status cuda_delta_rule(struct backend *be, const struct delta_layer *dl,
                            const struct step_dev *st, struct view qkv, struct view ba,
                            struct delta_state s, struct view out);

/* moe_act.cu */
enum status cuda_moe_bias(struct backend *be, const struct moe_layer *ml, struct view ids,
                          struct view weights, struct view out);

/* moe.c */
size_t cuda_moe_scratch(struct backend *be, const struct moe_layer *ml, int32_t max_tokens);
enum status cuda_moe_ffn(struct backend *be, const struct moe_layer *ml, struct view x,
                         struct view ids, struct view weights, struct view scratch,
                         struct view out);

/* moe_route.cu */
enum status cuda_moe_route(struct backend *be, const struct moe_layer *ml, struct view logits,
                           struct view ids, struct view weights);

/* qkv.cu */
enum status cuda_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                              const struct step_dev *st, struct view qkv, struct kv_layer kv,
                              struct view q);
enum status cuda_latent_to_cache(struct backend *be, const struct attn_layer *al,
                                 const struct step_dev *st, struct view latent, struct view q_heads,
                                 struct kv_layer kv, struct view q);

/* attention.cu */
enum status cuda_attention(struct backend *be, const struct attn_layer *al,
                           const struct step_dev *st, struct view q, struct kv_layer kv,
                           struct view out);

/* logits.cu */
enum status cuda_edit_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                             struct view start, struct view words);
enum status cuda_mask_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                             struct view mask);
enum status cuda_topk(struct backend *be, const struct vocab_part *part, struct view logits,
                      struct view inv_temp, struct view val, struct view id, struct view stat);
enum status cuda_sample(struct backend *be, const struct draw_shape *shape, struct view top,
                        struct view row, struct view id);
enum status cuda_take_tokens(struct backend *be, struct view token, struct view from,
                             struct view last);

#ifdef __cplusplus
}
#endif

#endif
