/* A backend is one device and its one ordered queue.  The worker opens one, loads weights into it
 * and enqueues ops; ops return at once (the CPU backend computes before it returns) and `sync`
 * waits.
 *
 * Ops are the segments of a transformer layer between a matrix product, the KV cache and a
 * collective. Fusion happens inside an op.  Activations are token-major, row t of a [T, n] view is
 * token t. T = 0 is valid everywhere and does nothing.  Shapes are checked by asserts: a wrong
 * shape is a bug of the caller, outside data was checked when the model was loaded.
 *
 * Numeric contract (every op of every backend): the bits of row t of the output depend on row t of
 * the inputs, the weights and the op's parameters, never on the other rows, their number, or the
 * thread count; each reduction has an order fixed by the shape.  The CPU backend's plain path
 * states these orders in C and is the executable specification; backends are tested against it.
 *
 * One thread calls a backend.  All memory is taken at start; no op allocates. */
#ifndef BACKENDS_BACKEND_H
#define BACKENDS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dtype.h"
#include "common/status.h"

struct backend; /* begins with struct backend_base */
struct buf;     /* device memory; host code never dereferences it */
struct weight;  /* a matrix or vector in the backend's own packing */
struct graph;
struct draw_shape; /* common/draw.h */

enum {
    N_SLICES = 8,          /* slices of every sum that ranks share: see struct weight_src */
    MOE_MAX_EXPERTS = 512, /* E of a moe_layer */
    MOE_MAX_TOP_K = 32,    /* k of a moe_layer */
};

/* The order of sums.  STRICT: the contract above.  FAST: the device's libraries may choose, and
 * only correctness is promised; a backend without a faster way (the CPU) computes as in STRICT. */
enum numerics { NUMERICS_STRICT, NUMERICS_FAST };

struct backend_config {
    int threads;      /* CPU: worker threads, 0 = as many as this process may use */
    bool pin;         /* CPU: each worker thread on one of the cores the process may use */
    const char *isa;  /* CPU: "auto", "plain", "avx2", "avxvnni", "avx512", "avx512vnni", "neon",
                         "neondot"; NULL = auto */
    int32_t max_rows; /* CPU: most rows of x that linear is called with; sizes its working memory
                         (more rows only cost passes); 0 = not known */
    int device;       /* GPU ordinal */
    bool planned;     /* GPU: nothing is taken before `reserve`, and nothing beside its plan */
    enum numerics numerics;
};

struct backend_info {
    char device[96];   /* "CPU Intel Xeon ..., avx512, 2 threads" */
    size_t mem_free;   /* bytes a worker may plan with */
    size_t mem_total;  /* bytes */
    size_t mem_own;    /* bytes of the backend's own that mem_free still counts: pages of host
                          memory, given when they are first written; what `reserve` will take */
    bool graphs;       /* graph_* present */
    bool experts;      /* stacks and moe_* present */
    unsigned kv_types; /* bit (1 << dtype) for each KV element type that attention takes */
    char matrix[16];   /* GPU: compute capability and kind of matrix instruction, "sm90-mma": what
                          the bits of products depend on; "": nothing of the kind */
};

/* Borrowed row-major [rows, cols] window of a buf. */
struct view {
    struct buf *buf;
    size_t off;                 /* bytes */
    int32_t rows, cols, stride; /* stride in elements between rows, >= cols */
    enum dtype dtype;
};

enum mem_kind { MEM_DEVICE, MEM_PINNED };

/* Bytes of each kind. */
struct mem_bytes {
    size_t device, pinned;
};

/* What a device's memory is for. */
enum mem_part {
    PART_OWN, /* of the backend: info's mem_own */
    PART_COLL,
    PART_WEIGHTS,
    PART_SCRATCH,
    PART_KV,
    PART_TABLES,
    PART_STEP,
    N_MEM_PARTS
};

/* Everything that a rank will alloc: sums of weight_bytes and alloc_bytes. */
struct mem_plan {
    size_t part[N_MEM_PARTS];
    size_t pinned; /* besides the backend's own */
    size_t driver; /* not alloc'ed: what has to stay free for the driver (graphs) */
};

