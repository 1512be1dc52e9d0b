/* The work of one thread on one row, tile or slice, which differs between instruction sets.
 * plain.c is the specification; every other table must give the same bits for every input, which
 * tests/ops compares.
 *
 * Orders of the reductions (a "chain" is acc = fmaf(a, b, acc) from acc = +0, indices ascending):
 *   linear     a chain over k within a slice for each output; slices in the tree of struct
 *              weight_src; the bias last.  Quantised weights: see struct quant_x.
 *   row sums   LANES partial sums, element i in lane i % LANES, ascending; then lane_sum.
 *   attention  keys in splits of SPLIT at absolute positions.  score = scale * chain over the
 *              head's dimensions, soft-capped where the layer says so; m = greatest; p = exp(score - m); l = row sum of p (lane =
 *              position % LANES); o[i] = chain over keys of p * v[i].  Splits are merged in
 *              ascending order (attn_merge).
 *              Of int8 entries, e their bytes and s their scales, both products are sums of integers of
 *              16 and 8 bits, which are exact in 32 (round_16 of attn_round.h gives a row of f32 as
 *              integers times a unit):
 *                a, unit = the query, of at most query_top(d);
 *                score = (float)(sum over the dimensions of a e) * ((unit * scale) * s), then as above;
 *                w, unit = p * s of the keys that the row sees in the split, of at most weight_top;
 *                o[i] = (float)(sum over the keys of w e[i]) * unit.
 * Instruction sets may skip terms that are exactly +0 added to a sum, nothing else. */
#ifndef BACKENDS_CPU_KERNELS_H
#define BACKENDS_CPU_KERNELS_H

#include "backends/backend.h"
#include "backends/cpu/panels.h"
#include "backends/cpu/quant_panels.h"
#include "backends/cpu/read_ahead.h"
#include "backends/cpu/slice_tree.h"
#include "backends/sorted_plan.h"

enum {
    LANES = 16,
    TILE_MAX = 16,   /* most rows of a tile on any instruction set */
    SPLIT = 256,     /* keys of an attention split */
    HEAD_MAX = 576,  /* largest d_head */
    DELTA_COLS = 64, /* most columns of a delta_head */
    ATTN_ROWS = 64,  /* most n_kv * rows of an attn_split with several KV heads */
    TOPK_MAX = 256,  /* largest k of topk */
};

struct linear_tile {
    const float *x; /* [K][rows]: the tile's rows, transposed */
    const void *panel;
    enum pack pack;
    const float *bias; /* [PANEL] or NULL */
    float *out;        /* [rows, cols], rows out_stride apart */
    size_t out_stride;
    int rows, cols; /* rows <= tile_rows of the instruction set, cols <= PANEL */
    int n_slices;
    const int32_t *slice_end; /* [n_slices] */
    struct read_ahead read;
    struct pack_head head;
};

/* The columns of a quantised matrix on this rank. */
struct quant_shape {
    int32_t k, skip; /* skip: elements of the first column's block that are before it */
    int n_slices;
    const int32_t *slice_end; /* [n_slices] */
};

/* Groups [*first, *end) that slice i has elements of. */
static inline void slice_groups(const struct quant_shape *s, int i, int32_t *first, int32_t *end)
{
    int32_t k0 = i ? s->slice_end[i - 1] : 0, k1 = s->slice_end[i], skip = s->skip % GROUP;
    *first = (k0 + skip) / GROUP;
    *end = k0 < k1 ? (k1 + skip - 1) / GROUP + 1 : *first;
}

/* Groups of a row of x: one that a slice's end cuts counts for each of its slices. */
static inline int32_t x_groups(const struct quant_shape *s)
{
    int32_t n = 0, first, end;
    for (int i = 0; i < s->n_slices; i++) {
        slice_groups(s, i, &first, &end);
        n += end - first;
    }
    return n;
}

/* Products with quantised weights.  Columns are taken in groups of GROUP elements, as the file's
 * blocks count them; a group that a slice's end cuts is two groups here, one in each slice.  Each
 * group of a row of x is converted to 8 bits:
 *   amax = greatest |x|;  d = amax / 127;  a = nearest even of x * (127 / amax);
 *   127 / amax not finite: a = 0, d = 0;  any x of the group not finite: a = 0, d = NaN.
 * Then, groups ascending, from acc = +0, for each scale of the group (one, or two of 16 elements):
 *   acc = fmaf((float)(sum of q a), scale * d, acc), the sum in integers, exact;
 *   types with a minimum: acc = fmaf(minimum, d * (float)(sum of a), acc).
 * acc is the slice's sum: the tree and the bias follow as for other weights. */
