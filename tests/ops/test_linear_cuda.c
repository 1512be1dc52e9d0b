/* linear of the CUDA backend on the host emulator: the bits of a row over every kernel and every
 * number of ranks, what surrounds the output, magnitudes beyond f16, NaN and infinity, recorded
 * steps, and cuBLASLt's path. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include <cublasLt.h>

#include "backends/cuda/linear_kernels.h"
#include "ops/op_cases.h"

static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
/* One for each kernel and its edges: rows from x, rows from packed x (16, 32), small and large
 * tiles. */
static const int32_t batches[] = {1, 2, 8, 9, 16, 17, 32, 33, 150};

enum { OUT_GAP = 4, SENTINEL = 77 };

struct rig {
    struct backend *be;
    const struct backend_ops *ops;
};

static struct rig rig_open(enum numerics numerics)
{
    struct rig r;
    struct backend_config cfg = {.numerics = numerics};
    cr_assert_eq(backend_open(&r.be, "cuda", &cfg), ST_OK, "%s", status_detail());
    r.ops = backend_ops_of(r.be);
    return r;
}

static void rig_close(struct rig *r)
{
    r->ops->close(r->be);
}

/* Rows of one type whose columns [from, from + k) are a rank's, with its slices. */
static struct weight *load(struct rig *r, enum dtype t, const float *w, int32_t n, int32_t k_all,
                           int32_t from, int32_t k, int32_t n_slices, const int32_t *slice_end,
                           const float *bias)
{
    size_t row = (size_t)k_all * dtype_size(t);
    char *data = malloc((size_t)n * row + 1);
    struct weight *out = NULL;
    struct weight_src src = {.name = "w", .cols = k, .n_parts = 1, .n_slices = n_slices};
    for (size_t i = 0; i < (size_t)n * (size_t)k_all; i++)
        store_at(data, t, i, w[i]);
    memcpy(src.slice_end, slice_end, (size_t)n_slices * sizeof *slice_end);
    src.part[0] = (struct weight_part){.data = data + (size_t)from * dtype_size(t),
                                       .row_bytes = row,
                                       .dtype = t,
                                       .rows = n,
                                       .bias = bias,
                                       .bias_dtype = DT_F32};
    cr_assert_eq(r->ops->load_weight(r->be, &src, &out), ST_OK, "%s", status_detail());
    free(data);
    return out;
}

static struct view view_take(struct rig *r, int32_t rows, int32_t cols, int32_t stride, size_t off)
{
    struct view v = {.rows = rows, .cols = cols, .stride = stride, .off = off, .dtype = DT_F32};
    size_t bytes = off + (size_t)(rows + 1) * (size_t)stride * sizeof(float);
    cr_assert_eq(r->ops->alloc(r->be, bytes, MEM_DEVICE, &v.buf), ST_OK, "%s", status_detail());
    return v;
}

/* The whole buffer of a view as rows of its stride, one more than the view has. */
static struct view whole(struct view v)
{
    v.rows++;
    v.cols = v.stride;
    return v;
}

/* out [t, n] = rows [0, t) of x [.., k_all] from column `from` on.  aligned: rows begin at
 * multiples of 16 bytes.  Checks that no byte around the output is written. */
static float *multiply(struct rig *r, const struct weight *w, const float *x, int32_t k_all,
                       int32_t from, int32_t k, int32_t t, int32_t n, bool aligned)
{
    int32_t stride = aligned ? (k + 3) / 4 * 4 : k + 1 + k % 2;
    struct view vx = view_take(r, t, k, stride, aligned ? 0 : 4);
    struct view vo = view_take(r, t, n, n + OUT_GAP, aligned ? 0 : 12);
    size_t wide = (size_t)vo.stride, n_all = (size_t)(t + 1) * wide;
    float *part = malloc(((size_t)t * (size_t)k + 1) * sizeof *part);
    float *all = malloc(n_all * sizeof *all), *out = malloc(((size_t)t * (size_t)n + 1) * 4);
    for (int32_t i = 0; i < t; i++)
        memcpy(part + (size_t)i * (size_t)k, x + (size_t)i * (size_t)k_all + from,
               (size_t)k * sizeof *part);
    for (size_t i = 0; i < n_all; i++)
        all[i] = SENTINEL;
    cr_assert_eq(r->ops->write(r->be, vx, part), ST_OK);
    cr_assert_eq(r->ops->write(r->be, whole(vo), all), ST_OK);
    cr_assert_eq(r->ops->linear(r->be, w, vx, vo), ST_OK, "%s", status_detail());
    cr_assert_eq(r->ops->read(r->be, all, whole(vo)), ST_OK, "%s", status_detail());
    for (size_t i = 0; i < n_all; i++)
        if (i / wide >= (size_t)t || i % wide >= (size_t)n)
            cr_assert_eq(all[i], SENTINEL, "row %zu column %zu is written", i / wide, i % wide);
        else
            out[i / wide * (size_t)n + i % wide] = all[i];
    r->ops->free(r->be, vx.buf);
    r->ops->free(r->be, vo.buf);
    free(part);
    free(all);
    return out;
}

