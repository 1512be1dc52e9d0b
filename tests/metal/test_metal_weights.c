/* Weights of the Metal backend on the tests' double: every type, those of HuggingFace folders with scales beside their
 * codes, slices, heads, and what is refused. */
#include "metal_case.h"

#include "common/quant.h"
#include "quant_blocks.h"

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

Test(metal_weights, weights_of_products_have_the_bits_of_rows)
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

Test(metal_weights, slices_are_added_as_a_tree)
{
    check_slices_of(1);
    check_slices_of(17);
    choose("matrices");
    check_slices_of(1);
    check_slices_of(17);
}

/* Both kernels of matrices. */
Test(metal_weights, weights_of_matrix_products_have_the_bits_of_rows)
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
Test(metal_weights, matrices_of_huggingface_folders_are_hardly_larger_than_in_the_file)
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
Test(metal_weights, products_of_all_heads_are_one_dispatch)
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

Test(metal_weights, weights_that_it_has_not_are_refused_by_name)
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

/* Parts of one type are one dispatch, whose rows have the bits of products of each part; others stay apart. */
static void check_parts(struct backend *be, const enum dtype *types, uint64_t dispatches)
{
    enum { K = 256, ROWS = 5, PARTS = 3, X = 2 };
    static float in[X][K], got[X][PARTS * ROWS], want[X][ROWS];
    struct weight_src src = {
        .name = "parts", .cols = K, .n_parts = PARTS, .n_slices = 1, .slice_end = {K}};
    struct weight *w;
    struct buf *x, *out;
    void *data[PARTS];
    for (int i = 0; i < X * K; i++)
        in[i / K][i % K] = (float)(i * 104729 % 2003 - 1000) / 331.0f;
    for (int i = 0; i < PARTS; i++) {
        const struct quant_form *f = quant_form(types[i]);
        data[i] = quant_random_blocks(types[i], ROWS * K, 0.02f, (uint32_t)i + 3U);
        src.part[i] = (struct weight_part){.data = data[i],
                                           .row_bytes = (size_t)(K / f->block * f->n_bytes),
                                           .dtype = types[i],
                                           .rows = ROWS};
    }
    MUST(metal_alloc(be, sizeof in, MEM_DEVICE, &x));
    MUST(metal_alloc(be, sizeof got, MEM_DEVICE, &out));
    struct view vx = f32_view(x, 0, X, K, K), vo = f32_view(out, 0, X, PARTS * ROWS, PARTS * ROWS);
    MUST(metal_write(be, vx, in));
    MUST(metal_load_weight(be, &src, &w));
    uint64_t before = metal_double_dispatches();
    MUST(metal_linear(be, w, vx, vo));
    MUST(metal_read(be, got, vo));
    cr_assert_eq(metal_double_dispatches(), before + dispatches);
    metal_free_weight(be, w);
    for (int i = 0; i < PARTS; i++) {
        struct weight_src one = src;
        one.n_parts = 1;
        one.part[0] = src.part[i];
        MUST(metal_load_weight(be, &one, &w));
        MUST(metal_linear(be, w, vx, view_columns(vo, 0, ROWS)));
        MUST(metal_read(be, want, view_columns(vo, 0, ROWS)));
        for (int t = 0; t < X; t++)
            cr_assert_arr_eq(&got[t][i * ROWS], want[t], sizeof want[t], "part %d, row %d", i, t);
        metal_free_weight(be, w);
        free(data[i]);
    }
    metal_free(be, x);
    metal_free(be, out);
}

Test(metal_weights, parts_of_one_type_are_one_dispatch)
{
    struct backend *be = open_metal();
    check_parts(be, (const enum dtype[]){DT_Q4_K, DT_Q4_K, DT_Q4_K}, 1);
    check_parts(be, (const enum dtype[]){DT_Q4_K, DT_Q4_K, DT_Q6_K}, 2);
    check_parts(be, (const enum dtype[]){DT_Q6_K, DT_Q4_K, DT_Q6_K}, 3);
    check_parts(be, (const enum dtype[]){DT_Q6_K, DT_Q6_K, DT_Q6_K}, 3); /* padded */
    check_parts(be, (const enum dtype[]){DT_IQ4_NL, DT_IQ4_NL, DT_IQ4_NL}, 3);
    close_metal(be);
}
