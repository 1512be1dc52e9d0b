/* backends/cuda/gpu.h on the host: each GPU thread is a fiber, blocks run one after the other in
 * the thread that launches.  Warp operations are exchanges among 32 fibers: the last one to arrive
 * computes for all.  Found instead of gpu_device.h when INGOT_EMULATE is set; the contracts of the
 * functions are gpu.h's.
 *
 * A kernel fails, with its name in cudaGetErrorString, when a barrier or a warp operation is not
 * reached by all threads, or at the same place, when a 16-byte access is not aligned, and when a
 * thread of a dependent launch ends without pdl_wait.  Shared
 * memory lies in allocations of its own (AddressSanitizer sees its bounds) and holds NaNs at the
 * start of a block.  cp.async copies when it is waited for, never before. */
#ifndef TESTS_EMULATOR_EMULATOR_H
#define TESTS_EMULATOR_EMULATOR_H

#include <math.h>
#include <string.h>

#include <functional>

#include <cuda_runtime_api.h>

struct uint2 {
    uint32_t x, y;
};
struct float2 {
    float x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

/* What the running fiber sees. */
struct emulated_thread {
    dim3 thread, block, block_dim, grid_dim;
    int lane;
};
extern __thread struct emulated_thread *emulated_now;

#define threadIdx (emulated_now->thread)
#define blockIdx (emulated_now->block)
#define blockDim (emulated_now->block_dim)
#define gridDim (emulated_now->grid_dim)

cudaError_t emulated_launch(const char *name, dim3 grid, dim3 block, size_t dyn_smem,
                            cudaStream_t s, bool dependent, std::function<void()> body);
void *emulated_shared(const void *key, size_t bytes);
void *emulated_dyn_shared();
void emulated_barrier(const char *file, int line);
/* All 32 lanes: the last to arrive calls fn(in, out) with every lane's pointers. */
void emulated_warp(const char *op, const void *in, void *out,
                   void (*fn)(const void *const *in, void *const *out));
void emulated_yield();
void emulated_check_aligned(const void *p, size_t to);
void emulated_cp_async(void *dst, const void *src, bool real);
void emulated_cp_commit();
void emulated_cp_wait(int groups_left);

#define KERNEL(...) static void
#define DEVICE static inline
#define __grid_constant__
#define SHARED(type, name, dims)                                                                   \
    static const char name##_key = 0;                                                              \
    using name##_array = type dims;                                                                \
    name##_array &name = *(name##_array *)emulated_shared(&name##_key, sizeof(name##_array))
#define DYN_SMEM(type, name) type *name = (type *)emulated_dyn_shared()
#define SYNC_THREADS() emulated_barrier(__FILE__, __LINE__)
#define UNROLL
#define NO_UNROLL

template <typename... P, typename... A>
static inline cudaError_t gpu_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                     size_t dyn_smem, cudaStream_t s, bool dependent, A... args)
{
    return emulated_launch(name, grid, block, dyn_smem, s, dependent,
                           [=] { kernel(static_cast<P>(args)...); });
}

static inline void emulated_no_result(const void *const *, void *const *)
{
}

DEVICE void sync_warp()
{
    emulated_warp("sync_warp", nullptr, nullptr, emulated_no_result);
}

/* Lane exchanges: in is {value, source lane}. */
template <typename T> struct emulated_move {
    T value;
    int from;
};

template <typename T> static void emulated_do_move(const void *const *in, void *const *out)
{
    for (int i = 0; i < 32; i++) {
        int from = ((const emulated_move<T> *)in[i])->from;
        *(T *)out[i] = ((const emulated_move<T> *)in[from & 31])->value;
    }
}

template <typename T> DEVICE T shfl(T v, int lane)
{
    emulated_move<T> in = {v, lane};
    emulated_warp("shfl", &in, &v, emulated_do_move<T>);
    return v;
}

template <typename T> DEVICE T shfl_xor(T v, int mask)
{
    emulated_move<T> in = {v, emulated_now->lane ^ mask};
    emulated_warp("shfl_xor", &in, &v, emulated_do_move<T>);
    return v;
}

template <typename T> DEVICE T shfl_down(T v, int by)
{
    int lane = emulated_now->lane;
    emulated_move<T> in = {v, lane + by < 32 ? lane + by : lane};
    emulated_warp("shfl_down", &in, &v, emulated_do_move<T>);
    return v;
}

