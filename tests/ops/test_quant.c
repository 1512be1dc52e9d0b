/* Quantised weights: values bit for bit those of the format's description; products of the plain
 * path within what 8 bits of x allow of double precision, and the same bits on every instruction
 * set, for shares that begin inside a block, mixed parts, slices, rows and threads.
 * With QUANT_CUDA the CUDA backend (on the host emulator) against the plain path in place of the
 * other instruction sets. */
#include <math.h>
#include <stdlib.h>

#include "backends/backend.h"
#include "common/quant.h"
#include "data.h"
#include "isas.h"
#include "quant_blocks.h"

static const enum dtype types[] = {
    DT_Q4_0,           DT_Q4_1,      DT_Q5_0,          DT_Q5_1,          DT_Q8_0,
    DT_Q4_K,           DT_Q5_K,      DT_Q6_K,          DT_Q2_K,          DT_Q3_K,
    DT_IQ4_NL,         DT_IQ4_XS,    DT_MXFP4,         DT_INT4_BF16,     DT_INT4_ZERO_F16,
    DT_INT4_ZERO_BF16, DT_INT8_BF16, DT_INT8_ZERO_F16, DT_INT8_ZERO_BF16};

#ifdef QUANT_CUDA
static const char *const targets[] = {"plain", "cuda"};
#else
#define targets all_isas
#endif

/* NULL: the machine cannot execute it. */
static struct backend *open_target(const char *name, int threads)
{
    struct backend *be = NULL;
    if (strcmp(name, "cuda") != 0)
        return open_isa(name, threads);
    cr_assert_eq(backend_open(&be, "cuda", &(struct backend_config){0}), ST_OK, "%s",
                 status_detail());
    return be;
}

static void *read_own(const char *name, const char *ending, size_t *n)
{
    char path[64];
    snprintf(path, sizeof path, "quant/%s.%s", name, ending);
    const char *full = own_data(path);
    cr_assert_not_null(full, "%s", path);
    FILE *f = fopen(full, "rb");
    void *data = malloc(65536);
    cr_assert(f && data);
    *n = fread(data, 1, 65536, f);
    fclose(f);
    return data;
}

Test(quant, values_of_the_description)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const char *name = dtype_name(types[i]);
        const struct quant_form *f = quant_form(types[i]);
        size_t n_bytes, n_values;
        void *blocks = read_own(name, "blocks", &n_bytes), *want = read_own(name, "f32", &n_values);
        size_t n = n_bytes / (size_t)f->n_bytes * (size_t)f->block;
        float *got = malloc(n * sizeof *got);
        cr_assert(n >= 6 * 32 && n * sizeof *got == n_values, "%s", name);
        quant_expand(types[i], blocks, n, got);
        for (size_t k = 0; k < n; k++)
            cr_assert_eq(bits_of_f32(got[k]), bits_of_f32(((float *)want)[k]),
                         "%s[%zu]: %a, not %a", name, k, (double)got[k],
                         (double)((float *)want)[k]);
        free(blocks);
        free(want);
        free(got);
    }
    cr_assert_null(quant_form(DT_F16));
    cr_assert_null(quant_form(DT_N));
}

struct product {
    enum dtype type[3];
    int32_t n[3], k, first, cols; /* a share of columns [first, first + cols) of k */
    int n_parts, n_slices;
    bool bias;
};

#ifdef QUANT_CUDA
enum { MANY = 70 }; /* more than a tile of 64 */
#else
enum { MANY = 150 }; /* rows of x: more than a block of 128 */
#endif

static float x_at(size_t i)
{
    return (float)((i * 37 + 11) % 101) * 0.013f - 0.6f;
}

static float bias_at(int32_t n)
{
    return (float)(n % 7) - 3.0f;
}

static struct view view_of(struct backend *be, int32_t rows, int32_t cols, enum dtype t)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    cr_assert_eq(backend_ops_of(be)->alloc(be, (size_t)rows * (size_t)cols * 4, MEM_DEVICE, &v.buf),
                 ST_OK);
    return v;
}

/* out [rows, n] = rows of x through w. */
static void product(struct backend *be, const struct weight *w, const float *x, int32_t rows,
                    int32_t k, int32_t n, float *out)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct view in = view_of(be, rows, k, DT_F32), to = view_of(be, rows, n, DT_F32);
    cr_assert_eq(op->write(be, in, x), ST_OK);
    cr_assert_eq(op->linear(be, w, in, to), ST_OK);
    cr_assert_eq(op->read(be, out, to), ST_OK);
    op->free(be, in.buf);
    op->free(be, to.buf);
}

