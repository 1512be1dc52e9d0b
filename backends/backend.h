/* A backend is one device with one ordered queue of work.  The worker opens a backend, loads
 * weights into it and enqueues ops.  An op returns at once and `sync` waits for all ops so far; the
 * CPU backend computes before an op returns.
 *
 * Ops are the parts of a transformer layer between matrix products, the KV cache and collectives;
 * fusion happens inside an op.  Activations are token-major: row t of a [T, n] view is token t.  An
 * op with T = 0 has no effect.  Shapes are asserted, because a wrong shape is a bug of the caller;
 * outside data was checked when the model was loaded.
 *
 * Numeric contract, for every op of every backend: the bits of row t of the output depend on row t
 * of the inputs, the weights and the op's parameters.  They do not depend on the other rows, on the
 * number of rows or on the number of threads.  Each reduction has an order fixed by the shape.  The
 * CPU backend's plain path defines these orders in C and is the executable specification; all
 * backends are tested against it.
 *
 * One thread calls a backend.  All memory is taken at start; no op allocates. */
#ifndef BACKENDS_BACKEND_H
#define BACKENDS_BACKEND_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/weight_src.h"
#include "common/status.h"

struct backend; /* begins with struct backend_base */
struct buf;     /* device memory; host code never dereferences it */
struct weight;  /* a matrix or vector in the backend's own packing */
struct graph;
struct draw_shape;  /* common/draw.h */
struct mapped_file; /* common/mapped_file.h */

enum {
    MOE_AT_ONCE = 1024,         /* tokens of moe_hidden and moe_down */
    MOE_SCALED_COLUMNS = 32768, /* hidden of a moe_layer with input_scale */
};

/* The order of sums.
 *   STRICT  the contract above
 *   FAST    the device's libraries choose the order, and only correctness is promised; a backend
 *           without such libraries (the CPU) computes as in STRICT */
enum numerics { NUMERICS_STRICT, NUMERICS_FAST };

/* CPU: how activations meet BF16 weights.  (Quantised weights decide themselves: in 8 bits or in f32; with F32 integers
 * with an index of groups do it in f32: FEATURE_SORTED is absent.)  CUDA: with F32 e4m3 weights and floats of 4 bits meet f32, else f16
 * (scaled_kernels.h).
 *   F32         as they are
 *   BF16        rounded to BF16, in the order of sums of VDPBF16PS; any processor can compute it
 *   BF16_TILES  the same in the order of AMX's TDPBF16PS
 *   AUTO        the one of these two that is faster than f32 on this processor, or F32 */
enum activations { ACTIVATIONS_F32, ACTIVATIONS_BF16, ACTIVATIONS_BF16_TILES, ACTIVATIONS_AUTO };

struct backend_config {
    int threads; /* CPU: worker threads, 0 = as many as this process may use */
    bool pin;    /* CPU: each worker thread on one of the cores the process may use */

    /* CPU: "auto", "plain", "avx2", "avxvnni", "avx512", "avx512vnni", "neon", "neondot", "neoni8mm";
     * NULL = auto. */
    const char *isa;

    /* CPU: the most rows of x in one call of linear, which sizes its working memory; more rows take
     * several passes.  0 = not known. */
    int32_t max_rows;

    enum activations activations;

    int device; /* GPU: its number among those that the process sees */
    bool
        by_rank; /* GPU: `device` is the rank's number on its host; a process that sees one device alone
                     takes that, whatever its number */
    bool planned; /* GPU: take no memory before `reserve`, and only what its plan has */
    enum numerics numerics;
};

struct backend_info {
    char device[96];   /* "CPU Intel Xeon ..., avx512, 2 threads" */
    char about[256];   /* what else there is to say of it, in words; "": nothing */
    size_t mem_free;   /* bytes a worker may plan with */
    size_t mem_total;  /* bytes */
    size_t mem_own;    /* bytes of the backend's own that mem_free still counts: pages of host
                          memory, given when they are first written; what `reserve` will take */
    bool graphs;       /* graph_* present */
    bool experts;      /* stacks and moe_* present */
    unsigned features; /* bit (1 << feature) for each enum backend_feature that is present */
    int32_t max_head;  /* largest d_head of attention; 0: not limited here */
    /* GPU with memory of its own: its place on the host's PCI bus, "0000:3b:00.0", and "GPU-" and its
     * UUID (of a part of a device, MIG: the part's).  Numbers of devices say nothing: each process
     * may see others (CUDA_VISIBLE_DEVICES).  "": no such device */
    char bus[16], uuid[48];
    unsigned kv_types; /* bit (1 << dtype) for each KV element type that attention takes */
    enum activations activations; /* CPU: never AUTO; CUDA: F32 or AUTO */
    char matrix[16]; /* GPU: compute capability and kind of matrix instruction, "sm90-mma": what
                          the bits of products depend on; "": nothing of the kind */
};

/* Borrowed row-major [rows, cols] window of a buf. */
struct view {
    struct buf *buf;
    size_t off;                 /* bytes */
    int32_t rows, cols, stride; /* stride in elements between rows, >= cols */
    enum dtype dtype;
    /* NULL: the window has elements; else, in their bytes, that matrix's operand (reads_operand) */
    const struct weight *reader;
};

