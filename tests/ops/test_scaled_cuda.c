/* linear and embed of e4m3, NVFP4, nf4 and fp4 weights on the matrix units of the CUDA backend, on the host emulator:
 * against double precision, the bits of a row over every kernel, batch and number of ranks, weights and
 * activations that are no numbers, the scratch memory. */
#include "effort.h"
#include "ops/op_checks.h"
#include "ops/op_cuda.h"

#include "backends/cuda/cuda_backend.h"

static const enum dtype types[] = {DT_E4M3, DT_NVFP4, DT_NF4, DT_FP4};
/* One for each kernel and its edges. */
static const int32_t batches[] = {1, 3, 8, 9, 16, 17, 32, 33, 64, 65, 150};
enum { MOST = 150 };

static struct backend *open_gpu(enum activations a)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cuda", &(struct backend_config){.activations = a}), ST_OK, "%s",
                 status_detail());
    return be;
}

static void close_be(struct backend *be)
{
    backend_ops_of(be)->close(be);
}

static bool wanted(const struct op_case *c)
{
    return (c->dtype == DT_E4M3 || has_levels(c->dtype)) && c->variant == 0 && c->rows <= 200 &&
           (c->op == &op_linear || c->op == &op_embed);
}

Test(scaled_cuda, agrees_with_double_precision_alone_and_in_chunks)
{
    struct backend *be = open_gpu(ACTIVATIONS_AUTO);
    size_t n = 0;
    emulator_seed(20241);
    for (size_t i = 0; i < n_op_cases; i++) {
        struct op_case c = op_cases[i];
        if (!wanted(&c))
            continue;
        float *out = results(be, &c);
        c = with_halved_x(&c);
        check_reference(&c, out);
        check_chunks(be, &c, 1, out);
        check_chunks(be, &c, 5, out);
        free(out);
        n++;
    }
    cr_assert_gt(n, 30);
    close_be(be);
}

/* ---- matrices of a whole model, of which ranks have shares ---- */

struct matrix {
    enum dtype type;
    int32_t n, k;
    uint8_t *codes;  /* [n, k] */
    float *scale;    /* [n, blocks] */
    uint8_t *small;  /* [n, blocks] */
    float *x, *bias; /* [MOST, k], [n] */
};

static int32_t block_of(enum dtype t)
{
    return t == DT_E4M3 ? FP8_BLOCK : t == DT_NVFP4 ? 16 : t == DT_NF4 ? 64 : 192;
}

static struct matrix make(enum dtype t, int32_t n, int32_t k)
{
    struct matrix m = {.type = t, .n = n, .k = k};
    size_t n_scales = (size_t)n * (size_t)scale_blocks(block_of(t), 0, k);
    m.codes = malloc((size_t)n * (size_t)k);
    m.scale = malloc(n_scales * sizeof *m.scale);
    m.small = malloc(n_scales);
    m.x = in_rows(2, 0, MOST, k);
    m.bias = in_rows(3, 0, 1, n);
    for (int32_t i = 0; i < n * k; i++) {
        uint8_t e4m3 = (uint8_t)((uint32_t)i * 2654435761U >> 24);
        m.codes[i] = t == DT_E4M3 ? (e4m3 & 0x7f) == 0x7f ? 0 : e4m3 : e4m3 & 15;
    }
    for (size_t i = 0; i < n_scales; i++) {
        m.scale[i] = 0.01f + fabsf(in_f32(4, (int64_t)i, 0));
        m.small[i] = e4m3_of_f32(300.0f * in_f32(5, (int64_t)i, 1));
    }
    return m;
}

static void free_matrix(struct matrix *m)
{
    free(m->codes);
    free(m->scale);
    free(m->small);
    free(m->x);
    free(m->bias);
}