/* out [3, k]: the embedding of rows 0, n - 1 and of an id outside. */
static void embedding(struct backend *be, const struct weight *w, int32_t k, int32_t n, float *out)
{
    const struct backend_ops *op = backend_ops_of(be);
    int32_t id[3] = {0, n - 1, n};
    struct view ids = view_of(be, 3, 1, DT_I32), e = view_of(be, 3, k, DT_F32);
    cr_assert_eq(op->write(be, ids, id), ST_OK);
    cr_assert_eq(op->embed(be, w, 0, ids, e), ST_OK);
    cr_assert_eq(op->read(be, out, e), ST_OK);
    op->free(be, ids.buf);
    op->free(be, e.buf);
}

/* The parts' blocks, their values, and the source of the share. */
struct matrix {
    unsigned char *blocks[3];
    float *wide[3], bias[3][128];
    struct weight_src src;
    int32_t n;
};

static struct matrix make_matrix(const struct product *p)
{
    struct matrix m = {
        .src = {.name = "test", .cols = p->cols, .n_parts = p->n_parts, .n_slices = p->n_slices}};
    for (int i = 0; i < p->n_slices; i++)
        m.src.slice_end[i] = (int32_t)((int64_t)p->cols * (i + 1) / p->n_slices);
    for (int i = 0; i < p->n_parts; i++) {
        const struct quant_form *f = quant_form(p->type[i]);
        size_t size = (size_t)p->n[i] * (size_t)p->k, row = (size_t)(p->k / f->block);
        m.blocks[i] = quant_random_blocks(p->type[i], size, 0.01f, 99U + (uint32_t)i);
        m.wide[i] = malloc(size * sizeof(float));
        cr_assert(m.blocks[i] && m.wide[i]);
        quant_expand(p->type[i], m.blocks[i], size, m.wide[i]);
        for (int32_t r = 0; r < p->n[i]; r++)
            m.bias[i][r] = bias_at(m.n + r);
        m.src.part[i] = (struct weight_part){.data = m.blocks[i] + (size_t)(p->first / f->block) *
                                                                       (size_t)f->n_bytes,
                                             .row_bytes = row * (size_t)f->n_bytes,
                                             .dtype = p->type[i],
                                             .skip = p->first % f->block,
                                             .rows = p->n[i],
                                             .bias_dtype = DT_F32};
        m.n += p->n[i];
    }
    return m;
}

static void free_matrix(struct matrix *m)
{
    for (int i = 0; i < 3; i++) {
        free(m->blocks[i]);
        free(m->wide[i]);
    }
}

/* Values of row n of the share. */
static const float *values_of(const struct product *p, const struct matrix *m, int32_t n)
{
    int i = 0;
    while (n >= p->n[i])
        n -= p->n[i++];
    return m->wide[i] + (size_t)n * (size_t)p->k + p->first;
}

/* An output and how far x in 8 bits may be from it: half a step for each element of a run. */
static double expected(const struct product *p, const struct matrix *m, const float *x, int32_t n,
                       double *bound)
{
    const float *w = values_of(p, m, n);
    double sum = p->bias ? (double)bias_at(n) : 0.0, magnitude = fabs(sum);
    *bound = 0;
    for (int32_t k = 0, end; k < p->cols; k = end) { /* one run */
        int slice = 0;
        double amax = 0, weights = 0;
        while (m->src.slice_end[slice] <= k)
            slice++;
        end = ((p->first + k) / 32 + 1) * 32 - p->first;
        end = end < m->src.slice_end[slice] ? end : m->src.slice_end[slice];
        for (int32_t i = k; i < end; i++) {
            double product = (double)w[i] * (double)x[i];
            sum += product;
            magnitude += fabs(product);
            amax = fmax(amax, fabs((double)x[i]));
            weights += fabs((double)w[i]);
        }
        *bound += amax / 254 * weights;
    }
    /* rounding of f32, also where a minimum nearly cancels: |q scale| + |min| < 3 |amax| sum |w| */
    *bound = *bound * (1 + 1e-4) + (magnitude + 254 * *bound) * p->cols * 0x1p-24;
    return sum;
}

static void agrees(const struct product *p, const struct matrix *m, const float *x, int32_t rows,
                   const float *got)
{
    for (int32_t r = 0; r < rows; r++)
        for (int32_t n = 0; n < m->n; n++) {
            double bound, want = expected(p, m, x + (size_t)r * (size_t)p->cols, n, &bound);
            double v = (double)got[(size_t)r * (size_t)m->n + (size_t)n];
            cr_assert(fabs(v - want) <= bound, "%s k %d + %d: row %d column %d: %g, not %g +- %g",
                      dtype_name(p->type[0]), p->first, p->cols, r, n, v, want, bound);
        }
}

