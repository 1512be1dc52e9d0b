/* The device layer: everything that .cu files use of a GPU.  nvcc takes it from gpu_device.h (CUDA
 * and PTX), the tests' host emulator (INGOT_EMULATE, C++17) from tests/emulator/emulator.h; both
 * give the same bits, except that tensor cores round sums in ways of their own.  So kernels use no
 * inline PTX, no cooperative groups, no <<<>>>, no cuda_bf16.h, no fast-math functions: fmaf where
 * a multiplication and an addition are fused (contraction is off), exact_exp instead of expf.
 *
 *   KERNEL(max_threads) name(args)  a kernel; `template <...> KERNEL(n)` works too;
 *                                   KERNEL(n, blocks): as many blocks fit a multiprocessor at once
 *   DEVICE type name(args)          a device function
 *   LAUNCH(be, kernel, grid, block, dyn_smem_bytes, args...)  on the backend's stream; the only way
 *                                   to launch; an enum status.  A template: (kernel<1, 2>).
 *                                   Threads of a block are a multiple of 32.
 *   LAUNCH_DEPENDENT(...)           the same; where the loaded code waits (compute_90 and up) the
 *                                   kernel may begin before its predecessor has ended: each thread
 *                                   calls pdl_wait() before it
 *                                   reads what a step writes, and before it writes anything.
 *                                   Weights may be read before: copies write them, or
 *                                   kernels that are not the predecessor.
 *   SHARED(type, name, [4][32]);    static shared memory, 16-byte aligned, contents undefined
 *   DYN_SMEM(type, name);           the launch's dynamic shared memory
 *   SYNC_THREADS()                  by all threads of the block, at one place
 *   UNROLL, NO_UNROLL               before a loop
 *
 * Warp operations are called by all 32 lanes:
 *   T shfl(v, lane), shfl_xor(v, mask), shfl_down(v, by)   beyond the warp: the own value
 *   uint32_t warp_ballot(bool); sync_warp()
 *   ldmatrix(uint32_t (&r)[1|2|4], row), ldmatrix_trans    8x8 matrices of 16-bit elements in
 *                                   shared memory; lane 8 j + i gives the address of matrix j's row
 *                                   i (16 bytes, aligned); r[j] holds row lane / 4, columns
 *                                   2 (lane % 4) and + 1 (trans: of the transposed matrix)
 *   mma_m16n8k16_bf16(float (&d)[4], a[4], b[2]), mma_m16n8k16_f16
 *                                   d += A B, fragments as in the PTX manual: with g = lane / 4,
 *                                   t = lane % 4: a[0] row g, a[1] row g + 8, k 2t and 2t + 1;
 *                                   a[2], a[3] the same at k + 8; b[0] column g, k 2t and 2t + 1;
 *                                   b[1] at k + 8; d[0], d[1] row g, columns 2t and 2t + 1; d[2],
 *                                   d[3] row g + 8
 *
 *   mma_m16n8k32_s8(int32_t (&d)[4], a[4], b[2]), mma_m16n8k16_s8(d, a[2], b)
 *                                   the same of int8, four in a register, exact: a[0] row g, a[1]
 *                                   row g + 8, k 4t to 4t + 3; a[2], a[3] at k + 16; b[0] column g,
 *                                   k 4t to 4t + 3; b[1] at k + 16; d as above
 *
 *   int32_t dp4a(a, b, c)           c + the four products of int8 of a and b
 *   uint32_t byte_perm(a, b, pick)  byte i is byte (pick >> 4 i & 7) of the eight of b:a; bit 3 of
 *                                   each is 0
 *   float widen_f16(h)              exact
 *   uint32_t mul_f16x2(a, b)        the products of two f16 in a register each, rounded to nearest even
 *   uint32_t pack_bf16(lo, hi), pack_f16(lo, hi)   f32 rounded to nearest even, two in a register
 *
 * Memory:
 *   uint4 ld_stream_128(p)          16 aligned bytes that are read once and by no kernel written
 *                                   meanwhile (no L1)
 *   uint2 ld_stream_64(p), uint32_t ld_stream_32(p), ld_stream_16(p)   likewise, aligned to their size
 *   uint4 ld_128(p), st_128(p, v)   16 aligned bytes, global or shared
 *   cp_async_16(smem, global, real = true)   16 aligned bytes; real false: zeros, nothing is read
 *   cp_async_commit(), cp_async_wait<N>()    N: committed groups that may be still under way; then
 *                                   a barrier before other threads' data is read
 *   uint32_t atomic_add_u32(p, v)   relaxed; returns the value before
 *   fence_device()
 *   ld_acquire_sys(p), st_release_sys(p, v)  flags between GPUs and hosts.  A spin on
 *                                   ld_acquire_sys must have a limit (clock_ns).
 *   uint64_t clock_ns()             one clock for the whole device
 *   int popcount(u), count_leading_zeros(u)
 *   pdl_wait()                      see LAUNCH_DEPENDENT: all kernels before have ended and their
 *                                   writes are seen.  From here on the next one may begin.  No-op
 *                                   below sm_90.
 *
 * Shared text: backends/gpu/ has kernels, and functions of kernels, that the Metal backend reads, too.
 * Of the words above they use those that backends/metal/shaders/prelude.metal has, no double, no
 * static and no reference but to a struct of arguments, and these:
 *   GPU_KERNEL(max_threads, name, args, const GLOBAL float *x BUF(1), GLOBAL float *out BUF(2)...)
 *                                   name##_kernel; Metal: name.  `struct args a` comes from the host
 *                                   (gpu/args.h: members of 4 bytes); buffers are numbered from 1
 *   INDICES                         first in its body: group.x, .y and .z, the block; index, the thread's
 *                                   in its block; lane; warp
 *   GLOBAL, SHARED_MEM, PRIVATE     the memory that a pointer points into, the last one the thread's
 *   CONSTANT struct args &a         the arguments as a function takes them; what a loop with stores uses
 *                                   of them is read into a variable before it, or nvcc reads it again
 */