/* Columns [from, ends[n_slices - 1]) with slices that end there. */
static struct weight *load(struct backend *be, const struct matrix *m, int32_t from, int n_slices,
                           const int32_t *ends, bool bias)
{
    int32_t block = block_of(m->type);
    struct weight *w = NULL;
    struct weight_src src = {
        .name = "w", .cols = ends[n_slices - 1] - from, .n_parts = 1, .n_slices = n_slices};
    for (int i = 0; i < n_slices; i++)
        src.slice_end[i] = ends[i] - from;
    src.part[0] = (struct weight_part){.data = m->codes + from,
                                       .row_bytes = (size_t)m->k,
                                       .dtype = m->type,
                                       .rows = m->n,
                                       .skip = from % block,
                                       .block = block,
                                       .scale = m->scale + from / block,
                                       .small_scale = m->small + from / block,
                                       .scale_stride = (size_t)scale_blocks(block, 0, m->k),
                                       .factor = 0.03f,
                                       .divisor = 1.0f,
                                       .bias = bias ? m->bias : NULL,
                                       .bias_dtype = DT_F32};
    cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &w), ST_OK, "%s", status_detail());
    cr_assert(w->scaled.mma == !be->exact_x);
    return w;
}

/* x [T, k] from column `from` on times w [n, k of w]; out [T, n], freed by the caller. */
static float *multiply(struct backend *be, const struct weight *w, const struct matrix *m,
                       int32_t from, int32_t T)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct view x = {.rows = T, .cols = w->k, .stride = w->k + T % 4, .dtype = DT_F32};
    struct view out = {.rows = T, .cols = w->n, .stride = w->n + 3, .dtype = DT_F32};
    float *part = malloc(((size_t)T * (size_t)w->k + 1) * sizeof *part);
    float *got = malloc((size_t)T * (size_t)w->n * sizeof *got);
    for (int32_t t = 0; t < T; t++)
        memcpy(part + (size_t)t * (size_t)w->k, m->x + (size_t)t * (size_t)m->k + from,
               (size_t)w->k * sizeof *part);
    cr_assert_eq(op->alloc(be, (size_t)T * (size_t)x.stride * 4 + 64, MEM_DEVICE, &x.buf), ST_OK);
    cr_assert_eq(op->alloc(be, (size_t)T * (size_t)out.stride * 4, MEM_DEVICE, &out.buf), ST_OK);
    cr_assert_eq(op->write(be, x, part), ST_OK);
    cr_assert_eq(op->linear(be, w, x, out), ST_OK, "%s", status_detail());
    cr_assert_eq(op->read(be, got, out), ST_OK);
    op->free(be, x.buf);
    op->free(be, out.buf);
    free(part);
    return got;
}

static void check_bits(const float *got, const float *want, size_t n, enum dtype t, int32_t T)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of_f32(got[i]) != bits_of_f32(want[i]))
            cr_assert_fail("%s, %d tokens: element %zu: %a, expected %a", dtype_name(t), T, i,
                           (double)got[i], (double)want[i]);
}

/* Row t of any number of tokens has the bits that it has among MOST. */
static void check_batches(int32_t n, int32_t k, int n_slices, const int32_t *ends)
{
    struct backend *be = open_gpu(ACTIVATIONS_AUTO);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct matrix m = make(types[i], n, k);
        struct weight *w = load(be, &m, 0, n_slices, ends, true);
        emulator_seed(0);
        float *want = multiply(be, w, &m, 0, MOST);
        emulator_seed(911);
        for (size_t b = 0; b < ARRAY_LEN(batches); b++) {
            float *got = multiply(be, w, &m, 0, batches[b]);
            check_bits(got, want, (size_t)batches[b] * (size_t)n, types[i], batches[b]);
            free(got);
        }
        free(want);
        backend_ops_of(be)->free_weight(be, w);
        free_matrix(&m);
    }
    close_be(be);
}

Test(scaled_cuda, a_row_has_the_same_bits_in_every_batch)
{
    check_batches(75, 600, 1, (const int32_t[]){600});
}

/* Slices that begin in a block, that are empty, and that have more segments than a block has warps. */
Test(scaled_cuda, a_row_has_the_same_bits_in_every_batch_with_slices)
{
    check_batches(70, 610, 8, (const int32_t[]){70, 71, 71, 300, 310, 400, 600, 610});
    if (!reduced())
        check_batches(40, 4700, 2, (const int32_t[]){4300, 4700});
}