static void check_bits(const float *got, const float *want, size_t n, const char *what, int32_t t)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of_f32(got[i]) != bits_of_f32(want[i]))
            cr_assert_fail("%s, %d tokens: element %zu: %a, expected %a", what, t, i, got[i],
                           want[i]);
}

/* Row t of `batch` tokens has the bits that it has alone, over all kernels and both alignments. */
static void check_batches(enum dtype t, int32_t n, int32_t k, int32_t n_slices,
                          const int32_t *slice_end)
{
    enum { MOST = 150 };
    struct rig r = rig_open(NUMERICS_STRICT);
    float *w = in_rows(1, 0, n, k), *x = in_rows(2, 0, MOST, k), *bias = in_rows(3, 0, 1, n);
    struct weight *m = load(&r, t, w, n, k, 0, k, n_slices, slice_end, bias);
    emulator_seed(0);
    float *want = multiply(&r, m, x, k, 0, k, MOST, n, true);
    emulator_seed(9173);
    for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
        float *got = multiply(&r, m, x, k, 0, k, batches[i], n, i % 2 == 0);
        check_bits(got, want, (size_t)batches[i] * (size_t)n, dtype_name(t), batches[i]);
        free(got);
    }
    free(want);
    r.ops->free_weight(r.be, m);
    free(w);
    free(x);
    free(bias);
    rig_close(&r);
}

Test(linear_cuda, a_row_has_the_same_bits_in_every_batch)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        check_batches(types[i], 75, 600, 1, (const int32_t[]){600});
}

Test(linear_cuda, a_row_has_the_same_bits_in_every_batch_with_slices)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        check_batches(types[i], 70, 610, 8, (const int32_t[]){70, 71, 71, 300, 310, 400, 600, 610});
}

/* Wide enough that large tiles are cut by slices and by nothing. */
Test(linear_cuda, large_tiles)
{
    check_batches(DT_BF16, 260, 200, 2, (const int32_t[]){70, 200});
    check_batches(DT_BF16, 390, 200, 1, (const int32_t[]){200});
}

/* More rows than the device computes at once, more segments than a block has warps. */
Test(linear_cuda, blocks_take_several_groups_of_rows)
{
    check_batches(DT_BF16, 300, 2250, 2, (const int32_t[]){2000, 2250});
}

/* More tokens than the scratch memory holds: in blocks, with the same bits. */
Test(linear_cuda, more_tokens_than_the_scratch_memory_holds)
{
    enum { N = 30, K = 300, T = 150 };
    struct rig r = rig_open(NUMERICS_STRICT);
    float *w = in_rows(18, 0, N, K), *x = in_rows(19, 0, T, K);
    for (size_t i = 1; i < ARRAY_LEN(types); i++) {
        struct weight *m = load(&r, types[i], w, N, K, 0, K, 1, (const int32_t[]){K}, NULL);
        size_t was = r.be->scratch->bytes, row = 320 * sizeof(uint16_t) + 2 * sizeof(float);
        float *want = multiply(&r, m, x, K, 0, K, T, N, true);
        uint64_t before = emulator_launches();
        r.be->scratch->bytes = linear_sums_bytes(r.be) + 49 * row; /* 48 tokens: whole fragments */
        float *got = multiply(&r, m, x, K, 0, K, T, N, true);
        cr_assert_eq(emulator_launches() - before, 8, "4 blocks: each is packed and multiplied");
        check_bits(got, want, T * N, dtype_name(types[i]), T);
        r.be->scratch->bytes = was;
        r.ops->free_weight(r.be, m);
        free(want);
        free(got);
    }
    free(w);
    free(x);
    rig_close(&r);
}

