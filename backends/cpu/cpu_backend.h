/* The CPU backend's own structures, shared by its op files. */
#ifndef BACKENDS_CPU_CPU_BACKEND_H
#define BACKENDS_CPU_CPU_BACKEND_H

#include <assert.h>

#include "backends/cpu/kernels.h"
#include "common/mapped_file.h"
#include "common/pool.h"

/* Work below which one thread does an op alone, about 10 to 20 us of it.  A job of the pool costs
 * 0.15 us while its threads spin, 10 us when they sleep, and milliseconds when other programs have
 * their cores: with a tiny model, whose steps take 100 us, sharing every op made a server on two
 * cores 7 times slower. */
enum {
    ROWS_GRAIN = 16 << 10,         /* elements of a row op */
    PRODUCT_GRAIN = 1 << 19,       /* multiply-adds of a product or of attention's items */
    SMALL_PRODUCT_GRAIN = 1 << 21, /* of a product with a matrix of at most SMALL_MATRIX bytes */
    SMALL_MATRIX = 128 << 10,
};

enum {
    N_EVENTS = 16,
    TOPK_ROWS = 32,         /* rows that topk works on at a time */
    ATTN_ITEMS = 4096,      /* most items that attention works on at a time */
    HEADS_STRIP = 32 << 10, /* floats of a thread's strip of heads_linear */
    X_PACK_MOST = 8 << 20,  /* bytes of x_pack: 1,024 rows of 2,048, a tile of 131,072 columns */
};

/* Anonymous zeroed memory, with huge pages where the system gives them; or bytes of another owner. */
struct buf {
    void *data;
    size_t bytes; /* asked for */
    size_t held;  /* taken; 0: none, or borrowed */
};

/* The panels of a matrix's rows of one type. */
struct panels {
    enum dtype dtype;
    const struct quant_pack *quant; /* NULL: floats */
    int32_t skip;                   /* types in blocks: elements of the first block before k = 0 */
    int32_t groups;                 /* indexed types: of the columns */
    int32_t block;                  /* types with levels: columns that share a scale */
    int32_t row, n;                 /* rows [row, row + n) of the matrix */
    size_t at, panel_bytes;         /* first panel in the weight's data; one panel */
    size_t plan_at, plan_bytes; /* sorted types: of the plan in the weight's data; else 0 bytes */
    bool repeats;               /* sorted types: the plan is that of the panels before */
    size_t stride;              /* from a panel to the next, >= panel_bytes */
};

struct weight {
    bool vector;
    int32_t n, k; /* a vector: n = 1 */
    int32_t n_slices;
    int32_t slice_end[N_SLICES];
    int32_t n_types;
    struct panels panels[ARRAY_LEN(((struct weight_src *)0)->part)]; /* [n_types] */
    struct buf data;    /* matrix: its panels; vector: [k] f32 */
    struct buf bias;    /* [n] f32 and a panel of zeros; data NULL: none */
    int32_t n_mat;      /* matrices of a stack */
    struct weight *mat; /* of a stack: matrix i, slice s at [i * n_slices + s], each a matrix of one
                           slice whose data is a range of this one's; NULL: no stack */
    struct weight *next_mapped; /* of those that borrow pages of a file */
};

/* The panels' first byte: weight_mapped.c may copy them meanwhile, to another address. */
static inline const char *weight_data(const struct weight *w)
{
    return __atomic_load_n(&w->data.data, __ATOMIC_ACQUIRE);
}

struct attn_item;
struct weight_mover;

struct backend {
    struct backend_base base;
    const char *isa; /* name of kernels and quant */
    enum activations activations;
    bool exact_order; /* ACTIVATIONS_F32 was asked for: without FEATURE_SORTED */
    const struct kernels *kernels;
    const struct quant_kernels *quant;
    const struct bf16_kernels *bf16; /* products of BF16 weights; NULL: activations stay f32 */
    struct read_ahead read;          /* of weights */
    struct pool *pool;
    int32_t max_rows;           /* as in backend_config */
    uint64_t nodes;             /* of memory that its threads run on, see mem_spread */
    struct mapped_file packed;  /* whose pages weights may be, see weight_mapped.c; size 0: none */
    struct weight *mapped;      /* a list of those that are */
    struct weight_mover *mover; /* copies them; NULL: does not run */
    struct buf x_held;          /* x_pack; grows with the matrices that are loaded */
    float *x_pack;              /* linear: transposed or quantised rows, x_pack_floats */
    size_t x_pack_floats;
    struct buf scratch; /* everything below */
    char *quant_thread; /* quant_scratch bytes per part */
    size_t quant_scratch;
    float *attn_thread;  /* kernels->attn_scratch floats per part */
    float *heads_thread; /* HEADS_STRIP floats per part */
    float *attn_partial; /* partial results of attention's items, attn_partial_floats */
    size_t attn_partial_floats;
    struct attn_item *attn_items; /* [ATTN_ITEMS] */
    float *topk_val;              /* [TOPK_ROWS, N_SLICES, TOPK_MAX] */
    int32_t *topk_id;
    uint64_t event_ns[N_EVENTS];
};

