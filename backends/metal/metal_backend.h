/* The Metal backend's own structures, shared by its files.  Memory is unified: a buffer is an
 * MTLBuffer in shared storage, which the host reads and writes when no command buffer uses it. */
#ifndef BACKENDS_METAL_METAL_BACKEND_H
#define BACKENDS_METAL_METAL_BACKEND_H

#include <assert.h>

#include "backends/backend.h"
#include "backends/metal/archive_files.h"
#include "backends/metal/args.h"
#include "common/mapped_file.h"

typedef void *objc_ref; /* an object of Objective-C (its `id`), owned where it is a member */

struct mtl_size {
    unsigned long width, height, depth;
};

enum metal_kernel {
#define METAL_ENUM(name) KERNEL_##name,
    METAL_KERNELS(METAL_ENUM)
#undef METAL_ENUM
        N_METAL_KERNELS
};

enum {
    N_EVENTS = 16,
    METAL_MAX_COMMITTED = 32,  /* command buffers under way; half of what a queue gives */
    METAL_MAX_BLOCKS = 64,     /* of the memory plan */
    METAL_MAX_MAPPED = 8,      /* buffers over a file: one is the device's memory or half of it */
    MAX_BOUND = 16,            /* buffers of a kernel */
    TOPK_MAX = 256,            /* largest k of topk */
    SCRATCH_BYTES = 16 << 20,  /* lists of topk; free for every op: ops are in one queue */
    METAL_FAMILY_APPLE = 1000, /* MTLGPUFamily: Apple7 is 1007 */
    DISPATCH_WORK = 1 << 30,   /* most multiply-adds of a dispatch */
};

/* Of a command buffer, and of a dispatch of attention: macOS ends those that run for long.  Half a second on an M1 where
 * a multiply-add takes 75 ticks of a lane (tests/metal/predict.py). */
static const uint64_t METAL_MAX_WORK = UINT64_C(1) << 33;
/* As DISPATCH_WORK, of matrices, which are several times as fast and read w once for 32 rows. */
static const int64_t MATRIX_WORK = INT64_C(1) << 32;

/* The text of all kernels (embedded). */
extern const char metal_source[];

/* An MTLBuffer with pieces of the memory plan. */
struct metal_block {
    objc_ref buffer;
    char *data;
    size_t bytes, used;
};

struct buf {
    objc_ref buffer;           /* MTLBuffer; NULL: no bytes */
    struct metal_block *block; /* whose piece it is; NULL: the MTLBuffer is its own */
    size_t at;                 /* in the MTLBuffer */
    char *data;
    size_t bytes;
    enum mem_kind kind;
    enum mem_part part; /* of the memory plan */
};

struct metal_part {
    enum metal_type type;
    int32_t row0, rows;
    size_t at, row_bytes; /* in weight.data */
    struct metal_form form;
};

/* matrix: its parts' rows as in the file, or as shaders/scaled.metal has them; vector: [k] f32.  A stack has n_stacked matrices, one every
 * `step` bytes. */
struct weight {
    bool vector;
    int32_t n_stacked; /* 0: no stack */
    size_t step;
    int32_t n, k, n_slices, slice_end[N_SLICES];
    int32_t n_parts;
    struct metal_part part[3];
    struct buf *data;
    struct buf *bias; /* [n] f32, or NULL */
};

/* A place in the queue: all work up to command buffer `before`, which `after` follows. */
struct metal_event {
    bool marked;
    objc_ref before, after; /* retained; NULL: none */
};

/* A command buffer that is committed, and what is told about it when it fails. */
struct metal_committed {
    objc_ref commands; /* retained */
    enum metal_kernel first, last;
    uint64_t n_dispatches;
};

struct backend {
    struct backend_base base;
    objc_ref device, queue, library;
    objc_ref pipeline[N_METAL_KERNELS];
    objc_ref archive; /* MTLBinaryArchive, NULL: none; archive.h */
    struct archive_files files;
    int n_kept, n_added; /* pipelines in use that the archive's file has, and has not yet */
    bool matrices;       /* products and attention by simdgroup matrices: INGOT_METAL_PRODUCTS */
    size_t max_buffer;   /* bytes */
    char name[64];
    long family;      /* MTLGPUFamily: the latest of Apple's */
    bool any_gpu;     /* INGOT_METAL_GPU=any: kernels are compiled when they are first used */
    const char *math; /* how the library is compiled */