/* The sum of two ranks' outputs, as the collectives add them. */
static void add_into(float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
}

/* world ranks with 8 / world slices each, added pairwise: into out [t, n]. */
static void multiply_on(int world, struct rig *r, enum dtype type, const float *w, const float *x,
                        int32_t n, int32_t k, const int32_t *ends, int32_t t, float *out)
{
    int per = N_SLICES / world;
    size_t size = (size_t)t * (size_t)n;
    float *part[N_SLICES] = {NULL};
    for (int rank = 0; rank < world; rank++) {
        int32_t from = rank ? ends[rank * per - 1] : 0, local[N_SLICES];
        int32_t k_rank = ends[(rank + 1) * per - 1] - from;
        for (int i = 0; i < per; i++)
            local[i] = ends[rank * per + i] - from;
        struct weight *m = load(r, type, w, n, k, from, k_rank, per, local, NULL);
        part[rank] = multiply(r, m, x, k, from, k_rank, t, n, rank % 2 == 0);
        r->ops->free_weight(r->be, m);
    }
    for (int apart = 1; apart < world; apart *= 2)
        for (int rank = 0; rank < world; rank += 2 * apart)
            add_into(part[rank], part[rank + apart], size);
    memcpy(out, part[0], size * sizeof *out);
    for (int rank = 0; rank < world; rank++)
        free(part[rank]);
}

/* Slices that are whole segments, and slices whose borders no vector load could meet. */
Test(linear_cuda, every_number_of_ranks_gives_the_same_bits)
{
    enum { N = 40, MOST = 40 };
    static const int32_t even[] = {64, 128, 192, 256, 320, 384, 448, 512};
    static const int32_t odd[] = {61, 123, 123, 401, 463, 465, 530, 581};
    static const int32_t tokens[] = {1, 12, 20, MOST};
    struct rig r = rig_open(NUMERICS_STRICT);
    for (size_t i = 0; i < ARRAY_LEN(types) * 2; i++) {
        const int32_t *ends = i % 2 ? odd : even, k = ends[N_SLICES - 1];
        float *w = in_rows(4, 0, N, k), *x = in_rows(5, 0, MOST, k);
        float want[MOST * N], got[MOST * N];
        for (size_t j = 0; j < ARRAY_LEN(tokens); j++) {
            size_t size = (size_t)tokens[j] * N;
            multiply_on(1, &r, types[i / 2], w, x, N, k, ends, tokens[j], want);
            for (int world = 2; world <= N_SLICES; world *= 2) {
                if (j > 0 && world != 4)
                    continue;
                multiply_on(world, &r, types[i / 2], w, x, N, k, ends, tokens[j], got);
                check_bits(got, want, size, dtype_name(types[i / 2]), tokens[j]);
            }
        }
        free(w);
        free(x);
    }
    rig_close(&r);
}

/* f16 weights take any finite x: rows and segments of magnitudes far beyond what f16 holds. */
Test(linear_cuda, f16_weights_take_activations_of_any_magnitude)
{
    enum { N = 20, K = 600, T = 40 };
    static const float scale[] = {1.0f, 0x1p100f, 0x1p-100f, 70000.0f, 0x1p-20f, 0x1p-140f};
    struct rig r = rig_open(NUMERICS_STRICT);
    float *w = in_rows(6, 0, N, K), *x = in_rows(7, 0, T, K);
    struct weight *m = load(&r, DT_F16, w, N, K, 0, K, 1, (const int32_t[]){K}, NULL);
    for (int32_t t = 0; t < T; t++)
        for (int32_t i = 0; i < K; i++)
            x[t * K + i] *= scale[(t + i / 300) % (int)ARRAY_LEN(scale)];
    for (int32_t batch = 1; batch <= T; batch += T - 1) {
        float *got = multiply(&r, m, x, K, 0, K, batch, N, true);
        for (int32_t i = 0; i < batch * N; i++) {
            double sum = 0, mag = 0, most = 0;
            for (int32_t c = 0; c < K; c++) {
                double a = x[i / N * K + c], p = a * (double)stored_f32(DT_F16, w[i % N * K + c]);
                sum += p;
                mag += fabs(p);
                most = fabs(a) > most ? fabs(a) : most;
            }
            /* rounding of x: relative, or below a scaled segment's normal range 2^-25 of its
             * unit */
            double bound = mag * (0x1p-11 + (K + 5) * 0x1p-24) + K * most * 0x1p-38 + 0x1p-148;
            cr_assert(fabs((double)got[i] - sum) <= bound, "row %d column %d: %g, expected %g",
                      i / N, i % N, (double)got[i], sum);
        }
        free(got);
    }
    r.ops->free_weight(r.be, m);
    free(w);
    free(x);
    rig_close(&r);
}

