/* gpu.h on a real GPU (sm_80 and up).  Contracts are gpu.h's. */
#ifndef BACKENDS_CUDA_GPU_DEVICE_H
#define BACKENDS_CUDA_GPU_DEVICE_H

#include <cuda_runtime.h>

#define KERNEL(...) static __global__ void __launch_bounds__(__VA_ARGS__)
#define DEVICE static __device__ __forceinline__
#define SHARED(type, name, dims) __shared__ __align__(16) type name dims
#define DYN_SMEM(type, name)                                                                       \
    extern __shared__ __align__(128) unsigned char gpu_dyn_smem[];                                 \
    type *name = (type *)gpu_dyn_smem
#define SYNC_THREADS() __syncthreads()
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

/* dyn_smem beyond 48 KiB has to be asked for, once a kernel; asking again costs little and nothing
 * in a captured step. */
template <typename... P, typename... A>
static inline cudaError_t gpu_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                     size_t dyn_smem, cudaStream_t s, bool dependent, A... args)
{
    (void)name;
    if (dyn_smem > 48 * 1024) {
        cudaError_t e = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dyn_smem);
        if (e != cudaSuccess)
            return e;
    }
    cudaLaunchAttribute attr[1] = {};
    attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t cfg = {};
    cfg.gridDim = grid;
    cfg.blockDim = block;
    cfg.dynamicSmemBytes = dyn_smem;
    cfg.stream = s;
    cfg.attrs = attr;
    cfg.numAttrs = dependent ? 1 : 0;
    return cudaLaunchKernelEx(&cfg, kernel, static_cast<P>(args)...);
}

DEVICE void sync_warp()
{
    __syncwarp();
}

template <typename T> DEVICE T shfl(T v, int lane)
{
    return __shfl_sync(0xffffffffU, v, lane);
}

template <typename T> DEVICE T shfl_xor(T v, int mask)
{
    return __shfl_xor_sync(0xffffffffU, v, mask);
}

template <typename T> DEVICE T shfl_down(T v, int by)
{
    return __shfl_down_sync(0xffffffffU, v, (unsigned)by);
}

DEVICE uint32_t warp_ballot(bool p)
{
    return __ballot_sync(0xffffffffU, p);
}

DEVICE int popcount(uint32_t u)
{
    return __popc(u);
}

DEVICE int count_leading_zeros(uint32_t u)
{
    return __clz((int)u);
}

DEVICE uint32_t smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

DEVICE uint4 ld_stream_128(const void *p)
{
    uint4 v;
    /* volatile and not .nc: what is loaded before pdl_wait would else be moved behind it */
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

DEVICE uint2 ld_stream_64(const void *p)
{
    uint2 v;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(p));
    return v;
}

DEVICE uint32_t ld_stream_32(const void *p)
{
    uint32_t v;
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

DEVICE uint32_t ld_stream_16(const void *p)
{
    uint16_t v;
    asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}

DEVICE uint4 ld_128(const void *p)
{
    return *(const uint4 *)p;
}

DEVICE void st_128(void *p, uint4 v)
{
    *(uint4 *)p = v;
}

DEVICE void cp_async_16(void *smem, const void *global, bool real = true)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_address(smem)),
                 "l"(global), "r"(real ? 16 : 0)
                 : "memory");
}

DEVICE void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

DEVICE void ldmatrix(uint32_t (&r)[1], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(smem_address(row))
                 : "memory");
}

DEVICE void ldmatrix(uint32_t (&r)[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(smem_address(row))
                 : "memory");
}

DEVICE void ldmatrix(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(row))
                 : "memory");
}

DEVICE void ldmatrix_trans(uint32_t (&r)[1], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(smem_address(row))
                 : "memory");
}

DEVICE void ldmatrix_trans(uint32_t (&r)[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(smem_address(row))
                 : "memory");
}

DEVICE void ldmatrix_trans(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(row))
                 : "memory");
}

#define GPU_MMA(shape_and_types)                                                                   \
    asm("mma.sync.aligned." shape_and_types                                                        \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                         \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

DEVICE void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    GPU_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}

DEVICE void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    GPU_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}

DEVICE void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

DEVICE void mma_m16n8k16_s8(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32"
        " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}

DEVICE int32_t dp4a(uint32_t a, uint32_t b, int32_t c)
{
    return __dp4a((int32_t)a, (int32_t)b, c);
}

DEVICE uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t pick)
{
    return __byte_perm(a, b, pick);
}

DEVICE float widen_f16(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b)
{
    uint32_t v;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}

DEVICE uint32_t pack_bf16(float lo, float hi)
{
    uint32_t v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}

DEVICE uint32_t pack_f16(float lo, float hi)
{
    uint32_t v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}

DEVICE uint32_t atomic_add_u32(uint32_t *p, uint32_t v)
{
    return atomicAdd(p, v);
}

DEVICE void fence_device()
{
    __threadfence();
}

DEVICE uint32_t ld_acquire_sys(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

DEVICE void st_release_sys(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

DEVICE uint64_t clock_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* In this order: at most one kernel waits in the registers and shared memory that this one leaves
 * free, whatever comes behind it. */
DEVICE void pdl_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

#endif