/* What a buffer takes of a plan. */
enum { ALLOC_ALIGN = 256 };
static inline size_t alloc_bytes(size_t bytes)
{
    return (bytes + ALLOC_ALIGN - 1) / ALLOC_ALIGN * ALLOC_ALIGN;
}

/* Rows of one stored tensor; several parts make one fused weight (q|k|v, gate|up), stacked by rows.
 */
struct weight_part {
    const void
        *data; /* first element (or its block) of this rank's share, in host memory, unaligned */
    size_t row_bytes; /* from one row to the next in the file */
    enum dtype dtype; /* F32, F16, BF16, or a type in blocks (not for a vector or a bias) */
    int32_t skip;     /* elements of the first block that are before the share; plain types: 0 */
    int32_t rows;     /* of this rank */
    const void *bias; /* [rows] in bias_dtype, or NULL */
    enum dtype bias_dtype;
};

/* A matrix [rows, cols] = [N, K], already cut to this rank's share, or a vector (vector = true, one
 * part with rows 1).
 *
 * n_slices and slice_end describe a row-parallel matrix (one whose K is shared by the ranks).  The
 * whole model's K is cut at fixed borders into N_SLICES slices; a rank of a power-of-two world
 * holds N_SLICES / world neighbouring ones.  slice_end[i] is the end of slice i in local columns;
 * slices may be empty.  The product over a slice is summed in fp32 in the backend's stated order,
 * then neighbouring slices are added pairwise, level by level; the all-reduce goes on with the same
 * tree.  n_slices is a power of two, or 1 for a matrix that no other rank shares. */
struct weight_src {
    const char *name; /* for errors */
    bool vector;
    int32_t cols; /* K */
    int32_t n_parts;
    struct weight_part part[3];
    int32_t n_slices;
    int32_t slice_end[N_SLICES];
};

/* Constant facts of one attention layer on this rank.
 * Query head h of this rank reads KV head (h + q_offset) / q_per_kv of this rank. */
struct attn_layer {
    int32_t n_q, n_kv, d_head, rot_dim; /* heads of this rank; rot_dim <= d_head, even */
    int32_t q_per_kv, q_offset;
    int32_t window;        /* a token sees itself and window - 1 before it; 0 = all */
    float scale, eps;      /* eps of q_norm and k_norm */
    bool rope_interleaved; /* pairs (2i, 2i+1); else (i, i + rot_dim/2) */
    const struct weight *q_norm, *k_norm; /* [d_head] per-head RMS norm before RoPE, or NULL */
    struct view cos, sin;                 /* [max_pos, rot_dim / 2] f32 */
};

/* This rank's KV cache of one layer.  Row s = block * block_len + offset. */
struct kv_layer {
    struct view k, v;             /* [n_blocks * block_len, n_kv * d_head] */
    struct view k_scale, v_scale; /* [n_blocks * block_len, n_kv] f32, for DT_I8 and DT_E4M3 */
};

enum act { ACT_SILU, ACT_GELU, ACT_GELU_TANH }; /* GELU: the erf form */

/* Constant facts of one mixture-of-experts feed-forward layer on this rank. */
struct moe_layer {
    int32_t n_experts, top_k; /* E, and k experts a token: 1 <= k <= E */
    int32_t hidden, ffn;      /* D; F: this rank's columns of each expert */
    bool renormalise;         /* the chosen experts' weights are divided by their sum */
    float scale;              /* factor on the weights; 1: none */
    enum act act;
    const struct weight *gate_up; /* stack of E [2F, D] without bias */
    const struct weight *down;    /* stack of E [D, F] without bias, with slices */
};

/* The step plan's arrays on the device, at fixed addresses. */
struct step_dev {
    int32_t n_tokens, n_seqs; /* T, sequences */
    int32_t max_q,
        max_kv;        /* bounds of q and KV lengths, for launch shapes; kernels read the lengths
                          from the arrays, so that a recorded graph may run with others */
    int32_t block_len; /* tokens a block */
    struct view token; /* [T, 1] i32 ids */
    struct view from;  /* [T, 1] i32 row of the last step\'s `sample` that is the id, -1: none; for
                          take_tokens */
    struct view pos;   /* [T, 1] i32 absolute positions */
    struct view slot;  /* [T, 1] i32 KV row that the token is written to */
    struct view seq;   /* [T, 1] i32 index of the token's sequence in this step */
    struct view q_start;     /* [n_seqs + 1, 1] i32 first token row of each sequence */
    struct view kv_len;      /* [n_seqs, 1] i32 KV length after this step's writes */
    struct view block_table; /* [n_seqs, max_blocks] i32 */
    struct view out_row;     /* [R, 1] i32 token rows whose logits are wanted */
};

