/* Sums of the ranks' operands in the contract's order. */
#include "backends/cuda/device.h"
#include "backends/cuda/gpu.h"

enum { TREE_THREADS = 256, MAX_WORLD = 64, LEVELS = 7 };

/* NaN where an operand is NaN. */
DEVICE float reduce_pair(float a, float b, int op)
{
    if (op == 0)
        return a + b;
    if (a != a || b != b)
        return a + b;
    return op == 1 ? (a > b ? a : b) : (a < b ? a : b);
}

/* out[i] = tree over parts[0][i], parts[1][i], ...: neighbours first, level by level, an odd last
 * one moving up.  A thread per element in turn; (world + 1) 4 bytes an element. */
KERNEL(TREE_THREADS)
reduce_tree_kernel(const float *parts, int world, int64_t n, int op, float *out)
{
    for (int64_t i = (int64_t)blockIdx.x * TREE_THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * TREE_THREADS) {
        /* A binary counter of finished subtrees: level l holds the sum of 2^l ranks. */
        float level[LEVELS];
        for (int r = 0; r < world; r++) {
            float v = parts[(int64_t)r * n + i];
            bool moves = true;
            UNROLL
            for (int l = 0; l < LEVELS; l++)
                if (moves && (r >> l & 1)) {
                    v = reduce_pair(level[l], v, op);
                } else if (moves) {
                    level[l] = v;
                    moves = false;
                }
        }
        /* What is left over joins from the last rank upwards. */
        float sum = 0.0f;
        bool any = false;
        UNROLL
        for (int l = 0; l < LEVELS; l++)
            if (world >> l & 1) {
                sum = any ? reduce_pair(level[l], sum, op) : level[l];
                any = true;
            }
        out[i] = sum;
    }
}

extern "C" enum status cuda_reduce_tree(struct backend *be, struct buf *parts, int world, size_t n,
                                        int op, struct view out)
{
    assert(world >= 1 && world <= MAX_WORLD);
    if (n == 0)
        return ST_OK;
    int32_t blocks = blocks_for((int64_t)n, TREE_THREADS), most = 8 * be->n_sm;
    return LAUNCH(be, reduce_tree_kernel, (unsigned)(blocks < most ? blocks : most), TREE_THREADS,
                  0, (const float *)parts->data, world, (int64_t)n, op, view_f32(out));
}