/* Columns, rows [first, first + n) of v. */
static inline struct view view_columns(struct view v, int32_t first, int32_t n)
{
    assert(!v.reader);
    v.off += (size_t)first * dtype_size(v.dtype);
    v.cols = n;
    return v;
}

static inline struct view view_rows(struct view v, int32_t first, int32_t n)
{
    assert(!v.reader);
    v.off += (size_t)first * (size_t)v.stride * dtype_size(v.dtype);
    v.rows = n;
    return v;
}

/* The op that writes an operand: add_rms_norm; act_mul and linear_act_mul; attention without d_value, whose d_head is a
 * multiple of 8. */
enum operand_source { OPERAND_NORM, OPERAND_ACT_MUL, OPERAND_ATTENTION };

/* Ops, and flags of ops, that a backend may lack; a model that needs one of them is refused. */
enum backend_feature {
    FEATURE_ROUTES,       /* moe_route: sigmoid, n_groups, route_bias */
    FEATURE_SIGMOID_MUL,  /* sigmoid_mul */
    FEATURE_ADD_BIAS,     /* add_bias */
    FEATURE_WIDE_NORM,    /* head_squares, wide_norm */
    FEATURE_SINKS,        /* attention: sinks */
    FEATURE_EXPERT_BIAS,  /* moe_ffn: gate_up_bias, glu_limit; moe_bias */
    FEATURE_LATENT,       /* attention: d_value; latent_to_cache, heads_linear */
    FEATURE_FULL,         /* attention: full; layer_norm, embed of positions and types */
    FEATURE_DELTA,        /* delta_conv, delta_rule, gated_norm */
    FEATURE_MAMBA,        /* delta_conv, delta_rule: bias, skip; wide_norm: groups of heads */
    FEATURE_VALUES,       /* qkv_to_cache: v_norm, v_is_k */
    FEATURE_Q_ALONE,      /* qkv_to_cache: q_alone */
    FEATURE_EXPERT_SCALE, /* moe_route: expert_scale */
    FEATURE_RELU2,        /* ACT_RELU2 */
    FEATURE_EXPERT_UP,    /* moe_ffn: up_alone */
    FEATURE_REL_BIAS,     /* attention: rel_bias */
    FEATURE_STREAMS,      /* predict_streams, correct_streams, match_rms, known_ids */
    FEATURE_GATE_CUT,     /* slice_stats, cut_gates */
    FEATURE_CHUNK,        /* attention: chunk */
    FEATURE_UNIT_QK,      /* qkv_to_cache: qk_unit */
    FEATURE_WEIGH_INPUT,  /* moe_ffn: weigh_input */
    FEATURE_ROUND_INPUTS, /* input_peaks, round_input; latent_to_cache: round_latent; moe_ffn: round_hidden */
    FEATURE_ROUND_EXPERTS, /* moe_ffn: round_input, input_scale, hidden_scale; moe_hidden, moe_down */
    FEATURE_SORTED,        /* load_weight, load_stack: INT4_SORTED, INT8_SORTED */
    N_FEATURES
};

enum mem_kind { MEM_DEVICE, MEM_PINNED };

/* Bytes of each kind. */
struct mem_bytes {
    size_t device, pinned;
};

/* What a model uses of a backend besides its weights. */
struct backend_use {
    enum dtype kv;     /* of the cache */
    int32_t d_head[2]; /* sizes of a head of keys: [n_heads] */
    int32_t n_heads;
    bool rounds_inputs; /* some input_rule has a grid */
};

/* The uses of device memory, as the memory plan counts them. */
enum mem_part {
    PART_OWN, /* the backend's own: mem_own of backend_info */
    PART_COLL,
    PART_WEIGHTS,
    PART_SCRATCH,
    PART_KV,
    PART_TABLES,
    PART_STEP,
    N_MEM_PARTS
};

/* All memory that a rank will allocate, in bytes: sums of weight_bytes and alloc_bytes. */
struct mem_plan {
    size_t part[N_MEM_PARTS];
    size_t pinned; /* besides the backend's own */
    size_t driver; /* left free for the driver (graphs) */
};

/* The bytes that a buffer counts in a plan. */
enum { ALLOC_ALIGN = 256 };
static inline size_t alloc_bytes(size_t bytes)
{
    return (bytes + ALLOC_ALIGN - 1) / ALLOC_ALIGN * ALLOC_ALIGN;
}

/* Constant facts of one attention layer on this rank.
 * Query head h of this rank reads KV head (h + q_offset) / q_per_kv of this rank. */
