#include "collectives/reduce.h"

#include <string.h>

enum { BLOCK = 256 }; /* elements summed at a time: the scratch of all levels stays in L1 */

static void combine(float *dst, const float *a, const float *b, size_t n, enum reduce_op op)
{
    switch (op) {
    case REDUCE_SUM:
        for (size_t i = 0; i < n; i++)
            dst[i] = a[i] + b[i];
        break;
    case REDUCE_MAX:
        for (size_t i = 0; i < n; i++)
            dst[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i];
        break;
    case REDUCE_MIN:
        for (size_t i = 0; i < n; i++)
            dst[i] = a[i] < b[i] || a[i] != a[i] ? a[i] : b[i];
        break;
    }
}

/* The greatest power of two below world: where the tree over world operands divides. */
static int left_of(int world)
{
    int left = 1;
    while (2 * left < world)
        left *= 2;
    return left;
}

/* The tree over src[0 .. world) at elements [at, at + n), n <= BLOCK: where the result lies. */
static const float *reduce_block(float *scratch, const float *const *src, int world, size_t at,
                                 size_t n, enum reduce_op op)
{
    float right_scratch[BLOCK];
    if (world == 1)
        return src[0] + at;
    int left = left_of(world);
    const float *a = reduce_block(scratch, src, left, at, n, op);
    const float *b = reduce_block(right_scratch, src + left, world - left, at, n, op);
    combine(scratch, a, b, n, op);
    return scratch;
}

void reduce_tree(float *dst, const float *const *src, int world, size_t n, enum reduce_op op)
{
    float scratch[BLOCK];
    if (world == 2) {
        combine(dst, src[0], src[1], n, op);
        return;
    }
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t len = n - at < BLOCK ? n - at : BLOCK;
        const float *sum = reduce_block(scratch, src, world, at, len, op);
        if (sum != dst + at)
            memcpy(dst + at, sum, len * sizeof *dst);
    }
}
