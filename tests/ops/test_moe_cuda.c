/* Experts of the CUDA backend on the host emulator: the order of additions of moe_layers.h over
 * every kernel, routers to the CPU's bits, recorded steps, memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cuda/cuda_backend.h"
#include "effort.h"
#include "ops/moe_layers.h"
#include "ops/op_checks.h"

static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};

static struct backend *open_named(const char *name)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.isa = "plain", .threads = 1};
    cr_assert_eq(backend_open(&be, name, &cfg), ST_OK, "%s", status_detail());
    return be;
}

static void close_be(struct backend *be)
{
    backend_ops_of(be)->close(be);
}

/* Every type's kernels have the same memory accesses but for an element's size: under a sanitizer
 * case `number` has one type, the next case the next one. */
static bool left_out(size_t type, int32_t number)
{
    return reduced() && type != (size_t)number % ARRAY_LEN(types);
}

/* All types; E, k and T choose the kernel: up to 16, up to 127 and more rows an expert. */
static void check(int32_t E, int32_t k, int32_t D, int32_t F, int32_t T)
{
    struct backend *be = open_named("cuda");
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (left_out(i, E))
            continue;
        struct layer l = make_layer(types[i], E, k, D, F, T);
        emulator_seed(0);
        check_order(be, be, &l, "the stated order");
        emulator_seed(77);
        check_worlds(be, &l);
        free_layer(&l);
    }
    close_be(be);
}

Test(moe_cuda, few_rows)
{
    check(4, 2, 40, 56, 9);
    check(8, 8, 33, 21, 5);
    check(64, 8, 64, 48, 21);
}

/* Against the CPU's plain path: the same bits. */
static void check_quantised(enum dtype t, int32_t E, int32_t k, int32_t D, int32_t F, int32_t T)
{
    struct backend *be = open_named("cuda"), *cpu = open_named("cpu");
    struct layer l = make_layer(t, E, k, D, F, T);
    emulator_seed(0);
    check_order(be, cpu, &l, "the CPU's composition");
    emulator_seed(77);
    check_worlds(be, &l);
    free_layer(&l);
    close_be(be);
    close_be(cpu);
}

Test(moe_cuda, quantised_experts)
{
    check_quantised(DT_Q8_0, 4, 2, 64, 320, 21);
    check_quantised(DT_Q4_0, 2, 1, 96, 256, 37); /* several tiles of an expert */
    check_quantised(DT_Q4_K, 4, 2, 256, 1024, 6);
    check_quantised(DT_Q6_K, 4, 3, 256, 512, 5); /* empty slices */
    check_quantised(DT_MXFP4, 4, 2, 64, 320, 9);
    if (reduced())
        return;
    check_quantised(DT_Q4_1, 4, 4, 64, 160, 5);
    check_quantised(DT_Q5_0, 4, 2, 64, 256, 1);
    check_quantised(DT_Q5_1, 4, 1, 64, 288, 17);
    check_quantised(DT_Q5_K, 3, 2, 256, 512, 3);
    check_quantised(DT_Q2_K, 4, 2, 256, 512, 3);
    check_quantised(DT_Q3_K, 4, 2, 256, 512, 4);
    check_quantised(DT_IQ4_NL, 4, 2, 64, 256, 19);
    check_quantised(DT_IQ4_XS, 3, 1, 256, 512, 3);
}

Test(moe_cuda, experts_with_scales_in_f32)
{
    check_quantised(DT_E4M3, 4, 2, 140, 320, 21);
    check_quantised(DT_INT4_INDEX, 4, 2, 64, 256, 5);
    check_quantised(DT_NVFP4, 2, 1, 64, 200, 37); /* several tiles of an expert */
    if (reduced())
        return;
    check_quantised(DT_INT8_INDEX, 3, 1, 70, 256, 9);
    check_quantised(DT_NF4, 4, 3, 96, 200, 7);
    check_quantised(DT_FP4, 3, 2, 33, 64, 3);
}

/* Gate and up of an expert have orders of their own. */
Test(moe_cuda, experts_of_sorted_columns)
{
    check_quantised(DT_INT4_SORTED, 4, 2, 64, 256, 21);
    check_quantised(DT_INT8_SORTED, 3, 1, 70, 256, 9);
    if (reduced())
        return;
    check_quantised(DT_INT4_SORTED, 8, 3, 320, 64, 5);
    check_quantised(DT_INT4_SORTED, 2, 1, 70, 200, 40); /* several tiles of an expert */
}

