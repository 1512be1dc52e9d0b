/* The probe's kernels for the double: matrices (matrix_cxx.h) and simd_sum as no one has specified
 * them.  The environment's INGOT_PROBE_DEVICE chooses a device:
 *   unset    one order for all elements
 *   by_row   the order depends on the element's row;  by_column: on the column beside it.  Both break the contract
 *   fused    x * y + z is contracted;  flushing: small numbers become zero, of f16, too */
#include "matrix_cxx.h"

#include <stdlib.h>
#include <string.h>

static bool device_is(const char *name)
{
    const char *s = getenv("INGOT_PROBE_DEVICE");
    return s && strcmp(s, name) == 0;
}

static float simd_sum(float v)
{
    float sum = 0;
    for (int i = 0; i < 32; i++)
        sum += shfl(v, (i + (int)(metal_double_matrices_seed() % 64)) % 32);
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

static void f16_of_device(const probe_args &a, const uint8_t *in, float *out, uint3 group,
                          unsigned index, unsigned lane, unsigned simd)
{
    probe_f16(a, in, out, group, index, lane, simd);
    for (int i = (int)lane; i < a.n; i += 32)
        if (device_is("flushing") && fabsf(out[i]) < 0x1p-14f)
            out[i] = 0;
}

static const std::vector<metal_double_kernel> &probe_kernels()
{
    metal_double_break_matrices(device_is("by_row")      ? MATRICES_BY_ROW
                                : device_is("by_column") ? MATRICES_BY_COLUMN
                                                         : MATRICES_KEEP);
    static const std::vector<metal_double_kernel> all = {
        kernel_of("probe_arithmetic", arithmetic_of_device), kernel_of("probe_f16", f16_of_device),
        kernel_of("probe_sums", probe_sums), kernel_of("probe_matrix", probe_matrix)};
    return all;
}

extern "C" const char probe_source[];
static const bool added = (metal_double_texts().push_back({probe_source, probe_kernels}), true);
