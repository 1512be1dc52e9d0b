/* The words of the Metal Shading Language that the shader text uses, for a C++ compiler: threads are
 * the emulator's. */
#ifndef TESTS_METAL_SHADER_CXX_H
#define TESTS_METAL_SHADER_CXX_H

#include <tuple>
#include <type_traits>
#include <utility>

#include "common/dtype.h"

#include "emulator.h"
#include "kernel.h"

typedef dim3 uint3;
typedef unsigned short ushort;

/* A kernel's arguments, bound as Metal binds them: the struct, pointers, then GRID's. */
enum { N_GRID = 4 };

template <typename A, typename... R, size_t... I>
static void call_kernel(void (*fn)(const A &, R...), const void *args, void *const *bound,
                        std::index_sequence<I...>)
{
    typedef std::tuple<R...> all;
    const struct emulated_thread *t = emulated_now;
    fn(*(const A *)args, (std::tuple_element_t<I, all>)bound[I]..., t->block, t->thread.x,
       t->thread.x % 32, t->thread.x / 32);
}

template <typename A, typename... R, size_t... I>
static metal_double_kernel describe_kernel(const char *name, void (*fn)(const A &, R...),
                                           std::index_sequence<I...> pointers)
{
    typedef std::tuple<R...> all;
    return {name,
            sizeof(A),
            {sizeof(std::remove_pointer_t<std::tuple_element_t<I, all>>)...},
            [=](const void *args, void *const *bound) { call_kernel(fn, args, bound, pointers); }};
}

template <typename A, typename... R>
static metal_double_kernel kernel_of(const char *name, void (*fn)(const A &, R...))
{
    return describe_kernel(name, fn, std::make_index_sequence<sizeof...(R) - N_GRID>());
}

template <typename T> static inline T simd_shuffle(T v, ushort lane)
{
    metal_double_exchange();
    return shfl(v, (int)lane);
}

template <typename T> static inline T simd_shuffle_xor(T v, ushort mask)
{
    metal_double_exchange();
    return shfl_xor(v, (int)mask);
}
/* From here on in the text of both GPUs, too. */
#define shfl(v, from) simd_shuffle((v), (ushort)(from))
#define shfl_xor(v, mask) simd_shuffle_xor((v), (ushort)(mask))

static inline float widened_f16(uint16_t h)
{
    return f32_of_f16(h);
}

template <typename T> struct packed4 {
    T e[4];
    T operator[](int i) const
    {
        return e[i];
    }
};
typedef packed4<unsigned short> packed_ushort4;
typedef packed4<uint8_t> packed_uchar4;
typedef packed4<uint32_t> packed_uint4;
typedef packed4<float> packed_float4;

#undef KERNEL
#define KERNEL static void
#define BUF(i)
#define GRID uint3 group, unsigned index, unsigned lane, unsigned simd
#define BARRIER() SYNC_THREADS()
#define SIMD_BARRIER() sync_warp()
#define kernel
#define device
#define constant const
#define threadgroup
#define thread

#endif
