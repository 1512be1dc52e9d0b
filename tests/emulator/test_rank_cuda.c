/* A rank on the emulated device, as a worker makes it: the memory plan against what is taken, and
 * what the host does in a step. */
#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "bench/shape_source.h"
#include "effort.h"
#include "gpu/rank_rig.h"
#include "worker/model/memory.h"
#include "worker/step/step.h"

#define MUST(call) cr_assert_eq((call), ST_OK, "%s", status_detail())

static struct loader *golden(const char *name)
{
    char path[512];
    struct loader *ld;
    snprintf(path, sizeof path, "%s/tests/golden/models/%s", INGOT_SOURCE_DIR, name);
    MUST(loader_open(&ld, path));
    return ld;
}

/* Every part to the byte, in two allocations whatever the model. */
static void check_plan(struct loader *ld, const char *graphs, const char *numerics)
{
    struct rank_rig r;
    size_t n_blocks;
    uint64_t before = emulator_counts().allocations;
    MUST(rank_rig_plan(&r, ld, graphs, numerics));
    cr_assert_eq(emulator_counts().allocations, before, "planning takes memory");
    MUST(rank_rig_load(&r));
    cr_assert(r.plan.memory.weights > 0 && r.plan.memory.kv > 0 && r.plan.step > 0);
    cr_assert(r.plan.own > 0 && r.plan.pinned > 0);
    MUST(rank_rig_check_plan(&r));
    cr_assert_eq(emulator_counts().allocations, before + 2);
    cr_assert_eq(emulator_in_use(&n_blocks), r.plan.total - r.plan.graph);
    rank_rig_close(&r);
}

Test(rank_cuda, the_plan_is_what_is_taken)
{
    check_plan(golden("llama-gqa"), "off", "strict");
    check_plan(golden("qwen2"), "auto", "fast");
    check_plan(golden("qwen3moe"), "auto", "strict");
    check_plan(golden("qwen3moe-v5-bf16"), "off", "strict");
    check_plan(golden("mixtral-v5"), "off", "strict");
    check_plan(golden("gemma3"), "auto", "strict");
    check_plan(golden("ministral3"), "off", "strict");
    check_plan(golden("qwen3next"), "auto", "strict");
    check_plan(golden("nemotron-h-moe"), "auto", "strict");
}

/* 188 million weights. */
Test(rank_cuda, the_plan_of_a_larger_model)
{
    struct loader *ld;
    MUST(shape_loader_open(&ld, "200m", DT_BF16, DT_BF16));
    check_plan(ld, "off", "strict");
}

Test(rank_cuda, no_room_names_parts_and_options)
{
    static const char *const words[] = {
        "wanted are",  "weights",           "KV cache of 24 blocks", "collective",
        "--kv-memory", "--max-step-tokens", "free for this rank",    "emulated GPU"};
    struct rank_rig r;
    size_t n_blocks;
    MUST(rank_rig_plan(&r, golden("llama-gqa"), "off", "strict"));
    emulator_memory(r.plan.total - 1); /* since the plan was made */
    cr_assert_eq(rank_plan_reserve(&r.plan), ST_NOMEM);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        cr_assert_not_null(strstr(status_text(), words[i]), "'%s' has no '%s'", status_text(),
                           words[i]);
    emulator_in_use(&n_blocks);
    cr_assert_eq(n_blocks, 0);
    emulator_memory(r.plan.total);
    MUST(rank_plan_reserve(&r.plan));
    rank_rig_close(&r);
}

Test(rank_cuda, plans_of_latent_attention)
{
    static const char *const names[] = {"deepseek2-lite-bf16", "deepseek3"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct rank_rig r;
        MUST(rank_rig_plan(&r, golden(names[i]), "off", "strict"));
        rank_rig_close(&r);
    }
}

