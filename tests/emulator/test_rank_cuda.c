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
