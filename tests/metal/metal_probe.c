/* What a Metal device computes where its language leaves it open.
 * Cases: what the kernels stand on.  Sums and products are fused only where fma is written, fma,
 * quotients and roots are rounded as IEEE 754 says, small numbers are kept, f16 is widened exactly,
 * the tree of shuffles has the host's bits.
 * Facts: what the default kernels do not use.
 *   matrix.keeps_rows   a row of a product of simdgroup matrices has the same bits in each of the 8
 *                       places, beside any other rows (the numeric contract): matrix kernels may
 *                       become the default where this is "yes", and are refused elsewhere
 *   matrix.keeps_columns   a column of it has the same bits beside any other columns, on which attention by
 *                       matrices stands: keys that a row does not see are beside those that it sees
 *   matrix.order        "chain": fused multiply-adds in the order of the columns; "other"
 *   matrix.lanes        row.column of lane 0's first element, second one, lane 1's first, ...
 *   simd_sum.order      "tree": that of the shuffles; "other" */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "backends/metal/objc.h"
#include "report.h"

extern const char probe_source[];

enum { N_TRIPLES = 4096, N_SUMS = 256, TILES = 16, K = 8 * TILES, N_TRIALS = 24, MAX_BUFFERS = 4 };

struct probe_args {
    int32_t n;
};

struct device {
    objc_ref device, queue, library, buffer[MAX_BUFFERS]; /* of equal size */
};

enum { BUFFER_BYTES = 5 * N_TRIPLES * sizeof(float) };

static id string_of(const char *s)
{
    return MTL(string, mtl_class("NSString"), s);
}

/* NULL, or what is wrong. */
static const char *open_device(struct device *d)
{
    id error = NULL, options;
    mtl_register();
    d->device = MTLCreateSystemDefaultDevice();
    if (!d->device)
        return "no Metal device on this machine";
    d->queue = MTL_GET(new_queue, d->device);
    options = MTL_GET(new_object, mtl_class("MTLCompileOptions"));
    if (MTL(responds, options, mtl_selector[MTL_set_math_mode]))
        MTL(set_math_mode, options, 0); /* safe */
    else
        MTL(set_fast_math, options, false);
    d->library = MTL(new_library, d->device, string_of(probe_source), options, &error);
    MTL_GET(release, options);
    if (!d->library)
        return metal_error_text(error);
    for (int i = 0; i < MAX_BUFFERS; i++)
        if (!(d->buffer[i] = MTL(new_buffer, d->device, BUFFER_BYTES, 0)))
            return "no memory for a buffer";
    return NULL;
}

static float *floats(const struct device *d, int i)
{
    return MTL_GET(contents, d->buffer[i]);
}

/* Runs one simdgroup of the kernel over the buffers. */
static bool run(const struct device *d, const char *kernel, int32_t n, int n_buffers)
{
    id error = NULL, function = MTL(new_function, d->library, string_of(kernel));
    if (!function)
        return false;
    id pipeline = MTL(new_pipeline, d->device, function, &error);
    MTL_GET(release, function);
    if (!pipeline)
        return false;
    const struct probe_args args = {n};
    const struct mtl_size one = {1, 1, 1}, threads = {32, 1, 1};
    void *pool = objc_autoreleasePoolPush();
    id commands = MTL_GET(command_buffer, d->queue), e = MTL_GET(encoder, commands);
    MTL(set_pipeline, e, pipeline);
    MTL(set_bytes, e, &args, sizeof args, 0);
    for (int i = 0; i < n_buffers; i++)
        MTL(set_buffer, e, d->buffer[i], 0, (unsigned long)i + 1);
    MTL(dispatch, e, one, threads);
    MTL_GET(end_encoding, e);
    MTL_GET(commit, commands);
    MTL_GET(wait, commands);
    bool fine = MTL_GET(buffer_status, commands) == 4; /* completed */
    objc_autoreleasePoolPop(pool);
    MTL_GET(release, pipeline);
    return fine;
}

