/* The order in which ranks' operands are added: collectives/coll.h's. */
#ifndef BACKENDS_CUDA_REDUCE_TREE_H
#define BACKENDS_CUDA_REDUCE_TREE_H

#include "backends/cuda/gpu.h"

/* op: 0 sum, 1 max, 2 min; NaN where an operand is NaN. */
DEVICE float reduce_pair(float a, float b, int op)
{
    if (op == 0 || a != a || b != b)
        return a + b;
    return op == 1 ? (a > b ? a : b) : (a < b ? a : b);
}

/* Tree over of(0), ..., of(world - 1), world <= 2^(LEVELS - 1): neighbours first, level by level,
 * an odd last one moving up: a binary counter of finished subtrees, level l holding 2^l ranks; what
 * is left over joins from the last rank upwards.  Unrolled: all of() may be under way at once. */
template <int LEVELS, class Of> DEVICE float reduce_tree(int world, int op, Of of)
{
    float level[LEVELS], sum = 0.0f;
    bool any = false;
    UNROLL
    for (int r = 0; r < 1 << (LEVELS - 1); r++) {
        float v = r < world ? of(r) : 0.0f;
        bool moves = r < world;
        UNROLL
        for (int l = 0; l < LEVELS; l++)
            if (moves && (r >> l & 1)) {
                v = reduce_pair(level[l], v, op);
            } else if (moves) {
                level[l] = v;
                moves = false;
            }
    }
    UNROLL
    for (int l = 0; l < LEVELS; l++)
        if (world >> l & 1) {
            sum = any ? reduce_pair(level[l], sum, op) : level[l];
            any = true;
        }
    return sum;
}

#endif
