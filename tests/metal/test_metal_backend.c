/* The Metal backend beside its ops, on the tests' double: opening, memory, weights, events, errors. */
#include "double.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "common/quant.h"
#include "quant_blocks.h"

#define MUST(call) cr_assert_eq((call), ST_OK, "%s", status_detail())

static struct backend *open_metal(void)
{
    struct backend *be = NULL;
    MUST(backend_open(&be, "metal", &(struct backend_config){0}));
    return be;
}

static void close_metal(struct backend *be)
{
    backend_ops_of(be)->close(be);
    cr_assert_eq(metal_double_live(), 0, "%zu objects are left", metal_double_live());
}

static void says(const char *word)
{
    cr_assert_not_null(strstr(status_text(), word), "'%s' does not say '%s'", status_text(), word);
}

static void refused(struct backend_config cfg, enum status st, const char *word)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "metal", &cfg), st);
    cr_assert_null(be);
    says(word);
    cr_assert_eq(metal_double_live(), 0);
}

Test(metal, opening)
{
    struct backend_info info;
    struct backend *be = open_metal();
    backend_ops_of(be)->info(be, &info);
    cr_assert_str_eq(info.device, "Metal emulated GPU");
    cr_assert(info.mem_free > 0 && info.mem_free < info.mem_total && info.experts && !info.graphs);
    cr_assert_not_null(strstr(backend_names(), "metal"));
    close_metal(be);
    backend_ops_of(be = open_metal())->close(NULL);
    close_metal(be);
}

Test(metal, what_cannot_be_opened)
{
    refused((struct backend_config){.device = 1}, ST_RANGE, "--device 1");
    refused((struct backend_config){.numerics = NUMERICS_FAST}, ST_UNSUPPORTED, "--numerics fast");
    metal_double_limits(1 << 20, 1 << 30);
    refused((struct backend_config){0}, ST_NOMEM, "a buffer of 16777216 bytes");
    metal_double_family(1006);
    refused((struct backend_config){0}, ST_UNSUPPORTED, "Apple7");
    metal_double_family(0);
    refused((struct backend_config){0}, ST_DEVICE, "no Metal device on this machine");
}

static void choose(const char *products)
{
    cr_assert_eq(setenv("INGOT_METAL_PRODUCTS", products, 1), 0);
}

/* Matrices are chosen by name alone, and have a numerics id of their own. */
Test(metal, matrix_products_are_chosen_by_name)
{
    static const char *const all[][2] = {
        {NULL, "chains3"}, {"chains", "chains3"}, {"matrices", "matrices2"}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct backend_info info;
        if (all[i][0])
            choose(all[i][0]);
        struct backend *be = open_metal();
        backend_ops_of(be)->info(be, &info);
        cr_assert_str_eq(info.matrix, all[i][1]);
        cr_assert_eq(be->pipeline[KERNEL_matrix_q4_k] != NULL, i == 2);
        close_metal(be);
    }
    choose("matrix");
    refused((struct backend_config){0}, ST_RANGE, "INGOT_METAL_PRODUCTS=matrix:");
}

/* Where they do not keep the contract, and on GPUs without them. */
Test(metal, matrix_products_that_cannot_be_had_are_refused)
{
    choose("matrices");
    metal_double_break_matrices(true);
    refused((struct backend_config){0}, ST_UNSUPPORTED,
            "INGOT_METAL_PRODUCTS=matrices: Metal device emulated GPU gives a row");
    metal_double_break_matrices(false);
    metal_double_family(1006);
    refused((struct backend_config){0}, ST_UNSUPPORTED, "Apple7");
}

/* Their kernels need fewer threads: they take many registers. */
Test(metal, pipelines_of_matrices_may_be_smaller)
{
    choose("matrices");
    metal_double_matrix_threads(128);
    close_metal(open_metal());
    metal_double_matrix_threads(96);
    refused((struct backend_config){0}, ST_UNSUPPORTED,
            "kernel matrix_f32: simdgroups of 32 threads and groups of at most 96; needed are 32 "
            "and 128");
}

