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

struct uint3 {
    uint x, y, z;
};

float sqrtf(float x);
float fmaf(float a, float b, float c);
void *memcpy(void *to, const void *from, size_t n);
template <typename T> T simd_shuffle(T v, ushort lane);
template <typename T> T simd_shuffle_xor(T v, ushort mask);

#define KERNEL void
#define BUF(i)
#define GRID uint3 group, uint index, uint lane, uint simd
/* Threadgroup variables: the address of one has its space. */
template <typename T> T threadgroup *in_group();
#define SHARED(type, name, dims) threadgroup type *name = in_group<type>()
#define BARRIER() ((void)0)
#define SIMD_BARRIER() ((void)0)
