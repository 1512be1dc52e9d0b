/* A rank on the emulated device, as a worker makes it: the memory plan against what is taken, and
 * what the host does in a step. */
#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "bench/shape_source.h"
#include "common/options.h"
#include "worker/rank_plan.h"

enum { SEQS = 3 };

struct rig {
    struct worker_options opt;
    struct backend *be;
    struct loader *ld;
    struct rank_plan plan;
    struct decoder *model;
    struct rank_step *step;
};

#define MUST(call) cr_assert_eq((call), ST_OK, "%s", status_detail())

static void open_plan(struct rig *r, struct loader *ld, const char *graphs, const char *numerics)
{
    struct option_result res;
    struct rank_place place = {.world = 1, .n_on_host = 1, .one_host = true};
    uint64_t blocks;
    char text[2][16];
    snprintf(text[0], sizeof text[0], "%s", graphs);
    snprintf(text[1], sizeof text[1], "%s", numerics);
    char *argv[] = {"rank", "--backend", "cuda",  "--max-seqs",  "3",    "--max-step-tokens",
                    "16",   "--max-ctx", "64",    "--kv-blocks", "24",   "--block-len",
                    "8",    "--graphs",  text[0], "--numerics",  text[1]};
    *r = (struct rig){.ld = ld};
    MUST(options_parse(&worker_option_set, &r->opt, (int)ARRAY_LEN(argv), argv, &res));
    struct backend_config bc = worker_backend_config(&r->opt, 1, 0);
    MUST(backend_open(&r->be, "cuda", &bc));
    MUST(rank_plan_init(&r->plan, &r->opt, &place, r->be, ld));
    MUST(rank_plan_blocks(&r->plan, &blocks));
    MUST(rank_plan_set_blocks(&r->plan, blocks));
}

static void load(struct rig *r)
{
    MUST(rank_plan_reserve(&r->plan));
    MUST(decoder_open(&r->model, loader_config(r->ld), r->ld, r->be, NULL, &r->plan.dc));
    r->plan.rc.model = r->model;
    backend_part(r->be, PART_STEP);
    MUST(rank_step_create(&r->step, &r->plan.rc));
}

static void close_rig(struct rig *r)
{
    rank_step_destroy(r->step);
    decoder_close(r->model);
    rank_plan_fini(&r->plan);
    backend_ops_of(r->be)->close(r->be);
    loader_close(r->ld);
}

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
    struct rig r;
    struct mem_plan used;
    size_t n_blocks;
    uint64_t before = emulator_counts().allocations;
    open_plan(&r, ld, graphs, numerics);
    cr_assert_eq(emulator_counts().allocations, before, "planning takes memory");
    load(&r);
    backend_ops_of(r.be)->used(r.be, &used);
    const struct decoder_memory *m = &r.plan.memory;
    cr_assert(m->weights > 0 && m->kv > 0 && r.plan.step > 0 && r.plan.own > 0);
    cr_assert_eq(used.part[PART_OWN], r.plan.own);
    cr_assert_eq(used.part[PART_COLL], r.plan.coll);
    cr_assert_eq(used.part[PART_WEIGHTS], m->weights);
    cr_assert_eq(used.part[PART_SCRATCH], m->scratch);
    cr_assert_eq(used.part[PART_KV], m->kv);
    cr_assert_eq(used.part[PART_TABLES], m->tables);
    cr_assert_eq(used.part[PART_STEP], r.plan.step);
    cr_assert_eq(used.pinned + alloc_bytes(COLL_PINNED_BYTES), r.plan.pinned); /* one rank */
    cr_assert_eq(emulator_counts().allocations, before + 2);
    cr_assert_eq(emulator_in_use(&n_blocks), r.plan.total - r.plan.graph);
    close_rig(&r);
}