Test(metal, pipelines_that_are_too_small_are_refused)
{
    metal_double_pipelines(16, 1024);
    refused((struct backend_config){0}, ST_UNSUPPORTED, "simdgroups of 16 threads");
    metal_double_pipelines(32, 224);
    refused((struct backend_config){0}, ST_UNSUPPORTED, "groups of at most 224");
}

/* Before macOS 15 safe math has another switch. */
Test(metal, an_older_system_compiles_with_safe_math)
{
    metal_double_without_math_mode(true);
    close_metal(open_metal());
}

static struct view f32_view(struct buf *b, size_t off, int32_t rows, int32_t cols, int32_t stride)
{
    return (struct view){
        .buf = b, .off = off, .rows = rows, .cols = cols, .stride = stride, .dtype = DT_F32};
}

static void check_moves(struct backend *be, int32_t rows, int32_t cols)
{
    const struct backend_ops *op = backend_ops_of(be);
    size_t n = (size_t)rows * (size_t)cols, bytes = (size_t)rows * (size_t)(cols + 5) * 4 + 64;
    float *in = malloc(n * sizeof *in + 1), *out = malloc(n * sizeof *out + 1);
    struct buf *a, *b;
    for (size_t i = 0; i < n; i++)
        in[i] = (float)i;
    MUST(op->alloc(be, bytes, MEM_DEVICE, &a));
    MUST(op->alloc(be, bytes, MEM_PINNED, &b));
    struct view va = f32_view(a, 64, rows, cols, cols + 5),
                vb = f32_view(b, 0, rows, cols, cols + 1);
    MUST(op->read(be, out, va));
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(bits_of_f32(out[i]), 0); /* memory comes zeroed */
    MUST(op->write(be, va, in));
    MUST(op->copy(be, vb, va));
    MUST(op->zero(be, va));
    MUST(op->read(be, out, vb));
    cr_assert_arr_eq(out, in, n * sizeof *out);
    cr_assert_eq(op->pinned_ptr(be, b), op->host_ptr(be, vb));
    MUST(op->read(be, out, va));
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(bits_of_f32(out[i]), 0);
    op->free(be, b);
    op->free(be, a);
    free(in);
    free(out);
}

Test(metal, memory)
{
    struct backend *be = open_metal();
    metal_double_check_writes(true);
    check_moves(be, 0, 7);
    check_moves(be, 1, 1);
    check_moves(be, 3, 0);
    check_moves(be, 13, 37);
    check_moves(be, 300, 150);
    check_moves(be, 2, 3 << 10);
    close_metal(be);
}

Test(metal, a_buffer_has_a_limit_and_all_have_one)
{
    struct buf *a = NULL, *b = NULL;
    metal_double_limits(20 << 20, 50 << 20);
    struct backend *be = open_metal(); /* takes 16 MiB */
    cr_assert_eq(metal_alloc(be, (20 << 20) + 1, MEM_DEVICE, &a), ST_NOMEM);
    says("the largest it has is ");
    MUST(metal_alloc(be, 20 << 20, MEM_DEVICE, &a));
    cr_assert_eq(metal_alloc(be, 20 << 20, MEM_DEVICE, &b), ST_NOMEM);
    says("no memory for a buffer of 20971520 bytes");
    cr_assert_null(b);
    metal_free(be, a);
    close_metal(be);
}

/* A buffer that is freed while commands use it stays until they have ended. */
Test(metal, memory_is_freed_behind_its_commands)
{
    struct buf *a, *b;
    float back[16];
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    MUST(metal_alloc(be, 64, MEM_DEVICE, &b));
    struct view va = f32_view(a, 0, 1, 16, 16), vb = f32_view(b, 0, 1, 16, 16);
    for (int i = 0; i < 16; i++)
        back[i] = 3.0f;
    MUST(metal_write(be, va, back));
    MUST(metal_copy(be, vb, va));
    metal_free(be, a);
    memset(back, 0, sizeof back);
    MUST(metal_read(be, back, vb));
    for (int i = 0; i < 16; i++)
        cr_assert_eq(bits_of_f32(back[i]), bits_of_f32(3.0f));
    metal_free(be, b);
    close_metal(be);
}

