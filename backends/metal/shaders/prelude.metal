/* The first lines of the shader text: what its kernels use of the Metal Shading Language by other
 * names, so that a C++ compiler with definitions of its own for these takes the same text.
 *   KERNEL name(constant struct args &a BUF(0), device or const device pointers BUF(1).., GRID)
 *   GRID               group: the threadgroup's place in the grid; index: the thread's in the group;
 *                      lane and simd: the thread's in its simdgroup of 32, the simdgroup's
 *   SHARED(t, n, dims) threadgroup memory, in kernels only
 *   widened_f16        the f16 of these bits as a number: dtype.h's f32_of_f16 in one instruction
 *   packed_uchar4, packed_ushort4, packed_uint4, packed_float4    four numbers that need the alignment of one
 *   UNROLL             before a loop of a fixed length, whose arrays are to be registers
 *   BARRIER            by all threads of the group; SIMD_BARRIER by those of a simdgroup
 * and the words of backends/cuda/gpu.h that the text of both GPUs, backends/gpu/, uses: a warp is a
 * simdgroup, a block a threadgroup.
 * No double, no lambda, no recursion, no static variable, no pointer without an address space.
 * Products and sums are fused where fmaf is written and nowhere else. */
#ifdef __METAL_VERSION__
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
/* dtype.h copies bits by memcpy. */
static inline void memcpy(thread float *to, const thread uint32_t *from, size_t)
{
    *to = as_type<float>(*from);
}
static inline void memcpy(thread uint32_t *to, const thread float *from, size_t)
{
    *to = as_type<uint32_t>(*from);
}
static inline float widened_f16(uint16_t h)
{
    return (float)as_type<half>(h);
}
#define fmaf(a, b, c) fma((a), (b), (c))
#define sqrtf(a) sqrt(a)
#define fabsf(a) fabs(a)
#define KERNEL kernel void
#define BUF(i) [[buffer(i)]]
#define GRID                                                                                       \
    uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],      \
        uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]
#define UNROLL _Pragma("clang loop unroll(full)")
#define SHARED(type, name, dims) threadgroup type name dims
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define SIMD_BARRIER() simdgroup_barrier(mem_flags::mem_threadgroup)
#define SYNC_THREADS() threadgroup_barrier(mem_flags::mem_threadgroup)
static inline void sync_warp()
{
    simdgroup_barrier(mem_flags::mem_threadgroup);
}
static inline void pdl_wait()
{
}
template <typename T> static inline T shfl(T v, int from)
{
    return simd_shuffle(v, (ushort)from);
}
template <typename T> static inline T shfl_xor(T v, int mask)
{
    return simd_shuffle_xor(v, (ushort)mask);
}
#endif
#define GPU_KERNEL(max_threads, name, args, ...)                                                   \
    KERNEL name(constant struct args &a BUF(0), __VA_ARGS__, GRID)
#define INDICES                                                                                    \
    const uint warp = simd;                                                                        \
    (void)group, (void)index, (void)lane, (void)warp
#define DEVICE static inline
#define GLOBAL device
#define SHARED_MEM threadgroup
#define PRIVATE thread
#define CONSTANT constant
#define TOPK_KEYS(name) SHARED(uint64_t, name, [TOPK_CHUNK])
