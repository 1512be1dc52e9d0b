/* A rank's step in this process: its memory is what was planned, to the byte, a step allocates nothing, and the first
 * steps before requests leave no state. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll.h"
#include "worker/rank_step.h"
#include "worker/rank_warm.h"
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

/* The sizes of a rig's steps, that a test changes before it opens one. */
static struct step_config sizes = {.max_tokens = 64,
                                   .max_seqs = 4,
                                   .max_open = 4,
                                   .max_ctx = 128,
                                   .n_blocks = 64,
                                   .block_len = 8,
                                   .max_edits = 64};

static void open_rig(struct rig *r)
{
    char path[512];
    struct backend_config bc = {.threads = 2};
    struct decoder_config dc = {.world = 1,
                                .max_tokens = sizes.max_tokens,
                                .max_seqs = sizes.max_seqs,
                                .max_out = sizes.max_seqs,
                                .n_blocks = sizes.n_blocks,
                                .block_len = sizes.block_len,
                                .max_ctx = sizes.max_ctx,
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
        .step = sizes,
    };
    r->cfg.step.vocab = mc->vocab;
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

/* ---- the first steps ---- */

/* How many of the first keys of layer 0, of that many, are not zero. */
static int n_keys_written(const struct rig *r, int n)
{
    struct view k = decoder_kv(r->model, 0).k;
    const float *p = backend_ops_of(r->be)->host_ptr(r->be, k);
    int n_written = 0;
    for (int i = 0; i < n; i++)
        n_written += p[i] != 0.0f;
    return n_written;
}

enum { PROMPT = 11, STEPS = 12 };

/* Every place for a sequence and every block is taken by the same prompt. */
static void generate(struct rig *r, struct result_token out[STEPS][4])
{
    int32_t tokens[4 * PROMPT], blocks[64], rows[4], n_rows;
    struct plan_seq seqs[4];
    struct plan_open opens[4];
    uint32_t n = 0;
    for (int32_t i = 0; i < 64; i++)
        blocks[i] = i;
    for (uint32_t at = 0; at < STEPS; at++) {
        uint32_t each = at ? 1 : PROMPT;
        struct step_plan p = {.step_id = 1 + at,
                              .n_seqs = 4,
                              .n_tokens = 4 * each,
                              .n_blocks = at ? 0 : 64,
                              .n_opens = at ? 0 : 4,
                              .seqs = seqs,
                              .tokens = tokens,
                              .blocks = blocks,
                              .opens = opens};
        for (uint32_t i = 0; i < 4; i++) {
            opens[i] = (struct plan_open){
                .seq_id = 1 + i, .sp = sample_params_default(), .n_prompt = PROMPT};
            opens[i].sp.temperature = i == 3 ? 5.0f : (float)i * 0.5f;
            opens[i].sp.top_k = i == 3 ? 0 : 20;
            opens[i].sp.seed = 7 + i;
            opens[i].sp.repetition_penalty = i == 2 ? 1.5f : 1.0f;
            opens[i].sp.logprobs = true;
            opens[i].sp.top_logprobs = 5;
            seqs[i] = (struct plan_seq){.seq_id = 1 + i,
                                        .pos = at ? PROMPT - 1 + at : 0,
                                        .n_tokens = each,
                                        .token_off = each * i,
                                        .n_blocks = at ? 0 : 16,
                                        .block_off = at ? 0 : 16 * i,
                                        .want = WANT_LAST};
            for (uint32_t k = 0; k < each; k++)
                tokens[each * i + k] =
                    at ? out[at - 1][i].token : (int32_t)(3 + 17 * i + 5 * k) % 104;
        }
        cr_assert_eq(rank_step_run(r->step, &p), ST_OK, "%s", status_text());
        cr_assert_eq(rank_step_sample(r->step, rows, &n_rows), ST_OK, "%s", status_text());
        cr_assert_eq(rank_step_full(r->step, rows, n_rows), ST_OK, "%s", status_text());
        memcpy(out[at], rank_step_tokens(r->step, &n), sizeof out[at]);
        cr_assert_eq(n, 4);
    }
}

Test(rank_step, first_steps_leave_no_state)
{
    static struct result_token cold[STEPS][4], warm[STEPS][4];
    struct rig r;
    open_rig(&r);
    cr_assert_eq(n_keys_written(&r, 64), 0);
    generate(&r, cold);
    close_rig(&r);
    open_rig(&r);
    n_bytes = 0;
    counting = true;
    cr_assert_eq(rank_warm_up(r.step), ST_OK, "%s", status_text());
    counting = false;
    cr_assert_eq(n_allocations, 0, "%d allocations", n_allocations);
    cr_assert_eq(n_bytes, 0);
    cr_assert_gt(n_keys_written(&r, 64), 0); /* it has computed something */
    cr_assert_eq(rank_step_n_running(r.step), 0);
    cr_assert(rank_step_may_run(r.step));
    generate(&r, warm); /* opens as many sequences as there may be, one with the same id */
    close_rig(&r);
    for (int at = 0; at < STEPS; at++)
        for (int i = 0; i < 4; i++) {
            const struct result_token *a = &cold[at][i], *b = &warm[at][i];
            cr_assert_eq(a->token, b->token);
            cr_assert_eq(memcmp(&a->logprob, &b->logprob, sizeof a->logprob), 0);
            cr_assert_eq(a->n_top, 5);
            cr_assert_eq(b->n_top, 5);
            cr_assert_eq(memcmp(a->top, b->top, 5 * sizeof *a->top), 0);
        }
}

Test(rank_step, first_steps_fit_the_least_sizes)
{
    const struct step_config least[] = {
        {.max_tokens = 1, .max_ctx = 128, .n_blocks = 64, .block_len = 8},
        {.max_tokens = 64, .max_ctx = 1, .n_blocks = 1, .block_len = 1},
        {.max_tokens = 64, .max_ctx = 2, .n_blocks = 1, .block_len = 2},
        {.max_tokens = 64, .max_ctx = 128, .n_blocks = 3, .block_len = 1},
        {.max_tokens = 64, .max_ctx = 128, .n_blocks = 64, .block_len = 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(least); i++) {
        struct rig r;
        sizes = least[i];
        sizes.max_seqs = sizes.max_open = sizes.max_edits = 1;
        open_rig(&r);
        cr_assert_eq(rank_warm_up(r.step), ST_OK, "%zu: %s", i, status_text());
        close_rig(&r);
    }
}

static enum status no_device(struct backend *be, int slot, uint64_t wait_us, bool *passed)
{
    (void)be;
    (void)slot;
    (void)wait_us;
    (void)passed;
    FAIL(ST_DEVICE, "the device is gone");
}

Test(rank_step, first_steps_that_fail_are_named)
{
    struct rig r;
    open_rig(&r);
    summing.event_wait = no_device;
    cr_assert_eq(rank_warm_up(r.step), ST_DEVICE);
    cr_assert_str_eq(status_text(), "the first steps, before any request: the device is gone");
    close_rig(&r);
}
