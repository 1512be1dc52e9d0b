/* Products with f32 weights: a tile of outputs a block, chains of fused multiply-adds. */
#include "backends/cuda/linear_f32.h"

/* Grid: [N / TILE, T / TILE, heads], rounded up.  Bytes: N K 4 from memory; w and x once for each tile of
 * the other.  Bound by latency at small T, by shared memory at large T. */
KERNEL(THREADS, 4) f32_kernel(struct linear_job job)
{
    pdl_wait();
    const struct head_job a = head_job_of(job, blockIdx.z);
    const struct k_layout &k = a.k;
    const int32_t row0 = (int32_t)blockIdx.x * TILE, token0 = (int32_t)blockIdx.y * TILE;
    float stack[OUTPUTS][STACK_LEVELS], total[OUTPUTS] = {};
    for (int i = 0; i < k.n_slices; i++) {
        float sum[OUTPUTS] = {};
        slice_chain(sum, a, i, row0, token0);
        UNROLL
        for (int o = 0; o < OUTPUTS; o++)
            total[o] = tree_push(stack[o], i, sum[o]);
    }
    const int32_t row = row0 + (int32_t)threadIdx.x % TILE;
    UNROLL
    for (int o = 0; o < OUTPUTS; o++) {
        const int32_t token = token0 + (int32_t)threadIdx.x / TILE + o * (THREADS / TILE);
        if (row < a.n && token < a.n_tokens)
            a.out[(size_t)token * a.out_stride + (size_t)row] =
                job.bias ? total[o] + job.bias[row] : total[o];
    }
}

enum status linear_f32(struct backend *be, const struct linear_job *job)
{
    dim3 grid((unsigned)(job->n + TILE - 1) / TILE, (unsigned)(job->n_tokens + TILE - 1) / TILE,
              (unsigned)job->n_heads);
    return LAUNCH_DEPENDENT(be, f32_kernel, grid, THREADS, 0, *job);
}
