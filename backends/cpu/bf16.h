/* Products of BF16 weights with activations that are rounded to BF16 (--activations), in the order
 * of one processor instruction.  bf16_plain.c is the specification of both orders; every other
 * table must give the same bits, so any machine can compute either order.
 *
 * A slice of K (struct weight_src) is cut into groups of BF16_GROUP elements from its start, and a
 * group into pairs of neighbours; the last pair of an odd slice has a zero as its second element, in
 * both operands.  x is rounded to nearest even.  Products are exact; every step below is one fused
 * multiply-add (or addition) with one rounding to nearest even, reads denormal operands as zeros of
 * their sign, and gives zero of its sign for a result below 2^-126 after that rounding.
 *
 *   BF16_PAIRS  VDPBF16PS (Intel's manual, volume 2; AMD's Zen 4 agrees).  For each pair, ascending:
 *                 acc = x[1] w[1] + acc;  acc = x[0] w[0] + acc
 *   BF16_TILES  TDPBF16PS on tiles of 16 pairs (same source).  For each group, ascending:
 *                 even = odd = +0;  for each pair: even = x[0] w[0] + even, odd = x[1] w[1] + odd;
 *                 acc = acc + (even + odd)
 *
 * acc is the slice's sum, from +0.  The tree of slices and the bias follow as for other weights, with
 * denormals. */
#ifndef BACKENDS_CPU_BF16_H
#define BACKENDS_CPU_BF16_H

#include "backends/cpu/kernels.h"

enum bf16_order { BF16_PAIRS, BF16_TILES, BF16_ORDERS };

enum {
    BF16_GROUP = 32, /* elements */
    BF16_ROWS = STRIP_ROWS,
};

/* Rows of a tile and pairs of a slice, against one panel. */
struct bf16_chain {
    const uint16_t *x; /* [groups][rows][BF16_GROUP]; zeros behind the slice's last element */
    const uint16_t *w; /* [pairs][PANEL][2] */
    int rows, pairs;
    float (*acc)[PANEL]; /* [rows] sums so far */
    const char *ahead;   /* read ahead of ahead + i * ahead_step at pair i */
    int ahead_step;      /* bytes */
    struct read_ahead read;
};

/* A whole slice s of the tree, rows [row, row + c->rows) of the strip: the chain from +0 (c->acc is not used),
 * then climb_rows. */
typedef void bf16_slice_fn(const struct bf16_chain *c, struct slice_tree *t,
                           const struct slice_out *o, int s, int row);

/* One way to compute an order. */
struct bf16_kernels {
    const char *name;
    int tile_rows; /* most rows of a chain */
    /* Pairs of a panel, whole groups, that all tiles take before the next ones: a first- or
     * second-level cache keeps them for the tiles. */
    int32_t piece_pairs;
    void (*chain)(const struct bf16_chain *c);
    /* x [n] to BF16, as bf16_of_f32. */
    void (*round)(const float *x, int n, uint16_t *out);
    climb_fn *climb;      /* climb_rows */
    bf16_slice_fn *slice; /* NULL: a chain, then climb */
};

/* A strip of rounded rows against one panel: rows x cols outputs.  The strip is tile after tile, as
 * of quantised rows (cut_start); a tile is its slices' groups, as in struct bf16_chain. */
struct bf16_panel {
    const uint16_t *x, *panel;
    const float *bias; /* [PANEL] or NULL */
    float *out;        /* [rows, cols], rows out_stride apart */
    size_t out_stride;
    int rows, cols, n_tiles;
    int n_slices;
    const int32_t *slice_end; /* [n_slices] */
    struct read_ahead read;
};

void bf16_panel_product(const struct bf16_kernels *k, const struct bf16_panel *t);

/* Groups of a row of x. */
static inline int32_t bf16_groups(int n_slices, const int32_t *slice_end)
{
    int32_t n = 0;
    for (int i = 0; i < n_slices; i++)
        n += (slice_end[i] - (i ? slice_end[i - 1] : 0) + BF16_GROUP - 1) / BF16_GROUP;
    return n;
}

/* Row `row` of a tile of `rows`. */
void bf16_put_row(const struct bf16_kernels *k, int n_slices, const int32_t *slice_end,
                  const float *x, int row, int rows, uint16_t *tile);

/* Does it give the bits of the specification for inputs that tell the known orders, roundings and
 * treatments of denormals apart?  NaNs count as equal. */
bool bf16_agrees(const struct bf16_kernels *k, enum bf16_order order);

extern const struct bf16_kernels bf16_plain[BF16_ORDERS];
#ifdef INGOT_CPU_X86
extern const struct bf16_kernels bf16_avx2[BF16_ORDERS], bf16_avx512[BF16_ORDERS];
extern const struct bf16_kernels bf16_vdpbf16ps, bf16_tdpbf16ps;
#endif

#endif