/* A write comes after what was enqueued before it, whether that is committed or not. */
Test(metal, a_write_waits_for_the_work_before_it)
{
    struct buf *a, *b;
    float before[16], after[16], back[16];
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    MUST(metal_alloc(be, 64, MEM_DEVICE, &b));
    struct view va = f32_view(a, 0, 1, 16, 16), vb = f32_view(b, 0, 1, 16, 16);
    for (int i = 0; i < 16; i++) {
        before[i] = 3.0f;
        after[i] = 5.0f;
    }
    for (int committed = 0; committed < 2; committed++) {
        MUST(metal_write(be, va, before));
        MUST(metal_copy(be, vb, va));
        if (committed)
            MUST(metal_commit(be));
        MUST(metal_write(be, va, after));
        MUST(metal_read(be, back, vb));
        cr_assert_arr_eq(back, before, sizeof back);
        MUST(metal_read(be, back, va));
        cr_assert_arr_eq(back, after, sizeof back);
    }
    metal_free(be, a);
    metal_free(be, b);
    close_metal(be);
}

Test(metal, events)
{
    bool passed = false;
    uint64_t ns = 1;
    struct buf *a;
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    struct view v = f32_view(a, 0, 1, 16, 16);
    MUST(metal_event_mark(be, 2)); /* nothing is enqueued: it has passed */
    MUST(metal_event_wait(be, 2, 0, &passed));
    cr_assert(passed);
    MUST(metal_zero(be, v));
    MUST(metal_event_mark(be, 3));
    MUST(metal_event_wait(be, 3, 0, &passed));
    cr_assert_not(passed);
    MUST(metal_event_wait(be, 3, 1000000, &passed));
    cr_assert(passed);
    MUST(metal_event_elapsed(be, 2, 3, &ns));
    cr_assert_gt(ns, 0);
    MUST(metal_event_elapsed(be, 3, 3, &ns));
    cr_assert_eq(ns, 0);
    metal_free(be, a);
    close_metal(be);
}

/* What is enqueued between two waits is one command buffer, however many kernels it has. */
Test(metal, ops_between_two_waits_are_one_command_buffer)
{
    struct buf *a;
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    uint64_t commands = metal_double_commands(), dispatches = metal_double_dispatches();
    for (int i = 0; i < 7; i++)
        MUST(metal_scale(be, f32_view(a, 0, 1, 16, 16), 2.0f));
    MUST(metal_sync(be));
    MUST(metal_sync(be));
    cr_assert_eq(metal_double_commands(), commands + 1);
    cr_assert_eq(metal_double_dispatches(), dispatches + 7);
    metal_free(be, a);
    close_metal(be);
}

/* Its predicted work bounds a command buffer. */
Test(metal, a_command_buffer_ends_when_its_work_is_large)
{
    struct buf *a;
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    const struct metal_bound bound[] = {{a, 0}};
    const struct metal_move_args args = {.n_bytes = 64, .dst_step = 64};
    struct mtl_size one = {1, 1, 1};
    uint64_t commands = metal_double_commands();
    for (int i = 0; i < 6; i++) /* two at a time */
        MUST(METAL_DISPATCH(be, KERNEL_zero_bytes, args, bound, one, 32, METAL_MAX_WORK / 2));
    MUST(metal_sync(be));
    cr_assert_eq(metal_double_commands(), commands + 3);
    MUST(METAL_DISPATCH(be, KERNEL_zero_bytes, args, bound, one, 32, 2 * METAL_MAX_WORK));
    MUST(METAL_DISPATCH(be, KERNEL_zero_bytes, args, bound, one, 32, 0)); /* small ones go on */
    MUST(METAL_DISPATCH(be, KERNEL_zero_bytes, args, bound, one, 32, 0));
    MUST(metal_sync(be));
    cr_assert_leq(metal_double_commands(), commands + 5);
    metal_free(be, a);
    close_metal(be);
}

