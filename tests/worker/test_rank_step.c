/* A rank's step in this process: its memory is what was planned, to the byte, and a step allocates
 * nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "collectives/coll.h"
#include "worker/rank_step.h"
#include "wrap_allocator.h"

static bool counting;
static int n_allocations;

static bool allocation_fails(void)
{
    n_allocations += counting;
    return false;
}

/* The CPU backend, adding up what it is asked for. */
static struct backend_ops summing;
static enum status (*real_alloc)(struct backend *, size_t, enum mem_kind, struct buf **);
static size_t n_bytes;

static enum status sum_alloc(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out)
{
    n_bytes += alloc_bytes(bytes);
    return real_alloc(be, bytes, kind, out);
}

struct rig {
    struct backend *be;
    struct loader *ld;
    struct coll *co;
    struct decoder *model;
    struct rank_step *step;
    struct vocab_part part;
    struct rank_step_config cfg;
};

static void open_rig(struct rig *r)
{
    char path[512];
    struct backend_config bc = {.threads = 2};
    struct decoder_config dc = {.world = 1,
                                .max_tokens = 64,
                                .max_seqs = 4,
                                .max_out = 4,
                                .n_blocks = 64,
                                .block_len = 8,
                                .max_ctx = 128,
                                .kv_dtype = DT_F32};
    snprintf(path, sizeof path, "%s/tests/golden/models/llama-gqa", INGOT_SOURCE_DIR);
    cr_assert_eq(backend_open(&r->be, "cpu", &bc), ST_OK, "%s", status_text());
    summing = *backend_ops_of(r->be);
    real_alloc = summing.alloc;
    summing.alloc = sum_alloc;
    ((struct backend_base *)(void *)r->be)->ops = &summing;
    cr_assert_eq(loader_open(&r->ld, path), ST_OK, "%s", status_text());
    const struct model_config *mc = loader_config(r->ld);
    struct coll_config cc = {.world = 1,
                             .be = r->be,
                             .max_bytes = decoder_coll_bytes(mc, &dc),
                             .deadline_ms = 1000,
                             .one_host = true};
    cr_assert_eq(coll_open(&r->co, NULL, &cc), ST_OK, "%s", status_text());
    cr_assert_eq(decoder_open(&r->model, mc, r->ld, r->be, r->co, &dc), ST_OK, "%s", status_text());
    r->part = decoder_shard(r->model)->vocab;
    r->cfg = (struct rank_step_config){
        .world = 1,
        .be = r->be,
        .co = r->co,
        .model = r->model,
        .parts = &r->part,
        .step = {.max_tokens = 64,
                 .max_seqs = 4,
                 .max_open = 4,
                 .max_ctx = 128,
                 .n_blocks = 64,
                 .block_len = 8,
                 .vocab = mc->vocab,
                 .max_edits = 64},
    };
    n_bytes = 0;
    cr_assert_eq(rank_step_create(&r->step, &r->cfg), ST_OK, "%s", status_text());
}

static void close_rig(struct rig *r)
{
    rank_step_destroy(r->step);
    decoder_close(r->model);
    r->co->ops->close(r->co);
    loader_close(r->ld);
    backend_ops_of(r->be)->close(r->be);
}

Test(rank_step, memory_is_what_was_planned)
{
    struct rig r;
    counting = true;
    open_rig(&r);
    counting = false;
    cr_assert_gt(n_allocations, 0); /* the counter counts */
    struct mem_bytes plan = rank_step_bytes(&r.cfg);
    cr_assert_eq(n_bytes, plan.device + plan.pinned, "%zu bytes taken, %zu planned", n_bytes,
                 plan.device + plan.pinned);
    close_rig(&r);
}

Test(rank_step, a_step_allocates_nothing)
{
    struct rig r;
    int32_t tokens[2 * 20], blocks[] = {0, 1, 2, 3, 4, 5, 6, 7}, rows[4], n_rows;
    struct plan_seq seqs[2];
    struct plan_open opens[2];
    int n_whole = 0;
    open_rig(&r);
    for (int i = 0; i < 40; i++)
        tokens[i] = i;
    for (int i = 0; i < 2; i++)
        opens[i] = (struct plan_open){
            .seq_id = 1 + (uint64_t)i, .sp = sample_params_default(), .n_prompt = 20};
    opens[0].sp.temperature = 5.0f; /* often needs the whole row */
    opens[1].sp.presence_penalty = 1.0f;
    counting = true;
    for (uint32_t at = 0; at < 8; at++) {
        struct step_plan p = {.n_seqs = 2,
                              .n_tokens = at ? 2 : 40,
                              .n_blocks = at ? 0 : 8,
                              .n_opens = at ? 0 : 2,
                              .seqs = seqs,
                              .tokens = tokens,
                              .blocks = blocks,
                              .opens = opens};
        for (uint32_t i = 0; i < 2; i++)
            seqs[i] = (struct plan_seq){.seq_id = 1 + i,
                                        .pos = at ? 19 + at : 0,
                                        .n_tokens = at ? 1 : 20,
                                        .token_off = at ? i : 20 * i,
                                        .n_blocks = at ? 0 : 4,
                                        .block_off = at ? 0 : 4 * i,
                                        .want = WANT_LAST};
        cr_assert_eq(rank_step_run(r.step, &p), ST_OK, "%s", status_text());
        cr_assert_eq(rank_step_sample(r.step, rows, &n_rows), ST_OK, "%s", status_text());
        cr_assert_eq(rank_step_full(r.step, rows, n_rows), ST_OK, "%s", status_text());
        n_whole += n_rows;
        if (at == 0)
            cr_assert_eq(n_allocations, 0, "%d allocations in the first step", n_allocations);
    }
    counting = false;
    cr_assert_eq(n_allocations, 0, "%d allocations in 8 steps", n_allocations);
    cr_assert_gt(n_whole, 0);
    close_rig(&r);
}
