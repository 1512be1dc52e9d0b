/* Quantised weights: values bit for bit those of the format's description; products bit for bit
 * those of the same values stored in f32, on every instruction set, for shares that begin inside a
 * block, mixed parts, slices, rows and threads. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "backends/backend.h"
#include "common/quant.h"
#include "data.h"
#include "quant_blocks.h"

static const enum dtype types[] = {DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q8_0,   DT_Q4_K,
                                   DT_Q5_K, DT_Q6_K, DT_Q2_K, DT_Q3_K, DT_IQ4_NL, DT_IQ4_XS};
static const char *const isas[] = {"plain", "avx2", "avx512", "neon"};

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
};

static struct view view_of(struct backend *be, int32_t rows, int32_t cols, enum dtype t)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    cr_assert_eq(backend_ops_of(be)->alloc(be, (size_t)rows * (size_t)cols * 4, MEM_DEVICE, &v.buf),
                 ST_OK);
    return v;
}

/* out [rows, N], then the embedding of rows 0, N - 1 and of an id outside. */
static float *run(struct backend *be, const struct weight_src *src, int32_t n, int32_t rows)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct weight *w;
    size_t n_out = (size_t)rows * (size_t)n, n_in = (size_t)rows * (size_t)src->cols;
    float *x = malloc(n_in * sizeof *x), *out = calloc(n_out + 3 * (size_t)src->cols, sizeof *out);
    int32_t id[3] = {0, n - 1, n};
    for (size_t i = 0; i < n_in; i++)
        x[i] = (float)((i * 37 + 11) % 101) * 0.013f - 0.6f;
    cr_assert_eq(op->load_weight(be, src, &w), ST_OK, "%s", status_text());
    struct view in = view_of(be, rows, src->cols, DT_F32), to = view_of(be, rows, n, DT_F32);
    struct view ids = view_of(be, 3, 1, DT_I32), e = view_of(be, 3, src->cols, DT_F32);
    cr_assert_eq(op->write(be, in, x), ST_OK);
    cr_assert_eq(op->write(be, ids, id), ST_OK);
    cr_assert_eq(op->linear(be, w, in, to), ST_OK);
    cr_assert_eq(op->embed(be, w, 0, ids, e), ST_OK);
    cr_assert_eq(op->read(be, out, to), ST_OK);
    cr_assert_eq(op->read(be, out + n_out, e), ST_OK);
    op->free_weight(be, w);
    op->free(be, in.buf);
    op->free(be, to.buf);
    op->free(be, ids.buf);
    op->free(be, e.buf);
    free(x);
    return out;
}

/* The same share of the matrix as stored (wide NULL) or from its values in f32. */
static struct weight_src source(const struct product *p, unsigned char *const *rows,
                                float *const *wide)
{
    struct weight_src src = {
        .name = "test", .cols = p->cols, .n_parts = p->n_parts, .n_slices = p->n_slices};
    for (int i = 0; i < p->n_slices; i++)
        src.slice_end[i] = (int32_t)((int64_t)p->cols * (i + 1) / p->n_slices);
    for (int i = 0; i < p->n_parts; i++) {
        const struct quant_form *f = quant_form(p->type[i]);
        size_t row_bytes = (size_t)(p->k / f->block) * (size_t)f->n_bytes;
        struct weight_part *part = &src.part[i];
        part->rows = p->n[i];
        part->dtype = wide ? DT_F32 : p->type[i];
        part->row_bytes = wide ? (size_t)p->k * sizeof(float) : row_bytes;
        part->data =
            wide ? (const void *)(wide[i] + p->first)
                 : (const void *)(rows[i] + (size_t)(p->first / f->block) * (size_t)f->n_bytes);
        part->skip = wide ? 0 : p->first % f->block;
    }
    return src;
}

static void same_on_all(const struct product *p)
{
    unsigned char *rows[3] = {0};
    float *wide[3] = {0}, *want = NULL;
    int32_t n = 0, n_isas = 0;
    for (int i = 0; i < p->n_parts; i++) {
        size_t size = (size_t)p->n[i] * (size_t)p->k;
        rows[i] = quant_random_blocks(p->type[i], size, 0.01f, 99U + (uint32_t)i);
        cr_assert_not_null(rows[i]);
        wide[i] = malloc(size * sizeof(float));
        quant_expand(p->type[i], rows[i], size, wide[i]);
        n += p->n[i];
    }
    struct weight_src stored = source(p, rows, NULL), plain = source(p, rows, wide);
    const int32_t m = 17; /* rows: more than one tile */
    size_t n_out = (size_t)m * (size_t)n + 3 * (size_t)p->cols;
    for (size_t i = 0; i < ARRAY_LEN(isas); i++) {
        struct backend *be;
        struct backend_config cfg = {.threads = i % 2 ? 2 : 1, .isa = isas[i]};
        if (backend_open(&be, "cpu", &cfg) != ST_OK)
            continue; /* not on this machine; plain is on each */
        n_isas++;
        if (!want)
            want = run(be, &plain, n, m);
        float *got = run(be, &stored, n, m), *one = run(be, &stored, n, 1);
        for (size_t k = 0; k < n_out; k++)
            cr_assert_eq(bits_of_f32(got[k]), bits_of_f32(want[k]),
                         "%s %s k %d + %d: out %zu: %a, not %a", isas[i], dtype_name(p->type[0]),
                         p->first, p->cols, k, (double)got[k], (double)want[k]);
        cr_assert_arr_eq(one, want, (size_t)n * sizeof *one);
        free(got);
        free(one);
        backend_ops_of(be)->close(be);
    }
    cr_assert_geq(n_isas, 1);
    free(want);
    for (int i = 0; i < p->n_parts; i++) {
        free(rows[i]);
        free(wide[i]);
    }
}

Test(quant, products_of_every_type)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        same_on_all(&(struct product){{types[i]}, {70}, 512, 0, 512, 1, 8});
        same_on_all(&(struct product){{types[i]}, {33}, 256, 0, 256, 1, 1});
    }
}

Test(quant, shares_that_begin_inside_a_block)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        same_on_all(&(struct product){{types[i]}, {40}, 512, 264, 100, 1, 2});
        same_on_all(&(struct product){{types[i]}, {5}, 256, 9, 7, 1, 1});
        same_on_all(&(struct product){{types[i]}, {5}, 256, 250, 6, 1, 4});
    }
}

Test(quant, parts_of_several_types)
{
    same_on_all(&(struct product){{DT_Q4_K, DT_Q4_K, DT_Q6_K}, {64, 32, 32}, 256, 0, 256, 3, 1});
    same_on_all(&(struct product){{DT_Q8_0, DT_Q4_0, DT_Q5_1}, {3, 50, 21}, 256, 40, 111, 3, 2});
    same_on_all(&(struct product){{DT_Q5_K, DT_Q5_K}, {37, 64}, 512, 0, 512, 2, 1});
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