/* The logit l of an id becomes (l > 0 ? l / mul : l * mul) + add. */
struct logit_edit {
    int32_t id;
    float mul, add;
};
enum { EDIT_WORDS = 3 }; /* of 4 bytes */

/* This rank's share of the vocabulary: logit column c is token first_id + c.  Slices as in
 * weight_src, over the vocabulary, for the partial sums of topk. */
struct vocab_part {
    int32_t first_id, n_cols;
    int32_t n_slices;
    int32_t slice_end[N_SLICES];
};

struct backend_ops {
    const char *name; /* "cpu", "cuda", "metal" */
    enum status (*open)(struct backend **out, const struct backend_config *cfg);
    void (*close)(struct backend *be);
    void (*info)(struct backend *be, struct backend_info *out);

    /* For a backend that was opened `planned`, once and before the first alloc: takes the plan's
     * bytes as one block of the device and one of pinned memory.  From then on each alloc is a
     * piece of them, of the part that `part` named last; ST_BUG names a part that is larger than
     * planned.  ST_NOMEM: the device has not that much.  used: what has been taken of each part,
     * and of the pinned memory.  All there or all NULL = absent: alloc asks the system. */
    enum status (*reserve)(struct backend *be, const struct mem_plan *plan);
    void (*part)(struct backend *be, enum mem_part part);
    void (*used)(struct backend *be, struct mem_plan *out);

    /* Memory.  alloc gives 64-byte (or stricter) alignment and zeroed bytes.  write and read move
     * view.rows x view.cols packed elements from or to host memory; write has taken src when it
     * returns, read waits for its data.  copy takes views of pinned memory too: between such memory
     * and the device it neither waits nor takes anything; the host may touch its end again after an
     * event that was marked behind it (event_wait). */
    enum status (*alloc)(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out);
    void (*free)(struct backend *be, struct buf *b);
    enum status (*write)(struct backend *be, struct view dst, const void *src);
    enum status (*read)(struct backend *be, void *dst, struct view src);
    enum status (*copy)(struct backend *be, struct view dst,
                        struct view src); /* same shape, type */
    /* As copy of pinned memory to the device, but the transfer may run beside what is enqueued;
     * what is enqueued later sees it.  Nothing under way may use dst.  NULL = absent: copy. */
    enum status (*upload)(struct backend *be, struct view dst, struct view src);
    enum status (*zero)(struct backend *be, struct view dst);
    enum status (*sync)(struct backend *be);
    /* Host address of a view where device memory is host memory (for shared-memory collectives).
     * NULL = absent. */
    void *(*host_ptr)(struct backend *be, struct view v);
    /* Host address of a MEM_PINNED buffer. */
    void *(*pinned_ptr)(struct backend *be, struct buf *b);

    /* Weights.  weight_bytes is exactly what load_weight will take, for the memory plan. */
    size_t (*weight_bytes)(struct backend *be, const struct weight_src *src);
    enum status (*load_weight)(struct backend *be, const struct weight_src *src,
                               struct weight **out);
    /* Working memory that linear with this matrix wants.  All matrices share it: a plan counts the
     * greatest.  NULL = none. */
    size_t (*linear_bytes)(struct backend *be, const struct weight_src *src);
    void (*free_weight)(struct backend *be, struct weight *w);
    /* A stack: n matrices of the same shape, types and slices as one weight, given back by
     * free_weight; only moe_ffn takes it.  src [n].  Stacks and moe_*: all there or all NULL =
     * absent. */
    size_t (*stack_bytes)(struct backend *be, const struct weight_src *src, int32_t n);
    enum status (*load_stack)(struct backend *be, const struct weight_src *src, int32_t n,
                              struct weight **out);