static void same_floats(const struct product *p, const char *isa, const char *what,
                        const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(bits_of_f32(got[i]), bits_of_f32(want[i]),
                     "%s %s k %d + %d slices %d: %s %zu: %a, not %a", isa, dtype_name(p->type[0]),
                     p->first, p->cols, p->n_slices, what, i, (double)got[i], (double)want[i]);
}

/* Rows together, alone and in small numbers: all from the start of x. */
static void same_on(struct backend *be, const char *isa, const struct product *p,
                    const struct matrix *m, const struct weight *w, const float *x, int32_t rows,
                    const float *want)
{
#ifdef QUANT_CUDA /* one for each kernel and its edges */
    const int32_t counts[] = {1, 3, 9, 32, rows};
#else
    const int32_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 19, 21, 23, 25, 27, 29, 31, 32, rows};
#endif
    float *got = malloc((size_t)rows * (size_t)m->n * sizeof *got);
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        int32_t c = counts[i] < rows ? counts[i] : rows;
        product(be, w, x, c, p->cols, m->n, got);
        same_floats(p, isa, "output", got, want, (size_t)c * (size_t)m->n);
    }
    free(got);
}

/* The CUDA backend has no table of several types. */
static bool refuses_embedding(const char *target, const struct product *p)
{
    bool mixed = false;
    for (int i = 1; i < p->n_parts; i++)
        mixed |= p->type[i] != p->type[0];
    return mixed && strcmp(target, "cuda") == 0;
}

/* Bits of plain on every instruction set; those of plain near double precision. */
static void check_product(const struct product *p, int32_t rows)
{
    struct matrix m = make_matrix(p);
    size_t n_out = (size_t)rows * (size_t)m.n, n_in = (size_t)rows * (size_t)p->cols;
    float *want = malloc(n_out * sizeof *want), *x = malloc(n_in * sizeof *x);
    float *e = malloc(3 * (size_t)p->cols * sizeof *e), *zero = calloc((size_t)p->cols, sizeof *e);
    int32_t n_isas = 0;
    for (int i = 0; i < p->n_parts; i++)
        m.src.part[i].bias = p->bias ? m.bias[i] : NULL;
    for (size_t i = 0; i < n_in; i++)
        x[i] = x_at(i);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct backend *be = open_target(targets[i], i % 2 ? 2 : 1);
        struct weight *w;
        if (!be)
            continue; /* plain is on each machine and the first */
        cr_assert_eq(backend_ops_of(be)->load_weight(be, &m.src, &w), ST_OK, "%s", status_detail());
        if (n_isas++ == 0) {
            product(be, w, x, rows, p->cols, m.n, want);
            agrees(p, &m, x, rows, want);
        }
        same_on(be, targets[i], p, &m, w, x, rows, want);
        if (refuses_embedding(targets[i], p)) {
            backend_ops_of(be)->free_weight(be, w);
            backend_ops_of(be)->close(be);
            continue;
        }
        embedding(be, w, p->cols, m.n, e);
        for (int j = 0; j < 2; j++)
            for (int32_t k = 0; k < p->cols; k++) {
                float value = values_of(p, &m, j ? m.n - 1 : 0)[k] + 0.0f;
                same_floats(p, targets[i], "value", &e[j * p->cols + k], &value, 1);
            }
        same_floats(p, targets[i], "value", e + 2 * p->cols, zero, (size_t)p->cols);
        backend_ops_of(be)->free_weight(be, w);
        backend_ops_of(be)->close(be);
    }
    cr_assert_geq(n_isas, 1);
    free_matrix(&m);
    free(want);
    free(x);
    free(e);
    free(zero);
}

Test(quant, products_of_every_type)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        check_product(&(struct product){{types[i]}, {70}, 512, 0, 512, 1, 8, true}, 20);
        check_product(&(struct product){{types[i]}, {33}, 256, 0, 256, 1, 1, false}, MANY);
        check_product(&(struct product){{types[i]}, {5}, 2560, 0, 2560, 1, 2, false}, 20);
    }
}

