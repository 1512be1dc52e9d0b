/* What a serving rank plans against what this process really takes: private anonymous memory before
 * the backend is opened and after prefills of whole steps, decodes and draws, with every row of the
 * KV cache written.  Criterion runs each test in a process of its own. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/shape_source.h"
#include "common/options.h"
#include "rig.h"
#include "worker/rank_plan.h"

enum { SEQS = 4, STEP_TOKENS = 512 };

/* Anonymous pages of this process, in bytes; 0: the system does not say. */
static size_t anonymous_bytes(void)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %zu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* Every byte of the KV cache. */
static void write_kv(struct backend *be, const struct decoder *m, int32_t n_layers)
{
    for (int32_t i = 0; i < n_layers; i++) {
        struct kv_layer kv = decoder_kv(m, i);
        struct view all[] = {kv.k, kv.v, kv.k_scale, kv.v_scale};
        for (size_t k = 0; k < ARRAY_LEN(all); k++)
            if (all[k].buf)
                must(backend_ops_of(be)->zero(be, all[k]), "zero");
    }
}

/* One step: `opens` prefills STEP_TOKENS / SEQS tokens of each sequence, else each decodes one. */
static void run_step(struct rank_step *step, const struct rank_plan *p, bool opens)
{
    static int32_t tokens[STEP_TOKENS], blocks[STEP_TOKENS];
    struct plan_seq seqs[SEQS];
    struct plan_open open[SEQS];
    uint32_t each = opens ? STEP_TOKENS / SEQS : 1;
    uint32_t n_blocks = (STEP_TOKENS / SEQS) / (uint32_t)p->dc.block_len + 1;
    int32_t rows[SEQS], n_rows;
    for (int i = 0; i < STEP_TOKENS; i++) {
        tokens[i] = 1 + i % 500;
        blocks[i] = i;
    }
    for (uint32_t i = 0; i < SEQS; i++) {
        seqs[i] = (struct plan_seq){.seq_id = 1 + i,
                                    .pos = opens ? 0 : STEP_TOKENS / SEQS,
                                    .n_tokens = each,
                                    .token_off = i * each,
                                    .n_blocks = opens ? n_blocks : 0,
                                    .block_off = opens ? i * n_blocks : 0,
                                    .want = WANT_LAST};
        open[i] = (struct plan_open){
            .seq_id = 1 + i, .sp = sample_params_default(), .n_prompt = STEP_TOKENS / SEQS};
        open[i].sp.temperature = 50.0f; /* draws from whole rows */
    }
    struct step_plan plan = {.n_seqs = SEQS,
                             .n_tokens = SEQS * each,
                             .n_blocks = opens ? SEQS * n_blocks : 0,
                             .n_opens = opens ? SEQS : 0,
                             .seqs = seqs,
                             .tokens = tokens,
                             .blocks = blocks,
                             .opens = open};
    must(rank_step_run(step, &plan), "step");
    must(rank_step_sample(step, rows, &n_rows), "sample");
    must(rank_step_full(step, rows, n_rows), "whole rows");
}

/* slack: bytes that the two may differ by besides the share of the plan. */
static void check(struct loader *ld, double share, size_t slack)
{
    struct worker_options opt;
    struct option_result res;
    char *argv[] = {"plan", "--threads", "2",   "--max-seqs",  "4",  "--max-step-tokens",
                    "512",  "--max-ctx", "512", "--kv-blocks", "768"};
    struct rank_place place = {0, 1, 1, true};
    struct backend *be;
    struct decoder *model;
    struct rank_step *step;
    struct rank_plan p;
    uint64_t blocks;
    must(options_parse(&worker_option_set, &opt, (int)ARRAY_LEN(argv), argv, &res), "options");
    size_t before = anonymous_bytes();
    if (before == 0)
        cr_skip_test("the system does not tell what a process takes");
    struct backend_config bc = worker_backend_config(&opt, 2, 0);
    must(backend_open(&be, "cpu", &bc), "backend");
    must(rank_plan_init(&p, &opt, &place, be, ld), "plan");
    must(rank_plan_blocks(&p, &blocks), "blocks");
    must(rank_plan_set_blocks(&p, blocks), "plan");
    must(decoder_open(&model, loader_config(ld), ld, be, NULL, &p.dc), "decoder");
    p.rc.model = model;
    must(rank_step_create(&step, &p.rc), "step");
    write_kv(be, model, loader_config(ld)->n_layers);
    run_step(step, &p, true);
    run_step(step, &p, false);
    size_t after = anonymous_bytes();
    double taken = (double)after - (double)before, planned = (double)p.total;
    printf("planned %.0f, taken %.0f bytes: %+.2f %%\n", planned, taken,
           (taken - planned) / planned * 100);
    cr_assert_leq(fabs(taken - planned), planned * share + (double)slack,
                  "planned %.0f bytes (weights %zu, KV %zu, scratch %zu, tables %zu, step %zu, "
                  "backend %zu), taken %.0f: %+.2f %%",
                  planned, p.memory.weights, p.memory.kv, p.memory.scratch, p.memory.tables, p.step,
                  p.own, taken, (taken - planned) / planned * 100);
    rank_step_destroy(step);
    decoder_close(model);
    rank_plan_fini(&p);
    backend_ops_of(be)->close(be);
    loader_close(ld);
}

/* 188 million weights: 200 MB in Q8_0, 376 MB in bf16.  Up to 9 MB of the plan are working memory
 * of the backend that rows of this width leave unwritten. */
static void check_shape(enum dtype type)
{
    struct loader *ld;
    must(shape_loader_open(&ld, "200m", type, type), "200m");
    check(ld, 0.02, 0);
}

Test(plan, bf16_200m)
{
    check_shape(DT_BF16);
}

Test(plan, q8_0_200m)
{
    check_shape(DT_Q8_0);
}

/* A model that is smaller than the backend's working memory (13 MiB), of which steps of narrow rows
 * write only a part: the plan is an upper bound of it. */
Test(plan, stories)
{
    struct loader *ld;
    const char *dir = shared_data("models/stories260K");
    if (!dir)
        cr_skip_test("no shared data: models/stories260K");
    must(loader_open(&ld, dir), dir);
    check(ld, 0.02, 12 << 20);
}
