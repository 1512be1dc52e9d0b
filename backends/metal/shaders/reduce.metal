/* Sums and maxima in an order that the shape alone decides. */

/* Every lane gets the same bits: pairs 16 lanes apart first, then 8, 4, 2, 1. */
static inline float tree_sum(float v)
{
    for (int apart = 16; apart > 0; apart /= 2)
        v += simd_shuffle_xor(v, (ushort)apart);
    return v;
}

/* NaN is never the greatest. */
static inline float tree_max(float v)
{
    for (int apart = 16; apart > 0; apart /= 2) {
        float o = simd_shuffle_xor(v, (ushort)apart);
        v = o > v ? o : v;
    }
    return v;
}

/* By all threads of the group, n_simds simdgroups; part [32]. */
static inline float group_sum(float v, threadgroup float *part, uint lane, uint simd, uint n_simds)
{
    v = tree_sum(v);
    BARRIER(); /* the last use of part has been read */
    if (lane == 0)
        part[simd] = v;
    BARRIER(); /* part is written */
    return tree_sum(lane < n_simds ? part[lane] : 0.0f);
}

static inline float group_max(float v, threadgroup float *part, uint lane, uint simd, uint n_simds)
{
    v = tree_max(v);
    BARRIER(); /* as above */
    if (lane == 0)
        part[simd] = v;
    BARRIER();
    return tree_max(lane < n_simds ? part[lane] : -INFINITY);
}