/* Of a command buffer the device names none of its kernels: the first and the last one are told. */
Test(metal, a_failure_names_device_and_kernels)
{
    struct buf *a;
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    struct view v = f32_view(a, 0, 1, 16, 16);
    metal_double_fail("zero_bytes");
    MUST(metal_zero(be, v));
    MUST(metal_scale(be, v, 2.0f));
    cr_assert_eq(metal_sync(be), ST_DEVICE);
    says("Metal device emulated GPU, kernels zero_bytes to scale (2 dispatches): a failure");
    metal_free(be, a);
    close_metal(be);
}

/* Another command buffer follows the one that fails and ends well: the wait for it fails all the same,
 * with the kernel of the first one, and so does every later wait. */
Test(metal, a_failure_before_the_last_command_buffer_is_seen)
{
    struct buf *a;
    bool passed = false;
    uint64_t ns;
    float back[16];
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    struct view v = f32_view(a, 0, 1, 16, 16);
    metal_double_fail("zero_bytes");
    MUST(metal_zero(be, v));
    MUST(metal_event_mark(be, 0));
    MUST(metal_scale(be, v, 2.0f));
    MUST(metal_event_mark(be, 1));
    MUST(metal_scale(be, v, 2.0f));
    cr_assert_eq(metal_sync(be), ST_DEVICE);
    says("kernel zero_bytes: a failure");
    cr_assert_eq(metal_event_wait(be, 1, 1000000, &passed), ST_DEVICE);
    cr_assert_eq(metal_event_elapsed(be, 0, 1, &ns), ST_DEVICE);
    cr_assert_eq(metal_read(be, back, v), ST_DEVICE);
    says("kernel zero_bytes: a failure");
    metal_free(be, a);
    close_metal(be);
}

/* An event behind the command buffer that fails, and waits for it alone. */
Test(metal, a_failure_before_an_event_is_seen)
{
    struct buf *a;
    bool passed = false;
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    struct view v = f32_view(a, 0, 1, 16, 16);
    metal_double_fail("zero_bytes");
    MUST(metal_zero(be, v));
    MUST(metal_commit(be));
    MUST(metal_scale(be, v, 2.0f));
    MUST(metal_event_mark(be, 1));
    cr_assert_eq(metal_event_wait(be, 1, 1000000, &passed), ST_DEVICE);
    says("kernel zero_bytes: a failure");
    metal_free(be, a);
    close_metal(be);
}

/* More command buffers than are remembered: the oldest is waited for, and its failure is not lost. */
Test(metal, a_failure_behind_many_command_buffers_is_seen)
{
    struct buf *a;
    enum status st = ST_OK;
    struct backend *be = open_metal();
    MUST(metal_alloc(be, 64, MEM_DEVICE, &a));
    struct view v = f32_view(a, 0, 1, 16, 16);
    metal_double_fail("zero_bytes");
    MUST(metal_zero(be, v));
    for (int i = 0; i < 3 * METAL_MAX_COMMITTED && st == ST_OK; i++) {
        st = metal_commit(be);
        if (st == ST_OK)
            st = metal_scale(be, v, 2.0f);
    }
    cr_assert_eq(st, ST_DEVICE);
    says("kernel zero_bytes: a failure");
    metal_free(be, a);
    close_metal(be);
}

/* ---- products ---- */

static const enum dtype product_types[] = {
    DT_F32,       DT_F16,           DT_BF16,           DT_Q8_0,          DT_Q4_0,
    DT_Q4_1,      DT_Q5_0,          DT_Q5_1,           DT_Q2_K,          DT_Q3_K,
    DT_Q4_K,      DT_Q5_K,          DT_Q6_K,           DT_IQ4_NL,        DT_IQ4_XS,
    DT_MXFP4,     DT_E4M3,          DT_INT4_BF16,      DT_INT4_ZERO_F16, DT_INT4_ZERO_BF16,
    DT_INT8_BF16, DT_INT8_ZERO_F16, DT_INT8_ZERO_BF16, DT_INT4_INDEX,    DT_INT8_INDEX,
    DT_NF4,       DT_FP4,           DT_NVFP4};