static uint64_t state = 1;

/* In (-1, 1), all bits of the mantissa in use. */
static float some(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((int32_t)(state >> 39) - (1 << 24)) * 0x1p-24f;
}

/* ---- arithmetic ---- */

static void probe_arithmetic(struct tap *t, const struct device *d)
{
    static const char *const what[] = {
        "a product and a sum are not fused", "fma is fused", "quotients are rounded to nearest",
        "roots are rounded to nearest", "subnormal numbers are kept"};
    float *in = floats(d, 0);
    int wrong[5] = {0}, n_small = 0;
    for (int i = 0; i < 3 * N_TRIPLES; i++)
        in[i] = some();
    if (!tap_ok(t, run(d, "probe_arithmetic", N_TRIPLES, 2), "arithmetic runs"))
        return;
    for (int i = 0; i < N_TRIPLES; i++) {
        float x = in[3 * i], y = in[3 * i + 1], z = in[3 * i + 2];
        volatile float product = x * y, small_x = x * 0x1p-100f, small_y = y * 0x1p-30f;
        const float want[5] = {product + z, fmaf(x, y, z), x / y, sqrtf(fabsf(x)),
                               small_x * small_y};
        n_small += want[4] != 0.0f && fabsf(want[4]) < 0x1p-126f;
        for (int k = 0; k < 5; k++)
            wrong[k] += memcmp(&floats(d, 1)[5 * i + k], &want[k], sizeof(float)) != 0;
    }
    for (int k = 0; k < 5; k++)
        tap_ok(t, wrong[k] == 0 && n_small > 0, "%s (%d of %d differ)", what[k], wrong[k],
               N_TRIPLES);
}

/* All of them but NaNs. */
static void probe_f16(struct tap *t, const struct device *d)
{
    enum { N_F16 = 4 * N_TRIPLES };
    uint16_t *in = (uint16_t *)(void *)floats(d, 0);
    int wrong = 0;
    for (uint32_t at = 0; at < 1U << 16; at += N_F16) {
        for (uint32_t i = 0; i < N_F16; i++)
            in[i] = (uint16_t)(at + i);
        if (!tap_ok(t, run(d, "probe_f16", N_F16, 2), "f16 from %u on is widened", at))
            return;
        for (uint32_t i = 0; i < N_F16; i++) {
            float want = f32_of_f16((uint16_t)(at + i));
            wrong += want == want && bits_of_f32(want) != bits_of_f32(floats(d, 1)[i]);
        }
    }
    tap_ok(t, wrong == 0, "f16 numbers are widened exactly (%d of 65536 differ)", wrong);
}

/* ---- sums over a simdgroup ---- */