/* A NaN fills its row of the output, an infinity too where its weights are positive; other rows
 * keep their bits. */
Test(linear_cuda, nan_and_infinity_reach_their_row_and_no_other)
{
    enum { N = 19, K = 300, T = 40 };
    struct rig r = rig_open(NUMERICS_STRICT);
    float *w = in_rows(8, 0, N, K), *x = in_rows(9, 0, T, K);
    for (int32_t i = 0; i < N * K; i++)
        w[i] = fabsf(w[i]) + 0x1p-10f;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct weight *m = load(&r, types[i], w, N, K, 0, K, 1, (const int32_t[]){K}, NULL);
        for (int32_t batch = 6; batch <= T; batch += (T - 6) / 2) {
            float *want = multiply(&r, m, x, K, 0, K, batch, N, true);
            float nan_was = x[2 * K + 299], inf_was = x[4 * K + 7];
            x[2 * K + 299] = NAN;
            x[4 * K + 7] = INFINITY;
            float *got = multiply(&r, m, x, K, 0, K, batch, N, true);
            for (int32_t c = 0; c < N; c++) {
                cr_assert(isnan(got[2 * N + c]), "%s", dtype_name(types[i]));
                cr_assert(got[4 * N + c] == INFINITY, "%s", dtype_name(types[i]));
            }
            for (int32_t t = 0; t < batch; t++)
                if (t != 2 && t != 4)
                    check_bits(got + t * N, want + t * N, N, dtype_name(types[i]), batch);
            x[2 * K + 299] = nan_was;
            x[4 * K + 7] = inf_was;
            free(want);
            free(got);
        }
        r.ops->free_weight(r.be, m);
    }
    free(w);
    free(x);
    rig_close(&r);
}

/* A recorded product runs again on what is in its buffers then. */
static void check_recorded(enum numerics numerics, int32_t t)
{
    enum { N = 24, K = 100 };
    struct rig r = rig_open(numerics);
    struct graph *g = NULL;
    float *w = in_rows(10, 0, N, K), *x = in_rows(11, 0, t, K), *y = in_rows(12, 0, t, K);
    float *got = malloc((size_t)t * N * sizeof *got);
    struct weight *m = load(&r, DT_BF16, w, N, K, 0, K, 1, (const int32_t[]){K}, NULL);
    struct view vx = view_take(&r, t, K, K, 0), vo = view_take(&r, t, N, N, 0);
    cr_assert_eq(r.ops->write(r.be, vx, x), ST_OK);
    cr_assert_eq(r.ops->linear(r.be, m, vx, vo), ST_OK, "%s", status_detail());
    cr_assert_eq(r.ops->graph_begin(r.be), ST_OK, "%s", status_detail());
    cr_assert_eq(r.ops->linear(r.be, m, vx, vo), ST_OK, "%s", status_detail());
    cr_assert_eq(r.ops->graph_end(r.be, &g), ST_OK, "%s", status_detail());
    cr_assert_eq(r.ops->write(r.be, vx, y), ST_OK);
    cr_assert_eq(r.ops->graph_launch(r.be, g), ST_OK, "%s", status_detail());
    cr_assert_eq(r.ops->read(r.be, got, vo), ST_OK, "%s", status_detail());
    float *want = multiply(&r, m, y, K, 0, K, t, N, true);
    check_bits(got, want, (size_t)t * N, "recorded", t);
    r.ops->graph_free(r.be, g);
    r.ops->free(r.be, vx.buf);
    r.ops->free(r.be, vo.buf);
    r.ops->free_weight(r.be, m);
    free(w);
    free(x);
    free(y);
    free(got);
    free(want);
    rig_close(&r);
}