/* w [5, 768] of made-up bits without NaN; slices end within blocks. */
enum { W_ROWS = 5, W_COLS = 768, W_GROUPS = 7, W_SCALES = W_COLS / 16 };

/* Scales, minima and groups of types that have them beside their elements. */
static void add_scales(struct weight_part *p)
{
    static float scale[W_ROWS * W_SCALES], least[W_ROWS * W_SCALES];
    static uint8_t small[W_ROWS * W_SCALES];
    static uint16_t index[W_COLS];
    for (int i = 0; i < W_ROWS * W_SCALES; i++) {
        scale[i] = (float)(i * 7919 % 1009 - 500) / 3571.0f;
        least[i] = (float)(i * 104729 % 2003 - 1000) / 997.0f;
        small[i] = (uint8_t)(i * 37 % 127);
    }
    for (int i = 0; i < W_COLS; i++)
        index[i] = (uint16_t)(i * 5 % W_GROUPS);
    p->block = p->dtype == DT_NVFP4 ? 16 : 64;
    p->scale_stride = is_indexed(p->dtype) ? W_GROUPS : W_SCALES;
    p->scale = scale;
    p->min = least;
    p->small_scale = small;
    p->index = index;
    p->factor = 0.37f;
    p->divisor = 1.0f;
}

/* A byte of a row's elements, no NaN. */
static char some_byte(enum dtype t, size_t i)
{
    if (has_levels(t) || t == DT_INT4_INDEX)
        return (char)(i * 37 % 16);
    if (t == DT_E4M3)
        return (char)((i * 37 % 127) | (i * 11 & 128));
    if (t == DT_INT8_INDEX)
        return (char)(i * 37);
    return (char)(i % dtype_size(t) == dtype_size(t) - 1 ? 0x20 + i % 0x17 : i * 37);
}

static struct weight *some_weight(struct backend *be, enum dtype t)
{
    const struct quant_form *f = quant_form(t);
    bool bytes = has_levels(t) || is_indexed(t);
    size_t row_bytes = f       ? (size_t)(W_COLS / f->block) * (size_t)f->n_bytes
                       : bytes ? W_COLS
                               : (size_t)W_COLS * dtype_size(t);
    struct weight_src src = {.name = "w",
                             .cols = W_COLS,
                             .n_parts = 1,
                             .n_slices = 4,
                             .slice_end = {104, 104, 530, W_COLS}};
    struct weight *w;
    char *data = f ? (char *)quant_random_blocks(t, (size_t)W_ROWS * W_COLS, 0.02f, 7U)
                   : malloc(row_bytes * W_ROWS);
    for (size_t i = 0; i < row_bytes * W_ROWS && !f; i++)
        data[i] = some_byte(t, i);
    src.part[0] =
        (struct weight_part){.data = data, .row_bytes = row_bytes, .dtype = t, .rows = W_ROWS};
    add_scales(&src.part[0]);
    MUST(metal_load_weight(be, &src, &w));
    free(data);
    return w;
}

