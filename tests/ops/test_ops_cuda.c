/* Every op that the CUDA backend has, on the host emulator: against double precision, rows alone,
 * and with threads in other orders, which shows a missing barrier. */
#include <math.h>

#include "effort.h"
#include "ops/op_checks.h"
#include "ops/op_cuda.h"
#include "ops/op_unheld.h"

#include "backends/cuda/cuda_backend.h"

static const uint64_t seeds[] = {0, 20241};

static struct backend *open_gpu(void)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cuda", &(struct backend_config){0}), ST_OK, "%s",
                 status_detail());
    return be;
}

/* Is the case within the work that an emulator can do? */
static bool runs(const struct op_case *c)
{
    return c->rows <= 200 && (everything() || !cuda_repeats(c->dtype));
}

Test(ops_cuda, agrees_with_double_precision)
{
    struct backend *be = open_gpu();
    size_t n = 0;
    for (size_t s = everything() ? 0 : 1; s < ARRAY_LEN(seeds); s++) {
        emulator_seed(seeds[s]);
        for (size_t i = 0; i < n_op_cases; i++) {
            if (!runs(&op_cases[i]))
                continue;
            float *out = results(be, &op_cases[i]);
            struct op_case c = with_rounded_x(&op_cases[i]);
            check_reference(&c, out);
            free(out);
            n++;
        }
    }
    cr_log_info("%zu cases", n);
    cr_assert_gt(n, 400);
    backend_ops_of(be)->close(be);
}

Test(ops_cuda, rows_do_not_depend_on_their_neighbours)
{
    struct backend *be = open_gpu();
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (!runs(c) || c->rows > effort(50, 20))
            continue;
        emulator_seed(0);
        float *want = results(be, c);
        emulator_seed(seeds[1]);
        if (!reduced())
            check_chunks(be, c, 1, want);
        check_chunks(be, c, 5, want);
        free(want);
    }
    backend_ops_of(be)->close(be);
}

/* Has each of the cases, of which there are more than n, the bits of the CPU's plain path? */
static void check_bits_of_the_cpu(bool (*wanted)(const struct op_case *c), size_t n)
{
    struct backend *be = open_gpu(), *cpu = NULL;
    size_t done = 0;
    cr_assert_eq(backend_open(&cpu, "cpu", &(struct backend_config){.isa = "plain", .threads = 1}),
                 ST_OK);
    emulator_seed(seeds[1]);
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (!wanted(c))
            continue;
        float *got = results(be, c), *want = results(cpu, c);
        check_same(c, got, want, "the CPU's");
        free(got);
        free(want);
        done++;
    }
    cr_assert_gt(done, n);
    backend_ops_of(be)->close(be);
    backend_ops_of(cpu)->close(cpu);
}

static bool has_scaled_weights(const struct op_case *c)
{
    bool scaled = scaled_kind_of(c->dtype) != SCALED_NONE || is_sorted(c->dtype);
    return scaled && c->variant == 0 && (c->op == &op_linear || c->op == &op_embed);
}

/* Weights with scales in f32 meet x in the CPU's order, sorted columns meet it in 8 bits. */
Test(ops_cuda, scaled_weights_have_the_bits_of_the_cpu)
{
    check_bits_of_the_cpu(has_scaled_weights, 120);
}

static bool rounds_inputs(const struct op_case *c)
{
    return c->op == &op_round_input;
}

Test(ops_cuda, rounded_inputs_have_the_bits_of_the_cpu)
{
    check_bits_of_the_cpu(rounds_inputs, 10);
}

/* Decodes whose splits have no room are done by other kernels, to the same bits. */
Test(ops_cuda, attention_without_room_for_its_splits)
{
    struct backend *be = open_gpu();
    size_t room = be->scratch->bytes, n = 0;
    emulator_seed(0);
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        bool wanted = c->op == &op_attention || c->op == &op_attention_latent;
        if (!wanted || c->rows > c->n_seqs || c->rows == 0)
            continue; /* decodes alone */
        float *want = results(be, c);
        be->scratch->bytes = (size_t)be->n_sm * DECODE_OUTER_BYTES + 64;
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

Test(ops_cuda, what_a_cache_cannot_hold_is_seen_by_later_tokens_alone)
{
    struct backend *be = open_gpu();
    emulator_seed(0);
    check_unheld_entries(be);
    backend_ops_of(be)->close(be);
}

/* More query heads of a key head than a matrix fragment has rows: in f32. */
Test(ops_cuda, attention_of_many_heads_that_share_a_key_head)
{
    struct backend *be = open_gpu();
    const struct op_case c = {.op = &op_attention,
                              .rows = 9,
                              .n_seqs = 2,
                              .past = 70,
                              .n_q = 34,
                              .n_kv = 2,
                              .q_per_kv = 17,
                              .d = 16,
                              .block_len = 16,
                              .dtype = DT_I8};
    float *want = results(be, &c);
    check_reference(&c, want);
    check_chunks(be, &c, 1, want);
    free(want);
    backend_ops_of(be)->close(be);
}

/* More groups of splits than the merge takes at a time: two rows at once (a prefill) and each as a
 * decode, to the same bits; and with the sums of whole sequences. */
Test(ops_cuda, attention_over_many_groups_of_splits)
{
    static const enum dtype types[] = {DT_BF16, DT_E4M3};
    struct backend *be = open_gpu();
    size_t room = be->scratch->bytes;
    emulator_seed(0);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const struct op_case c = {.op = &op_attention,
                                  .rows = 2,
                                  .n_seqs = 1,
                                  .past = 17000,
                                  .n_q = 2,
                                  .n_kv = 1,
                                  .q_per_kv = 2,
                                  .d = 16,
                                  .block_len = 16,
                                  .dtype = types[i]};
        struct op_case rounded = with_rounded_x(&c);
        float *want = results(be, &c);
        check_reference(&rounded, want);
        check_chunks(be, &c, 1, want);
        be->scratch->bytes = (size_t)be->n_sm * DECODE_OUTER_BYTES + 64;
        check_chunks(be, &c, 1, want);
        be->scratch->bytes = room;
        free(want);
    }
    backend_ops_of(be)->close(be);
}