struct quant_x {
    float d, d_sum;           /* d_sum = d * (float)(sum of a) */
    int32_t start, start_low; /* -128 * sum of a; of the first 16 */
};

/* A strip of quantised rows: tile after tile; in a tile group after group; in a group
 *   a [rows of the tile][GROUP] int8; in units of 2 rows as quant_neon.h has them
 *   struct quant_x [rows of the tile] */
enum { X_GROUP_BYTES = GROUP + (int)sizeof(struct quant_x), QUANT_ROWS = STRIP_ROWS };

/* A strip of rows against one panel: rows x cols outputs. */
struct quant_panel {
    const struct quant_pack *pack;
    const char *panel;
    struct quant_shape shape;
    const char *x;
    const float *bias; /* [PANEL] or NULL */
    float *out;        /* [rows, cols], rows out_stride apart */
    size_t out_stride;
    int rows, cols, n_tiles; /* rows <= QUANT_ROWS; tile i begins at the i-th of cut_units */
    struct read_ahead read;
};

/* What a row of x has for a chunk of sorted columns (sorted.h). */
struct sorted_x {
    float d, minus_sum; /* minus_sum = -(sum of a) */
};

/* Rows of x against one panel of sorted columns: rows x cols outputs. */
struct sorted_panel {
    int bits;
    struct sorted_shape shape;
    const void *plan;
    const char *panel;
    const char *x;     /* rows of sorted_x_bytes */
    const float *bias; /* [PANEL] or NULL */
    float *out;        /* [rows, cols], rows out_stride apart */
    size_t out_stride;
    int rows, cols;
    struct read_ahead read;
};

/* Where the i-th of n nearly equal cuts of `rows` rows begins. */
static inline int cut_start(int rows, int n, int i)
{
    return (int)((int64_t)rows * i / n);
}

/* The same in runs of `unit` rows, of which the last may be shorter. */
static inline int cut_units(int rows, int unit, int n, int i)
{
    int first = cut_start((rows + unit - 1) / unit, n, i) * unit;
    return first < rows ? first : rows;
}

struct quant_kernels {
    int tile_rows; /* most rows of a tile */
    int tile_unit; /* tiles are cut between runs of so many rows (cut_units), which divide tile_rows */
    size_t scratch; /* bytes that `panel` wants per thread, at 64 bytes' alignment */
    /* x [k] to row `row` of a tile of `rows`. */
    void (*quantize_row)(const struct quant_shape *s, const float *x, int row, int rows,
                         char *tile);
    void (*panel)(const struct quant_panel *t, void *scratch);
    /* The same of sorted columns; x [k] to a row of sorted_x_bytes. */
    void (*sort_row)(const struct sorted_shape *s, const void *plan, const float *x, char *row);
    void (*sorted)(const struct sorted_panel *t);
};

/* Keys or values of one KV head: element i of a key is base[row * row_elems + i], where row is the
 * key's row of the cache (kv_row). */
struct kv_operand {
    const void *base;   /* of this head */
    const float *scale; /* of this head, scale_stride apart per key row; NULL = none */
    size_t row_elems, scale_stride;
    enum dtype dtype;
};

/* Rows (query token, query head) that read each of n_kv neighbouring KV heads, over one split of
 * keys. */