/* Every weight of a product has the bits of its row's element: rows of x with one 1. */
static void check_weights(struct backend *be, enum dtype t, int32_t n)
{
    struct weight *w = some_weight(be, t);
    struct buf *x, *out, *rows, *ids;
    float *one = calloc((size_t)n * W_COLS, sizeof *one);
    float *got = calloc((size_t)n * W_ROWS, sizeof *got), *want = calloc(W_ROWS, W_COLS * 4);
    MUST(metal_alloc(be, (size_t)n * W_COLS * 4, MEM_DEVICE, &x));
    MUST(metal_alloc(be, (size_t)n * W_ROWS * 4, MEM_DEVICE, &out));
    MUST(metal_alloc(be, W_ROWS * W_COLS * 4, MEM_DEVICE, &rows));
    MUST(metal_alloc(be, W_ROWS * 4, MEM_DEVICE, &ids));
    struct view vi = {.buf = ids, .rows = W_ROWS, .cols = 1, .stride = 1, .dtype = DT_I32};
    MUST(metal_write(be, vi, (const int32_t[]){0, 1, 2, 3, 4}));
    MUST(metal_embed(be, w, 0, vi, f32_view(rows, 0, W_ROWS, W_COLS, W_COLS)));
    MUST(metal_read(be, want, f32_view(rows, 0, W_ROWS, W_COLS, W_COLS)));
    for (int32_t k = 0; k < W_COLS; k += n) {
        memset(one, 0, (size_t)n * W_COLS * sizeof *one);
        for (int32_t i = 0; i < n; i++)
            one[(size_t)i * W_COLS + (size_t)(k + i) % W_COLS] = 1.0f;
        MUST(metal_write(be, f32_view(x, 0, n, W_COLS, W_COLS), one));
        MUST(metal_linear(be, w, f32_view(x, 0, n, W_COLS, W_COLS),
                          f32_view(out, 0, n, W_ROWS, W_ROWS)));
        MUST(metal_read(be, got, f32_view(out, 0, n, W_ROWS, W_ROWS)));
        for (int32_t i = 0; i < n * W_ROWS; i++) {
            int32_t row = i % W_ROWS, col = (k + i / W_ROWS) % W_COLS;
            cr_assert_eq(bits_of_f32(got[i]), bits_of_f32(want[row * W_COLS + col]),
                         "%s: row %d, column %d: %a is %a", dtype_name(t), row, col,
                         (double)want[row * W_COLS + col], (double)got[i]);
        }
    }
    metal_free(be, x);
    metal_free(be, out);
    metal_free(be, rows);
    metal_free(be, ids);
    metal_free_weight(be, w);
    free(one);
    free(got);
    free(want);
}

Test(metal, weights_of_products_have_the_bits_of_rows)
{
    struct backend *be = open_metal();
    for (size_t i = 0; i < ARRAY_LEN(product_types); i++)
        check_weights(be, product_types[i], 96);
    for (int32_t i = 0; i < 6; i++)
        check_weights(
            be,
            (const enum dtype[]){DT_F16, DT_Q4_K, DT_Q6_K, DT_E4M3, DT_INT4_ZERO_F16, DT_NVFP4}[i],
            1);
    close_metal(be);
}

/* ---- slices ---- */

enum { S_COLS = 800, S_ROWS = 3 };

/* out [n, S_ROWS] = x w^T of columns [from, to) in slices of which `end` has the ends. */
static void slices_product(struct backend *be, int32_t from, int32_t to, int n_slices,
                           const int32_t *end, struct buf *x, int32_t n, float *out)
{
    static float w[S_ROWS][S_COLS];
    struct weight_src src = {.name = "w", .cols = to - from, .n_parts = 1, .n_slices = n_slices};
    struct weight *loaded;
    struct buf *b;
    for (int32_t i = 0; i < S_ROWS * S_COLS; i++)
        w[i / S_COLS][i % S_COLS] = (float)(i * 7919 % 1009 - 500) / 257.0f;
    for (int i = 0; i < n_slices; i++)
        src.slice_end[i] = end[i] - from;
    src.part[0] = (struct weight_part){
        .data = &w[0][from], .row_bytes = sizeof w[0], .dtype = DT_F32, .rows = S_ROWS};
    MUST(metal_load_weight(be, &src, &loaded));
    MUST(metal_alloc(be, (size_t)n * S_ROWS * 4, MEM_DEVICE, &b));
    struct view vx = f32_view(x, (size_t)from * 4, n, to - from, S_COLS);
    MUST(metal_linear(be, loaded, vx, f32_view(b, 0, n, S_ROWS, S_ROWS)));
    MUST(metal_read(be, out, f32_view(b, 0, n, S_ROWS, S_ROWS)));
    metal_free(be, b);
    metal_free_weight(be, loaded);
}

/* A sum has the bits of its slices' sums, each as a product of its own, added as struct weight_src's
 * tree. */