#ifndef QUANT_CUDA
/* Says which instruction sets of this family the other tests could not compare. */
Test(quant, instruction_sets_not_compared)
{
    char left_out[128] = "";
    for (size_t i = 0; i < ARRAY_LEN(all_isas); i++) {
        size_t n = strlen(left_out);
#if defined(__x86_64__)
        bool ours = strncmp(all_isas[i], "neon", 4) != 0;
#else
        bool ours = strncmp(all_isas[i], "neon", 4) == 0 || strcmp(all_isas[i], "plain") == 0;
#endif
        if (!ours)
            continue;
        struct backend *be = open_isa(all_isas[i], 1);
        close_isa(be);
        if (!be)
            snprintf(left_out + n, sizeof left_out - n, " %s", all_isas[i]);
    }
    if (left_out[0])
        cr_skip_test("this machine lacks:%s", left_out);
}
#endif

Test(quant, shares_that_begin_inside_a_block)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        check_product(&(struct product){{types[i]}, {40}, 512, 264, 100, 1, 2, true}, 20);
        check_product(&(struct product){{types[i]}, {5}, 256, 9, 7, 1, 1, false}, 20);
        check_product(&(struct product){{types[i]}, {5}, 256, 250, 6, 1, 4, false}, 20);
        check_product(&(struct product){{types[i]}, {5}, 256, 250, 3, 1, 8, true},
                      20); /* empty slices */
        check_product(&(struct product){{types[i]}, {5}, 768, 200, 500, 1, 8, false}, 20);
    }
}

/* Every bit of every code set: the greatest sums that kernels keep in few bits. */
static void set_codes(enum dtype t, unsigned char *blocks, size_t n_blocks)
{
    const struct quant_form *f = quant_form(t);
    size_t at = t == DT_Q6_K ? 208 : t == DT_Q3_K ? 108 : t == DT_Q2_K ? 80 : 0;
    size_t n = f->has_zero ? 3 : f->has_min ? 4 : 2; /* bytes of d and d_min */
    for (size_t b = 0; b < n_blocks; b++, blocks += f->n_bytes) {
        memset(blocks, 0xff, at);
        memset(blocks + at + n, 0xff, (size_t)f->n_bytes - at - n);
    }
}

Test(quant, greatest_codes_and_activations)
{
    enum { K = 512, N = 40, ROWS = 9 };
    float x[ROWS * K], want[ROWS * N];
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = i / K % 3 == 0 ? 1.0f : i / K % 3 == 1 ? -1.0f : i % 8 < 4 ? 1.0f : -1.0f;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct product p = {{types[i]}, {N}, K, 0, K, 1, 1, false};
        struct matrix m = make_matrix(&p);
        set_codes(types[i], m.blocks[0], (size_t)N * K / (size_t)quant_form(types[i])->block);
        for (size_t j = 0; j < ARRAY_LEN(targets); j++) {
            struct backend *be = open_target(targets[j], 1);
            struct weight *w;
            if (!be)
                continue;
            cr_assert_eq(backend_ops_of(be)->load_weight(be, &m.src, &w), ST_OK);
            if (j == 0)
                product(be, w, x, ROWS, K, N, want);
            same_on(be, targets[j], &p, &m, w, x, ROWS, want);
            backend_ops_of(be)->free_weight(be, w);
            close_isa(be);
        }
        free_matrix(&m);
    }
}

Test(quant, parts_of_several_types)
{
    check_product(
        &(struct product){{DT_Q4_K, DT_Q4_K, DT_Q6_K}, {64, 32, 32}, 256, 0, 256, 3, 1, true}, 20);
    check_product(
        &(struct product){{DT_Q8_0, DT_Q4_0, DT_Q5_1}, {3, 50, 21}, 256, 40, 111, 3, 2, true}, 20);
    check_product(&(struct product){{DT_Q5_K, DT_Q5_K}, {37, 64}, 512, 0, 512, 2, 1, true}, 20);
}

/* A run that is not finite makes its whole row NaN, and no other row; runs too small to be divided
 * by are zero. */
Test(quant, rows_that_are_not_finite_or_tiny)
{
    struct product p = {{DT_Q4_K, DT_Q6_K}, {40, 30}, 256, 0, 256, 2, 4, true};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct backend *be = open_target(targets[i], 1);
        struct weight *w;
        if (!be)
            continue;
        struct matrix m = make_matrix(&p);
        float x[5 * 256], out[5 * 70];
        for (int k = 0; k < 5 * 256; k++)
            x[k] = k < 4 * 256 ? x_at((size_t)k) : 1e-38f;
        x[100] = NAN;
        x[256 + 3] = INFINITY;
        x[512 + 255] = -INFINITY;
        for (int j = 0; j < p.n_parts; j++)
            m.src.part[j].bias = m.bias[j];
        cr_assert_eq(backend_ops_of(be)->load_weight(be, &m.src, &w), ST_OK);
        for (int32_t rows = 1; rows <= 5; rows += 4) /* also alone */
            for (int32_t r = 0; r < 5; r += rows) {
                product(be, w, x + r * 256, rows, 256, 70, out + r * 70);
                for (int32_t n = r * 70; n < (r + rows) * 70; n++) {
                    cr_assert_eq(isnan(out[n]) != 0, n / 70 < 3, "%s row %d: %g", targets[i],
                                 n / 70, (double)out[n]);
                    if (n / 70 == 4)
                        cr_assert_eq(out[n], bias_at(n % 70));
                }
            }
        backend_ops_of(be)->free_weight(be, w);
        backend_ops_of(be)->close(be);
        free_matrix(&m);
    }
}