struct attn_split {
    /* Row i of KV head g is token i / n_heads, query head g * n_heads + i % n_heads. */
    const float *q;
    size_t q_stride;         /* between tokens; heads are d apart */
    int n_kv, rows;          /* rows of each KV head */
    int n_heads, d, d_value; /* d_value: of a value and of o */
    float scale, cap;        /* cap as in attn_layer */
    const float *rel_bias;   /* of the first query head, as in attn_layer; NULL: none */
    /* [rows / n_heads] positions; a row sees (pos - window, pos], with n_keys (pos - window, pos + window)
     * of [0, n_keys) */
    const int32_t *pos;
    int32_t window;        /* 0 = all */
    int32_t chunk;         /* 0 = all; a row sees [pos / chunk * chunk, pos] */
    int32_t n_keys;        /* of the sequence where attention is full; 0: it is causal */
    int32_t first_key;     /* of the split, a multiple of SPLIT */
    int32_t lo, hi;        /* keys that some row sees, relative to first_key */
    const int32_t *blocks; /* the sequence's block table */
    int32_t block_len;
    /* Of KV head 0; those of head g are g * d (v: g * d_value) further, its scales g. */
    struct kv_operand k, v;
    /* [n_kv, rows, d_value + 2]: o, then m, then l; l = 0: the row sees no key of the split. */
    float *partial;
    const struct attn_split *next; /* the thread's next split, to be prefetched; may be NULL */
    int page_ahead; /* first bytes of a page that are prefetched, eighths of READ_AHEAD_PAGE */
};

/* A row of k greatest logits so far, in the order (value descending, id ascending). */
struct topk_list {
    int n, k;
    float floor; /* smaller ones are not taken: topk_floor of all columns that the list is for */
    float *val;
    int32_t *id;
};

/* One head of one token: optional RMS norm, RoPE of the first rot elements, in place on x [d]. */
struct head_rot {
    const float *norm; /* [d] or NULL */
    float eps;
    const float *cos, *sin; /* [rot / 2] */
    int d, rot;
    bool interleaved;
    bool unit; /* without weights of the norm: they are 1 */
};

/* Columns [0, cols) of a value head's state over n tokens: delta_rule of backend.h, but for the gates.  With skip, of
 * Mamba-2, beta is the step s. */
struct delta_head {
    float *state; /* [d_k, cols], rows stride apart */
    size_t stride;
    int n, d_k, cols;       /* cols <= DELTA_COLS */
    const float *q, *k, *v; /* of the first token; tokens are qkv_stride apart */
    size_t qkv_stride;
    const float *g, *beta; /* gate_stride apart */
    const float *skip;     /* the head's, or NULL */
    size_t gate_stride;
    float *out; /* out_stride apart */
    size_t out_stride;
};

struct kernels {
    const char *name;
    int tile_rows;       /* most rows of a linear_tile, <= TILE_MAX */
    size_t attn_scratch; /* floats that attn_split wants per thread */
    void (*linear_tile)(const struct linear_tile *t);
    /* One row of n elements; the formulas are backend.h's. */
    void (*add_rms_norm)(float *resid, const float *x, const float *x_bias, const float *w,
                         float eps, float *out, int n);
    void (*layer_norm)(const float *x, const float *w, const float *b, float eps, float *out,
                       int n);
    void (*activate)(enum act act, const float *x, float *out, int n);
    void (*scale)(float *x, float factor, int n);
    void (*soft_cap)(float *x, float cap, int n);
    void (*act_mul)(enum act act, const float *g, const float *up, float *out, int n);
    void (*clamped_glu)(float limit, float alpha, const float *g, const float *up, float *out,
                        int n);
    void (*add)(float *dst, const float *src, float scale, int n);
    void (*add_bias)(float *x, const float *b, int n);
    void (*sigmoid_mul)(float *x, const float *gate, bool one, int n); /* one: gate [1], else [n] */
    float (*squares)(const float *x, int n);
    /* out = silu(chain from bias, or +0 where that is NULL, over the taps of w * in); in: a row of n for each tap; those
     * of w are w_stride apart; out may be the last of in */
    void (*conv_row)(const float *const *in, const float *w, size_t w_stride, int taps,
                     const float *bias, float *out, int n);
    /* b and a of n value heads become beta and g of delta_rule */
    void (*delta_gates)(float *b, float *a, const float *decay, const float *dt, int n);
    /* The same of Mamba-2: a of n heads becomes g, b the step s */
    void (*mamba_gates)(float *b, float *a, const float *decay, const float *dt, float dt_min,
                        float dt_max, int n);
    void (*delta_head)(const struct delta_head *h);
    void (*gated_norm)(float *x, const float *w, float eps, const float *z, int n);
    void (*mul)(float *x, float factor, const float *w, int n); /* x = x * factor * w */
    /* One row of n_streams streams of n elements; the formulas are backend.h's. */
    void (*predict_streams)(float *x, const float *coef, int n_streams, int n);
    void (*correct_streams)(float *x, const float *coef, int i, const float *w, float *active,
                            int n_streams, int n);
    void (*slice_stats)(const float *x, int n, float out[3]); /* of one slice, n > 0 */
    void (*cut_gates)(float *x, float cut, int n);            /* x = max(x - cut, 0) */
    void (*rotate_head)(const struct head_rot *r, float *x);
    /* x [n] to the cache's type, to nearest even.  I8, E4M3 (top = 127, 448): with amax the
     * greatest |x|, *scale = amax / top and an element is the nearest of x * (top / amax), each
     * operation in f32; amax < 2^-100: zeros with scale 0.  E4M3 is read as element * scale,
     * rounded to f32; I8 meets integers (attention, above). */
    void (*kv_store)(enum dtype t, const float *x, int n, void *dst, float *scale);
    void (*attn_split)(const struct attn_split *a, float *scratch);
    /* state [d + 2] = state followed by partial, both as in attn_split. */
    void (*attn_merge)(float *state, const float *partial, int d);
    /* out [d] = o / l */
    void (*attn_finish)(const float *state, float *out, int d);
    /* A value that at least k of n logits are not below, -INFINITY if there are fewer than k. */
    float (*topk_floor)(const float *logits, int n, int k);
    /* Columns [0, n) of a slice, ids from first_id on, into list, which may have entries of smaller
     * ids; stat as backend.h's topk. */
    void (*topk_slice)(const float *logits, int n, int32_t first_id, float inv_temp,
                       struct topk_list *list, float stat[3]);
};