    objc_ref commands, encoder; /* being filled, retained; NULL: none */
    objc_ref committed;     /* the last one that was committed, retained; NULL: there was none */
    uint64_t max_work;      /* METAL_MAX_WORK */
    uint64_t work;          /* multiply-adds of `commands` */
    uint64_t n_in_commands; /* dispatches of `commands` */
    enum metal_kernel first_kernel, last_kernel; /* of `commands` */
    uint64_t n_dispatched, n_committed;
    /* Those that are not known to have ended well, the oldest first.  One that failed stays. */
    struct metal_committed under_way[METAL_MAX_COMMITTED];
    int n_under_way;
    struct metal_event event[N_EVENTS];

    bool planned; /* memory is that of a plan: pool.c */
    enum mem_part mem_part;
    struct mem_plan plan, used;
    struct metal_block block[METAL_MAX_BLOCKS];
    int n_blocks;
    struct mapped_file packed; /* weights that are used where they are: mapped.c */
    struct metal_block
        mapped[METAL_MAX_MAPPED]; /* over its pages; nothing is taken from them: `used` is 0 */
    int n_mapped;
    size_t mapped_left;  /* planned bytes of those of its weights that are not loaded yet */
    struct buf *scratch; /* [SCRATCH_BYTES]; planned: NULL before the first allocation */
};

static inline bool metal_kernel_is_of_matrices(int kernel)
{
    return kernel >= (int)KERNEL_matrix_f32 && kernel <= (int)KERNEL_attention_matrix_wide_e4m3;
}

/* The kernel of a type of weights, of those in the order of enum metal_type from `first` on. */
static inline enum metal_kernel metal_kernel_of(enum metal_kernel first, enum metal_type type)
{
    assert(type < N_METAL_WEIGHT_TYPES);
    return (enum metal_kernel)((int)first + (int)type);
}
static_assert((int)KERNEL_embed_small == (int)KERNEL_embed_f32 + (int)METAL_SMALL &&
                  (int)KERNEL_linear_q4_k == (int)KERNEL_linear_f32 + (int)METAL_Q4_K &&
                  (int)KERNEL_experts_q8_0 == (int)KERNEL_experts_f32 + (int)METAL_Q8_0 &&
                  (int)KERNEL_experts_matrix_one_small ==
                      (int)KERNEL_experts_matrix_one_f32 + (int)METAL_SMALL,
              "kernels in the order of types");

/* What kernel argument i + 1 is bound to. */
struct metal_bound {
    const struct buf *buf;
    size_t off; /* bytes */
};

static inline size_t metal_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Threadgroups in which each handles `per` of n; at least 1. */
static inline unsigned long groups_for(int64_t n, int64_t per)
{
    return n > per ? (unsigned long)((n + per - 1) / per) : 1;
}

static inline size_t view_row_bytes(struct view v)
{
    return (size_t)v.cols * dtype_size(v.dtype);
}

static inline size_t view_row_step(struct view v)
{
    return (size_t)v.stride * dtype_size(v.dtype);
}

/* Host address of a view whose bounds are checked. */
static inline char *view_data(struct view v)
{
    size_t end =
        v.rows > 0 && v.cols > 0 ? (size_t)(v.rows - 1) * view_row_step(v) + view_row_bytes(v) : 0;
    assert(v.rows >= 0 && v.cols >= 0 && v.stride >= v.cols);
    assert(v.off <= v.buf->bytes && end <= v.buf->bytes - v.off);
    (void)end;
    return v.buf->data ? v.buf->data + v.off : NULL;
}

static inline struct metal_bound bound_view(struct view v, enum dtype t)
{
    assert(v.dtype == t);
    (void)t;
    view_data(v);
    return (struct metal_bound){v.buf, v.off};
}

static inline struct metal_bound bound_f32(struct view v)
{
    return bound_view(v, DT_F32);
}