/* Wide enough for large tiles, and more rows than the device computes at once. */
Test(scaled_cuda, large_tiles)
{
    check_batches(260, 200, 2, (const int32_t[]){70, 200});
}

/* Blocks of tokens, of which the scratch memory holds few. */
Test(scaled_cuda, more_tokens_than_the_scratch_memory_holds)
{
    static const int32_t ends[] = {100, 300};
    struct backend *be = open_gpu(ACTIVATIONS_AUTO);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct matrix m = make(types[i], 30, 300);
        struct weight *w = load(be, &m, 0, 2, ends, true);
        size_t was = be->scratch->bytes;
        float *want = multiply(be, w, &m, 0, MOST);
        be->scratch->bytes = 45U << 10;
        uint64_t before = emulator_launches();
        float *got = multiply(be, w, &m, 0, MOST);
        cr_assert_gt(emulator_launches() - before, 4, "it fits");
        check_bits(got, want, MOST * 30, types[i], MOST);
        be->scratch->bytes = was;
        free(want);
        free(got);
        backend_ops_of(be)->free_weight(be, w);
        free_matrix(&m);
    }
    close_be(be);
}

/* World ranks with 8 / world slices each, added pairwise: out [T, n]. */
static float *multiply_on(struct backend *be, int world, const struct matrix *m,
                          const int32_t *ends, int32_t T)
{
    int per = N_SLICES / world;
    float *part[N_SLICES];
    for (int r = 0; r < world; r++) {
        int32_t from = r ? ends[r * per - 1] : 0;
        struct weight *w = load(be, m, from, per, ends + r * per, false);
        part[r] = multiply(be, w, m, from, T);
        backend_ops_of(be)->free_weight(be, w);
    }
    return sum_of_ranks(part, world, (size_t)T * (size_t)m->n);
}

/* Slices of whole blocks, and borders that cut blocks. */
Test(scaled_cuda, every_number_of_ranks_gives_the_same_bits)
{
    static const int32_t ends[][N_SLICES] = {{128, 256, 384, 512, 640, 768, 896, 1024},
                                             {64, 128, 192, 256, 320, 384, 448, 512},
                                             {61, 123, 123, 401, 463, 465, 530, 581}};
    static const int32_t tokens[] = {1, 12, 20, 40};
    struct backend *be = open_gpu(ACTIVATIONS_AUTO);
    for (size_t i = 0; i < ARRAY_LEN(ends) * ARRAY_LEN(types); i++) {
        const int32_t *e = ends[i / ARRAY_LEN(types)];
        struct matrix m = make(types[i % ARRAY_LEN(types)], 40, e[N_SLICES - 1]);
        for (size_t j = 0; j < ARRAY_LEN(tokens); j++) {
            float *want = multiply_on(be, 1, &m, e, tokens[j]);
            for (int world = 2; world <= N_SLICES; world *= 2) {
                if (j > 0 && world != 4)
                    continue;
                float *got = multiply_on(be, world, &m, e, tokens[j]);
                check_bits(got, want, (size_t)tokens[j] * 40, m.type, tokens[j]);
                free(got);
            }
            free(want);
        }
        free_matrix(&m);
    }
    close_be(be);
}

/* Tokens of magnitudes far beyond f16 are as exact as others: powers of two change no bit. */
Test(scaled_cuda, activations_of_any_magnitude)
{
    static const float powers[] = {0x1p80f, 0x1p-80f, 0x1p20f};
    static const int32_t ends[] = {300};
    struct backend *be = open_gpu(ACTIVATIONS_AUTO);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct matrix m = make(types[i], 20, 300);
        struct weight *w = load(be, &m, 0, 1, ends, false);
        for (int32_t T = 3; T <= 40; T += 37) {
            float *want = multiply(be, w, &m, 0, T);
            for (size_t p = 0; p < ARRAY_LEN(powers); p++) {
                for (int32_t j = 0; j < T * 300; j++)
                    m.x[j] *= powers[p];
                float *got = multiply(be, w, &m, 0, T);
                for (int32_t j = 0; j < T * 20; j++)
                    cr_assert_eq(got[j], want[j] * powers[p], "%s element %d", dtype_name(types[i]),
                                 j);
                for (int32_t j = 0; j < T * 300; j++)
                    m.x[j] /= powers[p];
                free(got);
            }
            free(want);
        }
        backend_ops_of(be)->free_weight(be, w);
        free_matrix(&m);
    }
    close_be(be);
}

