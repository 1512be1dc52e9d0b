/* One rank of test_plan_is_real.c: plans as a serving rank does, takes everything, runs steps that
 * use it, writes every row of the KV cache, and prints the plan beside what the process has really
 * taken.  Alone, or one of several under mpirun.
 *
 *   plan_rank MODEL TYPE [worker options]   MODEL: a shape of shape_source.h or a folder */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/shape_source.h"
#include "collectives/control.h"
#include "common/options.h"
#include "worker/rank_plan.h"

enum { SEQS = 4, STEP_TOKENS = 512, DECODES = 3 };

struct rank {
    struct worker_options opt;
    struct control_info ci;
    struct backend *be;
    struct loader *ld;
    struct coll *co;
    struct decoder *model;
    struct rank_step *step;
    struct rank_plan plan;
};

static enum status type_of(const char *name, enum dtype *out)
{
    for (int t = 0; t < DT_N; t++)
        if (strcmp(dtype_name((enum dtype)t), name) == 0) {
            *out = (enum dtype)t;
            return ST_OK;
        }
    FAIL(ST_RANGE, "no type %s", name);
}

/* A shape's tensors are all stored in one region a type, which is not the rank's: made before the
 * first look at the process. */
static enum status open_model(struct loader **ld, const char *model, const char *type)
{
    enum dtype t = DT_F32;
    TRY(type_of(type, &t));
    if (strchr(model, '/'))
        return loader_open(ld, model);
    return shape_loader_open(ld, model, t, t);
}

/* As worker/rank.c. */
static enum status take_all(struct rank *r, struct host_taken base)
{
    struct rank_plan *p = &r->plan;
    struct backend_config bc = worker_backend_config(&r->opt.shared, (int)r->opt.shared.threads, 0);
    struct rank_place place = {.rank = r->ci.rank,
                               .world = r->ci.world,
                               .n_on_host = r->ci.local_world,
                               .one_host = r->ci.one_host,
                               .base = base};
    uint64_t blocks, session = (uint64_t)(uintptr_t)r ^ (uint64_t)base.memory << 20;
    size_t len = sizeof session;
    TRY(backend_open(&r->be, "cpu", &bc));
    TRY(rank_plan_init(p, &r->opt.shared, &place, r->be, r->ld));
    TRY(rank_plan_blocks(p, &blocks));
    TRY(control_min_u64(&blocks));
    TRY(rank_plan_set_blocks(p, blocks));
    TRY(control_bcast(&session, sizeof session, &len, 0));
    struct coll_config cc = rank_plan_coll(p, session);
    TRY(coll_open(&r->co, worker_coll_name(&r->opt.shared), &cc));
    TRY(decoder_open(&r->model, loader_config(r->ld), r->ld, r->be, r->co, &p->dc));
    p->rc.co = r->co;
    p->rc.model = r->model;
    return rank_step_create(&r->step, &p->rc);
}

/* Every byte of the KV cache. */
static enum status write_kv(const struct rank *r)
{
    for (int32_t i = 0; i < loader_config(r->ld)->n_layers; i++) {
        struct kv_layer kv = decoder_kv(r->model, i);
        struct view all[] = {kv.k, kv.v, kv.k_scale, kv.v_scale};
        for (size_t k = 0; k < ARRAY_LEN(all); k++)
            if (all[k].buf)
                TRY(backend_ops_of(r->be)->zero(r->be, all[k]));
    }
    return ST_OK;
}

/* Rows that rank 0 wants whole, to all ranks. */
static enum status share_rows(int32_t *rows, int32_t *n)
{
    int32_t all[SEQS + 1] = {*n};
    size_t len = sizeof all;
    memcpy(all + 1, rows, sizeof all - sizeof *all);
    TRY(control_bcast(all, sizeof all, &len, 0));
    *n = all[0];
    memcpy(rows, all + 1, sizeof all - sizeof *all);
    return ST_OK;
}

/* The k-th step: the first prefills STEP_TOKENS / SEQS tokens of each sequence, the others decode
 * one.  Draws at a high temperature need whole rows. */