struct attn_layer {
    int32_t n_q, n_kv, d_head, rot_dim; /* heads of this rank; rot_dim <= d_head, even */
    /* 0: values are as long as keys.  Else latent attention: the value of a key is its first d_value
     * elements, d_value <= d_head, and v of kv_layer is that view of k. */
    int32_t d_value;
    int32_t q_per_kv, q_offset;
    int32_t window; /* a token attends to itself and window - 1 before it; 0 = all */
    /* a token at pos attends to [pos / chunk * chunk, pos]; 0 = all; not with window or full */
    int32_t chunk;
    /* An encoder's: a token attends to the whole sequence, with a window to window - 1 tokens on
     * either side of it. */
    bool full;
    float scale, eps;      /* eps of q_norm and k_norm */
    float cap;             /* a score s becomes cap tanh(s / cap), exact_soft_cap; 0: it stays */
    bool rope_interleaved; /* pairs (2i, 2i+1); else (i, i + rot_dim/2) */
    /* [d_head] per-head RMS norm before RoPE, or NULL; latent attention: k_norm is [d_value] */
    const struct weight *q_norm, *k_norm;
    struct view cos, sin; /* [max_pos, rot_dim / 2] f32 */
    struct view q_scale;  /* [max_pos, 1] f32: factor on q, after RoPE; no buf: none */
    bool qk_unit; /* q and k: per-head RMS norm without weights, behind RoPE; not with q_norm */
    bool v_norm;  /* values: per-head RMS norm without weights */
    bool v_is_k;  /* qkv has no values: they are the keys before their norm and RoPE */
    bool q_alone; /* qkv has neither: the cache is another layer's, which has written it */
    /* [n_q], or NULL: the score of one more key of each head, whose value is zero; a split of its
     * own behind the others */
    const struct weight *sinks;
    /* [n_q (2 REL_REACH + 1)], or NULL: added to the score of head h for a key `distance` behind the token (before it:
     * below 0), scaled and before cap: element h (2 REL_REACH + 1) + REL_REACH + distance, distances beyond REL_REACH
     * as that one */
    const struct weight *rel_bias;
    /* of the normed latent, before it is stored; GRID_NONE without FEATURE_ROUND_INPUTS */
    struct input_rule round_latent;
};

static inline int32_t attn_d_value(const struct attn_layer *al)
{
    return al->d_value ? al->d_value : al->d_head;
}

/* Columns of qkv: n_q query heads, n_kv keys, and n_kv values where they have a matrix; or the queries alone. */
static inline int32_t attn_qkv_cols(const struct attn_layer *al)
{
    int32_t n = al->q_alone ? 0 : al->v_is_k ? 1 : 2;
    return (al->n_q + n * al->n_kv) * al->d_head;
}

/* This rank's KV cache of one layer.  Row s = block * block_len + offset. */
struct kv_layer {
    struct view k, v;             /* [n_blocks * block_len, n_kv * d_head], v n_kv * d_value */
    struct view k_scale, v_scale; /* [n_blocks * block_len, n_kv] f32, for DT_I8 and DT_E4M3 */
};

/* Constant facts of one gated delta-net layer on this rank (Yang et al. 2024, arXiv 2412.06464), or, where skip is there,
 * of one Mamba-2 layer (Dao and Gu 2024, arXiv 2405.21060), whose C, B and x are q, k and v: heads of x are value heads,
 * groups of B and C are key heads.  Value head h of this rank reads key head (h + v_offset) / v_per_k mod n_k of this
 * rank. */
struct delta_layer {
    int32_t n_k, n_v, d_k, d_v; /* heads of this rank and their sizes */
    int32_t v_per_k, v_offset;
    int32_t taps;               /* of the convolution, 1 to DELTA_MAX_TAPS */
    const struct weight *conv;  /* [taps C], tap after tap, the oldest first; C = delta_channels */
    const struct weight *decay; /* [n_v], negative */
    const struct weight *dt;    /* [n_v] */
    const struct weight *bias;  /* [C] of the convolution, or NULL */
    const struct weight *skip;  /* [n_v] of Mamba-2, which D is; NULL: a gated delta net */
    float dt_min, dt_max;       /* of Mamba-2: bounds of a step */
};

static inline int32_t delta_channels(const struct delta_layer *dl)
{
    return 2 * dl->n_k * dl->d_k + dl->n_v * dl->d_v;
}

/* This rank's states of one such layer, a row for each slot (step_dev.state), and behind these snapshots.  A sequence whose first token of
 * a step is at position 0 begins with zeros, whatever its slot has. */
struct delta_state {
    struct view
        conv; /* [slots, (taps - 1) C] f32: the channels of the last tokens, the oldest first */
    struct view rule; /* [slots, n_v d_k d_v] f32: of each head a matrix [d_k, d_v] */
};

/* Constant facts of one mixture-of-experts feed-forward layer on this rank. */
struct moe_layer {
    int32_t n_experts, top_k;        /* E, and k experts a token: 1 <= k <= E */
    int32_t hidden, ffn;             /* D; F: this rank's columns of each expert */
    bool renormalise;                /* the chosen experts' weights are divided by their sum */
    bool sigmoid;                    /* scores are sigmoids of the logits, else softmax */
    int32_t n_groups, top_groups;    /* 0 or 1: no groups; else a token's experts are of top_groups
                                        of n_groups runs of E / n_groups experts */
    const struct weight *route_bias; /* [E] added to the scores where experts are chosen; or NULL */
    const struct weight
        *expert_scale; /* [E] factors on the experts' weights; or NULL; not with sigmoid */
    float scale;       /* factor on the weights; 1: none */
    enum act act;
    bool up_alone; /* experts have no gate: gate_up is up, [F, D], and act(up) goes to down */
    /* an expert's weight is a factor on its input, so on what gate and up give, and none on its output; not with up_alone,
     * biases or glu_limit */
    bool weigh_input;
    /* glu_limit > 0, in place of the activation and the product with up: g = min(gate, limit),
     * u = up cut to +-limit, (u + 1) * (g / (1 + exp(-glu_alpha g))) */
    float glu_limit, glu_alpha;
    const struct weight *gate_up;      /* stack of E [2F, D] without bias */
    const struct weight *gate_up_bias; /* [E 2F], expert after expert, or NULL */
    const struct weight *down;         /* stack of E [D, F] without bias, with slices */
    const struct weight *down_bias;    /* [E D], for moe_bias, or NULL */
    /* of the input of down, with shared in two parts (moe_hidden); GRID_NONE without FEATURE_ROUND_INPUTS */
    struct input_rule round_hidden;
    /* [E] of the host, or NULL: the experts' own scales in place of the rules', of the input of gate and up, which moe_ffn
     * rounds then by round_input, and of that of down */
    struct input_rule round_input;
    const float *input_scale, *hidden_scale;
};