/* The same on matrix units: the bits of the backend's own linear, for every kernel. */
static void check_mma(enum dtype t, int32_t E, int32_t k, int32_t D, int32_t F, int32_t T)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.activations = ACTIVATIONS_AUTO};
    cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
    struct layer l = make_layer(t, E, k, D, F, T);
    emulator_seed(0);
    check_order(be, be, &l, "the composition");
    emulator_seed(77);
    check_worlds(be, &l);
    free_layer(&l);
    close_be(be);
}

Test(moe_cuda, experts_with_scales_on_matrix_units)
{
    check_mma(DT_E4M3, 4, 2, 140, 320, 21);
    check_mma(DT_NVFP4, 2, 1, 64, 200, 37); /* several tiles of an expert */
    check_mma(DT_E4M3, 2, 2, 70, 96, 40);   /* tiles of 64 rows */
    check_mma(DT_NF4, 4, 2, 130, 320, 21);
    if (reduced())
        return;
    check_mma(DT_NVFP4, 3, 2, 150, 1024, 40);
    check_mma(DT_E4M3, 1, 1, 140, 300, 140); /* tiles of 128 rows */
    check_mma(DT_NVFP4, 1, 1, 40, 136, 140);
    check_mma(DT_NF4, 2, 2, 70, 200, 40);
    check_mma(DT_NF4, 1, 1, 40, 136, 140);
}

Test(moe_cuda, many_rows)
{
    check(3, 2, 70, 90, 37);
    check(5, 1, 36, 5, 100); /* empty slices */
}

Test(moe_cuda, very_many_rows)
{
    check(1, 1, 70, 90, 140);
}

/* Slices of 96 columns begin in the middle of what tiles load at a time: the same bits as those of a dense
 * matrix, which are padded to 128, and no bytes between them. */
Test(moe_cuda, slices_of_three_chunks)
{
    enum { E = 3, N = 32, F = 768 };
    struct backend *be = open_named("cuda");
    struct weight_src src = {.name = "down",
                             .cols = F,
                             .n_parts = 1,
                             .part = {{.dtype = DT_BF16, .row_bytes = 2 * F, .rows = N}},
                             .n_slices = N_SLICES};
    for (int i = 0; i < N_SLICES; i++)
        src.slice_end[i] = F / N_SLICES * (i + 1);
    cr_assert_eq(backend_ops_of(be)->stack_bytes(be, &src, E), (size_t)E * N * F * 2);
    cr_assert_eq(backend_ops_of(be)->weight_bytes(be, &src), (size_t)N * N_SLICES * 128 * 2);
    close_be(be);
    check(2, 1, 36, F, 3);
    check(2, 1, 36, F, 50);
}

/* Slices of several segments, more segments than a block has warps. */
Test(moe_cuda, long_sums)
{
    struct backend *be = open_named("cuda");
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (left_out(i, 1))
            continue;
        struct layer few = make_layer(types[i], 3, 2, 2200, 24, 2);
        struct layer wide = make_layer(types[i], 2, 1, 20, 4300, 3);
        check_order(be, be, &few, "segments of x");
        check_order(be, be, &wide, "segments of the hidden rows");
        free_layer(&few);
        free_layer(&wide);
    }
    close_be(be);
}

/* Every token has the same experts, the last of the layer: the others have no rows. */
Test(moe_cuda, all_tokens_to_the_same_experts)
{
    struct backend *be = open_named("cuda");
    for (int32_t T = 1; T <= 150; T += 149)
        for (size_t i = 0; i < ARRAY_LEN(types); i++) {
            struct layer l = make_layer(types[i], 6, 2, 50, 30, T);
            for (int32_t t = 0; t < 2 * T; t++)
                l.ids[t] = 4 + t % 2;
            check_order(be, be, &l, "two of six");
            if (!reduced())
                check_worlds(be, &l);
            free_layer(&l);
        }
    close_be(be);
}

/* Every step-th token of got from `from` on is what the dense ops make of it. */
static void alone(struct backend *be, const struct layer *l, const float *got, int32_t from,
                  int32_t step)
{
    float *want = malloc((size_t)l->D * sizeof *want);
    for (int32_t t = from; t < l->T; t += step) {
        composed(be, l, t, want);
        same_bits(l, got + (size_t)t * (size_t)l->D, want, (size_t)l->D, "token", t);
    }
    free(want);
}

/* A chunk is 16,384 pairs: tokens on both sides of the border against themselves alone. */
Test(moe_cuda, more_pairs_than_a_chunk)
{
    enum { E = 8, K = 8, D = 6, T = 2050 };
    if (reduced())
        cr_skip_test("long under a sanitizer: with tests/run.sh --all");
    struct backend *be = open_named("cuda");
    struct layer l = make_layer(DT_BF16, E, K, D, 9, T);
    float *got = malloc((size_t)T * D * sizeof *got);
    run_world(be, &l, 1, got);
    alone(be, &l, got, 2046, 1);
    free(got);
    free_layer(&l);
    close_be(be);
}