static inline void emulated_do_ballot(const void *const *in, void *const *out)
{
    uint32_t all = 0;
    for (int i = 0; i < 32; i++)
        all |= (uint32_t) * (const bool *)in[i] << i;
    for (int i = 0; i < 32; i++)
        *(uint32_t *)out[i] = all;
}

DEVICE uint32_t warp_ballot(bool p)
{
    uint32_t r = 0;
    emulated_warp("ballot", &p, &r, emulated_do_ballot);
    return r;
}

DEVICE int popcount(uint32_t u)
{
    return __builtin_popcount(u);
}

DEVICE int count_leading_zeros(uint32_t u)
{
    return u ? __builtin_clz(u) : 32;
}

DEVICE uint4 ld_stream_128(const void *p)
{
    emulated_check_aligned(p, 16);
    return *(const uint4 *)p;
}

DEVICE uint2 ld_stream_64(const void *p)
{
    emulated_check_aligned(p, 8);
    return *(const uint2 *)p;
}

DEVICE uint32_t ld_stream_32(const void *p)
{
    emulated_check_aligned(p, 4);
    return *(const uint32_t *)p;
}

DEVICE uint32_t ld_stream_16(const void *p)
{
    emulated_check_aligned(p, 2);
    return *(const uint16_t *)p;
}

DEVICE uint4 ld_128(const void *p)
{
    emulated_check_aligned(p, 16);
    return *(const uint4 *)p;
}

DEVICE void st_128(void *p, uint4 v)
{
    emulated_check_aligned(p, 16);
    *(uint4 *)p = v;
}

DEVICE void cp_async_16(void *smem, const void *global, bool real = true)
{
    emulated_check_aligned(smem, 16);
    emulated_check_aligned(global, 16);
    emulated_cp_async(smem, global, real);
}

DEVICE void cp_async_commit()
{
    emulated_cp_commit();
}

template <int N> DEVICE void cp_async_wait()
{
    emulated_cp_wait(N);
}

/* ldmatrix: matrix j's row i is at the address of lane 8 j + i. */
template <int N, bool TRANS>
static void emulated_do_ldmatrix(const void *const *in, void *const *out)
{
    for (int lane = 0; lane < 32; lane++)
        for (int j = 0; j < N; j++) {
            uint16_t pair[2];
            for (int e = 0; e < 2; e++) {
                int row = TRANS ? lane % 4 * 2 + e : lane / 4;
                int col = TRANS ? lane / 4 : lane % 4 * 2 + e;
                pair[e] = (*(const uint16_t *const *)in[8 * j + row])[col];
            }
            ((uint32_t *)out[lane])[j] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
        }
}

template <int N, bool TRANS> DEVICE void emulated_ldmatrix(uint32_t (&r)[N], const void *row)
{
    if (emulated_now->lane < 8 * N)
        emulated_check_aligned(row, 16);
    emulated_warp(TRANS ? "ldmatrix.trans" : "ldmatrix", &row, r, emulated_do_ldmatrix<N, TRANS>);
}

template <int N> DEVICE void ldmatrix(uint32_t (&r)[N], const void *row)
{
    emulated_ldmatrix<N, false>(r, row);
}

template <int N> DEVICE void ldmatrix_trans(uint32_t (&r)[N], const void *row)
{
    emulated_ldmatrix<N, true>(r, row);
}

struct emulated_mma {
    float d[4];
    uint32_t a[4], b[2];
};

/* D [16, 8] += A [16, 16] B [16, 8], read out of and put back into the fragments of the PTX manual
 * ("Matrix Fragments for mma"); tensor cores keep products exact and round the sum in ways of
 * their own: here once, from double. value(word, half) is an element of a fragment register. */
template <typename F> static void emulated_product(const void *const *in, void *const *out, F value)
{
    const int K = 16, per = 2; /* elements of a register */
    float a[16][K], b[8][K];
    for (int lane = 0; lane < 32; lane++) {
        const emulated_mma *m = (const emulated_mma *)in[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++)
            for (int e = 0; e < per; e++)
                a[g + i % 2 * 8][t * per + e + i / 2 * 4 * per] = value(m->a[i], e);
        for (int i = 0; i < 2; i++)
            for (int e = 0; e < per; e++)
                b[g][t * per + e + i * 4 * per] = value(m->b[i], e);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
            double sum = (double)((const emulated_mma *)in[lane])->d[i];
            for (int k = 0; k < K; k++)
                sum += (double)a[row][k] * (double)b[col][k];
            ((float *)out[lane])[i] = (float)sum;
        }
}

