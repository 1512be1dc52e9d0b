/* Read before the shader text by clang as C++ for OpenCL without fp64: a language near Metal's, with its address spaces,
 * that has no double, no threadgroup variable outside kernels, no function pointers, no recursion through them, no
 * virtual functions and no memory of its own.  Kernels take `constant struct` by pointer there (test_shaders.py). */
typedef char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t, ushort;
typedef int int32_t;
typedef unsigned int uint32_t, uint;
typedef long int64_t;
typedef unsigned long uint64_t, size_t;
typedef uint uint3 __attribute__((ext_vector_type(3)));

#define device __global
#define constant __constant
#define threadgroup __local
#define thread __private

float sqrtf(float x);
float fabsf(float x);
float fmaf(float a, float b, float c);
void memcpy(thread float *to, const thread uint32_t *from, size_t n);
void memcpy(thread uint32_t *to, const thread float *from, size_t n);
float widened_f16(uint16_t h);

typedef uint8_t packed_uchar4 __attribute__((ext_vector_type(4), aligned(1)));
typedef ushort packed_ushort4 __attribute__((ext_vector_type(4), aligned(2)));
typedef uint packed_uint4 __attribute__((ext_vector_type(4), aligned(4)));
typedef float packed_float4 __attribute__((ext_vector_type(4), aligned(4)));

struct simdgroup_float8x8 {
    float e[2];
    thread float *thread_elements() thread
    {
        return e;
    }
};
template <typename T, int R, int C> simdgroup_float8x8 make_filled_simdgroup_matrix(T v);
void simdgroup_load(thread simdgroup_float8x8 &m, const threadgroup float *p, int step);
void simdgroup_multiply_accumulate(thread simdgroup_float8x8 &d, simdgroup_float8x8 a,
                                   simdgroup_float8x8 b, simdgroup_float8x8 c);

template <typename T> T simd_shuffle(T v, ushort lane);
template <typename T> T simd_shuffle_xor(T v, ushort mask);
template <typename T> T shfl(T v, int from);
template <typename T> T shfl_xor(T v, int mask);
void sync_warp();
void pdl_wait();
void group_barrier();
#define SYNC_THREADS() group_barrier()
#define BARRIER() group_barrier()
#define SIMD_BARRIER() sync_warp()

#define UNROLL
#define KERNEL __kernel void
#define BUF(i)
#define GRID uint3 group, uint index, uint lane, uint simd
#define SHARED(type, name, dims) threadgroup type name dims
