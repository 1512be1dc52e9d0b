/* heads_linear of the CUDA backend on the host emulator: its launches, and the bits of linear of each
 * head's matrix alone. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "backends/cuda/linear_kernels.h"
#include "ops/op_cases.h"

enum { H = 3, N = 70, GAP = 5, MOST_T = 150, SENTINEL = 77 };

struct rig {
    struct backend *be;
    const struct backend_ops *ops;
    struct weight *stack, *alone[H];
    int32_t k;
};

/* Matrices of type t, in a stack and each by itself. */
static void load(struct rig *r, enum dtype t, int32_t k)
{
    size_t row = (size_t)k * dtype_size(t);
    char *data = malloc(H * N * row);
    struct weight_src src[H];
    r->k = k;
    for (int h = 0; h < H; h++) {
        float *w = in_rows(20 + (uint32_t)h, 0, N, k);
        for (size_t i = 0; i < (size_t)N * (size_t)k; i++)
            store_at(data + (size_t)h * N * row, t, i, w[i]);
        free(w);
        src[h] = (struct weight_src){
            .name = "w", .cols = k, .n_parts = 1, .n_slices = 1, .slice_end = {k}};
        src[h].part[0] = (struct weight_part){
            .data = data + (size_t)h * N * row, .row_bytes = row, .dtype = t, .rows = N};
        cr_assert_eq(r->ops->load_weight(r->be, &src[h], &r->alone[h]), ST_OK);
    }
    cr_assert_eq(r->ops->load_stack(r->be, src, H, &r->stack), ST_OK);
    free(data);
}

static void unload(struct rig *r)
{
    r->ops->free_weight(r->be, r->stack);
    for (int h = 0; h < H; h++)
        r->ops->free_weight(r->be, r->alone[h]);
}

static struct view rows_of(struct rig *r, int32_t rows, int32_t cols, const float *from)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = DT_F32};
    size_t bytes = (size_t)rows * (size_t)cols * sizeof(float);
    cr_assert_eq(r->ops->alloc(r->be, bytes, MEM_DEVICE, &v.buf), ST_OK);
    cr_assert_eq(r->ops->write(r->be, v, from), ST_OK);
    return v;
}

/* T rows, gap columns between the heads of x: as many launches, and nothing else written. */
static void check(struct rig *r, int32_t T, int32_t gap, uint64_t launches, const char *what)
{
    int32_t a = r->k + gap, b = N + GAP;
    size_t n = (size_t)T * H * (size_t)b;
    float *x = in_rows(30, 0, T, H * a), *out = malloc(n * sizeof *out);
    float *got = malloc(n * sizeof *got), *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++)
        out[i] = SENTINEL;
    struct view vx = rows_of(r, T, H * a, x), vo = rows_of(r, T, H * b, out);
    uint64_t before = r->be->n_launched;
    cr_assert_eq(r->ops->heads_linear(r->be, r->stack, vx, vo), ST_OK, "%s", status_detail());
    uint64_t n_launched = r->be->n_launched - before;
    cr_assert_eq(n_launched, launches, "%s, %d tokens: %d launches", what, T, (int)n_launched);
    cr_assert_eq(r->ops->read(r->be, got, vo), ST_OK);
    cr_assert_eq(r->ops->write(r->be, vo, out), ST_OK);
    for (int32_t h = 0; h < H; h++)
        cr_assert_eq(r->ops->linear(r->be, r->alone[h], view_columns(vx, h * a, r->k),
                                    view_columns(vo, h * b, N)),
                     ST_OK);
    cr_assert_eq(r->ops->read(r->be, want, vo), ST_OK);
    for (size_t i = 0; i < n; i++) {
        bool written = i % (size_t)b < N;
        cr_assert_eq(bits_of_f32(got[i]), bits_of_f32(want[i]), "%s, %d tokens: %zu is %a, not %a",
                     what, T, i, got[i], want[i]);
        cr_assert(written || got[i] == SENTINEL, "%s, %d tokens: %zu is written", what, T, i);
    }
    r->ops->free(r->be, vx.buf);
    r->ops->free(r->be, vo.buf);
    free(x);
    free(out);
    free(got);
    free(want);
}

static struct rig open_rig(void)
{
    struct rig r = {0};
    cr_assert_eq(backend_open(&r.be, "cuda", &(struct backend_config){0}), ST_OK, "%s",
                 status_detail());
    r.ops = backend_ops_of(r.be);
    return r;
}

/* Up to 8 tokens, and f32: one launch; more are packed before.  One segment, aligned or not, and three. */
Test(heads_cuda, all_heads_are_one_launch_with_the_bits_of_each)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
    static const int32_t batches[] = {1, 8, 9, 33, MOST_T};
    struct rig r = open_rig();
    emulator_seed(5081);
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        for (int32_t k = 40; k <= 600; k += 560) {
            load(&r, types[t], k);
            for (size_t i = 0; i < ARRAY_LEN(batches); i++)
                check(&r, batches[i], i % 2 ? 4 : 3,
                      types[t] == DT_F32 || batches[i] <= ROWS_MAX_X32 ? 1 : 2,
                      dtype_name(types[t]));
            unload(&r);
        }
    r.ops->close(r.be);
}

/* In blocks of 32 tokens, of which the last one has 8 and is packed like the others. */
Test(heads_cuda, more_tokens_than_the_scratch_memory_holds)
{
    enum { K = 300, T = 72 };
    struct rig r = open_rig();
    size_t was = r.be->scratch->bytes, row = 320 * sizeof(uint16_t) + 2 * sizeof(float);
    load(&r, DT_F16, K);
    check(&r, T, 3, 2, "all at once");
    r.be->scratch->bytes = linear_sums_bytes(r.be) + 33 * H * row;
    check(&r, T, 3, 6, "in blocks");
    r.be->scratch->bytes = was;
    unload(&r);
    r.ops->close(r.be);
}