static inline struct metal_bound bound_i32(struct view v)
{
    return bound_view(v, DT_I32);
}

static inline struct metal_bound bound_any(struct view v)
{
    return bound_view(v, v.dtype);
}

/* A vector's elements; NULL: `other`, which the kernel does not read. */
static inline struct metal_bound bound_vector(const struct weight *w, struct metal_bound other)
{
    assert(!w || w->vector);
    return w ? (struct metal_bound){w->data, 0} : other;
}

/* device.c: opening and closing of the device, the queue and the pipelines. */
MUST_CHECK enum status metal_take_device(struct backend *be);
void metal_give_device(struct backend *be);
/* Makes a kernel's pipeline where it is not there yet. */
MUST_CHECK enum status metal_make_pipeline(struct backend *be, enum metal_kernel kernel);
/* Those of matrices of a type, or of stacks of them. */
MUST_CHECK enum status metal_make_products(struct backend *be, enum metal_type type, bool stack);
/* Bytes that the system advises to use at most; *used: those that this process has taken. */
size_t metal_device_bytes(const struct backend *be, size_t *used);
/* An MTLBuffer that is the caller's; its contents are not known. */
MUST_CHECK enum status metal_new_buffer(struct backend *be, size_t bytes, objc_ref *buffer,
                                        char **data);
/* One over memory that stays as it is, whole pages, until the buffer is released. */
MUST_CHECK enum status metal_map_buffer(struct backend *be, char *data, size_t bytes,
                                        objc_ref *buffer);
extern const char *const metal_kernel_names[N_METAL_KERNELS];
/* objc.c */

/* Releases an object, if there is one. */
void metal_give(objc_ref *object);
/* The text of an NSError, "?" if there is none. */
const char *metal_error_text(objc_ref error);

/* metal.c */
enum status metal_prepare(struct backend *be, const struct backend_use *use);

/* queue.c */
/* Enqueues a kernel: args is buffer 0, bound [n] are the next ones.  work: multiply-adds, 0 for ops
 * over rows. */
MUST_CHECK enum status metal_dispatch(struct backend *be, enum metal_kernel kernel,
                                      const void *args, size_t args_bytes,
                                      const struct metal_bound *bound, int n,
                                      struct mtl_size groups, unsigned long threads, uint64_t work);
#define METAL_DISPATCH(be, kernel, args, bound, groups, threads, work)                             \
    metal_dispatch((be), (kernel), &(args), sizeof(args), (bound), (int)ARRAY_LEN(bound),          \
                   (groups), (threads), (work))
/* Ends and commits what is enqueued; does not wait. */
MUST_CHECK enum status metal_commit(struct backend *be);
enum status metal_sync(struct backend *be);
void metal_drop_queue(struct backend *be);
enum status metal_event_mark(struct backend *be, int slot);
enum status metal_event_wait(struct backend *be, int slot, uint64_t wait_us, bool *passed);
enum status metal_event_elapsed(struct backend *be, int from, int to, uint64_t *ns);

/* pool.c: alloc of a backend that was opened `planned`. */
size_t metal_pool_own(
    const struct backend *be); /* bytes that the first allocation will take for the backend */
enum status metal_pool_reserve(struct backend *be, const struct mem_plan *plan);
void metal_pool_part(struct backend *be, enum mem_part part);
/* Pinned memory is in its part, as in the plan of a device whose memory is the host's. */
void metal_pool_used(struct backend *be, struct mem_plan *out);
/* b->bytes and kind are set.  ST_BUG: its part is larger than planned. */
MUST_CHECK enum status metal_pool_take(struct backend *be, struct buf *b);
/* The same of one whose memory is that of b->block, a mapped one. */
MUST_CHECK enum status metal_pool_take_mapped(struct backend *be, struct buf *b);
/* What was taken last of its block can be taken again; the rest comes back when the backend closes. */
void metal_pool_give(struct backend *be, struct buf *b);
void metal_pool_close(struct backend *be);

