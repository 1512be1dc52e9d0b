/* What the kernels over vectors share.  The including file has included simd_X.h. */
#ifndef BACKENDS_CPU_VECTORS_H
#define BACKENDS_CPU_VECTORS_H

#include "backends/cpu/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define NO_UNROLL _Pragma("GCC unroll 1")
#endif

enum {
    PARTS = PANEL / 2 / VL, /* steps of two vectors that make a panel */
    TREE_LEVELS = 4,        /* of N_SLICES */
};

/* Part q of a panel: columns [VL q, +VL) and [16 + VL q, +VL). */
struct pair {
    vf a, b;
};

#endif