/* Ranks that share a GPU divide its memory, whatever --device says. */
Test(rank_cuda, the_memory_of_a_device_is_divided_among_its_ranks)
{
    struct rank_rig r;
    MUST(rank_rig_plan(&r, golden("llama-gqa"), "off", "strict"));
    struct shared_options opt = r.opt.shared;
    for (int device = -1; device <= 0; device++)
        for (int n = 1; n <= 2; n++) {
            struct rank_plan p;
            struct rank_place place = {.world = 2, .n_on_host = 2, .n_memory = n, .n_device = 2};
            opt.device = device;
            MUST(rank_plan_init(&p, &opt, &place, r.be, r.ld));
            cr_assert_eq(p.free, p.info.mem_free / (size_t)n);
            rank_plan_fini(&p);
        }
    rank_rig_close(&r);
}

/* What the collective's library takes when it is opened is not given to the KV cache. */
Test(rank_cuda, memory_of_the_library_is_not_planned_with)
{
#ifndef INGOT_HAVE_CUDA
    cr_skip_test("this build has no collective of devices (no CUDA toolkit)");
#endif
    for (int n = 1; n <= 2; n++) {
        struct rank_rig r;
        struct rank_plan p;
        struct rank_place place = {
            .world = 2, .n_on_host = 2, .n_memory = n, .n_device = n, .one_host = true};
        uint64_t without, with;
        size_t n_blocks;
        void *library = NULL;
        MUST(rank_rig_plan(&r, golden("llama-gqa"), "off", "strict"));
        struct shared_options opt = r.opt.shared;
        opt.kv_blocks = 0;
        opt.max_seqs = 256;
        MUST(rank_plan_init(&p, &opt, &place, r.be, r.ld));
        MUST(rank_plan_set_blocks(&p, 1));
        cr_assert_gt(p.coll, 0u, "the ranks have no collective on the device");
        size_t used = emulator_in_use(&n_blocks);
        size_t block = p.memory.kv_per_block, taken = 512 * block; /* by the library */
        emulator_memory(used + (size_t)n * (p.total + 1024 * block));
        rank_plan_fini(&p);
        MUST(rank_plan_init(&p, &opt, &place, r.be, r.ld));
        MUST(rank_plan_blocks(&p, &without));
        MUST(rank_plan_reserve_coll(&p));
        for (int i = 1; i < n; i++) /* of the other rank of this device */
            cr_assert_eq(cudaMalloc(&library, p.coll), cudaSuccess);
        cr_assert_eq(cudaMalloc(&library, (size_t)n * taken), cudaSuccess);
        size_t before = p.free;
        rank_plan_measure_coll(&p);
        cr_assert_eq(p.library, taken);
        cr_assert_eq(p.free, before - taken);
        MUST(rank_plan_blocks(&p, &with));
        cr_assert_lt(with, without);
        MUST(rank_plan_set_blocks(&p, with));
        cr_assert(rank_plan_fits(&p));
        MUST(rank_plan_reserve(&p));
        rank_plan_fini(&p);
        rank_rig_close(&r);
    }
}

/* f32, and rounding as the checkpoint says, are CUDA's too; how 16-bit weights are multiplied is not a choice. */
Test(rank_cuda, activations)
{
    static const struct {
        int option; /* of --activations */
        enum status st;
    } cases[] = {{0, ST_OK}, {1, ST_OK}, {2, ST_UNSUPPORTED}, {3, ST_UNSUPPORTED}, {4, ST_OK}};
    struct rank_rig r;
    MUST(rank_rig_plan(&r, golden("llama-fp8-block"), "off", "strict"));
    MUST(loader_round_inputs(r.ld));
    struct shared_options opt = r.opt.shared;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rank_plan p;
        struct rank_place place = {.world = 1, .n_on_host = 1, .n_memory = 1, .n_device = 1};
        opt.activations = cases[i].option;
        cr_assert_eq(rank_plan_init(&p, &opt, &place, r.be, r.ld), cases[i].st);
        if (cases[i].st == ST_OK) {
            MUST(rank_plan_set_blocks(&p, 4));
            rank_plan_fini(&p);
        } else {
            cr_assert_not_null(strstr(status_text(), "--activations"), "%s", status_text());
        }
    }
    rank_rig_close(&r);
}