    /* Packed matrices that outlive the process in a file.  pack_id: backends with equal ones take
     * each other's bytes.  packed: those of a weight or a stack, which stay its own.  load_packed
     * and load_packed_stack: load_weight and load_stack with such bytes (copied, any alignment) in
     * place of the file's; the shapes and the biases are src's.  ST_FORMAT: another number of
     * bytes.  All there or all NULL = absent. */
    enum status (*pack_id)(struct backend *be, uint64_t *id);
    const void *(*packed)(struct backend *be, const struct weight *w, size_t *n_bytes);
    enum status (*load_packed)(struct backend *be, const struct weight_src *src, const void *data,
                               size_t n_bytes, struct weight **out);
    enum status (*load_packed_stack)(struct backend *be, const struct weight_src *src, int32_t n,
                                     const void *data, size_t n_bytes, struct weight **out);

    /* out[t,:] = row (ids[t] - first_id) of table, plus +0.0f; a row of zeros when that is not in
     * [0, N).  table: matrix [N, D]; ids [T,1] i32; out [T,D] f32. */
    enum status (*embed)(struct backend *be, const struct weight *table, int32_t first_id,
                         struct view ids, struct view out);
    /* out[t,n] = sum_k x[t,k] * w[n,k] (+ bias[n]).  x [T,K] f32, out [T,N] f32. */
    enum status (*linear)(struct backend *be, const struct weight *w, struct view x,
                          struct view out);
    /* resid += x + x_bias (x.buf NULL: nothing is added; x_bias may be NULL);
     * out = resid * rsqrt(mean(resid^2) + eps) * w.  resid, x, out [T,D] f32; w, x_bias [D]. */
    enum status (*add_rms_norm)(struct backend *be, struct view resid, struct view x,
                                const struct weight *x_bias, const struct weight *w, float eps,
                                struct view out);
    /* Splits qkv [T, (n_q + 2 n_kv) d], applies q_norm/k_norm and RoPE at pos, writes k and v to
     * the cache rows in slot (converted to the cache's type, quantised per token and head) and q to
     * q [T, n_q d] f32. */
    enum status (*qkv_to_cache)(struct backend *be, const struct attn_layer *al,
                                const struct step_dev *st, struct view qkv, struct kv_layer kv,
                                struct view q);
    /* Causal attention of each token over its sequence's cache through the block table.
     * q, out [T, n_q d] f32. */
    enum status (*attention)(struct backend *be, const struct attn_layer *al,
                             const struct step_dev *st, struct view q, struct kv_layer kv,
                             struct view out);
    /* out[t,f] = act(gate_up[t,f]) * gate_up[t,F+f].  gate_up [T,2F], out [T,F] f32. */
    enum status (*act_mul)(struct backend *be, enum act act, struct view gate_up, struct view out);
    /* out = act(x), both [T,F] f32; out may be x (encoder models). */
    enum status (*activate)(struct backend *be, enum act act, struct view x, struct view out);
    /* Each token's k experts, in the order (logit descending, id ascending; NaN before all
     * numbers), and their weights: with p_e = exp(logit_e - greatest) and the sum of the chosen p
     * in that order (renormalise) or of all p in order of ids, weight_i = p_i / sum * scale. logits
     * [T,E] f32, ids [T,k] i32, weights [T,k] f32.  Uses n_experts, top_k, renormalise and scale of
     * ml. */
    enum status (*moe_route)(struct backend *be, const struct moe_layer *ml, struct view logits,
                             struct view ids, struct view weights);
    /* Bytes of scratch that moe_ffn wants for up to max_tokens tokens (at 64 bytes' alignment);
     * asked before anything is loaded, so without gate_up and down. */
    size_t (*moe_scratch)(struct backend *be, const struct moe_layer *ml, int32_t max_tokens);
    /* out[t,:] = sum over the experts e of token t of weight * down_e(act(gate_e(x)) * up_e(x)),
     * this rank's part of it.  The sum over the ranks must not depend on their number, so the
     * experts are added within each slice of down:
     *   part_{e,s}  the product over slice s of down_e, in linear's order;
     *   acc_s       = fmaf(weight_e, part_{e,s}, acc_s) from +0, e in ascending order of ids;
     *   out         the acc_s added as the tree of struct weight_src; the all-reduce goes on.
     * gate_up and down are otherwise as in linear, the activation as in act_mul.  Row t's ids are
     * distinct and in [0, E).  A step reads the weights of the experts that it uses, each once.
     * x, out [T,D] f32; ids [T,k] i32, weights [T,k] f32; scratch [1, n] f32 of moe_scratch bytes
     * or more. */
    enum status (*moe_ffn)(struct backend *be, const struct moe_layer *ml, struct view x,
                           struct view ids, struct view weights, struct view scratch,
                           struct view out);
    /* dst += scale * src, same shape, f32. */
    enum status (*add)(struct backend *be, struct view dst, struct view src, float scale);
    /* out[r,:] = x[row[r],:].  row [R,1] i32. */
    enum status (*gather)(struct backend *be, struct view x, struct view row, struct view out);
    /* Row r's edits are the struct logit_edits in words [start[r], start[r + 1]), each of another
     * id; those of columns that this rank has not are left out.  logits [R, n_cols] f32; start [R +
     * 1, 1] i32; words [1, n] i32. */
    enum status (*edit_logits)(struct backend *be, const struct vocab_part *part,
                               struct view logits, struct view start, struct view words);
    /* The k = val.cols greatest logits of each row, ordered by (logit descending, id ascending),
     * ids global; fewer columns than k: the rest is -inf with id -1.  stat[r, 3 i ..] of vocabulary
     * slice i: max m, sum exp(l - m), sum exp((l - m) * inv_temp[r]); an empty slice gives -inf, 0,
     * 0.  inv_temp[r] < 0: nobody wants the row, its outputs stay as they are.  logits [R, n_cols]
     * f32; inv_temp [R,1] f32; val [R,k] f32; id [R,k] i32; stat [R, 3 n_slices] f32. */
    enum status (*topk)(struct backend *be, const struct vocab_part *part, struct view logits,
                        struct view inv_temp, struct view val, struct view id, struct view stat);
    /* id[r] = draw_row_token(shape, top, r, row[r]), the arithmetic of common/draw.h bit for bit: a
     * token, or -1 where the host has to draw.  top [n_ranks, draw_words(shape)] i32 words (packed)
     * as struct draw_shape says, k <= DRAW_MAX_K; row [R, DRAW_ROW_WORDS] i32: a struct draw_row
     * each; id [R,1] i32; R = shape->n_rows. */
    enum status (*sample)(struct backend *be, const struct draw_shape *shape, struct view top,
                          struct view row, struct view id);
    /* token[t] = last[from[t]] where from[t] >= 0; the others stay.  token, from [T,1] i32; last
     * [R,1] i32, from[t] < R. */
    enum status (*take_tokens)(struct backend *be, struct view token, struct view from,
                               struct view last);
    /* out = (x - mean) / sqrt(var + eps) * w + b, biased variance.  [T,D] f32. */
    enum status (*layer_norm)(struct backend *be, struct view x, const struct weight *w,
                              const struct weight *b, float eps, struct view out);

