/* The Metal backend beside its ops and weights, on the tests' double: opening, memory, events, errors. */
#include "metal_case.h"

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

/* Matrices are chosen by name alone, and have a numerics id of their own. */
Test(metal, matrix_products_are_chosen_by_name)
{
    static const char *const all[][2] = {
        {NULL, "chains3"}, {"chains", "chains3"}, {"matrices", "matrices4"}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct backend_info info;
        if (all[i][0])
            choose(all[i][0]);
        struct backend *be = open_metal();
        backend_ops_of(be)->info(be, &info);
        cr_assert_str_eq(info.matrix, all[i][1]);
        load_type(be, DT_Q4_K, false);
        cr_assert_eq(be->pipeline[KERNEL_matrix_q4_k] != NULL, i == 2);
        cr_assert_eq(be->pipeline[KERNEL_linear_q4_k] == NULL, i == 2);
        close_metal(be);
    }
    choose("matrix");
    refused((struct backend_config){0}, ST_RANGE, "INGOT_METAL_PRODUCTS=matrix:");
}

/* Where they do not keep the contract, and on GPUs without them. */
Test(metal, matrix_products_that_cannot_be_had_are_refused)
{
    choose("matrices");
    metal_double_break_matrices(MATRICES_BY_ROW);
    refused((struct backend_config){0}, ST_UNSUPPORTED,
            "INGOT_METAL_PRODUCTS=matrices: Metal device emulated GPU gives a row");
    metal_double_break_matrices(MATRICES_BY_COLUMN);
    refused((struct backend_config){0}, ST_UNSUPPORTED,
            "INGOT_METAL_PRODUCTS=matrices: Metal device emulated GPU gives column 0");
    metal_double_break_matrices(MATRICES_KEEP);
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

/* Of models of these types of matrices, the cache in f16: 3 for each type, and one for the cache. */
Test(metal, pipelines_are_of_what_the_model_uses)
{
    static const struct {
        const char *model;
        enum dtype type[2];
        bool stack;
        struct backend_use use;
        uint64_t made;
    } all[] = {{"llama 1B BF16", {DT_BF16, DT_BF16}, false, {.kv = DT_F16, .n_heads = 1}, 4},
               {"llama 1B Q4_K_M", {DT_Q4_K, DT_Q6_K}, false, {.kv = DT_F16, .n_heads = 1}, 7},
               {"FP8 folder", {DT_E4M3, DT_BF16}, false, {.kv = DT_F16, .n_heads = 1}, 7},
               {"FP8 folder, inputs too",
                {DT_E4M3, DT_BF16},
                false,
                {.kv = DT_F16, .n_heads = 1, .rounds_inputs = true},
                10},
               {"experts", {DT_Q4_K, DT_Q4_K}, true, {.kv = DT_I8, .n_heads = 1}, 4},
               {"two sizes of heads", {DT_F16, DT_F16}, false, {.kv = DT_F16, .n_heads = 2}, 4}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        uint64_t before = metal_double_pipelines_made();
        struct backend *be = open_metal();
        uint64_t opened = metal_double_pipelines_made();
        cr_assert_eq(opened - before, 36, "%s: %llu at the start", all[i].model,
                     (unsigned long long)(opened - before));
        for (int k = 0; k < 2; k++)
            load_type(be, all[i].type[k], all[i].stack);
        MUST(metal_prepare(be, &all[i].use));
        cr_assert_eq(metal_double_pipelines_made() - opened, all[i].made, "%s: %llu", all[i].model,
                     (unsigned long long)(metal_double_pipelines_made() - opened));
        close_metal(be);
    }
}

/* What `prepare` is for: the double refuses a pipeline that is made in a step. */
Test(metal, a_pipeline_in_a_step_is_seen)
{
    static const struct backend_use use = {.kv = DT_BF16, .d_head = {64}, .n_heads = 1};
    struct backend *be = open_metal();
    MUST(metal_prepare(be, &use));
    metal_double_catch(true);
    metal_double_seal(true);
    MUST(metal_make_pipeline(be, metal_attention_kernel(be, DT_BF16, 64)));
    cr_assert_null(metal_double_error());
    MUST(metal_make_pipeline(be, metal_attention_kernel(be, DT_F16, 64)));
    const char *error = metal_double_error();
    cr_assert(error && strstr(error, "pipeline"), "%s", error ? error : "no error");
    metal_double_seal(false);
    metal_double_catch(false);
    close_metal(be);
}

/* A model that comes later gets its own; those that are there stay. */
Test(metal, another_type_makes_its_pipelines_alone)
{
    struct backend *be = open_metal();
    load_type(be, DT_BF16, false);
    objc_ref embed = be->pipeline[KERNEL_embed_bf16];
    cr_assert_not_null(embed);
    cr_assert_null(be->pipeline[KERNEL_linear_q4_k]);
    uint64_t before = metal_double_pipelines_made();
    load_type(be, DT_Q4_K, false);
    load_type(be, DT_BF16, false);
    cr_assert_eq(metal_double_pipelines_made(), before + 3);
    cr_assert_eq(be->pipeline[KERNEL_embed_bf16], embed);
    cr_assert_not_null(be->pipeline[KERNEL_linear_q4_k]);
    close_metal(be);
}

/* Before macOS 15 safe math has another switch. */
Test(metal, an_older_system_compiles_with_safe_math)
{
    metal_double_without_math_mode(true);
    close_metal(open_metal());
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
