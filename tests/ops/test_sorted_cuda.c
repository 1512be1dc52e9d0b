/* Matrices of sorted columns (backends/sorted_plan.h) on the CUDA backend, on the host emulator: the CPU's bits for every
 * kernel, batch and number of ranks; fused parts of one order of columns and of several; the memory that is planned. */
#include "effort.h"
#include "ops/op_checks.h"
#include "ops/op_cuda.h"

#include "backends/cuda/cuda_backend.h"

static const enum dtype types[] = {DT_INT4_SORTED, DT_INT8_SORTED};
enum { MOST = 70, GROUPS = 7 }; /* rows of x: more than a tile of 64 */

static struct backend *open_named(const char *name)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.isa = "plain", .threads = 1, .activations = ACTIVATIONS_AUTO};
    cr_assert_eq(backend_open(&be, name, &cfg), ST_OK, "%s", status_detail());
    return be;
}

static void close_be(struct backend *be)
{
    backend_ops_of(be)->close(be);
}

/* A matrix of all ranks: groups of very different sizes, in any order. */
struct matrix {
    enum dtype type;
    int32_t n, k;
    int8_t *element; /* [n, k] */
    float *scale;    /* [n, GROUPS] */
    int8_t *zero;    /* [n, GROUPS] */
    uint16_t *index; /* [k] */
    float *x;        /* [MOST, k] */
};

static uint32_t draw(uint32_t i)
{
    i = (i ^ 61U ^ i >> 16) * 9U;
    i = (i ^ i >> 4) * 0x27d4eb2dU;
    return i ^ i >> 15;
}

static struct matrix make(enum dtype t, int32_t n, int32_t k)
{
    struct matrix m = {.type = t, .n = n, .k = k};
    m.element = malloc((size_t)n * (size_t)k);
    m.scale = malloc((size_t)n * GROUPS * sizeof *m.scale);
    m.zero = malloc((size_t)n * GROUPS);
    m.index = malloc((size_t)k * sizeof *m.index);
    m.x = in_rows(3, 0, MOST, k);
    for (int32_t i = 0; i < n * k; i++)
        m.element[i] = (int8_t)(draw((uint32_t)i) % (t == DT_INT4_SORTED ? 16 : 256));
    for (int32_t i = 0; i < n * GROUPS; i++) {
        m.scale[i] = 0.01f * in_f32(5, i, 1);
        m.zero[i] = (int8_t)(draw(77U + (uint32_t)i) % (t == DT_INT4_SORTED ? 16 : 256));
    }
    for (int32_t i = 0; i < k;
         i++) { /* a half of the columns is group 0's, a quarter group 1's, ... */
        uint32_t v = draw(1000U + (uint32_t)i) % 128;
        m.index[i] = 0;
        for (uint32_t g = 64; v < g && m.index[i] < GROUPS - 1; g /= 2)
            m.index[i]++;
    }
    return m;
}

static void free_matrix(struct matrix *m)
{
    free(m->element);
    free(m->scale);
    free(m->zero);
    free(m->index);
    free(m->x);
}

static struct weight_part part_of(const struct matrix *m, int32_t row, int32_t rows, int32_t from)
{
    return (struct weight_part){.data = m->element + (size_t)row * (size_t)m->k + from,
                                .row_bytes = (size_t)m->k,
                                .dtype = m->type,
                                .rows = rows,
                                .scale = m->scale + (size_t)row * GROUPS,
                                .zero = m->zero + (size_t)row * GROUPS,
                                .scale_stride = GROUPS,
                                .index = m->index + from};
}

/* Columns [from, ends[n_slices - 1]) with slices that end there. */
static struct weight_src source(const struct matrix *m, int32_t from, int n_slices,
                                const int32_t *ends)
{
    struct weight_src src = {.name = "w",
                             .cols = ends[n_slices - 1] - from,
                             .n_parts = 1,
                             .part = {part_of(m, 0, m->n, from)},
                             .n_slices = n_slices};
    for (int i = 0; i < n_slices; i++)
        src.slice_end[i] = ends[i] - from;
    return src;
}

