/* The sums of a strip of rows against a panel, slice by slice, in the tree of struct weight_src: a binary counter of
 * finished subtrees. */
#ifndef BACKENDS_CPU_SLICE_TREE_H
#define BACKENDS_CPU_SLICE_TREE_H

#include <string.h>

#include "backends/cpu/panels.h"

enum {
    STRIP_ROWS = 128, /* most rows of a strip of rounded or quantised rows */
    TREE_LEVELS = 4,  /* log2(N_SLICES) + 1 */
};

struct slice_tree {
    _Alignas(64) float acc[STRIP_ROWS][PANEL];
    float tree[TREE_LEVELS][STRIP_ROWS][PANEL]; /* of each level a subtree that waits */
};

/* What the whole sums become: out [rows, cols], rows out_stride apart. */
struct slice_out {
    int n_slices, cols;
    const float *bias; /* [PANEL] or NULL */
    float *out;
    size_t out_stride;
};

/* Where the sums of slice s are made: those of an even slice are a leaf that waits. */
static inline float (*slice_sums(struct slice_tree *t, int s))[PANEL]
{
    return s % 2 == 0 ? t->tree[0] : t->acc;
}

static inline void store_row(const struct slice_out *o, int row, float sums[PANEL])
{
    float *out = o->out + (size_t)row * o->out_stride;
    for (int c = 0; o->bias && c < PANEL; c++)
        sums[c] += o->bias[c];
    if (o->cols == PANEL)
        memcpy(out, sums, PANEL * sizeof *out); /* without a call */
    else
        memcpy(out, sums, (size_t)o->cols * sizeof *out);
}

typedef void climb_fn(struct slice_tree *t, const struct slice_out *o, int s, int from, int rows);

/* Adds slice s's sums of rows [from, from + rows) to the tree; behind the last slice stores them. Called
 * for each tile, whose sums are in the first-level cache and whose stores are few at a time. */
static inline void climb_rows(struct slice_tree *t, const struct slice_out *o, int s, int from,
                              int rows)
{
    float(*sums)[PANEL] = slice_sums(t, s);
    for (int level = 0; s >> level & 1; level++) {
        float(*waits)[PANEL] = t->tree[level];
        float(*to)[PANEL] = s >> (level + 1) & 1 ? t->acc : t->tree[level + 1];
        for (int r = from; r < from + rows; r++)
            for (int c = 0; c < PANEL; c++)
                to[r][c] = waits[r][c] + sums[r][c];
        sums = to;
    }
    for (int r = from; s == o->n_slices - 1 && r < from + rows; r++)
        store_row(o, r, sums[r]);
}

#endif