    /* Device clock: mark a slot (0..15) in the queue; elapsed waits for `to`.  event_wait waits
     * until the queue has passed the slot's last mark, at most wait_us (0: only looks); *passed
     * says whether it has. */
    enum status (*event_mark)(struct backend *be, int slot);
    enum status (*event_wait)(struct backend *be, int slot, uint64_t wait_us, bool *passed);
    enum status (*event_elapsed)(struct backend *be, int from, int to, uint64_t *ns);
    /* Record the ops between begin and end, launch them again later.  NULL = absent. */
    enum status (*graph_begin)(struct backend *be);
    enum status (*graph_end)(struct backend *be, struct graph **out);
    enum status (*graph_launch)(struct backend *be, struct graph *g);
    void (*graph_free)(struct backend *be, struct graph *g);
};

struct backend_base {
    const struct backend_ops *ops;
};

static inline const struct backend_ops *backend_ops_of(const struct backend *be)
{
    return ((const struct backend_base *)be)->ops;
}

/* What is alloc'ed from now on is for that part. */
static inline void backend_part(struct backend *be, enum mem_part part)
{
    if (backend_ops_of(be)->part)
        backend_ops_of(be)->part(be, part);
}

/* Opens the backend of that name ("cpu", ...).  ST_UNSUPPORTED names what this build has. */
MUST_CHECK enum status backend_open(struct backend **out, const char *name,
                                    const struct backend_config *cfg);

/* Names compiled in, "cpu cuda". */
const char *backend_names(void);

#endif
