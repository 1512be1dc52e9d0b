#include "metal_rank.h"

#include <stdio.h>

#include "metal_case.h"
#include "worker/rank_step_sizes.h"

void metal_rank_plan(struct rank_rig *r, const char *model)
{
    char *argv[] = {"rank", "--backend", "metal", "--max-seqs",  "3",  "--max-step-tokens",
                    "16",   "--max-ctx", "64",    "--kv-blocks", "24", "--block-len",
                    "8"};
    struct option_result res;
    struct rank_place place = {
        .world = 1, .n_on_host = 1, .n_memory = 1, .n_device = 1, .one_host = true};
    uint64_t blocks;
    *r = (struct rank_rig){0};
    snprintf(r->path, sizeof r->path, "%s/tests/golden/models/%s", INGOT_SOURCE_DIR, model);
    MUST(loader_open(&r->ld, r->path));
    MUST(worker_options_parse(&r->opt, (int)ARRAY_LEN(argv), argv, &res));
    struct backend_config bc = worker_backend_config(&r->opt.shared, 1, 0);
    MUST(backend_open(&r->be, "metal", &bc));
    MUST(rank_plan_init(&r->plan, &r->opt.shared, &place, r->be, r->ld));
    MUST(rank_plan_blocks(&r->plan, &blocks));
    MUST(rank_plan_set_blocks(&r->plan, blocks));
}

void metal_rank_check(const struct rank_rig *r)
{
    struct mem_plan used;
    const struct decoder_memory *m = &r->plan.memory;
    const size_t of_host = rank_step_host_bytes(&r->plan.rc);
    metal_pool_used(r->be, &used);
    cr_assert_eq(used.part[PART_OWN], r->plan.own);
    cr_assert_eq(used.part[PART_COLL], r->plan.coll);
    cr_assert_eq(used.part[PART_WEIGHTS], m->weights);
    cr_assert_eq(used.part[PART_SCRATCH], m->scratch);
    cr_assert_eq(used.part[PART_KV], m->kv + m->states);
    cr_assert_eq(used.part[PART_TABLES], m->tables);
    cr_assert_eq(used.part[PART_STEP] + of_host, r->plan.step, "%zu + %zu, planned %zu",
                 used.part[PART_STEP], of_host, r->plan.step);
    cr_assert(m->weights > 0 && m->kv > 0 && used.part[PART_STEP] > 0);
}