/* mem_take fills b with zeroed memory of at least bytes (64-byte aligned); ST_NOMEM.  mem_held is
 * what it takes from the system. */
MUST_CHECK enum status mem_take(struct buf *b, size_t bytes);
void mem_give(struct buf *b);
size_t mem_held(size_t bytes);

/* Asks the system to place a large buffer's pages on those nodes in turn, before they are touched:
 * for memory that any thread reads, such as the KV cache.  Otherwise a page is placed on the node
 * whose thread writes it first: all that one decoding thread appends, on its node.  False: the
 * buffer is small, or the system cannot. */
bool mem_spread(const struct buf *b, uint64_t nodes);

static inline void *view_at(struct view v, int32_t row, enum dtype t)
{
    assert(v.dtype == t && row >= 0 && v.stride >= v.cols);
    return (char *)v.buf->data + v.off + (size_t)row * (size_t)v.stride * dtype_size(t);
}

static inline float *view_f32(struct view v, int32_t row)
{
    return view_at(v, row, DT_F32);
}

static inline int32_t *view_i32(struct view v, int32_t row)
{
    return view_at(v, row, DT_I32);
}

/* Element i of a [n, 1] column of i32 or f32. */
static inline int32_t col_i32(struct view v, int32_t i)
{
    return *view_i32(v, i);
}

static inline const float *vector_of(const struct weight *w)
{
    assert(!w || w->vector);
    return w ? w->data.data : NULL;
}

/* fn over n rows of `cols` elements: by the pool when there is enough to share. */
void rows_run(struct backend *be, pool_fn *fn, void *ctx, int32_t rows, int32_t cols);

/* memory.c */
enum status cpu_alloc(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out);
void cpu_free(struct backend *be, struct buf *b);
enum status cpu_write(struct backend *be, struct view dst, const void *src);
enum status cpu_read(struct backend *be, void *dst, struct view src);
enum status cpu_copy(struct backend *be, struct view dst, struct view src);
enum status cpu_zero(struct backend *be, struct view dst);
void *cpu_host_ptr(struct backend *be, struct view v);
void *cpu_pinned_ptr(struct backend *be, struct buf *b);

/* weight.c */
size_t cpu_weight_bytes(struct backend *be, const struct weight_src *src);
enum status cpu_load_weight(struct backend *be, const struct weight_src *src, struct weight **out);
void cpu_free_weight(struct backend *be, struct weight *w);

/* Bytes of x_pack that linear with that matrix wants. */
size_t cpu_linear_bytes(struct backend *be, const struct weight_src *src);
/* Makes x_pack that large. */
MUST_CHECK enum status x_pack_fit(struct backend *be, const struct weight_src *src);

/* The steps of cpu_load_weight, for callers that place several matrices in one allocation:
 * everything but the memory (fails where load_weight does), the size of w->data, and its bytes
 * (w->data is memory of that size at 64 bytes' alignment; biases are not filled).  The bytes depend
 * on the source alone, not on their address. */
MUST_CHECK enum status weight_describe(const struct weight_src *src, struct weight *w);
size_t weight_data_bytes(const struct weight_src *src);
void weight_fill(struct backend *be, const struct weight_src *src, struct weight *w);

/* Sets `repeats` of w's panels, whose data are there. */
void weight_compare_plans(struct weight *w);

/* w->data: memory of that size, or, with packed, these bytes: where they are, or copied by the pool. */
MUST_CHECK enum status weight_take(struct backend *be, struct weight *w, size_t bytes,
                                   const void *packed);

/* load_weight whose data are packed bytes; NULL: packs them itself. */
MUST_CHECK enum status weight_make(struct backend *be, const struct weight_src *src,
                                   const void *packed, struct weight **out);

/* weight_packed.c */
enum status cpu_pack_id(struct backend *be, uint64_t *id);
const void *cpu_packed(struct backend *be, const struct weight *w, size_t *n_bytes);
enum status cpu_load_packed(struct backend *be, const struct weight_src *src, const void *data,
                            size_t n_bytes, struct weight **out);

