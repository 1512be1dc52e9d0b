/* Operands of the CUDA backend on the host emulator: the bits of elements, which matrices have them, and that a view's
 * reader alone says what its memory has. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

#include <cublasLt.h>

#include "backends/cuda/cuda_backend.h"
#include "ops/operand_pairs.h"

static struct backend *open_cuda(enum numerics numerics)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cuda", &(struct backend_config){.numerics = numerics}), ST_OK,
                 "%s", status_detail());
    return be;
}

static void check_pairs(enum numerics numerics)
{
    struct backend *be = open_cuda(numerics);
    char why[OP_WHY_BYTES];
    for (size_t i = 0; i < n_operand_pairs; i++) {
        operand_pair_check(be, &operand_pairs[i], why);
        cr_assert_str_empty(why, "%s: %s", operand_pair_name(&operand_pairs[i]), why);
    }
    backend_ops_of(be)->close(be);
}

Test(operand_cuda, have_the_bits_of_elements)
{
    check_pairs(NUMERICS_STRICT);
}

/* cuBLASLt reads rows, whatever their number. */
Test(operand_cuda, have_the_bits_of_elements_in_fast_numerics)
{
    check_pairs(NUMERICS_FAST);
}

enum { T = 4, K = 512, N = 16 };

struct rig {
    struct op_env e;
    struct weight *w, *norm;
    struct view resid, h, out;
};

static struct rig rig_open(enum dtype t)
{
    struct rig r = {.e = env_open(open_cuda(NUMERICS_STRICT))};
    float *x = in_rows(150, 0, T, K);
    r.w = env_matrix(&r.e, t, 151, N, K, 8, NULL);
    r.norm = env_vector(&r.e, x, K);
    r.resid = env_packed(&r.e, T, K, DT_F32, x);
    r.h = env_packed(&r.e, T, K, DT_F32, NULL);
    r.out = env_packed(&r.e, T, N, DT_F32, NULL);
    free(x);
    return r;
}

static void rig_close(struct rig *r)
{
    struct backend *be = r->e.be;
    cr_assert_eq(env_close(&r->e), ST_OK, "%s", status_detail());
    backend_ops_of(be)->close(be);
}

static void norm_to(struct rig *r, struct view h)
{
    ENV_RUN(&r->e,
            r->e.ops->add_rms_norm(r->e.be, r->resid, (struct view){0}, NULL, r->norm, 1e-5f, h));
}

static void multiply(struct rig *r, struct view x, float out[T * N])
{
    ENV_RUN(&r->e, r->e.ops->linear(r->e.be, r->w, x, r->out));
    env_read(&r->e, out, r->out);
}

/* Elements behind an operand in the same memory are multiplied as elements, whoever wrote them, and an operand behind
 * those as an operand. */
static void check_memory(enum dtype t)
{
    static float first[T * N], again[T * N], of_host[T * N], expected[T * N];
    struct rig r = rig_open(t);
    float *other = in_rows(152, 0, T, K);
    struct view operand = env_operand(&r.e, r.h, r.w, OPERAND_NORM),
                beside = env_packed(&r.e, T, K, DT_F32, other);
    multiply(&r, beside, expected);
    norm_to(&r, operand);
    multiply(&r, operand, first);
    ENV_RUN(&r.e, r.e.ops->write(r.e.be, r.h, other));
    multiply(&r, r.h, of_host);
    cr_assert_arr_eq(of_host, expected, sizeof expected);
    ENV_RUN(&r.e, r.e.ops->copy(r.e.be, r.h, beside));
    multiply(&r, r.h, again);
    cr_assert_arr_eq(again, expected, sizeof expected);
    norm_to(&r, r.h);
    multiply(&r, r.h, again);
    cr_assert_arr_eq(again, first, sizeof first);
    norm_to(&r, operand);
    multiply(&r, operand, again);
    cr_assert_arr_eq(again, first, sizeof first);
    free(other);
    rig_close(&r);
}

Test(operand_cuda, the_view_says_what_its_memory_has)
{
    check_memory(DT_BF16);
    check_memory(DT_F16);
}

#ifndef NDEBUG
/* By an op that reads elements. */
Test(operand_cuda, is_not_read_as_elements, .signal = SIGABRT)
{
    struct rig r = rig_open(DT_BF16);
    struct view operand = env_operand(&r.e, r.h, r.w, OPERAND_NORM);
    norm_to(&r, operand);
    cr_assert_eq(r.e.st, ST_OK, "%s", status_detail());
    ENV_RUN(&r.e, r.e.ops->scale(r.e.be, operand, 2.0f));
}

/* By a matrix of another type. */
Test(operand_cuda, is_not_read_by_another_matrix, .signal = SIGABRT)
{
    struct rig r = rig_open(DT_BF16);
    struct view operand = env_operand(&r.e, r.h, r.w, OPERAND_NORM);
    struct weight *f16 = env_matrix(&r.e, DT_F16, 151, N, K, 8, NULL);
    norm_to(&r, operand);
    cr_assert_eq(r.e.st, ST_OK, "%s", status_detail());
    ENV_RUN(&r.e, r.e.ops->linear(r.e.be, f16, operand, r.out));
}

/* Nor are its rows taken apart: their order depends on their number. */
Test(operand_cuda, has_no_rows, .signal = SIGABRT)
{
    struct rig r = rig_open(DT_BF16);
    struct view operand = env_operand(&r.e, r.h, r.w, OPERAND_NORM);
    cr_assert_eq(r.e.st, ST_OK, "%s", status_detail());
    view_rows(operand, 0, 1);
}
#endif

static void check_reads(enum dtype t, int32_t k, int32_t n_slices, bool segments, bool elements)
{
    struct op_env e = env_open(open_cuda(NUMERICS_STRICT));
    struct backend *be = e.be;
    struct weight *w = env_matrix(&e, t, 153, 4, k, n_slices, NULL);
    cr_assert_eq(e.st, ST_OK, "%s", status_detail());
    cr_assert_eq(e.ops->reads_operand(be, w, OPERAND_NORM), segments);
    cr_assert_eq(e.ops->reads_operand(be, w, OPERAND_ACT_MUL), segments);
    cr_assert_eq(e.ops->reads_operand(be, w, OPERAND_ATTENTION), elements);
    env_close(&e);
    backend_ops_of(be)->close(be);
}

Test(operand_cuda, which_matrices_have_one)
{
    check_reads(DT_BF16, 512, 8, true, true);
    check_reads(DT_BF16, 64, 1, true, true);
    check_reads(DT_BF16, 480, 8, true, false); /* zeros behind each slice */
    check_reads(DT_BF16, 100, 1, true, false);
    check_reads(DT_BF16, 256, 8, false, false); /* larger than the elements */
    check_reads(DT_F16, 512, 8, true, false);   /* a scale is of 256 columns */
    check_reads(DT_F32, 512, 8, false, false);
}