/* ---- steps ---- */

typedef struct result_token tokens[RIG_NEW][RIG_SEQS];

/* Op by op, one step after the other. */
static void oracle(const char *model, bool penalty, tokens got)
{
    struct rank_rig r;
    MUST(rank_rig_plan(&r, golden(model), "off", "strict"));
    MUST(rank_rig_load(&r));
    MUST(rank_rig_generate(&r, false, penalty, got));
    rank_rig_close(&r);
}

/* A decode: two uploads and their move to the arrays of the graph, one graph, one download. */
static void check_decode(const char *model)
{
    static tokens got, expected;
    struct rank_rig r;
    int32_t last[RIG_SEQS];
    oracle(model, true, expected);
    MUST(rank_rig_plan(&r, golden(model), "auto", "strict"));
    MUST(rank_rig_load(&r));
    cr_assert_eq(rank_step_n_graphs(r.step), 3); /* 1, 2, 3 sequences */
    for (uint32_t i = 0; i < RIG_NEW; i++) {
        struct emulator_calls a = emulator_counts();
        MUST(rank_rig_run(&r, i, last, true));
        MUST(rank_rig_take(&r, got[i], last));
        struct emulator_calls b = emulator_counts();
        cr_assert_eq(b.allocations, a.allocations, "step %u allocates", i);
        cr_assert_eq(b.to_device - a.to_device, 2); /* arrays, block tables */
        /* step 0 keeps a sequence's states, of each layer that has any: the convolution's, the rule's */
        uint64_t kept = i == 0 ? 2 * (uint64_t)model_n_delta(loader_config(r.ld)) : 0;
        cr_assert_eq(b.on_device - a.on_device, 1 + kept);
        cr_assert_eq(b.to_host - a.to_host, 1);
        cr_assert_eq(b.sets, a.sets);
        cr_assert_eq(b.graphs - a.graphs, i > 0);
        cr_assert_eq(b.kernels > a.kernels, i == 0, "step %u: %d kernels beside the graph", i,
                     (int)(b.kernels - a.kernels));
    }
    rank_rig_close(&r);
    MUST(rank_rig_same(got, expected));
}

/* ---- kernels of a layer ---- */

static void load_small(struct rank_rig *r, enum dtype type)
{
    struct loader *ld;
    MUST(shape_loader_open(&ld, "small", type, type));
    MUST(rank_rig_plan(r, ld, "off", "strict"));
}

/* Does a kernel's name, as LAUNCH has it, begin so? */
static bool is_kernel(const char *name, const char *wanted)
{
    return strncmp(name + (name[0] == '('), wanted, strlen(wanted)) == 0;
}

/* Step i launches a layer's kernels twice, one behind the other, after the embedding, and then the last norm. */
static void check_layers(struct rank_rig *r, uint32_t i, const char *const *layer, size_t n)
{
    struct result_token got[RIG_SEQS];
    int32_t last[RIG_SEQS];
    uint64_t at = r->be->n_enqueued;
    MUST(rank_rig_run(r, i, NULL, false));
    cr_assert_lt(r->be->n_enqueued - at, N_ENQUEUED);
    while (!is_kernel(r->be->enqueued[at % N_ENQUEUED], "embed_kernel"))
        at++;
    at++;
    for (size_t k = 0; k < 2 * n; k++, at++)
        cr_assert(is_kernel(r->be->enqueued[at % N_ENQUEUED], layer[k % n]),
                  "step %u, kernel %zu of a layer is %s, not %s", i, k % n,
                  r->be->enqueued[at % N_ENQUEUED], layer[k % n]);
    cr_assert(is_kernel(r->be->enqueued[at % N_ENQUEUED], "add_rms_norm_kernel"));
    MUST(rank_rig_take(r, got, last));
}

/* No kernel packs activations of bf16 weights; of f16 weights, whose scale is of 256 columns, those of attention
 * alone, from 9 tokens on. */
