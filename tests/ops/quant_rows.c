/* Products with quantised weights: the bits of every type and of few and many rows of x against those of
 * the instruction set plain, without a test library, so that it runs under an emulator (neon_digests.sh):
 *   quant_rows ISA                  all of them
 *   quant_rows ISA TYPE ROWS COLS   one product of 32 outputs, for counts of instructions (neon_counts.py)
 * Prints the device first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "common/quant.h"
#include "quant_blocks.h"

enum { MAX_ROWS = 130, MAX_COLS = 4096, MAX_OUT = 70 };

static const int32_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 16, 17, 130};

struct product {
    enum dtype type;
    int32_t k, first, cols, n, n_slices; /* columns [first, first + cols) of k; n outputs */
};

static float x[MAX_ROWS * MAX_COLS], bias[MAX_OUT], want[MAX_ROWS * MAX_OUT],
    got[MAX_ROWS * MAX_OUT];

static void check(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "quant_rows: %s\n", status_detail());
    exit(1);
}

static struct backend *open_isa(const char *isa)
{
    struct backend *be;
    check(backend_open(&be, "cpu", &(struct backend_config){.isa = isa, .threads = 2}));
    return be;
}

static struct weight *load(struct backend *be, const struct product *p, const unsigned char *blocks)
{
    const struct quant_form *f = quant_form(p->type);
    struct weight_src src = {
        .name = "test", .cols = p->cols, .n_parts = 1, .n_slices = p->n_slices};
    struct weight *w;
    for (int i = 0; i < p->n_slices; i++)
        src.slice_end[i] = (int32_t)((int64_t)p->cols * (i + 1) / p->n_slices);
    src.part[0] = (struct weight_part){
        .data = blocks + (size_t)(p->first / f->block) * (size_t)f->n_bytes,
        .row_bytes = (size_t)(p->k / f->block) * (size_t)f->n_bytes,
        .dtype = p->type,
        .skip = p->first % f->block,
        .rows = p->n,
        .bias = bias,
        .bias_dtype = DT_F32,
    };
    check(backend_ops_of(be)->load_weight(be, &src, &w));
    return w;
}

static void run(struct backend *be, const struct weight *w, int32_t rows, const struct product *p,
                float *out)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct view in = {.rows = rows, .cols = p->cols, .stride = p->cols, .dtype = DT_F32};
    struct view to = {.rows = rows, .cols = p->n, .stride = p->n, .dtype = DT_F32};
    check(op->alloc(be, (size_t)rows * (size_t)p->cols * sizeof *x, MEM_DEVICE, &in.buf));
    check(op->alloc(be, (size_t)rows * (size_t)p->n * sizeof *out, MEM_DEVICE, &to.buf));
    check(op->write(be, in, x));
    check(op->linear(be, w, in, to));
    check(op->read(be, out, to));
    op->free(be, in.buf);
    op->free(be, to.buf);
}

/* Bits, or both not a number. */
static bool same(float a, float b)
{
    return bits_of_f32(a) == bits_of_f32(b) || (isnan(a) && isnan(b));
}

static void fill_x(size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((i * 37 + 11) % 101) * 0.013f - 0.6f;
}

static unsigned char *blocks_of(const struct product *p)
{
    unsigned char *blocks =
        quant_random_blocks(p->type, (size_t)p->n * (size_t)p->k, 0.01f, 99U + (uint32_t)p->type);
    if (!blocks)
        exit(1);
    return blocks;
}

/* Returns the number of row counts with other bits. */
static int differs(struct backend *plain, struct backend *be, const struct product *p)
{
    unsigned char *blocks = blocks_of(p);
    struct weight *spec = load(plain, p, blocks), *w = load(be, p, blocks);
    int n = 0;
    run(plain, spec, MAX_ROWS, p, want);
    for (size_t i = 0; i < ARRAY_LEN(row_counts); i++) {
        int32_t rows = row_counts[i];
        bool equal = true;
        run(be, w, rows, p, got);
        for (int32_t o = 0; o < rows * p->n && equal; o++)
            if (!(equal = same(got[o], want[o])))
                printf("%s, %d rows, %d + %d columns, %d slices: row %d, output %d is %a, not %a\n",
                       dtype_name(p->type), rows, p->first, p->cols, p->n_slices, o / p->n,
                       o % p->n, (double)got[o], (double)want[o]);
        n += !equal;
    }
    backend_ops_of(plain)->free_weight(plain, spec);
    backend_ops_of(be)->free_weight(be, w);
    free(blocks);
    return n;
}

static enum dtype type_of(const char *name)
{
    for (int t = 0; t < DT_N; t++)
        if (strcmp(dtype_name((enum dtype)t), name) == 0 && quant_form((enum dtype)t))
            return (enum dtype)t;
    fprintf(stderr, "quant_rows: no quantised type %s\n", name);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 5) {
        fprintf(stderr, "usage: quant_rows ISA [TYPE ROWS COLS]\n");
        return 2;
    }
    struct backend *be = open_isa(argv[1]);
    struct backend_info info;
    backend_ops_of(be)->info(be, &info);
    puts(info.device);
    for (int32_t i = 0; i < MAX_OUT; i++)
        bias[i] = (float)(i % 7) - 3.0f;
    if (argc == 5) {
        int32_t rows = atoi(argv[3]), cols = atoi(argv[4]);
        struct product p = {type_of(argv[2]), cols, 0, cols, 32, 1};
        if (rows < 1 || rows > MAX_ROWS || cols < 256 || cols > MAX_COLS || cols % 256)
            return 2;
        fill_x((size_t)rows * (size_t)cols);
        unsigned char *blocks = blocks_of(&p);
        struct weight *w = load(be, &p, blocks);
        run(be, w, rows, &p, got);
        backend_ops_of(be)->free_weight(be, w);
        backend_ops_of(be)->close(be);
        free(blocks);
        return 0;
    }
    struct backend *plain = open_isa("plain");
    int n_types = 0, failed = 0;
    fill_x(ARRAY_LEN(x));
    x[2 * 512 + 100] = INFINITY; /* a row, or part of one, that must not change its neighbours */
    for (int t = 0; t < DT_N; t++) {
        if (!quant_form((enum dtype)t))
            continue;
        n_types++;
        failed += differs(plain, be, &(struct product){(enum dtype)t, 512, 0, 512, MAX_OUT, 8});
        failed += differs(plain, be, &(struct product){(enum dtype)t, 768, 200, 500, 33, 1});
        failed += differs(plain, be, &(struct product){(enum dtype)t, 2560, 0, 2560, 5, 2});
    }
    printf("%d types, %zu numbers of rows: %d products differ from plain\n", n_types,
           ARRAY_LEN(row_counts), failed);
    backend_ops_of(plain)->close(plain);
    backend_ops_of(be)->close(be);
    return failed > 0 || n_types == 0;
}