/* weight_mapped.c */
enum status cpu_map_packed(struct backend *be, struct mapped_file *file,
                           const struct packed_range *range, size_t n);
enum status cpu_prepare(struct backend *be, const struct backend_use *use);
/* w->data becomes `packed`, these bytes of the file that cpu_map_packed took; false: they are not in it. */
bool weight_borrow(struct backend *be, struct weight *w, size_t bytes, const void *packed);
/* Starts a thread that copies all that was borrowed, after that time (at most INT32_MAX), beside ops; no second
 * one.  ST_NOMEM, ST_IO. */
MUST_CHECK enum status weights_move(struct backend *be, uint32_t delay_ms);
/* Waits for the thread, which no longer waits for its time. */
void weights_move_end(struct backend *be);
/* Ends it where it is, and forgets what is borrowed: before a weight is freed. */
void weights_stay(struct backend *be);

/* weight_stack.c */
size_t cpu_stack_bytes(struct backend *be, const struct weight_src *src, int32_t n);
enum status cpu_load_stack(struct backend *be, const struct weight_src *src, int32_t n,
                           struct weight **out);
enum status cpu_load_packed_stack(struct backend *be, const struct weight_src *src, int32_t n,
                                  const void *data, size_t n_bytes, struct weight **out);

/* products.c: rows of x against one panel of a matrix.  The rows are packed into a strip: floats
 * ([K][rows], one tile), rounded rows (struct bf16_panel), quantised ones (struct quant_x) or sorted
 * ones (sorted.h).  Panels of one weight whose strips are of one kind read the same strip, but sorted
 * ones do so only where their plan repeats. */
enum strip_kind { STRIP_F32, STRIP_BF16, STRIP_QUANT, STRIP_SORTED };
enum strip_kind strip_kind(const struct backend *be, const struct panels *s);
/* Do these panels, behind others of the weight, read the strip of those before them? */
bool strip_repeats(const struct backend *be, const struct panels *s);

/* Bytes of a strip for each row, of any kind that the panels may have. */
size_t strip_row_bytes(const struct weight *w, const struct panels *s);
/* Most rows of a strip. */
int32_t strip_rows(const struct backend *be, const struct panels *s);
/* x [k] into row r of a strip of `rows`. */
void strip_put(const struct backend *be, const struct weight *w, const struct panels *s,
               const float *x, int32_t r, int32_t rows, void *strip);

/* Of a sorted type: its columns and its plan. */
struct sorted_shape sorted_shape_of(const struct weight *w, const struct panels *s);
const void *plan_of(const struct weight *w, const struct panels *s);

/* Number of panels, of one type or of all; the type's that have the weight's panel *p, which becomes
 * an index among them. */
int32_t panel_count(const struct panels *s);
int32_t weight_panels(const struct weight *w);
const struct panels *panels_of(const struct weight *w, int32_t *p);

/* out [rows, columns of the panel] (out_stride apart) = strip times panel p of s, plus the bias.
 * part: the calling part of the pool. */
void panel_product(const struct backend *be, const struct weight *w, const struct panels *s,
                   int32_t p, const void *strip, int32_t rows, float *out, size_t out_stride,
                   int part);

/* ops_linear.c */
enum status cpu_embed(struct backend *be, const struct weight *table, int32_t first_id,
                      struct view ids, struct view out);
enum status cpu_linear(struct backend *be, const struct weight *w, struct view x, struct view out);

/* ops_rows.c */
enum status cpu_add_rms_norm(struct backend *be, struct view resid, struct view x,
                             const struct weight *x_bias, const struct weight *w, float eps,
                             struct view out);
enum status cpu_layer_norm(struct backend *be, struct view x, const struct weight *w,
                           const struct weight *b, float eps, struct view out);
enum status cpu_act_mul(struct backend *be, enum act act, struct view gate_up, struct view out);
enum status cpu_scale(struct backend *be, struct view x, float factor);
enum status cpu_soft_cap(struct backend *be, struct view x, float cap);
enum status cpu_activate(struct backend *be, enum act act, struct view x, struct view out);
enum status cpu_add(struct backend *be, struct view dst, struct view src, float scale);
enum status cpu_gather(struct backend *be, struct view x, struct view row, struct view out);