Test(rank_cuda, kernels_of_a_dense_layer)
{
    static const char *const decode[] = {
        "norm_operand_kernel", "rows_kernel",        "qkv_kernel",
        "attention_decode<",   "attention_merge<",   "rows_kernel",
        "norm_operand_kernel", "hidden_rows_kernel", "rows_kernel"};
    static const char *const prompts[] = {
        "norm_operand_kernel", "rows_kernel",        "qkv_kernel",  "attention_decode<",
        "attention_merge<",    "attention_prefill<", "rows_kernel", "norm_operand_kernel",
        "hidden_rows_kernel",  "rows_kernel"};
    static const char *const decode_f16[] = {
        "norm_operand_kernel", "rows_kernel", "qkv_kernel",          "attention_decode<",
        "attention_merge<",    "rows_kernel", "norm_operand_kernel", "rows_kernel",
        "act_operand_kernel",  "rows_kernel"};
    static const char *const prompts_f16[] = {
        "norm_operand_kernel", "rows_kernel",        "qkv_kernel",         "attention_decode<",
        "attention_merge<",    "attention_prefill<", "pack_kernel",        "rows_kernel",
        "norm_operand_kernel", "rows_kernel",        "act_operand_kernel", "rows_kernel"};
    struct rank_rig r;
    load_small(&r, DT_BF16);
    MUST(rank_rig_load(&r));
    check_layers(&r, 0, prompts, ARRAY_LEN(prompts));
    check_layers(&r, 1, decode, ARRAY_LEN(decode));
    rank_rig_close(&r);
    load_small(&r, DT_F16);
    MUST(rank_rig_load(&r));
    check_layers(&r, 0, prompts_f16, ARRAY_LEN(prompts_f16));
    check_layers(&r, 1, decode_f16, ARRAY_LEN(decode_f16));
    rank_rig_close(&r);
}

/* The tokens are those of a backend that has no operands. */
Test(rank_cuda, operands_change_no_token)
{
    static const enum dtype types[] = {DT_BF16, DT_F16};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        static tokens got, expected;
        struct rank_rig r;
        load_small(&r, types[i]);
        struct backend_ops plain = *backend_ops_of(r.be);
        plain.reads_operand = NULL;
        plain.linear_act_mul = NULL;
        r.be->base.ops = &plain;
        MUST(rank_rig_load(&r));
        MUST(rank_rig_generate(&r, false, false, expected));
        rank_rig_close(&r);
        load_small(&r, types[i]);
        MUST(rank_rig_load(&r));
        MUST(rank_rig_generate(&r, true, false, got));
        rank_rig_close(&r);
        MUST(rank_rig_same(got, expected));
    }
}

enum { TALL = 3 }; /* blocks of the longest sequence */

/* Bytes of a step of two sequences that goes to the device in a context of max_ctx. */
static uint64_t bytes_of_step(int32_t max_ctx)
{
    struct backend *be = NULL;
    struct step *step;
    struct step_dev dev;
    const struct step_config cfg = {.max_tokens = 64,
                                    .max_seqs = 8,
                                    .max_open = 8,
                                    .max_ctx = max_ctx,
                                    .n_blocks = 64,
                                    .block_len = 16,
                                    .vocab = 100,
                                    .max_edits = 1000,
                                    .pad = true,
                                    .land = true};
    int32_t ids[TALL * 16 + 2] = {0}, blocks[TALL + 1] = {7, 9, 11, 13}, got[TALL];
    struct plan_open opens[2] = {
        {.seq_id = 1, .sp = sample_params_default(), .n_prompt = TALL * 16},
        {.seq_id = 2, .sp = sample_params_default(), .n_prompt = 2}};
    struct plan_seq seqs[2] = {
        {.seq_id = 1, .n_tokens = TALL * 16, .n_blocks = TALL},
        {.seq_id = 2, .n_tokens = 2, .token_off = TALL * 16, .n_blocks = 1, .block_off = TALL}};
    const struct step_plan plan = {.n_seqs = 2,
                                   .n_tokens = TALL * 16 + 2,
                                   .n_blocks = TALL + 1,
                                   .n_opens = 2,
                                   .seqs = seqs,
                                   .tokens = ids,
                                   .blocks = blocks,
                                   .opens = opens};
    MUST(backend_open(&be, "cuda", &(struct backend_config){0}));
    MUST(step_create(&step, &cfg, be));
    MUST(step_apply(step, &plan, &dev));
    uint64_t before = emulator_counts().bytes_to_device;
    MUST(step_upload(step));
    MUST(backend_ops_of(be)->sync(be));
    uint64_t bytes = emulator_counts().bytes_to_device - before;
    struct view table = view_columns(view_rows(dev.block_table, 0, 1), 0, TALL);
    MUST(backend_ops_of(be)->read(be, got, table));
    cr_assert_eq(memcmp(got, blocks, sizeof got), 0);
    MUST(backend_ops_of(be)->read(be, got, view_columns(view_rows(dev.block_table, 1, 1), 0, 1)));
    cr_assert_eq(got[0], blocks[TALL]);
    step_destroy(step);
    backend_ops_of(be)->close(be);
    return bytes;
}

