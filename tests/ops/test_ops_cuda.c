/* Every op that the CUDA backend has, on the host emulator: against double precision, rows alone,
 * and with threads in other orders, which shows a missing barrier. */
#include "common/quant.h"
#include "ops/op_checks.h"

#include "backends/cuda/cuda_backend.h"

static const uint64_t seeds[] = {0, 20241};

/* Activations meet 16-bit weights in the weights' type, of 8 or 11 significant bits: rounding to
 * nearest changes them by 2^-8 or 2^-11 at most. */
static struct op_case with_rounded_x(const struct op_case *c)
{
    struct op_case rounded = *c;
    bool widened = c->variant == 1 && c->n_parts > 1; /* parts of two types: f32 in memory */
    if (c->op == &op_linear && !widened)
        rounded.x_eps = c->dtype == DT_BF16 ? 0x1p-8 : c->dtype == DT_F16 ? 0x1p-11 : 0;
    if (c->op == &op_attention && c->dtype != DT_F32) /* 8-bit caches are widened to bf16 */
        rounded.x_eps = c->dtype == DT_F16 ? 0x1p-11 : 0x1p-8;
    return rounded;
}

static struct backend *open_gpu(void)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cuda", &(struct backend_config){0}), ST_OK, "%s",
                 status_detail());
    return be;
}

/* Is the case for an op of this backend, and within the work that an emulator can do? */
static bool runs(const struct backend *be, const struct op_case *c)
{
    const struct backend_ops *o = backend_ops_of(be);
    const struct op_present {
        const struct op *op;
        bool present;
    } all[] = {
        {&op_linear, o->linear},
        {&op_embed, o->embed},
        {&op_add_rms_norm, o->add_rms_norm},
        {&op_layer_norm, o->layer_norm},
        {&op_act_mul, o->act_mul},
        {&op_activate, o->activate},
        {&op_add, o->add},
        {&op_gather, o->gather},
        {&op_edit_logits, o->edit_logits},
        {&op_topk, o->topk},
        {&op_sample, o->sample},
        {&op_take_tokens, o->take_tokens},
        {&op_qkv, o->qkv_to_cache},
        {&op_attention, o->attention},
    };
    if (quant_form(c->dtype))
        return false; /* see backends/cuda: the weight types that it takes */
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].op == c->op)
            return all[i].present && c->rows <= 200;
    return false;
}

Test(ops_cuda, agrees_with_double_precision)
{
    struct backend *be = open_gpu();
    size_t n = 0;
    for (size_t s = 0; s < ARRAY_LEN(seeds); s++) {
        emulator_seed(seeds[s]);
        for (size_t i = 0; i < n_op_cases; i++) {
            if (!runs(be, &op_cases[i]))
                continue;
            float *out = results(be, &op_cases[i]);
            struct op_case c = with_rounded_x(&op_cases[i]);
            check_reference(&c, out);
            free(out);
            n++;
        }
    }
    cr_log_info("%zu cases", n);
    cr_assert_gt(n, 50);
    backend_ops_of(be)->close(be);
}

Test(ops_cuda, rows_do_not_depend_on_their_neighbours)
{
    struct backend *be = open_gpu();
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (!runs(be, c) || c->rows > 50)
            continue;
        emulator_seed(0);
        float *want = results(be, c);
        emulator_seed(seeds[1]);
        check_chunks(be, c, 1, want);
        check_chunks(be, c, 5, want);
        free(want);
    }
    backend_ops_of(be)->close(be);
}

/* Decodes whose splits have no room are done by other kernels, to the same bits. */
Test(ops_cuda, attention_without_room_for_its_splits)
{
    struct backend *be = open_gpu();
    size_t room = be->scratch->bytes, n = 0;
    emulator_seed(0);
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (c->op != &op_attention || c->rows > c->n_seqs || c->rows == 0)
            continue; /* decodes alone */
        float *want = results(be, c);
        be->scratch->bytes = 64;
        float *got = results(be, c);
        be->scratch->bytes = room;
        check_same(c, got, want, "without room");
        free(want);
        free(got);
        n++;
    }
    cr_assert_gt(n, 3);
    backend_ops_of(be)->close(be);
}
