/* Common to the kernels over vectors.  The including file has included simd_X.h. */
#ifndef BACKENDS_CPU_VECTORS_H
#define BACKENDS_CPU_VECTORS_H

#include "backends/cpu/kernels.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define NO_UNROLL _Pragma("GCC unroll 1")
#endif

enum {
    PAIRS = PANEL / 2 / VL, /* of a panel, see struct pair */
};

/* Pair q of a panel's vectors: columns [VL q, +VL) and [16 + VL q, +VL). */
struct pair {
    vf a, b;
};

#endif
