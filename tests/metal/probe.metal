/* What metal_probe asks of a device; text behind shaders/prelude.metal.  Each kernel runs in one
 * simdgroup. */
struct probe_args {
    int32_t n;
};

/* Of each of n triples: product and sum apart, fused, quotient, root, product of small numbers. */
KERNEL probe_arithmetic(constant struct probe_args &a BUF(0), const device float *in BUF(1),
                        device float *out BUF(2), GRID)
{
    (void)group, (void)index, (void)simd;
    for (int i = (int)lane; i < a.n; i += 32) {
        float x = in[3 * i], y = in[3 * i + 1], z = in[3 * i + 2];
        out[5 * i] = x * y + z;
        out[5 * i + 1] = fmaf(x, y, z);
        out[5 * i + 2] = x / y;
        out[5 * i + 3] = sqrtf(x < 0.0f ? -x : x);
        out[5 * i + 4] = (x * 0x1p-100f) * (y * 0x1p-30f);
    }
}

/* Of each of n rows of 32: simd_sum, then the tree of shuffles that the kernels use. */
KERNEL probe_sums(constant struct probe_args &a BUF(0), const device float *in BUF(1),
                  device float *out BUF(2), GRID)
{
    (void)group, (void)index, (void)simd;
    for (int i = 0; i < a.n; i++) {
        float v = in[32 * i + (int)lane], s = simd_sum(v);
        for (int apart = 16; apart > 0; apart /= 2)
            v += simd_shuffle_xor(v, (ushort)apart);
        if (lane == 0) {
            out[2 * i] = s;
            out[2 * i + 1] = v;
        }
    }
}

/* f16 numbers, widened. */
KERNEL probe_f16(constant struct probe_args &a BUF(0), const device uint8_t *in BUF(1),
                 device float *out BUF(2), GRID)
{
    (void)group, (void)index, (void)simd;
    for (int i = (int)lane; i < a.n; i += 32)
        out[i] = widened_f16(((const device uint16_t *)in)[i]);
}

/* out [8, 8] = x [8, 8 n] w [8 n, 8] in n products of 8x8, whose elements lanes put in and take out at
 * the places that a matrix of places gives, as the kernels do; held [64]: what lane l has of the first
 * tile of x when it is loaded, elements 2 l and 2 l + 1. */
KERNEL probe_matrix(constant struct probe_args &a BUF(0), const device float *x BUF(1),
                    const device float *w BUF(2), device float *out BUF(3),
                    device float *held BUF(4), GRID)
{
    SHARED(float, place, [64]);
    (void)group, (void)simd;
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), places, loaded;
    place[index] = (float)index;
    place[index + 32] = (float)(index + 32);
    SIMD_BARRIER(); /* the places are written */
    simdgroup_load(places, place, 8);
    simdgroup_load(loaded, x, 8 * a.n);
    for (int e = 0; e < 2; e++)
        held[2 * (int)lane + e] = loaded.thread_elements()[e];
    for (int i = 0; i < a.n; i++) {
        simdgroup_float8x8 left, right;
        for (int e = 0; e < 2; e++) {
            int at = (int)places.thread_elements()[e];
            left.thread_elements()[e] = x[at / 8 * 8 * a.n + 8 * i + at % 8];
            right.thread_elements()[e] = w[64 * i + at];
        }
        simdgroup_multiply_accumulate(sum, left, right, sum);
    }
    for (int e = 0; e < 2; e++)
        out[(int)places.thread_elements()[e]] = sum.thread_elements()[e];
}