/* ops_gates.c */
enum status cpu_sigmoid_mul(struct backend *be, struct view x, struct view gate);
enum status cpu_add_bias(struct backend *be, struct view x, const struct weight *b);
enum status cpu_head_squares(struct backend *be, struct view x, struct view out);
enum status cpu_wide_norm(struct backend *be, struct view x, struct view squares, int32_t d,
                          int32_t group, int32_t first, const struct weight *w, float eps);

/* ops_inputs.c */
enum status cpu_input_peaks(struct backend *be, const struct input_rule *r, struct view x,
                            struct view out);
enum status cpu_round_input(struct backend *be, const struct input_rule *r, struct view x,
                            struct view peaks, struct view out);
/* x [n] to out, which may be x; peaks [groups] of all ranks, or NULL: the row's own, not where the rule is shared. */
void round_row(const struct input_rule *r, const float *x, const float *peaks, float *out,
               int32_t n);
/* peaks [groups] of x [n]. */
void row_peaks(const struct input_rule *r, const float *x, int32_t n, float *peaks);

/* ops_streams.c */
enum status cpu_predict_streams(struct backend *be, struct view x, struct view coef);
enum status cpu_correct_streams(struct backend *be, struct view x, struct view coef, int32_t i,
                                const struct weight *w, struct view active);
enum status cpu_match_rms(struct backend *be, struct view x, struct view like);
enum status cpu_known_ids(struct backend *be, struct view ids, int32_t n, struct view out);
enum status cpu_slice_stats(struct backend *be, struct view x, int32_t n_slices,
                            const int32_t *slice_end, struct view out);
enum status cpu_cut_gates(struct backend *be, struct view x, struct view stats, float factor);

/* ops_route.c */
enum status cpu_moe_route(struct backend *be, const struct moe_layer *ml, struct view logits,
                          struct view ids, struct view weights);

/* ops_moe.c */
size_t cpu_moe_scratch(struct backend *be, const struct moe_layer *ml, int32_t max_tokens);
enum status cpu_moe_ffn(struct backend *be, const struct moe_layer *ml, struct view x,
                        struct view ids, struct view weights, struct view scratch, struct view out);

enum status cpu_moe_hidden(struct backend *be, const struct moe_layer *ml, struct view x,
                           struct view ids, struct view weights, struct view scratch,
                           struct view peaks);
enum status cpu_moe_down(struct backend *be, const struct moe_layer *ml, struct view peaks,
                         struct view ids, struct view weights, struct view scratch,
                         struct view out);

/* Sorted types: does moe_ffn have room for their strips?  It has where groups have 32 columns or more. */
bool moe_strips_fit(const struct weight_src *src, const struct weight *w);

enum status cpu_moe_bias(struct backend *be, const struct moe_layer *ml, struct view ids,
                         struct view weights, struct view out);

/* ops_attention.c */
enum status cpu_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                             const struct step_dev *st, struct view qkv, struct kv_layer kv,
                             struct view q);
enum status cpu_attention(struct backend *be, const struct attn_layer *al,
                          const struct step_dev *st, struct view q, struct kv_layer kv,
                          struct view out);
size_t attn_items_bytes(void);
/* Refuses a cache that attention cannot read. */
MUST_CHECK enum status attn_check_cache(const struct attn_layer *al, struct kv_layer kv);

/* ops_latent.c */
enum status cpu_latent_to_cache(struct backend *be, const struct attn_layer *al,
                                const struct step_dev *st, struct view latent, struct view q_heads,
                                struct kv_layer kv, struct view q);
enum status cpu_heads_linear(struct backend *be, const struct weight *w, struct view x,
                             struct view out);

/* ops_delta.c */
enum status cpu_delta_conv(struct backend *be, const struct delta_layer *dl,
                           const struct step_dev *st, struct view qkv, struct delta_state s);
enum status cpu_delta_rule(struct backend *be, const struct delta_layer *dl,
                           const struct step_dev *st, struct view qkv, struct view ba,
                           struct delta_state s, struct view out);
enum status cpu_gated_norm(struct backend *be, struct view x, const struct weight *w, float eps,
                           struct view gate);

/* ops_logits.c */
enum status cpu_mask_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                            struct view mask);
enum status cpu_edit_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                            struct view start, struct view words);
enum status cpu_topk(struct backend *be, const struct vocab_part *part, struct view logits,
                     struct view inv_temp, struct view val, struct view id, struct view stat);
enum status cpu_sample(struct backend *be, const struct draw_shape *shape, struct view top,
                       struct view row, struct view id);
enum status cpu_take_tokens(struct backend *be, struct view token, struct view from,
                            struct view last);

#endif