#ifndef BACKENDS_CUDA_GPU_H
#define BACKENDS_CUDA_GPU_H

#include "backends/exact_math.h"
#ifdef INGOT_EMULATE
#include <emulator.h>
#else
#include "backends/cuda/gpu_device.h"
#endif
#include "backends/cuda/cuda_backend.h"

#define GPU_KERNEL(max_threads, name, args, ...)                                                   \
    KERNEL(max_threads) name##_kernel(const __grid_constant__ struct args a, __VA_ARGS__)
#define INDICES                                                                                    \
    [[maybe_unused]] const auto group = blockIdx;                                                  \
    [[maybe_unused]] const uint32_t index = threadIdx.x, lane = index % 32, warp = index / 32
#define BUF(i)
#define GLOBAL
#define SHARED_MEM
#define PRIVATE
#define CONSTANT const

#define LAUNCH(be, kernel, grid, block, dyn_smem, ...)                                             \
    cuda_launched(                                                                                 \
        (be), #kernel,                                                                             \
        gpu_launch(#kernel, kernel, grid, block, dyn_smem, (be)->stream, false, __VA_ARGS__))
#define LAUNCH_DEPENDENT(be, kernel, grid, block, dyn_smem, ...)                                   \
    cuda_launched((be), #kernel,                                                                   \
                  gpu_launch(#kernel, kernel, grid, block, dyn_smem, (be)->stream,                 \
                             cuda_may_begin_early(be, kernel_address(kernel)), __VA_ARGS__))

template <typename... P> static inline const void *kernel_address(void (*kernel)(P...))
{
    return (const void *)kernel;
}

DEVICE int lane_id()
{
    return (int)(threadIdx.x & 31U);
}

DEVICE int warp_id()
{
    return (int)(threadIdx.x >> 5);
}

DEVICE int n_warps()
{
    return (int)(blockDim.x >> 5);
}

#include "backends/gpu/reduce.h"

/* By all threads of a one-dimensional block, as those of reduce.h. */
DEVICE float block_sum(float v)
{
    SHARED(float, part, [32]);
    return block_sum(v, part, (uint32_t)lane_id(), (uint32_t)warp_id(), (uint32_t)n_warps());
}

DEVICE float block_max(float v)
{
    SHARED(float, part, [32]);
    return block_max(v, part, (uint32_t)lane_id(), (uint32_t)warp_id(), (uint32_t)n_warps());
}

/* Element i of an array of F32, F16 or BF16. */
template <enum dtype T> DEVICE float element_f32(const void *p, int64_t i)
{
    if (T == DT_F32)
        return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return T == DT_F16 ? f32_of_f16(h) : f32_of_bf16(h);
}

DEVICE float4 ld_f32x4(const float *p)
{
    uint4 u = ld_128(p);
    return {f32_of_bits(u.x), f32_of_bits(u.y), f32_of_bits(u.z), f32_of_bits(u.w)};
}

DEVICE void st_f32x4(float *p, float4 v)
{
    st_128(p, {bits_of_f32(v.x), bits_of_f32(v.y), bits_of_f32(v.z), bits_of_f32(v.w)});
}

#endif