static void check_slices_of(int32_t n)
{
    static const int32_t end[8] = {100, 203, 203, 300, 431, 555, 700, S_COLS};
    struct backend *be = open_metal();
    float in[17 * S_COLS], got[17 * S_ROWS], part[8][17 * S_ROWS] = {0};
    struct buf *x;
    MUST(metal_alloc(be, sizeof in, MEM_DEVICE, &x));
    for (int32_t i = 0; i < 17 * S_COLS; i++)
        in[i] = (float)(i * 104729 % 2003 - 1000) / 331.0f;
    MUST(metal_write(be, f32_view(x, 0, 17, S_COLS, S_COLS), in));
    slices_product(be, 0, S_COLS, 8, end, x, n, got);
    for (int s = 0, from = 0; s < 8; from = end[s++])
        if (end[s] > from)
            slices_product(be, from, end[s], 1, &end[s], x, n, part[s]);
    for (int apart = 1; apart < 8; apart *= 2)
        for (int s = 0; s < 8; s += 2 * apart)
            for (int32_t i = 0; i < n * S_ROWS; i++)
                part[s][i] += part[s + apart][i];
    cr_assert_arr_eq(got, part[0], (size_t)n * S_ROWS * sizeof *got);
    metal_free(be, x);
    close_metal(be);
}

Test(metal, slices_are_added_as_a_tree)
{
    check_slices_of(1);
    check_slices_of(17);
    choose("matrices");
    check_slices_of(1);
    check_slices_of(17);
}

/* Both kernels of matrices. */
Test(metal, weights_of_matrix_products_have_the_bits_of_rows)
{
    choose("matrices");
    metal_double_matrices(5);
    struct backend *be = open_metal();
    for (size_t i = 0; i < ARRAY_LEN(product_types); i++)
        check_weights(be, product_types[i], 96);
    for (int32_t i = 0; i < 3; i++)
        check_weights(be, (const enum dtype[]){DT_F16, DT_Q4_K, DT_Q6_K}[i], 8);
    close_metal(be);
}

/* Of a matrix [1024, 4096]: what a decode reads, as a share of the bytes of its codes and scales in the file. */
Test(metal, matrices_of_huggingface_folders_are_hardly_larger_than_in_the_file)
{
    static const struct {
        enum dtype dtype;
        int32_t block;
        double bytes; /* of a block in the file */
    } all[] = {{DT_E4M3, 128, 132},         {DT_INT4_BF16, 32, 18},   {DT_INT4_ZERO_F16, 32, 19},
               {DT_INT4_ZERO_BF16, 32, 19}, {DT_INT8_BF16, 32, 34},   {DT_INT8_ZERO_F16, 32, 35},
               {DT_INT8_ZERO_BF16, 32, 35}, {DT_NF4, 64, 36},         {DT_FP4, 64, 36},
               {DT_NVFP4, 16, 9},           {DT_INT4_INDEX, 128, 72}, /* scales and minima in f32 */
               {DT_INT8_INDEX, 128, 136}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        const struct weight_src src = {.name = "w",
                                       .cols = 4096,
                                       .n_parts = 1,
                                       .n_slices = 1,
                                       .slice_end = {4096},
                                       .part = {{.dtype = all[i].dtype,
                                                 .rows = 1024,
                                                 .block = all[i].block,
                                                 .scale_stride = (size_t)(4096 / all[i].block)}}};
        double file = 1024.0 * 4096 / all[i].block * all[i].bytes;
        cr_assert_leq((double)metal_weight_bytes(NULL, &src), 1.05 * file, "%s",
                      dtype_name(all[i].dtype));
    }
}