static struct weight *load(struct backend *be, const struct weight_src *src)
{
    struct weight *w = NULL;
    cr_assert_eq(backend_ops_of(be)->load_weight(be, src, &w), ST_OK, "%s", status_detail());
    return w;
}

/* Rows of x from column `from` on times a matrix; out [T, n], freed by the caller. */
static float *multiply(struct backend *be, const struct weight_src *src, const struct matrix *m,
                       int32_t from, int32_t T)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct weight *w = load(be, src);
    int32_t n = (int32_t)weight_src_rows(src);
    struct view x = {.rows = T, .cols = src->cols, .stride = src->cols, .dtype = DT_F32};
    struct view out = {.rows = T, .cols = n, .stride = n, .dtype = DT_F32};
    float *part = malloc(((size_t)T * (size_t)src->cols + 1) * sizeof *part);
    float *got = malloc((size_t)T * (size_t)n * sizeof *got);
    for (int32_t t = 0; t < T; t++)
        memcpy(part + (size_t)t * (size_t)src->cols, m->x + (size_t)t * (size_t)m->k + from,
               (size_t)src->cols * sizeof *part);
    cr_assert_eq(op->alloc(be, (size_t)T * (size_t)src->cols * 4 + 64, MEM_DEVICE, &x.buf), ST_OK);
    cr_assert_eq(op->alloc(be, (size_t)T * (size_t)n * 4, MEM_DEVICE, &out.buf), ST_OK);
    cr_assert_eq(op->write(be, x, part), ST_OK);
    cr_assert_eq(op->linear(be, w, x, out), ST_OK, "%s", status_detail());
    cr_assert_eq(op->read(be, got, out), ST_OK);
    op->free(be, x.buf);
    op->free(be, out.buf);
    op->free_weight(be, w);
    free(part);
    return got;
}

static void check_bits(const float *got, const float *want, int32_t T, int32_t n, const char *what)
{
    for (int32_t i = 0; i < T * n; i++)
        if (bits_of_f32(got[i]) != bits_of_f32(want[i]))
            cr_assert_fail("%s, %d tokens: element %d: %a, expected %a", what, T, i, (double)got[i],
                           (double)want[i]);
}

Test(sorted_cuda, every_batch_has_the_bits_of_the_cpu)
{
    static const int32_t batches[] = {1, 2, 8, 9, 32, 33, 64, MOST};
    static const int32_t ends[][N_SLICES] = {{1200}, {40, 130, 131, 131, 340, 600, 601, 640}};
    static const int n_slices[] = {1, N_SLICES};
    struct backend *be = open_named("cuda"), *cpu = open_named("cpu");
    for (size_t i = 0; i < 2 * ARRAY_LEN(types); i++) {
        const int32_t *e = ends[i / 2];
        struct matrix m = make(types[i % 2], 75, e[n_slices[i / 2] - 1]);
        struct weight_src src = source(&m, 0, n_slices[i / 2], e);
        float *want = multiply(cpu, &src, &m, 0, MOST);
        emulator_seed(31 + i);
        for (size_t b = 0; b < ARRAY_LEN(batches); b++) {
            float *got = multiply(be, &src, &m, 0, batches[b]);
            check_bits(got, want, batches[b], m.n, dtype_name(m.type));
            free(got);
        }
        free(want);
        free_matrix(&m);
    }
    close_be(be);
    close_be(cpu);
}