/* The slices' products have room for 384 of 500 columns at a time. */
Test(moe_cuda, columns_in_parts)
{
    enum { D = 500 };
    if (reduced())
        cr_skip_test("long under a sanitizer: with tests/run.sh --all");
    struct backend *be = open_named("cuda");
    struct layer l = make_layer(DT_BF16, 4, 2, D, 16, 1090);
    uint64_t before = emulator_launches();
    struct layer one = l;
    one.T = 1;
    float *got = malloc((size_t)l.T * D * sizeof *got);
    run_world(be, &one, 1, got);
    uint64_t of_one = emulator_launches() - before;
    run_world(be, &l, 1, got);
    cr_assert_eq(emulator_launches() - before, 2 * of_one + 2, "a product and a sum more");
    alone(be, &l, got, 0, l.T - 1);
    free(got);
    free_layer(&l);
    close_be(be);
}

/* ---- the router ---- */

Test(moe_cuda, routes_to_the_bits_of_the_cpu)
{
    struct backend *be = open_named("cuda"), *cpu = open_named("cpu");
    size_t n = 0;
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (c->op != &op_moe_route)
            continue;
        float *got = results(be, c), *want = results(cpu, c);
        check_same(c, got, want, "the CPU");
        free(got);
        free(want);
        n++;
    }
    cr_assert_gt(n, 4);
    check_strange_routers(be);
    close_be(be);
    close_be(cpu);
}

/* ---- recorded steps ---- */

struct step {
    struct backend *be;
    struct loaded_layer loaded;
    struct view logits, x, ids, weights, scratch, out;
};

static struct step step_open(struct backend *be, const struct layer *l)
{
    struct step s = {.be = be, .loaded = load_layer(be, l, 0, 1)};
    int32_t floats =
        (int32_t)(backend_ops_of(be)->moe_scratch(be, &s.loaded.ml, l->T) / sizeof(float));
    s.logits = view_of(be, l->T, l->E, DT_F32, NULL);
    s.x = view_of(be, l->T, l->D, DT_F32, l->x);
    s.ids = view_of(be, l->T, l->k, DT_I32, NULL);
    s.weights = view_of(be, l->T, l->k, DT_F32, NULL);
    s.scratch = view_of(be, 1, floats, DT_F32, NULL);
    s.out = view_of(be, l->T, l->D, DT_F32, NULL);
    return s;
}

static void step_close(struct step *s)
{
    struct view *v[] = {&s->logits, &s->x, &s->ids, &s->weights, &s->scratch, &s->out};
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        backend_ops_of(s->be)->free(s->be, v[i]->buf);
    unload_layer(s->be, &s->loaded);
}

static void run_step(struct step *s)
{
    const struct backend_ops *op = backend_ops_of(s->be);
    cr_assert_eq(op->moe_route(s->be, &s->loaded.ml, s->logits, s->ids, s->weights), ST_OK);
    cr_assert_eq(op->moe_ffn(s->be, &s->loaded.ml, s->x, s->ids, s->weights, s->scratch, s->out),
                 ST_OK, "%s", status_detail());
}

/* Logits of which expert `first` and those after it are the greatest. */
static void write_logits(struct step *s, const struct layer *l, int32_t first)
{
    float *v = malloc((size_t)(l->T * l->E) * sizeof *v);
    for (int32_t i = 0; i < l->T * l->E; i++)
        v[i] = -(float)((i % l->E + l->E - first + i / l->E * (first % 2)) % l->E) * 0.3f;
    cr_assert_eq(backend_ops_of(s->be)->write(s->be, s->logits, v), ST_OK);
    free(v);
}

/* One recording serves any choice of experts: evenly, all tokens to the same. */
static void check_recorded(struct backend *be, const struct layer *l)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct step s = step_open(be, l);
    struct graph *g;
    size_t n = (size_t)l->T * (size_t)l->D;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    cr_assert_eq(op->graph_begin(be), ST_OK);
    run_step(&s);
    cr_assert_eq(op->graph_end(be, &g), ST_OK, "%s", status_detail());
    for (int32_t first = 0; first < l->E; first++) {
        write_logits(&s, l, first);
        run_step(&s);
        cr_assert_eq(op->read(be, want, s.out), ST_OK);
        cr_assert_eq(op->zero(be, s.out), ST_OK);
        cr_assert_eq(op->graph_launch(be, g), ST_OK);
        cr_assert_eq(op->read(be, got, s.out), ST_OK);
        same_bits(l, got, want, n, "recorded, first expert", first);
    }
    op->graph_free(be, g);
    step_close(&s);
    free(want);
    free(got);
}