/* memory.c */
enum status metal_alloc(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out);
void metal_free(struct backend *be, struct buf *b);
enum status metal_write(struct backend *be, struct view dst, const void *src);
enum status metal_read(struct backend *be, void *dst, struct view src);
enum status metal_copy(struct backend *be, struct view dst, struct view src);
enum status metal_zero(struct backend *be, struct view dst);
void *metal_host_ptr(struct backend *be, struct view v);
void *metal_pinned_ptr(struct backend *be, struct buf *b);
/* A weight's memory: `packed` itself where it is mapped, else a copy. */
MUST_CHECK enum status metal_take_packed(struct backend *be, const void *packed, size_t bytes,
                                         struct buf **out);

/* mapped.c */
/* Most bytes of pages that mapped weights have beyond what the plan counts for them. */
size_t metal_edge_bytes(void);
enum status metal_map_packed(struct backend *be, struct mapped_file *file,
                             const struct packed_range *range, size_t n);
/* The buffer over those bytes; NULL: they are not mapped. */
struct metal_block *metal_mapped_at(struct backend *be, const void *data, size_t bytes);
/* No command uses them any more. */
void metal_unmap(struct backend *be);

/* weight.c */
size_t metal_weight_bytes(struct backend *be, const struct weight_src *src);
enum status metal_load_weight(struct backend *be, const struct weight_src *src,
                              struct weight **out);
size_t metal_stack_bytes(struct backend *be, const struct weight_src *src, int32_t n);
enum status metal_load_stack(struct backend *be, const struct weight_src *src, int32_t n,
                             struct weight **out);
void metal_free_weight(struct backend *be, struct weight *w);
enum status metal_pack_id(struct backend *be, uint64_t *id);
const void *metal_packed(struct backend *be, const struct weight *w, size_t *n_bytes);
enum status metal_load_packed(struct backend *be, const struct weight_src *src, const void *data,
                              size_t n_bytes, struct weight **out);
enum status metal_load_packed_stack(struct backend *be, const struct weight_src *src, int32_t n,
                                    const void *data, size_t n_bytes, struct weight **out);

/* scaled.c: parts that are stored with scales beside their codes. */
/* Is it such a type?  *type is written then. */
bool metal_scaled(enum dtype t, enum metal_type *type);
/* ST_RANGE: a share that begins outside its first block, or rows without scales. */
MUST_CHECK enum status metal_check_scaled(const struct weight_src *src,
                                          const struct weight_part *p);
/* Of a part with columns; *row_bytes is a multiple of 4. */
struct metal_form metal_scaled_form(const struct weight_src *src, const struct weight_part *p,
                                    size_t *row_bytes);
/* Head and rows, to zeroed memory. */
void metal_fill_scaled(const struct weight_src *src, const struct weight_part *p,
                       const struct metal_part *part, char *to);

/* matrices.c */
/* How products are made: the environment's INGOT_METAL_PRODUCTS, "chains" (also without it) or
 * "matrices". */
MUST_CHECK enum status metal_choose_products(struct backend *be);
/* Refuses matrices where a row of a product has other bits in another place or beside other rows. */
MUST_CHECK enum status metal_check_matrices(struct backend *be);

/* ops_linear.c */
enum status metal_embed(struct backend *be, const struct weight *table, int32_t first_id,
                        struct view ids, struct view out);
enum status metal_linear(struct backend *be, const struct weight *w, struct view x,
                         struct view out);
enum status metal_heads_linear(struct backend *be, const struct weight *w, struct view x,
                               struct view out);

/* ops_inputs.c */
struct rounding metal_rounding_of(const struct input_rule *r);
enum status metal_input_peaks(struct backend *be, const struct input_rule *r, struct view x,
                              struct view out);
enum status metal_round_input(struct backend *be, const struct input_rule *r, struct view x,
                              struct view peaks, struct view out);
/* The same of rows; args: n, strides, has_peaks. */
enum status metal_round_rows(struct backend *be, const struct input_rule *r, int32_t rows,
                             struct metal_inputs_args args, struct metal_bound x,
                             struct metal_bound peaks, struct metal_bound out);

/* ops_moe.c */
enum status metal_moe_route(struct backend *be, const struct moe_layer *ml, struct view logits,
                            struct view ids, struct view weights);
