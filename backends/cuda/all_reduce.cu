/* Sums of the ranks' operands, gathered in one buffer. */
#include "backends/cuda/device.h"
#include "backends/cuda/reduce_tree.h"

enum { TREE_THREADS = 256, TREE_MAX_WORLD = 64 };

/* out[i] = tree over parts[0][i], parts[1][i], ...  A thread per element in turn; (world + 1) 4
 * bytes an element. */
KERNEL(TREE_THREADS)
reduce_tree_kernel(const float *parts, int world, int64_t n, int op, float *out)
{
    for (int64_t i = (int64_t)blockIdx.x * TREE_THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * TREE_THREADS)
        out[i] = reduce_tree<7>(world, op, [&](int r) { return parts[(int64_t)r * n + i]; });
}

extern "C" enum status cuda_reduce_tree(struct backend *be, struct buf *parts, int world, size_t n,
                                        int op, struct view out)
{
    assert(world >= 1 && world <= TREE_MAX_WORLD);
    if (n == 0)
        return ST_OK;
    int32_t blocks = blocks_for((int64_t)n, TREE_THREADS), most = 8 * be->n_sm;
    return LAUNCH(be, reduce_tree_kernel, (unsigned)(blocks < most ? blocks : most), TREE_THREADS,
                  0, (const float *)parts->data, world, (int64_t)n, op, view_f32(out));
}