Test(linear_cuda, products_can_be_recorded)
{
    check_recorded(NUMERICS_STRICT, 3);
    check_recorded(NUMERICS_STRICT, 20);
    check_recorded(NUMERICS_STRICT, 50);
    check_recorded(NUMERICS_FAST, 50);
}

/* Few tokens are strict under "fast" too; more go to cuBLASLt, which is asked once for each shape,
 * bias, alignment and power of two of T. */
Test(linear_cuda, fast_asks_cublaslt_once_for_each_size)
{
    enum { N = 36, K = 200, MOST = 130 };
    struct rig fast = rig_open(NUMERICS_FAST), strict = rig_open(NUMERICS_STRICT);
    float *w = in_rows(13, 0, N, K), *x = in_rows(14, 0, MOST, K), *bias = in_rows(15, 0, 1, N);
    static const struct {
        int32_t t;
        bool bias, aligned;
        uint64_t asked;
    } steps[] = {
        {1, false, true, 0},   {32, false, true, 0},  {33, false, true, 1},  {64, false, true, 0},
        {40, false, true, 0},  {65, false, true, 1},  {100, true, true, 1},  {90, true, true, 0},
        {40, false, false, 1}, {50, false, false, 0}, {130, false, true, 1}, {33, false, true, 0},
    };
    const int32_t ends[] = {70, K};
    struct weight *m[2], *s[2];
    for (int b = 0; b < 2; b++) {
        m[b] = load(&fast, DT_BF16, w, N, K, 0, K, 2, ends, b ? bias : NULL);
        s[b] = load(&strict, DT_BF16, w, N, K, 0, K, 2, ends, b ? bias : NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        uint64_t before = emulator_lt_questions();
        int b = steps[i].bias;
        float *got = multiply(&fast, m[b], x, K, 0, K, steps[i].t, N, steps[i].aligned);
        float *want = multiply(&strict, s[b], x, K, 0, K, steps[i].t, N, true);
        cr_assert_eq(emulator_lt_questions() - before, steps[i].asked, "step %zu", i);
        for (int32_t j = 0; j < steps[i].t * N; j++)
            cr_assert_float_eq(got[j], want[j], 1e-4f, "step %zu element %d", i, j);
        if (steps[i].t <= 32)
            check_bits(got, want, (size_t)steps[i].t * N, "few tokens", steps[i].t);
        free(got);
        free(want);
    }
    for (int b = 0; b < 2; b++) {
        fast.ops->free_weight(fast.be, m[b]);
        strict.ops->free_weight(strict.be, s[b]);
    }
    free(w);
    free(x);
    free(bias);
    rig_close(&fast);
    rig_close(&strict);
}

/* f16 and f32 have no other way than the strict one. */
Test(linear_cuda, fast_is_strict_for_other_types)
{
    enum { N = 20, K = 90, T = 40 };
    struct rig fast = rig_open(NUMERICS_FAST), strict = rig_open(NUMERICS_STRICT);
    float *w = in_rows(16, 0, N, K), *x = in_rows(17, 0, T, K);
    for (size_t i = 0; i < 2; i++) {
        struct weight *m = load(&fast, types[i], w, N, K, 0, K, 1, (const int32_t[]){K}, NULL);
        struct weight *s = load(&strict, types[i], w, N, K, 0, K, 1, (const int32_t[]){K}, NULL);
        float *got = multiply(&fast, m, x, K, 0, K, T, N, true);
        float *want = multiply(&strict, s, x, K, 0, K, T, N, true);
        check_bits(got, want, T * N, dtype_name(types[i]), T);
        free(got);
        free(want);
        fast.ops->free_weight(fast.be, m);
        strict.ops->free_weight(strict.be, s);
    }
    free(w);
    free(x);
    rig_close(&fast);
    rig_close(&strict);
}