size_t metal_moe_scratch(struct backend *be, const struct moe_layer *ml, int32_t max_tokens);
/* Tokens of n_tokens > 0 that moe_ffn takes at a time with scales of the experts' inputs: those of all pairs fit where
 * down's products are later.  At least one. */
int32_t metal_rounded_tokens(const struct moe_layer *ml, int32_t n_tokens);
enum status metal_moe_ffn(struct backend *be, const struct moe_layer *ml, struct view x,
                          struct view ids, struct view weights, struct view scratch,
                          struct view out);
enum status metal_moe_bias(struct backend *be, const struct moe_layer *ml, struct view ids,
                           struct view weights, struct view out);

/* ops_rows.c */
enum status metal_add_rms_norm(struct backend *be, struct view resid, struct view x,
                               const struct weight *x_bias, const struct weight *w, float eps,
                               struct view out);
enum status metal_layer_norm(struct backend *be, struct view x, const struct weight *w,
                             const struct weight *b, float eps, struct view out);
enum status metal_act_mul(struct backend *be, enum act act, struct view gate_up, struct view out);
enum status metal_activate(struct backend *be, enum act act, struct view x, struct view out);
enum status metal_scale(struct backend *be, struct view x, float factor);
enum status metal_soft_cap(struct backend *be, struct view x, float cap);
enum status metal_sigmoid_mul(struct backend *be, struct view x, struct view gate);
enum status metal_add_bias(struct backend *be, struct view x, const struct weight *b);
enum status metal_add(struct backend *be, struct view dst, struct view src, float scale);
enum status metal_gather(struct backend *be, struct view x, struct view row, struct view out);

/* ops_gates.c */
enum status metal_head_squares(struct backend *be, struct view x, struct view out);
enum status metal_wide_norm(struct backend *be, struct view x, struct view squares, int32_t d,
                            int32_t group, int32_t first, const struct weight *w, float eps);
enum status metal_gated_norm(struct backend *be, struct view x, const struct weight *w, float eps,
                             struct view gate);
enum status metal_predict_streams(struct backend *be, struct view x, struct view coef);
enum status metal_correct_streams(struct backend *be, struct view x, struct view coef, int32_t i,
                                  const struct weight *w, struct view active);
enum status metal_match_rms(struct backend *be, struct view x, struct view like);
enum status metal_known_ids(struct backend *be, struct view ids, int32_t n, struct view out);
enum status metal_slice_stats(struct backend *be, struct view x, int32_t n_slices,
                              const int32_t *slice_end, struct view out);
enum status metal_cut_gates(struct backend *be, struct view x, struct view stats, float factor);

/* ops_delta.c */
enum status metal_delta_conv(struct backend *be, const struct delta_layer *dl,
                             const struct step_dev *st, struct view qkv, struct delta_state s);
enum status metal_delta_rule(struct backend *be, const struct delta_layer *dl,
                             const struct step_dev *st, struct view qkv, struct view ba,
                             struct delta_state s, struct view out);

/* ops_attention.c */
/* The kernel for a cache of that type and heads of d elements. */
enum metal_kernel metal_attention_kernel(const struct backend *be, enum dtype kv, int32_t d);
enum status metal_latent_to_cache(struct backend *be, const struct attn_layer *al,
                                  const struct step_dev *st, struct view latent,
                                  struct view q_heads, struct kv_layer kv, struct view q);
enum status metal_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                               const struct step_dev *st, struct view qkv, struct kv_layer kv,
                               struct view q);
enum status metal_attention(struct backend *be, const struct attn_layer *al,
                            const struct step_dev *st, struct view q, struct kv_layer kv,
                            struct view out);

/* ops_logits.c */
enum status metal_edit_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                              struct view start, struct view words);
enum status metal_mask_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                              struct view mask);
enum status metal_topk(struct backend *be, const struct vocab_part *part, struct view logits,
                       struct view inv_temp, struct view val, struct view id, struct view stat);
enum status metal_sample(struct backend *be, const struct draw_shape *shape, struct view top,
                         struct view row, struct view id);
enum status metal_take_tokens(struct backend *be, struct view token, struct view from,
                              struct view last);

#endif