/* Of a long sequence a window sees a few splits: no other is computed, and the merged bits are those of a prefill. */
Test(ops_cuda, attention_computes_only_splits_that_a_window_sees)
{
    enum { FILL = 0x5a, SEEN = 4 /* splits of 128 keys for 300 of them */ };
    /* the window begins within a group of splits, and at its first one */
    static const int32_t past[] = {700, 2047, 17000};
    struct backend *be = open_gpu();
    const size_t outer = (size_t)be->n_sm * DECODE_OUTER_BYTES, room = be->scratch->bytes;
    unsigned char *part = (unsigned char *)be->scratch->data + outer;
    emulator_seed(0);
    for (size_t i = 0; i < 2 * ARRAY_LEN(past); i++) {
        struct op_case c = {.op = i % 2 ? &op_attention_chunk : &op_attention,
                            .rows = 2,
                            .n_seqs = 1,
                            .past = past[i / 2],
                            .n_q = 2,
                            .n_kv = 1,
                            .q_per_kv = 2,
                            .d = 16,
                            .block_len = 16,
                            .window = 300,
                            .dtype = DT_BF16};
        const size_t size = (size_t)(c.n_q * (c.d + 2)) * sizeof(float);
        size_t written = 0;
        struct op_case rounded = with_rounded_x(&c);
        float *want = results(be, &c);
        check_reference(&rounded, want);
        memset(part, FILL, room - outer);
        check_chunks(be, &c, 1, want);
        for (size_t b = 0; b < room - outer; b++)
            written = part[b] == FILL ? written : b / size + 1;
        cr_assert_gt(written, 0);
        cr_assert_leq(written, SEEN, "%zu splits were written", written);
        free(want);
    }
    backend_ops_of(be)->close(be);
}

/* Rows at once, in chunks of 2 and alone: prefills and decodes, whose splits are spread over the device one by one,
 * by groups, or by whole sequences. */
Test(ops_cuda, kernels_that_the_cases_do_not_reach)
{
    struct backend *be = open_gpu();
    const size_t room = be->scratch->bytes;
    const int n_sm = be->n_sm, most = 32;
    for (size_t i = 0; i < ARRAY_LEN(cuda_cases); i++) {
        const struct op_case *c = &cuda_cases[i];
        struct op_case rounded = with_rounded_x(c);
        emulator_seed(seeds[1]);
        float *want = results(be, c);
        check_reference(&rounded, want);
        emulator_seed(0);
        check_chunks(be, c, 1, want);
        check_chunks(be, c, 2, want);
        be->n_sm = most;
        check_chunks(be, c, 1, want);
        be->scratch->bytes = (size_t)most * DECODE_OUTER_BYTES + 64;
        check_chunks(be, c, 1, want);
        be->scratch->bytes = room;
        be->n_sm = n_sm;
        free(want);
    }
    backend_ops_of(be)->close(be);
}

#define HEADS_OF(D, TYPE)                                                                          \
    {                                                                                              \
        .op = &op_attention, .rows = 40, .n_seqs = 2, .past = 60, .n_q = 4, .n_kv = 2,             \
        .q_per_kv = 2, .d = D, .block_len = 16, .dtype = TYPE                                      \
    }

/* Blocks with fewer rows or stages, to the same bits. */
Test(ops_cuda, attention_with_less_shared_memory)
{
    enum { MOST = 227 << 10, LEAST = 99 << 10 }; /* of sm_90; of sm_86 and sm_89 */
    const struct op_case cases[] = {
        {.op = &op_attention_latent,
         .rows = 5,
         .n_seqs = 2,
         .past = 60,
         .n_q = 20,
         .n_kv = 1,
         .q_per_kv = 20,
         .d = 576,
         .n = 512,
         .block_len = 16,
         .dtype = DT_BF16},
        HEADS_OF(64, DT_BF16),
        HEADS_OF(128, DT_F16),
        HEADS_OF(128, DT_E4M3),
        HEADS_OF(256, DT_BF16),
        HEADS_OF(400, DT_F16),
        HEADS_OF(512, DT_BF16),
    };
    struct backend *be = open_gpu();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        float *want = results(be, &cases[i]);
        struct op_case rounded = with_rounded_x(&cases[i]);
        check_reference(&rounded, want);
        emulator_block_smem(i == 0 ? 120 << 10 : LEAST); /* latents of 576 need more than LEAST */
        float *got = results(be, &cases[i]);
        check_same(&cases[i], got, want, "with less shared memory");
        emulator_block_smem(MOST);
        free(got);
        free(want);
    }
    emulator_block_smem(LEAST); /* of no room for a split of latents: in f32 */
    float *plain = results(be, &cases[0]);
    check_reference(&cases[0], plain);
    free(plain);
    emulator_block_smem(MOST);
    backend_ops_of(be)->close(be);
}