static enum status run_step(struct rank *r, int k)
{
    static int32_t tokens[STEP_TOKENS], blocks[STEP_TOKENS];
    struct plan_seq seqs[SEQS];
    struct plan_open open[SEQS];
    uint32_t prompt = STEP_TOKENS / SEQS, each = k == 0 ? prompt : 1;
    uint32_t n_blocks = (prompt + DECODES) / (uint32_t)r->plan.dc.block_len + 1;
    int32_t rows[SEQS] = {0}, n_rows = 0;
    for (int i = 0; i < STEP_TOKENS; i++) {
        tokens[i] = 1 + i % 500;
        blocks[i] = i;
    }
    for (uint32_t i = 0; i < SEQS; i++) {
        seqs[i] = (struct plan_seq){.seq_id = 1 + i,
                                    .pos = k == 0 ? 0 : prompt + (uint32_t)k - 1,
                                    .n_tokens = each,
                                    .token_off = i * each,
                                    .n_blocks = k == 0 ? n_blocks : 0,
                                    .block_off = k == 0 ? i * n_blocks : 0,
                                    .want = WANT_LAST};
        open[i] = (struct plan_open){
            .seq_id = 1 + i, .sp = sample_params_default(), .n_prompt = STEP_TOKENS / SEQS};
        open[i].sp.temperature = 50.0f;
    }
    struct step_plan plan = {.n_seqs = SEQS,
                             .n_tokens = SEQS * each,
                             .n_blocks = k == 0 ? SEQS * n_blocks : 0,
                             .n_opens = k == 0 ? SEQS : 0,
                             .seqs = seqs,
                             .tokens = tokens,
                             .blocks = blocks,
                             .opens = open};
    if (k == 0) { /* scored rows have memory of their own */
        seqs[0].n_score = prompt > MAX_SCORED_ROWS ? MAX_SCORED_ROWS : prompt - 1;
        open[0].sp.prompt_logprobs = true;
        plan.n_scores = seqs[0].n_score;
        plan.scores = tokens;
    }
    TRY(rank_step_run(r->step, &plan));
    if (r->ci.rank == 0)
        TRY(rank_step_sample(r->step, rows, &n_rows));
    TRY(share_rows(rows, &n_rows));
    if (n_rows == 0)
        FAIL(ST_BUG, "no row was wanted whole");
    return rank_step_full(r->step, rows, n_rows);
}

/* Bytes of the maps of the shm collective's segment. */
static size_t segment_size(void)
{
    char line[512];
    size_t from, to, sum = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "/dev/shm/ingot-") && !strstr(line, "bell") &&
            sscanf(line, "%zx-%zx", &from, &to) == 2)
            sum += to - from;
    if (f)
        fclose(f);
    return sum;
}

static enum status report(const struct rank *r)
{
    TRY(control_barrier()); /* shared pages: all ranks have touched theirs */
    struct host_taken now = host_taken();
    TRY(control_barrier()); /* and none is gone */
    const struct rank_plan *p = &r->plan;
    printf("rank %d base %zu files %zu planned %zu own %zu coll %zu segment %zu taken %zu\n",
           r->ci.rank, p->place.base.memory, p->place.base.files, p->total, p->own, p->coll,
           segment_size(), now.memory - p->place.base.memory);
    return ST_OK;
}

static enum status run(struct rank *r, const char *model, const char *type)
{
    TRY(open_model(&r->ld, model, type));
    TRY(control_open(&r->ci));
    TRY(control_barrier());
    struct host_taken base = host_taken();
    TRY(take_all(r, base));
    TRY(write_kv(r));
    for (int k = 0; k <= DECODES; k++)
        TRY(run_step(r, k));
    return report(r);
}

int main(int argc, char **argv)
{
    static struct rank r;
    struct option_result res;
    if (argc < 3 || worker_options_parse(&r.opt, argc - 2, argv + 2, &res) != ST_OK) {
        fprintf(stderr, "plan_rank: %s\n", argc < 3 ? "MODEL TYPE [options]" : status_text());
        return 2;
    }
    if (run(&r, argv[1], argv[2]) != ST_OK) {
        fprintf(stderr, "plan_rank: rank %d: %s\n", r.ci.rank, status_text());
        control_abort(1);
    }
    rank_step_destroy(r.step);
    decoder_close(r.model);
    r.co->ops->close(r.co);
    rank_plan_fini(&r.plan);
    backend_ops_of(r.be)->close(r.be);
    loader_close(r.ld);
    control_close();
    return 0;
}