/* The step plan's arrays on the device, at fixed addresses. */
struct step_dev {
    int32_t n_tokens, n_seqs; /* T, sequences */

    /* Upper bounds of the q and KV lengths, for launch shapes.  Kernels read the lengths themselves
     * from the arrays, so a recorded graph can run with other lengths. */
    int32_t max_q, max_kv;

    int32_t block_len; /* tokens of a block */
    struct view token; /* [T, 1] i32 ids */
    struct view type;  /* [T, 1] i32 types of an encoder's tokens; no buf: a decoder's step */
    struct view from; /* [T, 1] i32 row of the last step's `sample` to take the id from; -1: none */
    struct view pos;  /* [T, 1] i32 absolute positions */
    struct view slot; /* [T, 1] i32 KV row that the token is written to */
    struct view seq;  /* [T, 1] i32 index of the token's sequence in this step */
    struct view q_start;     /* [n_seqs + 1, 1] i32 first token row of each sequence */
    struct view kv_len;      /* [n_seqs, 1] i32 KV length after this step's writes */
    struct view state;       /* [n_seqs, 1] i32 slot of the sequence's states: see delta_state */
    struct view block_table; /* [n_seqs, max_blocks] i32 */
    struct view out_row;     /* [R, 1] i32 token rows whose logits are needed */
};

/* The logit l of an id becomes (m > 0 ? m / mul : m * mul) + add, m = l + bias. */
struct logit_edit {
    int32_t id;
    float bias, mul, add;
};

/* This rank's share of the vocabulary: logit column c is token first_id + c.  The slices cut the
 * vocabulary as those of weight_src cut K; topk gives partial sums of each. */
struct vocab_part {
    int32_t first_id, n_cols;
    int32_t n_slices;
    int32_t slice_end[N_SLICES];
};

/* Packed bytes in a file. */
struct packed_range {
    size_t at, n_bytes;
};

struct backend_ops {
    const char *name; /* "cpu", "cuda", "metal" */
    enum status (*open)(struct backend **out, const struct backend_config *cfg);
    void (*close)(struct backend *be);
    void (*info)(struct backend *be, struct backend_info *out);

    /* The memory plan.  These three are all present or all NULL; if NULL, alloc asks the system.
     *   reserve  called before the first alloc, if the backend was opened `planned`: takes the
     *            plan's bytes as one block of device and one of pinned memory.  Each later alloc is a
     *            piece of these.  PART_COLL has a call of its own, with the collective's pinned
     *            memory, before the one for all other parts: libraries take memory that only shows
     *            when a collective is open.  ST_NOMEM: the device has less memory free.
     *   part     names the part that the next allocs belong to; alloc fails with ST_BUG when a part
     *            becomes larger than planned
     *   used     the bytes allocated so far, of each part and of the pinned memory */
    enum status (*reserve)(struct backend *be, const struct mem_plan *plan);
    void (*part)(struct backend *be, enum mem_part part);
    void (*used)(struct backend *be, struct mem_plan *out);

    /* Called before the first step: makes what the model's ops need beyond that of its weights.  NULL: nothing. */
    enum status (*prepare)(struct backend *be, const struct backend_use *use);

    /* Memory.
     *   alloc  zeroed bytes with 64-byte or stricter alignment
     *   write  copies view.rows x view.cols packed elements from host memory; the caller may reuse
     *          src when it returns
     *   read   the reverse; waits until the data has arrived
     *   copy   between views of the same shape and type, also of pinned memory; never waits.  The
     * host
     *          may use its pinned memory again after an event marked behind the copy
     * (event_wait). */
    enum status (*alloc)(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out);
    void (*free)(struct backend *be, struct buf *b);
    enum status (*write)(struct backend *be, struct view dst, const void *src);
    enum status (*read)(struct backend *be, void *dst, struct view src);
    enum status (*copy)(struct backend *be, struct view dst, struct view src);
    /* Like copy from pinned memory to the device, but the transfer may overlap with the ops that
     * are already enqueued, which must not use dst.  Ops enqueued later see the data.  NULL: use
     * copy. */
    enum status (*upload)(struct backend *be, struct view dst, struct view src);
    enum status (*zero)(struct backend *be, struct view dst);
    enum status (*sync)(struct backend *be);
    /* Host address of a view, for shared-memory collectives.  NULL: device memory is not host
     * memory. */
    void *(*host_ptr)(struct backend *be, struct view v);
    /* Host address of a MEM_PINNED buffer. */
    void *(*pinned_ptr)(struct backend *be, struct buf *b);