/* The matrices of all heads are one dispatch, and have the bits of products alone. */
Test(metal, products_of_all_heads_are_one_dispatch)
{
    enum { HEADS = 6, IN = 40, OUT = 24, ROWS = 3 };
    static float w[HEADS][OUT][IN], in[ROWS][HEADS * IN], want[ROWS][OUT], got[ROWS][HEADS * OUT];
    struct weight_src src[HEADS];
    struct weight *stack, *one;
    struct buf *x, *out;
    struct backend *be = open_metal();
    for (int i = 0; i < HEADS * OUT * IN; i++)
        w[i / IN / OUT][i / IN % OUT][i % IN] = (float)(i * 7919 % 1009 - 500) / 257.0f;
    for (int i = 0; i < ROWS * HEADS * IN; i++)
        in[i / (HEADS * IN)][i % (HEADS * IN)] = (float)(i * 104729 % 2003 - 1000) / 331.0f;
    for (int h = 0; h < HEADS; h++)
        src[h] = (struct weight_src){
            .name = "heads",
            .cols = IN,
            .n_parts = 1,
            .n_slices = 1,
            .slice_end = {IN},
            .part = {{.data = w[h], .row_bytes = sizeof w[h][0], .dtype = DT_F32, .rows = OUT}}};
    MUST(metal_alloc(be, sizeof in, MEM_DEVICE, &x));
    MUST(metal_alloc(be, sizeof got, MEM_DEVICE, &out));
    struct view vx = f32_view(x, 0, ROWS, HEADS * IN, HEADS * IN),
                vo = f32_view(out, 0, ROWS, HEADS * OUT, HEADS * OUT);
    MUST(metal_write(be, vx, in));
    MUST(metal_load_stack(be, src, HEADS, &stack));
    uint64_t dispatches = metal_double_dispatches();
    MUST(metal_heads_linear(be, stack, vx, vo));
    MUST(metal_sync(be));
    cr_assert_eq(metal_double_dispatches(), dispatches + 1);
    MUST(metal_read(be, got, vo));
    for (int h = 0; h < HEADS; h++) {
        MUST(metal_load_weight(be, &src[h], &one));
        MUST(metal_linear(be, one, view_columns(vx, h * IN, IN), view_columns(vo, 0, OUT)));
        MUST(metal_read(be, want, view_columns(vo, 0, OUT)));
        for (int t = 0; t < ROWS; t++)
            cr_assert_arr_eq(&got[t][h * OUT], want[t], sizeof want[t], "head %d, row %d", h, t);
        metal_free_weight(be, one);
    }
    metal_free_weight(be, stack);
    metal_free(be, x);
    metal_free(be, out);
    close_metal(be);
}

static void weight_refused(struct backend *be, struct weight_src src, enum status st,
                           const char *word)
{
    struct weight *w = NULL;
    cr_assert_eq(metal_load_weight(be, &src, &w), st);
    cr_assert_null(w);
    says(word);
}

Test(metal, weights_that_it_has_not_are_refused_by_name)
{
    static const char data[4096];
    struct backend *be = open_metal();
    struct weight_src src = {
        .name = "blk.0.ffn",
        .cols = 256,
        .n_parts = 1,
        .n_slices = 1,
        .slice_end = {256},
        .part = {{.data = data, .row_bytes = 144, .dtype = DT_INT4_SORTED, .rows = 2}}};
    weight_refused(be, src, ST_UNSUPPORTED,
                   "weight blk.0.ffn: the Metal backend has no int4-sorted weights");
    src.part[0].dtype = DT_E4M3;
    weight_refused(be, src, ST_RANGE, "e4m3 with 0 scales in a row");
    src.part[0].skip = 128;
    weight_refused(be, src, ST_RANGE, "first element 128 of a block of 128");
    src.part[0].skip = 0;
    src.part[0].dtype = DT_NF4;
    weight_refused(be, src, ST_RANGE, "first element 0 of a block of 0");
    src.part[0].dtype = DT_Q8_0;
    src.vector = true;
    weight_refused(be, src, ST_UNSUPPORTED, "no q8_0 vectors");
    src.vector = false;
    src.cols = src.slice_end[0] = 250;
    weight_refused(be, src, ST_RANGE, "250 columns in blocks of 32");
    src.part[0].dtype = DT_F16;
    src.n_slices = 3;
    weight_refused(be, src, ST_RANGE, "3 slices");
    src.n_slices = 1;
    src.slice_end[0] = 249;
    weight_refused(be, src, ST_RANGE, "slice 0 ends at column 249 of 250");
    src.slice_end[0] = 250;
    src.part[0].skip = 2;
    weight_refused(be, src, ST_RANGE, "first element 2");
    close_metal(be);
}