/* The bytes of a matrix are about those of the file. */
Test(quant, packed_size)
{
    struct backend *be;
    cr_assert_eq(backend_open(&be, "cpu", &(struct backend_config){.threads = 1}), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const struct quant_form *f = quant_form(types[i]);
        struct weight_src src = {
            .name = "m", .cols = 2048, .n_parts = 1, .n_slices = 1, .slice_end = {2048}};
        src.part[0] = (struct weight_part){.dtype = types[i], .rows = 1024};
        double file = 2048.0 * 1024 / f->block * f->n_bytes;
        double packed = (double)backend_ops_of(be)->weight_bytes(be, &src);
        /* the 16 scales of Q3_K have 8 bits, not 6; the exponents of MXFP4 16, not 8 */
        double most = types[i] == DT_Q3_K ? 1.04 : types[i] == DT_MXFP4 ? 1.06 : 1.03;
        cr_assert(packed <= most * file + 4096, "%s: %g bytes, in the file %g",
                  dtype_name(types[i]), packed, file);
    }
    backend_ops_of(be)->close(be);
}

Test(quant, what_cannot_be_loaded)
{
    struct backend *be;
    struct weight *w;
    unsigned char bytes[144] = {0};
    cr_assert_eq(backend_open(&be, "cpu", &(struct backend_config){.threads = 1}), ST_OK);
    struct weight_src src = {
        .name = "norm", .vector = true, .cols = 32, .n_parts = 1, .n_slices = 1};
    src.slice_end[0] = 32;
    src.part[0] = (struct weight_part){.data = bytes, .row_bytes = 34, .dtype = DT_Q8_0, .rows = 1};
    cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &w), ST_UNSUPPORTED);
    src.vector = false;
    src.part[0].skip = 32;
    cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &w), ST_RANGE);
    src.part[0].skip = -1;
    cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &w), ST_RANGE);
    backend_ops_of(be)->close(be);
}

#ifndef QUANT_CUDA
/* Every code of e4m3 in two columns, and an odd third one: the values of the definition on every
 * instruction set. */
Test(quant, codes_of_e4m3)
{
    enum { N = 256, K = 3, ROWS = 5 };
    static const float x[ROWS * K] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 0, 1, 2, 4};
    uint8_t code[N][K];
    float scale[N], out[ROWS * N];
    for (int n = 0; n < N; n++) {
        for (int k = 0; k < K; k++)
            code[n][k] = (uint8_t)n;
        scale[n] = 0.7f + (float)n * 0.01f;
    }
    struct weight_src src = {
        .name = "codes", .cols = K, .n_parts = 1, .n_slices = 1, .slice_end = {K}};
    src.part[0] = (struct weight_part){.data = code,
                                       .row_bytes = K,
                                       .dtype = DT_E4M3,
                                       .rows = N,
                                       .scale = scale,
                                       .scale_stride = 1};
    for (size_t i = 0; i < ARRAY_LEN(all_isas); i++) {
        struct backend *be = open_isa(all_isas[i], 1);
        struct weight *w;
        if (!be)
            continue;
        cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &w), ST_OK);
        for (int32_t rows = 1; rows <= ROWS; rows += ROWS - 1)
            for (int32_t r = 0; r < ROWS; r += rows)
                product(be, w, x + r * K, rows, K, N, out + r * N);
        for (int r = 0; r < ROWS; r++)
            for (int n = 0; n < N; n++) {
                float value = f32_of_e4m3((uint8_t)n) * scale[n], want = 0;
                for (int k = 0; k < K; k++)
                    want = fmaf(x[r * K + k], value, want);
                cr_assert(isnan(want) ? isnan(out[r * N + n]) : out[r * N + n] == want,
                          "%s row %d code %d: %g, not %g", all_isas[i], r, n,
                          (double)out[r * N + n], (double)want);
            }
        backend_ops_of(be)->free_weight(be, w);
        close_isa(be);
    }
}
#endif