/* World ranks with 8 / world slices each, added pairwise: out [T, n]. */
static float *multiply_on(struct backend *be, int world, const struct matrix *m,
                          const int32_t *ends, int32_t T)
{
    int per = N_SLICES / world;
    float *part[N_SLICES];
    for (int r = 0; r < world; r++) {
        int32_t from = r ? ends[r * per - 1] : 0;
        struct weight_src src = source(m, from, per, ends + r * per);
        part[r] = multiply(be, &src, m, from, T);
    }
    return sum_of_ranks(part, world, (size_t)T * (size_t)m->n);
}

Test(sorted_cuda, every_number_of_ranks_gives_the_same_bits)
{
    static const int32_t ends[N_SLICES] = {61, 123, 124, 401, 463, 465, 530, 581};
    static const int32_t tokens[] = {1, 12, 40};
    struct backend *be = open_named("cuda");
    for (size_t i = 0; i < ARRAY_LEN(types) * ARRAY_LEN(tokens); i++) {
        int32_t T = tokens[i / ARRAY_LEN(types)];
        struct matrix m = make(types[i % ARRAY_LEN(types)], 40, ends[N_SLICES - 1]);
        float *want = multiply_on(be, 1, &m, ends, T);
        for (int world = 2; world <= N_SLICES; world *= 2) {
            float *got = multiply_on(be, world, &m, ends, T);
            check_bits(got, want, T, m.n, dtype_name(m.type));
            free(got);
        }
        free(want);
        free_matrix(&m);
    }
    close_be(be);
}

/* Parts of one order are one matrix, so that x is packed once; others are not; and no bit depends on it.  A plan that does
 * not know the orders has room for either. */
Test(sorted_cuda, fused_parts)
{
    enum { A = 33, B = 20, K = 300, T = 5 };
    static const int32_t ends[] = {K};
    struct backend *be = open_named("cuda");
    struct matrix m = make(DT_INT4_SORTED, A + B, K), other = make(DT_INT4_SORTED, A + B, K);
    struct weight_src src = source(&m, 0, 1, ends);
    float *want = multiply(be, &src, &m, 0, T);
    src.n_parts = 2;
    src.part[0] = part_of(&m, 0, A, 0);
    src.part[1] = part_of(&m, A, B, 0);
    size_t one = backend_ops_of(be)->weight_bytes(be, &src);
    struct weight *w = load(be, &src);
    cr_assert_eq(w->n_parts, 0);
    backend_ops_of(be)->free_weight(be, w);
    float *got = multiply(be, &src, &m, 0, T);
    check_bits(got, want, T, A + B, "one order");
    free(got);
    src.part[1].index = NULL;
    cr_assert_gt(backend_ops_of(be)->weight_bytes(be, &src), one);
    memcpy(other.index, m.index, K * sizeof *m.index); /* another array of the same */
    src.part[1].index = other.index;
    cr_assert_eq(backend_ops_of(be)->weight_bytes(be, &src), one);
    other.index[7] = (uint16_t)((other.index[7] + 1) % GROUPS);
    w = load(be, &src);
    cr_assert_eq(w->n_parts, 2);
    backend_ops_of(be)->free_weight(be, w);
    got = multiply(be, &src, &m, 0, T);
    for (int32_t t = 0; t < T; t++)
        check_bits(got + t * (A + B), want + t * (A + B), 1, A, "the part before");
    cr_assert(memcmp(got, want, T * (A + B) * sizeof *got) != 0);
    free(got);
    free(want);
    free_matrix(&m);
    free_matrix(&other);
    close_be(be);
}

/* With --activations f32 integers with an index are loaded in its place. */
Test(sorted_cuda, is_a_feature_of_8_bit_activations)
{
    struct backend *be = NULL;
    struct backend_info info;
    for (int f32 = 0; f32 < 2; f32++) {
        struct backend_config cfg = {.activations = f32 ? ACTIVATIONS_F32 : ACTIVATIONS_AUTO};
        cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
        backend_ops_of(be)->info(be, &info);
        cr_assert_eq(info.features >> FEATURE_SORTED & 1U, f32 ? 0U : 1U);
        close_be(be);
    }
}