Test(moe_cuda, one_recording_serves_any_choice_of_experts)
{
    struct backend *be = open_named("cuda");
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (int32_t T = 1; T <= 33; T += 16) {
            if (left_out(i, T / 16))
                continue;
            struct layer l = make_layer(types[i], 5, 2, 40, 24, T);
            check_recorded(be, &l);
            free_layer(&l);
        }
    close_be(be);
}

/* ---- memory ---- */

/* The whole pages of expert e may not be touched any more. */
static void forbid(const struct weight *w, int32_t e)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (size_t)w->n_pad * (size_t)w->k_pad * dtype_size(w->dtype);
    char *from = (char *)w->data->data + (size_t)e * bytes;
    uintptr_t first = ((uintptr_t)from + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)from + bytes) / page * page;
    cr_assert_gt(end, first, "an expert has no page of its own");
    cr_assert_eq(mprotect((void *)first, end - first, PROT_NONE), 0);
}

/* CHOSEN is every token's only one; whoever reads another one crashes. */
Test(moe_cuda, a_step_reads_only_the_experts_that_it_uses)
{
    enum { E = 3, CHOSEN = 2 }; /* even: write_logits has it for all tokens */
    for (int32_t T = 1; T <= 65; T += 64)
        for (size_t i = 0; i < ARRAY_LEN(types); i++) {
            struct backend *be = open_named("cuda");
            struct layer l = make_layer(types[i], E, 1, 128, 128, T);
            struct step s = step_open(be, &l);
            float *want = malloc((size_t)(T * l.D) * sizeof *want);
            float *got = malloc((size_t)(T * l.D) * sizeof *got);
            write_logits(&s, &l, CHOSEN);
            run_step(&s);
            cr_assert_eq(backend_ops_of(be)->read(be, want, s.out), ST_OK);
            for (int32_t e = 0; e < E; e++)
                if (e != CHOSEN) {
                    forbid(s.loaded.gate_up, e);
                    forbid(s.loaded.down, e);
                }
            run_step(&s);
            cr_assert_eq(backend_ops_of(be)->read(be, got, s.out), ST_OK);
            same_bits(&l, got, want, (size_t)(T * l.D), "alone in memory", T);
            free(want);
            free(got);
            free_layer(
                &l); /* the device's memory, which may not be touched, ends with the process */
        }
}

/* A plan of just these bytes holds the stacks, and they take all of it. */
static void check_planned(const struct layer *l, int rank, int world)
{
    struct backend *be = NULL;
    struct backend_info info;
    struct mem_plan used;
    cr_assert_eq(backend_open(&be, "cuda", &(struct backend_config){.planned = true}), ST_OK);
    const struct backend_ops *op = backend_ops_of(be);
    op->info(be, &info);
    struct mem_plan plan = {.part[PART_OWN] = info.mem_own,
                            .part[PART_WEIGHTS] = layer_bytes(be, l, rank, world)};
    cr_assert_eq(op->reserve(be, &plan), ST_OK, "%s", status_detail());
    op->part(be, PART_WEIGHTS);
    struct loaded_layer loaded = load_layer(be, l, rank, world);
    op->used(be, &used);
    cr_assert_eq(used.part[PART_WEIGHTS], plan.part[PART_WEIGHTS]);
    unload_layer(be, &loaded);
    close_be(be);
}

Test(moe_cuda, stack_bytes_are_exact)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct layer l = make_layer(types[i], 5, 2, 70, 90, 1);
        for (int world = 1; world <= N_SLICES; world *= 2)
            check_planned(&l, world - 1, world);
        free_layer(&l);
    }
}

Test(moe_cuda, stacks_that_cannot_be)
{
    struct backend *be = open_named("cuda");
    static const char blocks[1024];
    struct weight_src src = {
        .name = "experts' down",
        .cols = 64,
        .n_parts = 1,
        .part = {{.data = blocks, .row_bytes = 64, .dtype = DT_I8, .rows = 4},
                 {.data = blocks, .row_bytes = 36, .dtype = DT_Q4_0, .rows = 4}},
        .n_slices = 1,
        .slice_end = {64}};
    struct weight *w;
    check_stacks_that_cannot_be(be);
    cr_assert_eq(backend_ops_of(be)->load_stack(be, &src, 1, &w), ST_UNSUPPORTED);
    cr_assert(strstr(status_detail(), "experts' down") && strstr(status_detail(), "i8"), "%s",
              status_detail());
    src.n_parts = 2;
    src.part[0].dtype = DT_Q8_0;
    src.part[0].row_bytes = 68;
    cr_assert_eq(backend_ops_of(be)->load_stack(be, &src, 1, &w), ST_UNSUPPORTED);
    cr_assert(strstr(status_detail(), "several types"), "%s", status_detail());
    close_be(be);
}
