/* The probe's kernels for the double: matrices and simd_sum as no one has specified them, which a
 * seed decides: which lane has which element, and in which order a product's terms are added.  The
 * environment's INGOT_PROBE_DEVICE chooses a device:
 *   unset    one order for all elements
 *   by_row   the order depends on the element's row: breaks the contract
 *   fused    x * y + z is contracted;  flushing: small numbers become zero */
#include "shader_cxx.h"

#include <stdlib.h>
#include <string.h>

static bool device_is(const char *name)
{
    const char *s = getenv("INGOT_PROBE_DEVICE");
    return s && strcmp(s, name) == 0;
}

static int seed()
{
    const char *s = getenv("INGOT_EMULATE_SEED");
    return s ? atoi(s) % 64 : 0;
}

/* Element i of a lane is that of row place / 8, column place % 8. */
static int place_of(int lane, int i)
{
    return ((2 * lane + i) * (2 * seed() + 1) + seed()) % 64;
}

struct simdgroup_float8x8 {
    float e[2];
    float *thread_elements()
    {
        return e;
    }
};

template <typename T, int R, int C> static simdgroup_float8x8 make_filled_simdgroup_matrix(T v)
{
    static_assert(R == 8 && C == 8, "matrices of 8x8");
    return {{v, v}};
}

static void simdgroup_load(simdgroup_float8x8 &m, const float *p, int step)
{
    for (int i = 0; i < 2; i++) {
        int at = place_of(emulated_now->lane, i);
        m.e[i] = p[at / 8 * step + at % 8];
    }
}

static void simdgroup_store(const simdgroup_float8x8 &m, float *p, int step)
{
    for (int i = 0; i < 2; i++) {
        int at = place_of(emulated_now->lane, i);
        p[at / 8 * step + at % 8] = m.e[i];
    }
}

static void collect(const simdgroup_float8x8 &m, float *all)
{
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 2; i++)
            all[place_of(lane, i)] = shfl(m.e[i], lane);
}

static void simdgroup_multiply_accumulate(simdgroup_float8x8 &out, const simdgroup_float8x8 &a,
                                          const simdgroup_float8x8 &b, const simdgroup_float8x8 &c)
{
    float left[64], right[64], sum[2] = {c.e[0], c.e[1]};
    collect(a, left);
    collect(b, right);
    for (int i = 0; i < 2; i++) {
        int at = place_of(emulated_now->lane, i), from = device_is("by_row") ? at / 8 : seed();
        for (int k = 0; k < 8; k++) {
            int j = (k + from) % 8;
            sum[i] = fmaf(left[at / 8 * 8 + j], right[8 * j + at % 8], sum[i]);
        }
    }
    out = {{sum[0], sum[1]}};
}

static float simd_sum(float v)
{
    float sum = 0;
    for (int i = 0; i < 32; i++)
        sum += shfl(v, (i + seed()) % 32);
    return sum;
}

#include "probe_source.metal"

/* The kernel, then what another device would have computed. */
static void arithmetic_of_device(const probe_args &a, const float *in, float *out, uint3 group,
                                 unsigned index, unsigned lane, unsigned simd)
{
    probe_arithmetic(a, in, out, group, index, lane, simd);
    for (int i = (int)lane; i < a.n; i += 32) {
        if (device_is("fused"))
            out[5 * i] = out[5 * i + 1];
        if (device_is("flushing") && fabsf(out[5 * i + 4]) < 0x1p-126f)
            out[5 * i + 4] = 0;
    }
}

static const std::vector<metal_double_kernel> &probe_kernels()
{
    static const std::vector<metal_double_kernel> all = {
        kernel_of("probe_arithmetic", arithmetic_of_device), kernel_of("probe_sums", probe_sums),
        kernel_of("probe_matrix", probe_matrix)};
    return all;
}

extern "C" const char probe_source[];
static const bool added = (metal_double_texts().push_back({probe_source, probe_kernels}), true);