/* NaN and infinity of a token reach its row alone; NaN of a weight its column alone. */
Test(scaled_cuda, what_is_no_number_stays_so)
{
    enum { N = 19, K = 300, T = 40, COLUMN = 7 };
    static const int32_t ends[] = {K};
    struct backend *be = open_gpu(ACTIVATIONS_AUTO);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct matrix m = make(types[i], N, K);
        size_t n_scales = (size_t)scale_blocks(block_of(types[i]), 0, K);
        struct weight *w = load(be, &m, 0, 1, ends, false);
        if (types[i] == DT_E4M3)
            m.codes[COLUMN * K + 200] = 0xff;
        else if (types[i] == DT_NVFP4)
            m.small[COLUMN * n_scales + 3] = 0x7f;
        else
            m.scale[COLUMN * n_scales + 1] = NAN;
        struct weight *broken = load(be, &m, 0, 1, ends, false);
        for (int32_t batch = 6; batch <= T; batch += T - 6) {
            float *want = multiply(be, w, &m, 0, batch);
            float *got = multiply(be, broken, &m, 0, batch);
            for (int32_t j = 0; j < batch * N; j++)
                cr_assert(j % N == COLUMN ? isnan(got[j])
                                          : bits_of_f32(got[j]) == bits_of_f32(want[j]),
                          "%s element %d", dtype_name(types[i]), j);
            free(got);
            m.x[2 * K + 299] = NAN;
            m.x[4 * K + 5] = INFINITY;
            got = multiply(be, w, &m, 0, batch);
            for (int32_t j = 0; j < batch * N; j++)
                if (j / N == 2)
                    cr_assert(isnan(got[j]), "%s element %d", dtype_name(types[i]), j);
                else if (j / N == 4)
                    cr_assert(!isfinite(got[j]), "%s element %d", dtype_name(types[i]), j);
                else
                    cr_assert_eq(bits_of_f32(got[j]), bits_of_f32(want[j]), "%s element %d",
                                 dtype_name(types[i]), j);
            m.x[2 * K + 299] = m.x[4 * K + 5] = 0.25f;
            free(got);
            free(want);
        }
        backend_ops_of(be)->free_weight(be, w);
        backend_ops_of(be)->free_weight(be, broken);
        free_matrix(&m);
    }
    close_be(be);
}

/* With --activations f32 they are multiplied as the CPU does (test_ops_cuda.c); the two orders differ. */
Test(scaled_cuda, activations_f32_is_another_order)
{
    static const int32_t ends[] = {300};
    struct backend *fast = open_gpu(ACTIVATIONS_AUTO), *exact = open_gpu(ACTIVATIONS_F32);
    struct backend_info info;
    backend_ops_of(fast)->info(fast, &info);
    cr_assert_eq(info.activations, ACTIVATIONS_AUTO);
    backend_ops_of(exact)->info(exact, &info);
    cr_assert_eq(info.activations, ACTIVATIONS_F32);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct matrix m = make(types[i], 33, 300);
        struct weight *a = load(fast, &m, 0, 1, ends, false),
                      *b = load(exact, &m, 0, 1, ends, false);
        float *of_a = multiply(fast, a, &m, 0, 5), *of_b = multiply(exact, b, &m, 0, 5);
        cr_assert(memcmp(of_a, of_b, 5 * 33 * sizeof *of_a) != 0);
        free(of_a);
        free(of_b);
        backend_ops_of(fast)->free_weight(fast, a);
        backend_ops_of(exact)->free_weight(exact, b);
        free_matrix(&m);
    }
    close_be(fast);
    close_be(exact);
}