/* Keys [*lo, *hi) of the split, relative to first_key, that row i sees; empty: *lo >= *hi. */
static inline void attn_range(const struct attn_split *a, int row, int *lo, int *hi)
{
    int32_t pos = a->pos[row / a->n_heads];
    int32_t from = a->window > 0 && pos >= a->window ? pos - a->window + 1
                   : a->chunk > 0                    ? pos / a->chunk * a->chunk
                                                     : 0;
    int32_t to = a->n_keys == 0                                 ? pos + 1
                 : a->window > 0 && pos < a->n_keys - a->window ? pos + a->window
                                                                : a->n_keys;
    *lo = from > a->first_key ? from - a->first_key : 0;
    *hi = to - a->first_key < SPLIT ? to - a->first_key : SPLIT;
}

/* What is added to the score of row i and a key of the split; rel_bias is there. */
static inline float attn_rel_bias(const struct attn_split *a, int row, int key)
{
    const float *head = a->rel_bias + (size_t)(row % a->n_heads) * REL_COLS;
    return head[rel_at(a->first_key + key - a->pos[row / a->n_heads])];
}

/* The operand of KV head g. */
static inline struct kv_operand attn_head(struct kv_operand o, int g, int d)
{
    o.base = (const char *)o.base + (size_t)(g * d) * dtype_size(o.dtype);
    o.scale = o.scale ? o.scale + g : NULL;
    return o;
}

/* KV head g alone. */
static inline struct attn_split attn_kv_head(const struct attn_split *a, int g)
{
    struct attn_split one = *a;
    one.n_kv = 1;
    one.q += g * a->n_heads * a->d;
    one.k = attn_head(a->k, g, a->d);
    one.v = attn_head(a->v, g, a->d_value);
    one.rel_bias = a->rel_bias ? a->rel_bias + (size_t)(g * a->n_heads) * REL_COLS : NULL;
    one.partial += (size_t)(g * a->rows) * (size_t)(a->d_value + 2);
    return one;
}

/* Row of the cache that holds the key at an absolute position. */
static inline size_t kv_row(const int32_t *blocks, int32_t block_len, int32_t key)
{
    return (size_t)blocks[key / block_len] * (size_t)block_len + (size_t)(key % block_len);
}

extern const struct kernels kernels_plain;
extern const struct quant_kernels quant_plain;
#ifdef INGOT_CPU_X86
extern const struct kernels kernels_avx2, kernels_avx512, kernels_avx512vbmi;
extern const struct quant_kernels quant_avx2, quant_avxvnni, quant_avx512, quant_avx512vnni,
    quant_amx;
#endif
#ifdef INGOT_CPU_NEON
extern const struct kernels kernels_neon;
extern const struct quant_kernels quant_neon, quant_neondot, quant_neoni8mm;
#endif

#endif