    /* Weights.  weight_bytes: the bytes that load_weight will allocate, for the memory plan. */
    size_t (*weight_bytes)(struct backend *be, const struct weight_src *src);
    enum status (*load_weight)(struct backend *be, const struct weight_src *src,
                               struct weight **out);
    /* Bytes of working memory that linear needs for this matrix.  All matrices share it, so a plan
     * counts the maximum.  NULL: none. */
    size_t (*linear_bytes)(struct backend *be, const struct weight_src *src);
    void (*free_weight)(struct backend *be, struct weight *w);
    /* A stack: n matrices of the same shape, types and slices as one weight, for moe_ffn only;
     * freed by free_weight.  src [n].  Stacks and moe_*: all present or all NULL. */
    size_t (*stack_bytes)(struct backend *be, const struct weight_src *src, int32_t n);
    enum status (*load_stack)(struct backend *be, const struct weight_src *src, int32_t n,
                              struct weight **out);

    /* Packed matrices, for a cache file that later processes read.  All present or all NULL.
     *   pack_id      backends with the same id can load each other's bytes
     *   packed       the bytes of a weight or a stack, borrowed from it
     *   load_packed, load_packed_stack
     *                like load_weight and load_stack, but the elements are such bytes (copied, of
     *                any alignment, but for those of map_packed); shapes and biases are src's.
     *                ST_FORMAT: the number of bytes is wrong.
     *   map_packed   a file of such bytes, given away: load_packed* of range[i] [n], ascending and not
     *                empty, uses the file's memory itself.  Once, behind reserve, before they are loaded.
     *                After a failure file is still the caller's.  NULL: all are copied. */
    enum status (*pack_id)(struct backend *be, uint64_t *id);
    const void *(*packed)(struct backend *be, const struct weight *w, size_t *n_bytes);
    enum status (*load_packed)(struct backend *be, const struct weight_src *src, const void *data,
                               size_t n_bytes, struct weight **out);
    enum status (*load_packed_stack)(struct backend *be, const struct weight_src *src, int32_t n,
                                     const void *data, size_t n_bytes, struct weight **out);
    enum status (*map_packed)(struct backend *be, struct mapped_file *file,
                              const struct packed_range *range, size_t n);