Test(rank_cuda, the_plan_is_what_is_taken)
{
    check_plan(golden("llama-gqa"), "off", "strict");
    check_plan(golden("qwen2"), "auto", "fast");
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
    struct rig r;
    size_t n_blocks;
    open_plan(&r, golden("llama-gqa"), "off", "strict");
    emulator_memory(r.plan.total - 1); /* since the plan was made */
    cr_assert_eq(rank_plan_reserve(&r.plan), ST_NOMEM);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        cr_assert_not_null(strstr(status_text(), words[i]), "'%s' has no '%s'", status_text(),
                           words[i]);
    emulator_in_use(&n_blocks);
    cr_assert_eq(n_blocks, 0);
    emulator_memory(r.plan.total);
    MUST(rank_plan_reserve(&r.plan));
    close_rig(&r);
}

/* ---- steps ---- */

enum { NEW = 7, BLOCK = 8, ROOM = 2 * BLOCK };
static const uint32_t prompts[SEQS] = {5, 3, 8};

struct draft {
    struct step_plan p;
    struct plan_seq seqs[SEQS];
    struct plan_open opens[SEQS];
    int32_t tokens[SEQS * ROOM], blocks[SEQS * 2];
    struct logit_bias bias[2];
};

/* Greedy, drawn from the top k, with edits; all drawn by the device unless `penalty`. */
static void open_all(struct draft *d, bool penalty)
{
    for (uint32_t i = 0; i < SEQS; i++)
        d->opens[i] = (struct plan_open){
            .seq_id = 1 + i, .sp = sample_params_default(), .n_prompt = prompts[i]};
    d->opens[0].sp.temperature = d->opens[2].sp.temperature = 0.0f;
    d->opens[1].sp.temperature = 0.9f;
    d->opens[1].sp.top_k = 20;
    d->opens[1].sp.seed = 5;
    d->opens[2].sp.repetition_penalty = penalty ? 1.5f : 1.0f;
    d->opens[2].n_bias = d->p.n_bias = 2;
    d->bias[0] = (struct logit_bias){30, 2.0f};
    d->bias[1] = (struct logit_bias){31, -2.0f};
    d->p.n_opens = SEQS;
}

/* Step 0 computes the prompts; each later one a token of every sequence: last[i], NULL: the one
 * that the step before draws. */
static void make_plan(struct draft *d, uint32_t i_step, const int32_t *last, bool penalty)
{
    *d = (struct draft){.p = {.seqs = d->seqs,
                              .opens = d->opens,
                              .tokens = d->tokens,
                              .blocks = d->blocks,
                              .bias = d->bias,
                              .n_seqs = SEQS}};
    if (i_step == 0)
        open_all(d, penalty);
    for (uint32_t i = 0; i < SEQS; i++) {
        uint32_t n = i_step == 0 ? prompts[i] : 1, n_blocks = i_step == 0 ? 2 : 0;
        d->seqs[i] = (struct plan_seq){.seq_id = 1 + i,
                                       .pos = i_step == 0 ? 0 : prompts[i] + i_step - 1,
                                       .n_tokens = n,
                                       .token_off = d->p.n_tokens,
                                       .n_blocks = n_blocks,
                                       .block_off = d->p.n_blocks,
                                       .want = WANT_LAST};
        for (uint32_t k = 0; k < n; k++)
            d->tokens[d->p.n_tokens++] = i_step == 0 ? (int32_t)(3 + (7 * i + 11 * k) % 90)
                                         : last      ? last[i]
                                                     : TOKEN_OF_LAST_STEP;
        for (uint32_t b = 0; b < n_blocks; b++)
            d->blocks[d->p.n_blocks++] = (int32_t)(2 * i + b);
    }
}

static void run(struct rig *r, uint32_t i_step, const int32_t *last, bool penalty)
{
    static struct draft d;
    make_plan(&d, i_step, last, penalty);
    MUST(rank_step_run(r->step, &d.p));
    memset(&d, 0x5a, sizeof d); /* the plan is not looked at again */
}