/* It goes by the longest sequence of the step, not by --max-ctx (here 32 KB a sequence). */
Test(rank_cuda, block_tables_are_uploaded_as_far_as_they_are_used)
{
    uint64_t bytes = bytes_of_step(131072), one = TALL * sizeof(int32_t);
    cr_assert_eq(bytes, bytes_of_step(TALL * 16));
    cr_assert_lt(bytes, 4096u + 2 * one, "%d bytes", (int)bytes);
}

Test(rank_cuda, a_decode_is_one_launch)
{
    check_decode("llama-gqa");
}

/* Soft-caps, norms behind the parts, norm weights less 1, two tables of RoPE, factors. */
Test(rank_cuda, a_decode_of_other_families_is_one_launch)
{
    static const char *const names[] = {"gemma2",  "gemma3",  "ministral3",
                                        "granite", "exaone4", "cohere2"};
    for (size_t i = 0; i < (reduced() ? 3 : ARRAY_LEN(names)); i++)
        check_decode(names[i]);
}

/* The experts that a step chooses are the device's own affair. */
Test(rank_cuda, a_decode_with_experts_is_one_launch)
{
    check_decode("qwen3moe-v5-bf16");
    if (!reduced())
        check_decode("mixtral");
}

/* States of recurrent layers, which each sequence has a slot for. */
Test(rank_cuda, a_decode_with_states_is_one_launch)
{
    check_decode("qwen3next");
    check_decode("nemotron-h-moe");
}

/* The upload of a step has run before the step in front of it has, and spoils nothing of that. */
static void check_overlap(const char *graphs)
{
    static tokens got, expected;
    struct rank_rig r;
    int32_t last[RIG_SEQS];
    oracle("llama-gqa", false, expected);
    MUST(rank_rig_plan(&r, golden("llama-gqa"), graphs, "strict"));
    MUST(rank_rig_load(&r));
    emulator_defer(true);
    MUST(rank_rig_run(&r, 0, NULL, false));
    for (uint32_t i = 1; i < RIG_NEW; i++) {
        struct emulator_calls a = emulator_counts();
        cr_assert_gt(a.pending, 3u, "step %u does not wait", i - 1);
        MUST(rank_rig_run(&r, i, NULL, false));
        struct emulator_calls b = emulator_counts();
        cr_assert_gt(b.pending, a.pending);
        cr_assert_eq(b.to_device - a.to_device, 2, "the upload of step %u waits", i);
        cr_assert_eq(b.on_device + b.to_host, a.on_device + a.to_host);
        MUST(rank_rig_take(&r, got[i - 1], last));
    }
    MUST(rank_rig_take(&r, got[RIG_NEW - 1], last));
    emulator_defer(false);
    rank_rig_close(&r);
    MUST(rank_rig_same(got, expected));
}

Test(rank_cuda, uploads_run_beside_a_step)
{
    check_overlap("off");
}

Test(rank_cuda, uploads_run_beside_a_graph)
{
    check_overlap("auto");
}
