/* The sums of a strip of rows against a panel, slice by slice, in the tree of struct weight_src: a binary counter of
 * finished subtrees. */
#ifndef BACKENDS_CPU_SLICE_TREE_H
#define BACKENDS_CPU_SLICE_TREE_H

#include "backends/cpu/panels.h"

enum {
    STRIP_ROWS = 128, /* most rows of a strip of rounded or quantised rows */
    TREE_LEVELS = 4,  /* log2(N_SLICES) + 1 */
};

struct slice_tree {
    _Alignas(64) float acc[STRIP_ROWS][PANEL];
    float tree[TREE_LEVELS][STRIP_ROWS][PANEL]; /* of each level a subtree that waits */
};

/* Where the sums of slice s are made: those of an even slice are a leaf that waits. */
static inline float (*slice_sums(struct slice_tree *t, int s))[PANEL]
{
    return s % 2 == 0 ? t->tree[0] : t->acc;
}

/* Adds slice s's sums to the tree.  Returns the subtree that it finishes: after the last slice, the
 * whole. */
static inline float (*climb_rows(int rows, int s, struct slice_tree *t))[PANEL]
{
    float(*sums)[PANEL] = slice_sums(t, s);
    for (int level = 0; s >> level & 1; level++) {
        float(*waits)[PANEL] = t->tree[level];
        float(*to)[PANEL] = s >> (level + 1) & 1 ? t->acc : t->tree[level + 1];
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < PANEL; c++)
                to[r][c] = waits[r][c] + sums[r][c];
        sums = to;
    }
    return sums;
}

#endif