static float tree_of(const float *v)
{
    float s[32];
    memcpy(s, v, sizeof s);
    for (int apart = 16; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            s[i] += s[i + apart];
    return s[0];
}

static void probe_sums(struct tap *t, const struct device *d)
{
    int trees = 0, as_tree = 0;
    for (int i = 0; i < 32 * N_SUMS; i++)
        floats(d, 0)[i] = some();
    if (!tap_ok(t, run(d, "probe_sums", N_SUMS, 2), "sums run"))
        return;
    for (int i = 0; i < N_SUMS; i++) {
        float want = tree_of(floats(d, 0) + 32 * i);
        as_tree += floats(d, 1)[2 * i] == want;
        trees += floats(d, 1)[2 * i + 1] == want;
    }
    tap_ok(t, trees == N_SUMS, "the tree of shuffles has the host's bits");
    fact("simd_sum.order %s", as_tree == N_SUMS ? "tree" : "other");
}

/* ---- products of matrices ---- */

/* x [8, K]: row `place` is `row`, the others are made up: 0, random or huge. */
static bool product(const struct device *d, const float *row, int place, int others)
{
    for (int r = 0; r < 8; r++)
        for (int k = 0; k < K; k++)
            floats(d, 0)[r * K + k] = r == place    ? row[k]
                                      : others == 0 ? 0.0f
                                                    : some() * (others == 1 ? 1.0f : 0x1p60f);
    return run(d, "probe_matrix", TILES, 4);
}

/* Element [place, c] where the other columns of w are 0, random or huge. */
static bool column_of(const struct device *d, const float *row, const float *column, int c,
                      int others, float *out)
{
    for (int k = 0; k < K; k++)
        for (int i = 0; i < 8; i++)
            floats(d, 1)[8 * k + i] = i == c        ? column[k]
                                      : others == 0 ? 0.0f
                                                    : some() * (others == 1 ? 1.0f : 0x1p60f);
    bool fine = product(d, row, 0, 0);
    *out = floats(d, 2)[c];
    return fine;
}

static void probe_columns(struct tap *t, const struct device *d)
{
    float row[K], column[K], first = 0.0f, got = 0.0f;
    bool fine = true, keeps = true;
    for (int k = 0; k < K; k++) {
        row[k] = some();
        column[k] = some();
    }
    for (int i = 0; i < N_TRIALS && fine; i++) {
        fine = column_of(d, row, column, i / 3, i % 3, &got);
        first = i % 3 == 0 ? got : first;
        keeps = keeps && got == first;
    }
    if (tap_ok(t, fine, "columns of matrices run"))
        fact("matrix.keeps_columns %s", keeps ? "yes" : "no");
}

static bool chain(const struct device *d, const float *row, const float *got)
{
    for (int c = 0; c < 8; c++) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum = fmaf(row[k], floats(d, 1)[8 * k + c], sum);
        if (sum != got[c])
            return false;
    }
    return true;
}

static void tell_lanes(const struct device *d)
{
    char text[64 * 4 + 1];
    for (int i = 0; i < 8 * K; i++)
        floats(d, 0)[i] = (float)(i / K * 8 + i % K); /* of the first tile: row 8 + column */
    if (!run(d, "probe_matrix", TILES, 4))
        return;
    for (int i = 0; i < 64; i++) {
        unsigned at = (unsigned)floats(d, 3)[i] % 64;
        const char four[] = {(char)('0' + at / 8), '.', (char)('0' + at % 8), ' '};
        memcpy(text + 4 * i, four, sizeof four);
    }
    text[sizeof text - 1] = 0;
    fact("matrix.lanes %s", text);
}

static void probe_matrices(struct tap *t, const struct device *d)
{
    float row[K], first[8];
    bool fine = true, keeps = true, in_order = true;
    for (int i = 0; i < K * 8; i++)
        floats(d, 1)[i] = some();
    for (int k = 0; k < K; k++)
        row[k] = some();
    for (int i = 0; i < N_TRIALS && fine; i++) {
        int place = i % 8;
        fine = product(d, row, place, i / 8);
        const float *got = floats(d, 2) + 8 * place;
        if (i == 0)
            memcpy(first, got, sizeof first);
        keeps = keeps && memcmp(got, first, sizeof first) == 0;
        in_order = in_order && chain(d, row, got);
    }
    if (!tap_ok(t, fine, "matrices run"))
        return;
    fact("matrix.keeps_rows %s", keeps ? "yes" : "no");
    fact("matrix.order %s", in_order ? "chain" : "other");
    tell_lanes(d);
}

int main(void)
{
    struct tap t = {0};
    struct device d = {0};
    void *pool = objc_autoreleasePoolPush();
    const char *why = open_device(&d);
    if (tap_ok(&t, !why, "the probe's kernels compile%s%s", why ? ": " : "", why ? why : "")) {
        probe_arithmetic(&t, &d);
        probe_f16(&t, &d);
        probe_sums(&t, &d);
        probe_matrices(&t, &d);
        probe_columns(&t, &d);
    }
    for (int i = 0; i < MAX_BUFFERS; i++)
        metal_give(&d.buffer[i]);
    metal_give(&d.library);
    metal_give(&d.queue);
    metal_give(&d.device);
    objc_autoreleasePoolPop(pool);
    return tap_end(&t);
}