static inline void emulated_mma_bf16(const void *const *in, void *const *out)
{
    emulated_product(in, out,
                     [](uint32_t w, int e) { return f32_of_bf16((uint16_t)(w >> (16 * e))); });
}

static inline void emulated_mma_f16(const void *const *in, void *const *out)
{
    emulated_product(in, out,
                     [](uint32_t w, int e) { return f32_of_f16((uint16_t)(w >> (16 * e))); });
}

DEVICE void emulated_do_mma(const char *op, float (&d)[4], const uint32_t (&a)[4],
                            const uint32_t (&b)[2], void (*fn)(const void *const *, void *const *))
{
    emulated_mma m;
    memcpy(m.d, d, sizeof m.d);
    memcpy(m.a, a, sizeof m.a);
    memcpy(m.b, b, sizeof m.b);
    emulated_warp(op, &m, d, fn);
}

DEVICE void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    emulated_do_mma("mma.bf16", d, a, b, emulated_mma_bf16);
}

DEVICE void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    emulated_do_mma("mma.f16", d, a, b, emulated_mma_f16);
}

/* The same of int8, with exact sums; K elements of a row. */
template <int K> struct emulated_mma_s8 {
    int32_t d[4];
    uint32_t a[K / 8], b[K / 16];
};

template <int K> static void emulated_product_s8(const void *const *in, void *const *out)
{
    using fragment = emulated_mma_s8<K>;
    int8_t a[16][K], b[8][K];
    for (int lane = 0; lane < 32; lane++) {
        const fragment *m = (const fragment *)in[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < K / 8; i++)
            memcpy(&a[g + i % 2 * 8][4 * t + i / 2 * 16], &m->a[i], 4);
        for (int i = 0; i < K / 16; i++)
            memcpy(&b[g][4 * t + i * 16], &m->b[i], 4);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int32_t sum = ((const fragment *)in[lane])->d[i];
            for (int k = 0; k < K; k++)
                sum += a[lane / 4 + i / 2 * 8][k] * b[lane % 4 * 2 + i % 2][k];
            ((int32_t *)out[lane])[i] = sum;
        }
}

DEVICE void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    emulated_mma_s8<32> m;
    memcpy(m.d, d, sizeof m.d);
    memcpy(m.a, a, sizeof m.a);
    memcpy(m.b, b, sizeof m.b);
    emulated_warp("mma.k32.s8", &m, d, emulated_product_s8<32>);
}

DEVICE void mma_m16n8k16_s8(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b)
{
    emulated_mma_s8<16> m;
    memcpy(m.d, d, sizeof m.d);
    memcpy(m.a, a, sizeof m.a);
    m.b[0] = b;
    emulated_warp("mma.k16.s8", &m, d, emulated_product_s8<16>);
}

DEVICE int32_t dp4a(uint32_t a, uint32_t b, int32_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += (int32_t)(int8_t)(a >> i) * (int32_t)(int8_t)(b >> i);
    return c;
}

DEVICE uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t pick)
{
    uint64_t from = (uint64_t)b << 32 | a;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v |= (uint32_t)(from >> (pick >> (4 * i) & 7U) * 8 & 255U) << (8 * i);
    return v;
}

DEVICE float widen_f16(uint16_t h)
{
    return f32_of_f16(h);
}

DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b)
{
    /* products of f16 are exact in f32 */
    const float lo = f32_of_f16((uint16_t)a) * f32_of_f16((uint16_t)b);
    const float hi = f32_of_f16((uint16_t)(a >> 16)) * f32_of_f16((uint16_t)(b >> 16));
    return (uint32_t)f16_of_f32(lo) | (uint32_t)f16_of_f32(hi) << 16;
}

DEVICE uint32_t pack_bf16(float lo, float hi)
{
    return (uint32_t)bf16_of_f32(lo) | (uint32_t)bf16_of_f32(hi) << 16;
}

DEVICE uint32_t pack_f16(float lo, float hi)
{
    return (uint32_t)f16_of_f32(lo) | (uint32_t)f16_of_f32(hi) << 16;
}

DEVICE uint32_t atomic_add_u32(uint32_t *p, uint32_t v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

DEVICE void fence_device()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

DEVICE uint32_t ld_acquire_sys(const uint32_t *p)
{
    emulated_yield();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

DEVICE void st_release_sys(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

uint64_t emulated_clock_ns();

DEVICE uint64_t clock_ns()
{
    return emulated_clock_ns();
}

void emulated_pdl_wait();

DEVICE void pdl_wait()
{
    emulated_pdl_wait();
}

#endif