    /* out[t,:] = row (ids[t] - first_id) of table, plus +0.0f; zeros when that row is not in [0,
     * N).  table: matrix [N, D]; ids [T,1] i32; out [T,D] f32. */
    enum status (*embed)(struct backend *be, const struct weight *table, int32_t first_id,
                         struct view ids, struct view out);
    /* out[t,n] = sum_k x[t,k] * w[n,k] (+ bias[n]).  x [T,K] f32, out [T,N] f32. */
    enum status (*linear)(struct backend *be, const struct weight *w, struct view x,
                          struct view out);
    /* Operands: activations in the form in which linear reads them.  May `out` of such an op be a view [T, K] with
     * reader w [N, K], stride K, 16-byte aligned?  linear takes that view as x for w, or for matrices with the same
     * elements' type, columns and slices, and gives the bits that it gives for elements.  No other op reads it; its
     * rows and columns are not taken apart.  NULL: never. */
    bool (*reads_operand)(const struct backend *be, const struct weight *w,
                          enum operand_source from);
    /* out = act_mul of mid = linear of x with w [2F, K]; mid [T, 2F] is overwritten, or not.  The bits are those of
     * the two ops.  NULL: there are only these. */
    enum status (*linear_act_mul)(struct backend *be, enum act act, const struct weight *w,
                                  struct view x, struct view mid, struct view out);
    /* resid += x + x_bias (x.buf NULL: nothing is added; x_bias may be NULL);
     * out = resid * rsqrt(mean(resid^2) + eps) * w.  resid, x, out [T,D] f32; w, x_bias [D]. */
    enum status (*add_rms_norm)(struct backend *be, struct view resid, struct view x,
                                const struct weight *x_bias, const struct weight *w, float eps,
                                struct view out);
    /* Splits qkv [T, attn_qkv_cols], applies q_norm/k_norm/v_norm, RoPE at pos and qk_unit, writes k and v to
     * the cache rows in slot (converted to the cache's type, quantised per token and head) and q to
     * q [T, n_q d] f32.  With q_alone the cache is not touched. */
    enum status (*qkv_to_cache)(struct backend *be, const struct attn_layer *al,
                                const struct step_dev *st, struct view qkv, struct kv_layer kv,
                                struct view q);
    /* Causal attention (or full) of each token over its sequence's cache through the block table.
     * q [T, n_q d], out [T, n_q d_value] f32. */
    enum status (*attention)(struct backend *be, const struct attn_layer *al,
                             const struct step_dev *st, struct view q, struct kv_layer kv,
                             struct view out);
    /* Latent attention (DeepSeek-V2, arXiv 2405.04434), one KV head for all query heads.  With
     * r = d_value elements of the latent and rot_dim = d_head - r rotated ones:
     *   cache row  [RMS norm of latent[t, :r] by k_norm, with round_latent rounded | RoPE of latent[t, r:]], in the cache's type
     *   q[t, h, r:] = RoPE of the last rot_dim elements of head h of q_heads; q[t, h, :r] stays
     * latent [T, d_head], q_heads [T, n_q n], n >= rot_dim, q [T, n_q d_head] f32.  NULL without
     * FEATURE_LATENT. */
    enum status (*latent_to_cache)(struct backend *be, const struct attn_layer *al,
                                   const struct step_dev *st, struct view latent,
                                   struct view q_heads, struct kv_layer kv, struct view q);
    /* A matrix for each of H heads: out[t, h b + n] = sum_k x[t, h a + k] w_h[n,k] in linear's
     * order, with a = x.cols / H >= K and b = out.cols / H >= N; other columns of out stay.
     * w: stack of H [N,K], no slices, no biases; x, out f32.  NULL without FEATURE_LATENT. */
    enum status (*heads_linear)(struct backend *be, const struct weight *w, struct view x,
                                struct view out);
    /* Gated delta net and Mamba-2; all three are NULL without FEATURE_DELTA.  A sequence's tokens are consecutive rows,
     * and the result does not depend on the steps that they are divided into.
     *   delta_conv  each channel of qkv [T, C], in place: silu(chain from bias or +0 over the taps, the oldest first,
     *               of tap * channel of the token so many before); then, without skip, each head of q and k is
     *               multiplied by 1 / sqrt(sum of squares + 1e-6), q also by 1 / sqrt(d_k).  A row of
     *               qkv has q [n_k d_k], k [n_k d_k], v [n_v d_v]
     *   delta_rule  for each value head, token after token, with S its state:
     *                 g = e^(decay * softplus(a + dt)),  beta = 1 / (1 + e^-b)
     *                 S[i,j] = g S[i,j];  m[j] = chain over i of S[i,j] k[i]
     *                 u[j] = (v[j] - m[j]) beta;  S[i,j] = fmaf(k[i], u[j], S[i,j])
     *                 out[j] = chain over i of S[i,j] q[i]
     *               (CUDA: 16 chains and their sum, delta.cu)
     *               with skip
     *                 s = softplus(a + dt) cut to [dt_min, dt_max],  g = e^(decay * s)
     *                 S[i,j] = fmaf(k[i], s v[j], g S[i,j])
     *                 out[j] = fmaf(skip, v[j], chain over i of S[i,j] q[i])
     *               qkv as delta_conv leaves it; ba [T, 2 n_v], b before a, is overwritten (with skip b is not read);
     *               out [T, n_v d_v] f32
     *   gated_norm  each head of x [T, n d], in place: x * rsqrt(mean(x^2) + eps) * w * silu(gate);
     *               w [d], gate [T, n d] f32 */
    enum status (*delta_conv)(struct backend *be, const struct delta_layer *dl,
                              const struct step_dev *st, struct view qkv, struct delta_state s);
    enum status (*delta_rule)(struct backend *be, const struct delta_layer *dl,
                              const struct step_dev *st, struct view qkv, struct view ba,
                              struct delta_state s, struct view out);
    enum status (*gated_norm)(struct backend *be, struct view x, const struct weight *w, float eps,
                              struct view gate);
    /* out[t,f] = act(gate_up[t,f]) * gate_up[t,F+f].  gate_up [T,2F], out [T,F] f32. */
    enum status (*act_mul)(struct backend *be, enum act act, struct view gate_up, struct view out);
    /* out = act(x), both [T,F] f32; out may be x (encoder models). */
    enum status (*activate)(struct backend *be, enum act act, struct view x, struct view out);
    /* x = factor x; [R,n] f32. */
    enum status (*scale)(struct backend *be, struct view x, float factor);
    /* x[t,i] = x[t,i] / (1 + exp(-gate[t,i])); gate [T,n] or [T,1], x [T,n] f32.  NULL without
     * FEATURE_SIGMOID_MUL. */
    enum status (*sigmoid_mul)(struct backend *be, struct view x, struct view gate);
    /* x[t,:] += b.  x [T,n] f32, b [n].  NULL without FEATURE_ADD_BIAS. */
    enum status (*add_bias)(struct backend *be, struct view x, const struct weight *b);
    /* The two halves of an RMS norm over heads of several ranks, all of them or groups of `group` neighbours; both NULL
     * without FEATURE_WIDE_NORM.
     *   head_squares  out[t,h] = sum of squares of head h of x, a row sum of its d elements
     *   wide_norm     x = x * rsqrt(s / (group d) + eps) * w; s: the chain of additions over the squares[t,:] of the
     *                 head's group
     * x [T, n d] f32, this rank's heads, `first` and those behind it of all; out [T,n]; squares [T,H] f32, of all heads,
     * H a multiple of group; w [n d]. */
    enum status (*head_squares)(struct backend *be, struct view x, struct view out);
    enum status (*wide_norm)(struct backend *be, struct view x, struct view squares, int32_t d,
                             int32_t group, int32_t first, const struct weight *w, float eps);
    /* Several residual streams (AltUp, Baykal et al. 2023, arXiv 2301.13310): n of them side by side in a row of x
     * [T, n D] f32; all four are NULL without FEATURE_STREAMS.
     *   predict_streams  stream j becomes (chain over p from +0 of fmaf(coef[t, j n + p], stream p, .)) + stream j;
     *                    coef [T, n n] f32
     *   correct_streams  with d = active[t] - stream i: stream j = fmaf(d, coef[t, j] + 1, stream j); then active[t] is
     *                    stream i, with w [D] (NULL: none) times w; coef [T, n], active [T, D] f32
     *   match_rms        x[t] = x[t] * (sqrt(mean of like[t]^2) / sqrt(max(mean of x[t]^2, 1e-5))), means of row sums;
     *                    x, like [T, D] f32
     *   known_ids        out[t] = ids[t] where that is in [0, n), else 0; [T, 1] i32 */
    enum status (*predict_streams)(struct backend *be, struct view x, struct view coef);
    enum status (*correct_streams)(struct backend *be, struct view x, struct view coef, int32_t i,
                                   const struct weight *w, struct view active);
    enum status (*match_rms)(struct backend *be, struct view x, struct view like);
    enum status (*known_ids)(struct backend *be, struct view ids, int32_t n, struct view out);
    /* Gates far above their mean alone (the statistical top k of Spark Transformer, You et al. 2025, arXiv 2506.06644),
     * over columns that several ranks have; both NULL without FEATURE_GATE_CUT.
     *   slice_stats  of slice s of x[t,:], which ends at slice_end[s], to out[t, 3 s ..]: its columns n_s, their mean m_s
     *                (a row sum / n_s) and the row sum q_s of (x - m_s)^2; zeros of an empty slice
     *   cut_gates    x = max(x - cut, 0), cut = mean + factor * sqrt(var): with chains from +0 over all slices s,
     *                N = sum of n_s, mean = (chain of fmaf(n_s, m_s, .)) / N,
     *                var = (chain of (. + q_s) + n_s * ((m_s - mean) * (m_s - mean))) / N
     * x [T, F] f32, this rank's columns; out [T, 3 n_slices], stats [T, 3 S] f32, of the slices of all ranks. */
    enum status (*slice_stats)(struct backend *be, struct view x, int32_t n_slices,
                               const int32_t *slice_end, struct view out);
    enum status (*cut_gates)(struct backend *be, struct view x, struct view stats, float factor);
    /* The rounding of struct input_rule; both NULL without FEATURE_ROUND_INPUTS.
     *   input_peaks  out[t,g] = the greatest magnitude of x[t,:] in group g, 0 where this rank has none of its columns
     *   round_input  out = x rounded; peaks: the greatest of all ranks', or no buf: the row's own; out may be x
     * x, out [T,n] f32, this rank's columns of r->all; out of input_peaks and peaks [T, input_groups] f32. */
    enum status (*input_peaks)(struct backend *be, const struct input_rule *r, struct view x,
                               struct view out);
    enum status (*round_input)(struct backend *be, const struct input_rule *r, struct view x,
                               struct view peaks, struct view out);
    /* x = cap tanh(x / cap), exact_soft_cap; [R,n] f32. */
    enum status (*soft_cap)(struct backend *be, struct view x, float cap);
    /* Each token's k experts, ordered by (choice descending, id ascending; NaN before all numbers),
     * and their weights.  With softmax scores:
     *   choice_e = logit_e
     *   p_e      = exp(logit_e - greatest logit of the chosen ones)
     *   sum      = with renormalise, of the chosen p in that order; else of all p in order of ids
     *   weight_i = p_i / sum * scale, with expert_scale * expert_scale_e
     * With sigmoid:
     *   p_e      = 1 / (1 + exp(-logit_e)),  choice_e = p_e + route_bias_e; with neither route_bias nor groups logit_e,
     *              which tells apart what p_e rounds to the same number
     *   weight_i = p_i * scale, or with renormalise p_i / (sum of the chosen p in that order +
     *              1e-20) * scale
     * With groups only the experts of top_groups groups are chosen from: those with the greatest
     * choice of an expert, or with route_bias the greatest sum of two choices, ties to the lower
     * group.  logits [T,E] f32, ids [T,k] i32, weights [T,k] f32.  Uses n_experts, top_k,
     * renormalise, scale, expert_scale, sigmoid, the groups and route_bias of ml. */
    enum status (*moe_route)(struct backend *be, const struct moe_layer *ml, struct view logits,
                             struct view ids, struct view weights);
    /* Bytes of scratch, aligned to 64, that moe_ffn needs for up to max_tokens tokens.  Called
     * before weights are loaded: gate_up and down of ml are NULL. */
    size_t (*moe_scratch)(struct backend *be, const struct moe_layer *ml, int32_t max_tokens);
    /* out[t,:] = sum over the experts e of token t of weight * down_e(act(gate_e(x)) * up_e(x)), of
     * up_alone weight * down_e(act(up_e(x))), with weigh_input down_e(act(weight * gate_e(x)) * (weight * up_e(x))),
     * this rank's part of it.  The sum over the ranks must not depend on their number, so the
     * experts are added within each slice of down:
     *   part_{e,s}  the product over slice s of down_e, in linear's order;
     *   acc_s       = fmaf(weight_e, part_{e,s}, acc_s) from +0, e in ascending order of ids; with weigh_input weight_e is 1;
     *   out         the acc_s added as the tree of struct weight_src; the all-reduce continues it.
     * Otherwise gate_up and down are computed as in linear, the activation as in act_mul; with round_hidden the input of
     * down is rounded.  Row t's
     * ids are distinct and in [0, E).  A step reads the weights of each expert that it uses once.
     * x, out [T,D] f32; ids [T,k] i32, weights [T,k] f32; scratch [1, n] f32 of moe_scratch bytes
     * or more. */
    enum status (*moe_ffn)(struct backend *be, const struct moe_layer *ml, struct view x,
                           struct view ids, struct view weights, struct view scratch,
                           struct view out);
    /* moe_ffn in two parts, for at most MOE_AT_ONCE tokens, where ranks share groups of the input of down; both NULL without
     * FEATURE_ROUND_EXPERTS, and of a backend that runs on one rank alone.  With n = input_groups(round_hidden),
     *   moe_hidden  all that comes before down; peaks[t, i n + g] = the greatest magnitude in group g of the input of down of
     *               token t's expert i, 0 where this rank has none of its columns
     *   moe_down    rounds that input by the greatest peaks of all ranks and computes the rest; ids and scratch as
     *               moe_hidden had and left them
     * peaks [T, k n] f32; the others as of moe_ffn. */
    enum status (*moe_hidden)(struct backend *be, const struct moe_layer *ml, struct view x,
                              struct view ids, struct view weights, struct view scratch,
                              struct view peaks);
    enum status (*moe_down)(struct backend *be, const struct moe_layer *ml, struct view peaks,
                            struct view ids, struct view weights, struct view scratch,
                            struct view out);
    /* out[t,:] = fmaf(weight_e, down_bias_e, out[t,:]) for the experts e of token t in ascending
     * order of ids; called behind the sum over the ranks.  out [T,D] f32; ids, weights as above.
     * NULL without FEATURE_EXPERT_BIAS. */
    enum status (*moe_bias)(struct backend *be, const struct moe_layer *ml, struct view ids,
                            struct view weights, struct view out);
    /* dst += scale * src, same shape, f32. */
    enum status (*add)(struct backend *be, struct view dst, struct view src, float scale);
    /* out[r,:] = x[row[r],:].  row [R,1] i32. */
    enum status (*gather)(struct backend *be, struct view x, struct view row, struct view out);
    /* Applies the edits of each row.  Row r's edits are the struct logit_edits in words [start[r],
     * start[r + 1]), each of a different id; edits of ids outside this rank's columns are skipped.
     * logits [R, n_cols] f32; start [R + 1, 1] i32; words [1, n] i32. */
    enum status (*edit_logits)(struct backend *be, const struct vocab_part *part,
                               struct view logits, struct view start, struct view words);
    /* The logits of ids whose bit is not set become -inf.  Bit i % 32 of word i / 32 of a row is
     * that of id i of the whole vocabulary.  logits [R, n_cols] f32; mask [R, n] i32.  NULL: the
     * backend cannot do it. */
    enum status (*mask_logits)(struct backend *be, const struct vocab_part *part,
                               struct view logits, struct view mask);
    /* The k = val.cols greatest logits of each row, ordered by (logit descending, id ascending),
     * with global ids.  With fewer columns than k the rest is -inf with id -1.
     * stat[r, 3 i ..] are three numbers of vocabulary slice i: its maximum m, the sum of exp(l - m)
     * and the sum of exp((l - m) * inv_temp[r]); -inf, 0, 0 of an empty slice.
     * inv_temp[r] < 0: the row is skipped and its outputs are unchanged.
     * logits [R, n_cols] f32; inv_temp [R,1] f32; val [R,k] f32; id [R,k] i32; stat [R, 3 n_slices]
     * f32. */
    enum status (*topk)(struct backend *be, const struct vocab_part *part, struct view logits,
                        struct view inv_temp, struct view val, struct view id, struct view stat);
    /* id[r] = draw_row_token(shape, top, r, row[r]), with the bits of common/draw.h: a token, or -1
     * when the host has to sample this row.
     * top [n_ranks, draw_words(shape)] packed i32 words as in struct draw_shape, k <= DRAW_MAX_K;
     * row [R, DRAW_ROW_WORDS] i32, a struct draw_row each; id [R,1] i32; R = shape->n_rows. */
    enum status (*sample)(struct backend *be, const struct draw_shape *shape, struct view top,
                          struct view row, struct view id);
    /* token[t] = last[from[t]] where from[t] >= 0; other tokens are unchanged.
     * token, from [T,1] i32; last [R,1] i32; from[t] < R. */
    enum status (*take_tokens)(struct backend *be, struct view token, struct view from,
                               struct view last);
    /* out = (x - mean) / sqrt(var + eps) * w + b, biased variance.  [T,D] f32; out may be x. */
    enum status (*layer_norm)(struct backend *be, struct view x, const struct weight *w,
                              const struct weight *b, float eps, struct view out);

    /* Events: 16 slots, 0 to 15.
     *   event_mark     records the slot at this place in the queue
     *   event_wait     waits until the device has passed the slot's last mark, at most wait_us (0:
     *                  does not wait); *passed: it has
     *   event_elapsed  device time between two marks; waits for `to` */
    enum status (*event_mark)(struct backend *be, int slot);
    enum status (*event_wait)(struct backend *be, int slot, uint64_t wait_us, bool *passed);
    enum status (*event_elapsed)(struct backend *be, int from, int to, uint64_t *ns);
    /* Records the ops between begin and end, to be launched again later.  All present or all
     * NULL. */
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

/* The next allocations belong to that part of the memory plan. */
static inline void backend_part(struct backend *be, enum mem_part part)
{
    if (backend_ops_of(be)->part)
        backend_ops_of(be)->part(be, part);
}

/* Opens the backend of that name, such as "cpu".  ST_UNSUPPORTED lists the backends of this
 * build. */
MUST_CHECK enum status backend_open(struct backend **out, const char *name,
                                    const struct backend_config *cfg);

/* The backends of this build, such as "cpu cuda". */
const char *backend_names(void);

#endif