/* Takes the tokens of the oldest step that runs. */
static void take(struct rig *r, struct result_token got[SEQS], int32_t last[SEQS])
{
    int32_t rows[SEQS], n_rows;
    uint32_t n;
    MUST(rank_step_sample(r->step, rows, &n_rows));
    cr_assert_eq(n_rows, 0);
    const struct result_token *t = rank_step_tokens(r->step, &n);
    cr_assert_eq(n, SEQS);
    for (uint32_t i = 0; i < SEQS; i++) {
        got[i] = t[i];
        last[i] = t[i].token;
    }
}

/* One step after the other. */
static void generate(const char *graphs, bool penalty, struct result_token got[NEW][SEQS])
{
    struct rig r;
    int32_t last[SEQS];
    open_plan(&r, golden("llama-gqa"), graphs, "strict");
    load(&r);
    for (uint32_t i = 0; i < NEW; i++) {
        run(&r, i, last, penalty);
        take(&r, got[i], last);
    }
    close_rig(&r);
}

static void check_same(struct result_token a[NEW][SEQS], struct result_token b[NEW][SEQS])
{
    for (int i = 0; i < NEW; i++)
        for (int k = 0; k < SEQS; k++)
            cr_assert(a[i][k].token == b[i][k].token && a[i][k].logprob == b[i][k].logprob,
                      "step %d, sequence %d: %d (%a), expected %d (%a)", i, k, b[i][k].token,
                      (double)b[i][k].logprob, a[i][k].token, (double)a[i][k].logprob);
}

/* A decode: one upload and its move to the arrays of the graph, one graph, one download. */
Test(rank_cuda, a_decode_is_one_launch)
{
    static struct result_token got[NEW][SEQS], expected[NEW][SEQS];
    struct rig r;
    int32_t last[SEQS];
    generate("off", true, expected);
    open_plan(&r, golden("llama-gqa"), "auto", "strict");
    load(&r);
    cr_assert_eq(rank_step_n_graphs(r.step), 3); /* 1, 2, 3 sequences */
    for (uint32_t i = 0; i < NEW; i++) {
        struct emulator_calls a = emulator_counts();
        run(&r, i, last, true);
        take(&r, got[i], last);
        struct emulator_calls b = emulator_counts();
        cr_assert_eq(b.allocations, a.allocations, "step %u allocates", i);
        cr_assert_eq(b.to_device - a.to_device, 1);
        cr_assert_eq(b.on_device - a.on_device, 1);
        cr_assert_eq(b.to_host - a.to_host, 1);
        cr_assert_eq(b.sets, a.sets);
        cr_assert_eq(b.graphs - a.graphs, i > 0);
        cr_assert_eq(b.kernels > a.kernels, i == 0, "step %u: %d kernels beside the graph", i,
                     (int)(b.kernels - a.kernels));
    }
    close_rig(&r);
    check_same(expected, got);
}

/* The upload of a step has run before the step in front of it has, and spoils nothing of that. */
static void check_overlap(const char *graphs)
{
    static struct result_token got[NEW][SEQS], expected[NEW][SEQS];
    struct rig r;
    int32_t last[SEQS];
    generate("off", false, expected);
    open_plan(&r, golden("llama-gqa"), graphs, "strict");
    load(&r);
    emulator_defer(true);
    run(&r, 0, NULL, false);
    for (uint32_t i = 1; i < NEW; i++) {
        struct emulator_calls a = emulator_counts();
        cr_assert_gt(a.pending, 3u, "step %u does not wait", i - 1);
        run(&r, i, NULL, false);
        struct emulator_calls b = emulator_counts();
        cr_assert_gt(b.pending, a.pending);
        cr_assert_eq(b.to_device - a.to_device, 1, "the upload of step %u waits", i);
        cr_assert_eq(b.on_device + b.to_host, a.on_device + a.to_host);
        take(&r, got[i - 1], last);
    }
    take(&r, got[NEW - 1], last);
    emulator_defer(false);
    close_rig(&r);
    check_same(expected, got);
}

Test(rank_cuda, uploads_run_beside_a_step)
{
    check_overlap("off");
}

Test(rank_cuda, uploads_run_beside_a_graph)
{
    check_overlap("auto");
}
