/* Read before the shader text by clang as C++14: address spaces that cannot be converted into each
 * other, double and allocation out of reach, declarations in place of Metal's functions. */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t, ushort;
typedef int int32_t;
typedef unsigned int uint32_t, uint;
typedef long int64_t;
typedef unsigned long uint64_t, size_t;

#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread
#define kernel
#define double no_double_in_shaders
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

struct uint3 {
    uint x, y, z;
};

float sqrtf(float x);
float fabsf(float x);
float fmaf(float a, float b, float c);
void *memcpy(void *to, const void *from, size_t n);
static inline float widened_f16(uint16_t h)
{
    return (float)*(const __fp16 *)&h;
}
/* As vectors: a load of one is one instruction. */
typedef uint8_t packed_uchar4 __attribute__((ext_vector_type(4), aligned(1)));
typedef ushort packed_ushort4 __attribute__((ext_vector_type(4), aligned(2)));
typedef uint packed_uint4 __attribute__((ext_vector_type(4), aligned(4)));
typedef float packed_float4 __attribute__((ext_vector_type(4), aligned(4)));

/* Matrices: what is done with their elements is compiled, the product is a call. */
typedef float matrix_elements __attribute__((ext_vector_type(2)));
struct simdgroup_float8x8 {
    matrix_elements e;
    matrix_elements &thread_elements()
    {
        return e;
    }
};
extern "C" matrix_elements matrix_product(matrix_elements a, matrix_elements b, matrix_elements c)
    __attribute__((const));
template <typename T, int R, int C>
static inline simdgroup_float8x8 make_filled_simdgroup_matrix(T v)
{
    simdgroup_float8x8 m;
    m.e = {v, v};
    return m;
}
void simdgroup_load(simdgroup_float8x8 &m, const threadgroup float *p, int step);
static inline void simdgroup_multiply_accumulate(simdgroup_float8x8 &d, simdgroup_float8x8 a,
                                                 simdgroup_float8x8 b, simdgroup_float8x8 c)
{
    d.e = matrix_product(a.e, b.e, c.e);
}

template <typename T> T simd_shuffle(T v, ushort lane);
template <typename T> T simd_shuffle_xor(T v, ushort mask);

template <typename T> T shfl(T v, int from);
template <typename T> T shfl_xor(T v, int mask);
static inline void sync_warp()
{
}
static inline void pdl_wait()
{
}
#define SYNC_THREADS() ((void)0)

#define UNROLL _Pragma("clang loop unroll(full)")
#define KERNEL void
#define BUF(i)
#define GRID uint3 group, uint index, uint lane, uint simd
/* Threadgroup variables: the address of one has its space. */
template <typename T> T threadgroup *in_group();
#define SHARED(type, name, dims) threadgroup type *name = in_group<type>()
#define BARRIER() ((void)0)
#define SIMD_BARRIER() ((void)0)
